//! How fast are permutations of pivots made, scanned and searched on one core, beside NumPy?
//!
//! - `construct`: the lists of vectors, distances included, beside a product, `argpartition` and a sort of its rows.
//! - `select`: the lists alone, from given distances in f64, beside `argpartition` alone, which sorts nothing, from distances in f32.
//! - `scan`: candidates by footrule or rho among lists that exceed the caches, in bytes of lists per second. The limit is a sum of the
//!   words of an array of as many bytes.
//! - `layouts`: candidates by a scan, and by the objects of the query's pivots (the inverted layout), for lists of several shapes.
//! - `search`: footrules, candidates, their distances and the nearest, beside the same steps in NumPy, so at equal recall.
//!
//! Times are processor time of one thread. Lists and answers are compared before any is timed. The limit of the construction is a product
//! of as many multiplications and additions at two vectors a cycle, at the clock that the bench measures.
//!
//! The peer is a Python with NumPy (`pip install numpy`), named by BOXWORK_PYTHON.
//!
//! `cargo bench --bench permutation -- what=construct,select,scan,layouts,search rows=10000 dimensions=128 rounds=7 megabytes=256
//! objects=500000`

mod support;

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::time::Instant;

use boxwork_kernels::CodePath;
use boxwork_kernels::chance::Random;
use boxwork_kernels::distance::{Lp, l2_of_each};
use boxwork_kernels::permutation::{Inverted, Lists, Measure, VectorPivots, nearest_of_each, nearest_pivots};
use support::clock::gigahertz;
use support::peer::Peer;
use support::{Arguments, Side, print_machine, run_rounds, verdict};

const K: usize = 10;
const CANDIDATES: usize = 500;
const QUERIES: usize = 20;
/// Pivots and the length of lists, from long lists of few pivots to short ones of many.
const LAYOUTS: [(usize, usize); 9] =
    [(128, 128), (128, 64), (128, 32), (128, 8), (256, 16), (512, 256), (512, 32), (512, 16), (4096, 64)];

struct Bench {
    rounds: usize,
    dimensions: usize,
    rows: Vec<f32>,
    folder: tempfile::TempDir,
    peer: Option<Peer>,
    path: CodePath,
}

/// Vectors around a hundred places, with fractions: f32 does not tell all distances apart.
fn vectors(count: usize, dimensions: usize) -> Vec<f32> {
    let mut random = Random::new(1);
    let places: Vec<f64> = (0..100 * dimensions).map(|_| random.normal() * 30.0).collect();
    let mut numbers = Vec::with_capacity(count * dimensions);
    for _ in 0..count {
        let place = random.idx(100) * dimensions;
        numbers.extend((0..dimensions).map(|at| (places[place + at] + random.normal() * 20.0) as f32));
    }
    numbers
}

fn distances(pivots: &[f32], row: &[f32]) -> Vec<f64> {
    pivots.chunks_exact(row.len()).map(|pivot| Lp::L2.between(pivot, row)).collect()
}

/// Lists by all distances and a sort of the nearest, one row after the other.
fn one_by_one(pivots: &[f32], rows: &[f32], dimensions: usize, length: usize) -> Vec<u16> {
    let mut lists = vec![0; rows.len() / dimensions * length];
    for (row, list) in rows.chunks_exact(dimensions).zip(lists.chunks_exact_mut(length)) {
        nearest_pivots(&distances(pivots, row), list);
    }
    lists
}

