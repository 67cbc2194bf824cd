//! Simulated devices: a queue of operations, a limit of operations at once, and their time.

use super::Auto;

/// A device: the rate of all operations together, in operations per [`UNIT_NS`], from the number at once and the number
/// ended.
pub(super) type Rate = fn(n: usize, ended: usize) -> f64;

/// The time of a single operation.
pub(super) const UNIT_NS: u64 = 1_000_000;

/// The limit of a run.
pub(super) enum Limit {
    Fixed(usize),
    Auto(Auto),
}

/// A run: operations that all wait from the start, with sizes that differ by up to a fifth each way.
pub(super) struct Run {
    pub(super) operations: usize,
    pub(super) rate: Rate,
    pub(super) noise: bool,
    pub(super) seed: u64,
}

impl Run {
    /// Its length in nanoseconds. The operations under way share the device.
    pub(super) fn makespan(&self, limit: &mut Limit) -> u64 {
        let mut random = self.seed;
        let mut size = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let noise = (random >> 33) as f64 / (1_u64 << 31) as f64 * 0.4 - 0.2;
            UNIT_NS as f64 * if self.noise { 1.0 + noise } else { 1.0 }
        };
        let (mut now, mut begun, mut ended) = (0.0_f64, 0, 0);
        let mut under_way: Vec<f64> = Vec::new();
        while ended < self.operations {
            loop {
                let most = match limit {
                    Limit::Fixed(most) => *most,
                    Limit::Auto(auto) => auto.limit(),
                };
                if begun == self.operations || under_way.len() >= most {
                    break;
                }
                begun += 1;
                under_way.push(size());
                if let Limit::Auto(auto) = limit {
                    auto.begin(now as u64, under_way.len());
                }
            }
            let each = (self.rate)(under_way.len(), ended) / under_way.len() as f64;
            let (first, left) = under_way
                .iter()
                .copied()
                .enumerate()
                .min_by(|a, b| a.1.total_cmp(&b.1))
                .expect("some are under way");
            now += left / each;
            under_way.iter_mut().for_each(|other| *other -= left);
            under_way.swap_remove(first);
            ended += 1;
            if let Limit::Auto(auto) = limit {
                auto.end(now as u64, under_way.len(), begun < self.operations);
            }
        }
        now as u64
    }

    /// The makespan with the best fixed limit up to a bound.
    pub(super) fn best(&self, max: usize) -> u64 {
        let limits = [1, 2, 3, 4, 5, 6, 8, 16, 32, 40, max];
        limits.map(|limit| self.makespan(&mut Limit::Fixed(limit))).into_iter().min().unwrap_or(0)
    }
}

/// One operation at a time.
pub(super) fn serial(_: usize, _: usize) -> f64 {
    1.0
}

/// Up to four at once, each at full speed.
pub(super) fn four(n: usize, _: usize) -> f64 {
    n.min(4) as f64
}

/// Any number at once, each at full speed.
pub(super) fn unlimited(n: usize, _: usize) -> f64 {
    n as f64
}

/// Each further operation slows down all operations.
pub(super) fn spinning(n: usize, _: usize) -> f64 {
    1.0 / (1.0 + 0.3 * (n as f64 - 1.0))
}

/// Each further operation gains less, and in the end loses.
pub(super) fn round(n: usize, _: usize) -> f64 {
    let n = n as f64;
    n / (1.0 + 0.03 * n * n)
}

/// Serial, eight at once, and serial again.
pub(super) fn changing(n: usize, ended: usize) -> f64 {
    if (CHANGES[0]..CHANGES[1]).contains(&ended) { n.min(8) as f64 } else { 1.0 }
}

/// A spinning disk, and then a device that serves eight at once.
pub(super) fn replaced(n: usize, ended: usize) -> f64 {
    if ended < CHANGES[0] { spinning(n, ended) } else { n.min(8) as f64 }
}

/// The number of operations after which it changes.
pub(super) const CHANGES: [usize; 2] = [700, 4000];
