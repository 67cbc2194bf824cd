//! Vectors: as many finite numbers for each object, of one of four types.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Int8Type, UInt8Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, Schema};
use boxwork_kernels::vector::{NumberType, VectorRef};
use half::f16;
use serde_json::Value;

use super::lists::{Lists, ListsBuilder, is_list_of, list_type, numbers_of, write_numbers};
use super::{DIMENSIONS_KEY, Kind, OBJECT};

/// Numbers of a vector at most: sums of products of that many bytes fit 32 bits.
pub const DIMENSIONS_MAX: usize = 65_536;

/// Vectors of one dimension, whose numbers are of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vectors {
    dimensions: usize,
    numbers: NumberType,
}

impl Vectors {
    /// Vectors of this many numbers of 32 bits.
    pub fn new(dimensions: usize) -> Self {
        Self { dimensions, numbers: NumberType::F32 }
    }

    /// Vectors of this many numbers of a type.
    pub fn of(dimensions: usize, numbers: NumberType) -> Self {
        Self { dimensions, numbers }
    }

    /// The type of the numbers.
    pub fn number_type(&self) -> NumberType {
        self.numbers
    }
}

/// Vectors that become a batch.
#[derive(Debug)]
pub struct VectorsBuilder {
    dimensions: usize,
    lists: Builders,
}

#[derive(Debug)]
enum Builders {
    F32(ListsBuilder<f32>),
    F16(ListsBuilder<f16>),
    U8(ListsBuilder<u8>),
    I8(ListsBuilder<i8>),
}

/// The checked columns of some vectors.
#[derive(Debug)]
pub struct VectorsBatch(Columns);

#[derive(Debug)]
enum Columns {
    F32(Lists<Float32Type>),
    F16(Lists<Float16Type>),
    U8(Lists<UInt8Type>),
    I8(Lists<Int8Type>),
}

impl VectorsBatch {
    fn rows(&self) -> usize {
        match &self.0 {
            Columns::F32(lists) => lists.rows(),
            Columns::F16(lists) => lists.rows(),
            Columns::U8(lists) => lists.rows(),
            Columns::I8(lists) => lists.rows(),
        }
    }

    /// All numbers of the batch, row after row.
    pub fn all(&self) -> VectorRef<'_> {
        match &self.0 {
            Columns::F32(lists) => VectorRef::F32(lists.all()),
            Columns::F16(lists) => VectorRef::F16(lists.all()),
            Columns::U8(lists) => VectorRef::U8(lists.all()),
            Columns::I8(lists) => VectorRef::I8(lists.all()),
        }
    }
}

/// The type of the numbers in a list of an Arrow type.
fn type_of(kind: &DataType) -> Option<NumberType> {
    let (DataType::FixedSizeList(item, _) | DataType::List(item)) = kind else { return None };
    match item.data_type() {
        DataType::Float32 => Some(NumberType::F32),
        DataType::Float16 => Some(NumberType::F16),
        DataType::UInt8 => Some(NumberType::U8),
        DataType::Int8 => Some(NumberType::I8),
        _ => None,
    }
}

fn type_of_lists(numbers: NumberType) -> DataType {
    match numbers {
        NumberType::F32 => list_type::<Float32Type>(),
        NumberType::F16 => list_type::<Float16Type>(),
        NumberType::U8 => list_type::<UInt8Type>(),
        NumberType::I8 => list_type::<Int8Type>(),
    }
}

/// A column of vectors with their numbers as f32, without an error; `None` if it holds no vectors of one dimension.
pub fn as_f32(objects: &ArrayRef) -> Option<ArrayRef> {
    if is_list_of::<Float32Type>(objects.data_type()) {
        return Some(Arc::clone(objects));
    }
    let kind = Vectors::of_array(objects)?;
    let mut builder = Vectors::new(kind.dimensions).builder();
    let mut narrow = kind.builder();
    for row in 0..objects.len() {
        Vectors::push_row(&mut narrow, std::slice::from_ref(objects), row).ok()?;
    }
    let batch = kind.batch(&Vectors::finish(&mut narrow)).ok()?;
    for row in 0..objects.len() {
        Vectors::push(&mut builder, VectorRef::F32(&Vectors::item(&batch, row).widened())).ok()?;
    }
    Some(Vectors::finish(&mut builder).swap_remove(0))
}

impl Kind for Vectors {
    const NAME: &'static str = "vectors";
    const USUAL_DISTANCE: &'static str = "l2";
    const ARROW_TYPES: &'static str = "FixedSizeList or List of Float32, Float16, UInt8 or Int8";
    const TEXT: &'static str = "a list such as [1, 2]";

    type Item<'a> = VectorRef<'a>;
    type Batch = VectorsBatch;
    type Builder = VectorsBuilder;

