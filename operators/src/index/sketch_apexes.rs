//! `sketch_apexes`: takes the sketches of a store's objects from its index.

use std::sync::Arc;

use arrow_array::{ArrayRef, FixedSizeBinaryArray, UInt64Array};
use arrow_buffer::Buffer;
use boxwork_kernels::sketch::COORDINATES;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec, Out, Pushed};
use boxwork_runtime::parameter::{Arguments, Default, Parameter, ParameterType, Value};
use boxwork_stores::pivot_table::PivotTable;
use boxwork_stores::sketch::SketchMaker;
use boxwork_stores::spaces::allow_apexes;

use crate::columns;
use crate::resources::properties_of;

/// Consecutive ids of an envelope.
const IDS: u64 = 4096;

const SKETCHES: Out = Out::new(0, "sketches", columns::sketches, "a sketch an object");

/// The index from which sketches come.
pub(super) const PIVOTS: Parameter = Parameter::new(
    "pivots",
    ParameterType::Resource("pivot_table"),
    Default::Required,
    "the index of the store, whose distance is a Hilbert distance",
);

/// Takes the apex of every object over the simplex of the pivots as its sketch: up to 64 coordinates whose plain distances are
/// lower bounds of the objects' distances. It computes no distance.
///
/// # Inputs
/// None.
///
/// # Outputs
/// `sketches`: a row for each object, in the order of the ids.
///
/// # Parameters
/// `pivots`: the index.
pub static SKETCH_APEXES: OperatorSpec = OperatorSpec {
    parameters: &[PIVOTS],
    outputs: &[SKETCHES],
    example: "sketches: {kind: sketch_apexes, pivots: table}",
    check: Some(check),
    ..OperatorSpec::new(
        "sketch_apexes",
        "Takes the sketches of a store's objects from its index.",
        Kind::Stateful,
        make,
    )
};

/// Whether the distance of the index has apexes, as far as it is known with no file opened.
fn check(arguments: &Arguments, resources: &dyn Fn(&str) -> Option<Arguments>) -> Result<(), String> {
    let Some(Value::Text(pivots)) = arguments.get("pivots") else { return Ok(()) };
    let properties = resources(pivots).and_then(|table| properties_of(&table, resources));
    properties.map_or(Ok(()), |(_, properties)| allow_apexes(&properties))
}

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let table: Arc<PivotTable> = bind.resource("pivots")?;
    // A request may give another distance than the plan's, which was checked.
    allow_apexes(&table.space().properties()).map_err(BoxError::new)?;
    Ok(Box::new(SketchApexes { table, maker: None, next: 0 }))
}

struct SketchApexes {
    table: Arc<PivotTable>,
    /// Set by the first firing.
    maker: Option<SketchMaker>,
    /// The first id not given yet.
    next: u64,
}

impl Operator for SketchApexes {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let table = &self.table;
        if self.maker.is_none() {
            self.maker = Some(cx.detached("disk", || SketchMaker::of_table(table))??);
        }
        let Some(maker) = &self.maker else { unreachable!("it was made above") };
        if !cx.has_room(SKETCHES) {
            return Ok(Flow::Wait);
        }
        let (store, range) = (table.space().store(), self.next..table.len().min(self.next + IDS));
        if range.is_empty() {
            return Ok(Flow::Done);
        }
        self.next = range.end;
        let ids: Vec<u64> = store.among(range).collect();
        let mut sketches = vec![0u16; ids.len() * COORDINATES];
        maker.write_rows(table, &ids, &mut sketches);
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
