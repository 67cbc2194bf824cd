//! `sketch_basis`: chooses the frequencies and the directions of a store's sketches.
//!
//! Invariant: equal stores, measures, seeds and numbers of frequencies give equal bits, on every machine and for any number
//! of workers.

use std::sync::{Arc, OnceLock};

use arrow_array::types::Float32Type;
use arrow_array::{ArrayRef, ListArray, UInt32Array, UInt64Array};
use boxwork_kernels::memory::filled;
use boxwork_kernels::sketch::{FREQUENCIES_MAX, FREQUENCIES_MIN, FREQUENCIES_STEP, Frequencies, SAMPLE_MAX};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec, Out, Pushed};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::sketch::SketchSample;
use boxwork_stores::space::Space;

use crate::columns;
use crate::resources::{self, SPACE};

/// Objects whose features one closure computes: some milliseconds.
const OBJECTS_PER_CHUNK: usize = 64;
/// Consecutive ids of an envelope.
const IDS: u64 = 4096;

const BASIS: Out = Out::new(0, "basis", columns::basis, "the seed, the frequencies and the directions");
const RANGES: Out = Out::new(1, "ranges", columns::ranges, "all ids of the store, in order");

/// Computes the principal directions of the features of a sample of objects, and gives all ids to sketch by them.
///
/// # Inputs
/// None.
///
/// # Outputs
/// `basis`: one row. `ranges`: all ids, in order.
///
/// # Parameters
/// `space`: the store and the measure, which must be the gaussian similarity. `frequencies`: their number, a multiple of 32.
/// `seed`: the seed of the frequencies and of the sample.
pub static SKETCH_BASIS: OperatorSpec = OperatorSpec {
    parameters: &[
        SPACE,
        Parameter::new(
            "frequencies",
            ParameterType::Integer { minimum: FREQUENCIES_MIN as i64, maximum: FREQUENCIES_MAX as i64 },
            Default::Integer(1024),
            "random frequencies, a multiple of 32; distances of sketches vary less with more",
        ),
        Parameter::new(
            "seed",
            ParameterType::integer_from(0),
            Default::Integer(1),
            "the seed of all random choices",
        ),
    ],
    outputs: &[BASIS, RANGES],
    example: "basis: {kind: sketch_basis, space: space, frequencies: 1024}",
    ..OperatorSpec::new(
        "sketch_basis",
        "Chooses the frequencies and directions of a store's sketches.",
        Kind::Stateful,
        make,
    )
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let (space, seed, count) =
        (resources::space(bind)?, bind.count("seed") as u64, bind.count("frequencies"));
    if !Frequencies::is_count(count) {
        let near = count.next_multiple_of(FREQUENCIES_STEP).clamp(FREQUENCIES_MIN, FREQUENCIES_MAX);
        return Err(BoxError::new(format!(
            "a sketch cannot have {count} frequencies, which is no multiple of {FREQUENCIES_STEP}: ask for {near}"
        )));
    }
    // A distance without sketches is refused before anything is read.
    let sample = SketchSample::new(&space, seed, count)?;
    Ok(Box::new(SketchBasis { space, seed, count, sample: Some(sample), next: 0 }))
}

struct SketchBasis {
    space: Arc<dyn Space>,
    seed: u64,
    count: usize,
    /// Taken by the first firing.
    sample: Option<SketchSample>,
    /// The first id not given yet.
    next: u64,
}

impl Operator for SketchBasis {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if let Some(sample) = self.sample.take() {
            let Some(basis) = self.basis(cx, sample)? else { return Ok(Flow::Done) };
            return Ok(if cx.push(BASIS, basis)? == Pushed::Closed { Flow::Done } else { Flow::More });
        }
        let end = self.space.store().ids_count();
        while self.next < end {
            if !cx.has_room(RANGES) {
                return Ok(Flow::Wait);
            }
            let count = IDS.min(end - self.next);
            let columns: [(&str, ArrayRef); 3] = [
                ("query", Arc::new(UInt32Array::from(vec![0]))),
                ("first", Arc::new(UInt64Array::from(vec![self.next]))),
                ("count", Arc::new(UInt64Array::from(vec![count]))),
            ];
            self.next += count;
            if cx.push(RANGES, Envelope::from_columns(columns)?)? == Pushed::Closed {
                break;
            }
        }
        Ok(Flow::Done)
    }
}

impl SketchBasis {
    /// The basis; `None` if the request is being cancelled.
    fn basis(&self, cx: &mut Context<'_>, sample: SketchSample) -> Result<Option<Envelope>, BoxError> {
        cx.detached("disk", || self.space.store().bring_in(sample.ids()))??;
        let (objects, width) = (sample.ids().len(), sample.width());
        let what = || format!("the features of a sample of {} objects", SAMPLE_MAX.min(objects));
        let mut features = filled(objects * width, 0f32, what, "use fewer frequencies (`--frequencies`)")?;
        let failed = OnceLock::new();
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut features, OBJECTS_PER_CHUNK * width, |first, features| {
                if cancelled() {
                    return;
                }
                if let Err(error) = sample.features(first / width, features) {
                    // The first error is reported.
                    let _ = failed.set(error);
                }
            });
        });
        if let Some(error) = failed.into_inner() {
            return Err(error.into());
        }
        if cx.is_cancelled() {
            return Ok(None);
        }
        let basis = sample.basis(&features, &mut |numbers, piece, f| {
            cx.inside(|inside| inside.for_each_chunk_of(numbers, piece, f));
            !cx.is_cancelled()
        })?;
        let Some(basis) = basis else { return Ok(None) };
        let numbers = ListArray::from_iter_primitive::<Float32Type, _, _>([Some(basis.numbers().map(Some))]);
        let (field, offsets, values, _) = numbers.into_parts();
        let numbers =
            ListArray::new(Arc::new(field.as_ref().clone().with_nullable(false)), offsets, values, None);
        let columns: [(&str, ArrayRef); 3] = [
            ("seed", Arc::new(UInt64Array::from(vec![self.seed]))),
            ("frequencies", Arc::new(UInt32Array::from(vec![self.count as u32]))),
            ("numbers", Arc::new(numbers)),
        ];
        Ok(Some(Envelope::from_columns(columns)?))
    }
}
