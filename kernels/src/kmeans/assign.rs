//! The nearest centroid of each row.
//!
//! Two ways leave few centroids of a row, among which its nearest is found in f64: scores in f32, or distances of whole numbers
//! where vector units multiply bytes (docs/decisions/104).

use std::sync::OnceLock;

use crate::CodePath;
use crate::distance::squared_l2_on;
use crate::panels::{Candidate, Coded, CodedQueries, Panels};

/// Rows whose candidates are kept at a time.
const ROWS_AT_ONCE: usize = 768;

/// With fewer centroids or dimensions, whole numbers save less than they cost.
const CODED_MIN: (usize, usize) = (64, 24);

/// If a part of the centroids like this is left of a row on average, scores in f32 are faster.
const LEFT_MAX: usize = 16;

/// No centroid yet.
const NONE: (u32, f64) = (u32::MAX, f64::INFINITY);

/// Centroids, arranged for the assignment of many rows.
#[derive(Clone, Debug)]
pub struct Assigner<'a> {
    centroids: &'a [f32],
    dimensions: usize,
    centre: Option<Vec<f32>>,
    panels: OnceLock<Panels>,
    coded: OnceLock<Option<Coded>>,
}

impl<'a> Assigner<'a> {
    /// Arranges centroids, `dimensions` numbers each. A centre near the middle of the rows makes the assignment faster, and
    /// never changes it.
    ///
    /// # Panics
    /// If there is no centroid, or these are no whole ones.
    pub fn new(centroids: &'a [f32], dimensions: usize, centre: Option<&[f32]>) -> Self {
        assert!(!centroids.is_empty(), "at least one centroid");
        assert!(dimensions > 0 && centroids.len().is_multiple_of(dimensions), "whole centroids");
        assert!(
            centre.is_none_or(|centre| centre.len() == dimensions),
            "a centre of the centroids' dimensions"
        );
        let centre = centre.map(<[f32]>::to_vec);
        Self { centroids, dimensions, centre, panels: OnceLock::new(), coded: OnceLock::new() }
    }

    /// For each row its nearest centroid, the lowest of equal ones, and the squared distance from it.
    ///
    /// # Panics
    /// If this machine lacks the instructions.
    pub fn assign(&self, path: CodePath, rows: &[f32]) -> Vec<(u32, f64)> {
        self.assign_again(path, rows, &[])
    }

    /// The cluster of a row as [`Assigner::assign`] finds it, by comparing all centroids: without their arrangement, which
    /// costs more than a few rows.
    ///
    /// # Panics
    /// If the row has other dimensions, or this machine lacks the instructions.
    pub fn nearest_of_all(&self, path: CodePath, row: &[f32]) -> u32 {
        self.nearest(path, row, 0, 0..(self.centroids.len() / self.dimensions) as u32, NONE).0
    }

    /// As [`Assigner::assign`], without the distances: a row that has one candidate needs none.
    pub(crate) fn assign_numbers(&self, path: CodePath, rows: &[f32], mut assigned: impl FnMut(u32)) {
        if self.coded(path).is_some() {
            return self.assign(path, rows).into_iter().for_each(|(centroid, _)| assigned(centroid));
        }
        let mut found = Vec::new();
        for rows in rows.chunks(ROWS_AT_ONCE * self.dimensions) {
            self.panels().borrow().nearest(path, rows, &mut found);
            for candidates in found.chunk_by(|a, b| a.query == b.query) {
                assigned(match candidates {
                    [only] => only.row,
                    _ => {
                        let each = candidates.iter().map(|candidate| candidate.row);
                        self.nearest(path, rows, candidates[0].query, each, NONE).0
                    }
                });
            }
        }
    }

