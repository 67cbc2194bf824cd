//! `edit_distances`: the edit distances of all texts of a store from many queries, many pairs at once. `alignments` goes over texts
//! by the same operator.
//!
//! Invariants: distances are exact; with `k`, rows that are dropped cannot be among the k nearest by (distance, id).

mod long;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_array::ArrayRef;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::space::{PreparedMany, Space, SpaceError};
use boxwork_stores::spaces::{DistanceOptions, EditConstants};

use crate::columns::{self, distances_envelope};
use crate::resources::{self, SPACE, check_range, get_range, range_parameter};

/// Rows of an envelope at most.
const ENVELOPE_ROWS: usize = 4096;
/// Texts that a slot compares with all queries before it takes others: as many as texts compares at once.
const PIECE_ROWS: u64 = 1024;
/// Queries that a slot compares with these texts at a time: their distances take half a megabyte.
const QUERIES_TOGETHER: usize = 64;
/// Pieces of a firing, for each slot.
const PIECES_PER_SLOT: usize = 4;
/// Distances of which the smallest is compared with the limit first.
const GLANCE: usize = 64;

pub(super) const QUERIES: In = In::side(0, "queries", columns::queries, "the queries");
pub(super) const DISTANCES: Out =
    Out::new(0, "distances", columns::distances, "the texts and their distances");

/// Computes the edit distances of texts from many queries.
///
/// Slots share the table of a query and a text of more than 20,000 letters, both of them, in tiles.
///
/// # Inputs
/// `queries` (side): the queries.
///
/// # Outputs
/// `distances`: for each query the texts and their distances: those within `range`, or all; with `k`, at least the k nearest.
///
/// # Parameters
/// `space`: texts, and the distance levenshtein, or edit with its costs. `k`: the parameter of the `top_k` behind this box; texts that it cannot keep
/// are dropped. `range`: only texts at most this far away.
pub(crate) static EDIT_DISTANCES: OperatorSpec = OperatorSpec {
    parameters: &[
        SPACE,
        Parameter::new(
            "k",
            ParameterType::integer_from(1),
            Default::Absent,
            "`k` of the `top_k` behind this box: texts that cannot be in its answer may be dropped",
        )
        .unit("objects"),
        range_parameter(Default::Absent, "exclude texts farther than this"),
    ],
    inputs: &[QUERIES],
    outputs: &[DISTANCES],
    check: Some(|arguments, resources| {
        resources::distance_of(arguments, resources).map_or(Ok(()), |distance| refuse_others(&distance))?;
        check_range(arguments, resources)
    }),
    example: "distance: {kind: edit_distances, space: space, k: 10}",
    ..OperatorSpec::new(
        "edit_distances",
        "Computes edit distances of all texts from many queries at once.",
        Kind::Stateful,
        make,
    )
};

fn refuse_others(distance: &str) -> Result<(), String> {
    match DistanceOptions::parse(distance).map(|options| (options.distance, options.root)) {
        Some((name, false)) if ["levenshtein", "edit"].contains(&name.as_str()) => Ok(()),
        _ => Err(format!(
            "edit distances are by levenshtein or edit, not by {distance}: write `distance: levenshtein` in the space, or compute \
             its distances by `scan` and `distance`"
        )),
    }
}

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let space = resources::space(bind)?;
    let measure = space.measure();
    refuse_others(&measure).map_err(BoxError::new)?;
    let costs = DistanceOptions::parse(&measure).map(|options| options.costs).unwrap_or_default();
    let range = get_range(bind, &*space)?.unwrap_or(f64::INFINITY);
    let k = bind.get_integer("k").and_then(|k| usize::try_from(k).ok());
    over(bind, space, (k, range), dear_replacements(&costs))
}

/// A note on costs by which a letter is never replaced: a deletion and an insertion cost less.
pub(super) fn dear_replacements(costs: &EditConstants) -> Option<String> {
    let [insert, delete, replace] = [costs.insert, costs.delete, costs.replace].map(|cost| cost.unwrap_or(1));
    let both = insert + delete;
    (replace > both).then(|| {
        format!("`replace` costs {replace}, more than `insert` and `delete` together, so it counts as {both}")
    })
}

/// The operator over the texts of a space, which computes from a query to a text.
pub(super) fn over(
    bind: &Bind<'_>,
    space: Arc<dyn Space>,
    (k, range): (Option<usize>, f64),
    note: Option<String>,
) -> Result<Box<dyn Operator>, BoxError> {
    let pieces = PIECES_PER_SLOT * bind.slots();
    Ok(Box::new(EditDistances {
        space,
        k,
        range,
        note,
        pieces,
        queries: None,
        batch: 0,
        next: 0,
        rows: Vec::new(),
        sent: 0,
    }))
}

