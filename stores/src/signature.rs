//! The signature of an object: weighted centroids, as one Arrow list of structs of `Float32`.
//!
//! The dimension is not fixed: the coordinates are the fields of the struct before its last, `weight`. A signature has
//! at least one centroid, finite coordinates, and positive weights that sum to 1: [`normalise`] ensures this, and every
//! signature passes it before it enters a store.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float32Array, ListArray, StructArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields};
use boxwork_kernels::sqfd::{Columns, DIMENSIONS_MAX, SignatureRef, StoreColumns};
use boxwork_runtime::descriptor::Family;

/// The name of the field that holds the centroids' weights, the last of the struct.
pub const WEIGHT: &str = "weight";

/// The coordinates of a position-colour-texture signature, in their order.
pub const PCT_COORDINATES: [&str; 7] = ["x", "y", "l", "a", "b", "contrast", "entropy"];

/// The most centroids of one signature; also the most of one record batch, so that device buffers stay small.
pub const CENTROIDS_MAX: usize = 1 << 24;

/// Any signature, whatever its dimension.
pub static SIGNATURE: Family = Family {
    name: "Signature",
    about: "List<Struct<Float32..., weight: Float32>>: centroids of one dimension or more, with weights that sum to 1",
    accepts: |kind| coordinate_names(kind).is_some(),
};

/// The fault of a signature, and the fix.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// There is no centroid.
    #[error("the signature has no centroid: leave the object out, or give it one centroid of weight 1")]
    Empty,
    /// More than [`CENTROIDS_MAX`] centroids.
    #[error("the signature has {0} centroids: at most {CENTROIDS_MAX} are possible, so merge some")]
    TooMany(usize),
    /// No coordinate, or more than the kernels take.
    #[error("centroids of {0} coordinates: a signature has 1 to {DIMENSIONS_MAX}")]
    Dimensions(usize),
    /// A coordinate is infinite or not a number.
    #[error("coordinate {coordinate} of centroid {centroid} is {value}: coordinates are finite numbers")]
    Coordinate {
        /// The centroid's place, from 0.
        centroid: usize,
        /// The coordinate's place, from 0.
        coordinate: usize,
        /// The value found.
        value: f32,
    },
    /// A weight is zero, negative, infinite or not a number.
    #[error(
        "the weight of centroid {centroid} is {value}: weights are finite and above 0, so leave out a centroid without weight"
    )]
    Weight {
        /// The centroid's place, from 0.
        centroid: usize,
        /// The value found.
        value: f32,
    },
    /// A weight vanishes relative to the others.
    #[error(
        "the weight of centroid {centroid} is {share:e} of the sum, too small for a 32-bit number: leave that centroid out"
    )]
    WeightVanishes {
        /// The centroid's place, from 0.
        centroid: usize,
        /// Its share of the sum.
        share: f64,
    },
    /// The weights do not sum to 1 where they must.
    #[error("the weights sum to {0}, not 1: divide each by their sum")]
    WeightSum(f64),
    /// The column is no signature column.
    #[error(
        "{0} is no signature: it must be a list of structs of non-null Float32 fields, the last named `{WEIGHT}`"
    )]
    Type(String),
}

/// The Arrow type of signatures with these coordinates.
pub fn signature_type<S: AsRef<str>>(coordinates: &[S]) -> DataType {
    DataType::List(Arc::new(Field::new("item", DataType::Struct(centroid_fields(coordinates)), false)))
}

fn centroid_fields<S: AsRef<str>>(coordinates: &[S]) -> Fields {
    let names = coordinates.iter().map(AsRef::as_ref).chain([WEIGHT]);
    names.map(|name| Field::new(name, DataType::Float32, false)).collect()
}

/// The names of the coordinates of a signature type, or nothing for another type.
pub fn coordinate_names(kind: &DataType) -> Option<Vec<String>> {
    let DataType::List(item) = kind else { return None };
    let DataType::Struct(fields) = item.data_type() else { return None };
    let (weight, coordinates) = fields.split_last()?;
    let fits = weight.name() == WEIGHT
        && (1..=DIMENSIONS_MAX).contains(&coordinates.len())
        && fields.iter().all(|field| *field.data_type() == DataType::Float32);
    fits.then(|| coordinates.iter().map(|field| field.name().clone()).collect())
}

/// The columns of a signature array, borrowed, as the kernels read them.
#[derive(Clone, Debug)]
pub struct SignatureColumns<'a> {
    coordinates: Vec<&'a [f32]>,
    weights: &'a [f32],
    offsets: &'a [i32],
}

