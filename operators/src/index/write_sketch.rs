//! `write_sketch`: writes a sketch to disk, at the end of `boxwork sketch`.
//!
//! Invariant: the sketch appears under its name when all objects have come, or not at all.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::pivot_table::PivotTable;
use boxwork_stores::sketch::{SketchMaker, SketchWriter};
use boxwork_stores::space::Space;

use super::sketch_apexes::PIVOTS;
use super::sketch_objects::{self, maker};
use crate::columns;
use crate::resources::{self, SPACE};

const SKETCHES: In = In::stream(0, "sketches", columns::sketches, "the sketches of all objects, in order");
const BASIS: In = sketch_objects::BASIS.optional();

/// Writes the sketches of all objects of a store.
///
/// # Inputs
/// `sketches`: of all objects, in the order of the store. `basis` (side): by which they were made, unless `pivots` is given.
///
/// # Outputs
/// None.
///
/// # Parameters
/// `space`: the store and the measure. `pivots`: the index by whose pivots they were made, if they come from
/// `sketch_apexes`. `out`: the file to write.
pub static WRITE_SKETCH: OperatorSpec = OperatorSpec {
    parameters: &[
        SPACE,
        Parameter { default: Default::Absent, ..PIVOTS },
        Parameter::new(
            "out",
            ParameterType::Path,
            Default::Required,
            "the file to write, by custom `NAME.sketch.arrow`",
        ),
    ],
    inputs: &[SKETCHES, BASIS],
    example: "file: {kind: write_sketch, space: space, out: photos.sketch.arrow}",
    ..OperatorSpec::new("write_sketch", "Writes the sketches of a store to a file.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let (space, out) = (resources::space(bind)?, bind.path("out"));
    let pivots = bind.get_resource::<PivotTable>("pivots")?;
    if let Some(table) = pivots.as_ref().filter(|table| table.space().number() != space.number()) {
        return Err(BoxError::new(format!(
            "the index `{}` is of another space than the sketch: name one space for both",
            table.path().display()
        )));
    }
    Ok(Box::new(WriteSketch { space, pivots, out, writer: None }))
}

struct WriteSketch {
    space: Arc<dyn Space>,
    pivots: Option<Arc<PivotTable>>,
    out: PathBuf,
    // Removes its file when dropped.
    writer: Option<SketchWriter>,
}

impl Operator for WriteSketch {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.writer.is_none() {
            let maker = match &self.pivots {
                None => maker(cx, &self.space)?,
                Some(_) if !cx.side(BASIS).is_empty() => {
                    return Err(BoxError::new(
                        "the sketch has a basis and pivots: connect `basis`, or give `pivots`, and not both",
                    ));
                }
                Some(table) => cx.detached("disk", || SketchMaker::of_table(table))??,
            };
            let (out, maker) = (&self.out, Arc::new(maker));
            self.writer = Some(cx.detached("disk", || SketchWriter::create(out, maker))??);
        }
        let ids_count = self.space.store().ids_count();
        while let Some(envelope) = cx.take(SKETCHES) {
            let Some(writer) = &mut self.writer else { unreachable!("it was made above") };
            cx.detached("disk", || take(writer, &*self.space, &envelope))??;
            let written = writer.len();
            cx.progress(written.min(ids_count), ids_count);
        }
        if !cx.is_ended(SKETCHES) {
            return Ok(Flow::Wait);
        }
        if let Some(writer) = self.writer.take().filter(|_| !cx.is_cancelled()) {
            cx.detached("disk", || writer.finish())??;
            cx.progress(ids_count, ids_count);
        }
        Ok(Flow::Done)
    }
}

