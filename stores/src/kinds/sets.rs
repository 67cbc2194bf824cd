//! Sets: whole numbers, ascending, each once.

use arrow_array::ArrayRef;
use arrow_array::types::UInt32Type;
use arrow_schema::{DataType, Field, Schema};
use boxwork_kernels::distance::{Distance, Jaccard};
use serde_json::Value;

use super::lists::{Lists, ListsBuilder, is_list_of, list_type, numbers_of, write_numbers};
use super::{Kind, OBJECT};

/// Sets of `u32`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sets;

/// Sets that become a batch.
#[derive(Debug)]
pub struct SetsBuilder(ListsBuilder<u32>);

/// The checked columns of some sets.
#[derive(Debug)]
pub struct SetsBatch(Lists<UInt32Type>);

impl Kind for Sets {
    const NAME: &'static str = "sets";
    const USUAL_DISTANCE: &'static str = "jaccard";
    const ARROW_TYPES: &'static str = "List of UInt32";
    const TEXT: &'static str = "a list such as [1, 2]";

    type Item<'a> = &'a [u32];
    type Batch = SetsBatch;
    type Builder = SetsBuilder;

    fn is_type(kind: &DataType) -> bool {
        is_list_of::<UInt32Type>(kind)
    }

    fn of_schema(_: &Schema) -> Option<Self> {
        Some(Self)
    }

    fn of_array(objects: &ArrayRef) -> Option<Self> {
        Self::is_type(objects.data_type()).then_some(Self)
    }

    fn of_json(value: &Value) -> Option<Result<Self, String>> {
        value.is_array().then_some(Ok(Self))
    }

    fn columns(&self) -> Vec<Field> {
        vec![Field::new(OBJECT, list_type::<UInt32Type>(), false)]
    }

    fn shape(&self) -> String {
        "whole numbers".to_owned()
    }

    fn batch(&self, columns: &[ArrayRef]) -> Result<SetsBatch, String> {
        let lists = Lists::<UInt32Type>::new(&columns[0])?;
        let checked = (0..lists.rows()).try_for_each(|row| Jaccard.check(lists.at(row)));
        checked.map(|()| SetsBatch(lists)).map_err(|error| error.to_string())
    }

    #[inline]
    fn item(batch: &SetsBatch, row: usize) -> &[u32] {
        batch.0.at(row)
    }

    fn builder(&self) -> SetsBuilder {
        SetsBuilder(ListsBuilder::new())
    }

    fn push(builder: &mut SetsBuilder, item: &[u32]) -> Result<(), String> {
        Jaccard.check(item).map_err(|error| error.to_string())?;
        builder.0.push(item)
    }

    fn push_row(builder: &mut SetsBuilder, columns: &[ArrayRef], row: usize) -> Result<(), String> {
        let elements = numbers_of::<UInt32Type>(&columns[0], row);
        push_elements(builder, elements.ok_or_else(|| "it is no set".to_owned())??.to_vec())
    }

    fn push_json(builder: &mut SetsBuilder, value: &Value) -> Result<(), String> {
        let list = value.as_array().ok_or_else(|| format!("{value} is no list of whole numbers"))?;
        let element = |(place, value): (usize, &Value)| {
            let element = value.as_u64().and_then(|element| u32::try_from(element).ok());
            element
                .ok_or_else(|| format!("element {place} is {value}: elements are whole numbers below 2^32"))
        };
        push_elements(builder, list.iter().enumerate().map(element).collect::<Result<_, _>>()?)
    }

    fn write_json(&self, item: &[u32], _is_first: bool, text: &mut String) {
        write_numbers(item, text);
    }

    fn is_full(builder: &SetsBuilder) -> bool {
        builder.0.is_full()
    }

    fn finish(builder: &mut SetsBuilder) -> Vec<ArrayRef> {
        vec![builder.0.finish::<UInt32Type>()]
    }

    fn append_bytes(item: &[u32], bytes: &mut Vec<u8>) -> usize {
        bytes.extend(item.iter().flat_map(|element| element.to_le_bytes()));
        item.len()
    }
}

/// Appends the set of these elements, which may come in any order and more than once.
fn push_elements(builder: &mut SetsBuilder, mut elements: Vec<u32>) -> Result<(), String> {
    elements.sort_unstable();
    elements.dedup();
    builder.0.push(&elements)
}
