//! `write_pivots`: writes an index to disk, at the end of `boxwork index`.
//!
//! Invariant: the index appears under its name when all objects have come, or not at all.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use boxwork_runtime::envelope::{ENVELOPE_ROWS_MAX, Envelope};
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use crate::columns;
use crate::resources::{self, SPACE};
use boxwork_stores::pivot_table::PivotTableWriter;
use boxwork_stores::space::Space;

/// Objects that may wait for one that has not come.
const AHEAD_MAX: u64 = ENVELOPE_ROWS_MAX as u64;
/// Distances among the pivots that one closure computes.
const DISTANCES_PER_CHUNK: usize = 16;

const DISTANCES: In =
    In::stream(0, "distances", columns::distances, "distances of the objects from the pivots");
const PIVOTS: In = In::side(1, "pivots", columns::pivots, "the pivots' ids");

/// Writes the distances of all objects to the pivots as an index.
///
/// Computes the pivots' distances among themselves, and each object's apex over the simplex that they span.
///
/// # Inputs
/// `distances`: of the objects from the pivots, in f64 and in the order of the store, as `scan` and `exact_distance`
/// give them. `pivots` (side): the pivots' ids.
///
/// # Outputs
/// None.
///
/// # Parameters
/// `space`: the store and the measure. `out`: the file to write.
pub static WRITE_PIVOTS: OperatorSpec = OperatorSpec {
    parameters: &[
        SPACE,
        Parameter::new(
            "out",
            ParameterType::Path,
            Default::Required,
            "the file to write, by custom `NAME.pivots.arrow`",
        ),
    ],
    inputs: &[DISTANCES, PIVOTS],
    example: "table: {kind: write_pivots, space: space, out: photos.pivots.arrow}",
    check: Some(resources::check_index),
    ..OperatorSpec::new("write_pivots", "Writes the index of a store to a file.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let (space, out) = (resources::index_space(bind)?, bind.path("out"));
    Ok(Box::new(WritePivots { space, out, pivots: 0, writer: None, first: 0, table: Vec::new(), filled: 0 }))
}

struct WritePivots {
    space: Arc<dyn Space>,
    out: PathBuf,
    pivots: usize,
    // Removes its file when dropped.
    writer: Option<PivotTableWriter>,
    /// The first object not written yet.
    first: u64,
    /// The distances of the objects from there on, object by object, and how many have come.
    table: Vec<f64>,
    filled: usize,
}

impl Operator for WritePivots {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.writer.is_none() {
            self.start(cx)?;
            return Ok(Flow::More);
        }
        while let Some(envelope) = cx.take(DISTANCES) {
            cx.detached("disk", || self.take(&envelope))??;
            cx.progress(self.first, self.space.store().ids_count());
        }
        if !cx.is_ended(DISTANCES) {
            return Ok(Flow::Wait);
        }
        if let Some(writer) = self.writer.take() {
            let count = cx.detached("disk", || writer.finish())??;
            cx.progress(count, count);
        }
        Ok(Flow::Done)
    }
}

