//! The signature of an object: weighted centroids, as one Arrow list of structs of `Float32`.
//!
//! The dimension is not fixed: the coordinates are whatever fields the struct has before its last, `weight`.

use arrow_schema::DataType;
use boxwork_runtime::descriptor::Family;

/// The name of the field that holds the centroids' weights, the last of the struct.
pub const WEIGHT: &str = "weight";

/// Any signature, whatever its dimension.
pub static SIGNATURE: Family = Family {
    name: "Signature",
    about: "List<Struct<Float32..., weight: Float32>>: centroids of one dimension or more, with weights that sum to 1",
    accepts: is_signature,
};

fn is_signature(kind: &DataType) -> bool {
    let DataType::List(item) = kind else { return false };
    let DataType::Struct(fields) = item.data_type() else { return false };
    fields.len() >= 2
        && fields.iter().all(|field| *field.data_type() == DataType::Float32)
        && fields.last().is_some_and(|field| field.name() == WEIGHT)
}
