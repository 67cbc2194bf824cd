//! The contract of a space: a distance over the objects of a store, and queries prepared for it.
//!
//! There are two distances. The *fast* distance may come from any code path and is off by no more than
//! [`Prepared::widened`] allows. The *exact* distance is f64 and has equal bits on every machine; results
//! contain it.
//!
//! One distance may take minutes, so each computation has a form ending in `_until`, which asks its caller every few
//! milliseconds whether to stop. Boxes pass the state of their request there.

pub(crate) mod one_by_one;
mod many;
mod sqfd;

use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use boxwork_kernels::distance::{Properties, Slack};
use boxwork_kernels::interrupt::{Interrupt, never};

pub use self::many::PreparedMany;
pub use crate::space_error::SpaceError;
use crate::sqfd_space::{SqfdQuery, SqfdSpace};
use crate::store::Store;

/// The exact distance of two objects, lent by [`Space::lend`].
pub type PairDistance<'a> = dyn Fn(u64, u64) -> f64 + 'a;

/// The exact distance of an object from a query, lent by [`Prepared::lend`].
pub type ObjectDistance<'a> = dyn FnMut(u64) -> f64 + 'a;

/// A distance over the objects of a store.
pub trait Space: Any + Debug + Send + Sync {
    /// The objects.
    fn store(&self) -> &Arc<dyn Store>;

    /// Unique in this process, also over time.
    fn number(&self) -> u64;

    /// The distance and its constants in words, such as `gaussian similarity over l2 at alpha 0.2`, by which an index
    /// recognises its space.
    fn measure(&self) -> String;

    /// The inequalities that the distance obeys.
    fn properties(&self) -> Properties;

    /// The largest error of computed distances among the objects.
    fn slack(&self) -> Slack;

    /// Prepares the object in a row of an Arrow array as a query.
    ///
    /// # Errors
    /// When the array holds objects of another kind, or the object has no distances.
    fn prepare(self: Arc<Self>, objects: &ArrayRef, row: usize) -> Result<Arc<dyn Prepared>, SpaceError> {
        self.prepare_until(objects, row, &never)
    }

    /// As [`Space::prepare`], but the caller may interrupt it.
    ///
    /// # Errors
    /// As [`Space::prepare`], and when the caller interrupts.
    fn prepare_until(
        self: Arc<Self>,
        objects: &ArrayRef,
        row: usize,
        interrupt: Interrupt<'_>,
    ) -> Result<Arc<dyn Prepared>, SpaceError>;

    /// Prepares the objects in some rows of an Arrow array, each as [`Space::prepare_until`] does; a space may check them together.
    ///
    /// # Errors
    /// As [`Space::prepare_until`], with the row.
    fn prepare_rows(
        self: Arc<Self>,
        objects: &ArrayRef,
        rows: Range<usize>,
        interrupt: Interrupt<'_>,
    ) -> Result<Vec<Arc<dyn Prepared>>, (usize, SpaceError)> {
        let each = rows.map(|row| {
            let prepared = Arc::clone(&self).prepare_until(objects, row, interrupt);
            prepared.map_err(|error| (row, error))
        });
        each.collect()
    }

    /// Prepares the objects in rows of Arrow arrays as queries that are compared with the same objects, which a space may
    /// do for all of them at once.
    ///
    /// # Errors
    /// As [`Space::prepare_until`], with the number of the query, from 0.
    fn prepare_many(
        self: Arc<Self>,
        objects: &[(ArrayRef, usize)],
        interrupt: Interrupt<'_>,
    ) -> Result<Arc<dyn PreparedMany>, (usize, SpaceError)> {
        let mut queries = Vec::with_capacity(objects.len());
        for (query, (object, row)) in objects.iter().enumerate() {
            let prepared = Arc::clone(&self).prepare_until(object, *row, interrupt);
            queries.push(prepared.map_err(|error| (query, error))?);
        }
        Ok(Arc::new(many::OneByOne(queries)))
    }