impl<'a> SignatureColumns<'a> {
    /// The columns of a list array, without a copy.
    ///
    /// # Errors
    /// When the array is of another type, or holds nulls.
    pub fn new(signatures: &'a ListArray) -> Result<Self, SignatureError> {
        let refused = || SignatureError::Type(signatures.data_type().to_string());
        coordinate_names(signatures.data_type()).ok_or_else(refused)?;
        let centroids: &StructArray = signatures.values().as_any().downcast_ref().ok_or_else(refused)?;
        let mut columns = Vec::with_capacity(centroids.num_columns());
        for column in centroids.columns() {
            let column: &Float32Array = column.as_any().downcast_ref().ok_or_else(refused)?;
            if column.null_count() > 0 {
                return Err(refused());
            }
            columns.push(column.values().as_ref());
        }
        if signatures.null_count() + centroids.null_count() > 0 {
            return Err(refused());
        }
        let weights = columns.pop().ok_or_else(refused)?;
        Ok(Self { coordinates: columns, weights, offsets: signatures.value_offsets() })
    }

    /// Number of coordinates.
    pub fn dimensions(&self) -> usize {
        self.coordinates.len()
    }

    /// Number of signatures.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The kernels' view of these columns.
    pub fn view(&self) -> StoreColumns<'_> {
        StoreColumns::new(Columns::new(&self.coordinates, self.weights), self.offsets)
    }

    /// One signature.
    pub fn signature(&self, row: usize) -> SignatureRef<'_> {
        self.view().signature(row)
    }
}

/// Checks one signature and returns its weights, divided by their sum.
///
/// Weights that already sum to 1 within f32 keep their bits, so that an export and import changes nothing.
///
/// # Errors
/// Names the centroid and what is wrong with it.
pub fn normalise(signature: SignatureRef<'_>) -> Result<Vec<f32>, SignatureError> {
    let sum = check_values(signature)?;
    let weights = signature.weights();
    if is_one(sum) {
        return Ok(weights.to_vec());
    }
    let shares = weights.iter().map(|&weight| f64::from(weight) / sum).enumerate();
    shares
        .map(|(centroid, share)| match share as f32 {
            rounded if rounded > 0.0 => Ok(rounded),
            _ => Err(SignatureError::WeightVanishes { centroid, share }),
        })
        .collect()
}

/// Checks one signature whose weights must sum to 1 already.
///
/// # Errors
/// Names the centroid and what is wrong with it.
pub fn check(signature: SignatureRef<'_>) -> Result<(), SignatureError> {
    let sum = check_values(signature)?;
    if is_one(sum) { Ok(()) } else { Err(SignatureError::WeightSum(sum)) }
}

/// Rounding `n` shares of 1 to `f32` moves their sum by at most `2^-24`, half of what is allowed here.
fn is_one(sum: f64) -> bool {
    (sum - 1.0).abs() <= f64::from(f32::EPSILON)
}

/// Checks the numbers and returns the weights' sum.
fn check_values(signature: SignatureRef<'_>) -> Result<f64, SignatureError> {
    match signature.len() {
        0 => return Err(SignatureError::Empty),
        n if n > CENTROIDS_MAX => return Err(SignatureError::TooMany(n)),
        _ => {}
    }
    for coordinate in 0..signature.dimensions() {
        let values = signature.coordinate(coordinate);
        if let Some(centroid) = values.iter().position(|value| !value.is_finite()) {
            return Err(SignatureError::Coordinate { centroid, coordinate, value: values[centroid] });
        }
    }
    let weights = signature.weights();
    if let Some(centroid) = weights.iter().position(|weight| !(weight.is_finite() && *weight > 0.0)) {
        return Err(SignatureError::Weight { centroid, value: weights[centroid] });
    }
    Ok(weights.iter().map(|&weight| f64::from(weight)).sum())
}

/// Builds a signature array, signature by signature.
#[derive(Debug)]
pub struct SignatureBuilder {
    fields: Fields,
    coordinates: Vec<Vec<f32>>,
    weights: Vec<f32>,
    offsets: Vec<i32>,
}

impl SignatureBuilder {
    /// A builder of signatures with these coordinates.
    ///
    /// # Errors
    /// When there is no coordinate, or more than [`DIMENSIONS_MAX`].
    pub fn new<S: AsRef<str>>(coordinates: &[S]) -> Result<Self, SignatureError> {
        if !(1..=DIMENSIONS_MAX).contains(&coordinates.len()) {
            return Err(SignatureError::Dimensions(coordinates.len()));
        }
        Ok(Self {
            fields: centroid_fields(coordinates),
            coordinates: vec![Vec::new(); coordinates.len()],
            weights: Vec::new(),
            offsets: vec![0],
        })
    }

    /// Number of signatures so far.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Names of the coordinates.
    pub fn coordinates(&self) -> Vec<String> {
        self.fields[..self.coordinates.len()].iter().map(|field| field.name().clone()).collect()
    }

    /// Number of centroids so far.
    pub fn centroids(&self) -> usize {
        self.weights.len()
    }

    /// Appends a signature given column by column: checked, its weights normalised.
    ///
    /// # Errors
    /// When the signature is invalid; the builder is unchanged.
    ///
    /// # Panics
    /// When the columns differ in length or are not as many as the coordinates, or the array would hold more than
    /// `i32::MAX` centroids.
    pub fn push(&mut self, coordinates: &[&[f32]], weights: &[f32]) -> Result<(), SignatureError> {
        self.push_signature(Columns::new(coordinates, weights).signature(0, weights.len()))
    }

