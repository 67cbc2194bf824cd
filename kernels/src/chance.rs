//! Seeded random numbers, identical on every machine: SplitMix64 (Steele, Lea and Flood 2014).
//!
//! Invariant: a method gives the same numbers for ever. Files and answers depend on them: sampling points, pivots, mixed
//! signatures, sample images.

use std::collections::HashMap;

use crate::elementary::ln;

/// SplitMix64 adds this to its state for each number: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The random numbers of one seed.
///
/// ```
/// use boxwork_kernels::chance::Random;
///
/// let mut random = Random::new(7);
/// let roll = 1 + random.below(6);
/// assert!((1..=6).contains(&roll));
/// assert_eq!(1 + Random::new(7).below(6), roll);
/// ```
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The numbers of a seed that is mixed first, for seeds that are counted up or made of several numbers.
    pub fn mixed(seed: u64) -> Self {
        Self(Self(seed).bits())
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// A number from 0 to below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        // The high half of the product. A limit does not divide 2^64, so some numbers are more likely than others, by
        // limit / 2^64 at most.
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    /// The index of one of `len` things.
    pub fn idx(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A number from 0 to below 1, of 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number from 0 to below 1, of 24 bits.
    pub fn unit_f32(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u32 << 24) as f32
    }

    /// A number that is about normal, with mean 0 and deviation 1; never beyond 6.
    pub fn normal_f32(&mut self) -> f32 {
        (0..12).map(|_| self.unit_f32()).sum::<f32>() - 6.0
    }

    /// A number that is normal, with mean 0 and deviation 1: the polar method (Marsaglia and Bray 1964).
    pub fn normal(&mut self) -> f64 {
        loop {
            let (u, v) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = u * u + v * v;
            if (f64::MIN_POSITIVE..1.0).contains(&square) {
                return u * (-2.0 * ln(square) / square).sqrt();
            }
        }
    }

    /// Brings items into random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.idx(last + 1));
        }
    }

    /// `count` different numbers below `limit` in random order, or all of them where there are fewer.
    pub fn distinct(&mut self, limit: u64, count: usize) -> Vec<u64> {
        let count = limit.min(count as u64);
        // The first places of a shuffle of all numbers below the limit, which holds only those that were moved.
        let mut moved = HashMap::new();
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

/// The output function of SplitMix64: every bit of the result depends on every bit of the argument.
pub const fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_published_generator() {
        // The first outputs of Vigna's splitmix64.c for the seed 1234567.
        let mut random = Random::new(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(expected.map(|_| random.bits()), expected);
    }

    #[test]
    fn a_seed_gives_the_pivots_that_indexes_were_made_with() {
        assert_eq!(Random::mixed(3).distinct(300, 8), [221, 178, 190, 238, 239, 186, 292, 262]);
    }

    #[test]
    fn distinct_numbers_are_distinct_and_all_can_come() {
        let mut random = Random::mixed(1);
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
        let mut random = Random::mixed(7);
        let units: Vec<f64> = (0..10_000).map(|_| random.unit()).collect();
        let mean = units.iter().sum::<f64>() / 10_000.0;
        assert!(units.iter().all(|unit| (0.0..1.0).contains(unit)) && (mean - 0.5).abs() < 0.02, "{mean}");
        let squares = (0..10_000).map(|_| random.normal_f32().powi(2)).sum::<f32>() / 10_000.0;
        assert!((squares - 1.0).abs() < 0.1, "{squares}");
        let normals: Vec<f64> = (0..40_000).map(|_| random.normal()).collect();
        let moment = |power: i32| normals.iter().map(|x| x.powi(power)).sum::<f64>() / 40_000.0;
        // The moments of a normal number: 0, 1, 0, 3.
        assert!(moment(1).abs() < 0.02 && (moment(2) - 1.0).abs() < 0.03, "{} {}", moment(1), moment(2));
        assert!(moment(3).abs() < 0.08 && (moment(4) - 3.0).abs() < 0.2, "{} {}", moment(3), moment(4));
        let mut items: Vec<u8> = (0..100).collect();
        random.shuffle(&mut items);
        assert!(!items.is_sorted());
        items.sort_unstable();
        assert!(items.into_iter().eq(0..100));
    }
}
