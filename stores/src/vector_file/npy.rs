//! The head of a `.npy` file: magic, version, and a Python dictionary with the keys `descr`, `fortran_order` and `shape`.
//!
//! Source: NumPy Enhancement Proposal 1, "A simple file format for NumPy arrays".

use std::fs::File;
use std::io::Read;

use boxwork_kernels::vector::NumberType;

use super::{Form, Head, Stored, VectorFileError};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Bytes of a dictionary at most; those of NumPy have about 100.
const TEXT_BYTES_MAX: usize = 1 << 16;
/// Bytes before the length of the dictionary.
const LENGTH_AT: u64 = 8;

/// Reads the head.
pub(super) fn form(head: &Head<'_>, file: &mut File) -> Result<Form, VectorFileError> {
    let start: [u8; LENGTH_AT as usize] = head.bytes(file)?;
    if !start.starts_with(MAGIC) {
        return Err(head.fault(0, "it does not begin as a file of NumPy"));
    }
    let (length, length_bytes) = match start[6] {
        1 => (usize::from(u16::from_le_bytes(head.bytes(file)?)), 2),
        2 | 3 => (u32::from_le_bytes(head.bytes(file)?) as usize, 4),
        other => return Err(head.fault(6, format!("it is of version {other}; 1, 2 and 3 are known"))),
    };
    let text_at = LENGTH_AT + length_bytes;
    if length > TEXT_BYTES_MAX || text_at + length as u64 > head.length {
        return Err(
            head.fault(LENGTH_AT, format!("its head of {length} bytes is longer than the file or 64 KiB"))
        );
    }
    let mut text = vec![0; length];
    file.read_exact(&mut text)
        .map_err(|source| VectorFileError::Io { path: head.path.to_owned(), source })?;
    let text = std::str::from_utf8(&text).map_err(|_| head.fault(text_at, "its head is no text"))?;
    let fault = |reason: String| head.fault(text_at, reason);
    let (stored, shape) = parse(text).map_err(fault)?;
    let (rows, dimensions) = match shape[..] {
        [rows, dimensions] => (rows, dimensions),
        [dimensions] => (1, dimensions),
        _ => return Err(fault(format!("an array of {} axes: vectors are the rows of 2", shape.len()))),
    };
    let dimensions = head.dimensions(text_at, i64::try_from(dimensions).unwrap_or(i64::MAX))?;
    head.whole(Form { stored, rows, dimensions, start: text_at + length as u64, row_head: 0 })
}

/// The type of the numbers, and the shape.
fn parse(text: &str) -> Result<(Stored, Vec<u64>), String> {
    let after = |key: &str| {
        let missing = || format!("its head has no `{key}`");
        let rest = text.split_once(&format!("'{key}'")).ok_or_else(missing)?.1;
        rest.trim_start().strip_prefix(':').map(str::trim_start).ok_or_else(missing)
    };
    let quoted = after("descr")?.strip_prefix('\'').and_then(|rest| rest.split_once('\''));
    let stored = match quoted.map(|(name, _)| name) {
        Some("<f4") => Stored::As(NumberType::F32),
        Some("<f2") => Stored::As(NumberType::F16),
        Some("|u1" | "<u1") => Stored::As(NumberType::U8),
        Some("|i1" | "<i1") => Stored::As(NumberType::I8),
        Some("<i4") => Stored::I32,
        Some("<i8") => Stored::I64,
        Some("<f8") => Stored::F64,
        Some(other) => {
            return Err(format!(
                "its numbers are of type `{other}`; save them as float32, float16, uint8 or int8 of this machine's order"
            ));
        }
        None => return Err("its rows are no plain numbers: save one field of them".to_owned()),
    };
    if !after("fortran_order")?.starts_with("False") {
        return Err("it is in Fortran order: save numpy.ascontiguousarray(array)".to_owned());
    }
    let shape = after("shape")?.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let axes = shape.map(|(axes, _)| axes.split(',').map(str::trim).filter(|axis| !axis.is_empty()));
    let axes = axes.and_then(|axes| axes.map(|axis| axis.parse().ok()).collect());
    Ok((stored, axes.ok_or("its shape cannot be read")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_in_any_order_of_its_keys() {
        let text = "{'shape': (3, 4), 'fortran_order': False, 'descr': '|u1', }   \n";
        assert_eq!(parse(text), Ok((Stored::As(NumberType::U8), vec![3, 4])));
        let text = "{'descr': '<f8', 'fortran_order': False, 'shape': (7,), }";
        assert_eq!(parse(text), Ok((Stored::F64, vec![7])));
    }

    #[test]
    fn what_is_no_row_of_numbers_is_refused() {
        for (text, reason) in [
            ("{'descr': '>f4', 'fortran_order': False, 'shape': (3, 4), }", "`>f4`"),
            ("{'descr': '|O', 'fortran_order': False, 'shape': (3, 4), }", "`|O`"),
            ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }", "no plain numbers"),
            ("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }", "ascontiguousarray"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (3, x), }", "shape"),
            ("{'descr': '<f4', 'shape': (3, 4), }", "no `fortran_order`"),
            ("", "no `descr`"),
        ] {
            let found = parse(text).unwrap_err();
            assert!(found.contains(reason), "{found}");
        }
    }
}