/// Writes the sketches of an envelope, which must be those of the next objects.
fn take(writer: &mut SketchWriter, space: &dyn Space, envelope: &Envelope) -> Result<(), BoxError> {
    let ids = envelope.u64s("id")?;
    let (Some(first), Some(last)) = (ids.first(), ids.last()) else { return Ok(()) };
    let store = space.store();
    let due = store.among(writer.len()..last.saturating_add(1).min(store.ids_count()));
    if !due.eq(ids.iter().copied()) {
        return Err(BoxError::new(format!(
            "the sketch of object {first} came out of turn: all objects must come once, one after the other, as \
             `sketch_objects` and `sketch_apexes` give them"
        )));
    }
    let bytes = envelope.column("sketch")?.as_fixed_size_binary().value_data();
    let bits: Vec<u16> = bytes.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect();
    Ok(writer.push(&bits)?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_runtime::parameter::Value;
    use boxwork_stores::sketch::Sketch;
    use boxwork_stores::testing;

    use super::super::{sketch_apexes, sketch_basis, sketch_objects};
    use super::*;

    fn harness(spec: &'static OperatorSpec, space: &Resource, given: &[(&'static str, Value)]) -> Harness {
        let given = given.iter().cloned().chain([("space", Value::Text("s".into()))]);
        Harness::with_resources(spec, given.collect::<Vec<_>>(), [("s", Arc::clone(space))]).unwrap()
    }

    /// The envelopes of the basis, and those of all sketches.
    fn made(space: &Resource) -> (Envelope, Vec<Envelope>) {
        let mut basis = harness(&sketch_basis::SKETCH_BASIS, space, &[("frequencies", Value::Integer(64))]);
        basis.run().unwrap();
        while !basis.is_done() {
            basis.run().unwrap();
        }
        let ranges = basis.taken(columns_of(&sketch_basis::SKETCH_BASIS, "ranges"));
        let found = basis.taken(columns_of(&sketch_basis::SKETCH_BASIS, "basis")).remove(0);
        let mut sketches = harness(&sketch_objects::SKETCH_OBJECTS, space, &[]);
        sketches.give(BASIS, found.clone());
        for ranges in ranges {
            sketches.give(sketch_objects::SKETCH_OBJECTS.inputs[0], ranges);
        }
        sketches.end(sketch_objects::SKETCH_OBJECTS.inputs[0]);
        sketches.run().unwrap();
        let given = sketches.taken(columns_of(&sketch_objects::SKETCH_OBJECTS, "sketches"));
        (found, given)
    }

    fn columns_of(spec: &OperatorSpec, name: &str) -> boxwork_runtime::operator::Out {
        *spec.outputs.iter().find(|output| output.name == name).unwrap()
    }

    #[test]
    fn sketches_of_an_index_are_its_apexes_and_its_pivots_are_written_with_them() {
        let folder = tempfile::tempdir().unwrap();
        let store = testing::store(folder.path(), 5000);
        let space = testing::space(testing::without(&store, [3, 4999].into_iter()));
        let table = testing::pivot_table(&space, &[5, 800, 4000], folder.path());
        let given = [("pivots", Value::Text("t".into()))];
        let resources =
            || [("s", testing::shared_space(&space) as Resource), ("t", table.clone() as Resource)];
        let spec = &sketch_apexes::SKETCH_APEXES;
        let mut apexes = Harness::with_resources(spec, given.clone(), resources()).unwrap();
        while !apexes.is_done() {
            apexes.run().unwrap();
        }
        let sketches = apexes.taken(columns_of(spec, "sketches"));
        assert_eq!(sketches.iter().map(Envelope::rows).collect::<Vec<_>>(), [4095, 903]);
        let out = folder.path().join("s.sketch.arrow");
        let all = [
            ("pivots", Value::Text("t".into())),
            ("space", Value::Text("s".into())),
            ("out", Value::Text(out.to_str().unwrap().to_owned())),
        ];
        let mut file = Harness::with_resources(&WRITE_SKETCH, all.clone(), resources()).unwrap();
        sketches.iter().for_each(|sketches| file.give(SKETCHES, sketches.clone()));
        file.end(SKETCHES);
        file.run().unwrap();
        let sketch = Sketch::open(&out, &testing::any_space(&space)).unwrap();
        assert_eq!(
            (sketch.len(), sketch.at(3), sketch.maker().pivots()),
            (5000, [0; 64], &[5, 800, 4000][..])
        );
        let other = testing::shared_space(&testing::space(store));
        let resources = [("s", other as Resource), ("t", table.clone() as Resource)];
        let refused = Harness::with_resources(&WRITE_SKETCH, all, resources).err().unwrap().to_string();
        assert!(refused.contains("is of another space"), "{refused}");
        // A basis and pivots contradict each other, and one of them is needed.
        let (basis, _) = made(&(testing::shared_space(&space) as Resource));
        let mut both = Harness::with_resources(
            &WRITE_SKETCH,
            [
                ("pivots", Value::Text("t".into())),
                ("space", Value::Text("s".into())),
                ("out", Value::Text(folder.path().join("x").to_str().unwrap().to_owned())),
            ],
            [("s", testing::shared_space(&space) as Resource), ("t", table as Resource)],
        )
        .unwrap();
        both.give(BASIS, basis);
        assert!(both.run().unwrap_err().to_string().contains("not both"));
    }

    #[test]
    fn what_is_written_can_be_opened_and_nothing_is_left_when_rows_are_missing() {
        let folder = tempfile::tempdir().unwrap();
        let store = testing::store(folder.path(), 5000);
        let space = testing::space(testing::without(&store, [3, 4999].into_iter()));
        let (shared, out) = (testing::shared_space(&space), folder.path().join("s.sketch.arrow"));
        let shared: Resource = shared;
        let (basis, sketches) = made(&shared);
        assert_eq!(sketches.iter().map(Envelope::rows).collect::<Vec<_>>(), [4095, 903]);
        let left = || fs::read_dir(folder.path()).unwrap().count();
        let before = left();
        let given = [("out", Value::Text(out.to_str().unwrap().to_owned()))];
        let write = |sketches: &[Envelope]| {
            let mut harness = harness(&WRITE_SKETCH, &shared, &given);
            harness.give(BASIS, basis.clone());
            sketches.iter().for_each(|sketches| harness.give(SKETCHES, sketches.clone()));
            harness.end(SKETCHES);
            harness.run().map_err(|error| error.to_string())
        };
        assert!(write(&sketches[..1]).unwrap_err().contains("sketches of 4095 of 4998 objects"));
        assert!(write(&sketches[1..]).unwrap_err().contains("out of turn"));
        assert_eq!(left(), before);
        write(&sketches).unwrap();
        let sketch = Sketch::open(&out, &testing::any_space(&space)).unwrap();
        assert_eq!((sketch.len(), sketch.at(3)), (5000, [0; 64]));
        assert!(sketch.norm_max() > 0.1);
    }
}
