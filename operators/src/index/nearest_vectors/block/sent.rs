//! Rows of a store as a device takes them.

use std::ops::Range;

use boxwork_kernels::vector::VectorRef;
use boxwork_runtime::feeding::Plain;
use boxwork_stores::kinds::{Kind as _, Vectors};
use boxwork_stores::object_store::ObjectStore;
use boxwork_stores::store_error::StoreError;

/// A number of a row as a device takes it.
pub(super) trait Sent: Plain {
    /// Copies some numbers of a type; those of another type are not this.
    fn copy(from: VectorRef<'_>, range: Range<usize>, to: &mut [Self]);
}

macro_rules! sent {
    ($($number:ty, $form:ident, $from:ident => $value:expr;)*) => {$(
        impl Sent for $number {
            fn copy(from: VectorRef<'_>, range: Range<usize>, to: &mut [Self]) {
                let VectorRef::$form(from) = from else { unreachable!("a store has one type of numbers") };
                to.iter_mut().zip(&from[range]).for_each(|(to, $from)| *to = $value);
            }
        }
    )*};
}

sent! {
    f32, F32, number => *number;
    u16, F16, number => number.to_bits();
    u8, U8, number => *number;
    i8, I8, number => *number;
}

/// Copies whole rows, from `first` on, until `to` is full.
pub(super) fn copy<T: Sent>(
    vectors: &ObjectStore<Vectors>,
    first: u64,
    to: &mut [T],
) -> Result<(), StoreError> {
    let dimensions = vectors.kind().dimensions();
    each_batch(vectors, first, to.len() / dimensions, |all, numbers, place| {
        let to = &mut to[place * dimensions..][..numbers.len()];
        T::copy(all, numbers, to);
    })
}

/// Calls a function with the numbers of each batch that holds some of the rows, where the rows' numbers are among them, and the
/// place of the first.
pub(super) fn each_batch(
    vectors: &ObjectStore<Vectors>,
    first: u64,
    count: usize,
    mut f: impl FnMut(VectorRef<'_>, Range<usize>, usize),
) -> Result<(), StoreError> {
    let dimensions = vectors.kind().dimensions();
    vectors.read::<_, StoreError>(|objects| {
        let mut place = 0;
        while place < count {
            let (batch, at) = vectors.locate(first + place as u64)?;
            let rows = (count - place).min((vectors.ids(batch).end - first) as usize - place);
            f(objects.batch(batch)?.all(), at * dimensions..(at + rows) * dimensions, place);
            place += rows;
        }
        Ok(())
    })
}
