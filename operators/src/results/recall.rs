//! `recall`: the share of the true neighbours that a search found.

use std::any::Any;
use std::path::Path;
use std::sync::Arc;

use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec, Part};
use boxwork_stores::store::Store;
use boxwork_stores::vector_file::VectorFile;
use serde_json::{Value, json};

use crate::columns;
use crate::resources;
use crate::results::looked::Looked;
use crate::results::rows::RowSink;
use crate::results::sink::{Answer, Collected, INPUTS, OrderedWriter, PARAMETERS, QUERY, RESULTS, TRUTH};

/// Ranks up to which the true nearest object is looked for.
const RANKS: [usize; 3] = [1, 10, 100];

/// Writes the recall of a search against a file of true neighbours.
///
/// `R@r` is the share of the queries whose true nearest object is among the first r found; `k@k` is the share of the true k
/// nearest among the k found (Johnson, Douze, Jegou 2017, section 6.4). Neighbours are compared by id: of objects at one
/// distance, only the one that the file names counts.
///
/// # Inputs
/// `results`: distances. `query` (side): the queries, which are rows of a file: row i of the truth is for row i.
///
/// # Outputs
/// None. A request's caller may take the results as rows (`Submission::outputs`); nothing is written then.
///
/// # Parameters
/// `truth`: ids of the true neighbours, nearest first, a row for each query. `k`: the neighbours that count; all of the truth
/// without it, and never more than a row of it has. `out`: the file to write, or `-` for standard output. `probes`, `refine`,
/// `lists`, `candidates`, `expansion`: what an approximate search looked at. `store`, `space`, `range`: of no effect here; with them the
/// format may be a parameter.
pub static RECALL: OperatorSpec = OperatorSpec {
    parameters: PARAMETERS,
    inputs: INPUTS,
    gives: Some(columns::answers),
    example: "results: {kind: recall, store: vectors, truth: truth.ivecs, k: 10}",
    share: Some(share),
    ..OperatorSpec::new("recall", "Writes how many true neighbours a search found.", Kind::Stateful, make)
};

fn share(bind: &Bind<'_>) -> Result<Arc<dyn Any + Send + Sync>, BoxError> {
    Ok(Arc::new(OrderedWriter::summing(bind.text("out"), |parts| {
        Counts::of_lines(parts).map(|counts| counts.text().into_bytes())
    })))
}

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    if let Some(rows) = RowSink::make(bind)? {
        return Ok(rows);
    }
    let path = bind.get_text(TRUTH.name).ok_or_else(|| {
        BoxError::new("recall is counted against true neighbours: give `truth`, a file such as truth.ivecs")
    })?;
    let looked = Looked::of(bind)?;
    Ok(Box::new(Recall {
        path: path.to_owned(),
        truth: VectorFile::open(Path::new(path), None)?,
        k: bind.get_integer("k").map_or(usize::MAX, |k| k as usize),
        store: resources::store(bind)?,
        writer: bind.shared(),
        part: bind.part,
        counts: Counts::new(looked.map(Looked::in_words)),
        collected: Collected::default(),
    }))
}

struct Recall {
    path: String,
    truth: VectorFile,
    k: usize,
    store: Arc<dyn Store>,
    writer: Arc<OrderedWriter>,
    part: Part,
    counts: Counts,
    collected: Collected,
}

impl Operator for Recall {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take(RESULTS) {
            self.collected.add(&envelope)?;
        }
        if !cx.is_ended(RESULTS) {
            return Ok(Flow::Wait);
        }
        let (collected, queries) = (std::mem::take(&mut self.collected), cx.side(QUERY).to_vec());
        cx.detached("disk", || {
            for answer in collected.answers(&queries, &*self.store)? {
                let wanted = self.wanted(&answer)?;
                let found: Vec<u64> = answer.hits.iter().map(|hit| hit.id).collect();
                self.counts.add(&wanted, &found);
            }
            self.writer.write(self.part, self.counts.line().into_bytes())
        })??;
        Ok(Flow::Done)
    }
}

