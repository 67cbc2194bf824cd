//! The allocator's way with large buffers.
#![cfg_attr(
    target_env = "gnu",
    expect(unsafe_code, reason = "the allocator is set by a call of the C library")
)]

/// Buffers of at least this many bytes come from the system one by one, and go back to it as soon as they are free.
#[cfg(target_env = "gnu")]
const LARGE: i32 = 128 << 10;

/// Lets the process give large buffers back to the system as soon as they are free. For servers: glibc keeps such buffers for
/// each thread by default, and rounds over a large store, which use hundreds of them, then take twice the memory. Does
/// nothing with other allocators.
pub fn return_large_buffers() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call changes one number of the allocator, which takes a lock for it.
    unsafe {
        // A refusal leaves the default, with which everything works.
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}
