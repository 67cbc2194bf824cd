//! The error of a space.

use boxwork_kernels::interrupt::Interrupted;

use crate::store_error::StoreError;

/// A space cannot prepare a query or compute a distance.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpaceError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A query has no distances to the objects.
    #[error("{0}")]
    Query(String),
    /// An object or a distance is invalid.
    #[error("{0}")]
    Object(String),
    /// The caller interrupted the computation.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}
