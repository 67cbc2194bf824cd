//! How many edit distances of texts does one core compute per second, beside RapidFuzz and our own words of 64 rows?
//!
//! Units: cells of the tables per second, which are the letters of one text times those of the other, and pairs per second,
//! by processor time. Sides: texts at once by `TextBlock`, kept as in a store; the same with the forms of the texts made anew; one
//! by one by `Pattern`; `cdist` of RapidFuzz in a process of its own. All distances are compared before any is timed.
//!
//! The limit is five operations of 512 bits for 512 cells with AVX-512, two a cycle, and eight of 256 bits with AVX2, four a cycle, at the clock
//! that the bench measures.
//!
//! The peer is a Python with RapidFuzz and NumPy (`pip install rapidfuzz numpy`), named by BOXWORK_PYTHON.
//!
//! `what=weighted` asks how much faster edits with other costs, local scores and warped series are than a plain loop over rows.
//!
//! `what=long` compares one pair of long random texts with RapidFuzz, `what=similar` similar ones with edlib (`pip install edlib`), and
//! `what=workers` the tiles of one pair on `workers=2` workers with one, by the wall clock.
//!
//! `what=pipeline` compares shipped pipelines on one worker with the kernel, by the wall clock.
//!
//! `cargo bench --bench edit -- rounds=7 texts=4096`

mod support;
#[path = "edit/long.rs"]
mod long;
#[path = "edit/pipeline.rs"]
mod pipeline;
#[path = "edit/weighted.rs"]
mod weighted;

use std::fs;
use std::path::Path;

use boxwork_kernels::CodePath;
use boxwork_kernels::chance::Random;
use boxwork_kernels::distance::{Pattern, TextBlock};
use boxwork_kernels::interrupt::never;
use support::clock::gigahertz;
use support::peer::Peer;
use support::{Arguments, Side, Spread, print_machine, run_rounds, verdict};

/// Texts that lie together, as in a store.
const BLOCK_TEXTS: usize = 1024;

/// One question: texts of some letters and lengths.
struct Case {
    name: &'static str,
    letters: usize,
    lengths: (usize, usize),
    queries: usize,
    /// Times RapidFuzz's rate that are aimed at.
    bar: f64,
}

const CASES: [Case; 6] = [
    Case { name: "dna32", letters: 4, lengths: (32, 32), queries: 64, bar: 6.0 },
    Case { name: "dna64", letters: 4, lengths: (64, 64), queries: 64, bar: 4.0 },
    Case { name: "dna128", letters: 4, lengths: (128, 128), queries: 32, bar: 10.0 },
    Case { name: "dna256", letters: 4, lengths: (256, 256), queries: 16, bar: 10.0 },
    Case { name: "a-z32", letters: 26, lengths: (32, 32), queries: 64, bar: 4.0 },
    Case { name: "words", letters: 26, lengths: (3, 20), queries: 1, bar: 5.0 },
];

fn texts(random: &mut Random, count: usize, case: &Case) -> Vec<Vec<char>> {
    let letters: Vec<char> = if case.letters == 4 { "ACGT".chars().collect() } else { ('a'..='z').collect() };
    let (least, most) = case.lengths;
    let mut text = || {
        let length = least + random.idx(most - least + 1);
        (0..length).map(|_| letters[random.idx(letters.len())]).collect()
    };
    (0..count).map(|_| text()).collect()
}

/// The texts in the forms in which they are compared at once.
fn blocks(texts: &[Vec<char>]) -> Vec<TextBlock> {
    texts.chunks(BLOCK_TEXTS).map(|texts| TextBlock::new(texts.len(), |text| &texts[text])).collect()
}

/// The distances, query by query.
fn at_once(path: CodePath, blocks: &[TextBlock], texts: &[Vec<char>], queries: &[Pattern], out: &mut [u32]) {
    let patterns: Vec<&Pattern> = queries.iter().collect();
    let mut found = vec![0; BLOCK_TEXTS * queries.len()];
    for (place, (block, of_block)) in blocks.iter().zip(texts.chunks(BLOCK_TEXTS)).enumerate() {
        let found = &mut found[..block.len() * queries.len()];
        block.distances(path, &patterns, |text| &of_block[text], found, &never).expect("never interrupted");
        for (found, out) in found.chunks_exact(block.len()).zip(out.chunks_exact_mut(texts.len())) {
            out[place * BLOCK_TEXTS..][..found.len()].copy_from_slice(found);
        }
    }
}

fn write(folder: &Path, name: &str, texts: &[Vec<char>]) {
    let lines: String = texts.iter().map(|text| text.iter().collect::<String>() + "\n").collect();
    fs::write(folder.join(name), lines).expect("a disk");
}