struct EditDistances {
    space: Arc<dyn Space>,
    k: Option<usize>,
    range: f64,
    /// A note for the run.
    note: Option<String>,
    /// Pieces of a firing.
    pieces: usize,
    /// Set by the first firing.
    queries: Option<Asked>,
    /// The batch that is compared next, and the first id in it that is not compared yet.
    batch: usize,
    next: u64,
    /// Rows that are found, of which the first `sent` have left.
    rows: Vec<(u32, u64, f64)>,
    sent: usize,
}

/// The queries, and their texts found so far.
struct Asked {
    numbers: Vec<u32>,
    prepared: Arc<dyn PreparedMany>,
    /// By query: the k smallest distances so far, in order.
    nearest: Vec<Vec<f64>>,
    /// Queries that are compared with a block at once, and those with distances that slots share.
    together: Vec<Range<usize>>,
    long: Vec<usize>,
}

/// Consecutive ids of one batch, the rows found there, and queries and ids whose distances slots share afterwards.
struct Piece {
    ids: Range<u64>,
    rows: Vec<(u32, u64, f64)>,
    long: Vec<(usize, u64)>,
}

impl Operator for EditDistances {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if let Some(note) = self.note.take() {
            cx.note(note);
        }
        if self.queries.is_none() {
            self.queries = Some(self.asked(cx)?);
        }
        loop {
            while self.sent < self.rows.len() {
                if !cx.has_room(DISTANCES) {
                    return Ok(Flow::Wait);
                }
                let upto = self.rows.len().min(self.sent + ENVELOPE_ROWS);
                let envelope = distances_envelope(&self.rows[self.sent..upto])?;
                self.sent = upto;
                if cx.push(DISTANCES, envelope)? == Pushed::Closed {
                    return Ok(Flow::Done);
                }
            }
            (self.sent, self.rows) = (0, Vec::new());
            if cx.is_cancelled() || !self.compare(cx)? {
                return Ok(Flow::Done);
            }
            cx.progress(self.next, self.space.store().ids_count());
        }
    }
}

impl EditDistances {
    fn asked(&self, cx: &Context<'_>) -> Result<Asked, BoxError> {
        let mut objects: Vec<(u32, (ArrayRef, usize))> = Vec::new();
        for envelope in cx.side(QUERIES) {
            let column = envelope.column("object")?;
            let numbers = envelope.u32s("query")?.iter().enumerate();
            objects.extend(numbers.map(|(row, number)| (*number, (Arc::clone(column), row))));
        }
        objects.sort_by_key(|object| object.0);
        let (numbers, objects): (Vec<u32>, Vec<_>) = objects.into_iter().unzip();
        let prepared = Arc::clone(&self.space).prepare_many(&objects, &|| cx.is_cancelled());
        let prepared =
            prepared.map_err(|(query, error)| BoxError::new(format!("query {}: {error}", numbers[query])))?;
        let nearest = vec![Vec::new(); numbers.len()];
        let (long, short): (Vec<usize>, Vec<usize>) =
            (0..numbers.len()).partition(|query| prepared.has_long(*query));
        let together = short.chunk_by(|a, b| a + 1 == *b).flat_map(|run| run.chunks(QUERIES_TOGETHER));
        let together = together.map(|run| run[0]..run[0] + run.len()).collect();
        Ok(Asked { numbers, prepared, nearest, together, long })
    }

    /// The next pieces of the store; none at its end.
    fn pieces(&mut self) -> Vec<Piece> {
        let store = self.space.store();
        let mut pieces = Vec::new();
        while pieces.len() < self.pieces && self.batch < store.batches() {
            let of_batch = store.batch_ids(self.batch);
            let first = self.next.max(of_batch.start);
            let upto = of_batch.end.min(first + PIECE_ROWS);
            self.next = upto;
            if upto == of_batch.end {
                self.batch += 1;
            }
            if store.count(first..upto) > 0 {
                pieces.push(Piece { ids: first..upto, rows: Vec::new(), long: Vec::new() });
            }
        }
        pieces
    }