impl WritePivots {
    /// Computes the distances among the pivots and starts the file.
    fn start(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let mut pivots = Vec::new();
        for envelope in cx.side(PIVOTS) {
            pivots.extend_from_slice(envelope.u64s("id")?);
        }
        if pivots.is_empty() {
            return Err(BoxError::new("the input has no pivots: an index needs at least one"));
        }
        let (space, out, count) = (&self.space, &self.out, pivots.len());
        let store = space.store();
        resources::bring_in(cx, &**store, &pivots)?;
        // The distance is symmetric, so half of the table is enough.
        let places: Vec<(usize, usize)> = (0..count).flat_map(|a| (a..count).map(move |b| (a, b))).collect();
        let pairs: Vec<[u64; 2]> = places.iter().map(|(a, b)| [pivots[*a], pivots[*b]]).collect();
        let (mut distances, failed) = (vec![0.0; pairs.len()], OnceLock::new());
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut distances, DISTANCES_PER_CHUNK, |first, distances| {
                let pairs = &pairs[first..first + distances.len()];
                if let Err(error) = space.between_until(pairs, distances, &cancelled) {
                    // The first error is reported.
                    let _ = failed.set(error);
                }
            });
        });
        if let Some(error) = failed.into_inner() {
            return Err(error.into());
        }
        let mut between = vec![0.0; count * count];
        for ((a, b), distance) in places.into_iter().zip(distances) {
            (between[a * count + b], between[b * count + a]) = (distance, distance);
        }
        let writer =
            cx.detached("disk", || PivotTableWriter::create(out, Arc::clone(space), &pivots, &between))??;
        self.writer = Some(writer);
        self.pivots = count;
        Ok(())
    }

    /// Puts distances in their places, and writes complete objects.
    fn take(&mut self, envelope: &Envelope) -> Result<(), BoxError> {
        let (numbers, ids, distances) =
            (envelope.u32s("query")?, envelope.u64s("id")?, envelope.f64s("distance")?);
        let left = (self.space.store().ids_count() - self.first).min(AHEAD_MAX);
        for ((number, id), distance) in numbers.iter().zip(ids).zip(distances) {
            let row = id.checked_sub(self.first).filter(|row| *row < left);
            let place = row.map(|row| row as usize * self.pivots + *number as usize);
            let is_free = |place: &usize| self.table.get(*place).is_none_or(|known| known.is_nan());
            let Some(place) = place.filter(|place| (*number as usize) < self.pivots && is_free(place)) else {
                return Err(BoxError::new(format!(
                    "the distance of object {id} from pivot {number} came out of turn: all objects must come once, \
                     one after the other, as `scan` gives them"
                )));
            };
            let rows = place / self.pivots + 1;
            while self.table.len() < rows * self.pivots {
                // Removed objects have no distances.
                let id = self.first + (self.table.len() / self.pivots) as u64;
                let (number, count) = match self.space.store().has(id) {
                    true => (f64::NAN, 0),
                    false => (0.0, self.pivots),
                };
                self.table.resize(self.table.len() + self.pivots, number);
                self.filled += count;
            }
            self.table[place] = *distance;
            self.filled += 1;
        }
        if self.filled == self.table.len() {
            if let Some(writer) = &mut self.writer {
                let store = self.space.store();
                let rows = (self.first..).zip(self.table.chunks_exact(self.pivots));
                rows.filter(|(id, _)| store.has(*id))
                    .try_for_each(|(_, distances)| writer.push(distances))?;
            }
            self.first += (self.table.len() / self.pivots) as u64;
            self.table.clear();
            self.filled = 0;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use arrow_array::{ArrayRef, UInt32Array, UInt64Array};
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_runtime::parameter::Value;

    use super::*;
    use boxwork_stores::sqfd_space::SqfdSpace;
    use boxwork_stores::testing;

    fn harness(space: &Arc<SqfdSpace>, pivots: &[u64], out: &Path) -> Harness {
        let resource: Resource = testing::shared_space(space);
        let given =
            [("space", Value::Text("s".into())), ("out", Value::Text(out.to_str().unwrap().to_owned()))];
        let mut harness = Harness::with_resources(&WRITE_PIVOTS, given, [("s", resource)]).unwrap();
        let columns: [(&str, ArrayRef); 2] = [
            ("query", Arc::new(UInt32Array::from_iter_values(0..pivots.len() as u32))),
            ("id", Arc::new(UInt64Array::from(pivots.to_vec()))),
        ];
        harness.give(PIVOTS, Envelope::from_columns(columns).unwrap());
        harness
    }

    #[test]
    fn writes_what_an_index_is() {
        let folder = tempfile::tempdir().unwrap();
        let space = testing::space(testing::store(folder.path(), 300));
        let pivots = [3, 250, 7];
        let (out, expected) = (folder.path().join("a.arrow"), folder.path().join("b.arrow"));
        testing::write_index(&space, &pivots, &expected).unwrap();
        let mut harness = harness(&space, &pivots, &out);
        for first in (0..300u64).step_by(50) {
            let mut rows = Vec::new();
            for (number, pivot) in pivots.iter().enumerate() {
                for id in first..first + 50 {
                    let distance = space.store().read(|objects| space.between(objects, *pivot, id)).unwrap();
                    rows.push((number as u32, id, distance));
                }
            }
            harness.give(DISTANCES, testing::distances(&rows));
        }
        harness.run().unwrap();
        assert!(!out.exists());
        harness.end(DISTANCES);
        harness.run().unwrap();
        assert!(harness.is_done() && harness.progress() == (300, 300));
        assert!(fs::read(&out).unwrap() == fs::read(&expected).unwrap(), "the indexes differ");
    }

    #[test]
    fn leaves_nothing_when_it_does_not_end_well() {
        let folder = tempfile::tempdir().unwrap();
        let space = testing::space(testing::store(folder.path(), 4));
        let out = folder.path().join("i.arrow");
        let left = || fs::read_dir(folder.path()).unwrap().count();
        let before = left();
        for (rows, words) in [
            (vec![(0, 0, 0.1), (0, 1, 0.1)], "2 of 4 objects"),
            (vec![(0, 0, 0.1), (0, 0, 0.1)], "out of turn"),
            (vec![(0, 4, 0.1)], "object 4"),
            (vec![(1, 0, 0.1)], "pivot 1"),
            (vec![(0, 0, f64::NAN), (0, 1, 0.0), (0, 2, 0.0), (0, 3, 0.0)], "NaN is no distance"),
        ] {
            let mut harness = harness(&space, &[2], &out);
            harness.give(DISTANCES, testing::distances(&rows));
            harness.end(DISTANCES);
            let error = harness.run().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
            drop(harness);
            assert_eq!(left(), before);
        }
        let error = harness(&space, &[], &out).run().unwrap_err().to_string();
        assert!(error.contains("no pivots"), "{error}");
    }
}
