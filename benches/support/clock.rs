//! Processor time of a thread, and the processor's clock rate.
//!
//! Processor time instead of wall time: on a shared machine, longer measurements are interrupted more often, and by
//! wall time their code would seem slower than it is.

#![expect(unsafe_code, reason = "the standard library has no clock of a thread's processor time")]

use std::hint::black_box;
use std::time::Duration;

/// Seconds of processor time that this thread spends on `work`.
pub fn thread_seconds(work: impl FnOnce()) -> f64 {
    let start = thread_time();
    work();
    (thread_time() - start).as_secs_f64()
}

/// Processor time of this thread so far.
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec, and the reference is to one.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(failed, 0, "Linux has a clock for every thread");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Cycles per nanosecond while this thread computes, without the vector units.
pub fn gigahertz() -> f64 {
    /// Three shifts and three exclusive ors, each depending on the one before, one cycle each.
    const CYCLES_PER_STEP: f64 = 6.0;
    const STEPS: usize = 2_000_000;
    let mut fastest = f64::INFINITY;
    for _ in 0..10 {
        let mut state = black_box(88_172_645_463_325_252_u64);
        let seconds = thread_seconds(|| {
            for _ in 0..STEPS {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
            }
        });
        black_box(state);
        fastest = fastest.min(seconds);
    }
    CYCLES_PER_STEP * STEPS as f64 / fastest / 1e9
}
