//! Ctrl-C, SIGTERM and SIGHUP as a request to stop, while anything listens.
//!
//! The handler only counts, so it takes no lock; a [`Cancellation`] compares the count with an earlier one. The first
//! listener installs the handler, and the last one restores the handler before it. A second signal ends the process at
//! once, as work may ignore the first. No thread waits for signals.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use boxwork_runtime::operator::Cancellation;

/// The exit status of a process that Ctrl-C ended, by the convention of shells.
pub(crate) const STATUS: i32 = 130;

/// Signals received since the process began.
static HEARD: AtomicU64 = AtomicU64::new(0);
/// Their number when the handler was installed.
static HEARD_BEFORE: AtomicU64 = AtomicU64::new(0);
/// The listeners, and the replaced handler. No handler takes this lock.
static LISTENERS: Mutex<Listeners> = Mutex::new(Listeners { count: 0, replaced: handler::NOTHING });

struct Listeners {
    count: usize,
    replaced: handler::Replaced,
}

/// A listener to the signals that request a stop, until it is dropped.
#[derive(Debug)]
pub(crate) struct Interrupts {
    cancellation: Cancellation,
}

impl Interrupts {
    /// Begins to listen. If the system refuses a handler, signals act as before.
    pub(crate) fn listen() -> Self {
        let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
        let cancellation = Cancellation::new().or_counted(&HEARD);
        if listeners.count == 0 {
            // Before the handler exists, as it compares the two.
            HEARD_BEFORE.store(HEARD.load(Ordering::SeqCst), Ordering::SeqCst);
            listeners.replaced = handler::install();
        }
        listeners.count += 1;
        Self { cancellation }
    }

    /// Stops the work of its clones once a signal has come after [`Interrupts::listen`].
    pub(crate) fn cancellation(&self) -> &Cancellation {
        &self.cancellation
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.count -= 1;
        if listeners.count == 0 {
            handler::remove(std::mem::replace(&mut listeners.replaced, handler::NOTHING));
        }
    }
}

/// Counts a signal. Returns whether it is the second one.
fn hear() -> bool {
    HEARD.fetch_add(1, Ordering::SeqCst) > HEARD_BEFORE.load(Ordering::SeqCst)
}

#[cfg(unix)]
mod handler {
    #![expect(unsafe_code, reason = "signal handlers are system calls")]

    use libc::c_int;

    use super::{STATUS, hear};

    /// The signals.
    const SIGNALS: [c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

    /// For each signal, the replaced action; `None` without a handler.
    pub(super) type Replaced = [Option<libc::sigaction>; SIGNALS.len()];
    pub(super) const NOTHING: Replaced = [None; SIGNALS.len()];

    extern "C" fn on_signal(_: c_int) {
        if hear() {
            // SAFETY: `_exit` may be called in a handler; it runs no destructor.
            unsafe { libc::_exit(STATUS) };
        }
    }

    fn address() -> libc::sighandler_t {
        let handler: extern "C" fn(c_int) = on_signal;
        handler as libc::sighandler_t
    }

    /// The action of a signal at present.
    fn present(signal: c_int) -> Option<libc::sigaction> {
        // SAFETY: zeros are a `sigaction`: no flag, no handler, no signal blocked.
        let mut present: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: asks for the present action; `present` is valid for the answer.
        let answer = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut present) };
        (answer == 0).then_some(present)
    }

    pub(super) fn install() -> Replaced {
        SIGNALS.map(|signal| {
            let before = present(signal)?;
            // `nohup` lets the process outlive its terminal.
            if signal == libc::SIGHUP && before.sa_sigaction == libc::SIG_IGN {
                return None;
            }
            // SAFETY: as above.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            action.sa_sigaction = address();
            // Interrupted system calls are repeated: the code that calls them does not handle signals.
            action.sa_flags = libc::SA_RESTART;
            // SAFETY: `action` is complete; the handler keeps to what a handler may do.
            let answer = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
            (answer == 0).then_some(before)
        })
    }

    pub(super) fn remove(replaced: Replaced) {
        for (signal, before) in SIGNALS.into_iter().zip(replaced) {
            // A handler installed since then stays.
            if let Some(before) = before
                && present(signal).is_some_and(|present| present.sa_sigaction == address())
            {
                // SAFETY: `before` is an action that the system gave.
                unsafe { libc::sigaction(signal, &raw const before, std::ptr::null_mut()) };
            }
        }
    }
}

/// Systems other than Unix: the handler stays until the process ends, and also counts signals without listeners.
#[cfg(not(unix))]
mod handler {
    use super::{STATUS, hear};

    pub(super) type Replaced = ();
    pub(super) const NOTHING: Replaced = ();

    pub(super) fn install() {
        // A second call finds the handler installed.
        let _ = ctrlc::set_handler(|| {
            if hear() {
                std::process::exit(STATUS);
            }
        });
    }

    pub(super) fn remove((): Replaced) {}
}
