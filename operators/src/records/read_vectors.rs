//! `read_vectors`: vectors from files of other programs.
//!
//! Invariant: an unsound file or row ends the request with the file and the byte or row; no row is lost silently.

use std::sync::Arc;

use arrow_array::types::{Float16Type, Float32Type, Int8Type, UInt8Type};
use arrow_array::{ArrayRef, ArrowPrimitiveType, ListArray, PrimitiveArray, StringArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::Field;
use boxwork_kernels::vector::{NumberType, VectorRef};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec, Out};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::vector_file::{Bare, DIMENSIONS_MAX, VectorFile};

use super::HOLDS;
use crate::columns;

/// Rows of an envelope, and numbers of it at most.
const ROWS: usize = 4096;
const NUMBERS: usize = 1 << 22;

const OBJECTS: Out = Out::new(0, "objects", columns::objects, "the vectors, named by their rows");

/// The type of the numbers in a file of nothing else.
pub(crate) const TYPE: Parameter = Parameter::new(
    "type",
    ParameterType::Choice(NumberType::NAMES),
    Default::Absent,
    "the type of the numbers, for a file of nothing but numbers",
);

/// The numbers of a vector in such a file.
pub(crate) const DIMENSIONS: Parameter = Parameter::new(
    "dimensions",
    ParameterType::Integer { minimum: 1, maximum: DIMENSIONS_MAX as i64 },
    Default::Absent,
    "the numbers of a vector, for a file of nothing but numbers",
);

/// Reads vectors from a file of another program.
///
/// The ending tells the format: `.fvecs`, `.bvecs`, `.ivecs`; `.fbin`, `.f16bin`, `.u8bin`, `.i8bin`, `.ibin`; `.npy`. Any
/// other file consists of nothing but numbers, and `type` and `dimensions` describe them. Numbers of types f32, f16, u8
/// and i8 stay as they are; integers of 32 bits become f32 if that has no error, and f64 is rounded to f32. The first row
/// with a number that is infinite or NaN ends the request.
///
/// # Inputs
/// None.
///
/// # Outputs
/// `objects`: the vectors in the order of the rows; `name` is the row's number, from 0.
///
/// # Parameters
/// `path`: the file. `type`, `dimensions`: what a file of nothing but numbers holds.
pub static READ_VECTORS: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new("path", ParameterType::Path, Default::Required, "the file of vectors"),
        TYPE,
        DIMENSIONS,
        // The kind of objects that leave: there is no other.
        Parameter::new(
            HOLDS.name,
            ParameterType::Choice(&["vectors"]),
            Default::Text("vectors"),
            HOLDS.about,
        ),
    ],
    outputs: &[OBJECTS],
    example: "vectors: {kind: read_vectors, path: base.fvecs}",
    ..OperatorSpec::new("read_vectors", "Reads vectors from files of other programs.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let file = VectorFile::open(&bind.path("path"), bare(bind)?)?;
    Ok(Box::new(ReadVectors { file, sent: 0, read: 0 }))
}

/// The form that [`TYPE`] and [`DIMENSIONS`] describe.
pub(crate) fn bare(bind: &Bind<'_>) -> Result<Option<Bare>, BoxError> {
    match (bind.get_text(TYPE.name), bind.get_integer(DIMENSIONS.name)) {
        (None, None) => Ok(None),
        (Some(numbers), Some(dimensions)) => {
            let numbers = numbers.parse().map_err(BoxError::new)?;
            Ok(Some(Bare { numbers, dimensions: usize::try_from(dimensions)? }))
        }
        _ => Err(BoxError::new("`type` and `dimensions` describe a file together: give both or neither")),
    }
}

struct ReadVectors {
    file: VectorFile,
    sent: u64,
    /// Rows read so far.
    read: u64,
}

impl Operator for ReadVectors {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let mut sent = self.sent;
        let flow = super::send(cx, OBJECTS, &mut sent, || self.next());
        self.sent = sent;
        flow
    }
}

impl ReadVectors {
    /// The next envelope, or nothing at the end of the file.
    fn next(&mut self) -> Result<Option<Envelope>, BoxError> {
        let dimensions = self.file.dimensions();
        let count = (self.file.len() - self.read).min(ROWS.min(NUMBERS / dimensions).max(1) as u64) as usize;
        if count == 0 {
            return Ok(None);
        }
        let rows = self.file.read(self.read, count)?;
        let names = (self.read..self.read + count as u64).map(|row| row.to_string());
        self.read += count as u64;
        Ok(Some(Envelope::from_columns([
            ("name", Arc::new(StringArray::from_iter_values(names)) as ArrayRef),
            ("object", column(rows.all(), dimensions)),
        ])?))
    }
}

/// Vectors as a column.
pub(crate) fn column(numbers: VectorRef<'_>, dimensions: usize) -> ArrayRef {
    fn lists<T: ArrowPrimitiveType>(numbers: &[T::Native], dimensions: usize) -> ArrayRef {
        let item = Arc::new(Field::new("item", T::DATA_TYPE, false));
        let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(dimensions, numbers.len() / dimensions));
        let numbers = PrimitiveArray::<T>::new(ScalarBuffer::from(numbers.to_vec()), None);
        Arc::new(ListArray::new(item, offsets, Arc::new(numbers), None))
    }
    match numbers {
        VectorRef::F32(numbers) => lists::<Float32Type>(numbers, dimensions),
        VectorRef::F16(numbers) => lists::<Float16Type>(numbers, dimensions),
        VectorRef::U8(numbers) => lists::<UInt8Type>(numbers, dimensions),
        VectorRef::I8(numbers) => lists::<Int8Type>(numbers, dimensions),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::parameter::Value;

    use super::*;

    #[test]
    fn rows_leave_in_envelopes_with_their_numbers_as_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("base");
        std::fs::write(&path, (0..5000 * 2).map(|i| (i % 251) as u8).collect::<Vec<u8>>()).unwrap();
        let given = |dimensions: i64| {
            [
                ("path", Value::Text(path.to_str().unwrap().to_owned())),
                ("type", Value::Text("u8".to_owned())),
                ("dimensions", Value::Integer(dimensions)),
            ]
        };
        let mut harness = Harness::new(&READ_VECTORS, given(2)).unwrap();
        harness.run().unwrap();
        let envelopes = harness.taken(OBJECTS);
        assert_eq!(envelopes.iter().map(Envelope::rows).collect::<Vec<_>>(), [4096, 904]);
        assert_eq!(envelopes[1].texts("name").unwrap().value(0), "4096");
        let list = envelopes[1].lists("object").unwrap().value(1);
        let first = (4097 * 2 % 251) as u8;
        assert_eq!(list.as_primitive::<UInt8Type>().values()[..], [first, first + 1]);
        let error = Harness::new(&READ_VECTORS, given(3)).err().unwrap().to_string();
        assert!(error.contains("3333 whole vectors"), "{error}");
        let error = Harness::new(&READ_VECTORS, given(2)[..2].to_vec()).err().unwrap().to_string();
        assert!(error.contains("give both or neither"), "{error}");
    }
}
