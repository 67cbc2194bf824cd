//! Objects as envelopes: those of a store by id, and pictures by their signatures.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{Array as _, ArrayRef, BinaryArray, RecordBatch, StringArray, UInt32Array};
use boxwork_server::Refusal;
use boxwork_server::backend::{Picture, Subject};
use boxwork_stores::signature::{SignatureBuilder, SignatureColumns, coordinate_names};
use boxwork_stores::store::Store;

/// A fault of the server.
pub(super) fn internal(error: impl std::fmt::Display) -> Refusal {
    Refusal::Internal(error.to_string())
}

/// An array of one object: a picture's signature, checked and with weights that sum to 1.
///
/// # Errors
/// Says what is wrong with the signature.
pub(super) fn array_of(picture: &Picture, store: &dyn Store) -> Result<ArrayRef, String> {
    let names = coordinate_names(&store.object_type());
    let names = names.ok_or_else(|| format!("the store holds {}, and no signatures", store.kind()))?;
    let numbers = names.len() + 1;
    if let Some(row) = picture.signature.iter().find(|row| row.len() != numbers) {
        let names = names.join(", ");
        return Err(format!(
            "a centroid has {} numbers, and the store's have {numbers}: {names}, weight",
            row.len()
        ));
    }
    let columns: Vec<Vec<f32>> =
        (0..numbers).map(|at| picture.signature.iter().map(|row| row[at]).collect()).collect();
    let mut builder = SignatureBuilder::new(&names).map_err(|error| error.to_string())?;
    let coordinates: Vec<&[f32]> = columns[..names.len()].iter().map(Vec::as_slice).collect();
    builder.push(&coordinates, &columns[names.len()]).map_err(|error| error.to_string())?;
    Ok(Arc::new(builder.finish()))
}

/// The object of a subject; may block on the disk.
pub(super) fn object(subject: &Subject, store: &dyn Store) -> Result<ArrayRef, Refusal> {
    match subject {
        Subject::Object(id) => store.objects(&[*id]).map_err(internal),
        Subject::Picture(picture) => array_of(picture, store).map_err(Refusal::Invalid),
    }
}

/// A query of one object.
pub(super) fn query(object: ArrayRef) -> Result<RecordBatch, Refusal> {
    let columns: [(&str, ArrayRef); 3] = [
        ("query", Arc::new(UInt32Array::from(vec![0]))),
        ("name", Arc::new(StringArray::from(vec!["query"]))),
        ("object", object),
    ];
    RecordBatch::try_from_iter(columns).map_err(internal)
}

/// A file as the boxes that decode it take it.
pub(super) fn file(content: &[u8]) -> Result<RecordBatch, Refusal> {
    let columns: [(&str, ArrayRef); 3] = [
        ("path", Arc::new(StringArray::from(vec!["the picture"]))),
        ("name", Arc::new(StringArray::from(vec!["the picture"]))),
        ("bytes", Arc::new(BinaryArray::from_iter_values([content]))),
    ];
    RecordBatch::try_from_iter(columns).map_err(internal)
}

/// The first picture of batches of signatures.
pub(super) fn picture(batches: &[RecordBatch]) -> Result<Option<Picture>, Refusal> {
    let Some(batch) = batches.iter().find(|batch| batch.num_rows() > 0) else { return Ok(None) };
    let signatures = batch["signature"].as_list::<i32>();
    let columns = SignatureColumns::new(signatures).map_err(internal)?;
    let signature = columns.signature(0);
    let rows = (0..signature.weights().len()).map(|row| {
        let coordinates = (0..signature.dimensions()).map(|at| signature.coordinate(at)[row]);
        coordinates.chain([signature.weights()[row]]).collect()
    });
    let size = |name: &str| batch[name].as_primitive::<arrow_array::types::UInt32Type>().value(0);
    Ok(Some(Picture { width: size("width"), height: size("height"), signature: rows.collect() }))
}

/// A column of ids.
pub(super) fn ids<'a>(batch: &'a RecordBatch, name: &str) -> &'a [u64] {
    batch[name].as_primitive::<UInt64Type>().values()
}

/// A column of numbers.
pub(super) fn numbers<'a>(batch: &'a RecordBatch, name: &str) -> &'a [f64] {
    batch[name].as_primitive::<Float64Type>().values()
}

/// The length of an object: its centroids, its numbers, its letters.
pub(super) fn length(object: &ArrayRef) -> u64 {
    if let Some(list) = object.as_list_opt::<i32>() {
        return list.value(0).len() as u64;
    }
    object.as_string_opt::<i32>().map_or(1, |text| text.value(0).chars().count() as u64)
}
