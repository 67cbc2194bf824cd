//! Both sides in turns: the answers first, then the times.

use std::fs;
use std::path::Path;

use boxwork_kernels::CodePath;
use boxwork_kernels::chance::Random;
use boxwork_kernels::covariance::Points;
use boxwork_kernels::gaussian_process::pass::multiply_adds;
use boxwork_kernels::gaussian_process::{Predictor, Regression, ThisThread, likelihood, optimise};
use boxwork_lab::processor;
use boxwork_runtime::{Config, Runtime};
use serde_json::{Value, json};

use super::support::clock::thread_seconds;
use super::support::memory::{anonymous_bytes, anonymous_bytes_max, megabytes};
use super::support::peer::Peer;
use super::support::predictions::Files;
use super::support::{Arguments, Side, Spread, record, run_rounds};
use super::world::{COVARIANCE, DIMENSIONS, START, World, settings};

/// Samples that are made; a question takes the first of them.
const SAMPLES_MAX: usize = 16_384;
/// Steps of each chain in a measurement of multiply-adds: some milliseconds.
const PEAK_STEPS: usize = 100_000;
/// The greatest relative difference of two answers of f64 to a well-conditioned question.
const ANSWER: f64 = 1e-8;
/// The greatest relative difference of the likelihoods of two optima.
const OPTIMUM: f64 = 1e-6;

