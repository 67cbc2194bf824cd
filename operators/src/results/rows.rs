//! Results as rows for a request's caller, in place of the text that a sink writes.
//!
//! Invariant: the rows are those of the text: by query, then by (distance, id).

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray, UInt32Array};
use arrow_schema::Metadata;
use boxwork_runtime::envelope::{Envelope, EnvelopeError};
use boxwork_runtime::operator::{Bind, BoxError, CALLER, Context, Flow, Operator, OutputWriter, Pushed};
use boxwork_stores::store::Store;
use boxwork_stores::store_error::StoreError;

use crate::columns::distances_envelope;
use crate::resources;
use crate::results::looked::Looked;
use crate::results::sink::{Collected, RESULTS, order};

/// The most rows of a batch that is made of smaller envelopes.
const BATCH_ROWS: usize = 4096;
/// From so many rows on an envelope becomes a batch as it is.
const LARGE_ROWS: usize = 2048;
/// Names that a slot gathers at a time.
const NAMES_AT_ONCE: usize = 1024;
/// Batches whose names are gathered before the last has come.
const GATHERED_AT_ONCE: usize = 64;

/// The sink of any format if the request's caller takes the results: rows of [`columns::answers`](crate::columns::answers).
///
/// Few results are one batch. Of many, a query's rows may go on in the next batch.
pub(crate) struct RowSink {
    store: Arc<dyn Store>,
    output: OutputWriter,
    pieces: Vec<Piece>,
    /// Large pieces whose names nobody has gathered yet.
    large: usize,
    looked: Option<Looked>,
}

impl RowSink {
    /// The sink of a box, if the request's caller takes its results.
    pub(crate) fn make(bind: &Bind<'_>) -> Result<Option<Box<dyn Operator>>, BoxError> {
        let Some(output) = bind.take_output()? else { return Ok(None) };
        let store = resources::store(bind)?;
        let looked = Looked::of(bind)?;
        Ok(Some(Box::new(Self { store, output, pieces: Vec::new(), large: 0, looked })))
    }
}

impl Operator for RowSink {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take(RESULTS) {
            let piece = Piece { envelope, names: None };
            self.large += usize::from(piece.is_large());
            self.pieces.push(piece);
        }
        if !cx.is_ended(RESULTS) {
            if self.large >= GATHERED_AT_ONCE {
                // Slots gather these names while the boxes before this one go on.
                let without =
                    self.pieces.iter_mut().filter(|piece| piece.is_large() && piece.names.is_none());
                gather(cx, without.collect(), &*self.store)?;
                self.large = 0;
            }
            return Ok(Flow::Wait);
        }
        let mut pieces = in_order(std::mem::take(&mut self.pieces))?;
        let without = pieces.iter_mut().filter(|piece| piece.names.is_none()).collect();
        gather(cx, without, &*self.store)?;
        let mut made = with_first_ranks(pieces)?;
        cx.inside(|inside| {
            inside.for_each_chunk_of(&mut made, 1, |_, made| made.iter_mut().for_each(Made::make));
        });
        let (store, writer, looked) = (&*self.store, &mut self.output.writer, self.looked);
        cx.detached(CALLER, || {
            for made in made {
                let rows = made.into_rows(store)?;
                let rows = match looked {
                    None => rows,
                    Some(looked) => with_metadata(&rows, looked)?,
                };
                if writer.write(rows)? == Pushed::Closed {
                    break;
                }
            }
            writer.finish()
        })??;
        Ok(Flow::Done)
    }
}

/// Rows of a batch: an envelope of distances, and the names of its objects once they are gathered.
struct Piece {
    envelope: Envelope,
    names: Option<Result<StringArray, StoreError>>,
}

impl Piece {
    fn is_large(&self) -> bool {
        self.envelope.rows() >= LARGE_ROWS
    }

    /// The rows as the caller gets them, of which the first has a rank.
    fn rows(&self, first_rank: u32, names: StringArray) -> Result<RecordBatch, BoxError> {
        let envelope = &self.envelope;
        let mut last = (envelope.u32s("query")?.first().copied().unwrap_or(0), first_rank - 1);
        let ranks = envelope.u32s("query")?.iter().map(|query| {
            last = (*query, if *query == last.0 { last.1 + 1 } else { 1 });
            last.1
        });
        let ranks = UInt32Array::from_iter_values(ranks);
        let column = |name| envelope.column(name).map(Arc::clone);
        let columns: [(&str, ArrayRef); 5] = [
            ("query", column("query")?),
            ("rank", Arc::new(ranks)),
            ("id", column("id")?),
            ("name", Arc::new(names)),
            ("distance", column("distance")?),
        ];
        Ok(RecordBatch::try_from_iter(columns)?)
    }
}

/// A piece, the rank of its first row, and its rows once they are made.
struct Made {
    piece: Piece,
    first_rank: u32,
    rows: Option<Result<RecordBatch, BoxError>>,
}

