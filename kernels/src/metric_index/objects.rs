//! What an index is made of: how many objects there are, and a closure that computes their distances.

use std::cell::Cell;

use super::MetricIndexError;
use crate::chance::Random;
use crate::interrupt::{Interrupt, Interrupted, never};

/// Objects from which as many are taken for each pivot to choose it among.
const SAMPLE_PER_PIVOT: usize = 8;

/// Distances that are computed between two questions whether to stop. A distance takes 20 ns to some milliseconds, and
/// a question that looks at a clock some 20 ns.
pub(super) const DISTANCES_PER_QUESTION: u64 = 8;

/// Objects, by number, and their distances.
pub struct Objects<'a> {
    count: usize,
    between: &'a dyn Fn(u32, u32) -> f64,
    interrupt: Interrupt<'a>,
    computed: Cell<u64>,
}

impl<'a> Objects<'a> {
    /// So many objects; the closure computes the distance of two, the same in either order.
    ///
    /// # Errors
    /// When there is none, or more than can be numbered.
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

    /// The same objects with a way to stop what is made of them.
    #[must_use]
    pub fn until(self, interrupt: Interrupt<'a>) -> Self {
        Self { interrupt, ..self }
    }

    /// Asks whether to stop. Work on anything but distances calls it every few milliseconds.
    ///
    /// # Errors
    /// When the caller interrupts.
    #[inline]
    pub fn go_on(&self) -> Result<(), Interrupted> {
        if (self.interrupt)() { Err(Interrupted) } else { Ok(()) }
    }

    /// How many there are, at least 1.
    pub fn count(&self) -> usize {
        self.count
    }

    /// All their numbers.
    pub fn all(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.count as u32
    }

    /// How many distances were computed.
    pub fn computed(&self) -> u64 {
        self.computed.get()
    }

    /// The distance of two. Every [`DISTANCES_PER_QUESTION`]th call asks first whether to stop.
    ///
    /// # Errors
    /// When what is computed is none, or the caller interrupts.
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

    /// Pivots: of a sample each time the object that is farthest from all pivots so far. Fewer than asked for where
    /// there are fewer different objects; at least one.
    ///
    /// # Errors
    /// As [`Objects::distance`].
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

    /// So many different objects, or all, in an order that the seed gives.
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
