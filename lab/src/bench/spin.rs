//! The work of a task: steps of a random number generator, each dependent on the step before.
//!
//! A step is not an affine map, so that no compiler can merge several: if work were bound by throughput in one language
//! and by latency in another, two threads of a core would share it unequally. Peers run these steps and calibrate them
//! separately: a task is given in microseconds, never in steps.

use std::hint::black_box;
use std::thread;
use std::time::Instant;

/// The start value of every task. All tasks compute the same number, which is checked.
pub const SEED: u32 = 1;

/// The number that a task computes.
#[inline(never)]
pub fn spin(iterations: u64, seed: u32) -> u32 {
    let mut x = seed;
    for _ in 0..iterations {
        x = (x ^ x >> 15).wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    }
    x
}

/// A box with this much work or more for an envelope announces it, as `Context::announce` asks of every operator.
const LONG_US: f64 = 5.0;

/// The duration of a step on this machine.
#[derive(Clone, Copy, Debug)]
pub struct Spin {
    pub ns_per_iteration: f64,
}

impl Spin {
    /// Measures the rate: the fastest of several runs, because an interruption only slows a run down.
    pub fn calibrate() -> Self {
        const ITERATIONS: u64 = 200_000;
        const RUNS: usize = 25;
        let mut fastest = f64::INFINITY;
        for _ in 0..RUNS {
            let start = Instant::now();
            black_box(spin(black_box(ITERATIONS), black_box(SEED)));
            fastest = fastest.min(start.elapsed().as_secs_f64());
        }
        Self { ns_per_iteration: fastest * 1e9 / ITERATIONS as f64 }
    }

    /// The work that this many plain threads do at once, in cores: less than their number if others compute too. No
    /// runtime does more.
    pub fn cores_free(self, threads: usize) -> f64 {
        const TASK_US: f64 = 30_000.0;
        let iterations = self.iterations(TASK_US);
        let start = Instant::now();
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| black_box(spin(black_box(iterations), SEED)));
            }
        });
        threads as f64 * TASK_US / 1e6 / start.elapsed().as_secs_f64()
    }

    /// The number of steps that take this long.
    pub fn iterations(self, microseconds: f64) -> u64 {
        (microseconds * 1e3 / self.ns_per_iteration).round() as u64
    }

    /// The steps for an envelope from which a box announces it.
    pub fn long(self) -> u64 {
        self.iterations(LONG_US)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computes_the_generators_numbers() {
        assert_eq!((spin(0, 7), spin(1, 0), spin(2, 0)), (7, 1_013_904_223, 4_183_020_793));
    }
}
