//! The engine of the process, and calls that hear signals.
//!
//! Invariants: the engine starts at its first use and lives as long as the process; a call lets go of the interpreter's
//! lock until its end, except to check for signals; after a fork nothing is used, since no thread came along.

use std::collections::BTreeMap;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use boxwork::engine::{Ended, Engine, Event, Exchange, Limits};
use boxwork_runtime::feeding::LazyDevices;
use boxwork_runtime::operator::Cancellation;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use pyo3::prelude::*;

use crate::errors;

/// The interval at which a call outside of the engine checks for signals.
const POLL: Duration = Duration::from_millis(20);

static ENGINE: OnceLock<Result<Engine, String>> = OnceLock::new();
static SETTINGS: Mutex<Settings> = Mutex::new(Settings { workers: None, devices: true });
/// The process that imported the module; 0 before.
static PROCESS: AtomicU32 = AtomicU32::new(0);

#[derive(Clone, Copy)]
struct Settings {
    workers: Option<usize>,
    devices: bool,
}

/// Notes the process of the import.
pub(crate) fn remember_process() {
    PROCESS.store(process::id(), Ordering::Relaxed);
}

/// Refuses to work in a process that was forked after the import.
pub(crate) fn check_process(py: Python<'_>) -> PyResult<()> {
    if PROCESS.load(Ordering::Relaxed) == process::id() {
        return Ok(());
    }
    Err(errors::error(
        py,
        "this process was forked after boxwork was imported, and boxwork's threads stayed in the parent: start the child \
         with multiprocessing's `spawn` or `forkserver`, or import boxwork after the fork",
    ))
}

/// Settings of the engine, before its first use: the number of slots, and whether GPUs may be used.
#[pyfunction]
#[pyo3(signature = (*, workers=None, devices=true))]
pub(crate) fn configure(py: Python<'_>, workers: Option<usize>, devices: bool) -> PyResult<()> {
    check_process(py)?;
    if workers == Some(0) {
        return Err(errors::input(py, "`workers` is 0: at least one computes"));
    }
    let mut settings = SETTINGS.lock().unwrap_or_else(PoisonError::into_inner);
    if ENGINE.get().is_some() {
        return Err(errors::error(py, "the engine runs already: call `configure` before anything else"));
    }
    *settings = Settings { workers, devices };
    Ok(())
}

/// The number of slots of the engine.
#[pyfunction]
pub(crate) fn workers(py: Python<'_>) -> PyResult<usize> {
    Ok(engine(py)?.runtime().environment().slots)
}

/// The engine, started at the first use.
pub(crate) fn engine(py: Python<'_>) -> PyResult<&'static Engine> {
    check_process(py)?;
    let started = py.detach(|| {
        ENGINE.get_or_init(|| {
            let settings = *SETTINGS.lock().unwrap_or_else(PoisonError::into_inner);
            let mut builder = Engine::builder();
            if let Some(workers) = settings.workers {
                builder = builder.workers(workers);
            }
            if !settings.devices {
                builder = builder.devices(Arc::new(LazyDevices::none()));
            }
            builder.start().map_err(|error| error.to_string())
        })
    });
    started.as_ref().map_err(|reason| errors::error(py, format!("the system refused a thread: {reason}")))
}

/// Runs work in a thread of its own until it ends or a signal raises an exception, which cancels the work.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Cancellation) -> T + Send,
) -> PyResult<T> {
    check_process(py)?;
    let cancellation = Cancellation::new();
    py.detach(|| {
        std::thread::scope(|scope| {
            let (sender, receiver) = channel();
            let of_work = &cancellation;
            let thread = scope.spawn(move || {
                // A send fails only if the receiver is gone, and it is not.
                let _ = sender.send(work(of_work));
            });
            let mut interrupt = None;
            loop {
                match receiver.recv_timeout(POLL) {
                    Ok(done) => return interrupt.map_or(Ok(done), Err),
                    Err(RecvTimeoutError::Timeout) => {
                        if interrupt.is_none() {
                            interrupt = Python::attach(|py| py.check_signals()).err();
                            if interrupt.is_some() {
                                cancellation.cancel();
                            }
                        }
                    }
                    Err(RecvTimeoutError::Disconnected) => match thread.join() {
                        Err(panic) => std::panic::resume_unwind(panic),
                        Ok(()) => unreachable!("the thread sends before it ends"),
                    },
                }
            }
        })
    })
}

/// Runs a prepared pipeline until it ends or a signal raises an exception, which cancels the run.
pub(crate) fn run(
    py: Python<'_>,
    prepared: &Arc<Prepared>,
    values: &BTreeMap<String, Value>,
    exchange: Exchange,
    limits: Limits,
) -> PyResult<Ended> {
    let engine = engine(py)?;
    let cancellation = Cancellation::new();
    let exchange = Exchange { cancellation: cancellation.clone(), ..exchange };
    let (ended, interrupt) = py.detach(|| {
        let mut interrupt = None;
        let ended = engine.run_with(prepared, values, limits, &exchange, &mut |event| {
            if interrupt.is_none() && matches!(event, Event::UnderWay(_)) {
                interrupt = Python::attach(|py| py.check_signals()).err();
                if interrupt.is_some() {
                    cancellation.cancel();
                }
            }
        });
        (ended, interrupt)
    });
    interrupt.map_or(Ok(ended), Err)
}
