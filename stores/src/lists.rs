//! Vectors in lists, one for each of many centroids: a query looks only into the lists of the centroids near it, so its answer may
//! miss objects.
//!
//! It is the content of `*.lists.arrow` (`lists/layout.rs`). A list holds the vectors themselves, or codes of their differences
//! from its centroid (`boxwork_kernels::product`), in groups of 32 rows. All of it is in memory.
//!
//! Invariant: lists belong to one content of a store, by its fingerprint; any other file is refused with the command that
//! makes it. Equal stores and options give equal files, on every machine and for any number of workers.

mod error;
mod quantizers;
mod layout;
mod writer;
mod reader;

pub use error::ListsError;
pub use quantizers::{CODINGS, Coding, ListsOptions, Quantizers, Training};
pub use reader::{ListQueries, Lists};
pub use writer::{Assigned, write};

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;

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

/// The numbers of each vector of a space of vectors with the distance l2.
///
/// # Errors
/// When it is another space, or its first object cannot be read.
pub fn dimensions(space: &dyn Space) -> Result<usize, ListsError> {
    let store = space.store();
    if store.kind() != Vectors::NAME {
        return Err(ListsError::NoVectors { path: store.path().to_owned(), kind: store.kind() });
    }
    if space.measure() != layout::MEASURE {
        return Err(ListsError::OtherMeasure { measure: space.measure() });
    }
    let first = store.nth(0);
    store.bring_in(&[first])?;
    let first = vectors(&**store, &[first])?;
    Ok(first.len())
}

/// Whether an error of the store is a cancellation.
fn is_cancelled(error: &StoreError) -> bool {
    matches!(error, StoreError::Cancelled { .. } | StoreError::Interrupted(_))
}