    fn is_type(kind: &DataType) -> bool {
        matches!(kind, DataType::List(_)) && type_of(kind).is_some()
    }

    fn of_schema(schema: &Schema) -> Option<Self> {
        let dimensions = schema.metadata().get(DIMENSIONS_KEY)?.parse().ok().filter(|count| *count > 0)?;
        let numbers = type_of(schema.field_with_name(OBJECT).ok()?.data_type())?;
        Some(Self { dimensions, numbers })
    }

    fn of_array(objects: &ArrayRef) -> Option<Self> {
        let numbers = type_of(objects.data_type())?;
        let dimensions = match objects.data_type() {
            DataType::FixedSizeList(_, length) => usize::try_from(*length).ok()?,
            _ => objects.as_list::<i32>().value_length(0) as usize,
        };
        Some(Self { dimensions, numbers })
    }

    fn of_json(value: &Value) -> Option<Result<Self, String>> {
        value.as_array().map(|numbers| Ok(Self::new(numbers.len())))
    }

    fn columns(&self) -> Vec<Field> {
        vec![Field::new(OBJECT, type_of_lists(self.numbers), false)]
    }

    fn metadata(&self) -> Vec<(&'static str, String)> {
        vec![(DIMENSIONS_KEY, self.dimensions.to_string())]
    }

    fn shape(&self) -> String {
        match self.numbers {
            NumberType::F32 => format!("{} numbers", self.dimensions),
            numbers => format!("{} numbers of type {numbers}", self.dimensions),
        }
    }

    /// A query may have numbers of another type: all widen without an error.
    fn compares(&self, other: &Self) -> bool {
        self.dimensions == other.dimensions
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn batch(&self, columns: &[ArrayRef]) -> Result<VectorsBatch, String> {
        let column = &columns[0];
        let batch = VectorsBatch(match self.numbers {
            NumberType::F32 => Columns::F32(Lists::new(column)?),
            NumberType::F16 => Columns::F16(Lists::new(column)?),
            NumberType::U8 => Columns::U8(Lists::new(column)?),
            NumberType::I8 => Columns::I8(Lists::new(column)?),
        });
        (0..batch.rows()).try_for_each(|row| {
            let checked = check(Self::item(&batch, row), self.dimensions);
            checked.map_err(|reason| format!("row {row}: {reason}"))
        })?;
        Ok(batch)
    }

    #[inline]
    fn item(batch: &VectorsBatch, row: usize) -> VectorRef<'_> {
        match &batch.0 {
            Columns::F32(lists) => VectorRef::F32(lists.at(row)),
            Columns::F16(lists) => VectorRef::F16(lists.at(row)),
            Columns::U8(lists) => VectorRef::U8(lists.at(row)),
            Columns::I8(lists) => VectorRef::I8(lists.at(row)),
        }
    }

    fn builder(&self) -> VectorsBuilder {
        let lists = match self.numbers {
            NumberType::F32 => Builders::F32(ListsBuilder::new()),
            NumberType::F16 => Builders::F16(ListsBuilder::new()),
            NumberType::U8 => Builders::U8(ListsBuilder::new()),
            NumberType::I8 => Builders::I8(ListsBuilder::new()),
        };
        VectorsBuilder { dimensions: self.dimensions, lists }
    }

    fn push(builder: &mut VectorsBuilder, item: VectorRef<'_>) -> Result<(), String> {
        check(item, builder.dimensions)?;
        match (&mut builder.lists, item) {
            (Builders::F32(lists), VectorRef::F32(numbers)) => lists.push(numbers),
            (Builders::F16(lists), VectorRef::F16(numbers)) => lists.push(numbers),
            (Builders::U8(lists), VectorRef::U8(numbers)) => lists.push(numbers),
            (Builders::I8(lists), VectorRef::I8(numbers)) => lists.push(numbers),
            (Builders::F32(lists), item) => lists.push(&item.widened()),
            (_, item) => {
                Err(format!("its numbers are of type {}, unlike those before it", item.number_type()))
            }
        }
    }

    fn push_row(builder: &mut VectorsBuilder, columns: &[ArrayRef], row: usize) -> Result<(), String> {
        let column = &columns[0];
        let none = || "it is no vector".to_owned();
        match type_of(column.data_type()).ok_or_else(none)? {
            NumberType::F32 => {
                let numbers = numbers_of::<Float32Type>(column, row).ok_or_else(none)??;
                Self::push(builder, VectorRef::F32(&numbers))
            }
            NumberType::F16 => {
                let numbers = numbers_of::<Float16Type>(column, row).ok_or_else(none)??;
                Self::push(builder, VectorRef::F16(&numbers))
            }
            NumberType::U8 => {
                let numbers = numbers_of::<UInt8Type>(column, row).ok_or_else(none)??;
                Self::push(builder, VectorRef::U8(&numbers))
            }
            NumberType::I8 => {
                let numbers = numbers_of::<Int8Type>(column, row).ok_or_else(none)??;
                Self::push(builder, VectorRef::I8(&numbers))
            }
        }
    }

