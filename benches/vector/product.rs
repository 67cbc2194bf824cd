//! `what=product`, `what=fastscan` and `what=encode`: codes of product quantizers, all of them and those of lists.

use std::fs;

use boxwork_kernels::distance::{squared_l2, squared_l2_on};
use boxwork_kernels::panels::Shortlist;
use boxwork_kernels::product::{Bits, Codebook, Codes, Scanner, pack};
use boxwork_kernels::vector::VectorMeasure;

use super::contest::{Bench, Limit, Other, Work, pieces, shared};
use super::kmeans::{assigned, first};
use super::list;
use super::lists::{ByList, Order, scanned};
use super::support::Arguments;
use super::world::{Answers, World};

/// Rows found, of which the nearest is looked for among the first 1, 10 and all.
const K: usize = 100;
/// Rows of an answer that is ranked by rows.
const REFINED: usize = 10;
/// Candidates for each of them: the fewest that find the nearest row as often as the peer's ten do, within [`RECALL_OFF`].
const FACTORS: [usize; 6] = [2, 3, 4, 5, 7, 10];
/// By how much recalls of both sides may differ.
const RECALL_OFF: f64 = 0.002;
/// Rows that train a codebook.
const TRAINED_MAX: usize = 65_536;
/// Queries that share the reading of codes, and rows whose codes stay in the cache of a core meanwhile.
const QUERIES_AT_ONCE: usize = 32;
const ROWS_AT_ONCE: usize = 1 << 14;
/// Lists of codes.
const LISTS: usize = 1024;

pub(super) fn product(bench: &Bench, arguments: &Arguments) {
    for parts in [16, 32] {
        full(bench, "7", "product", parts, Bits::Eight, 1.3);
    }
    of_lists(bench, arguments, "9", "listsproduct", 16, Bits::Eight, 1.3);
}

pub(super) fn fast(bench: &Bench, arguments: &Arguments) {
    full(bench, "8", "fast", 32, Bits::Four, 1.0);
    of_lists(bench, arguments, "8", "listsfast", 32, Bits::Four, 1.1);
}

/// The codebook of the peer, or ours.
fn codebook(
    bench: &Bench,
    made: Option<()>,
    parts: usize,
    bits: Bits,
    rows: &dyn Fn() -> Vec<f32>,
) -> Codebook {
    let dimensions = bench.world.dimensions;
    if made.is_some() {
        let numbers = bench.read_f32("codebook.f32");
        return Codebook::of_numbers(dimensions, parts, bits, numbers).expect("the peer's codebook");
    }
    let found = Codebook::train(&rows(), dimensions, parts, bits, 1, bench.path, &mut pieces(bench.threads));
    found.expect("memory").expect("no one cancels it")
}

fn name_of(bits: Bits) -> &'static str {
    if bits == Bits::Four { "4" } else { "8" }
}

/// Searches among all codes, without lists.
fn full(bench: &Bench, row: &'static str, kind: &str, parts: usize, bits: Bits, bar: f64) {
    let world = &bench.world;
    let made = bench.ask(&format!("index {kind} {parts}")).map(|_| ());
    let codebook = codebook(bench, made, parts, bits, &|| world.spread(TRAINED_MAX));
    let bytes = pack(&encoded(bench, &codebook, &world.rows), parts, bits);
    let codes = Codes { parts, bits, rows: world.count(), bytes: &bytes };
    let queries = world.each_query();
    let search = || {
        shared(bench.threads, queries.len(), |part| {
            let (size, mut scanner) = (codebook.tables_len(), Scanner::new(bench.path));
            let mut tables = vec![0.0; QUERIES_AT_ONCE * size];
            let mut found = Vec::new();
            for queries in queries[part].chunks(QUERIES_AT_ONCE) {
                let mut lists = vec![Shortlist::new(K, 0.0); queries.len()];
                for (query, tables) in queries.iter().zip(tables.chunks_exact_mut(size)) {
                    codebook.tables(bench.path, query, tables);
                }
                for first in (0..codes.rows).step_by(ROWS_AT_ONCE) {
                    let codes = codes.part(first..codes.rows.min(first + ROWS_AT_ONCE));
                    for (tables, list) in tables.chunks_exact(size).zip(&mut lists) {
                        scanner.scan(codes, tables, 0.0, None, list, first as u32);
                    }
                }
                let rows = |list: Shortlist| list.by_score().into_iter().map(|(_, row)| row).collect();
                found.extend(lists.into_iter().map(rows));
            }
            found
        })
    };
    let truth = world.exact(VectorMeasure::L2, 1);
    let question = format!("search {kind} {K} 0 {0} {0}", queries.len());
    let note = recalls(bench, &truth, &search(), made.and_then(|()| bench.found(&question, K)), bits);
    let bytes = bytes.len() as f64 * queries.len() as f64;
    let name = format!("all codes, {parts} x {} bits", name_of(bits));
    let other = if bits == Bits::Four { "IndexPQFastScan" } else { "IndexPQ" };
    let work = Work { row, name, limit: Limit::Bytes(bytes), note };
    bench.contest(&work, &[Other { name: other, question, bar }], &mut || _ = search());
    bench.ask("forget");
}

