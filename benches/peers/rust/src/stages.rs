//! B5: the stages of the envelopes, the expected sum, and the figures.

use std::time::Instant;

use crate::{Figures, Settings, figures, quantile_us, spin};

/// Numbers of an envelope of 4 KiB.
pub const ROWS: usize = 512;
/// An envelope; its first number is the time of its making.
pub type Envelope = Vec<u64>;

#[derive(Clone)]
pub struct Stages {
    pub messages: usize,
    pub edge: usize,
    /// Steps of each stage.
    pub iterations: Vec<u64>,
    workers: f64,
    ideal_s: f64,
}

impl Stages {
    pub fn new(settings: &Settings) -> Self {
        let (count, messages) = (settings.count("stages"), settings.count("messages"));
        let (spin_us, slow) = (settings.number("spin_us"), settings.number("slow"));
        let stage_us = |idx| if idx == count / 2 { spin_us * slow } else { spin_us };
        let all_us: Vec<f64> = (0..count).map(stage_us).collect();
        let (workers, slowest_us) =
            (settings.number("workers"), all_us.iter().fold(0.0, |a: f64, b| a.max(*b)));
        let ideal_s = (all_us.iter().sum::<f64>() / workers).max(slowest_us) * messages as f64 / 1e6;
        let iterations = all_us.iter().map(|stage_us| settings.iterations(*stage_us)).collect();
        Self { messages, edge: settings.count("edge"), iterations, workers, ideal_s }
    }

    /// The sum that all stages compute.
    pub fn sum(&self) -> u64 {
        self.iterations.iter().map(|iterations| spin(*iterations) * self.messages as u64).sum()
    }

    /// The figures of a run with this start.
    pub fn figures(&self, start: Instant, sum: u64, mut latencies_ns: Vec<u64>) -> Figures {
        let seconds = start.elapsed().as_secs_f64();
        assert_eq!((latencies_ns.len(), sum), (self.messages, self.sum()));
        let hops = (self.iterations.len() + 1) as f64 * self.messages as f64;
        figures([
            ("overhead_hop_ns", (seconds - self.ideal_s) * self.workers * 1e9 / hops),
            ("envelopes_per_s", self.messages as f64 / seconds),
            ("latency_p50_us", quantile_us(&mut latencies_ns, 0.5)),
            ("latency_p99_us", quantile_us(&mut latencies_ns, 0.99)),
        ])
    }
}

/// Makes an envelope now.
pub fn envelope(origin: Instant) -> Envelope {
    vec![origin.elapsed().as_nanos() as u64; ROWS]
}

/// The age of an envelope.
pub fn age_ns(origin: Instant, envelope: &Envelope) -> u64 {
    origin.elapsed().as_nanos() as u64 - envelope[0]
}
