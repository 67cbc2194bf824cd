//! Decodes rows: numbers to their types, each row checked.

use boxwork_kernels::vector::{NumberType, VectorRef};
use half::f16;

use super::{Form, Stored};

/// Larger integers have no f32 of their own.
const INTEGER_MAX: u64 = 1 << 24;

/// Consecutive vectors.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorRows {
    dimensions: usize,
    numbers: Numbers,
}

#[derive(Clone, Debug, PartialEq)]
enum Numbers {
    F32(Vec<f32>),
    F16(Vec<f16>),
    U8(Vec<u8>),
    I8(Vec<i8>),
}

impl VectorRows {
    /// All numbers, row after row.
    pub fn all(&self) -> VectorRef<'_> {
        match &self.numbers {
            Numbers::F32(numbers) => VectorRef::F32(numbers),
            Numbers::F16(numbers) => VectorRef::F16(numbers),
            Numbers::U8(numbers) => VectorRef::U8(numbers),
            Numbers::I8(numbers) => VectorRef::I8(numbers),
        }
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.all().len() / self.dimensions
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One vector.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn row(&self, row: usize) -> VectorRef<'_> {
        let at = row * self.dimensions..(row + 1) * self.dimensions;
        match &self.numbers {
            Numbers::F32(numbers) => VectorRef::F32(&numbers[at]),
            Numbers::F16(numbers) => VectorRef::F16(&numbers[at]),
            Numbers::U8(numbers) => VectorRef::U8(&numbers[at]),
            Numbers::I8(numbers) => VectorRef::I8(&numbers[at]),
        }
    }
}

/// The rows in some bytes; or the first row that is no vector, and why.
pub(super) fn decode(form: &Form, content: &[u8]) -> Result<VectorRows, (usize, String)> {
    let (dimensions, head) = (form.dimensions, form.row_head as usize);
    let mut bytes = Vec::new();
    let numbers = if head == 0 {
        content
    } else {
        for (row, content) in content.chunks_exact(form.row_bytes() as usize).enumerate() {
            let (said, numbers) = content.split_at(head);
            let said = i32::from_le_bytes([said[0], said[1], said[2], said[3]]);
            if usize::try_from(said) != Ok(dimensions) {
                return Err((row, format!("it has {said} dimensions, and the first row has {dimensions}")));
            }
            bytes.extend_from_slice(numbers);
        }
        &bytes
    };
    let numbers = match form.stored {
        Stored::As(NumberType::F32) => Numbers::F32(words(numbers, f32::from_le_bytes)),
        Stored::As(NumberType::F16) => Numbers::F16(words(numbers, f16::from_le_bytes)),
        Stored::As(NumberType::U8) => Numbers::U8(numbers.to_vec()),
        Stored::As(NumberType::I8) => Numbers::I8(words(numbers, i8::from_le_bytes)),
        Stored::F64 => Numbers::F32(words(numbers, |bytes| f64::from_le_bytes(bytes) as f32)),
        Stored::I32 | Stored::I64 => {
            let integers = integers(form, numbers);
            let is_large = |number: &i64| number.unsigned_abs() > INTEGER_MAX;
            if let Some(place) = integers.iter().position(is_large) {
                let (row, number, value) = (place / dimensions, place % dimensions, integers[place]);
                return Err((
                    row,
                    format!("number {number} is {value}, which 32 bits of floating point do not hold"),
                ));
            }
            Numbers::F32(integers.into_iter().map(|number| number as f32).collect())
        }
    };
    let rows = VectorRows { dimensions, numbers };
    match rows.all().not_finite() {
        None => Ok(rows),
        Some(place) => {
            let (row, number) = (place / dimensions, place % dimensions);
            let value = rows.row(row).widened()[number];
            Err((row, format!("number {number} is {value}: the numbers of a vector are finite")))
        }
    }
}

/// The numbers in some bytes, in f64; or the first row whose head does not fit, and why.
pub(super) fn decode_f64(form: &Form, content: &[u8]) -> Result<Vec<f64>, (usize, String)> {
    let (dimensions, head) = (form.dimensions, form.row_head as usize);
    let mut all = Vec::with_capacity(content.len() / form.stored.bytes());
    for (row, content) in content.chunks_exact(form.row_bytes() as usize).enumerate() {
        let (said, numbers) = content.split_at(head);
        if let [a, b, c, d] = *said
            && usize::try_from(i32::from_le_bytes([a, b, c, d])) != Ok(dimensions)
        {
            return Err((row, format!("it has other dimensions than the {dimensions} of the first row")));
        }
        match form.stored {
            Stored::As(NumberType::F32) => all.extend(words(numbers, |x| f64::from(f32::from_le_bytes(x)))),
            Stored::As(NumberType::F16) => all.extend(words(numbers, |x| f16::from_le_bytes(x).to_f64())),
            Stored::As(NumberType::U8) => all.extend(numbers.iter().map(|x| f64::from(*x))),
            Stored::As(NumberType::I8) => all.extend(words(numbers, |x| f64::from(i8::from_le_bytes(x)))),
            Stored::I32 => all.extend(words(numbers, |x| f64::from(i32::from_le_bytes(x)))),
            Stored::I64 => all.extend(words(numbers, i64::from_le_bytes).into_iter().map(|x| x as f64)),
            Stored::F64 => all.extend(words(numbers, f64::from_le_bytes)),
        }
    }
    Ok(all)
}

/// The ids in the bytes of one row, up to the first -1; or why there are none.
pub(super) fn decode_ids(form: &Form, content: &[u8]) -> Result<Vec<u64>, (usize, String)> {
    let (said, numbers) = content.split_at(form.row_head as usize);
    if let [a, b, c, d] = *said
        && usize::try_from(i32::from_le_bytes([a, b, c, d])) != Ok(form.dimensions)
    {
        return Err((0, format!("it has other dimensions than the {} of the first row", form.dimensions)));
    }
    if let Stored::As(numbers) = form.stored {
        return Err((
            0,
            format!("its numbers are {numbers}, and ids are whole numbers: .ivecs, .ibin or .npy of int32"),
        ));
    }
    if form.stored == Stored::F64 {
        return Err((
            0,
            "its numbers are f64, and ids are whole numbers: save them as int32 or int64".to_owned(),
        ));
    }
    let integers = integers(form, numbers);
    let kept = integers.iter().position(|id| *id == -1).unwrap_or(integers.len());
    let id = |(place, id): (usize, &i64)| {
        u64::try_from(*id).map_err(|_| (0, format!("number {place} is {id}, which is no id: ids begin at 0")))
    };
    integers[..kept].iter().enumerate().map(id).collect()
}

/// Integers of 32 or 64 bits.
fn integers(form: &Form, numbers: &[u8]) -> Vec<i64> {
    match form.stored {
        Stored::I64 => words(numbers, i64::from_le_bytes),
        _ => words(numbers, i32::from_le_bytes).into_iter().map(i64::from).collect(),
    }
}

fn words<const N: usize, T>(bytes: &[u8], word: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|bytes| word(*bytes)).collect()
}
