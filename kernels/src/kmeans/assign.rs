//! The nearest centroid of each row.

use crate::CodePath;
use crate::distance::squared_l2;
use crate::panels::Panels;

/// Rows whose candidates are kept at a time.
const ROWS_AT_ONCE: usize = 768;

/// Centroids, arranged for the assignment of many rows.
#[derive(Clone, Debug)]
pub struct Assigner<'a> {
    centroids: &'a [f32],
    dimensions: usize,
    panels: Panels,
}

impl<'a> Assigner<'a> {
    /// Arranges centroids, `dimensions` numbers each. A centre near the middle of the rows makes the assignment faster, and
    /// never changes it.
    ///
    /// # Panics
    /// If there is no centroid, or these are no whole ones.
    pub fn new(centroids: &'a [f32], dimensions: usize, centre: Option<&[f32]>) -> Self {
        assert!(!centroids.is_empty(), "at least one centroid");
        Self { centroids, dimensions, panels: Panels::new(centroids, dimensions, centre) }
    }

    /// For each row its nearest centroid, the lowest of equal ones, and the squared distance from it.
    ///
    /// # Panics
    /// If this machine lacks the instructions.
    pub fn assign(&self, path: CodePath, rows: &[f32]) -> Vec<(u32, f64)> {
        let (panels, dimensions) = (self.panels.borrow(), self.dimensions);
        let mut assigned = Vec::with_capacity(rows.len() / dimensions);
        for rows in rows.chunks(ROWS_AT_ONCE * dimensions) {
            let mut lists: Vec<_> =
                rows.chunks_exact(dimensions).map(|row| panels.shortlist(row, 1)).collect();
            panels.scan(path, rows, &mut lists, 0);
            for (row, list) in rows.chunks_exact(dimensions).zip(&mut lists) {
                let distance = |number: u32| {
                    squared_l2(row, &self.centroids[number as usize * dimensions..][..dimensions])
                };
                let found = list.nearest(distance);
                assigned.extend(found.map(|(distance, number)| (number, distance)));
            }
        }
        assigned
    }
}
