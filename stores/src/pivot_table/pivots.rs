//! The pivots of a table and the simplex that they span, as the head of a file states them.

use std::path::Path;

use boxwork_kernels::lower_bound::{BoundError, PIVOTS_MAX, Simplex};

use super::super::packed_file::{PackedError, PackedFile};
use super::error::IndexError;
use super::unit::{FAR, unit};
use super::{Extremes, layout};
use crate::space::Space;

/// Objects whose distances from a single pivot determine the unit.
const PROBED: usize = 64;
/// Candidates tried as replacement of a removed pivot.
const STAND_INS_TRIED: usize = 64;

/// Objects from which all others are measured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pivots {
    /// As objects of the store.
    pub(crate) ids: Vec<u64>,
    /// All distances are multiples of this power of two.
    pub(crate) unit: f64,
    /// Their distances among themselves, row by row, in units.
    pub(crate) between: Vec<f64>,
    /// Over a distance that is no Hilbert distance it means nothing.
    pub(crate) simplex: Simplex,
}

impl Pivots {
    /// These objects as pivots; `between` holds their f64 distances, row by row. Returns also the extremes among them.
    ///
    /// # Errors
    /// When a distance is invalid, which the error says of the file `path`, or an object cannot be read.
    ///
    /// # Panics
    /// When there is no pivot or more than [`PIVOTS_MAX`], or `between` has another size.
    pub(crate) fn new(
        space: &dyn Space,
        ids: &[u64],
        between: &[f64],
        path: &Path,
    ) -> Result<(Self, Extremes), IndexError> {
        assert!((1..=PIVOTS_MAX).contains(&ids.len()), "1 to {PIVOTS_MAX} pivots");
        let unit = unit(scale(space, ids[0], between)?);
        let between: Vec<f64> = between.iter().map(|distance| distance / unit).collect();
        let distance_max = between.iter().fold(0.0, |largest: f64, distance| largest.max(*distance));
        let mut extremes = Extremes { distance_max, ..Extremes::default() };
        for &pivot in ids {
            extremes.extent = extremes.extent.max(space.extent(pivot)?);
        }
        let is_hilbert = space.properties().hilbert;
        // An unsound simplex is not used.
        let simplex =
            Simplex::new(if is_hilbert { &between } else { &[0.0] }, extremes.noise_squared(space, unit));
        let simplex = simplex.map_err(|source| {
            let id = ids[0];
            IndexError::Bounds { path: path.to_owned(), id, source }
        })?;
        Ok((Self { ids: ids.to_vec(), unit, between, simplex }, extremes))
    }

    /// The pivots that the head of a file states, which covers so many ids.
    pub(crate) fn of_file(file: &PackedFile, covered: u64) -> Result<Self, PackedError> {
        let ids = file.counts(file.said(layout::PIVOTS_KEY))?;
        let kept = file.counts(file.said(layout::KEPT_KEY))?;
        let kept: Vec<usize> = kept.into_iter().map(|pivot| pivot as usize).collect();
        let between = file.numbers(file.said(layout::BETWEEN_KEY))?;
        let rows = file.numbers(file.said(layout::ROWS_KEY))?;
        let tau = file.numbers(file.said(layout::TAU_KEY))?;
        if !(1..=PIVOTS_MAX).contains(&ids.len()) || ids.iter().any(|pivot| *pivot >= covered) {
            return Err(file.unclear());
        }
        let tau = tau.first().copied().ok_or_else(|| file.unclear())?;
        let simplex = Simplex::from_parts(kept, rows, &between, ids.len(), tau);
        let simplex = simplex.ok_or_else(|| file.unclear())?;
        Ok(Self { ids, unit: file.unit()?, between, simplex })
    }

    /// The entries of a head that state these pivots.
    pub(crate) fn head(&self) -> Vec<(&'static str, String)> {
        let list = |numbers: &[f64]| serde_json::to_string(numbers).expect("numbers are JSON");
        let mut head = vec![
            (layout::PIVOTS_KEY, serde_json::to_string(&self.ids).expect("numbers are JSON")),
            (layout::BETWEEN_KEY, list(&self.between)),
            (layout::KEPT_KEY, serde_json::to_string(self.simplex.kept()).expect("numbers are JSON")),
            (layout::ROWS_KEY, list(self.simplex.rows())),
            (layout::TAU_KEY, list(&[self.simplex.tau()])),
        ];
        if self.unit != 1.0 {
            head.push((layout::UNIT_KEY, format!("{:?}", self.unit)));
        }
        head
    }

