//! The exact distances and covariances of all pairs of a store's objects, and their classes.

use std::collections::BTreeMap;

use boxwork_kernels::sketch::coordinate;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::BoxError;
use boxwork_stores::sketch::Sketch;
use boxwork_stores::store::Store;

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
        Ok(Self { ids, classes })
    }
}

/// The distances of all pairs as they come.
#[derive(Debug)]
pub(super) struct Matrix {
    objects: usize,
    distances: Vec<f64>,
    /// Pairs that have come.
    pairs: usize,
}

impl Matrix {
    pub(super) fn new(objects: usize) -> Self {
        Self { objects, distances: vec![0.0; objects * objects], pairs: 0 }
    }

    /// Takes the distances of some pairs; `ids` are those of all objects, ascending.
    ///
    /// # Errors
    /// When a pair is of other objects, or its distance is not exact.
    pub(super) fn take(&mut self, ids: &[u64], pairs: &Envelope) -> Result<(), BoxError> {
        let place = |id: &u64| {
            ids.binary_search(id)
                .map_err(|_| BoxError::new(format!("a pair has object {id}, which the store lacks")))
        };
        let (distances, errors) = (pairs.f64s("distance")?, pairs.f64s("error")?);
        for (row, (a, b)) in pairs.u64s("a")?.iter().zip(pairs.u64s("b")?).enumerate() {
            if errors[row] != 0.0 {
                return Err(BoxError::new(format!(
                    "the distance of objects {a} and {b} is not exact: give `exact_pairs` of box `pair_distances` at \
                     least {}, the number of pairs",
                    self.objects * (self.objects - 1) / 2
                )));
            }
            let (a, b) = (place(a)?, place(b)?);
            self.distances[a * self.objects + b] = distances[row];
            self.distances[b * self.objects + a] = distances[row];
        }
        self.pairs += pairs.rows();
        Ok(())
    }

    /// The whole matrix and its covariances.
    ///
    /// # Errors
    /// When some pairs have not come.
    pub(super) fn finish(&mut self, kernel: &GpKernel, ids: &[u64]) -> Result<Table, BoxError> {
        let (objects, found) = (self.objects, self.pairs);
        let wanted = objects * (objects - 1) / 2;
        if found != wanted {
            return Err(BoxError::new(format!(
                "sessions need the distances of all {wanted} pairs of the store, and {found} came: connect box \
                 `all_pairs` of the same store"
            )));
        }
        let distances = std::mem::take(&mut self.distances);
        let covariances = distances.iter().map(|distance| kernel.covariance.of(*distance)).collect();
        let sketched = kernel.sketch.as_ref().map(|sketch| sketched(kernel, sketch, ids));
        Ok(Table { objects, distances, covariances, sketched })
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
    let covariance = kernel.covariance.in_units(sketch.unit());
    let mut covariances = Vec::with_capacity(sketches.len() * sketches.len());
    for a in &sketches {
        covariances.extend(sketches.iter().map(|b| covariance.of(distance(b, a))));
    }
    covariances
}
