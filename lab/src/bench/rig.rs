//! A runtime with one prepared pipeline and its tally. Most workloads measure with it.

use std::sync::Arc;

use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::{Outcome, Submission};
use boxwork_runtime::statistics::ClassLimit;
use boxwork_runtime::topology::Topology;
use boxwork_runtime::{Config, Request, Runtime};

use super::Error;
use super::boxes;
use super::graph::Graph;
use super::spin::{SEED, Spin, spin};
use super::tally::Tally;

/// The machine of a case.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Its slots.
    pub topology: Topology,
    /// Whether each worker is pinned to its core.
    pub pin: bool,
    pub(super) spin: Spin,
}

impl Setup {
    /// The number of workers.
    pub fn workers(&self) -> usize {
        self.topology.slots_count()
    }
}

/// A runtime, a prepared pipeline, and its boxes' counters.
pub struct Rig {
    pub runtime: Runtime,
    pub prepared: Arc<Prepared>,
    pub tally: Arc<Tally>,
}

impl Rig {
    pub fn new(setup: &Setup, graph: &Graph) -> Result<Self, Error> {
        Self::with(setup, graph, Config::new(setup.topology.clone()))
    }

    /// Like `new`, with a limit for a blocking class and a limit for the number of threads.
    pub fn with_class(
        setup: &Setup,
        graph: &Graph,
        class: &str,
        limit: ClassLimit,
        threads_max: Option<usize>,
    ) -> Result<Self, Error> {
        let mut config = Config::new(setup.topology.clone());
        config.blocking.insert(class.to_owned(), limit);
        config.threads_max = threads_max.unwrap_or(config.threads_max);
        Self::with(setup, graph, config)
    }

    /// As `new`, with this configuration of the runtime.
    pub fn with(setup: &Setup, graph: &Graph, config: Config) -> Result<Self, Error> {
        let runtime = Runtime::start(Config { pin: setup.pin, ..config }).map_err(Error::Threads)?;
        let environment = runtime.environment();
        let prepared = Prepared::new(&graph.declaration, &boxes::catalog(), &[].into(), &environment)?;
        let prepared = Arc::new(prepared);
        let tally = Tally::of(&prepared);
        Ok(Self { runtime, prepared, tally })
    }

    pub fn submit(&self) -> Result<Request, Error> {
        Ok(self.runtime.submit(&self.prepared, &Submission::default())?)
    }

    /// Runs one request from its submission to its end, after resetting the counters.
    pub fn run(&self) -> Result<Outcome, Error> {
        self.run_with(&Submission::default())
    }

    /// As `run`, with the request's own values.
    pub fn run_with(&self, submission: &Submission) -> Result<Outcome, Error> {
        self.tally.reset();
        let outcome = self.runtime.submit(&self.prepared, submission)?.wait();
        outcome.result.clone()?;
        Ok(outcome)
    }

    /// Whether all envelopes sent have arrived.
    pub fn check_arrived(&self, wanted: u64) -> Result<(), Error> {
        Error::unless_equal("the number of arrivals", self.tally.arrived(), wanted)
    }

    /// Whether this many tasks have each computed the result of a task of this many steps.
    pub fn check_tasks(&self, tasks: u64, iterations: u64) -> Result<(), Error> {
        let wanted = u64::from(spin(iterations, SEED)).wrapping_mul(tasks);
        Error::unless_equal("the sum of the tasks' results", self.tally.checksum(), wanted)
    }
}
