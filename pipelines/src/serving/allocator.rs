//! The allocator's way with the memory of many threads.
#![cfg_attr(
    target_env = "gnu",
    expect(unsafe_code, reason = "the allocator is set by a call of the C library")
)]

/// Arenas from which all threads together take memory.
#[cfg(target_env = "gnu")]
const ARENAS: i32 = 2;

/// Lets all threads share a few arenas, if it is called before there are threads. For servers: glibc gives each thread an
/// arena of its own by default, and what one of them has freed waits there for that thread alone, so rounds over a large store
/// take twice the memory. Does nothing with other allocators.
pub fn share_arenas() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call changes one number of the allocator, which takes a lock for it.
    unsafe {
        // A refusal leaves the default, with which everything works.
        libc::mallopt(libc::M_ARENA_MAX, ARENAS);
    }
}