    /// Number of pivots.
    pub(crate) fn count(&self) -> usize {
        self.ids.len()
    }

    /// The largest distance of two pivots, in units.
    pub(crate) fn distance_max(&self) -> f64 {
        self.between.iter().fold(0.0, |largest: f64, distance| largest.max(*distance))
    }

    /// The first of an object's distances to the pivots that is too large for a table.
    pub(crate) fn too_far(&self, distances: &[f64]) -> Option<f64> {
        distances.iter().copied().find(|distance| distance / self.unit > FAR)
    }

    /// The apex of an object by its f64 distances to the pivots, in units as a table holds it. `noise_squared` is the
    /// largest error of a squared distance.
    ///
    /// # Errors
    /// When no point has these distances.
    pub(crate) fn apex(&self, distances: &[f64], noise_squared: f64) -> Result<Vec<f32>, BoundError> {
        let distances: Vec<f64> = distances.iter().map(|distance| distance / self.unit).collect();
        let apex = self.simplex.apex(&distances, noise_squared / (self.unit * self.unit))?;
        Ok(apex.coordinates.into_iter().map(|number| number as f32).collect())
    }

    /// The pivots as objects of the compacted store, if none of them was removed from the store before.
    pub(crate) fn ranked(&self, before: &dyn Space) -> Option<Self> {
        let store = before.store();
        let is_whole = self.ids.iter().all(|pivot| store.has(*pivot));
        let ids = self.ids.iter().map(|pivot| store.rank(*pivot)).collect();
        is_whole.then(|| Self { ids, ..self.clone() })
    }

    /// The pivots that replace these in the compacted store, and their f64 distances, row by row. An object behind a
    /// removed pivot stands in for it, unless it has distance 0 from another pivot and would bound nothing more. So there
    /// may be fewer pivots.
    ///
    /// # Errors
    /// When an object cannot be read, or the caller cancels it.
    pub(crate) fn stand_ins(
        &self,
        before: &dyn Space,
        after: &dyn Space,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(Vec<u64>, Vec<f64>), IndexError> {
        let (store, objects_count) = (before.store(), after.store().ids_count());
        let (kept, removed): (Vec<u64>, Vec<u64>) =
            self.ids.iter().copied().partition(|pivot| store.has(*pivot));
        let mut pivots: Vec<u64> = kept.iter().map(|pivot| store.rank(*pivot)).collect();
        for removed in removed {
            let first = store.rank(removed);
            let candidates = (0..objects_count).map(|nth| (first + nth) % objects_count);
            for id in candidates.filter(|id| !pivots.contains(id)).take(STAND_INS_TRIED).collect::<Vec<_>>() {
                if cancelled() {
                    return Err(IndexError::Cancelled);
                }
                let pairs: Vec<[u64; 2]> = pivots.iter().map(|pivot| [*pivot, id]).collect();
                let mut distances = vec![0.0; pairs.len()];
                after.between_until(&pairs, &mut distances, cancelled)?;
                if distances.iter().all(|distance| *distance > 0.0) {
                    pivots.push(id);
                    break;
                }
            }
        }
        let pairs: Vec<[u64; 2]> = pivots.iter().flat_map(|a| pivots.iter().map(move |b| [*a, *b])).collect();
        let mut between = vec![0.0; pairs.len()];
        after.between_until(&pairs, &mut between, cancelled)?;
        Ok((pivots, between))
    }
}

/// The approximate scale of the distances: those among the pivots, or for a single pivot those of some objects.
fn scale(space: &dyn Space, pivot: u64, between: &[f64]) -> Result<f64, IndexError> {
    let largest = |distances: &[f64]| distances.iter().fold(0.0, |largest: f64, next| largest.max(*next));
    let store = space.store();
    if largest(between) > 0.0 {
        return Ok(largest(between));
    }
    let batch = store.batch_ids(store.locate(pivot)?.0);
    let step = (batch.end - batch.start).div_ceil(PROBED as u64) as usize;
    let pairs: Vec<[u64; 2]> = store.among(batch).step_by(step).map(|id| [pivot, id]).collect();
    let mut distances = vec![0.0; pairs.len()];
    space.between(&pairs, &mut distances)?;
    Ok(largest(&distances))
}
