//! The exact distances and covariances of all pairs of a store's objects, and their classes.

use std::collections::BTreeMap;

use boxwork_kernels::sketch::coordinate;
use boxwork_runtime::operator::{BoxError, Context};
use boxwork_stores::sketch::Sketch;
use boxwork_stores::store::Store;

use crate::feedback::distances::{Origin, bring_in, exact};
use crate::resources::class_of;
use crate::resources::gp_kernel::GpKernel;

/// Distances and covariances of all pairs, row by row.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) objects: usize,
    pub(super) distances: Vec<f64>,
    pub(super) covariances: Vec<f64>,
    /// The covariances of the sketches, if these bound the objects.
    sketched: Option<Vec<f64>>,
}

impl Table {
    pub(super) fn distances(&self, of: usize) -> &[f64] {
        &self.distances[of * self.objects..(of + 1) * self.objects]
    }

    pub(super) fn covariances(&self, of: usize) -> &[f64] {
        &self.covariances[of * self.objects..(of + 1) * self.objects]
    }

    /// The covariances by which an object bounds others.
    pub(super) fn bounding(&self, of: usize) -> &[f64] {
        let all = self.sketched.as_ref().unwrap_or(&self.covariances);
        &all[of * self.objects..(of + 1) * self.objects]
    }

    /// Whether sketches bound the objects.
    pub(super) fn is_sketched(&self) -> bool {
        self.sketched.is_some()
    }
}

/// Rows of one firing.
const ROWS_PER_FIRING: usize = 32;

/// The objects of a store by place, and the members of the classes that users look for.
#[derive(Debug, Default)]
pub(super) struct Objects {
    /// Ascending.
    pub(super) ids: Vec<u64>,
    /// By name: the places of the members.
    pub(super) classes: Vec<(String, Vec<usize>)>,
}

impl Objects {
    /// Reads the names; blocks on the disk.
    pub(super) fn read(store: &dyn Store, wanted: &[String]) -> Result<Self, BoxError> {
        let (mut ids, mut classes) = (Vec::new(), BTreeMap::<String, Vec<usize>>::new());
        for batch in 0..store.batches() {
            store.each_name(batch, &mut |id, name| {
                if store.has(id) {
                    if let Some(class) = class_of(name) {
                        classes.entry(class.to_owned()).or_default().push(ids.len());
                    }
                    ids.push(id);
                }
            })?;
        }
        if let Some(missing) = wanted.iter().find(|name| !classes.contains_key(*name)) {
            let names: Vec<&str> = classes.keys().map(String::as_str).collect();
            return Err(BoxError::new(format!(
                "there is no class `{missing}`; there are {}",
                names.join(", ")
            )));
        }
        let is_wanted = |name: &String| wanted.is_empty() || wanted.contains(name);
        let classes: Vec<_> =
            classes.into_iter().filter(|(name, members)| is_wanted(name) && members.len() > 1).collect();
        if classes.is_empty() {
            return Err(BoxError::new(format!(
                "`{}` has no class of at least two objects: a class is the last folder of a name",
                store.path().display()
            )));
        }
        store.bring_in(&ids)?;
        Ok(Self { ids, classes })
    }
}

/// The distances of all pairs as they are computed: row by row, those before the diagonal.
#[derive(Debug)]
pub(super) struct Matrix {
    objects: usize,
    rows: Vec<Vec<f64>>,
}

impl Matrix {
    pub(super) fn new(objects: usize) -> Self {
        Self { objects, rows: Vec::with_capacity(objects) }
    }

    /// Computes the next rows; returns whether these were the last.
    pub(super) fn step(
        &mut self,
        cx: &mut Context<'_>,
        kernel: &GpKernel,
        ids: &[u64],
    ) -> Result<bool, BoxError> {
        let first = self.rows.len();
        let upto = self.objects.min(first + ROWS_PER_FIRING);
        bring_in(cx, kernel, &ids[..upto])?;
        let mut rows: Vec<_> = (first..upto).map(|row| Ok(vec![0.0; row])).collect();
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut rows, 1, |at, rows| {
                for (place, row) in rows.iter_mut().enumerate() {
                    let object = first + at + place;
                    let mut distances = vec![0.0; object];
                    let origin = Origin::of_id(ids[object]);
                    *row = exact(kernel, &origin, &ids[..object], &mut distances, &cancelled)
                        .map(|()| distances);
                }
            });
        });
        for row in rows {
            self.rows.push(row?);
        }
        Ok(self.rows.len() == self.objects)
    }

    /// The whole matrix and its covariances.
    pub(super) fn finish(&mut self, kernel: &GpKernel, ids: &[u64]) -> Table {
        let objects = self.objects;
        let mut distances = vec![0.0; objects * objects];
        for (row, values) in self.rows.drain(..).enumerate() {
            for (column, value) in values.into_iter().enumerate() {
                distances[row * objects + column] = value;
                distances[column * objects + row] = value;
            }
        }
        let covariances = distances.iter().map(|distance| kernel.covariance.of(*distance)).collect();
        let sketched = kernel.sketch.as_ref().map(|sketch| sketched(kernel, sketch, ids));
        Table { objects, distances, covariances, sketched }
    }
}

/// The covariances of the sketches of all pairs, as `gp_scan` computes them.
fn sketched(kernel: &GpKernel, sketch: &Sketch, ids: &[u64]) -> Vec<f64> {
    let sketches: Vec<Vec<f64>> =
        ids.iter().map(|id| sketch.at(*id).map(|bits| f64::from(coordinate(bits))).to_vec()).collect();
    let distance = |a: &[f64], b: &[f64]| {
        let differences = a.iter().zip(b).map(|(a, b)| a - b);
        differences.fold(0.0, |sum, x| sum + x * x).sqrt()
    };
    let mut covariances = Vec::with_capacity(sketches.len() * sketches.len());
    for a in &sketches {
        covariances.extend(sketches.iter().map(|b| kernel.covariance.of(distance(b, a))));
    }
    covariances
}
