//! Long pairs of texts: random ones beside RapidFuzz, similar ones beside edlib, and the tiles of one pair on several workers beside one.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use boxwork::shipped;
use boxwork_kernels::chance::Random;
use boxwork_kernels::distance::Pattern;
use boxwork_operators::catalog;
use boxwork_runtime::operator::Environment;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_runtime::{Config, Runtime};

use super::support::peer::Peer;
use super::support::{Side, Spread, run_rounds, verdict};
use super::write;

/// Times the rate of a peer that are aimed at.
const BAR: f64 = 2.0;
/// Times the rate of one worker that are aimed at, for each worker.
const BAR_WORKERS: f64 = 0.9;
/// Letters of texts that are shared by workers.
const SHARED: [usize; 3] = [60_000, 200_000, 800_000];

const LETTERS: [char; 4] = ['A', 'C', 'G', 'T'];

fn text(random: &mut Random, letters: usize) -> Vec<char> {
    (0..letters).map(|_| LETTERS[random.idx(4)]).collect()
}

/// The text after edits of this share of its letters: a third each are replaced, deleted and followed by another one.
fn edited(random: &mut Random, text: &[char], share: f64) -> Vec<char> {
    let mut edited = Vec::with_capacity(text.len() + text.len() / 20);
    for letter in text {
        if random.unit() >= share {
            edited.push(*letter);
            continue;
        }
        match random.below(3) {
            0 => edited.push(LETTERS[random.idx(4)]),
            1 => {}
            _ => edited.extend([*letter, LETTERS[random.idx(4)]]),
        }
    }
    edited
}

/// One pair, beside a peer by name.
fn run_pair(
    (name, against): (&str, &str),
    (a, b): (&[char], &[char]),
    rounds: usize,
    folder: &Path,
    peer: &mut Option<Peer>,
) {
    let distance = Pattern::new(a).distance(b);
    let (cells, question) = (a.len() * b.len(), format!("pair {against} {name}.a {name}.b"));
    if let Some(peer) = &mut *peer {
        write(folder, &format!("{name}.a"), &[a.to_vec()]);
        write(folder, &format!("{name}.b"), &[b.to_vec()]);
        let answer = peer.ask(&question);
        if answer["missing"].is_string() {
            println!("peer        NOT MEASURED: {against} is missing: pip install {against}");
            return run_pair((name, against), (a, b), rounds, folder, &mut None);
        }
        assert_eq!(answer["distance"].as_u64(), Some(distance as u64), "{name} by {against}");
    }
    let mut sum = 0;
    let mut sides =
        vec![Side::on_this_core("Boxwork", 1, || sum += std::hint::black_box(Pattern::new(a).distance(b)))];
    if let Some(peer) = peer {
        sides.push(Side::new(against, || peer.seconds(&question)));
    }
    run_rounds(rounds, &mut sides);
    println!("\n{name}: {} and {} letters, distance {distance}", a.len(), b.len());
    for side in &sides {
        let seconds = side.spread().median;
        println!(
            "{:<18} {:>10.3} ms, {:.3e} cells of the table/s",
            side.name,
            1e3 * seconds,
            cells as f64 / seconds
        );
    }
    if let Some(side) = sides.get(1) {
        let ratio = sides[0].faster_than(side);
        println!("ratio       {ratio} times {against}");
        verdict(name, ratio.median, BAR, ratio.median >= BAR);
    }
}

/// Random pairs beside RapidFuzz.
pub(super) fn run_long(rounds: usize, folder: &Path, peer: &mut Option<Peer>) {
    let mut random = Random::new(5);
    for letters in [4_000, 20_000, 100_000] {
        let (a, b) = (text(&mut random, letters), text(&mut random, letters));
        run_pair((&format!("long-{letters}"), "rapidfuzz"), (&a, &b), rounds, folder, peer);
    }
}

/// Similar pairs beside edlib.
pub(super) fn run_similar(rounds: usize, folder: &Path, peer: &mut Option<Peer>) {
    let mut random = Random::new(6);
    for (letters, percent) in [(10_000, 1), (10_000, 10), (100_000, 1), (100_000, 10)] {
        let a = text(&mut random, letters);
        let b = edited(&mut random, &a, f64::from(percent) / 100.0);
        run_pair((&format!("similar-{letters}-{percent}%"), "edlib"), (&a, &b), rounds, folder, peer);
    }
}

/// The tiles of one pair by `edit_distances.yaml`, on so many workers and on one, by the wall clock.
pub(super) fn run_workers(rounds: usize, workers: usize, folder: &Path) {
    for letters in SHARED {
        run_shared(letters, rounds, workers, folder);
    }
}

fn run_shared(letters: usize, rounds: usize, workers: usize, folder: &Path) {
    let mut random = Random::new(7);
    let mut line = |name: &str| {
        let text: String = text(&mut random, letters).into_iter().collect();
        format!("{{\"name\": \"{name}\", \"object\": \"{text}\"}}\n")
    };
    fs::write(folder.join("pair.jsonl"), line("a") + &line("b")).expect("a disk");
    let values = |out: &str| {
        let text = |text: &str| Value::Text(text.to_owned());
        BTreeMap::from([
            ("texts".to_owned(), text(&folder.join("pair.jsonl").display().to_string())),
            ("queries".to_owned(), Value::List(vec![text("a")])),
            ("out".to_owned(), text(&folder.join(out).display().to_string())),
        ])
    };
    let world = |workers: usize, out: &str| {
        let runtime = Runtime::start(Config::flat(workers)).expect("the system gives threads");
        let declaration = &shipped::EDIT_DISTANCES.load().declaration;
        let environment = Environment { maps: true, ..Environment::of_slots(workers) };
        let prepared = Prepared::new(declaration, &catalog(), &values(out), &environment);
        (runtime, Arc::new(prepared.unwrap_or_else(|error| panic!("{error}"))))
    };
    let seconds = |(runtime, prepared): &(Runtime, Arc<Prepared>)| {
        let begun = Instant::now();
        let request =
            runtime.submit(prepared, &Submission::default()).unwrap_or_else(|error| panic!("{error}"));
        request.wait().result.unwrap_or_else(|error| panic!("{error}"));
        begun.elapsed().as_secs_f64()
    };
    let (one, all) = (world(1, "one.csv"), world(workers, "all.csv"));
    let mut sides = vec![
        Side::new(format!("{workers} workers"), || seconds(&all)),
        Side::new("1 worker", || seconds(&one)),
    ];
    run_rounds(rounds, &mut sides);
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("the run has written it");
    assert_eq!(read("one.csv"), read("all.csv"), "the distances are the same");
    assert_eq!(read("one.csv").lines().count(), 3, "a title, the query itself, and the other text");
    println!("\nworkers: a pair of {letters} letters in tiles, by edit_distances.yaml");
    for side in &sides {
        let rate = Spread::of(side.seconds.iter().map(|seconds| (letters * letters) as f64 / seconds / 1e9));
        println!("{:<18} {rate:>24} 1e9 cells/s", side.name);
    }
    let ratio = sides[0].faster_than(&sides[1]);
    let wanted = BAR_WORKERS * workers as f64;
    println!("ratio       {ratio} times one worker");
    verdict(&format!("workers, {letters} letters"), ratio.median, wanted, ratio.median >= wanted);
}
