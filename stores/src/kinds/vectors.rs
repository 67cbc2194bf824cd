//! Vectors: as many finite numbers for each object.

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_schema::{DataType, Field, Schema};
use boxwork_kernels::distance::{Distance, Lp};
use serde_json::Value;

use super::lists::{Lists, ListsBuilder, is_list_of, list_type, numbers_of, write_numbers};
use super::{DIMENSIONS_KEY, Kind, OBJECT};

/// Vectors of `f32` of one dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vectors {
    dimensions: usize,
}

impl Vectors {
    /// Vectors of this many numbers.
    pub fn new(dimensions: usize) -> Self {
        Self { dimensions }
    }
}

/// Vectors that become a batch.
#[derive(Debug)]
pub struct VectorsBuilder {
    dimensions: usize,
    lists: ListsBuilder<f32>,
}

/// The checked columns of some vectors.
#[derive(Debug)]
pub struct VectorsBatch(Lists<Float32Type>);

impl Kind for Vectors {
    const NAME: &'static str = "vectors";
    const USUAL_DISTANCE: &'static str = "l2";
    const ARROW_TYPES: &'static str = "FixedSizeList or List of Float32";
    const TEXT: &'static str = "a list such as [1, 2]";

    type Item<'a> = &'a [f32];
    type Batch = VectorsBatch;
    type Builder = VectorsBuilder;

    fn is_type(kind: &DataType) -> bool {
        is_list_of::<Float32Type>(kind)
    }

    fn of_schema(schema: &Schema) -> Option<Self> {
        let dimensions = schema.metadata().get(DIMENSIONS_KEY)?.parse().ok().filter(|count| *count > 0)?;
        Some(Self { dimensions })
    }

    fn of_array(objects: &ArrayRef) -> Option<Self> {
        let dimensions = match objects.data_type() {
            DataType::FixedSizeList(item, length) if *item.data_type() == DataType::Float32 => {
                usize::try_from(*length).ok()?
            }
            kind if is_list_of::<Float32Type>(kind) => objects.as_list::<i32>().value_length(0) as usize,
            _ => return None,
        };
        Some(Self { dimensions })
    }

    fn of_json(value: &Value) -> Option<Result<Self, String>> {
        value.as_array().map(|numbers| Ok(Self { dimensions: numbers.len() }))
    }

    fn columns(&self) -> Vec<Field> {
        vec![Field::new(OBJECT, list_type::<Float32Type>(), false)]
    }

    fn metadata(&self) -> Vec<(&'static str, String)> {
        vec![(DIMENSIONS_KEY, self.dimensions.to_string())]
    }

    fn shape(&self) -> String {
        format!("{} numbers", self.dimensions)
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn batch(&self, columns: &[ArrayRef]) -> Result<VectorsBatch, String> {
        let lists = Lists::<Float32Type>::new(&columns[0])?;
        (0..lists.rows()).try_for_each(|row| check(lists.at(row), self.dimensions))?;
        Ok(VectorsBatch(lists))
    }

    #[inline]
    fn item(batch: &VectorsBatch, row: usize) -> &[f32] {
        batch.0.at(row)
    }

    fn builder(&self) -> VectorsBuilder {
        VectorsBuilder { dimensions: self.dimensions, lists: ListsBuilder::new() }
    }

    fn push(builder: &mut VectorsBuilder, item: &[f32]) -> Result<(), String> {
        check(item, builder.dimensions)?;
        builder.lists.push(item)
    }

    fn push_row(builder: &mut VectorsBuilder, columns: &[ArrayRef], row: usize) -> Result<(), String> {
        let numbers = numbers_of::<Float32Type>(&columns[0], row);
        Self::push(builder, &numbers.ok_or_else(|| "it is no vector".to_owned())??)
    }

    fn push_json(builder: &mut VectorsBuilder, value: &Value) -> Result<(), String> {
        let list = value.as_array().ok_or_else(|| format!("{value} is no list of numbers"))?;
        let number = |(place, value): (usize, &Value)| {
            let number = value.as_f64().map(|number| number as f32).filter(|number| number.is_finite());
            number.ok_or_else(|| format!("number {place} is {value}: numbers are finite, within 32 bits"))
        };
        let numbers: Vec<f32> = list.iter().enumerate().map(number).collect::<Result<_, _>>()?;
        Self::push(builder, &numbers)
    }

    fn write_json(&self, item: &[f32], _is_first: bool, text: &mut String) {
        write_numbers(item, text);
    }

    fn is_full(builder: &VectorsBuilder) -> bool {
        builder.lists.is_full()
    }

    fn finish(builder: &mut VectorsBuilder) -> Vec<ArrayRef> {
        vec![builder.lists.finish::<Float32Type>()]
    }

    fn append_bytes(item: &[f32], bytes: &mut Vec<u8>) -> usize {
        bytes.extend(item.iter().flat_map(|number| number.to_le_bytes()));
        item.len()
    }
}

fn check(vector: &[f32], dimensions: usize) -> Result<(), String> {
    Lp::L2.check(vector).map_err(|error| error.to_string())?;
    if vector.len() != dimensions || dimensions == 0 {
        return Err(format!(
            "the vector has {} numbers where the first has {dimensions}: all have the same, at least one",
            vector.len()
        ));
    }
    Ok(())
}
