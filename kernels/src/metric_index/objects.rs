//! The objects that an index is made from: their number, and a closure that computes their distances.

use std::cell::Cell;

use super::MetricIndexError;
use crate::chance::Random;
use crate::interrupt::{Interrupt, Interrupted, never};

/// The size of the sample from which pivots are chosen, per pivot.
const SAMPLE_PER_PIVOT: usize = 8;

/// Distances that are computed before the caller is asked again whether to stop. A distance takes 20 ns to some
/// milliseconds, and asking takes about 20 ns if the caller looks at a clock.
pub(super) const DISTANCES_PER_QUESTION: u64 = 8;

/// Numbered objects and their distances.
pub struct IndexedObjects<'a> {
    count: usize,
    between: &'a dyn Fn(u32, u32) -> f64,
    interrupt: Interrupt<'a>,
    computed: Cell<u64>,
}

impl<'a> IndexedObjects<'a> {
    /// `count` objects. The closure computes the distance of two objects, which must be the same in either order.
    ///
    /// # Errors
    /// If there are no objects, or more than can be numbered.
    pub fn new(count: usize, between: &'a dyn Fn(u32, u32) -> f64) -> Result<Self, MetricIndexError> {
        let most = u32::MAX as usize - 1;
        match count {
            0 => Err(MetricIndexError::NoObjects),
            _ if count > most => {
                Err(MetricIndexError::TooManyObjects { index: "an index", objects: count, most })
            }
            _ => Ok(Self { count, between, interrupt: &never, computed: Cell::new(0) }),
        }
    }

    /// Lets the caller interrupt work on the objects.
    #[must_use]
    pub fn until(self, interrupt: Interrupt<'a>) -> Self {
        Self { interrupt, ..self }
    }

    /// Asks the caller whether to stop. Work that computes no distances for some milliseconds calls it.
    ///
    /// # Errors
    /// If the caller interrupts.
    #[inline]
    pub fn go_on(&self) -> Result<(), Interrupted> {
        if (self.interrupt)() { Err(Interrupted) } else { Ok(()) }
    }

    /// The number of objects, at least 1.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The numbers of all objects.
    pub fn all(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.count as u32
    }

    /// The number of distances computed so far.
    pub fn computed(&self) -> u64 {
        self.computed.get()
    }

    /// The distance of two objects. Every few calls it first asks whether to stop.
    ///
    /// # Errors
    /// If the computed number is no distance, or the caller interrupts.
    pub fn distance(&self, a: u32, b: u32) -> Result<f64, MetricIndexError> {
        let computed = self.computed.get();
        if computed.is_multiple_of(DISTANCES_PER_QUESTION) {
            self.go_on()?;
        }
        let distance = (self.between)(a, b);
        self.computed.set(computed + 1);
        if distance.is_finite() && distance >= 0.0 {
            return Ok(distance);
        }
        Err(MetricIndexError::NotADistance { of: format!("objects {a} and {b}"), distance })
    }

    /// Chooses pivots from a sample: each next pivot is the object that is farthest from all pivots so far. Returns fewer
    /// than `count` if there are fewer different objects, but at least one.
    ///
    /// # Errors
    /// As [`IndexedObjects::distance`].
    pub fn pivots(&self, count: usize, seed: u64) -> Result<Vec<u32>, MetricIndexError> {
        let sample = self.sample(count.saturating_mul(SAMPLE_PER_PIVOT), seed);
        let mut nearest = vec![f64::INFINITY; sample.len()];
        let mut pivots = vec![sample[0]];
        while pivots.len() < count {
            let last = pivots[pivots.len() - 1];
            for (nearest, object) in nearest.iter_mut().zip(&sample) {
                if *nearest > 0.0 {
                    *nearest = nearest.min(self.distance(last, *object)?);
                }
            }
            let farthest = (0..sample.len()).reduce(|a, b| if nearest[b] > nearest[a] { b } else { a });
            match farthest {
                Some(place) if nearest[place] > 0.0 => pivots.push(sample[place]),
                _ => break,
            }
        }
        Ok(pivots)
    }

    /// `count` different objects, or all, in a random order that depends on the seed.
    fn sample(&self, count: usize, seed: u64) -> Vec<u32> {
        let mut all: Vec<u32> = self.all().collect();
        let mut random = Random::new(seed);
        let count = count.clamp(1, all.len());
        for place in 0..count {
            // By the remainder and not by `Random::idx`: pivots depend on it.
            let left = (all.len() - place) as u64;
            all.swap(place, place + (random.bits() % left) as usize);
        }
        all.truncate(count);
        all
    }
}
