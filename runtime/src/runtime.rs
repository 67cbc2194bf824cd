//! The facade: start a runtime, submit requests of prepared pipelines, wait for them, shut down.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::feeding::LazyDevices;
use crate::model::Model;
use crate::operator::{CALLER, Environment};
use crate::prepare::{PrepareError, Prepared};
use crate::request::{Outcome, Progress, RequestError, RequestId, RequestStatistics, Submission};
use crate::scheduler::Scheduler;
use crate::statistics::{ClassLimit, SchedulerStatistics, TraceEvent};
use crate::sync::Thread;
use crate::topology::Topology;

/// Threads beyond the slots, for closures that block or wait for a permit.
const BACKUP_THREADS_MAX: usize = 256;

/// Boxes that may wait for their requests' callers at once: half of the threads that may block.
const CALLERS_MAX: usize = BACKUP_THREADS_MAX / 2;

/// How a runtime is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// The machine: one slot for each of its logical cores.
    pub topology: Topology,
    /// Whether threads are pinned to the cores of their slots.
    pub pin: bool,
    /// Operations in flight by blocking class; others have a limit of 8.
    pub blocking: BTreeMap<String, ClassLimit>,
    /// The most threads; closures beyond it block holding their slot. At least one for each slot.
    pub threads_max: usize,
    /// Whether a request keeps to the node that took it first. Without, every slot is as good as another: for
    /// comparing.
    pub homes: bool,
    /// Whether firings are recorded for [`Runtime::take_trace`].
    pub trace: bool,
    /// Whether a thread looks for boxes that block without saying so
    /// ([`BoxStatistics::undeclared_blocking_ns`](crate::request::BoxStatistics::undeclared_blocking_ns)). On Linux only; elsewhere
    /// nothing is found.
    pub sampler: bool,
    /// The devices that its boxes may compute on, opened when one asks for them. A runtime has devices of its own unless it is
    /// given those of another one.
    pub devices: Arc<LazyDevices>,
}

impl Config {
    /// A runtime with a slot for each logical core of a topology.
    pub fn new(topology: Topology) -> Self {
        let threads_max = topology.slots_count() + BACKUP_THREADS_MAX;
        // Few enough for a spinning disk, enough for a solid-state one. Callers are as many as there are requests.
        let blocking = [("disk", ClassLimit::Fixed(4)), (CALLER, ClassLimit::Fixed(CALLERS_MAX))];
        let blocking = blocking.map(|(class, limit)| (class.to_owned(), limit)).into();
        let devices = Arc::default();
        Self {
            topology,
            pin: false,
            blocking,
            threads_max,
            homes: true,
            trace: false,
            sampler: false,
            devices,
        }
    }

    /// A runtime of so many slots on one node, for tests and `--workers`.
    pub fn flat(slots: usize) -> Self {
        Self::new(Topology::flat(slots))
    }
}

/// Slots, the threads that hold them, and the requests that they run.
///
/// Dropping it cancels what still runs and waits for it.
pub struct Runtime {
    scheduler: Arc<Scheduler>,
    devices: Arc<LazyDevices>,
}

impl Runtime {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn start(config: Config) -> std::io::Result<Self> {
        let devices = Arc::clone(&config.devices);
        Ok(Self { scheduler: Scheduler::start(config)?, devices })
    }

    /// Submits one request of a prepared pipeline.
    ///
    /// # Errors
    /// When its values do not fit, or a box refuses to be made.
    pub fn submit(&self, prepared: &Arc<Prepared>, submission: &Submission) -> Result<Request, PrepareError> {
        let id = self.scheduler.next_request();
        let model = Model::new(id, Arc::clone(prepared), submission, self.topology(), &self.devices)?;
        self.scheduler.submit(Arc::clone(&model), submission.deadline);
        Ok(Request { model, scheduler: Arc::clone(&self.scheduler) })
    }

    /// What pipelines are prepared with for this runtime. Nobody can stop such a preparation; set
    /// [`Environment::cancellation`] if somebody shall.
    pub fn environment(&self) -> Environment {
        let devices = Arc::clone(&self.devices);
        Environment { devices, ..Environment::of_slots(self.topology().slots_count()) }
    }

    /// The machine that it runs on.
    pub fn topology(&self) -> &Topology {
        self.scheduler.topology()
    }

    /// The devices that its boxes may compute on.
    pub fn devices(&self) -> &Arc<LazyDevices> {
        &self.devices
    }

    /// What the scheduler did so far.
    pub fn statistics(&self) -> SchedulerStatistics {
        self.scheduler.statistics()
    }

    /// What the requests under way have done so far, oldest first.
    pub fn requests(&self) -> Vec<RequestStatistics> {
        self.scheduler.request_statistics()
    }

    /// Takes what was recorded, where [`Config::trace`] asked for it.
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

/// A request under way. Dropping it lets it run on.
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

    /// How far its boxes are, for those that tell.
    pub fn progress(&self) -> Vec<Progress> {
        self.model.progress()
    }

    /// Problems so far.
    pub fn problems_count(&self) -> u64 {
        self.model.problems_count()
    }
}