/// The ratio of a side to NumPy, and its bar.
fn against(sides: &[Side<'_>], what: &str, bar: f64) {
    let Some(peer) = sides.get(1) else { return };
    let ratio = sides[0].faster_than(peer);
    println!("ratio       {ratio} times {}", peer.name);
    verdict(what, ratio.median, bar, ratio.median >= bar);
}

impl Bench {
    fn pivots(&self, count: usize) -> &[f32] {
        &self.rows[..count * self.dimensions]
    }

    fn write<T: Copy, const N: usize>(&self, name: &str, numbers: &[T], bytes: impl Fn(T) -> [u8; N]) {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| bytes(*number)).collect();
        fs::write(self.folder.path().join(name), bytes).expect("a disk");
    }

    fn name(&self, what: &str) -> String {
        format!("{what}.{}.f32", self.dimensions)
    }

    fn pivots_name(&self, count: usize) -> String {
        let name = self.name(&format!("pivots{count}"));
        self.write(&name, self.pivots(count), f32::to_le_bytes);
        name
    }

    fn construct(&mut self, pivots: usize, length: usize, bar: Option<f64>) {
        let (count, rows) = (self.rows.len() / self.dimensions, self.name("rows"));
        let made = VectorPivots::new(self.pivots(pivots).to_vec(), self.dimensions, length).expect("lists");
        let mut lists = Vec::new();
        made.append(self.path, &self.rows, &mut lists);
        assert!(
            lists == one_by_one(self.pivots(pivots), &self.rows, self.dimensions, length),
            "lists by distances"
        );
        let of_pivots = self.pivots_name(pivots);
        if let Some(peer) = &mut self.peer {
            peer.ask(&format!("lists {rows} {of_pivots} {length}"));
            let found = fs::read(self.folder.path().join("found.u16")).expect("lists of the peer");
            let same =
                found.as_chunks::<2>().0.iter().zip(&lists).filter(|(a, b)| u16::from_le_bytes(**a) == **b);
            let share = same.count() as f64 / lists.len() as f64;
            assert!(share > 0.9999, "the peer has other lists: {share} are the same");
        }
        let (own, path) = (&self.rows, self.path);
        let mut sides = vec![Side::on_this_core("lists of vectors", count, || {
            lists.clear();
            made.append(path, own, &mut lists);
        })];
        if let Some(peer) = &mut self.peer {
            let question = format!("construct {rows} {of_pivots} {length}");
            sides.push(Side::new(peer.name.clone(), move || peer.seconds(&question)));
        }
        run_rounds(self.rounds, &mut sides);
        println!(
            "\nconstruct: {pivots} pivots, lists of {length}, {count} vectors of {} numbers, {path}",
            self.dimensions
        );
        let lanes = if path == CodePath::Avx512 { 16.0 } else { 8.0 };
        let products = (pivots * self.dimensions) as f64;
        for side in &sides {
            let seconds = side.spread().median;
            println!(
                "{:<18} {:>9.3} us a vector, {:.2} of the rate of the product alone",
                side.name,
                seconds * 1e6,
                products / seconds / (2.0 * lanes * gigahertz() * 1e9)
            );
        }
        if let Some(bar) = bar {
            against(&sides, "construct", bar);
        }
    }

    fn select(&mut self, pivots: usize, length: usize) {
        let (count, rows, of_pivots) =
            (self.rows.len() / self.dimensions, self.name("rows"), self.pivots_name(pivots));
        let all: Vec<&[f32]> = self.rows.chunks_exact(self.dimensions).collect();
        // As many objects at a time as the box has, so that their distances lie in a cache, as the peer's rows do.
        let piece = |rows: &[&[f32]]| {
            let mut given = vec![0.0; pivots * rows.len()];
            let of_pivots = self.pivots(pivots).chunks_exact(self.dimensions);
            of_pivots
                .zip(given.chunks_exact_mut(rows.len()))
                .for_each(|(pivot, given)| l2_of_each(self.path, pivot, rows, given));
            given
        };
        let given: Vec<Vec<f64>> = all.chunks(256).map(piece).collect();
        let (mut lists, path) = (Vec::new(), self.path);
        let make = |lists: &mut Vec<u16>| {
            lists.clear();
            for given in &given {
                nearest_of_each(path, given, given.len() / pivots, pivots, length, lists);
            }
        };
        make(&mut lists);
        assert!(
            lists == one_by_one(self.pivots(pivots), &self.rows, self.dimensions, length),
            "lists by distances"
        );
        let mut sides = vec![Side::on_this_core("lists alone", count, || make(&mut lists))];
        if let Some(peer) = &mut self.peer {
            let question = format!("select {rows} {of_pivots} {length}");
            sides.push(Side::new(peer.name.clone(), move || peer.seconds(&question)));
        }
        run_rounds(self.rounds, &mut sides);
        println!("\nselect: {length} of {pivots}, {path}");
        for side in &sides {
            println!("{:<18} {:>9.3} us a list", side.name, side.spread().median * 1e6);
        }
        against(&sides, "select", 20.0);
    }

    fn scan(&self, pivots: usize, length: usize, measure: Measure, megabytes: usize) {
        let mut random = Random::new(4);
        let mut lists = Lists::new(pivots, length).expect("lists");
        let made: Vec<Vec<u16>> = (0..1000)
            .map(|_| random.distinct(pivots as u64, length).into_iter().map(|pivot| pivot as u16).collect())
            .collect();
        let object_bytes = length * if pivots > 256 { 2 } else { 1 };
        let objects = (megabytes << 20) / object_bytes / 256 * 256;
        for object in 0..objects {
            lists.push(&made[object * 7 % made.len()]);
        }
        let query = made[3].clone();
        let portable = lists.candidates(CodePath::Portable, measure, &query, CANDIDATES, |_| true);
        assert_eq!(lists.candidates(self.path, measure, &query, CANDIDATES, |_| true), portable);
        let words = vec![3_u64; lists.bytes() / 8];
        let sum = Cell::new(0_u64);
        let mut sides = vec![
            Side::on_this_core("candidates", lists.bytes(), || {
                let found = lists.candidates(self.path, measure, &query, CANDIDATES, |_| true);
                sum.set(sum.get() ^ u64::from(found[0]));
            }),
            Side::on_this_core("memory", lists.bytes(), || {
                let words = std::hint::black_box(&words).iter();
                sum.set(sum.get() ^ words.fold(0, |sum: u64, word| sum.wrapping_add(*word)));
            }),
        ];
        run_rounds(self.rounds, &mut sides);
        println!("\nscan: {measure:?}, {pivots} pivots, lists of {length}, {objects} objects, {}", self.path);
        for side in &sides {
            println!(
                "{:<18} {:>9.2} GB/s, {:.3} ns an object",
                side.name,
                1e-9 / side.spread().median,
                side.spread().median * object_bytes as f64 * 1e9
            );
        }
        let share = sides[0].faster_than(&sides[1]);
        println!("ratio       {share:.2} of the rate of memory");
        if (pivots, length) == (128, 32) {
            verdict("scan", share.median, 0.7, share.median >= 0.7);
        }
    }

    /// A scan of all lists, and reading the objects of the query's pivots, in turns.
    fn layouts(&self, pivots: usize, length: usize, objects: usize) {
        let mut random = Random::new(4);
        let mut lists = Lists::new(pivots, length).expect("lists");
        let made: Vec<Vec<u16>> = (0..20_011)
            .map(|_| random.distinct(pivots as u64, length).into_iter().map(|pivot| pivot as u16).collect())
            .collect();
        for object in 0..objects {
            lists.push(&made[object * 7 % made.len()]);
        }
        let start = Instant::now();
        let inverted = Inverted::of(&lists);
        let inversion = start.elapsed().as_secs_f64();
        let (query, sum) = (&made[3], Cell::new(0_u64));
        let scanned = lists.candidates(self.path, Measure::Footrule, query, CANDIDATES, |_| true);
        let read = inverted.candidates(self.path, Measure::Footrule, query, CANDIDATES, |_| true);
        assert!(scanned == read, "the same candidates");
        let count = |found: &[u32]| sum.set(sum.get() ^ u64::from(found[0]));
        let mut sides = vec![
            Side::on_this_core("inverted", objects, || {
                count(&inverted.candidates(self.path, Measure::Footrule, query, CANDIDATES, |_| true));
            }),
            Side::on_this_core("scan", objects, || {
                count(&lists.candidates(self.path, Measure::Footrule, query, CANDIDATES, |_| true));
            }),
        ];
        run_rounds(self.rounds, &mut sides);
        println!(
            "\nlayouts: {pivots} pivots, lists of {length}, {objects} objects, {}; auto takes {}",
            self.path,
            if Inverted::is_faster(self.path, pivots, length) { "inverted" } else { "scan" }
        );
        for side in &sides {
            println!("{:<18} {:>9.3} ns an object", side.name, side.spread().median * 1e9);
        }
        println!("ratio       inverted is {} times as fast as a scan", sides[0].faster_than(&sides[1]));
        println!("inversion   {:.1} ns an object, once", inversion / objects as f64 * 1e9);
    }

    fn search(&mut self, pivots: usize, length: usize) {
        let (count, dimensions, path) = (self.rows.len() / self.dimensions, self.dimensions, self.path);
        let mut peer = self.peer.take();
        let made = VectorPivots::new(self.pivots(pivots).to_vec(), dimensions, length).expect("lists");
        let mut of_rows = Vec::new();
        made.append(path, &self.rows, &mut of_rows);
        let mut lists = Lists::new(pivots, length).expect("lists");
        of_rows.chunks_exact(length).for_each(|list| lists.push(list));
        let mut random = Random::new(9);
        let queries: Vec<f32> = (0..QUERIES * dimensions)
            .map(|at| self.rows[at + 5000.min(count - QUERIES) * dimensions] + random.normal() as f32 * 10.0)
            .collect();
        let all: Vec<&[f32]> = self.rows.chunks_exact(dimensions).collect();
        let nearest = |query: &[f32], ids: &[u32]| {
            let rows: Vec<&[f32]> = ids.iter().map(|id| all[*id as usize]).collect();
            let mut distances = vec![0.0; rows.len()];
            l2_of_each(path, query, &rows, &mut distances);
            let mut found: Vec<(f64, u32)> = distances.into_iter().zip(ids.iter().copied()).collect();
            let order = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
            if found.len() > K {
                found.select_nth_unstable_by(K - 1, order);
                found.truncate(K);
            }
            found.sort_unstable_by(order);
            found.into_iter().map(|(_, id)| id).collect::<Vec<u32>>()
        };
        let pivots_numbers = self.pivots(pivots);
        let search = |out: &mut Vec<u32>| {
            out.clear();
            for query in queries.chunks_exact(dimensions) {
                let mut list = vec![0; length];
                nearest_pivots(&distances(pivots_numbers, query), &mut list);
                let found = lists.candidates(path, Measure::Footrule, &list, CANDIDATES, |_| true);
                out.extend(nearest(query, &found));
            }
        };
        let (mut found, ids) = (Vec::new(), (0..count as u32).collect::<Vec<u32>>());
        search(&mut found);
        let exact: Vec<u32> =
            queries.chunks_exact(dimensions).flat_map(|query| nearest(query, &ids)).collect();
        let recall = |found: &[u32]| {
            let each = found.chunks_exact(K).zip(exact.chunks_exact(K));
            let hits: usize =
                each.map(|(found, exact)| exact.iter().filter(|id| found.contains(id)).count()).sum();
            hits as f64 / exact.len() as f64
        };
        let own_recall = recall(&found);
        let query_lists: Vec<u16> = one_by_one(pivots_numbers, &queries, dimensions, length);
        self.write(&self.name("queries"), &queries, f32::to_le_bytes);
        self.write(&format!("lists.{length}.u16"), &of_rows, u16::to_le_bytes);
        self.write(&format!("querylists.{length}.u16"), &query_lists, u16::to_le_bytes);
        let question = format!(
            "search {} lists.{length}.u16 {pivots} {} querylists.{length}.u16 {CANDIDATES} {K}",
            self.name("rows"),
            self.name("queries")
        );
        if let Some(peer) = &mut peer {
            peer.ask(&question);
            let bytes = fs::read(self.folder.path().join("found.u32")).expect("answers of the peer");
            let of_peer: Vec<u32> =
                bytes.as_chunks::<4>().0.iter().map(|id| u32::from_le_bytes(*id)).collect();
            println!("\nrecall      {own_recall:.3}, {:.3} of the peer", recall(&of_peer));
            // Footrules that tie at the last candidate may be chosen otherwise.
            assert!((recall(&of_peer) - own_recall).abs() < 0.02, "another recall");
        }
        let mut sides = vec![Side::on_this_core("search", QUERIES, || search(&mut found))];
        if let Some(peer) = &mut peer {
            sides.push(Side::new(peer.name.clone(), || peer.seconds(&question)));
        }
        run_rounds(self.rounds, &mut sides);
        println!(
            "search: {pivots} pivots, lists of {length}, {count} vectors, {CANDIDATES} candidates, {path}"
        );
        for side in &sides {
            println!("{:<18} {:>9.1} us a query", side.name, side.spread().median * 1e6);
        }
        against(&sides, "search", 10.0);
        drop(sides);
        self.peer = peer;
    }
}

