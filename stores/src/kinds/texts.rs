//! Texts: Unicode scalar values in order.
//!
//! A file holds them in UTF-8. A batch is decoded into letters when it is first used, since distances compare letters:
//! texts that were used take four bytes a letter of memory, and one to two more when many are compared at once.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, Schema};
use boxwork_kernels::distance::{Distance, Levenshtein, TextBlock};
use boxwork_kernels::memory::room;
use serde_json::Value;

use super::lists::{ListsBuilder, own_offsets};
use super::{Kind, OBJECT};

/// Texts, as their letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Texts;

/// Texts that become a batch.
#[derive(Debug)]
pub struct TextsBuilder(ListsBuilder<u8>);

/// The letters of some texts.
#[derive(Debug)]
pub struct TextsBatch {
    letters: Vec<char>,
    ends: Vec<usize>,
    /// For each [`BLOCK_ROWS`] texts, the form in which they are compared at once, made at its first use.
    blocks: Vec<OnceLock<TextBlock>>,
}

/// Texts that are compared at once: two vectors of the widest registers, so that texts of similar length go together.
const BLOCK_ROWS: usize = 1024;

impl TextsBatch {
    /// The texts that are compared at once, among which the text in a row is: their form, and their rows.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn block(&self, row: usize) -> (&TextBlock, Range<usize>) {
        let first = row / BLOCK_ROWS * BLOCK_ROWS;
        let rows = first..(first + BLOCK_ROWS).min(self.ends.len() - 1);
        let block = self.blocks[row / BLOCK_ROWS]
            .get_or_init(|| TextBlock::new(rows.len(), |text| Texts::item(self, first + text)));
        (block, rows)
    }
}

impl Kind for Texts {
    const NAME: &'static str = "texts";
    const USUAL_DISTANCE: &'static str = "levenshtein";
    const ARROW_TYPES: &'static str = "Utf8";
    const TEXT: &'static str = "a text";

    type Item<'a> = &'a [char];
    type Batch = TextsBatch;
    type Builder = TextsBuilder;

    fn is_type(kind: &DataType) -> bool {
        *kind == DataType::Utf8
    }

    fn of_schema(_: &Schema) -> Option<Self> {
        Some(Self)
    }

    fn of_array(objects: &ArrayRef) -> Option<Self> {
        Self::is_type(objects.data_type()).then_some(Self)
    }

    fn of_json(value: &Value) -> Option<Result<Self, String>> {
        value.is_string().then_some(Ok(Self))
    }

    fn json_of_text(text: &str) -> Option<Value> {
        Some(Value::from(text))
    }

    fn columns(&self) -> Vec<Field> {
        vec![Field::new(OBJECT, DataType::Utf8, false)]
    }

    fn shape(&self) -> String {
        "letters".to_owned()
    }

    fn batch(&self, columns: &[ArrayRef]) -> Result<TextsBatch, String> {
        let refused = || format!("a column is {} where Utf8 is wanted", columns[0].data_type());
        let texts = columns[0].as_string_opt::<i32>().ok_or_else(refused)?;
        if texts.null_count() > 0 {
            return Err("a column holds nulls".to_owned());
        }
        // Copies: the check of UTF-8 must hold for the bytes that are decoded.
        let (offsets, bytes) = (texts.value_offsets(), texts.values());
        let offsets = own_offsets(offsets, bytes.len())?;
        let what = || format!("decoding {} texts", offsets.len() - 1);
        let advice = "free memory";
        let first = offsets[0] as usize;
        let used = &bytes[first..offsets[offsets.len() - 1] as usize];
        let refused = |error: boxwork_kernels::memory::MemoryRefused| error.to_string();
        let mut copy: Vec<u8> = room(used.len(), what, advice).map_err(refused)?;
        copy.extend_from_slice(used);
        let mut letters = room(copy.len(), what, advice).map_err(refused)?;
        let mut ends = room(offsets.len(), what, advice).map_err(refused)?;
        ends.push(0);
        for range in offsets.windows(2) {
            let text = std::str::from_utf8(&copy[range[0] as usize - first..range[1] as usize - first]);
            letters.extend(text.map_err(|_| "a text is not UTF-8".to_owned())?.chars());
            ends.push(letters.len());
        }
        letters.shrink_to_fit();
        let blocks = (0..offsets.len() - 1).step_by(BLOCK_ROWS).map(|_| OnceLock::new()).collect();
        Ok(TextsBatch { letters, ends, blocks })
    }

    #[inline]
    fn item(batch: &TextsBatch, row: usize) -> &[char] {
        &batch.letters[batch.ends[row]..batch.ends[row + 1]]
    }

    fn builder(&self) -> TextsBuilder {
        TextsBuilder(ListsBuilder::new())
    }

    fn push(builder: &mut TextsBuilder, item: &[char]) -> Result<(), String> {
        push_letters(builder, item, &item.iter().collect::<String>())
    }

    fn push_row(builder: &mut TextsBuilder, columns: &[ArrayRef], row: usize) -> Result<(), String> {
        let texts = columns[0].as_string_opt::<i32>().ok_or_else(|| "it is no text".to_owned())?;
        let text = texts.value(row);
        push_letters(builder, &text.chars().collect::<Vec<_>>(), text)
    }

    fn push_json(builder: &mut TextsBuilder, value: &Value) -> Result<(), String> {
        let text = value.as_str().ok_or_else(|| format!("{value} is no text"))?;
        push_letters(builder, &text.chars().collect::<Vec<_>>(), text)
    }

    fn write_json(&self, item: &[char], _is_first: bool, text: &mut String) {
        text.push_str(&Value::from(item.iter().collect::<String>()).to_string());
    }

    fn is_full(builder: &TextsBuilder) -> bool {
        builder.0.is_full()
    }

    fn finish(builder: &mut TextsBuilder) -> Vec<ArrayRef> {
        vec![Arc::new(builder.0.finish_texts())]
    }

    fn append_bytes(item: &[char], bytes: &mut Vec<u8>) -> usize {
        bytes.extend(item.iter().flat_map(|letter| u32::from(*letter).to_le_bytes()));
        item.len()
    }
}

fn push_letters(builder: &mut TextsBuilder, letters: &[char], text: &str) -> Result<(), String> {
    Levenshtein.check(letters).map_err(|error| error.to_string())?;
    builder.0.push(text.as_bytes())
}
