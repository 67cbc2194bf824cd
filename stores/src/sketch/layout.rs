//! The layout of a `*.sketch.arrow` file: a packed file (`packed_file`).
//!
//! ```text
//! head    magic, schema message: what was sketched, and the number of frequencies and their seed, or the pivots
//! batch   4,096 rows: columns `c0` to `c63` of half-precision numbers, one for each coordinate
//! tail    end of stream, footer: the directions, the largest norm, all checksums; footer length, magic
//! ```
//!
//! The directions are f32 numbers by their bits, eight hexadecimal digits each. A file that follows another has none. A row is
//! an object, in the order of the store, or zeros if it was removed.
//!
//! Sketches by pivots are version 2 of the layout. Its head has the pivots with their simplex, by the keys of an index, and
//! its footer no directions. A program that reads version 1 only says so.

use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use arrow_schema::{DataType, Field, Metadata, Schema};
use boxwork_kernels::sketch::{Basis, COORDINATES};

pub(super) use super::super::packed_file::{
    CREATOR, CREATOR_KEY, FOLLOWS_KEY, FORMAT_KEY, Format, MEASURE_KEY, REPLACES_KEY, STORE_KEY, VERSION,
    VERSION_KEY,
};
use super::super::packed_file::{PackedError, PackedFile};

/// The values of [`FORMAT_KEY`].
pub(crate) const FORMAT: Format =
    Format { whole: "sketch", part: "sketch.part", versions: &[VERSION, VERSION_OF_PIVOTS] };
/// The version of sketches by pivots.
pub(super) const VERSION_OF_PIVOTS: &str = "2";
/// Rows of a batch.
pub(super) const ROWS: usize = 4096;
/// The key of the number of frequencies.
pub(super) const FREQUENCIES_KEY: &str = "boxwork.sketch.frequencies";
/// The key of their seed.
pub(super) const SEED_KEY: &str = "boxwork.sketch.seed";
/// The key in the footer's metadata of the largest norm of all objects so far.
const NORM_KEY: &str = "boxwork.sketch.norm";
/// The key in the footer's metadata of the directions.
const BASIS_KEY: &str = "boxwork.sketch.basis";
/// Bytes of a file whose head is looked at; that of a sketch by features is shorter.
const HEAD_BYTES_MAX: u64 = 64 << 10;
/// Hexadecimal digits of a number.
const DIGITS: usize = 8;

/// The columns of a sketch.
pub(super) fn schema(metadata: Metadata) -> Schema {
    let field = |number: usize| Field::new(format!("c{number}"), DataType::Float16, false);
    Schema::new((0..COORDINATES).map(field).collect::<Vec<_>>()).with_metadata(metadata)
}

/// Whether a file has sketches by pivots.
pub(super) fn is_of_pivots(file: &PackedFile) -> bool {
    file.said(VERSION_KEY) == VERSION_OF_PIVOTS
}

/// Whether a file that cannot be read looks as if it had sketches by pivots: its head names the format, and no frequencies.
pub(super) fn seems_of_pivots(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD_BYTES_MAX).read_to_end(&mut head));
    let names = |key: &str| head.windows(key.len()).any(|bytes| bytes == key.as_bytes());
    read.is_ok() && names(FORMAT_KEY) && !names(FREQUENCIES_KEY)
}

/// Checks the columns of a file and its number of rows.
pub(super) fn check(file: &PackedFile, rows: u64) -> Result<(), PackedError> {
    if *file.fields() != *schema(Metadata::default()).fields() {
        return Err(file.not("its columns are not those of a sketch"));
    }
    if file.rows(ROWS)? != rows {
        return Err(file.not_blocks());
    }
    Ok(())
}

/// The note of the largest norm.
pub(super) fn norm_note(norm: f64) -> (&'static str, String) {
    (NORM_KEY, format!("{norm:?}"))
}

/// The largest norm that a file notes.
pub(super) fn norm(file: &PackedFile) -> Result<f64, PackedError> {
    let norm = file.noted(NORM_KEY).parse().ok().filter(|norm: &f64| norm.is_finite() && *norm >= 0.0);
    norm.ok_or_else(|| file.damaged("its footer", "it notes no largest norm"))
}

/// The note of a basis.
pub(super) fn basis_note(basis: &Basis) -> (&'static str, String) {
    let mut text = String::with_capacity((1 + basis.features()) * COORDINATES * DIGITS);
    for number in basis.numbers() {
        write!(text, "{:0DIGITS$x}", number.to_bits()).expect("a string takes any text");
    }
    (BASIS_KEY, text)
}

/// The basis that a file notes, of so many features.
pub(super) fn basis(file: &PackedFile, features: usize) -> Result<Basis, PackedError> {
    let number = |digits: &[u8; DIGITS]| {
        let digits = std::str::from_utf8(digits).ok()?;
        Some(f32::from_bits(u32::from_str_radix(digits, 16).ok()?))
    };
    let (digits, rest) = file.noted(BASIS_KEY).as_bytes().as_chunks::<DIGITS>();
    let numbers: Option<Vec<f32>> = digits.iter().map(number).collect();
    let basis = numbers.filter(|_| rest.is_empty()).and_then(|numbers| Basis::from_numbers(&numbers));
    let basis = basis.filter(|basis| basis.features() == features);
    basis.ok_or_else(|| file.damaged("its footer", "its directions do not fit its frequencies"))
}
