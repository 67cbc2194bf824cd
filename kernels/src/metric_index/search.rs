//! One search: its limits, the objects found so far, and the range that follows from both.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::objects::DISTANCES_PER_QUESTION;
use super::{MetricIndexError, Slack};
use crate::interrupt::{Interrupt, Interrupted, never};

/// A search in progress.
pub struct Search<'a> {
    k: usize,
    range: f64,
    slack: Slack,
    distance: &'a mut dyn FnMut(u32) -> f64,
    /// The farthest object is at the top.
    nearest: BinaryHeap<Ranked>,
    computed: u64,
    interrupt: Interrupt<'a>,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The objects found with their distances, ordered by distance and then by number.
    pub objects: Vec<(f64, u32)>,
    /// The number of distances computed.
    pub computed: u64,
}

impl<'a> Search<'a> {
    /// Searches for the `k` nearest objects that are at most `range` away. The closure computes the query's distance to an
    /// object, with an error that `slack` declares. For all objects within a range, let `k` be `usize::MAX`; for the nearest
    /// objects at any distance, let `range` be infinite.
    ///
    /// # Panics
    /// If `k` is 0, or `range` is NaN.
    pub fn new(k: usize, range: f64, slack: Slack, distance: &'a mut dyn FnMut(u32) -> f64) -> Self {
        assert!(k > 0 && !range.is_nan(), "something is wanted");
        Self { k, range, slack, distance, nearest: BinaryHeap::new(), computed: 0, interrupt: &never }
    }

    /// Lets the caller interrupt the search.
    #[must_use]
    pub fn until(self, interrupt: Interrupt<'a>) -> Self {
        Self { interrupt, ..self }
    }

    /// The largest error of computed distances.
    pub fn slack(&self) -> Slack {
        self.slack
    }

    /// The largest distance that an object of the answer can have. It never grows.
    #[inline]
    pub fn range(&self) -> f64 {
        match self.nearest.peek() {
            Some(farthest) if self.nearest.len() >= self.k => farthest.distance.min(self.range),
            _ => self.range,
        }
    }

    /// Whether no object with this lower bound is part of the answer.
    #[inline]
    pub fn rules_out(&self, lower: f64) -> bool {
        lower > self.range()
    }

    /// Computes the query's distance to an object, and adds the object to the answer if it belongs there. An index calls it
    /// at most once for each object.
    ///
    /// # Errors
    /// If the computed number is no distance, or the caller interrupts.
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

    /// Ends the search and returns the answer.
    pub fn finish(self) -> Answer {
        let ranked = self.nearest.into_sorted_vec();
        let objects = ranked.into_iter().map(|found| (found.distance, found.object)).collect();
        Answer { objects, computed: self.computed }
    }
}

/// A number with a distance or a lower bound, ordered by distance and then by number.
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
