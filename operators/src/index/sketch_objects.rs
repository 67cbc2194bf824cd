//! `sketch_objects`: computes the sketches of a store's objects.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_array::{ArrayRef, FixedSizeBinaryArray, UInt64Array};
use arrow_buffer::Buffer;
use boxwork_kernels::CodePath;
use boxwork_kernels::sketch::{COORDINATES, Sketcher};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_stores::sketch::SketchMaker;
use boxwork_stores::space::Space;

use crate::columns;
use crate::resources::{self, SPACE};

/// Objects that are sketched before the box asks whether to stop.
const OBJECTS_AT_ONCE: usize = 256;

const RANGES: In = In::stream(0, "ranges", columns::ranges, "ids to sketch");
pub(super) const BASIS: In = In::side(1, "basis", columns::basis, "the frequencies and directions");
const SKETCHES: Out = Out::new(0, "sketches", columns::sketches, "a sketch an object");

/// Computes sketches by given frequencies and directions.
///
/// # Inputs
/// `ranges`: ids; those without an object are skipped. `basis` (side): from `sketch_basis`.
///
/// # Outputs
/// `sketches`: a row for each object, in the order of the ids.
///
/// # Parameters
/// `space`: the store and the measure.
pub static SKETCH_OBJECTS: OperatorSpec = OperatorSpec {
    parameters: &[SPACE],
    inputs: &[RANGES, BASIS],
    outputs: &[SKETCHES],
    example: "sketches: {kind: sketch_objects, space: space, copies: auto}",
    ..OperatorSpec::new("sketch_objects", "Computes the sketches of a store's objects.", Kind::Ordered, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let (space, sketcher) = (resources::space(bind)?, Sketcher::new(CodePath::detect()));
    Ok(Box::new(SketchObjects { space, sketcher, maker: None }))
}

/// The maker of a basis that has come to a side input.
pub(super) fn maker(cx: &Context<'_>, space: &Arc<dyn Space>) -> Result<SketchMaker, BoxError> {
    let Some(envelope) = cx.side(BASIS).first().filter(|envelope| envelope.rows() == 1) else {
        return Err(BoxError::new("the input has no basis: a sketch needs one, as `sketch_basis` gives it"));
    };
    let numbers = envelope.lists("numbers")?.value(0);
    let numbers = numbers.as_primitive::<Float32Type>().values();
    let (seed, frequencies) = (envelope.u64s("seed")?[0], envelope.u32s("frequencies")?[0]);
    Ok(SketchMaker::of_parts(space, seed, frequencies as usize, numbers)?)
}

struct SketchObjects {
    space: Arc<dyn Space>,
    sketcher: Sketcher,
    /// Set by the first firing.
    maker: Option<SketchMaker>,
}

impl Operator for SketchObjects {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.maker.is_none() {
            self.maker = Some(maker(cx, &self.space)?);
        }
        if !cx.has_room(SKETCHES) {
            return Ok(Flow::Wait);
        }
        let Some(ranges) = cx.take(RANGES) else {
            return Ok(if cx.is_ended(RANGES) { Flow::Done } else { Flow::Wait });
        };
        let mut ids = Vec::new();
        for (first, count) in ranges.u64s("first")?.iter().zip(ranges.u64s("count")?) {
            let range: Range<u64> = *first..self.space.store().ids_count().min(first.saturating_add(*count));
            ids.extend(self.space.store().among(range));
        }
        let store = self.space.store();
        if !store.is_in(&ids) {
            cx.detached("disk", || store.bring_in(&ids))??;
        }
        let Some(maker) = &self.maker else { unreachable!("it was made above") };
        let mut sketches = vec![0u16; ids.len() * COORDINATES];
        for (ids, out) in ids.chunks(OBJECTS_AT_ONCE).zip(sketches.chunks_mut(OBJECTS_AT_ONCE * COORDINATES))
        {
            if cx.is_cancelled() {
                return Ok(Flow::Done);
            }
            maker.write(&mut self.sketcher, ids, out)?;
        }
        let bytes: Vec<u8> = sketches.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let sketches = FixedSizeBinaryArray::try_new(columns::SKETCH_BYTES, Buffer::from_vec(bytes), None)?;
        let columns: [(&str, ArrayRef); 2] =
            [("id", Arc::new(UInt64Array::from(ids))), ("sketch", Arc::new(sketches))];
        match cx.push(SKETCHES, Envelope::from_columns(columns)?)? {
            Pushed::Closed => Ok(Flow::Done),
            Pushed::Sent => Ok(Flow::More),
        }
    }
}