    fn push_json(builder: &mut VectorsBuilder, value: &Value) -> Result<(), String> {
        let list = value.as_array().ok_or_else(|| format!("{value} is no list of numbers"))?;
        let number = |(place, value): (usize, &Value)| {
            let number = value.as_f64().map(|number| number as f32).filter(|number| number.is_finite());
            number.ok_or_else(|| format!("number {place} is {value}: numbers are finite, within 32 bits"))
        };
        let numbers: Vec<f32> = list.iter().enumerate().map(number).collect::<Result<_, _>>()?;
        Self::push(builder, VectorRef::F32(&numbers))
    }

    fn write_json(&self, item: VectorRef<'_>, _is_first: bool, text: &mut String) {
        match item {
            VectorRef::F32(numbers) => write_numbers(numbers, text),
            VectorRef::F16(_) => write_numbers(item.widened(), text),
            VectorRef::U8(numbers) => write_numbers(numbers, text),
            VectorRef::I8(numbers) => write_numbers(numbers, text),
        }
    }

    fn is_full(builder: &VectorsBuilder) -> bool {
        match &builder.lists {
            Builders::F32(lists) => lists.is_full(),
            Builders::F16(lists) => lists.is_full(),
            Builders::U8(lists) => lists.is_full(),
            Builders::I8(lists) => lists.is_full(),
        }
    }

    fn finish(builder: &mut VectorsBuilder) -> Vec<ArrayRef> {
        vec![match &mut builder.lists {
            Builders::F32(lists) => lists.finish::<Float32Type>(),
            Builders::F16(lists) => lists.finish::<Float16Type>(),
            Builders::U8(lists) => lists.finish::<UInt8Type>(),
            Builders::I8(lists) => lists.finish::<Int8Type>(),
        }]
    }

    fn append_bytes(item: VectorRef<'_>, bytes: &mut Vec<u8>) -> usize {
        match item {
            VectorRef::F32(numbers) => bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes())),
            VectorRef::F16(numbers) => bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes())),
            VectorRef::U8(numbers) => bytes.extend_from_slice(numbers),
            VectorRef::I8(numbers) => bytes.extend(numbers.iter().map(|number| number.cast_unsigned())),
        }
        item.len()
    }
}

fn check(vector: VectorRef<'_>, dimensions: usize) -> Result<(), String> {
    if vector.len() > DIMENSIONS_MAX {
        return Err(format!(
            "the vector has {} numbers, and may have {DIMENSIONS_MAX} at most: reduce them, for example to principal components",
            vector.len()
        ));
    }
    if let Some(place) = vector.not_finite() {
        let value = vector.widened()[place];
        return Err(format!("number {place} is {value}: the numbers of a vector are finite"));
    }
    if vector.len() != dimensions || dimensions == 0 {
        return Err(format!(
            "the vector has {} numbers where the first has {dimensions}: all have the same, at least one",
            vector.len()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float32Array, ListArray};
    use arrow_buffer::OffsetBuffer;

    use super::*;

    #[test]
    fn vectors_of_too_many_numbers_are_refused_in_every_form() {
        for (numbers, is_taken) in [(DIMENSIONS_MAX, true), (DIMENSIONS_MAX + 1, false)] {
            let fits = |result: Result<(), String>| match result {
                Ok(()) => true,
                Err(reason) => {
                    assert!(reason.contains("65537 numbers, and may have 65536 at most"), "{reason}");
                    false
                }
            };
            let item = Arc::new(Field::new("item", DataType::Float32, false));
            let offsets = OffsetBuffer::from_repeated_length(numbers, 1);
            let values = Arc::new(Float32Array::from(vec![0.5; numbers]));
            let column: ArrayRef = Arc::new(ListArray::new(item, offsets, values, None));
            let kind = Vectors::new(numbers);
            assert_eq!(fits(kind.batch(&[Arc::clone(&column)]).map(drop)), is_taken);
            assert_eq!(fits(Vectors::push_row(&mut kind.builder(), &[column], 0)), is_taken);
            let json = Value::from(vec![0.5; numbers]);
            assert_eq!(fits(Vectors::push_json(&mut kind.builder(), &json)), is_taken);
            let bytes = Vectors::of(numbers, NumberType::U8);
            let row = vec![1; numbers];
            assert_eq!(fits(Vectors::push(&mut bytes.builder(), VectorRef::U8(&row))), is_taken);
        }
    }
}
