//! Bit codes, such as hashes of images: as many words of 64 bits for each object, written in hexadecimal digits.

use std::fmt::Write;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_schema::{DataType, Field, Schema};
use serde_json::Value;

use super::lists::{Lists, ListsBuilder, is_list_of, list_type, numbers_of};
use super::{DIMENSIONS_KEY, Kind, OBJECT};

/// Hexadecimal digits of a word.
const WORD_DIGITS: usize = 16;

/// Codes of this many words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codes {
    words: usize,
}

/// Codes that become a batch.
#[derive(Debug)]
pub struct CodesBuilder {
    words: usize,
    lists: ListsBuilder<u64>,
}

/// The checked columns of some codes.
#[derive(Debug)]
pub struct CodesBatch(Lists<UInt64Type>);

impl Kind for Codes {
    const NAME: &'static str = "codes";
    const USUAL_DISTANCE: &'static str = "hamming";
    const ARROW_TYPES: &'static str = "List of UInt64";
    const TEXT: &'static str = "hexadecimal digits such as 0f3a";

    type Item<'a> = &'a [u64];
    type Batch = CodesBatch;
    type Builder = CodesBuilder;

    fn is_type(kind: &DataType) -> bool {
        is_list_of::<UInt64Type>(kind)
    }

    fn of_schema(schema: &Schema) -> Option<Self> {
        let words = schema.metadata().get(DIMENSIONS_KEY)?.parse().ok().filter(|count| *count > 0)?;
        Some(Self { words })
    }

    fn of_array(objects: &ArrayRef) -> Option<Self> {
        let is_code = Self::is_type(objects.data_type());
        is_code.then(|| Self { words: objects.as_list::<i32>().value_length(0) as usize })
    }

    fn of_json(value: &Value) -> Option<Result<Self, String>> {
        let digits = value.as_str()?;
        let is_code = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_code.then(|| Ok(Self { words: digits.len().div_ceil(WORD_DIGITS) }))
    }

    fn json_of_text(text: &str) -> Option<Value> {
        Some(Value::from(text))
    }

    fn columns(&self) -> Vec<Field> {
        vec![Field::new(OBJECT, list_type::<UInt64Type>(), false)]
    }

    fn metadata(&self) -> Vec<(&'static str, String)> {
        vec![(DIMENSIONS_KEY, self.words.to_string())]
    }

    fn shape(&self) -> String {
        format!("{} words of 64 bits", self.words)
    }

    fn dimensions(&self) -> usize {
        self.words
    }

    fn batch(&self, columns: &[ArrayRef]) -> Result<CodesBatch, String> {
        let lists = Lists::<UInt64Type>::new(&columns[0])?;
        (0..lists.rows()).try_for_each(|row| check(lists.at(row), self.words))?;
        Ok(CodesBatch(lists))
    }

    #[inline]
    fn item(batch: &CodesBatch, row: usize) -> &[u64] {
        batch.0.at(row)
    }

    fn builder(&self) -> CodesBuilder {
        CodesBuilder { words: self.words, lists: ListsBuilder::new() }
    }

    fn push(builder: &mut CodesBuilder, item: &[u64]) -> Result<(), String> {
        check(item, builder.words)?;
        builder.lists.push(item)
    }

    fn push_row(builder: &mut CodesBuilder, columns: &[ArrayRef], row: usize) -> Result<(), String> {
        let words = numbers_of::<UInt64Type>(&columns[0], row);
        Self::push(builder, &words.ok_or_else(|| "it is no code".to_owned())??)
    }

    fn push_json(builder: &mut CodesBuilder, value: &Value) -> Result<(), String> {
        let refused = || format!("{value} is no code: write it in hexadecimal digits");
        let kind = Self::of_json(value).ok_or_else(refused)??;
        // Zeros before the first digit change nothing: a code is one long number.
        let digits =
            format!("{:0>width$}", value.as_str().unwrap_or_default(), width = kind.words * WORD_DIGITS);
        let words = digits.as_bytes().chunks(WORD_DIGITS).map(|word| {
            let word = std::str::from_utf8(word).map_err(|_| refused())?;
            u64::from_str_radix(word, 16).map_err(|_| refused())
        });
        Self::push(builder, &words.collect::<Result<Vec<u64>, String>>()?)
    }

    fn write_json(&self, item: &[u64], _is_first: bool, text: &mut String) {
        text.push('"');
        for word in item {
            write!(text, "{word:0WORD_DIGITS$x}").expect("a string takes any text");
        }
        text.push('"');
    }

    fn is_full(builder: &CodesBuilder) -> bool {
        builder.lists.is_full()
    }

    fn finish(builder: &mut CodesBuilder) -> Vec<ArrayRef> {
        vec![builder.lists.finish::<UInt64Type>()]
    }

    fn append_bytes(item: &[u64], bytes: &mut Vec<u8>) -> usize {
        bytes.extend(item.iter().flat_map(|word| word.to_le_bytes()));
        item.len()
    }
}

fn check(code: &[u64], words: usize) -> Result<(), String> {
    match code.len() == words && words > 0 {
        true => Ok(()),
        false => Err(format!(
            "the code has {} words of 64 bits where the first has {words}: all have the same, at least one",
            code.len()
        )),
    }
}
