//! The steps of work that must stay consistent if its process is killed: tests end a process at each of them.

/// Marks a step as done. In tests, a process that should end at this step kills itself, as if from outside.
#[cfg(not(test))]
#[inline]
pub(crate) fn step(_: &'static str) {}

#[cfg(test)]
pub(crate) use in_tests::{VARIABLE, step};

#[cfg(test)]
#[expect(unsafe_code, reason = "a process kills itself, as nothing else ends it at once")]
mod in_tests {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// The number of the step at which the process ends, counted from 1.
    pub(crate) const VARIABLE: &str = "BOXWORK_TEST_KILL_AT";

    pub(crate) fn step(_: &'static str) {
        static DONE: AtomicU64 = AtomicU64::new(0);
        static LAST: OnceLock<Option<u64>> = OnceLock::new();
        let last = *LAST.get_or_init(|| std::env::var(VARIABLE).ok()?.parse().ok());
        if last.is_some() && Some(DONE.fetch_add(1, Ordering::Relaxed) + 1) == last {
            // SAFETY: a signal to this process itself; no destructor runs, as intended.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
            loop {
                std::thread::park();
            }
        }
    }
}
