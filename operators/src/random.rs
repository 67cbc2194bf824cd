//! Numbers of chance that a seed gives, the same on every machine: splitmix64.

/// The sequence of a seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The sequence of a seed; near seeds give sequences that have nothing to do with each other.
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Self(seed);
        random.0 = random.next();
        random
    }

    /// Any number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below a limit that is not 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        // The high half of a product: as even as a choice among objects needs.
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// From 0 to below 1.
    pub(crate) fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 24) as f32
    }

    /// About normal: mean 0, deviation 1, never beyond 6.
    pub(crate) fn normal(&mut self) -> f32 {
        (0..12).map(|_| self.unit()).sum::<f32>() - 6.0
    }

    /// So many different numbers below a limit in an order of chance, or all of them.
    pub(crate) fn distinct(&mut self, limit: u64, count: usize) -> Vec<u64> {
        let count = limit.min(count as u64);
        // The first places of a shuffle of all numbers, of which only those that were moved are kept.
        let mut moved = std::collections::HashMap::new();
        (0..count)
            .map(|place| {
                let other = place + self.below(limit - place);
                let taken = *moved.get(&other).unwrap_or(&other);
                let first = *moved.get(&place).unwrap_or(&place);
                moved.insert(other, first);
                taken
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_numbers_are_distinct_and_all_can_come() {
        let mut random = Random::new(1);
        for (limit, count) in [(1, 1), (10, 10), (10, 50), (1000, 30)] {
            let mut found = random.distinct(limit, count);
            assert_eq!(found.len(), count.min(limit as usize));
            found.sort_unstable();
            found.dedup();
            assert_eq!(found.len(), count.min(limit as usize));
            assert!(found.iter().all(|number| *number < limit));
        }
        assert_ne!(random.distinct(1000, 30), random.distinct(1000, 30));
    }

    #[test]
    fn numbers_lie_where_they_should() {
        let mut random = Random::new(7);
        let units: Vec<f32> = (0..10_000).map(|_| random.unit()).collect();
        let mean = units.iter().sum::<f32>() / 10_000.0;
        assert!(units.iter().all(|unit| (0.0..1.0).contains(unit)) && (mean - 0.5).abs() < 0.02, "{mean}");
        let squares = (0..10_000).map(|_| random.normal().powi(2)).sum::<f32>() / 10_000.0;
        assert!((squares - 1.0).abs() < 0.1, "{squares}");
    }
}
