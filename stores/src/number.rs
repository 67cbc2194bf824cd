//! Unique numbers within a process, and limits that tests make small.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that this process gives only once: devices identify resident data by it.
pub fn new_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A limit; a small one in tests that request it.
#[inline]
pub(crate) fn limit(usual: u64, small: u64) -> u64 {
    #[cfg(any(test, feature = "testing"))]
    if crate::testing::has_small_limits() {
        return small;
    }
    let _ = small;
    usual
}
