//! One query of an index: what is wanted, what was found so far, and the range that follows from both.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::objects::DISTANCES_PER_QUESTION;
use super::{MetricIndexError, Slack};
use crate::interrupt::{Interrupt, Interrupted, never};

/// A query under way.
pub struct Search<'a> {
    k: usize,
    range: f64,
    slack: Slack,
    distance: &'a mut dyn FnMut(u32) -> f64,
    /// The farthest at the top.
    nearest: BinaryHeap<Ranked>,
    computed: u64,
    interrupt: Interrupt<'a>,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Objects with their distances, by (distance, object).
    pub objects: Vec<(f64, u32)>,
    /// How many distances were computed.
    pub computed: u64,
}

impl<'a> Search<'a> {
    /// The `k` nearest objects that are at most `range` away, by a closure that computes the query's distance to an
    /// object, with this slack. All within a range: `k` of `usize::MAX`; only the nearest: an infinite `range`.
    ///
    /// # Panics
    /// When `k` is 0, or `range` is not a number.
    pub fn new(k: usize, range: f64, slack: Slack, distance: &'a mut dyn FnMut(u32) -> f64) -> Self {
        assert!(k > 0 && !range.is_nan(), "something is wanted");
        Self { k, range, slack, distance, nearest: BinaryHeap::new(), computed: 0, interrupt: &never }
    }

    /// The same search with a way to stop it.
    #[must_use]
    pub fn until(self, interrupt: Interrupt<'a>) -> Self {
        Self { interrupt, ..self }
    }

    /// How far computed distances may be off.
    pub fn slack(&self) -> Slack {
        self.slack
    }

    /// How far an object of the answer may be; only falls.
    #[inline]
    pub fn range(&self) -> f64 {
        match self.nearest.peek() {
            Some(farthest) if self.nearest.len() >= self.k => farthest.distance.min(self.range),
            _ => self.range,
        }
    }

    /// Whether objects with this lower bound are no answers.
    #[inline]
    pub fn rules_out(&self, lower: f64) -> bool {
        lower > self.range()
    }

    /// The query's distance to an object, which may be an answer: an index asks for each at most once.
    ///
    /// # Errors
    /// When it is no distance, or the caller interrupts.
    pub fn compute(&mut self, object: u32) -> Result<f64, MetricIndexError> {
        if self.computed.is_multiple_of(DISTANCES_PER_QUESTION) && (self.interrupt)() {
            return Err(Interrupted.into());
        }
        let distance = (self.distance)(object);
        self.computed += 1;
        if !(distance.is_finite() && distance >= 0.0) {
            let of = format!("the query to object {object}");
            return Err(MetricIndexError::NotADistance { of, distance });
        }
        let found = Ranked { distance, object };
        if distance <= self.range {
            if self.nearest.len() < self.k {
                self.nearest.push(found);
            } else if let Some(mut farthest) = self.nearest.peek_mut()
                && found < *farthest
            {
                *farthest = found;
            }
        }
        Ok(distance)
    }

    /// What was found.
    pub fn finish(self) -> Answer {
        let ranked = self.nearest.into_sorted_vec();
        let objects = ranked.into_iter().map(|found| (found.distance, found.object)).collect();
        Answer { objects, computed: self.computed }
    }
}

/// Something at a distance or beyond a bound, in the order of both: by distance, then by number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ranked {
    pub(super) distance: f64,
    pub(super) object: u32,
}

impl Eq for Ranked {}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        self.distance.total_cmp(&other.distance).then(self.object.cmp(&other.object))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
