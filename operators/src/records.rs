//! Objects into stores and out of them.

pub mod read_jsonl;
pub mod read_arrow;
mod read_column;
pub mod read_vectors;
mod generate_vectors;
pub mod write_store;
mod write_kept;
pub(crate) mod append_store;
pub(crate) mod mix_signatures;
pub mod read_store;
pub mod write_jsonl;
mod write_arrow;
mod sample;

use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, OperatorSpec, Out, Pushed};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::any_kind::{self, AnyKind, AnyRows, KIND_NAMES};

pub(crate) use crate::resources::store::{COLUMN, NAME};

/// The parameter that names the kind of objects which come or go.
pub(crate) const HOLDS: Parameter = Parameter::new(
    "holds",
    ParameterType::Choice(KIND_NAMES),
    Default::Text("signatures"),
    "the kind of the objects",
);

/// The parameter for the folder of the pictures.
pub(crate) const SOURCE: Parameter = Parameter::new(
    "source",
    ParameterType::Path,
    Default::Absent,
    "the folder that the objects' names are paths in",
);

/// The kind that [`HOLDS`] names.
pub(crate) fn kind(bind: &Bind<'_>) -> Result<&'static dyn AnyKind, BoxError> {
    any_kind::named(bind.text(HOLDS.name)).map_err(BoxError::new)
}

/// The names of objects in an envelope, and their columns.
pub(crate) fn objects<'a>(
    envelope: &'a Envelope,
    kind: &dyn AnyKind,
) -> Result<(&'a StringArray, Vec<ArrayRef>), BoxError> {
    let column = |name: &&str| Ok(envelope.column(name)?.clone());
    Ok((envelope.texts("name")?, kind.column_names().iter().map(column).collect::<Result<_, BoxError>>()?))
}

/// The objects that have come and were not taken, as an envelope; nothing if there is none.
pub(crate) fn envelope(
    rows: Option<&mut dyn AnyRows>,
    kind: &dyn AnyKind,
) -> Result<Option<Envelope>, BoxError> {
    let Some(rows) = rows.filter(|rows| !rows.is_empty()) else { return Ok(None) };
    let (names, objects) = rows.take();
    let mut columns: Vec<(&str, ArrayRef)> = vec![("name", Arc::new(names))];
    columns.extend(kind.column_names().iter().copied().zip(objects));
    Ok(Some(Envelope::from_columns(columns)?))
}

/// Reads envelopes from the disk and pushes them while the output has room. `sent` counts the rows.
fn send(
    cx: &mut Context<'_>,
    output: Out,
    sent: &mut u64,
    mut read: impl FnMut() -> Result<Option<Envelope>, BoxError>,
) -> Result<Flow, BoxError> {
    while cx.has_room(output) {
        let Some(envelope) = cx.detached("disk", &mut read)?? else { return Ok(Flow::Done) };
        *sent += envelope.rows() as u64;
        cx.progress(*sent, 0);
        if cx.push(output, envelope)? == Pushed::Closed {
            return Ok(Flow::Done);
        }
    }
    Ok(Flow::Wait)
}

/// The operators of this folder, in the order in which data meets them.
pub(crate) static LIST: &[&OperatorSpec] = &[
    &read_jsonl::READ_JSONL,
    &read_column::READ_COLUMN,
    &read_vectors::READ_VECTORS,
    &generate_vectors::GENERATE_VECTORS,
    &write_store::WRITE_STORE,
    &write_kept::WRITE_KEPT,
    &append_store::APPEND_STORE,
    &mix_signatures::MIX_SIGNATURES,
    &read_store::READ_STORE,
    &sample::SAMPLE,
    &write_jsonl::WRITE_JSONL,
    &read_arrow::READ_ARROW,
    &write_arrow::WRITE_ARROW,
];