    /// The exact distances of pairs of objects, equal in either order; blocks unless the objects are in memory.
    ///
    /// # Errors
    /// When an object cannot be read.
    ///
    /// # Panics
    /// When `pairs` and `out` differ in length.
    fn between(&self, pairs: &[[u64; 2]], out: &mut [f64]) -> Result<(), SpaceError> {
        self.between_until(pairs, out, &never)
    }

    /// As [`Space::between`], but the caller may interrupt it; `out` is then unspecified.
    ///
    /// # Errors
    /// When an object cannot be read, and when the caller interrupts.
    ///
    /// # Panics
    /// As [`Space::between`].
    fn between_until(
        &self,
        pairs: &[[u64; 2]],
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), SpaceError>;

    /// Lends the exact distance of two objects as a function, for work that needs one pair after the other. Once the
    /// caller has interrupted, the function returns NaN.
    ///
    /// # Errors
    /// When an object cannot be read, and when the caller interrupts; then the distances that `f` got do not count.
    fn lend(&self, interrupt: Interrupt<'_>, f: &mut dyn FnMut(&PairDistance<'_>)) -> Result<(), SpaceError>;

    /// The size of an object, for the errors of an index over it.
    ///
    /// # Errors
    /// When it cannot be read.
    fn extent(&self, id: u64) -> Result<Extent, SpaceError> {
        self.extent_until(id, &never)
    }

    /// As [`Space::extent`], but the caller may interrupt it.
    ///
    /// # Errors
    /// As [`Space::extent`], and when the caller interrupts.
    fn extent_until(&self, _id: u64, _interrupt: Interrupt<'_>) -> Result<Extent, SpaceError> {
        Ok(Extent::default())
    }

    /// The largest error of squared exact distances, among objects and a query of at most this extent whose distances
    /// are at most `distance_max`.
    fn noise_squared(&self, _extent: Extent, distance_max: f64) -> f64 {
        self.slack().noise_squared(distance_max)
    }

    /// The form that devices compute; `None` if the distance has no kernel.
    fn device_form(self: Arc<Self>) -> Option<DeviceForm> {
        None
    }

    /// Stores results that were computed once for all objects beside the store, if they are complete; returns whether
    /// they are stored now. Blocks on the disk.
    fn keep(&self) -> bool {
        true
    }
}

/// The size of an object, in the terms that determine the errors of its distances.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Extent {
    /// Absolute similarity to itself, for distances that are made of similarities.
    pub sigma: f64,
    /// Numbers, letters, elements or centroids.
    pub len: usize,
}

impl Extent {
    /// The larger of each component.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { sigma: self.sigma.max(other.sigma), len: self.len.max(other.len) }
    }
}

/// A query prepared for a space.
pub trait Prepared: Debug + Send + Sync {
    /// Fast distances from objects with ascending ids; blocks unless the objects are in memory. They count if
    /// [`Store::confirm`] passes afterwards.
    ///
    /// # Errors
    /// When a batch is damaged, or there is no such object.
    ///
    /// # Panics
    /// When `ids` and `out` differ in length.
    fn fast(&self, scratch: &mut Scratch, ids: &[u64], out: &mut [f64]) -> Result<(), SpaceError> {
        self.fast_until(scratch, ids, out, &never)
    }

    /// As [`Prepared::fast`], but the caller may interrupt it; `out` is then unspecified.
    ///
    /// # Errors
    /// As [`Prepared::fast`], and when the caller interrupts.
    ///
    /// # Panics
    /// As [`Prepared::fast`].
    fn fast_until(
        &self,
        scratch: &mut Scratch,
        ids: &[u64],
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), SpaceError>;

    /// Exact distances from objects in any order; blocks unless they are in memory.
    ///
    /// # Errors
    /// As [`Prepared::fast`]; and when the file was changed.
    ///
    /// # Panics
    /// When `ids` and `out` differ in length.
    fn exact(&self, ids: &[u64], out: &mut [f64]) -> Result<(), SpaceError> {
        self.exact_until(ids, out, &never)
    }