    /// Compares the next texts with all queries; false at the end of the store.
    fn compare(&mut self, cx: &mut Context<'_>) -> Result<bool, BoxError> {
        let mut pieces = self.pieces();
        let Some(asked) = self.queries.as_mut().filter(|asked| !asked.numbers.is_empty()) else {
            return Ok(false);
        };
        if pieces.is_empty() {
            return Ok(false);
        }
        let firsts: Vec<u64> = pieces.iter().map(|piece| piece.ids.start).collect();
        resources::bring_in(cx, &**self.space.store(), &firsts)?;
        let (search, failed) =
            (Search { space: &*self.space, asked, k: self.k, range: self.range }, OnceLock::new());
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut pieces, 1, |_, pieces| {
                for piece in pieces {
                    if let Err(error) = search.find(piece, &cancelled) {
                        // The first error is reported.
                        drop(failed.set(error));
                    }
                }
            });
        });
        if let Some(error) = failed.into_inner() {
            return Err(error.into());
        }
        search.find_long(cx, &mut pieces)?;
        self.space.store().confirm()?;
        for piece in pieces {
            if let Some(k) = self.k {
                asked.learn(&piece.rows, k);
            }
            self.rows.extend(piece.rows);
        }
        Ok(true)
    }
}

impl Asked {
    /// Keeps the k smallest distances of each query.
    fn learn(&mut self, rows: &[(u32, u64, f64)], k: usize) {
        for (query, _, distance) in rows {
            let Ok(query) = self.numbers.binary_search(query) else { continue };
            let nearest = &mut self.nearest[query];
            let place = nearest.partition_point(|near| near <= distance);
            if place < k {
                nearest.insert(place, *distance);
                nearest.truncate(k);
            }
        }
    }
}

/// The search of one firing, which slots share.
struct Search<'a> {
    space: &'a dyn Space,
    asked: &'a Asked,
    k: Option<usize>,
    range: f64,
}