/// Both recalls as text; those by 8 bits are compared, as both sides add the same numbers of f32 up.
fn recalls(
    bench: &Bench,
    truth: &Answers,
    found: &[Vec<u32>],
    peers: Option<Vec<Vec<i64>>>,
    bits: Bits,
) -> String {
    let all = |found: &[Vec<u32>]| [1, 10, 100].map(|r| World::recall_at(truth, found, r));
    let own = all(found);
    let mut note = format!("R@1, 10, 100 {:.3} {:.3} {:.3}", own[0], own[1], own[2]);
    if let Some(peers) = peers {
        let theirs = all(&numbers(&peers));
        note += &format!(", peer's {:.3} {:.3} {:.3}", theirs[0], theirs[1], theirs[2]);
        for (own, theirs) in own.into_iter().zip(theirs) {
            // The peer rounds sums of 4 bits, which moves the nearest row of some queries, for the better or the worse: if
            // that is one query in sixty, four standard deviations. Otherwise one query of few counts for much.
            let count = truth.len() as f64;
            let (off, most) = match bits {
                Bits::Eight => ((own - theirs).abs(), 3.0 / count),
                Bits::Four => (theirs - own, 0.5 / count.sqrt()),
            };
            assert!(off <= RECALL_OFF.max(most), "recalls {own} and {theirs}");
        }
    }
    if bench.world.is_like_sample { note } else { format!("{note} (of a mixture)") }
}

/// Codes of the differences of rows from the centroids of their lists; those of 4 bits are ranked by their rows.
struct CodedLists {
    lists: ByList,
    codebook: Codebook,
    /// Rows in the order of the lists.
    places: Vec<u32>,
    /// The place of the first row of each list, and its codes.
    packed: Vec<(u32, Vec<u8>)>,
    is_refined: bool,
}

impl CodedLists {
    fn new(bench: &Bench, made: Option<()>, lists: ByList, (parts, bits): (usize, Bits)) -> Self {
        let (world, is_refined) = (&bench.world, bits == Bits::Four);
        let residuals = residuals(world, &lists);
        // The peer's codes of 4 bits are of the rows themselves, ours of the differences from the centroids.
        let codebook = codebook(bench, made.filter(|()| !is_refined), parts, bits, &|| {
            residuals[..residuals.len().min(TRAINED_MAX * world.dimensions)].to_vec()
        });
        let codes = encoded(bench, &codebook, &residuals);
        let (mut places, mut packed) = (Vec::new(), Vec::new());
        for rows in &lists.rows {
            let of: Vec<u8> =
                rows.iter().flat_map(|row| codes[*row as usize * parts..][..parts].to_vec()).collect();
            packed.push((places.len() as u32, pack(&of, parts, bits)));
            places.extend_from_slice(rows);
        }
        Self { lists, codebook, places, packed, is_refined }
    }