    /// As [`Prepared::exact`], but the caller may interrupt it; `out` is then unspecified.
    ///
    /// # Errors
    /// As [`Prepared::exact`], and when the caller interrupts.
    ///
    /// # Panics
    /// As [`Prepared::exact`].
    fn exact_until(&self, ids: &[u64], out: &mut [f64], interrupt: Interrupt<'_>) -> Result<(), SpaceError>;

    /// Whether fast distances are exact, so that no distance need be computed again.
    fn is_exact(&self) -> bool {
        false
    }

    /// The largest fast distance of an object whose exact distance is at most `range`; also the largest exact distance
    /// of an object whose fast distance is at most `range`.
    fn widened(&self, range: f64) -> f64 {
        range
    }

    /// Updates the error for objects whose fast distances have come, if it depends on them. Returns whether the error
    /// has grown: then earlier results of [`Prepared::widened`] are too small.
    ///
    /// # Errors
    /// When an object cannot be read, and when the caller interrupts.
    fn see(&self, _ids: &[u64], _interrupt: Interrupt<'_>) -> Result<bool, SpaceError> {
        Ok(false)
    }

    /// Lends the exact distance from an object as a function, for work that needs one after the other. Once the caller
    /// has interrupted, the function returns NaN.
    ///
    /// # Errors
    /// When an object cannot be read, and when the caller interrupts; then the distances that `f` got do not count.
    fn lend(
        &self,
        interrupt: Interrupt<'_>,
        f: &mut dyn FnMut(&mut ObjectDistance<'_>),
    ) -> Result<(), SpaceError>;

    /// The exact distance from the object in a row of an Arrow array, which need not be of the store.
    ///
    /// # Errors
    /// When the array holds objects of another kind, the object has no distances, and when the caller interrupts.
    fn to_object(&self, objects: &ArrayRef, row: usize, interrupt: Interrupt<'_>) -> Result<f64, SpaceError>;

    /// The size of the query: the cost of a distance is proportional to it.
    fn size(&self) -> usize {
        1
    }

    /// The largest error of exact distances from this query.
    fn slack(&self) -> Slack;

    /// The largest error of squared exact distances, among this query and objects of at most this extent whose
    /// distances are at most `distance_max`.
    fn noise_squared(&self, _extent: Extent, distance_max: f64) -> f64 {
        self.slack().noise_squared(distance_max)
    }

    /// The query as devices read it, if devices compute the distance.
    fn device_form(&self) -> Option<QueryForm<'_>> {
        None
    }
}

/// The device form of a space. A box that feeds devices matches on this; a new kernel is a new variant.
#[derive(Clone, Debug)]
pub enum DeviceForm {
    /// The signature quadratic form distance.
    Sqfd(Arc<SqfdSpace>),
}

/// The device form of a query.
#[derive(Clone, Copy, Debug)]
pub enum QueryForm<'a> {
    /// A signature.
    Sqfd(&'a SqfdQuery),
}

/// Working memory that a box keeps between calls of [`Prepared::fast`].
#[derive(Default)]
pub struct Scratch(Option<Box<dyn Any + Send>>);

impl Scratch {
    /// The memory for one kind of distance, made at its first use.
    pub fn of<T: Any + Send>(&mut self, make: impl FnOnce() -> T) -> &mut T {
        if !self.0.as_ref().is_some_and(|kept| kept.is::<T>()) {
            self.0 = Some(Box::new(make()));
        }
        let kept = self.0.as_mut().and_then(|kept| kept.downcast_mut());
        kept.unwrap_or_else(|| unreachable!("the memory was just made of this type"))
    }
}

impl Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch").finish_non_exhaustive()
    }
}

/// A space that boxes share: the value of a resource of the family `space`.
#[derive(Clone, Debug)]
pub struct SharedSpace(pub Arc<dyn Space>);