/// A question to both sides, and how many times as fast we mean to be as each peer.
struct Question<'a> {
    what: &'a str,
    n: usize,
    /// FLOP of the algebra.
    flop: f64,
    bars: [(&'static str, Option<f64>); 2],
}

/// The data, the peers and what was measured.
pub(super) struct Bench {
    world: World,
    new: Points,
    folder: tempfile::TempDir,
    peers: Vec<(&'static str, Peer)>,
    rounds: usize,
    record: Vec<Value>,
}

fn write(folder: &Path, name: &str, numbers: &[f64]) {
    let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    fs::write(folder.join(name), bytes).expect("data for the peers");
}

fn numbers(answer: &Value, name: &str) -> Vec<f64> {
    let list = answer[name].as_array().unwrap_or_else(|| panic!("no {name} in {answer}"));
    list.iter().map(|number| number.as_f64().expect("a number")).collect()
}

/// Compares two answers, number by number, with their largest one.
fn compare(what: &str, own: &[f64], theirs: &[f64], relative: f64) {
    assert_eq!(own.len(), theirs.len(), "{what}");
    let scale = own.iter().fold(f64::MIN_POSITIVE, |scale, x| scale.max(x.abs()));
    let apart = own.iter().zip(theirs).map(|(a, b)| (a - b).abs() / scale).fold(0.0, f64::max);
    assert!(apart <= relative, "{what}: {apart:e} apart");
    println!("checked     {what}: at most {apart:.1e} apart, relative to the largest number");
}

impl Bench {
    pub(super) fn new(arguments: &Arguments) -> Self {
        let world = World::new(SAMPLES_MAX, arguments.get("new", 1000));
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path(), "x.f64", &world.x);
        write(folder.path(), "y.f64", &world.y);
        write(folder.path(), "new.f64", &world.new);
        let new = Points::of_rows(DIMENSIONS, &world.new);
        let mut bench = Self {
            world,
            new,
            folder,
            peers: Vec::new(),
            rounds: arguments.get("rounds", 5),
            record: Vec::new(),
        };
        for name in ["sklearn", "george"] {
            if arguments.text("peers").unwrap_or("sklearn,george").split(',').any(|wanted| wanted == name) {
                let peer = bench.peer(name);
                bench.peers.extend(peer.map(|peer| (name, peer)));
            }
        }
        bench
    }

    fn peer(&self, name: &'static str) -> Option<Peer> {
        let place = self.folder.path().to_str().expect("a path in UTF-8");
        Peer::regression(name, &[place, &DIMENSIONS.to_string(), name])
    }

    fn points(&self, n: usize) -> (Points, Vec<f64>) {
        assert!((1..=SAMPLES_MAX).contains(&n), "n={n}: there are {SAMPLES_MAX} samples");
        (self.world.points(n), self.world.y[..n].to_vec())
    }

    /// Measures our side and the peers that answered.
    fn contest(&mut self, question: &Question<'_>, mut own: impl FnMut()) {
        let Question { what, n, flop, bars } = question;
        let (text, mut limits) = (format!("{what} {n}"), Vec::new());
        let mut sides = vec![Side::new("ours", || {
            let mut done = 0;
            let seconds = thread_seconds(|| {
                done = std::hint::black_box(multiply_adds(CodePath::detect(), PEAK_STEPS)).0
            });
            // A vector has half as many numbers of f64, and a multiply-add is two FLOP.
            limits.push(seconds / done as f64 * flop);
            thread_seconds(&mut own)
        })];
        let mut asked = Vec::new();
        for (name, peer) in &mut self.peers {
            let bar = bars.iter().find(|(of, _)| of == name).and_then(|(_, bar)| *bar);
            if peer.ask(&text)["error"].is_null() {
                asked.push((peer.name.clone(), bar));
                let text = &text;
                sides.push(Side::new(peer.name.clone(), move || peer.seconds(text)));
            }
        }
        run_rounds(self.rounds, &mut sides);
        let seconds: Vec<Vec<f64>> = sides.iter().map(|side| side.seconds.clone()).collect();
        let ratios: Vec<Spread> = sides[1..].iter().map(|peer| sides[0].faster_than(peer)).collect();
        drop(sides);
        let own = Spread::of(seconds[0].iter().copied());
        let share = Spread::of(limits[1..].iter().zip(&seconds[0]).map(|(limit, own)| limit / own));
        let of_limit = if *flop > 0.0 { format!("{:.2}", share.median) } else { String::new() };
        println!("{what:<10} n = {n:<6} ours    {own:.4} s   {of_limit} of f64 multiply-adds");
        let row = |peer: &str, ratio: String, theirs: String, bar: String, verdict: &str| {
            json!({
                "work": what, "n": n, "ours": format!("{own:.4} s"), "share of the limit": of_limit,
                "peer": peer, "theirs": theirs, "times as fast": ratio, "bar": bar, "verdict": verdict,
            })
        };
        if asked.is_empty() {
            self.record.push(row("", String::new(), String::new(), String::new(), ""));
        }
        for ((name, bar), (ratio, theirs)) in asked.iter().zip(ratios.iter().zip(&seconds[1..])) {
            let theirs = Spread::of(theirs.iter().copied());
            let verdict = match bar {
                Some(bar) if ratio.median >= *bar => "reached",
                Some(_) => "MISSED",
                None => "",
            };
            let bar = bar.map_or(String::new(), |bar| bar.to_string());
            println!("  {name:<38} {theirs:.4} s   {ratio:.2} x, bar {bar} {verdict}");
            self.record.push(row(name, format!("{ratio:.2}"), format!("{theirs:.4} s"), bar, verdict));
        }
    }

    pub(super) fn fit(&mut self, n: usize) {
        let ((points, targets), settings) = (self.points(n), settings(COVARIANCE));
        let fit = || Regression::fit(points.clone(), targets.clone(), &settings, &mut ThisThread);
        let model = fit().unwrap_or_else(|error| panic!("{error}"));
        for (name, peer) in &mut self.peers {
            let theirs = peer.ask(&format!("fit {n}"))["lml"].as_f64().expect("a likelihood");
            compare(
                &format!("likelihood of {n} samples, {name}"),
                &[model.log_likelihood],
                &[theirs],
                ANSWER,
            );
        }
        // The bars are stated for 2,000 samples.
        let bar = |bar: f64| (n == 2000).then_some(bar);
        let bars = [("sklearn", bar(3.0)), ("george", bar(1.3))];
        self.contest(&Question { what: "fit", n, flop: (n as f64).powi(3) / 3.0, bars }, || {
            std::hint::black_box(fit().is_ok());
        });
    }

    pub(super) fn predict(&mut self, n: usize) {
        let ((points, targets), settings) = (self.points(n), settings(COVARIANCE));
        let model = Regression::fit(points, targets, &settings, &mut ThisThread);
        let model = model.unwrap_or_else(|error| panic!("{error}"));
        let (means_alone, both) = (Predictor::new(&model, false), Predictor::new(&model, true));
        let new = self.new.clone();
        let predicted = both.predict(&new).unwrap_or_else(|error| panic!("{error}"));
        for (name, peer) in &mut self.peers {
            let answer = peer.ask(&format!("deviation {n}"));
            let (means, variances) = (numbers(&answer, "means"), numbers(&answer, "variances"));
            compare(&format!("means, {name}"), &predicted.means, &means, ANSWER);
            compare(&format!("variances, {name}"), &predicted.of_observations, &variances, ANSWER);
        }
        let bar = |bar: f64| (n == 2000).then_some(bar);
        let bars = [("sklearn", bar(8.0)), ("george", None)];
        self.contest(&Question { what: "mean", n, flop: 0.0, bars }, || {
            std::hint::black_box(means_alone.predict(&new).is_ok());
        });
        let flop = (n * n) as f64 * new.len() as f64;
        let bars = [("sklearn", bar(1.0)), ("george", None)];
        self.contest(&Question { what: "deviation", n, flop, bars }, || {
            std::hint::black_box(both.predict(&new).is_ok());
        });
    }

    pub(super) fn gradient(&mut self, n: usize) {
        let ((points, targets), settings) = (self.points(n), settings(COVARIANCE));
        let of = || likelihood(&points, &targets, &settings, &mut ThisThread);
        let (value, gradient) = of().unwrap_or_else(|error| panic!("{error}"));
        for (name, peer) in &mut self.peers {
            let answer = peer.ask(&format!("gradient {n}"));
            let theirs = answer["lml"].as_f64().expect("a likelihood");
            compare(&format!("likelihood of {n} samples, {name}"), &[value], &[theirs], ANSWER);
            let theirs = numbers(&answer, "gradient");
            compare(&format!("derivatives of {n} samples, {name}"), &gradient, &theirs, ANSWER);
        }
        let of_scikit_learn = match n {
            2000 => Some(5.0),
            4000 => Some(6.0),
            _ => None,
        };
        let bars = [("sklearn", of_scikit_learn), ("george", (n == 2000).then_some(3.0))];
        self.contest(&Question { what: "gradient", n, flop: (n as f64).powi(3), bars }, || {
            std::hint::black_box(of().is_ok());
        });
    }

    pub(super) fn optimise(&mut self, n: usize) {
        let ((points, targets), settings) = (self.points(n), settings(START));
        let of = || optimise(&points, &targets, &settings, (0, 1), &mut ThisThread);
        let found = of().unwrap_or_else(|error| panic!("{error}"));
        println!("ours        {} after {} evaluations", found.expression, found.evaluations);
        for (name, peer) in &mut self.peers {
            let Some(theirs) = peer.ask(&format!("optimise {n}"))["lml"].as_f64() else { continue };
            compare(&format!("greatest likelihood, {name}"), &[found.log_likelihood], &[theirs], OPTIMUM);
        }
        let bars = [("sklearn", (n == 1000).then_some(5.0)), ("george", None)];
        let flop = found.evaluations as f64 * (n as f64).powi(3);
        self.contest(&Question { what: "optimise", n, flop, bars }, || {
            std::hint::black_box(of().is_ok());
        });
    }

    pub(super) fn memory(&mut self, n: usize) {
        let ((points, targets), settings) = (self.points(n), settings(COVARIANCE));
        let before = anonymous_bytes();
        let (_, most) = anonymous_bytes_max(|| {
            std::hint::black_box(likelihood(&points, &targets, &settings, &mut ThisThread).is_ok())
        });
        let own = most.saturating_sub(before);
        println!("memory     n = {n:<6} ours    {:.1} MB", megabytes(own));
        let names: Vec<&'static str> = self.peers.iter().map(|(name, _)| *name).collect();
        for name in names {
            // A process of its own, that has allocated nothing yet.
            let Some(mut peer) = self.peer(name) else { continue };
            let theirs = peer.ask(&format!("memory {n}"))["bytes"].as_u64().expect("bytes") as usize;
            let share = own as f64 / theirs as f64;
            let bar = (name == "sklearn").then_some(0.3);
            let verdict = bar.map_or("", |bar| if share <= bar { "reached" } else { "MISSED" });
            let bar = bar.map_or(String::new(), |bar| format!("at most {bar}"));
            println!(
                "  {:<38} {:.1} MB   {share:.3} of it, bar {bar} {verdict}",
                peer.name,
                megabytes(theirs)
            );
            self.record.push(json!({
                "work": "memory of a gradient", "n": n, "ours": format!("{:.1} MB", megabytes(own)), "share of the limit": "",
                "peer": peer.name, "theirs": format!("{:.1} MB", megabytes(theirs)),
                "times as fast": format!("{share:.3} of its memory"), "bar": bar, "verdict": verdict,
            }));
        }
    }

    /// The most memory of streams of points.
    pub(super) fn stream(&mut self, n: usize) {
        let ((points, targets), settings) = (self.points(n), settings(COVARIANCE));
        let model = Regression::fit(points, targets, &settings, &mut ThisThread).expect("a fit");
        let files = Files::new(self.folder.path(), &model);
        let runtime = Runtime::start(Config::flat(1)).expect("the system gives a thread");
        let mut most = Vec::new();
        for count in [100_000, 1_000_000] {
            let mut random = Random::mixed(count as u64);
            files.write_points(
                DIMENSIONS,
                &(0..count * DIMENSIONS).map(|_| random.unit()).collect::<Vec<f64>>(),
            );
            let prepared = files.prepared(&runtime, "cpu", true);
            let before = anonymous_bytes();
            let (seconds, bytes) = anonymous_bytes_max(|| files.predict(&runtime, &prepared));
            assert_eq!(files.count(), count, "a prediction a point");
            let own = bytes.saturating_sub(before);
            println!(
                "stream     n = {n:<6} {count} points: {:.1} MB more than before, {seconds:.1} s",
                megabytes(own)
            );
            most.push(own);
        }
        // A tenth of what a million points themselves would take.
        let allowed = most[0] + 1_000_000 * DIMENSIONS * 8 / 10;
        let verdict = if most[1] <= allowed { "reached" } else { "MISSED" };
        println!(
            "stream     the memory of ten times as many points: bar at most {:.1} MB {verdict}",
            megabytes(allowed)
        );
        self.record.push(json!({
            "work": "memory of 1,000,000 predictions", "n": n, "ours": format!("{:.1} MB", megabytes(most[1])), "share of the limit": "",
            "peer": "of 100,000", "theirs": format!("{:.1} MB", megabytes(most[0])),
            "times as fast": "", "bar": format!("at most {:.1} MB", megabytes(allowed)), "verdict": verdict,
        }));
    }

    /// Writes the record where `results=` says.
    pub(super) fn finish(self, arguments: &Arguments) {
        let Some(path) = arguments.text("results") else { return };
        let head = json!({
            "title": "Gaussian processes on one core",
            "question": format!(
                "How fast is regression by Gaussian processes in {DIMENSIONS} dimensions, with 6 parameters and {} new points, on \
                 one core beside scikit-learn and george? Answers are compared before they are timed; medians of {} rounds in \
                 turns, and the middle half.",
                self.new.len(),
                self.rounds
            ),
            "command": [format!("cargo bench --bench gp -- {}", record::call())],
            "machine": [format!("{}, code path {}", processor(), CodePath::detect())],
            "date": record::today(),
            "limit": "fused multiply-adds of f64 in registers, on the same core in the same round, for the FLOP of the algebra alone",
            "rows": self.record,
        });
        record::write(path, &head);
    }
}