    /// The rows found for each query; `factor` candidates for each are ranked by rows.
    fn search(&self, bench: &Bench, probes: usize, factor: usize) -> Vec<Vec<u32>> {
        let (world, dimensions) = (&bench.world, bench.world.dimensions);
        let kept = if self.is_refined { REFINED * factor } else { K };
        shared(bench.threads, world.each_query().len(), |part| {
            let queries = &world.queries[part.start * dimensions..part.end * dimensions];
            let mut shortlists = vec![Shortlist::new(kept, 0.0); part.len()];
            self.scan(bench, queries, probes, &mut shortlists);
            let rank = |(query, list): (&[f32], Shortlist)| -> Vec<u32> {
                let found = list.by_score().into_iter().map(|(_, place)| self.places[place as usize]);
                let found: Vec<u32> = found.collect();
                if !self.is_refined {
                    return found;
                }
                world.nearest_of(query, &found, REFINED).into_iter().map(|(_, row)| row).collect()
            };
            queries.chunks_exact(dimensions).zip(shortlists).map(rank).collect()
        })
    }

    fn scan(&self, bench: &Bench, queries: &[f32], probes: usize, shortlists: &mut [Shortlist]) {
        let (codebook, dimensions) = (&self.codebook, bench.world.dimensions);
        let (parts, bits, size) = (codebook.parts(), codebook.bits(), codebook.tables_len());
        let probes = self.lists.nearest(bench, queries, probes);
        let (mut terms, mut tables) = (vec![0.0; size], vec![0.0; size]);
        let (mut products, mut scanner) = (vec![0.0; shortlists.len() * size], Scanner::new(bench.path));
        for (query, products) in queries.chunks_exact(dimensions).zip(products.chunks_exact_mut(size)) {
            codebook.products(bench.path, query, products);
        }
        let order = (&probes, Order::NearestFirst);
        scanned(&bench.world, queries, order, shortlists, &mut |list, places, queries, taken| {
            let (first, bytes) = &self.packed[list as usize];
            let codes = Codes { parts, bits, rows: self.lists.rows[list as usize].len(), bytes };
            let centroid = self.lists.centroid(list, dimensions);
            codebook.terms(bench.path, centroid, &mut terms);
            for ((query, place), shortlist) in queries.chunks_exact(dimensions).zip(places).zip(taken) {
                let both = products[place * size..][..size].iter().zip(&terms);
                tables.iter_mut().zip(both).for_each(|(sum, (x, y))| *sum = x + y);
                let base = squared_l2_on(bench.path, query, centroid) as f32;
                scanner.scan(codes, &tables, base, None, shortlist, *first);
            }
        });
    }
}

/// Searches among the codes of some lists.
fn of_lists(
    bench: &Bench,
    arguments: &Arguments,
    row: &'static str,
    kind: &str,
    parts: usize,
    bits: Bits,
    bar: f64,
) {
    let world = &bench.world;
    let lists = ByList::new(bench, LISTS.min(world.count() / 20));
    let made = bench.ask(&format!("index {kind} {parts}")).map(|_| ());
    let coded = CodedLists::new(bench, made, lists, (parts, bits));
    let (lists, is_refined) = (&coded.lists, coded.is_refined);
    let truth = world.exact(VectorMeasure::L2, 1);
    for probes in list(arguments, "probes", "8,32").into_iter().filter(|probes| *probes <= lists.rows.len()) {
        let k = if is_refined { REFINED } else { K };
        let question = format!("search {kind} {k} {probes} {0} {0}", truth.len());
        let peers = made.and_then(|()| bench.found(&question, k));
        let theirs = peers.as_ref().map(|peers| World::recall_at(&truth, &numbers(peers), 1));
        let is_as_good = |factor: &usize| {
            theirs.is_some_and(|theirs| {
                World::recall_at(&truth, &coded.search(bench, probes, *factor), 1) >= theirs - RECALL_OFF
            })
        };
        let factor = if is_refined { FACTORS.into_iter().find(is_as_good).unwrap_or(FACTORS[5]) } else { 1 };
        let mut note = recalls(bench, &truth, &coded.search(bench, probes, factor), peers, bits);
        if is_refined {
            note += &format!(", refined {factor} a row");
        }
        let scanned = lists.probed(&lists.nearest(bench, &world.queries, probes));
        let bytes = (scanned * parts) as f64 / if bits == Bits::Four { 2.0 } else { 1.0 };
        let name = format!("{} lists, {probes} probed, {parts} x {}", lists.rows.len(), name_of(bits));
        let other = if is_refined { "IVF,PQ32x4fs,RFlat, k_factor 10" } else { "IndexIVFPQ, tables kept" };
        let work = Work { row, name, limit: Limit::Bytes(bytes), note };
        bench.contest(&work, &[Other { name: other, question, bar }], &mut || {
            _ = coded.search(bench, probes, factor)
        });
    }
    bench.ask("forget");
}