impl Recall {
    /// The true neighbours of a query that count, nearest first.
    fn wanted(&mut self, answer: &Answer) -> Result<Vec<u64>, BoxError> {
        let rows = self.truth.len();
        let row = answer.query.parse().ok().filter(|row| *row < rows).ok_or_else(|| {
            BoxError::new(format!(
                "query `{}` is no row of `{}`, whose rows are 0 to {}: recall is for queries that are rows of a file",
                answer.query,
                self.path,
                rows - 1
            ))
        })?;
        let mut wanted = self.truth.ids(row)?;
        wanted.truncate(self.k);
        Ok(wanted)
    }
}

/// Counts of true neighbours, of one request or of all.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Counts {
    /// Queries that have a true neighbour.
    queries: u64,
    /// The most true neighbours of a query that count, and the most objects found.
    k: u64,
    depth: u64,
    /// True neighbours, and those of them that were found.
    wanted: u64,
    found: u64,
    /// Queries whose true nearest object is among so many found.
    nearest: [u64; RANKS.len()],
    /// What an approximate search looked at.
    looked: Option<String>,
}

impl Counts {
    fn new(looked: Option<String>) -> Self {
        Self { queries: 0, k: 0, depth: 0, wanted: 0, found: 0, nearest: [0; RANKS.len()], looked }
    }

    /// Counts the answer to one query.
    fn add(&mut self, wanted: &[u64], found: &[u64]) {
        let Some(nearest) = wanted.first() else { return };
        self.queries += 1;
        self.k = self.k.max(wanted.len() as u64);
        self.depth = self.depth.max(found.len() as u64);
        let mut sorted = found[..found.len().min(wanted.len())].to_vec();
        sorted.sort_unstable();
        self.wanted += wanted.len() as u64;
        self.found += wanted.iter().filter(|id| sorted.binary_search(id).is_ok()).count() as u64;
        let rank = found.iter().position(|id| id == nearest);
        for (count, within) in self.nearest.iter_mut().zip(RANKS) {
            *count += u64::from(rank.is_some_and(|rank| rank < within));
        }
    }

    /// These counts as one line of JSON.
    fn line(&self) -> String {
        let Self { queries, k, depth, wanted, found, nearest, looked } = self;
        format!("{}\n", json!([queries, k, depth, wanted, found, nearest, looked]))
    }

    /// The sum of the counts in some lines.
    fn of_lines(lines: &[u8]) -> Result<Self, BoxError> {
        let mut all = Self::new(None);
        for line in serde_json::Deserializer::from_slice(lines).into_iter::<Value>() {
            let line = line?;
            let number = |value: &Value| value.as_u64().unwrap_or(0);
            all.queries += number(&line[0]);
            all.k = all.k.max(number(&line[1]));
            all.depth = all.depth.max(number(&line[2]));
            all.wanted += number(&line[3]);
            all.found += number(&line[4]);
            all.nearest.iter_mut().enumerate().for_each(|(at, count)| *count += number(&line[5][at]));
            all.looked = line[6].as_str().map(str::to_owned);
        }
        Ok(all)
    }

