//! Signatures: weighted centroids of an image or of anything else, with the size of the image.
#![expect(unsafe_code, reason = "slices of columns are kept beside the arrays that own them")]

mod json;

use std::slice;
use std::sync::{Arc, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, ArrayRef, ListArray, UInt32Array};
use arrow_schema::{DataType, Field, Schema};
use boxwork_kernels::sqfd::{Columns, SignatureRef, StoreColumns};
use serde_json::Value;

use super::lists::own_offsets;
use super::{DIMENSIONS_KEY, Kind};
use crate::signature::{
    CENTROIDS_MAX, SignatureBuilder, SignatureColumns, SignatureError, coordinate_names, signature_type,
};

/// The column of the signatures.
const SIGNATURE: &str = "signature";
/// Centroids after which a batch is full, whatever its rows: 32 MiB at seven coordinates.
const BATCH_CENTROIDS: usize = 1 << 20;

// A signature joins a batch that is not full, so a batch may hold both; their sum stays an `i32` offset.
const _: () = assert!(BATCH_CENTROIDS + CENTROIDS_MAX <= i32::MAX as usize);

/// Signatures whose centroids have these coordinates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signatures {
    coordinates: Vec<String>,
}

impl Signatures {
    /// Signatures of these coordinates.
    ///
    /// # Errors
    /// When the coordinates are none or too many.
    pub fn new<S: AsRef<str>>(coordinates: &[S]) -> Result<Self, SignatureError> {
        SignatureBuilder::new(coordinates)?;
        Ok(Self { coordinates: coordinates.iter().map(|name| name.as_ref().to_owned()).collect() })
    }

    /// Names of the coordinates, in their order.
    pub fn coordinates(&self) -> &[String] {
        &self.coordinates
    }
}

/// A signature and the size of its image.
#[derive(Clone, Copy, Debug)]
pub struct SizedSignature<'a> {
    /// The centroids.
    pub signature: SignatureRef<'a>,
    /// Width of the image in pixels, 0 if there is none.
    pub width: u32,
    /// Height of the image in pixels, 0 if there is none.
    pub height: u32,
}

/// Signatures that become a batch.
#[derive(Debug)]
pub struct SignaturesBuilder {
    coordinates: Vec<String>,
    signatures: SignatureBuilder,
    sizes: Vec<(u32, u32)>,
}

/// The checked columns of some signatures.
///
/// Only numbers that are never used as an index stay in the map. If pages of the map are replaced by zeros, a reader
/// computes nonsense but stays within its columns.
#[derive(Debug)]
pub struct SignaturesBatch {
    // Point into `signatures`; never handed out for longer than `self` is borrowed.
    coordinates: Vec<&'static [f32]>,
    weights: &'static [f32],
    offsets: &'static [i32],
    signatures: ListArray,
    widths: UInt32Array,
    heights: UInt32Array,
    extents: OnceLock<Vec<(f32, f32)>>,
}

impl SignaturesBatch {
    /// Checks the columns. The error says what does not fit.
    fn new(columns: &[ArrayRef]) -> Result<Self, String> {
        let [signatures, widths, heights] = columns else {
            return Err("there are no columns of signatures and sizes".to_owned());
        };
        let signatures = signatures.as_list_opt().ok_or("the signatures are no list")?;
        let signatures = own_signatures(signatures)?;
        let columns = SignatureColumns::new(&signatures).map_err(|error| error.to_string())?;
        let view = columns.view();
        if (0..view.rows()).any(|row| view.range(row).1 == 0) {
            return Err("a signature without centroids".to_owned());
        }
        let coordinates: Vec<_> =
            view.columns().coordinates().iter().map(|column| lengthen(column)).collect();
        let (weights, offsets) = (lengthen(view.columns().weights()), lengthen(signatures.value_offsets()));
        let (widths, heights) = (sizes(widths)?.clone(), sizes(heights)?.clone());
        let extents = OnceLock::new();
        Ok(Self { coordinates, weights, offsets, signatures, widths, heights, extents })
    }

    /// Number of objects.
    pub fn rows(&self) -> usize {
        self.signatures.len()
    }

