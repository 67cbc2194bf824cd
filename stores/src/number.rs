//! Numbers by which a process knows what it holds.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that nothing else of this process has, or had: what lies on a device is known by it.
pub fn new_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
