//! Distances that are computed one by one, each of which can fail: into a slice, or lent as a function.
//!
//! The functions are generic over the computation of a distance, so no loop calls it by a pointer.

use std::cell::RefCell;

/// Fills `out` with a distance for each item; ends at the first error.
///
/// # Panics
/// When `items` and `out` differ in length.
#[inline]
pub(crate) fn fill<T: Copy, E>(
    items: &[T],
    out: &mut [f64],
    mut distance: impl FnMut(T) -> Result<f64, E>,
) -> Result<(), E> {
    assert_eq!(items.len(), out.len(), "a distance an item");
    items.iter().zip(out).try_for_each(|(item, out)| {
        *out = distance(*item)?;
        Ok(())
    })
}

/// The last error among distances that are lent as plain numbers.
pub(crate) struct Failure<E>(RefCell<Option<E>>);

impl<E> Failure<E> {
    /// Lends distances to `f`, which passes each result through [`Failure::number`].
    ///
    /// # Errors
    /// The last error that a distance had.
    pub(crate) fn lend(f: impl FnOnce(&Self)) -> Result<(), E> {
        let failure = Self(RefCell::new(None));
        f(&failure);
        failure.0.into_inner().map_or(Ok(()), Err)
    }

    /// A distance as a number: NaN if it has failed.
    #[inline]
    pub(crate) fn number(&self, distance: Result<f64, E>) -> f64 {
        distance.unwrap_or_else(|error| {
            *self.0.borrow_mut() = Some(error);
            f64::NAN
        })
    }
}