    /// As [`SignatureBuilder::push`], for a signature in other columns.
    ///
    /// # Errors
    /// As [`SignatureBuilder::push`].
    ///
    /// # Panics
    /// As [`SignatureBuilder::push`].
    pub fn push_signature(&mut self, signature: SignatureRef<'_>) -> Result<(), SignatureError> {
        assert_eq!(signature.dimensions(), self.coordinates.len(), "one column per coordinate");
        let weights = normalise(signature)?;
        let end = i32::try_from(self.weights.len() + weights.len())
            .expect("an array of i32::MAX centroids at most");
        for (coordinate, column) in self.coordinates.iter_mut().enumerate() {
            column.extend_from_slice(signature.coordinate(coordinate));
        }
        self.weights.extend_from_slice(&weights);
        self.offsets.push(end);
        Ok(())
    }

    /// Takes the array so far; the builder is empty afterwards.
    pub fn finish(&mut self) -> ListArray {
        let columns = self.coordinates.iter_mut().chain([&mut self.weights]);
        let arrays: Vec<ArrayRef> =
            columns.map(|column| Arc::new(Float32Array::from(std::mem::take(column))) as ArrayRef).collect();
        let offsets = std::mem::replace(&mut self.offsets, vec![0]);
        let item = Arc::new(Field::new("item", DataType::Struct(self.fields.clone()), false));
        ListArray::new(
            item,
            OffsetBuffer::new(ScalarBuffer::from(offsets)),
            Arc::new(StructArray::new(self.fields.clone(), arrays, None)),
            None,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_what_was_built_also_through_a_slice() {
        let mut builder = SignatureBuilder::new(&["x", "y"]).unwrap();
        builder.push(&[&[1.0], &[2.0]], &[5.0]).unwrap();
        builder.push(&[&[3.0, 4.0], &[5.0, 6.0]], &[1.0, 3.0]).unwrap();
        let array = builder.finish();
        assert!((SIGNATURE.accepts)(array.data_type()));
        assert_eq!(*array.data_type(), signature_type(&["x", "y"]));
        assert_eq!(coordinate_names(array.data_type()).unwrap(), ["x", "y"]);
        let slice = array.slice(1, 1);
        let columns = SignatureColumns::new(&slice).unwrap();
        assert_eq!((columns.rows(), columns.dimensions()), (1, 2));
        let signature = columns.signature(0);
        assert_eq!(signature.coordinate(1), [5.0, 6.0]);
        assert_eq!(signature.weights(), [0.25, 0.75]);
        assert!(builder.is_empty() && builder.finish().is_empty());
    }

    #[test]
    fn normalising_twice_changes_nothing() {
        let mut state = 7u32;
        for n in 1..200 {
            let weights: Vec<f32> = (0..n)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 8) as f32 + 1.0
                })
                .collect();
            let x = vec![0.0; n];
            let once = normalise(Columns::new(&[&x], &weights).signature(0, n)).unwrap();
            let signature_columns: [&[f32]; 1] = [&x];
            let signature = Columns::new(&signature_columns, &once).signature(0, n);
            check(signature).unwrap();
            assert_eq!(normalise(signature).unwrap(), once);
        }
    }

    #[test]
    fn refuses_what_is_not_sound_and_says_where() {
        let refusal = |x: &[f32], weights: &[f32]| {
            let mut builder = SignatureBuilder::new(&["x"]).unwrap();
            let message = builder.push(&[x], weights).unwrap_err().to_string();
            assert!(builder.is_empty());
            message
        };
        assert!(refusal(&[], &[]).contains("no centroid"));
        assert!(refusal(&[0.0, f32::NAN], &[1.0, 1.0]).contains("coordinate 0 of centroid 1 is NaN"));
        assert!(refusal(&[0.0, f32::INFINITY], &[1.0, 1.0]).contains("centroid 1 is inf"));
        for weight in [0.0, -0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert!(refusal(&[0.0, 1.0], &[1.0, weight]).contains("weight of centroid 1"), "{weight}");
        }
        assert!(refusal(&[0.0, 1.0], &[1e38, 1e-38]).contains("too small"));
        assert!(SignatureBuilder::new::<&str>(&[]).is_err());
        assert!(SignatureBuilder::new(&["x"; DIMENSIONS_MAX + 1]).is_err());
    }

    #[test]
    fn other_types_are_no_signatures() {
        for kind in [
            DataType::Float32,
            DataType::List(Arc::new(Field::new("item", DataType::Float32, false))),
            signature_type::<&str>(&[]),
        ] {
            assert!(!(SIGNATURE.accepts)(&kind), "{kind}");
        }
        let array = ListArray::new_null(Arc::new(Field::new("item", DataType::Float32, false)), 2);
        assert!(SignatureColumns::new(&array).is_err());
    }
}