/// Compares the peer's distances with ours.
fn check(peer: &mut Peer, question: &str, distances: &[u32]) {
    let answer = peer.ask(question);
    let sum: u64 = distances.iter().map(|distance| u64::from(*distance)).sum();
    let weighted: u64 = (0..).zip(distances).map(|(at, distance)| at % 1009 * u64::from(*distance)).sum();
    assert_eq!(
        (answer["sum"].as_u64(), answer["weighted"].as_u64()),
        (Some(sum), Some(weighted)),
        "{question}"
    );
}

fn run_case(case: &Case, (texts_count, rounds): (usize, usize), folder: &Path, peer: &mut Option<Peer>) {
    let (mut random, path) = (Random::new(3), CodePath::detect());
    let (some, asked) = (texts(&mut random, texts_count, case), texts(&mut random, case.queries, case));
    let queries: Vec<Pattern> = asked.iter().map(|query| Pattern::new(query)).collect();
    let letters = |texts: &[Vec<char>]| texts.iter().map(Vec::len).sum::<usize>();
    let (cells, pairs) = (letters(&some) * letters(&asked), some.len() * asked.len());
    let one_by_one: Vec<u32> =
        queries.iter().flat_map(|query| some.iter().map(|text| query.distance(text) as u32)).collect();
    let kept = blocks(&some);
    for path in CodePath::available() {
        let mut found = vec![0; pairs];
        at_once(path, &kept, &some, &queries, &mut found);
        assert_eq!(found, one_by_one, "{path}");
    }
    let question = format!("{}.queries {}.texts", case.name, case.name);
    if let Some(peer) = peer {
        write(folder, &format!("{}.queries", case.name), &asked);
        write(folder, &format!("{}.texts", case.name), &some);
        check(peer, &question, &one_by_one);
    }
    let (mut kept_out, mut anew_out, mut sum) = (vec![0; pairs], vec![0; pairs], 0);
    let mut sides = vec![
        Side::on_this_core("at once", cells, || at_once(path, &kept, &some, &queries, &mut kept_out)),
        Side::on_this_core("at once, anew", cells, || {
            at_once(path, &blocks(&some), &some, &queries, &mut anew_out)
        }),
        Side::on_this_core("one by one", cells, || {
            sum += queries
                .iter()
                .map(|query| some.iter().map(|text| query.distance(text)).sum::<usize>())
                .sum::<usize>();
        }),
    ];
    if let Some(peer) = peer {
        sides.push(Side::new(peer.name.clone(), || peer.seconds(&question) * pairs as f64 / cells as f64));
    }
    run_rounds(rounds, &mut sides);
    let per_cycle = match path {
        CodePath::Avx512 => 2.0 * 512.0 / 5.0,
        CodePath::Avx2 | CodePath::AvxVnni => 4.0 * 256.0 / 8.0,
        _ => f64::NAN,
    };
    println!("\n{}: {} queries, {} texts, {path}", case.name, asked.len(), some.len());
    for side in &sides {
        let rate = Spread::of(side.seconds.iter().map(|seconds| 1e-9 / seconds));
        let of_pairs = rate.median * 1e9 / (cells as f64 / pairs as f64);
        println!(
            "{:<18} {rate:>24} 1e9 cells/s, {of_pairs:.3e} pairs/s, {:.2} of the limit",
            side.name,
            rate.median / (per_cycle * gigahertz())
        );
    }
    let words = sides[0].faster_than(&sides[2]);
    println!("ratio       {words} times one by one");
    if let Some(peer) = sides.get(3) {
        let ratio = sides[0].faster_than(peer);
        println!(
            "ratio       {ratio} times {}; {} with the forms made anew",
            peer.name,
            sides[1].faster_than(peer)
        );
        verdict(case.name, ratio.median, case.bar, ratio.median >= case.bar);
    }
}

fn main() {
    let arguments = Arguments::read(&["what", "texts", "rounds", "peer", "workers"]);
    println!("question    how many edit distances does one core compute per second?");
    print_machine();
    let sizes = (arguments.get("texts", 4096_usize), arguments.get("rounds", 7_usize));
    let is_asked =
        |name: &str| arguments.text("what").is_none_or(|what| what.split(',').any(|what| what == name));
    if is_asked("weighted") {
        weighted::run(sizes.1);
    }
    if is_asked("pipeline") {
        pipeline::run(64 * sizes.0, sizes.1);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().to_str().expect("a path in UTF-8");
    let mut of_peer = CASES.iter().map(|case| case.name).chain(["long", "similar"]);
    let has_peer = arguments.get("peer", 1) == 1 && of_peer.any(&is_asked);
    let mut peer = if has_peer { Peer::rapidfuzz(&[place]) } else { None };
    for case in CASES.iter().filter(|case| is_asked(case.name)) {
        run_case(case, sizes, folder.path(), &mut peer);
    }
    if is_asked("long") {
        long::run_long(sizes.1, folder.path(), &mut peer);
    }
    if is_asked("similar") {
        long::run_similar(sizes.1, folder.path(), &mut peer);
    }
    if is_asked("workers") {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        long::run_workers(sizes.1, arguments.get("workers", cores), folder.path());
    }
}