    fn text(&self) -> String {
        let Self { queries, k, depth, wanted, found, nearest, looked } = self;
        let how = looked.as_deref().map_or_else(String::new, |looked| format!("approximate: {looked}\n"));
        if *queries == 0 {
            return format!("{how}no query has a true neighbour: there is no recall\n");
        }
        let share = |count: u64, of: u64| count as f64 / of as f64;
        let mut lines = vec![format!("{queries} queries, {k} true neighbours each\n"), how];
        let shown = RANKS.into_iter().zip(nearest).filter(|(rank, _)| *rank == 1 || *rank as u64 <= *depth);
        for (rank, count) in shown {
            let name = format!("R@{rank}");
            let share = share(*count, *queries);
            lines.push(format!(
                "{name:<10} {share:.6}  queries whose true nearest is among the first {rank} found\n"
            ));
        }
        let (name, share) = (format!("{k}@{k}"), share(*found, *wanted));
        lines.push(format!("{name:<10} {share:.6}  true {k} nearest that are among the first {k} found\n"));
        lines.concat()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_runtime::parameter::Value as Given;
    use boxwork_stores::testing;

    use super::*;

    #[test]
    fn counts_add_up_whatever_the_parts() {
        let answers: [(&[u64], &[u64]); 5] = [
            (&[7, 8, 9], &[7, 9, 1]),
            (&[1, 2, 3], &[2, 3, 1, 4]),
            (&[1, 2, 3], &[]),
            (&[], &[5]),
            (&[4], &[5, 4]),
        ];
        let mut whole = Counts::new(None);
        let mut lines = String::new();
        for part in answers.chunks(2) {
            let mut counts = Counts::new(None);
            for (wanted, found) in part {
                counts.add(wanted, found);
                whole.add(wanted, found);
            }
            lines.push_str(&counts.line());
        }
        // By hand: 2 + 3 + 0 + 0 of 3 + 3 + 3 + 1; the nearest comes first once, third once, and second once.
        assert_eq!((whole.queries, whole.wanted, whole.found, whole.k, whole.depth), (4, 10, 5, 3, 4));
        assert_eq!(whole.nearest, [1, 3, 3]);
        assert_eq!(Counts::of_lines(lines.as_bytes()).unwrap(), whole);
        let text = whole.text();
        assert!(text.contains("R@1        0.250000") && text.contains("3@3        0.500000"), "{text}");
        assert!(!text.contains("R@10"), "{text}");
    }

    fn harness(folder: &Path, truth: Option<&str>) -> Result<Harness, String> {
        let store = testing::store(folder, 6);
        let mut given = vec![
            ("store", Given::Text("s".into())),
            ("out", Given::Text(folder.join("recall.txt").to_str().unwrap().to_owned())),
            ("k", Given::Integer(2)),
        ];
        if let Some(name) = truth {
            given.push(("truth", Given::Text(folder.join(name).to_str().unwrap().to_owned())));
        }
        let resource: Resource = testing::shared_store(&store);
        Harness::with_resources(&RECALL, given, [("s", resource)]).map_err(|error| error.to_string())
    }

    #[test]
    fn a_search_is_compared_with_the_rows_that_its_queries_name() {
        let folder = tempfile::tempdir().unwrap();
        let rows = [[3_i32, 1, 0], [4, 2, 5]];
        let truth: Vec<u8> = rows.iter().flatten().flat_map(|id| id.to_le_bytes()).collect();
        fs::write(folder.path().join("truth_2x3.i32"), truth).unwrap();
        let mut sink = harness(folder.path(), Some("truth_2x3.i32")).unwrap();
        sink.give(QUERY, testing::queries(&[("1", 0), ("0", 1)]));
        sink.give(RESULTS, testing::distances(&[(0, 4, 0.5), (0, 5, 1.0), (1, 1, 0.25), (1, 3, 0.5)]));
        sink.end(RESULTS);
        sink.run().unwrap();
        let text = fs::read_to_string(folder.path().join("recall.txt")).unwrap();
        assert!(text.starts_with("2 queries, 2 true neighbours each\n"), "{text}");
        assert!(text.contains("R@1        0.500000") && text.contains("2@2        0.750000"), "{text}");

        let mut sink = harness(folder.path(), Some("truth_2x3.i32")).unwrap();
        sink.give(QUERY, testing::queries(&[("cats/1.png", 0)]));
        sink.end(RESULTS);
        let error = sink.run().unwrap_err().to_string();
        assert!(error.contains("`cats/1.png` is no row of") && error.contains("rows are 0 to 1"), "{error}");
        let missing = harness(folder.path(), None).err().unwrap_or_default();
        assert!(missing.contains("give `truth`"), "{missing}");
    }
}