impl Made {
    /// Makes the rows, if names were gathered.
    fn make(&mut self) {
        if let Some(names) = self.piece.names.take() {
            self.rows =
                Some(names.map_err(BoxError::from).and_then(|names| self.piece.rows(self.first_rank, names)));
        }
    }

    /// The rows; names that no slot has gathered are read.
    fn into_rows(self, store: &dyn Store) -> Result<RecordBatch, BoxError> {
        let read = || self.piece.rows(self.first_rank, names_of(self.piece.envelope.u64s("id")?, store)?);
        self.rows.unwrap_or_else(read)
    }
}

/// Pieces with the ranks of their first rows: a query's rows may go on from the piece before.
fn with_first_ranks(pieces: Vec<Piece>) -> Result<Vec<Made>, EnvelopeError> {
    // The last query so far, and its rows.
    let mut last: Option<(u32, u32)> = None;
    let mut made = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let queries = piece.envelope.u32s("query")?;
        let before = last.filter(|(query, _)| queries.first() == Some(query)).map_or(0, |(_, rows)| rows);
        if let Some(query) = queries.last() {
            let run = queries.iter().rev().take_while(|other| *other == query).count();
            let goes_on = if run == queries.len() { before } else { 0 };
            last = Some((*query, goes_on + run as u32));
        }
        made.push(Made { piece, first_rank: before + 1, rows: None });
    }
    Ok(made)
}

/// Gathers the names of pieces, of those that the store has in memory, side by side: they lie all over the store, and a slot waits
/// for memory at each of them.
fn gather(cx: &mut Context<'_>, mut pieces: Vec<&mut Piece>, store: &dyn Store) -> Result<(), EnvelopeError> {
    let mut of_pieces = Vec::with_capacity(pieces.len());
    for piece in &pieces {
        let ids = piece.envelope.u64s("id")?.chunks(NAMES_AT_ONCE);
        of_pieces.push(ids.map(|ids| (ids, None)).collect::<Vec<_>>());
    }
    let mut parts: Vec<_> = of_pieces.iter_mut().flatten().collect();
    cx.inside(|inside| {
        let cancelled = inside.cancelled();
        inside.for_each_chunk_of(&mut parts, 1, |_, parts| {
            for (ids, names) in parts.iter_mut().filter(|part| !cancelled() && store.is_in(part.0)) {
                *names = Some(names_of(ids, store));
            }
        });
    });
    let names: Vec<_> =
        of_pieces.into_iter().map(|parts| joined(parts.into_iter().map(|(_, names)| names))).collect();
    pieces.iter_mut().zip(names).for_each(|(piece, names)| piece.names = names);
    Ok(())
}

/// The names of all parts of a piece; nothing if those of a part were not gathered.
fn joined(
    parts: impl Iterator<Item = Option<Result<StringArray, StoreError>>>,
) -> Option<Result<StringArray, StoreError>> {
    let parts: Result<Vec<StringArray>, StoreError> = parts.collect::<Option<_>>()?;
    Some(parts.map(|parts| {
        let bytes = parts.iter().map(|names| names.value_data().len()).sum();
        let mut all = StringBuilder::with_capacity(parts.iter().map(Array::len).sum(), bytes);
        parts.iter().for_each(|names| all.append_array(names).expect("names of a piece fit into a column"));
        all.finish()
    }))
}

/// The names of some objects.
fn names_of(ids: &[u64], store: &dyn Store) -> Result<StringArray, StoreError> {
    let mut names = StringBuilder::with_capacity(ids.len(), 8 * ids.len());
    store.names(&mut ids.iter().copied(), &mut |name| names.append_value(name))?;
    Ok(names.finish())
}

/// The rows of an approximate search, whose schema says what was looked at: `boxwork.exact` is false, and so on.
fn with_metadata(rows: &RecordBatch, looked: Looked) -> Result<RecordBatch, BoxError> {
    let schema = rows.schema().as_ref().clone().with_metadata(Metadata::from_iter(looked.metadata()));
    Ok(RecordBatch::try_new(Arc::new(schema), rows.columns().to_vec())?)
}

/// Pieces with all rows in order: at least one, and all but the last large.
fn in_order(pieces: Vec<Piece>) -> Result<Vec<Piece>, BoxError> {
    if are_in_order(&pieces)? {
        return Ok(pieces);
    }
    let mut collected = Collected::default();
    pieces.iter().try_for_each(|piece| collected.add(&piece.envelope))?;
    let rows: Vec<_> =
        collected.sorted().into_iter().map(|(query, distance, id)| (query, id, distance)).collect();
    let piece = |rows: &[_]| Ok(Piece { envelope: distances_envelope(rows)?, names: None });
    match rows.is_empty() {
        true => Ok(vec![piece(&[])?]),
        false => rows.chunks(BATCH_ROWS).map(piece).collect(),
    }
}