/// The rows that the peer found.
fn numbers(found: &[Vec<i64>]) -> Vec<Vec<u32>> {
    let number = |row: &i64| u32::try_from(*row).unwrap_or(u32::MAX);
    found.iter().map(|found| found.iter().map(number).collect()).collect()
}

/// The differences of all rows from their centroids.
fn residuals(world: &World, lists: &ByList) -> Vec<f32> {
    let dimensions = world.dimensions;
    let mut residuals = world.rows.clone();
    for (residual, list) in residuals.chunks_exact_mut(dimensions).zip(&lists.of_row) {
        residual.iter_mut().zip(lists.centroid(*list, dimensions)).for_each(|(x, y)| *x -= y);
    }
    residuals
}

fn encoded(bench: &Bench, codebook: &Codebook, rows: &[f32]) -> Vec<u8> {
    let (encoder, dimensions) = (codebook.encoder(), bench.world.dimensions);
    shared(bench.threads, rows.len() / dimensions, |part| {
        encoder.encode(bench.path, &rows[part.start * dimensions..part.end * dimensions])
    })
}

pub(super) fn encode(bench: &Bench, arguments: &Arguments) {
    const PARTS: usize = 16;
    let (world, dimensions) = (&bench.world, bench.world.dimensions);
    let made = bench.ask(&format!("index product {PARTS}")).map(|_| ());
    let codebook = codebook(bench, made, PARTS, Bits::Eight, &|| world.spread(TRAINED_MAX));
    let codes = encoded(bench, &codebook, &world.rows);
    let question = "encode product".to_owned();
    if made.and_then(|()| bench.ask(&question)).is_some() {
        let theirs = fs::read(bench.folder.join("codes.u8")).expect("the peer's codes");
        assert_eq!(theirs.len(), codes.len(), "as many codes");
        let both = codes.chunks_exact(PARTS).zip(theirs.chunks_exact(PARTS));
        for (row, (own, theirs)) in both.enumerate().filter(|(_, (own, theirs))| own != theirs) {
            let square = |code: &[u8]| {
                let mut decoded = vec![0.0; dimensions];
                codebook.decode(code, &mut decoded);
                squared_l2(world.row(row as u32), &decoded)
            };
            assert!(
                (square(theirs) - square(own)).abs() <= world.tolerance(),
                "row {row}: {own:?} {theirs:?}"
            );
        }
    }
    let products = (world.rows.len() * Bits::Eight.centroids()) as f64;
    let work = Work {
        row: "11",
        name: format!("encode by {PARTS} x 8 bits"),
        limit: Limit::MultiplyAdds(products),
        note: format!("{} rows", world.count()),
    };
    bench.contest(&work, &[Other { name: "IndexPQ.sa_encode", question, bar: 1.5 }], &mut || {
        _ = encoded(bench, &codebook, &world.rows);
    });
    bench.ask("forget");
    let centroids = first(bench, arguments.get("clusters", 4096));
    bench.write_f32("start.f32", &centroids);
    let own = assigned(bench, &centroids);
    if let Some(theirs) = bench.found("assign", 1) {
        for ((row, own), theirs) in (0..).zip(&own).zip(theirs) {
            let other = &centroids[theirs[0] as usize * dimensions..][..dimensions];
            let off = (squared_l2(world.row(row), other) - own.1).abs();
            assert!(off <= world.tolerance(), "row {row} is not nearest to {}", theirs[0]);
        }
    }
    let clusters = centroids.len() / dimensions;
    let work = Work {
        row: "11",
        name: format!("assign to {clusters}"),
        limit: Limit::MultiplyAdds((world.rows.len() * clusters) as f64),
        note: format!("{} rows", world.count()),
    };
    let other = Other { name: "quantizer.search(rows, 1)", question: "assign".to_owned(), bar: 3.0 };
    bench.contest(&work, &[other], &mut || _ = assigned(bench, &centroids));
}
