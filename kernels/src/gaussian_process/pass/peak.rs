//! Multiply-adds and nothing else: the limit against which `benches/feedback.rs` states the speed of the pass.

use crate::CodePath;
use crate::lanes::{Lanes, Work, run};

/// Independent chains: enough to hide the latency of a multiply-add, and they fit the registers of every path.
const CHAINS: usize = 12;

struct Peak {
    rounds: usize,
}

impl Work for Peak {
    type Done = (u64, f32);

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> (u64, f32) {
        let (x, y) = std::hint::black_box((0.999, 0.001));
        let (x, y) = (lanes.splat(x), lanes.splat(y));
        let mut chains = [lanes.splat(1.0); CHAINS];
        for _ in 0..self.rounds {
            for chain in &mut chains {
                *chain = lanes.mul_add(*chain, x, y);
            }
        }
        let mut numbers = [0.0; 16];
        let mut sum = lanes.splat(0.0);
        for chain in chains {
            sum = lanes.add(sum, chain);
        }
        lanes.store(sum, &mut numbers);
        ((self.rounds * CHAINS * L::COUNT) as u64, numbers.iter().sum())
    }
}

/// Does multiply-adds in registers, and returns their number and a number that depends on all of them.
///
/// # Panics
/// If this machine lacks the instructions of the path.
pub fn multiply_adds(path: CodePath, rounds: usize) -> (u64, f32) {
    assert!(path.is_available(), "this machine has no {path} instructions");
    run(path, Peak { rounds })
}