/// Whether all pieces but the last are large, and their rows in order.
fn are_in_order(pieces: &[Piece]) -> Result<bool, EnvelopeError> {
    let [all_but_last @ .., _] = pieces else { return Ok(false) };
    if !all_but_last.iter().all(Piece::is_large) {
        return Ok(false);
    }
    let mut last = None;
    for Piece { envelope, .. } in pieces {
        let (queries, ids) = (envelope.u32s("query")?, envelope.u64s("id")?);
        for ((query, id), distance) in queries.iter().zip(ids).zip(envelope.f64s("distance")?) {
            let row = (*query, *distance, *id);
            if last.is_some_and(|last| order(&last, &row).is_gt()) {
                return Ok(false);
            }
            last = Some(row);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
    use boxwork_stores::testing;

    use super::*;

    /// Rows of the first answer.
    const FIRST: usize = 3 * BATCH_ROWS - 7;

    /// Rows of answers of 7 objects each, the first of which has as many as three batches.
    fn rows(count: usize) -> Vec<(u32, u64, f64)> {
        let of_query = |row: usize| row.saturating_sub(FIRST) / 7;
        (0..count).map(|row| (of_query(row) as u32, (row * 5 % 6) as u64, row as f64)).collect()
    }

    fn pieces<'a>(rows: impl IntoIterator<Item = &'a [(u32, u64, f64)]>) -> Vec<Piece> {
        let piece = |rows| Piece { envelope: distances_envelope(rows).unwrap(), names: None };
        rows.into_iter().map(piece).collect()
    }

    #[test]
    fn rows_are_in_order_in_whatever_envelopes_they_come() {
        let folder = tempfile::tempdir().unwrap();
        let store = testing::store(folder.path(), 6);
        for count in [0, 1, BATCH_ROWS, 2 * BATCH_ROWS + 3, 5 * BATCH_ROWS + 3] {
            let rows = rows(count);
            for len in [1000, LARGE_ROWS + 1, BATCH_ROWS] {
                for is_reversed in [false, true] {
                    let mut given = pieces(rows.chunks(len));
                    // Slots gather some of the names.
                    for piece in given.iter_mut().step_by(2) {
                        let parts = piece.envelope.u64s("id").unwrap().chunks(NAMES_AT_ONCE);
                        piece.names = joined(parts.map(|ids| Some(names_of(ids, &*store))));
                    }
                    if is_reversed {
                        given.reverse();
                    }
                    let is_kept = !is_reversed && len >= LARGE_ROWS && count > 0;
                    let gathered = given.iter().filter(|piece| piece.names.is_some()).count();
                    let pieces = in_order(given).unwrap();
                    let kept = pieces.iter().filter(|piece| piece.names.is_some()).count();
                    if is_kept {
                        assert_eq!(kept, gathered, "{count} rows by {len}");
                    }
                    let mut at = 0;
                    for mut made in with_first_ranks(pieces).unwrap() {
                        made.make();
                        let batch = made.into_rows(&*store).unwrap();
                        let (queries, ranks) = (
                            batch["query"].as_primitive::<UInt32Type>(),
                            batch["rank"].as_primitive::<UInt32Type>(),
                        );
                        let (ids, names) =
                            (batch["id"].as_primitive::<UInt64Type>(), batch["name"].as_string::<i32>());
                        let distances = batch["distance"].as_primitive::<Float64Type>();
                        for row in 0..batch.num_rows() {
                            let (query, id, distance) = rows[at];
                            assert_eq!((queries.value(row), ids.value(row)), (query, id));
                            let before = if query == 0 { 0 } else { FIRST + 7 * query as usize };
                            assert_eq!(ranks.value(row), (at - before) as u32 + 1);
                            assert_eq!(distances.value(row), distance);
                            assert_eq!(names.value(row), store.name(id).unwrap());
                            at += 1;
                        }
                    }
                    assert_eq!(at, count);
                }
            }
        }
    }

    #[test]
    fn names_of_which_a_part_is_missing_are_read_later() {
        let folder = tempfile::tempdir().unwrap();
        let store = testing::store(folder.path(), 2);
        let part = |ids: &[u64]| Some(names_of(ids, &*store));
        let all = joined([part(&[1]), part(&[0, 1])].into_iter()).unwrap().unwrap();
        let expected = [1, 0, 1].map(|id| store.name(id).unwrap());
        assert_eq!(all.iter().flatten().collect::<Vec<_>>(), expected);
        assert!(joined([part(&[1]), None].into_iter()).is_none());
        assert_eq!(joined([].into_iter()).unwrap().unwrap().len(), 0);
    }

    #[test]
    fn no_results_are_a_batch_without_rows() {
        let folder = tempfile::tempdir().unwrap();
        let store = testing::store(folder.path(), 1);
        let pieces = with_first_ranks(in_order(Vec::new()).unwrap()).unwrap();
        let [made] = <[Made; 1]>::try_from(pieces).ok().unwrap();
        assert_eq!(made.into_rows(&*store).unwrap().num_rows(), 0);
    }
}
