//! AESA: keeps all distances among the objects, so that each distance of the query bounds all others (E. Vidal, "An
//! algorithm for finding nearest neighbours in (approximately) constant average time", Pattern Recognition Letters
//! 4(3), 1986; Algorithm 4.3 of the source).
//!
//! It computes the fewest distances of all indexes, but its memory and the time to make it grow with the square of the
//! number of objects. It suits a few thousand objects and expensive distances.

use super::{IndexedObjects, MetricIndex, MetricIndexError, Search, bytes_of, kept};
use crate::memory::room;

/// The most objects. Their distances take 2 GiB.
const OBJECTS_MAX: usize = 1 << 15;

/// The rule that picks the object whose distance is computed next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AesaChoice {
    /// The object with the least lower bound.
    #[default]
    LeastBound,
    /// The object with the least sum of the bounds by all objects so far, as in Vidal's paper.
    LeastSum,
}

/// The AESA index: all distances among the objects.
#[derive(Debug)]
pub struct Aesa {
    objects: usize,
    choice: AesaChoice,
    /// The distances of each object to the objects before it.
    distances: Vec<f32>,
}

/// An object that may be part of the answer.
struct Left {
    object: u32,
    lower: f64,
    sum: f64,
}

impl Aesa {
    /// Computes all distances.
    ///
    /// # Errors
    /// If there are more than 32,768 objects, the system refuses memory, a computed number is no distance, or the caller
    /// interrupts.
    pub fn build(objects: &IndexedObjects<'_>, choice: AesaChoice) -> Result<Self, MetricIndexError> {
        let count = objects.count();
        if count > OBJECTS_MAX {
            let (index, most) = ("aesa", OBJECTS_MAX);
            return Err(MetricIndexError::TooManyObjects { index, objects: count, most });
        }
        let mut distances = room(
            count * (count - 1) / 2,
            || format!("the aesa of {count} objects"),
            "use an index that does not grow with their square, such as laesa, or free memory",
        )?;
        for a in objects.all() {
            for b in 0..a {
                distances.push(kept(objects.distance(a, b)?)?);
            }
        }
        Ok(Self { objects: count, choice, distances })
    }

    fn at(&self, a: u32, b: u32) -> f64 {
        let (less, more) = (a.min(b) as usize, a.max(b) as usize);
        f64::from(self.distances[more * (more - 1) / 2 + less])
    }
}

impl MetricIndex for Aesa {
    fn objects(&self) -> usize {
        self.objects
    }

    fn bytes(&self) -> usize {
        bytes_of(&self.distances)
    }

    fn answer(&self, search: &mut Search<'_>) -> Result<(), MetricIndexError> {
        let slack = search.slack().stored();
        let mut left: Vec<Left> =
            (0..self.objects as u32).map(|object| Left { object, lower: 0.0, sum: 0.0 }).collect();
        let mut next = Some(0);
        while let Some(place) = next {
            let pivot = left.remove(place).object;
            let distance = search.compute(pivot)?;
            let range = search.range();
            left.retain_mut(|left| {
                let between = self.at(pivot, left.object);
                left.lower = left.lower.max(slack.apart(distance, between));
                left.sum += (distance - between).abs();
                left.lower <= range
            });
            let key = |place: usize| match self.choice {
                AesaChoice::LeastBound => left[place].lower,
                AesaChoice::LeastSum => left[place].sum,
            };
            next = (0..left.len()).reduce(|a, b| if key(b) < key(a) { b } else { a });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric_index::testing::check;

    #[test]
    fn answers_are_those_of_a_scan() {
        for choice in [AesaChoice::LeastBound, AesaChoice::LeastSum] {
            check(|objects| Aesa::build(objects, choice));
        }
    }

    #[test]
    fn too_many_objects_are_refused_before_any_distance() {
        let between = |_: u32, _: u32| panic!("no distance is needed to see it");
        let objects = IndexedObjects::new(OBJECTS_MAX + 1, &between).unwrap();
        let error = Aesa::build(&objects, AesaChoice::default()).unwrap_err().to_string();
        assert!(error.contains("32768"), "{error}");
    }
}
