//! The times of a thread as the system counts them. Only this file reads `/proc/PID/task/TID`.
//!
//! Linux reports how long a thread was on a CPU, how long it waited in a run queue, and whether it is runnable now.
//! This needs no unsafe call, but one file for each fact, so only the times of threads with long firings are read.
//! Other systems report nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// A thread's times since it began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) on_cpu: Duration,
    /// Runnable while other threads ran.
    pub(super) queued: Duration,
    /// Whether it runs, or waits in a run queue: `queued` does not contain this wait yet.
    pub(super) could_run: bool,
}

/// Whether this system reports them.
pub(super) fn are_known() -> bool {
    of_this_thread().is_some_and(|thread| read(&thread).is_some())
}

/// The folder of the calling thread's times.
pub(super) fn of_this_thread() -> Option<PathBuf> {
    // Linux answers with `PID/task/TID`.
    let thread = std::fs::read_link("/proc/thread-self").ok()?;
    Some(Path::new("/proc").join(thread))
}

/// Reads a thread's times.
pub(super) fn read(thread: &Path) -> Option<Times> {
    // In this order: a change in between makes the thread count as runnable.
    let sched = std::fs::read_to_string(thread.join("schedstat")).ok()?;
    let stat = std::fs::read_to_string(thread.join("stat")).ok()?;
    let mut fields = sched.split_whitespace().map(|field| field.parse().ok().map(Duration::from_nanos));
    let (on_cpu, queued) = (fields.next()??, fields.next()??);
    Some(Times { on_cpu, queued, could_run: state(&stat)? == 'R' })
}

/// The letter behind the name, which may contain any characters.
fn state(stat: &str) -> Option<char> {
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_stands_behind_any_name() {
        assert_eq!(state("7 (box) R 1 2"), Some('R'));
        assert_eq!(state("7 (a) R b) S 1"), Some('S'));
        assert_eq!(state("nothing"), None);
    }

    #[test]
    fn a_thread_that_spins_is_on_the_cpu() {
        // Other systems report no times.
        let Some(thread) = of_this_thread() else { return };
        let Some(before) = read(&thread) else { return };
        assert!(before.could_run);
        let after = (0..).find_map(|_| read(&thread).filter(|times| times.on_cpu > before.on_cpu));
        assert!(after.is_some_and(|after| after.queued >= before.queued));
    }
}
