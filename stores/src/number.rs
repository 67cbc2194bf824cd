//! Numbers by which a process knows what it holds, and limits that tests make small.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that nothing else of this process has, or had: what lies on a device is known by it.
pub fn new_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A limit; a small one in tests that ask for it.
#[inline]
pub(crate) fn limit(usual: u64, small: u64) -> u64 {
    #[cfg(any(test, feature = "testing"))]
    if crate::testing::has_small_limits() {
        return small;
    }
    let _ = small;
    usual
}