    /// As [`Assigner::assign`], faster if the centroids of an earlier assignment of these rows are near still. There is one for each
    /// row, or none.
    ///
    /// # Panics
    /// As [`Assigner::assign`], and if there is no such centroid.
    pub fn assign_again(&self, path: CodePath, rows: &[f32], earlier: &[u32]) -> Vec<(u32, f64)> {
        let dimensions = self.dimensions;
        assert!(earlier.is_empty() || earlier.len() * dimensions == rows.len(), "a centroid for each row");
        let (mut assigned, mut found) = (Vec::with_capacity(rows.len() / dimensions), Vec::new());
        let (mut coded, mut queries) = (self.coded(path), CodedQueries::default());
        let mut earlier = earlier.chunks(ROWS_AT_ONCE);
        let (mut so_far, mut known) = (Vec::new(), Vec::new());
        for rows in rows.chunks(ROWS_AT_ONCE * dimensions) {
            let earlier = earlier.next().unwrap_or_default();
            let Some(codes) = coded else {
                self.panels().borrow().nearest(path, rows, &mut found);
                for candidates in found.chunk_by(|a, b| a.query == b.query) {
                    let each = candidates.iter().map(|candidate| candidate.row);
                    assigned.push(self.nearest(path, rows, candidates[0].query, each, NONE));
                }
                continue;
            };
            so_far.clear();
            so_far.extend(
                (0..)
                    .zip(earlier)
                    .map(|(row, centroid)| self.nearest(path, rows, row, [*centroid].into_iter(), NONE)),
            );
            known.clear();
            known.extend(so_far.iter().map(|(_, square)| square.sqrt()));
            codes.nearest(path, rows, &known, &mut queries, &mut found);
            for candidates in found.chunk_by(|a, b| a.query == b.query) {
                let so_far = so_far.get(candidates[0].query as usize).copied().unwrap_or(NONE);
                assigned.push(self.nearest_coded(path, rows, candidates, codes, &queries, so_far));
            }
            if found.len() * LEFT_MAX > rows.len() / dimensions * (self.centroids.len() / dimensions) {
                coded = None;
            }
        }
        assigned
    }

    /// The nearest of some centroids, or the one so far.
    fn nearest(
        &self,
        path: CodePath,
        rows: &[f32],
        query: u32,
        centroids: impl Iterator<Item = u32>,
        mut nearest: (u32, f64),
    ) -> (u32, f64) {
        let row = &rows[query as usize * self.dimensions..][..self.dimensions];
        for number in centroids {
            let centroid = &self.centroids[number as usize * self.dimensions..][..self.dimensions];
            let distance = squared_l2_on(path, row, centroid);
            if (distance, number) < (nearest.1, nearest.0) {
                nearest = (number, distance);
            }
        }
        nearest
    }

    /// The nearest of the candidates, one of which may be known: the distance from the one that looks nearest leaves few of the
    /// others.
    fn nearest_coded(
        &self,
        path: CodePath,
        rows: &[f32],
        candidates: &[Candidate],
        coded: &Coded,
        queries: &CodedQueries,
        so_far: (u32, f64),
    ) -> (u32, f64) {
        let (query, mut first) = (candidates[0].query, &candidates[0]);
        for candidate in &candidates[1..] {
            first = if candidate.score < first.score { candidate } else { first };
        }
        let mut nearest = so_far;
        if first.row != so_far.0 {
            nearest = self.nearest(path, rows, query, [first.row].into_iter(), so_far);
        }
        if candidates.len() == 1 {
            return nearest;
        }
        let limit = coded.limit_within(queries, query, nearest.1.sqrt());
        let is_left =
            |other: &&Candidate| other.score <= limit && ![first.row, so_far.0].contains(&other.row);
        self.nearest(path, rows, query, candidates.iter().filter(is_left).map(|other| other.row), nearest)
    }

    fn panels(&self) -> &Panels {
        self.panels.get_or_init(|| Panels::new(self.centroids, self.dimensions, self.centre.as_deref()))
    }

    /// The centroids as whole numbers, if these are faster.
    fn coded(&self, path: CodePath) -> Option<&Coded> {
        let (count, dimensions) = (self.centroids.len() / self.dimensions, self.dimensions);
        if count < CODED_MIN.0 || dimensions < CODED_MIN.1 || !Coded::is_fast(path) {
            return None;
        }
        let coded = self.coded.get_or_init(|| {
            let own = || centre(self.centroids, dimensions);
            let middle = self.centre.clone().unwrap_or_else(own);
            Coded::new(path, self.centroids, dimensions, &middle)
        });
        coded.as_ref()
    }
}

/// The mean of all rows, about: rows and centroids are taken relative to it.
pub(super) fn centre(rows: &[f32], dimensions: usize) -> Vec<f32> {
    let mut sums = vec![0.0f64; dimensions];
    for row in rows.chunks_exact(dimensions) {
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x));
    }
    let count = (rows.len() / dimensions).max(1) as f64;
    sums.into_iter().map(|sum| (sum / count) as f32).collect()
}
