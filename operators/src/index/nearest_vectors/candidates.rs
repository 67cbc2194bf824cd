//! The rows that may be among the nearest of a query, and the exact distances of those that a device has computed already.

use boxwork_kernels::vector::Nearest;

/// Rows by their values, and the distances that are known.
pub(in crate::index) struct Candidates {
    /// Rows by their values. If all of them are known, it is kept for the slot that parts the rows, which frees its memory: for
    /// thousands of queries that is too much for the firing.
    nearest: Option<Nearest>,
    /// Whether all rows that may be among the nearest are known.
    are_all_known: bool,
    /// Rows and f64 distances, with the bits of the reference; more rows than the nearest may be among them.
    known: Vec<(u32, f64)>,
    /// Distances that devices computed, some of which they did not hand over.
    computed: u64,
}

/// Rows in no order, parted by what is known of them.
pub(in crate::index) struct Parted {
    /// Rows with their distances.
    pub(in crate::index) known: Vec<(f64, u32)>,
    /// The others.
    pub(in crate::index) rest: Vec<u32>,
    /// Distances that devices computed: those that are known, and those of rows that are not among the nearest.
    pub(in crate::index) computed: u64,
}

impl Candidates {
    /// Rows of which no distance is known.
    pub(in crate::index) fn unknown(nearest: Nearest) -> Self {
        Self::new(nearest, Vec::new())
    }

    pub(in crate::index) fn new(nearest: Nearest, known: Vec<(u32, f64)>) -> Self {
        Self { nearest: Some(nearest), are_all_known: false, computed: 0, known }
    }

    /// Rows that are all known, of so many distances that devices computed.
    pub(in crate::index) fn known(nearest: Option<Nearest>, known: Vec<(u32, f64)>, computed: u64) -> Self {
        Self { nearest, are_all_known: true, known, computed }
    }

    /// Whether all distances are known.
    pub(in crate::index) fn are_all_known(&self) -> bool {
        self.are_all_known
    }

    /// Takes them, and leaves none.
    pub(in crate::index) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::known(None, Vec::new(), 0))
    }

    /// The rows that may be among the k nearest.
    pub(in crate::index) fn into_parted(mut self) -> Parted {
        let Some(nearest) = self.nearest.filter(|_| !self.are_all_known) else {
            let known = self.known.into_iter().map(|(row, distance)| (distance, row));
            return Parted { known: known.collect(), rest: Vec::new(), computed: self.computed };
        };
        self.known.sort_unstable_by_key(|(row, _)| *row);
        let mut parted = Parted { known: Vec::new(), rest: Vec::new(), computed: 0 };
        for (_, row) in nearest.into_kept() {
            match self.known.binary_search_by_key(&row, |(row, _)| *row) {
                Ok(at) => parted.known.push((self.known[at].1, row)),
                Err(_) => parted.rest.push(row),
            }
        }
        parted.computed = parted.known.len() as u64;
        parted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_parted_by_whether_their_distances_are_known() {
        let mut nearest = Nearest::new(2, f64::INFINITY);
        for (row, value) in [(9, 1.0), (4, 2.0), (7, 3.0), (5, 2.0)] {
            nearest.push(value, row);
        }
        let mut candidates = Candidates::new(nearest, vec![(7, 0.5), (9, 0.25), (4, 0.75)]);
        let Parted { mut known, rest, computed } = candidates.take().into_parted();
        known.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        assert_eq!(computed, 2);
        // Row 7 has a known distance, but is not among the nearest by values.
        assert_eq!((known, rest), (vec![(0.25, 9), (0.75, 4)], vec![5]));
        let Parted { known, rest, .. } = candidates.into_parted();
        assert!(known.is_empty() && rest.is_empty());
        let Parted { known, rest, computed } =
            Candidates::known(Some(Nearest::new(2, 1.0)), vec![(7, 0.5), (3, 0.25)], 9).into_parted();
        assert_eq!((known, rest, computed), (vec![(0.5, 7), (0.25, 3)], vec![], 9));
    }
}
