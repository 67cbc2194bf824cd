//! `assign_lists`: the list of each vector of a store, and its code.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_array::{ArrayRef, BinaryArray, UInt32Array, UInt64Array};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_stores::lists::{Coding, Quantizers, measure, vectors_for};
use boxwork_stores::space::Space;

use crate::columns;
use crate::resources::{self, SPACE};

/// Objects that are assigned before the box asks whether to stop.
const OBJECTS_AT_ONCE: usize = 768;

const RANGES: In = In::stream(0, "ranges", columns::ranges, "ids to assign");
pub(super) const QUANTIZERS: In =
    In::side(1, "quantizers", columns::quantizers, "the centroids and the codebook");
const ASSIGNED: Out = Out::new(0, "assigned", columns::assigned, "the list and the code of an object");

/// Finds the nearest centroid of each vector, and encodes its difference from it.
///
/// # Inputs
/// `ranges`: ids; those without an object are skipped. `quantizers` (side): from `train_lists`.
///
/// # Outputs
/// `assigned`: a row for each object, in the order of the ids.
///
/// # Parameters
/// `space`: vectors, and the distance l2, ip or cosine.
pub static ASSIGN_LISTS: OperatorSpec = OperatorSpec {
    parameters: &[SPACE],
    inputs: &[RANGES, QUANTIZERS],
    outputs: &[ASSIGNED],
    example: "assigned: {kind: assign_lists, space: space, copies: auto}",
    ..OperatorSpec::new("assign_lists", "Finds the list of each vector, and its code.", Kind::Ordered, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(AssignLists { space: resources::space(bind)?, quantizers: None }))
}

/// The quantizers that have come to a side input.
pub(super) fn quantizers(cx: &Context<'_>) -> Result<Quantizers, BoxError> {
    let Some(envelope) = cx.side(QUANTIZERS).first().filter(|envelope| envelope.rows() == 1) else {
        return Err(BoxError::new(
            "the input has no quantizers: lists need them, as `train_lists` gives them",
        ));
    };
    let numbers = |name: &str| -> Result<Vec<f32>, BoxError> {
        let list = envelope.lists(name)?.value(0);
        Ok(list.as_primitive::<Float32Type>().values().to_vec())
    };
    let (dimensions, parts) = (envelope.u32s("dimensions")?[0], envelope.u32s("parts")?[0]);
    let coding = Coding::named(envelope.texts("codes")?.value(0));
    let (centroids, codebook) = (numbers("centroids")?, numbers("codebook")?);
    let rotation = numbers("rotation")?;
    let quantizers = coding.and_then(|coding| {
        Quantizers::of_parts(dimensions as usize, centroids, coding, parts as usize, codebook, rotation)
    });
    quantizers.ok_or_else(|| {
        BoxError::new(
            "the centroids and the codebook do not fit together: give those that `train_lists` gives",
        )
    })
}

struct AssignLists {
    space: Arc<dyn Space>,
    /// Set by the first firing.
    quantizers: Option<Quantizers>,
}

impl Operator for AssignLists {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.quantizers.is_none() {
            self.quantizers = Some(quantizers(cx)?);
        }
        if !cx.has_room(ASSIGNED) {
            return Ok(Flow::Wait);
        }
        let Some(ranges) = cx.take(RANGES) else {
            return Ok(if cx.is_ended(RANGES) { Flow::Done } else { Flow::Wait });
        };
        let store = Arc::clone(self.space.store());
        let mut ids = Vec::new();
        for (first, count) in ranges.u64s("first")?.iter().zip(ranges.u64s("count")?) {
            let range: Range<u64> = *first..store.ids_count().min(first.saturating_add(*count));
            ids.extend(store.among(range));
        }
        resources::bring_in(cx, &*store, &ids)?;
        let Some(quantizers) = &self.quantizers else { unreachable!("they were set above") };
        let measure = measure(&*self.space)?;
        let (mut lists, mut codes) = (Vec::with_capacity(ids.len()), Vec::new());
        for ids in ids.chunks(OBJECTS_AT_ONCE) {
            if cx.is_cancelled() {
                return Ok(Flow::Done);
            }
            let vectors = vectors_for(measure, &*store, ids, quantizers.dimensions())?;
            if vectors.len() != ids.len() * quantizers.dimensions() {
                return Err(BoxError::new(
                    "the centroids have another number of dimensions than the vectors",
                ));
            }
            let (found, encoded) = quantizers.assign(&vectors);
            lists.extend(found);
            codes.extend(encoded);
        }
        let size = quantizers.code_bytes();
        let codes = BinaryArray::from_iter_values((0..ids.len()).map(|row| &codes[row * size..][..size]));
        let columns: [(&str, ArrayRef); 3] = [
            ("id", Arc::new(UInt64Array::from(ids))),
            ("list", Arc::new(UInt32Array::from(lists))),
            ("code", Arc::new(codes)),
        ];
        match cx.push(ASSIGNED, Envelope::from_columns(columns)?)? {
            Pushed::Closed => Ok(Flow::Done),
            Pushed::Sent => Ok(Flow::More),
        }
    }
}
