//! Shared by the Rust programs: the work of a task, settings, figures, and the loop that answers line by line.
//!
//! The definitions follow `lab/src/bench`, for programs that do not depend on it.

pub mod grain;
pub mod idle;
pub mod job;
pub mod nested;
pub mod settings;
pub mod stages;

use std::fmt::Write as _;
use std::hint::black_box;
use std::io::BufRead as _;
use std::time::Instant;

pub use settings::Settings;

/// Figures of one round, by name.
pub type Figures = Vec<(String, f64)>;
/// Measures once, and panics if the result is wrong.
pub type Round = Box<dyn FnMut() -> Figures>;

pub fn figures<const N: usize>(figures: [(&str, f64); N]) -> Figures {
    figures.map(|(name, figure)| (name.to_owned(), figure)).to_vec()
}

/// The number that a task computes.
#[inline(never)]
pub fn spin(iterations: u64) -> u64 {
    let mut x = black_box(1_u32);
    for _ in 0..iterations {
        x = (x ^ x >> 15).wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    }
    u64::from(x)
}

/// Nanoseconds of a step: the fastest of some runs.
pub fn calibrate() -> f64 {
    const ITERATIONS: u64 = 200_000;
    let run = |_| {
        let start = Instant::now();
        black_box(spin(black_box(ITERATIONS)));
        start.elapsed().as_secs_f64()
    };
    (0..25).map(run).fold(f64::INFINITY, f64::min) * 1e9 / ITERATIONS as f64
}

/// The latency that this share of the latencies does not exceed.
pub fn quantile_us(latencies_ns: &mut [u64], share: f64) -> f64 {
    latencies_ns.sort_unstable();
    latencies_ns[(share * (latencies_ns.len() - 1) as f64).round() as usize] as f64 / 1e3
}

/// Prints the program's name, then answers each line of the input with a line of figures. For an unknown workload it
/// ends with status 3.
pub fn serve(name: &str, open: impl FnOnce(&str, &Settings) -> Option<Round>) {
    let settings = Settings::read();
    let Some(mut round) = open(&settings.workload, &settings) else { std::process::exit(3) };
    println!("{{\"name\": \"{name}\", \"spin_ns_per_iteration\": {}}}", settings.ns_per_iteration);
    for line in std::io::stdin().lock().lines() {
        line.expect("the input is text");
        let mut answer = String::new();
        for (figure, value) in round() {
            let begin = if answer.is_empty() { "{" } else { ", " };
            let _ = write!(answer, "{begin}\"{figure}\": {value}");
        }
        println!("{answer}}}");
    }
}