    /// The signatures, as the kernels read them.
    pub fn columns(&self) -> StoreColumns<'_> {
        StoreColumns::new(Columns::new(&self.coordinates, self.weights), self.offsets)
    }

    /// The least and the greatest value of each coordinate, computed once.
    pub fn extents(&self) -> &[(f32, f32)] {
        self.extents.get_or_init(|| {
            let extent = |column: &&[f32]| {
                let wider = |(least, most): (f32, f32), x: &f32| (least.min(*x), most.max(*x));
                column.iter().fold((f32::INFINITY, f32::NEG_INFINITY), wider)
            };
            self.coordinates.iter().map(extent).collect()
        })
    }

    /// Width and height of an object's image in pixels, 0 where there is none.
    pub fn size(&self, row: usize) -> (u32, u32) {
        (self.widths.value(row), self.heights.value(row))
    }
}

impl Kind for Signatures {
    const NAME: &'static str = "signatures";
    const USUAL_DISTANCE: &'static str = "sqfd";
    const ARROW_TYPES: &'static str = "List of Struct of Float32 fields, the last named weight";
    const FILLS_LINE: bool = true;
    const COLUMN_NAMES: &'static [&'static str] = &[SIGNATURE, "width", "height"];
    const TEXT: &'static str = "the name of an object, or an image";

    type Item<'a> = SizedSignature<'a>;
    type Batch = SignaturesBatch;
    type Builder = SignaturesBuilder;

    fn is_type(kind: &DataType) -> bool {
        coordinate_names(kind).is_some()
    }

    fn of_schema(schema: &Schema) -> Option<Self> {
        let coordinates = coordinate_names(schema.field_with_name(SIGNATURE).ok()?.data_type())?;
        Some(Self { coordinates })
    }

    fn of_array(objects: &ArrayRef) -> Option<Self> {
        Some(Self { coordinates: coordinate_names(objects.data_type())? })
    }

    fn of_json(value: &Value) -> Option<Result<Self, String>> {
        let of_members = |parsed: json::Parsed| {
            if parsed.weights.is_empty() {
                return Err(SignatureError::Empty.to_string());
            }
            let numbered = || (0..parsed.columns.len()).map(|idx| format!("c{idx}")).collect();
            Self::new(&parsed.coordinates.unwrap_or_else(numbered)).map_err(|error| error.to_string())
        };
        Some(json::read(value.as_object()?).and_then(of_members))
    }

    fn json_of_text(_: &str) -> Option<Value> {
        None
    }

    fn columns(&self) -> Vec<Field> {
        vec![
            Field::new(SIGNATURE, signature_type(&self.coordinates), false),
            Field::new("width", DataType::UInt32, false),
            Field::new("height", DataType::UInt32, false),
        ]
    }

    fn metadata(&self) -> Vec<(&'static str, String)> {
        vec![(DIMENSIONS_KEY, self.coordinates.len().to_string())]
    }

    fn shape(&self) -> String {
        format!("{:?}", self.coordinates)
    }

    fn dimensions(&self) -> usize {
        self.coordinates.len()
    }

    fn batch(&self, columns: &[ArrayRef]) -> Result<SignaturesBatch, String> {
        SignaturesBatch::new(columns)
    }

    fn item(batch: &SignaturesBatch, row: usize) -> SizedSignature<'_> {
        let (width, height) = batch.size(row);
        SizedSignature { signature: batch.columns().signature(row), width, height }
    }

    fn builder(&self) -> SignaturesBuilder {
        let signatures = SignatureBuilder::new(&self.coordinates);
        SignaturesBuilder {
            coordinates: self.coordinates.clone(),
            signatures: signatures.expect("the coordinates were checked"),
            sizes: Vec::new(),
        }
    }

    fn push(builder: &mut SignaturesBuilder, item: SizedSignature<'_>) -> Result<(), String> {
        builder.signatures.push_signature(item.signature).map_err(|error| error.to_string())?;
        builder.sizes.push((item.width, item.height));
        Ok(())
    }

    fn push_row(builder: &mut SignaturesBuilder, columns: &[ArrayRef], row: usize) -> Result<(), String> {
        let signatures = columns[0].as_list_opt().ok_or("it is no signature")?;
        let signatures = SignatureColumns::new(signatures).map_err(|error| error.to_string())?;
        let size = |column: usize| -> Result<u32, String> {
            columns.get(column).map_or(Ok(0), |column| Ok(sizes(column)?.value(row)))
        };
        let (width, height) = (size(1)?, size(2)?);
        Self::push(builder, SizedSignature { signature: signatures.signature(row), width, height })
    }

    fn push_json(builder: &mut SignaturesBuilder, value: &Value) -> Result<(), String> {
        let members = value.as_object().ok_or_else(|| format!("{value} is no signature"))?;
        let json::Parsed { columns, weights, size, coordinates } = json::read(members)?;
        let wanted = &builder.coordinates;
        if weights.is_empty() {
            return Err(SignatureError::Empty.to_string());
        }
        if let Some(said) = coordinates.filter(|said| said != wanted) {
            return Err(format!("its coordinates are {said:?} where the objects before have {wanted:?}"));
        }
        if columns.len() != wanted.len() {
            return Err(format!(
                "its centroids have {} coordinates where {} are wanted ({}): all objects have the same",
                columns.len(),
                wanted.len(),
                wanted.join(", ")
            ));
        }
        let columns: Vec<&[f32]> = columns.iter().map(Vec::as_slice).collect();
        builder.signatures.push(&columns, &weights).map_err(|error| error.to_string())?;
        builder.sizes.push(size);
        Ok(())
    }

    fn write_json(&self, item: SizedSignature<'_>, is_first: bool, text: &mut String) {
        json::write(item, is_first.then_some(self.coordinates.as_slice()), text);
    }

    fn is_full(builder: &SignaturesBuilder) -> bool {
        builder.signatures.centroids() >= BATCH_CENTROIDS
    }

    fn finish(builder: &mut SignaturesBuilder) -> Vec<ArrayRef> {
        let sizes = std::mem::take(&mut builder.sizes);
        vec![
            Arc::new(builder.signatures.finish()),
            Arc::new(UInt32Array::from_iter_values(sizes.iter().map(|size| size.0))),
            Arc::new(UInt32Array::from_iter_values(sizes.iter().map(|size| size.1))),
        ]
    }

    fn append_bytes(item: SizedSignature<'_>, bytes: &mut Vec<u8>) -> usize {
        let signature = item.signature;
        let coordinates = (0..signature.dimensions()).flat_map(|d| signature.coordinate(d));
        let numbers = coordinates.chain(signature.weights()).map(|number| number.to_le_bytes());
        let sizes = [item.width, item.height].map(u32::to_le_bytes);
        bytes.extend(numbers.chain(sizes).flatten());
        signature.len()
    }
}

/// A column of widths or heights.
fn sizes(column: &ArrayRef) -> Result<&UInt32Array, String> {
    match column.as_primitive_opt::<UInt32Type>() {
        Some(sizes) if sizes.null_count() == 0 => Ok(sizes),
        _ => Err("a column of sizes is not UInt32 or holds nulls".to_owned()),
    }
}

/// The signatures with their offsets copied; the centroids stay where they are.
fn own_signatures(signatures: &ListArray) -> Result<ListArray, String> {
    let (DataType::List(item), centroids) = (signatures.data_type(), signatures.values()) else {
        return Err("the signatures are no list".to_owned());
    };
    let offsets = own_offsets(signatures.value_offsets(), centroids.len())?;
    ListArray::try_new(Arc::clone(item), offsets, Arc::clone(centroids), None)
        .map_err(|error| error.to_string())
}

/// A slice with its lifetime removed: the caller stores it together with its owner.
fn lengthen<T>(column: &[T]) -> &'static [T] {
    // SAFETY: the slice lies in an Arrow buffer, which does not move; `SignaturesBatch` keeps the array that
    // owns it as long as the slice, and lends the slice for no longer than itself.
    unsafe { slice::from_raw_parts(column.as_ptr(), column.len()) }
}
