//! The facade: start a runtime, submit requests of prepared pipelines, wait for them, shut down.

use std::sync::Arc;
use std::time::Duration;

use crate::config::Config;
use crate::feeding::LazyDevices;
use crate::model::Model;
use crate::operator::{Cancellation, Environment};
use crate::prepare::{PrepareError, Prepared};
use crate::request::{Outcome, Progress, RequestError, RequestId, RequestStatistics, Submission};
use crate::scheduler::Scheduler;
use crate::statistics::{SchedulerStatistics, TraceEvent};
use crate::sync::Thread;
use crate::topology::Topology;

/// Slots, the threads that hold them, and the requests that they run.
///
/// Dropping it cancels the requests that still run and waits for them.
pub struct Runtime {
    scheduler: Arc<Scheduler>,
    environment: Environment,
}

impl Runtime {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the system refuses to start a thread.
    pub fn start(config: Config) -> std::io::Result<Self> {
        let environment = Environment {
            slots: config.topology.slots_count(),
            cancellation: Cancellation::never(),
            machine: Arc::new(config.topology.clone()),
            devices: Arc::clone(&config.devices),
            memory: config.memory.clone(),
            maps: config.maps,
        };
        Ok(Self { scheduler: Scheduler::start(config)?, environment })
    }

    /// Submits one request of a prepared pipeline.
    ///
    /// # Errors
    /// When a value does not fit, or an operator cannot make its box.
    pub fn submit(&self, prepared: &Arc<Prepared>, submission: &Submission) -> Result<Request, PrepareError> {
        let id = self.scheduler.next_request();
        let model = Model::new(id, Arc::clone(prepared), submission, &self.environment)?;
        self.scheduler.submit(Arc::clone(&model), submission.deadline);
        Ok(Request { model, scheduler: Arc::clone(&self.scheduler) })
    }

    /// The environment to prepare pipelines with for this runtime. Such a preparation cannot be cancelled; set
    /// [`Environment::cancellation`] to change that.
    pub fn environment(&self) -> Environment {
        self.environment.clone()
    }

    /// The machine that it runs on.
    pub fn topology(&self) -> &Topology {
        self.scheduler.topology()
    }

    /// The devices that its boxes may compute on.
    pub fn devices(&self) -> &Arc<LazyDevices> {
        &self.environment.devices
    }

    /// The scheduler's counters so far.
    pub fn statistics(&self) -> SchedulerStatistics {
        self.scheduler.statistics()
    }

    /// The statistics so far of the requests under way, oldest first.
    pub fn requests(&self) -> Vec<RequestStatistics> {
        self.scheduler.request_statistics()
    }

    /// Takes the recorded events, if [`Config::trace`] is set.
    pub fn take_trace(&self) -> Vec<TraceEvent> {
        self.scheduler.take_trace()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if self.scheduler.is_on_own_thread() {
            // The callback of a request has dropped the runtime. Its thread cannot wait for itself.
            let scheduler = Arc::clone(&self.scheduler);
            let ended = Thread::spawn("boxwork-end".to_owned(), move || scheduler.shut_down());
            debug_assert!(
                ended.is_ok(),
                "the system refused a thread: the runtime's threads are left behind"
            );
        } else {
            self.scheduler.shut_down();
        }
    }
}

/// A request under way. It continues when this handle is dropped.
pub struct Request {
    model: Arc<Model>,
    scheduler: Arc<Scheduler>,
}

impl Request {
    /// Its number.
    pub fn id(&self) -> RequestId {
        self.model.id()
    }

    /// Waits until it ends.
    pub fn wait(&self) -> Outcome {
        self.model
            .wait(None)
            .unwrap_or_else(|| unreachable!("a wait without a limit returns at the end only"))
    }

    /// Waits until it ends, but not longer than this.
    pub fn wait_timeout(&self, limit: Duration) -> Option<Outcome> {
        self.model.wait(Some(limit))
    }

    /// Calls a function with the outcome when the request ends, so that no thread waits for it; at once if it has ended.
    ///
    /// A thread of the runtime calls it while it holds a slot: hand the outcome on and return. A panic in the function is
    /// printed and harms nothing else.
    pub fn on_end(&self, callback: impl FnOnce(Outcome) + Send + 'static) {
        self.model.on_end(Box::new(callback));
    }

    /// Cancels it: no box is fired any more, waiting closures leave their queues; a running firing goes to its end.
    pub fn cancel(&self) {
        self.scheduler.cancel(&self.model, RequestError::Cancelled);
    }

    /// The progress of its boxes that report it.
    pub fn progress(&self) -> Vec<Progress> {
        self.model.progress()
    }

    /// The number of problems so far.
    pub fn problems_count(&self) -> u64 {
        self.model.problems_count()
    }
}
