//! B5, pipeline with backpressure: envelopes of 4 KiB through stages that each work for a while, over edges of four.
//!
//! With `slow=10` the middle stage takes ten times as long, and all others wait for it: those before it with full
//! edges, those behind it with empty ones. Latency is from an envelope's making to its arrival, queues included.

use super::graph::{Graph, whole};
use super::rig::{Rig, Setup};
use super::spin::{SEED, spin};
use super::{Case, Error, Figures, Measured, Workload, figures};
use crate::spread::quantile_us;

pub static STAGES: Workload = Workload {
    id: "B5",
    name: "pipeline",
    question: "How much does a hop of a pipeline under backpressure cost beyond the work?",
    rounds_max: usize::MAX,
    cases: |is_quick| {
        let sizes: &[(usize, usize, usize)] = if is_quick {
            &[(4, 1, 1), (4, 1, 10)]
        } else {
            &[(2, 0, 1), (16, 0, 1), (2, 1, 1), (8, 1, 1), (8, 10, 1), (8, 1, 10), (16, 1, 1)]
        };
        let messages = if is_quick { 500 } else { 5000 };
        let case = |(stages, spin_us, slow): &(usize, usize, usize)| {
            Case::new(&[
                ("stages", stages),
                ("spin_us", spin_us),
                ("slow", slow),
                ("messages", &messages),
                ("edge", &4),
            ])
        };
        sizes.iter().map(case).collect()
    },
    open,
};

/// Numbers of an envelope of 4 KiB.
const ROWS: usize = 512;

struct Stages {
    rig: Rig,
    messages: u64,
    edge: usize,
    workers: f64,
    hops: f64,
    /// With no overhead: all work on all workers, or the slowest stage on one.
    ideal_s: f64,
    checksum: u64,
}

fn open(setup: &Setup, case: &Case) -> Result<Box<dyn Measured<Error>>, Error> {
    let (stages, messages, edge) = (case.count("stages")?, case.count("messages")?, case.count("edge")?);
    let (spin_us, slow) = (case.number("spin_us")?, case.number("slow")?);
    let mut graph = Graph::new();
    graph.add(
        "source",
        "source",
        &[("messages", whole(messages)), ("rows", whole(ROWS)), ("stamped", whole(1))],
    );
    let mut before = "source".to_owned();
    let (mut work_us, mut slowest_us, mut checksum) = (0.0, 0.0_f64, 0_u64);
    for idx in 0..stages {
        let stage_us = if idx == stages / 2 { spin_us * slow } else { spin_us };
        let iterations = setup.spin.iterations(stage_us);
        let name = format!("stage{idx}");
        graph.stage(&name, whole(iterations), setup.spin);
        graph.edge(&before, &name, edge);
        before = name;
        work_us += stage_us;
        slowest_us = slowest_us.max(stage_us);
        checksum = checksum.wrapping_add(u64::from(spin(iterations, SEED)).wrapping_mul(messages as u64));
    }
    graph.add("end", "sink", &[("stamped", whole(1))]);
    graph.edge(&before, "end", edge);
    let (workers, messages) = (setup.workers() as f64, messages as u64);
    let ideal_s = (work_us / workers).max(slowest_us) * messages as f64 / 1e6;
    let hops = (stages as f64 + 1.0) * messages as f64;
    let rig = Rig::new(setup, &graph)?;
    Ok(Box::new(Stages { rig, messages, edge, workers, hops, ideal_s, checksum }))
}

impl Measured<Error> for Stages {
    fn round(&mut self) -> Result<Figures, Error> {
        let outcome = self.rig.run()?;
        self.rig.check_arrived(self.messages)?;
        Error::unless_equal("the sum of the tasks' results", self.rig.tally.checksum(), self.checksum)?;
        let fullest = outcome.edges.iter().map(|edge| edge.state.envelopes_high).max().unwrap_or(0);
        if fullest > self.edge {
            let (found, wanted) = (fullest as u64, self.edge as u64);
            return Err(Error::Wrong { what: "envelopes on one edge", found, wanted });
        }
        let seconds = outcome.duration.as_secs_f64();
        let mut latencies_ns = self.rig.tally.take_latencies();
        let peak: usize = outcome.edges.iter().map(|edge| edge.state.bytes_high).sum();
        Ok(figures([
            ("overhead_hop_ns", (seconds - self.ideal_s) * self.workers * 1e9 / self.hops),
            ("envelopes_per_s", self.messages as f64 / seconds),
            ("efficiency", self.ideal_s / seconds),
            ("latency_p50_us", quantile_us(&mut latencies_ns, 0.5)),
            ("latency_p99_us", quantile_us(&mut latencies_ns, 0.99)),
            ("edges_kib_peak", peak as f64 / 1024.0),
        ]))
    }
}
