//! A signature as a query of an [`SqfdSpace`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray};
use boxwork_kernels::interrupt::Interrupt;
use boxwork_kernels::sqfd::{Arithmetic, PreparedQuery, SignatureRef};

use super::SqfdSpace;
use crate::signature::{SignatureColumns, coordinate_names};
use crate::space_error::SpaceError;

/// A query prepared for the fast paths of the signature quadratic form distance.
pub struct SqfdQuery {
    pub(crate) space: Arc<SqfdSpace>,
    pub(crate) prepared: PreparedQuery,
    signatures: ListArray,
    row: usize,
    pub(crate) len: usize,
    /// The bits of the smallest similarity of an object to itself so far, if the error depends on it: at most 0.
    pub(crate) sigma_min: AtomicU64,
}

impl SqfdQuery {
    pub(crate) fn new_until(
        space: Arc<SqfdSpace>,
        objects: &ArrayRef,
        row: usize,
        interrupt: Interrupt<'_>,
    ) -> Result<Self, SpaceError> {
        let coordinates = coordinate_names(objects.data_type()).unwrap_or_default();
        space.store().check_coordinates(&coordinates)?;
        let signatures = objects.as_list::<i32>().clone();
        let refused = |error: crate::signature::SignatureError| SpaceError::Query(error.to_string());
        let columns = SignatureColumns::new(&signatures).map_err(refused)?;
        let signature = columns.signature(row);
        let prepared = PreparedQuery::new_until(space.measure(), signature, interrupt)?;
        let len = signature.len();
        Ok(Self { space, prepared, signatures, row, len, sigma_min: AtomicU64::new(0) })
    }

    /// The query in the form of the fast paths.
    pub fn prepared(&self) -> &PreparedQuery {
        &self.prepared
    }

    /// The largest error of a squared fast distance, for all arithmetics used in the space so far.
    pub fn error_squared(&self, range: f64) -> f64 {
        let arithmetic = self.space.arithmetic().get().copied().unwrap_or(Arithmetic::Single);
        self.prepared.error_squared_of(arithmetic, range, self.sigma_min())
    }

    pub(crate) fn sigma_min(&self) -> f64 {
        f64::from_bits(self.sigma_min.load(Ordering::Relaxed))
    }

    /// Lends the signature.
    ///
    /// # Errors
    /// When the array does not hold signatures; callers check that before.
    pub fn with_signature<R>(&self, f: impl FnOnce(SignatureRef<'_>) -> R) -> Result<R, SpaceError> {
        let columns = SignatureColumns::new(&self.signatures);
        let columns = columns.map_err(|error| SpaceError::Query(error.to_string()))?;
        Ok(f(columns.signature(self.row)))
    }
}

impl fmt::Debug for SqfdQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqfdQuery").field("row", &self.row).finish_non_exhaustive()
    }
}
