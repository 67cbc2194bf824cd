//! The nearest centroid of each row.

use crate::CodePath;
use crate::distance::squared_l2;
use crate::panels::{Candidate, Panels};

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
        let (mut assigned, mut found) = (Vec::with_capacity(rows.len() / dimensions), Vec::new());
        for rows in rows.chunks(ROWS_AT_ONCE * dimensions) {
            panels.nearest(path, rows, &mut found);
            for candidates in found.chunk_by(|a, b| a.query == b.query) {
                let row = &rows[candidates[0].query as usize * dimensions..][..dimensions];
                let mut nearest = (u32::MAX, f64::INFINITY);
                for Candidate { row: number, .. } in candidates {
                    let centroid = &self.centroids[*number as usize * dimensions..][..dimensions];
                    let distance = squared_l2(row, centroid);
                    if distance < nearest.1 {
                        nearest = (*number, distance);
                    }
                }
                assigned.push(nearest);
            }
        }
        assigned
    }
}
