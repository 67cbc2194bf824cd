//! Shared by the benches: arguments, the machine, rounds of measuring, synthetic signatures, a peer's process.
//!
//! Sides are measured in turn, a part of each in every round, and compared within a round, so that a disturbance of the
//! machine affects both. A ratio is the median of the rounds' ratios, never the ratio of two medians.

#![allow(dead_code, reason = "every bench uses a part of it")]

pub mod clock;
pub mod memory;
pub mod peer;
pub mod predictions;
pub mod record;
pub mod request;
pub mod signatures;
pub mod store;
pub mod timeline;

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::fs;
use std::str::FromStr;

use boxwork_lab::processor;
use mimalloc::MiMalloc;

// That of the command: thousands of queries are many allocations, and large ones of the system's allocator are new pages each time.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The `name=value` arguments of a bench.
pub struct Arguments {
    given: BTreeMap<String, String>,
}

impl Arguments {
    /// Appends a row to the file that `csv=` names, if it is given: data for a figure.
    pub fn append_csv(&self, fields: &[&str]) {
        use std::io::Write as _;
        let Some(path) = self.text("csv") else { return };
        let file = fs::File::options().create(true).append(true).open(path);
        let written = file.and_then(|mut file| writeln!(file, "{}", fields.join(",")));
        written.unwrap_or_else(|error| panic!("csv={path}: {error}"));
    }

    /// Reads the arguments; refuses an unknown one and lists the known ones.
    pub fn read(names: &[&str]) -> Self {
        let mut given = BTreeMap::new();
        // Cargo adds `--bench`.
        for argument in std::env::args().skip(1).filter(|argument| argument != "--bench") {
            match argument.split_once('=') {
                Some((name, value)) if names.contains(&name) => {
                    given.insert(name.to_owned(), value.to_owned());
                }
                _ => {
                    eprintln!(
                        "`{argument}` is no argument of this bench: write NAME=VALUE with one of {}",
                        names.join(", ")
                    );
                    std::process::exit(2);
                }
            }
        }
        Self { given }
    }

    /// The value of an argument, or the given default.
    pub fn get<T: FromStr>(&self, name: &str, default: T) -> T {
        match self.given.get(name) {
            None => default,
            Some(text) => text.parse().unwrap_or_else(|_| {
                eprintln!("{name}={text} cannot be read");
                std::process::exit(2);
            }),
        }
    }

    /// The text of an argument, if it is given.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.given.get(name).map(String::as_str)
    }
}

/// Prints the machine on which the figures below are measured.
pub fn print_machine() {
    println!("machine     {}", processor());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("            {cores} logical cores, {:.2} GHz by a chain of shifts", clock::gigahertz());
    // Other processes that compute at the same time affect the figures.
    if let Ok(load) = fs::read_to_string("/proc/loadavg") {
        println!("            load {} before the start", load.split(' ').next().unwrap_or("unknown"));
    }
}

/// The median of some figures, and the middle half of them.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Spread {
    /// The spread of at least one figure.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |quarter: usize| sorted[(sorted.len() - 1) * quarter / 4];
        Self { median: at(2), low: at(1), high: at(3) }
    }
}

impl Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(1);
        let Self { median, low, high } = self;
        let text = format!("{median:.digits$} ({low:.digits$} to {high:.digits$})");
        f.pad_integral(true, "", &text)
    }
}

/// One side of a comparison: a name, and a closure that measures it once.
pub struct Side<'a> {
    pub name: String,
    /// Seconds for one unit of work.
    measure: Box<dyn FnMut() -> f64 + 'a>,
    /// Measured seconds, by round.
    pub seconds: Vec<f64>,
}

impl<'a> Side<'a> {
    /// A side that measures itself.
    pub fn new(name: impl Into<String>, measure: impl FnMut() -> f64 + 'a) -> Self {
        Self { name: name.into(), measure: Box::new(measure), seconds: Vec::new() }
    }

    /// A side whose call does `units` of work, measured by this thread's processor time, and repeated until a
    /// measurement takes some milliseconds.
    pub fn on_this_core(name: impl Into<String>, units: usize, mut work: impl FnMut() + 'a) -> Self {
        /// Long enough to make the clock's resolution negligible.
        const SECONDS_MIN: f64 = 0.004;
        work();
        let once = clock::thread_seconds(&mut work);
        let calls = (SECONDS_MIN / once).ceil().clamp(1.0, 1e6) as usize;
        Self::new(name, move || {
            let seconds = clock::thread_seconds(|| (0..calls).for_each(|_| work()));
            seconds / (calls * units) as f64
        })
    }

    /// Seconds for one unit, over the rounds.
    pub fn spread(&self) -> Spread {
        Spread::of(self.seconds.iter().copied())
    }

    /// How many times as fast this side is as another.
    pub fn faster_than(&self, other: &Side<'_>) -> Spread {
        Spread::of(other.seconds.iter().zip(&self.seconds).map(|(other, own)| other / own))
    }
}

/// Measures all sides in turn; the first round is discarded.
pub fn run_rounds(rounds: usize, sides: &mut [Side<'_>]) {
    let count = sides.len();
    for round in 0..=rounds {
        // Each round begins with another side, so that no side always follows the same one.
        for side in (0..count).map(|place| (place + round) % count) {
            let side = &mut sides[side];
            let seconds = (side.measure)();
            if round > 0 {
                side.seconds.push(seconds);
            }
        }
    }
}

/// Prints a figure and its bar.
pub fn verdict(what: &str, figure: f64, wanted: f64, is_reached: bool) {
    let word = if is_reached { "reached" } else { "MISSED" };
    println!("target      {what}: {figure:.3} of {wanted:.3} {word}");
}
