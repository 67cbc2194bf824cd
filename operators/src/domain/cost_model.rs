//! Whether an index pays: what bounding all objects costs, and what it leaves to be computed.
//!
//! Times are those of the machine and the data at hand: measured, not assumed. Nothing that is found depends on them.

/// How much longer a distance takes when its object is picked out of the store than when it is the next one: a gather
/// touches a place each coordinate.
const GATHER: f64 = 1.5;

/// What a sample said of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    /// Nanoseconds to bound one object's distance.
    pub(crate) bound_ns: f64,
    /// Nanoseconds to compute it.
    pub(crate) distance_ns: f64,
    /// The share of the objects that the bounds do not rule out.
    pub(crate) left: f64,
}

impl Sample {
    /// Nanoseconds an object, with the index.
    pub(crate) fn indexed_ns(&self) -> f64 {
        self.bound_ns + self.left * GATHER * self.distance_ns
    }

    /// Whether the index is the faster way; a scan costs `distance_ns` an object.
    pub(crate) fn pays(&self) -> bool {
        self.indexed_ns() < self.distance_ns
    }
}

/// The share of a sample's lower bounds that are not above the range that its upper bounds promise for all objects: if
/// `k` of all are wanted, so are the nearest of the sample in proportion, and at least one.
pub(crate) fn share_left(lowers: &[f32], uppers: &mut [f32], k: usize, objects: u64) -> f64 {
    if lowers.is_empty() || k as u64 >= objects {
        return 1.0;
    }
    let wanted = (k as f64 * uppers.len() as f64 / objects as f64).ceil() as usize;
    let place = wanted.clamp(1, uppers.len()) - 1;
    let range = *uppers.select_nth_unstable_by(place, f32::total_cmp).1;
    lowers.iter().filter(|lower| **lower <= range).count() as f64 / lowers.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_pays_where_it_leaves_little_of_what_is_dear() {
        let pays = |bound_ns, distance_ns, left| Sample { bound_ns, distance_ns, left }.pays();
        assert!(pays(20.0, 2000.0, 0.05));
        assert!(pays(20.0, 2000.0, 0.6));
        assert!(!pays(20.0, 2000.0, 0.7), "two thirds picked out cost as much as all in a row");
        assert!(!pays(20.0, 15.0, 0.0), "bounds dearer than distances");
    }

    #[test]
    fn a_share_of_a_sample() {
        let (lowers, uppers) = ([0.1, 0.2, 0.3, 0.4], [0.2, 0.35, 0.5, 0.6]);
        let share = |k, objects| share_left(&lowers, &mut uppers.clone(), k, objects);
        assert_eq!(share(1, 1000), 0.5, "the nearest of four stands for the nearest of a thousand");
        assert_eq!(share(500, 1000), 0.75);
        assert_eq!(share(1000, 1000), 1.0);
        assert_eq!(share_left(&[], &mut [], 1, 5), 1.0);
    }
}