impl Search<'_> {
    /// Finds the rows of a piece.
    fn find(&self, piece: &mut Piece, cancelled: &dyn Fn() -> bool) -> Result<(), SpaceError> {
        let count = (piece.ids.end - piece.ids.start) as usize;
        let numbers = &self.asked.numbers;
        let mut found = vec![0.0; count * numbers.len().min(QUERIES_TOGETHER)];
        for queries in &self.asked.together {
            let found = &mut found[..count * queries.len()];
            self.asked.prepared.fast_until(queries.clone(), piece.ids.clone(), found, cancelled)?;
            for (query, found) in queries.clone().zip(found.chunks_exact(count)) {
                self.select(query, piece.ids.start, found, &mut piece.rows);
            }
        }
        for query in &self.asked.long {
            for id in piece.ids.clone().filter(|id| self.space.store().has(*id)) {
                if self.asked.prepared.is_long(*query, id)? {
                    piece.long.push((*query, id));
                    continue;
                }
                let mut found = [0.0];
                self.asked.prepared.fast_until(*query..query + 1, id..id + 1, &mut found, cancelled)?;
                self.select(*query, id, &found, &mut piece.rows);
            }
        }
        Ok(())
    }

    /// Adds the texts that may be in the answer of a query.
    fn select(&self, query: usize, first: u64, found: &[f64], rows: &mut Vec<(u32, u64, f64)>) {
        let store = self.space.store();
        // Texts at the distance of the k-th so far have larger ids than that, so they are not among the k nearest.
        let kth = self.k.and_then(|k| self.asked.nearest[query].get(k - 1)).map_or(f64::INFINITY, |kth| *kth);
        let (number, begun) = (self.asked.numbers[query], rows.len());
        for (glance, place) in found.chunks(GLANCE).zip((first..).step_by(GLANCE)) {
            let least = glance.iter().fold(f64::INFINITY, |least, distance| least.min(*distance));
            if least >= kth || least > self.range {
                continue;
            }
            for (distance, id) in glance.iter().zip(place..) {
                if *distance < kth && *distance <= self.range && store.has(id) {
                    rows.push((number, id, *distance));
                }
            }
        }
        let Some(k) = self.k.filter(|k| rows.len() - begun > *k) else { return };
        let of_query = &mut rows[begun..];
        of_query.select_nth_unstable_by(k - 1, |a, b| a.2.total_cmp(&b.2).then(a.1.cmp(&b.1)));
        rows.truncate(begun + k);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use arrow_array::{StringArray, UInt32Array};
    use boxwork_kernels::distance::{Distance, Levenshtein};
    use boxwork_runtime::envelope::Envelope;
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_runtime::parameter::Value;
    use boxwork_stores::any_kind::named;
    use boxwork_stores::object_column;
    use boxwork_stores::space::SharedSpace;
    use boxwork_stores::spaces::open;
    use boxwork_stores::testing;

    use super::*;

    fn words(count: u64) -> Vec<String> {
        let letters = |i: u64| {
            (0..i % 13).map(move |j| ['a', 'b', 'c', '\u{e9}'][((i * 31 + j * 17) % 7 % 4) as usize])
        };
        (0..count).map(|i| letters(i).collect()).collect()
    }

    fn space(texts: &[String], distance: &str) -> Resource {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("texts.jsonl");
        let lines = texts.iter().map(|text| format!("{{\"object\": \"{text}\"}}\n"));
        fs::write(&path, lines.collect::<String>()).unwrap();
        let store = object_column::open(&path, None, "name", Some(named("texts").unwrap())).unwrap();
        Arc::new(SharedSpace(open(&DistanceOptions::named(distance), store).unwrap()))
    }

    fn side(queries: &[&str]) -> Envelope {
        let objects: ArrayRef = Arc::new(StringArray::from(queries.to_vec()));
        let numbers: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..queries.len() as u32));
        Envelope::from_columns([("query", numbers), ("name", Arc::clone(&objects)), ("object", objects)])
            .unwrap()
    }

    /// Compares the answers with those of the definition; with `k`, those that a `top_k` makes of the rows.
    fn check(texts: &[String], queries: &[&str], k: Option<usize>, range: Option<f64>) {
        check_by(&|a, b| Levenshtein.reference(a, b), texts, queries, k, range);
    }

    /// Compares the answers with those of a definition.
    pub(super) fn check_by(
        definition: &dyn Fn(&[char], &[char]) -> f64,
        texts: &[String],
        queries: &[&str],
        k: Option<usize>,
        range: Option<f64>,
    ) {
        let mut given = vec![("space", Value::Text("s".into()))];
        given.extend(k.map(|k| ("k", Value::Integer(k as i64))));
        given.extend(range.map(|range| ("range", Value::Number(range))));
        let resource = space(texts, "levenshtein");
        let mut harness = Harness::with_resources(&EDIT_DISTANCES, given, [("s", resource)]).unwrap();
        harness.room(2);
        harness.give(QUERIES, side(queries));
        let mut found = Vec::new();
        while !harness.is_done() {
            harness.run().unwrap();
            found.extend(testing::distance_rows(&harness.taken(DISTANCES)));
        }
        let nearest = |mut rows: Vec<(u32, u64, f64)>| {
            rows.sort_by(|a, b| a.0.cmp(&b.0).then(a.2.total_cmp(&b.2)).then(a.1.cmp(&b.1)));
            let of_queries = rows.chunk_by(|a, b| a.0 == b.0);
            of_queries
                .flat_map(|rows| rows[..k.unwrap_or(usize::MAX).min(rows.len())].to_vec())
                .collect::<Vec<_>>()
        };
        if let Some(k) = k.filter(|_| texts.len() > 3000) {
            assert!(found.len() < queries.len() * (k + 8) * 8, "{} rows of few are dropped", found.len());
        }
        let letters = |text: &str| text.chars().collect::<Vec<char>>();
        let mut expected = Vec::new();
        for (query, number) in queries.iter().zip(0..) {
            for (text, id) in texts.iter().zip(0..) {
                let distance = definition(&letters(query), &letters(text));
                if distance <= range.unwrap_or(f64::INFINITY) {
                    expected.push((number, id, distance));
                }
            }
        }
        assert_eq!(nearest(found), nearest(expected));
    }

    #[test]
    fn rows_hold_the_answers_of_the_definition() {
        let texts = words(5000);
        let queries = ["abcabc", "", "\u{e9}\u{e9}b", "zzzzzzzzzzzzzzzzzzzzzz"];
        check(&texts, &queries, None, None);
        check(&texts, &queries, Some(7), None);
        check(&texts, &queries, Some(2000), None);
        check(&texts, &queries, None, Some(3.0));
        check(&texts, &queries, Some(3), Some(2.0));
        check(&texts[..3], &queries, Some(10), None);
        check(&texts[..3], &[], Some(10), None);
        // More queries than are compared together.
        let many: Vec<&str> = texts[20..150].iter().map(String::as_str).collect();
        check(&texts[..1500], &many, Some(2), None);
    }

    #[test]
    fn another_distance_is_refused_with_a_way_out() {
        assert!(refuse_others("jaccard").unwrap_err().contains("distance: levenshtein"));
        let mut harness = {
            let given = [("space", Value::Text("s".into()))];
            Harness::with_resources(&EDIT_DISTANCES, given, [("s", space(&words(9), "levenshtein"))]).unwrap()
        };
        // A query that is no text.
        harness.give(QUERIES, testing::queries(&[("q0", 1)]));
        let error = harness.run().unwrap_err().to_string();
        assert!(error.contains("query 0"), "{error}");
    }
}
