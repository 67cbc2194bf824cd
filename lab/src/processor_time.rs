//! Processor time of all threads except the measuring thread.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Nanoseconds by thread, as Linux counts them in `/proc/self/task/*/schedstat`; `None` on other systems.
#[derive(Clone, Debug)]
pub struct ProcessorTime {
    by_thread: BTreeMap<String, u64>,
}

impl ProcessorTime {
    /// The processor time of all threads except the calling one.
    pub fn of_others() -> Option<Self> {
        let own = fs::read_link("/proc/thread-self").ok()?;
        let mut by_thread = BTreeMap::new();
        for entry in fs::read_dir("/proc/self/task").ok()?.flatten() {
            // The file of a thread that has ended is gone.
            if own.file_name() != Some(&entry.file_name())
                && let Some(spent_ns) = spent_ns(&entry.path())
            {
                by_thread.insert(entry.file_name().to_string_lossy().into_owned(), spent_ns);
            }
        }
        Some(Self { by_thread })
    }

    /// Nanoseconds spent since an earlier reading, by threads that still exist.
    pub fn since(&self, earlier: &Self) -> u64 {
        let spent = self
            .by_thread
            .iter()
            .map(|(thread, now)| now.saturating_sub(earlier.by_thread.get(thread).copied().unwrap_or(0)));
        spent.sum()
    }
}

fn spent_ns(thread: &Path) -> Option<u64> {
    let text = fs::read_to_string(thread.join("schedstat")).ok()?;
    text.split(' ').next()?.parse().ok()
}
