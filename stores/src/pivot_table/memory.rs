//! A table computed in memory, including the choice of its pivots.

use std::sync::Arc;

use boxwork_kernels::lower_bound::{PACKED_OBJECTS, PIVOTS_MAX, Simplex};
use boxwork_kernels::memory::{filled, room};
use boxwork_kernels::metric_index::IndexedObjects;

use super::unit::unit;
use super::{Extremes, IndexError, Last, PivotTable, Pivots};
use crate::new_number;
use crate::space::{Extent, Space};

/// Advice in an error about memory.
const ADVICE: &str = "take fewer pivots, or free memory";

/// The objects that are pivots, counted without removed ones, and the distances of all objects to them, row by row.
struct Measured {
    pivots: Vec<u32>,
    rows: Vec<f64>,
}

impl PivotTable {
    /// Chooses `pivots` pivots, or fewer if there are fewer different objects, and computes all distances to them.
    /// Blocks on the disk. It checks `cancelled` often and stops if that returns true.
    ///
    /// # Errors
    /// When an object cannot be read, a distance is invalid, the system has no memory, or the caller cancelled it.
    pub fn of_space(
        space: Arc<dyn Space>,
        count: usize,
        seed: u64,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, IndexError> {
        let store = Arc::clone(space.store());
        let mut measured = Err(IndexError::Cancelled);
        space.lend(cancelled, &mut |distance| {
            let distance = |a: u32, b: u32| match cancelled() {
                true => f64::NAN,
                false => distance(store.nth(u64::from(a)), store.nth(u64::from(b))),
            };
            measured = measure(store.objects_count() as usize, &distance, count, seed);
        })?;
        if cancelled() {
            return Err(IndexError::Cancelled);
        }
        Self::of_rows(space, measured?, cancelled)
    }

    fn of_rows(
        space: Arc<dyn Space>,
        measured: Measured,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, IndexError> {
        let Measured { pivots, mut rows } = measured;
        let (store, count) = (Arc::clone(space.store()), pivots.len());
        let largest = rows.iter().fold(0.0, |largest: f64, distance| largest.max(*distance));
        let unit = unit(largest);
        rows.iter_mut().for_each(|distance| *distance /= unit);
        let between: Vec<f64> =
            pivots.iter().flat_map(|pivot| rows[*pivot as usize * count..][..count].to_vec()).collect();
        let ids: Vec<u64> = store.among(0..store.ids_count()).collect();
        let mut extent = Extent::default();
        for id in &ids {
            extent = extent.max(space.extent_until(*id, cancelled)?);
        }
        let noise_squared = space.noise_squared(extent, largest) / (unit * unit);
        let is_hilbert = space.properties().hilbert;
        let path = store.path().to_owned();
        let bounds = |id: u64| {
            let path = path.clone();
            move |source| IndexError::Bounds { path, id, source }
        };
        // An unsound simplex is not used.
        let simplex = Simplex::new(if is_hilbert { &between } else { &[0.0] }, noise_squared);
        let simplex = simplex.map_err(bounds(store.nth(u64::from(pivots[0]))))?;
        let apex_columns = if is_hilbert { simplex.dimensions() } else { 0 };
        let len = store.ids_count();
        let padded = (len as usize).next_multiple_of(PACKED_OBJECTS);
        let what = || format!("the pivot table of {len} objects and {count} pivots");
        let zeros = |columns: usize| filled(padded.saturating_mul(columns), 0.0, what, ADVICE);
        let mut table = Self {
            path: path.clone(),
            number: new_number(),
            distances: zeros(count)?,
            apexes: zeros(apex_columns)?,
            space,
            pivots: Pivots {
                ids: pivots.iter().map(|pivot| store.nth(u64::from(*pivot))).collect(),
                unit,
                between,
                simplex,
            },
            apex_columns,
            extremes: Extremes { distance_max: largest / unit, spread_max: 0.0, extent },
            len,
            fingerprint: String::new(),
            last: Last { part: 0, fingerprint: String::new() },
        };
        for (id, row) in ids.into_iter().zip(rows.chunks_exact(count)) {
            let mut apex = Vec::new();
            if is_hilbert {
                let found = table.pivots.simplex.apex(row, noise_squared).map_err(bounds(id))?;
                table.extremes.spread_max = table.extremes.spread_max.max(found.spread);
                apex = found.coordinates;
            }
            table.place(id, row.iter().chain(&apex).map(|number| *number as f32));
        }
        Ok(table)
    }
}

fn measure(
    objects: usize,
    between: &dyn Fn(u32, u32) -> f64,
    count: usize,
    seed: u64,
) -> Result<Measured, IndexError> {
    let what = |pivots: usize| format!("the pivot table of {objects} objects and {pivots} pivots");
    let objects = IndexedObjects::new(objects, between)?;
    let pivots = objects.pivots(count.clamp(1, PIVOTS_MAX), seed)?;
    let mut rows = room(objects.count().saturating_mul(pivots.len()), || what(pivots.len()), ADVICE)?;
    for object in objects.all() {
        for &pivot in &pivots {
            rows.push(if pivot == object { 0.0 } else { objects.distance(pivot, object)? });
        }
    }
    Ok(Measured { pivots, rows })
}
