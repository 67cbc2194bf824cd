//! Vectors in lists, one for each of many centroids: a query looks only into the lists of the centroids near it, so its answer may
//! miss objects.
//!
//! It is the content of `*.lists.arrow` (`lists/layout.rs`). A list holds the vectors themselves, or codes of their differences
//! from its centroid (`boxwork_kernels::product`), in groups of 32 rows. Ids, codes and vectors stay in their files, which are
//! mapped: a query that first looks into a list has its part of the file checked, and the system keeps in memory what it has room for.
//!
//! The distance is l2, ip or cosine. For the cosine, lists hold normalised vectors, and centroids are normalised too; for it and
//! for ip the lists nearest to a query are those whose centroids have the largest inner products with it.
//!
//! Files that follow have the objects that were added since, in the same lists by the same quantizers; removed objects stay in
//! lists and are passed over.
//!
//! Invariant: lists belong to one content of a store, by its fingerprint; any other file is refused with the command that
//! makes it or brings it up. Equal stores and options give equal files, on every machine and for any number of workers.

mod error;
mod quantizers;
mod layout;
mod writer;
mod chain;
mod filling;
mod held;
mod reader;
mod upkeep;

pub(crate) use chain::measure_of;
pub use error::ListsError;
pub(crate) use layout::FORMAT;
pub use layout::{quantizers_like, quantizers_of};
pub use quantizers::{CODINGS, Clustering, Coding, ListsOptions, Quantizers, Training};
pub use reader::{ListQueries, Lists};
pub(crate) use upkeep::{append, check_sources, write_compacted};
pub use writer::{Assigned, write};

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use boxwork_kernels::vector::{NumberType, VectorMeasure, inner_product};

use crate::kinds::{Kind, Vectors, as_f32};
use crate::space::Space;
use crate::store::Store;
use crate::store_error::StoreError;

/// The numbers of some vectors, one after the other, widened to f32 without an error.
///
/// # Errors
/// When there is no such object, its batch is damaged, or the objects are no vectors.
pub fn vectors(store: &dyn Store, ids: &[u64]) -> Result<Vec<f32>, ListsError> {
    let objects = as_f32(&store.objects(ids)?);
    let Some(lists) = objects.as_ref().and_then(|objects| objects.as_list_opt::<i32>()) else {
        return Err(ListsError::NoVectors { path: store.path().to_owned(), kind: store.kind() });
    };
    let values = lists.values().as_primitive::<Float32Type>().values();
    let offsets = lists.value_offsets();
    Ok(values[offsets[0] as usize..offsets[lists.len()] as usize].to_vec())
}

/// As [`vectors`], normalised for the cosine: rounded once, and zeros stay zeros.
///
/// # Errors
/// As [`vectors`].
pub fn vectors_for(
    measure: VectorMeasure,
    store: &dyn Store,
    ids: &[u64],
    dimensions: usize,
) -> Result<Vec<f32>, ListsError> {
    let mut vectors = vectors(store, ids)?;
    normalise_for(measure, &mut vectors, dimensions);
    Ok(vectors)
}

/// Normalises vectors for the cosine.
pub fn normalise_for(measure: VectorMeasure, vectors: &mut [f32], dimensions: usize) {
    if measure != VectorMeasure::Cosine {
        return;
    }
    for vector in vectors.chunks_exact_mut(dimensions) {
        let norm = inner_product(vector, vector).sqrt();
        if norm > 0.0 {
            vector.iter_mut().for_each(|x| *x = (f64::from(*x) / norm) as f32);
        }
    }
}

/// The measure of a space of vectors: l2, ip or cosine.
///
/// # Errors
/// When it is another space.
pub fn measure(space: &dyn Space) -> Result<VectorMeasure, ListsError> {
    let store = space.store();
    if store.kind() != Vectors::NAME {
        return Err(ListsError::NoVectors { path: store.path().to_owned(), kind: store.kind() });
    }
    VectorMeasure::named(&space.measure())
        .ok_or_else(|| ListsError::OtherMeasure { measure: space.measure() })
}

/// The type in which lists keep the numbers of a space's vectors: their own, unless they are normalised.
fn number_type(space: &dyn Space, measure: VectorMeasure) -> Result<NumberType, ListsError> {
    let store = space.store();
    if measure == VectorMeasure::Cosine {
        return Ok(NumberType::F32);
    }
    let first = [store.nth(0)];
    store.bring_in(&first)?;
    let kind = Vectors::of_array(&store.objects(&first)?);
    let none = || ListsError::NoVectors { path: store.path().to_owned(), kind: store.kind() };
    kind.map(|kind| kind.number_type()).ok_or_else(none)
}

/// The numbers of each vector of a space with a [`measure`].
///
/// # Errors
/// When it is another space, or its first object cannot be read.
pub fn dimensions(space: &dyn Space) -> Result<usize, ListsError> {
    measure(space)?;
    let store = space.store();
    let first = store.nth(0);
    store.bring_in(&[first])?;
    let first = vectors(&**store, &[first])?;
    Ok(first.len())
}

/// Whether an error of the store is a cancellation.
fn is_cancelled(error: &StoreError) -> bool {
    matches!(error, StoreError::Cancelled { .. } | StoreError::Interrupted(_))
}

#[cfg(test)]
pub(crate) mod mapped_tests;