/// The path of this name.
fn path_named(name: Option<&str>) -> CodePath {
    let Some(name) = name else { return CodePath::detect() };
    let found = CodePath::available().into_iter().find(|path| path.to_string().eq_ignore_ascii_case(name));
    found.unwrap_or_else(|| panic!("path={name}: this machine has {:?}", CodePath::available()))
}

fn main() {
    let arguments =
        Arguments::read(&["what", "rows", "dimensions", "rounds", "megabytes", "objects", "peer", "path"]);
    println!("question    how fast are permutations of pivots made, scanned and searched on one core?");
    print_machine();
    let folder = tempfile::tempdir().expect("a folder");
    let place: &Path = folder.path();
    let dimensions = arguments.get("dimensions", 128_usize);
    let peer = match arguments.get("peer", 1) {
        0 => None,
        _ => Peer::numpy(&[place.to_str().expect("a path in UTF-8")]),
    };
    let rows = vectors(arguments.get("rows", 10_000_usize), dimensions);
    let path = path_named(arguments.text("path"));
    let mut bench = Bench { rounds: arguments.get("rounds", 7), dimensions, rows, folder, peer, path };
    bench.write(&bench.name("rows"), &bench.rows, f32::to_le_bytes);
    for what in arguments.text("what").unwrap_or("construct,select,scan,layouts,search").split(',') {
        match what {
            "construct" => {
                bench.construct(128, 32, None);
                bench.construct(512, 16, Some(5.0));
            }
            "select" => bench.select(512, 16),
            "scan" => {
                let megabytes = arguments.get("megabytes", 256);
                bench.scan(128, 32, Measure::Footrule, megabytes);
                bench.scan(128, 32, Measure::Rho, megabytes);
                bench.scan(512, 16, Measure::Footrule, megabytes);
            }
            "search" => bench.search(128, 32),
            "layouts" => {
                for (pivots, length) in LAYOUTS {
                    bench.layouts(pivots, length, arguments.get("objects", 500_000));
                }
            }
            other => panic!("what={other} is none of construct, select, scan, layouts and search"),
        }
    }
}
