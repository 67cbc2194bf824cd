//! Lists of numbers as Arrow columns: what vectors, sets and every other kind of so many numbers share.

use std::fmt::{Debug, Write};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, ListArray, PrimitiveArray, StringArray};
use arrow_buffer::{ArrowNativeType, Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};
use boxwork_kernels::memory::more;

/// Numbers after which a builder is full: 32 MiB of `f32`.
const BUILDER_NUMBERS: usize = 1 << 23;
/// Numbers of one object at most. A builder that is not full takes one more object and its offsets stay `i32`.
const OBJECT_NUMBERS_MAX: usize = 1 << 27;

const _: () = assert!(4 * (BUILDER_NUMBERS + OBJECT_NUMBERS_MAX) <= i32::MAX as usize);

/// The Arrow type of a list of numbers.
pub(crate) fn list_type<T: ArrowPrimitiveType>() -> DataType {
    DataType::List(Arc::new(Field::new("item", T::DATA_TYPE, false)))
}

/// Whether a type is a list of such numbers, whatever its field is called.
pub(crate) fn is_list_of<T: ArrowPrimitiveType>(kind: &DataType) -> bool {
    matches!(kind, DataType::List(item) if *item.data_type() == T::DATA_TYPE)
}

/// Lists of numbers, checked. The numbers stay where they are; the offsets are a copy.
#[derive(Debug)]
pub(crate) struct Lists<T: ArrowPrimitiveType> {
    numbers: ScalarBuffer<T::Native>,
    offsets: OffsetBuffer<i32>,
}

impl<T: ArrowPrimitiveType> Lists<T> {
    /// The lists of a column.
    pub(crate) fn new(column: &ArrayRef) -> Result<Self, String> {
        let refused = || format!("a column is {} where {} is wanted", column.data_type(), list_type::<T>());
        let lists: &ListArray = column.as_list_opt::<i32>().ok_or_else(refused)?;
        let numbers: &PrimitiveArray<T> = lists.values().as_primitive_opt::<T>().ok_or_else(refused)?;
        if lists.null_count() + numbers.null_count() > 0 {
            return Err("a column holds nulls".to_owned());
        }
        let offsets = own_offsets(lists.value_offsets(), numbers.len())?;
        Ok(Self { numbers: numbers.values().clone(), offsets })
    }

    /// Number of lists.
    pub(crate) fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The numbers of all lists, one after the other.
    pub(crate) fn all(&self) -> &[T::Native] {
        &self.numbers[self.offsets[0] as usize..self.offsets[self.rows()] as usize]
    }

    /// One list.
    #[inline]
    pub(crate) fn at(&self, row: usize) -> &[T::Native] {
        &self.numbers[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }
}

/// Readers index by offsets, so these are copied first and checked then: nothing changes a copy.
pub(crate) fn own_offsets(offsets: &[i32], values: usize) -> Result<OffsetBuffer<i32>, String> {
    let offsets = offsets.to_vec();
    match (offsets.first(), offsets.last()) {
        (Some(&first), Some(&last)) if first >= 0 && last as usize <= values && offsets.is_sorted() => {
            Ok(OffsetBuffer::new(offsets.into()))
        }
        _ => Err("the offsets of a column lead out of it".to_owned()),
    }
}

/// Lists of numbers that become a column.
#[derive(Debug)]
pub(crate) struct ListsBuilder<N> {
    numbers: Vec<N>,
    ends: Vec<i32>,
}

impl<N: Copy> ListsBuilder<N> {
    pub(crate) fn new() -> Self {
        Self { numbers: Vec::new(), ends: Vec::new() }
    }

    /// Appends a list. Asks for its memory first: one file may hold more than there is memory for.
    pub(crate) fn push(&mut self, list: &[N]) -> Result<(), String> {
        if list.len() > OBJECT_NUMBERS_MAX {
            return Err(format!(
                "it has a length of {}, more than {OBJECT_NUMBERS_MAX}: split it into several objects",
                list.len()
            ));
        }
        let what = || "holding the objects up to here".to_owned();
        let advice = "read fewer, or free memory";
        let room = more(&mut self.numbers, list.len(), what, advice);
        room.and_then(|()| more(&mut self.ends, 2, what, advice)).map_err(|error| error.to_string())?;
        self.numbers.extend_from_slice(list);
        let end = i32::try_from(self.numbers.len());
        self.ends.push(end.map_err(|_| "the objects before it fill a batch".to_owned())?);
        Ok(())
    }

    pub(crate) fn is_full(&self) -> bool {
        self.numbers.len() >= BUILDER_NUMBERS
    }

    /// The lists as a column; the builder is empty again.
    pub(crate) fn finish<T: ArrowPrimitiveType<Native = N>>(&mut self) -> ArrayRef
    where
        N: ArrowNativeType,
    {
        let (numbers, offsets) = self.parts();
        let item = Arc::new(Field::new("item", T::DATA_TYPE, false));
        let numbers = Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(numbers), None));
        Arc::new(ListArray::new(item, offsets, numbers, None))
    }

    fn parts(&mut self) -> (Vec<N>, OffsetBuffer<i32>) {
        let mut offsets = std::mem::take(&mut self.ends);
        offsets.insert(0, 0);
        (std::mem::take(&mut self.numbers), OffsetBuffer::new(offsets.into()))
    }
}

impl ListsBuilder<u8> {
    /// The texts whose bytes these are.
    ///
    /// # Panics
    /// When a list is no UTF-8 text.
    pub(crate) fn finish_texts(&mut self) -> StringArray {
        let (bytes, offsets) = self.parts();
        StringArray::new(offsets, Buffer::from_vec(bytes), None)
    }
}

/// The numbers in a row of a column of lists; nothing if the column is of another type.
pub(crate) fn numbers_of<T: ArrowPrimitiveType>(
    column: &ArrayRef,
    row: usize,
) -> Option<Result<ScalarBuffer<T::Native>, String>> {
    let list = match column.data_type() {
        DataType::FixedSizeList(..) => column.as_fixed_size_list().value(row),
        DataType::List(_) => column.as_list::<i32>().value(row),
        _ => return None,
    };
    let numbers = list.as_primitive_opt::<T>()?;
    Some(match numbers.null_count() {
        0 => Ok(numbers.values().clone()),
        _ => Err("it holds a null: fill it, or leave the object out".to_owned()),
    })
}

/// Writes a list of numbers in JSON, each with the fewest digits that read back as the same number.
pub(crate) fn write_numbers<N: Debug>(numbers: impl IntoIterator<Item = N>, text: &mut String) {
    text.push('[');
    for (idx, number) in numbers.into_iter().enumerate() {
        let comma = if idx == 0 { "" } else { "," };
        write!(text, "{comma}{number:?}").expect("a string takes any text");
    }
    text.push(']');
}
