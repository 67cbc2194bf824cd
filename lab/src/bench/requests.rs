//! B10, many requests: pipelines of five boxes that arrive together, or one by one at random.
//!
//! With `load=0` all arrive together; otherwise it is the share of the workers that the requests need, arriving with
//! exponential pauses from a fixed seed. Tasks from other nodes come from the statistics; a machine of several nodes
//! (`--topology`) shows whether requests stay at home; with `homes=0` requests have no home.

use std::thread;
use std::time::{Duration, Instant};

use boxwork_runtime::Config;
use boxwork_runtime::statistics::SchedulerStatistics;
use boxwork_runtime::topology::Distance;

use super::graph::{Graph, whole};
use super::rig::{Rig, Setup};
use super::{Case, Error, Figures, Measured, Workload, figures};
use crate::spread::quantile_us;

pub static REQUESTS: Workload = Workload {
    id: "B10",
    name: "requests",
    question: "How long do many requests take, together and each?",
    rounds_max: 21,
    cases: |is_quick| {
        let messages = if is_quick { 8 } else { 64 };
        let case = |load: f64, homes: u8| {
            Case::new(&[
                ("requests", &64),
                ("load", &load),
                ("homes", &homes),
                ("messages", &messages),
                ("spin_us", &10),
                ("edge", &4),
            ])
        };
        vec![case(0.0, 1), case(0.0, 0), case(0.7, 1)]
    },
    open,
};

/// Working boxes of a request; one more sends and one receives.
const STAGES: usize = 3;

struct Requests {
    rig: Rig,
    /// The time of each arrival, from the start.
    arrivals: Vec<Duration>,
    messages: u64,
    iterations: u64,
    ideal_s: f64,
}

fn open(setup: &Setup, case: &Case) -> Result<Box<dyn Measured<Error>>, Error> {
    let (requests, messages) = (case.count("requests")?, case.count("messages")?);
    let (load, spin_us, edge) = (case.number("load")?, case.number("spin_us")?, case.count("edge")?);
    let iterations = setup.spin.iterations(spin_us);
    let mut graph = Graph::new();
    graph.add(
        "source",
        "source",
        &[("messages", whole(messages)), ("rows", whole(512)), ("stamped", whole(1))],
    );
    let mut before = "source".to_owned();
    for idx in 0..STAGES {
        let name = format!("stage{idx}");
        graph.stage(&name, whole(iterations), setup.spin);
        graph.edge(&before, &name, edge);
        before = name;
    }
    graph.add("end", "sink", &[("stamped", whole(1))]);
    graph.edge(&before, "end", edge);
    let request_s = (STAGES * messages) as f64 * spin_us / 1e6 / setup.workers() as f64;
    let arrivals = arrivals(requests, if load > 0.0 { request_s / load } else { 0.0 });
    let ideal_s = request_s * requests as f64;
    let homes = case.number("homes")? > 0.0;
    let rig = Rig::with(setup, &graph, Config { homes, ..Config::new(setup.topology.clone()) })?;
    Ok(Box::new(Requests { rig, arrivals, messages: messages as u64, iterations, ideal_s }))
}

/// Times with exponential pauses of this mean between them.
fn arrivals(count: usize, mean_s: f64) -> Vec<Duration> {
    let (mut state, mut seconds) = (88_172_645_463_325_252_u64, 0.0);
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let uniform = ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        seconds -= mean_s * uniform.ln();
        Duration::from_secs_f64(seconds)
    };
    (0..count).map(next).collect()
}

impl Measured<Error> for Requests {
    fn round(&mut self) -> Result<Figures, Error> {
        self.rig.tally.reset();
        let (start, before) = (Instant::now(), self.rig.runtime.statistics());
        let mut requests = Vec::with_capacity(self.arrivals.len());
        for arrival in &self.arrivals {
            thread::sleep(arrival.saturating_sub(start.elapsed()));
            requests.push(self.rig.submit()?);
        }
        let mut times_ns = Vec::with_capacity(requests.len());
        for request in &requests {
            let outcome = request.wait();
            outcome.result?;
            times_ns.push(outcome.duration.as_nanos() as u64);
        }
        let (seconds, after) = (start.elapsed().as_secs_f64(), self.rig.runtime.statistics());
        let messages = self.messages * requests.len() as u64;
        self.rig.check_arrived(messages)?;
        self.rig.check_tasks(messages * STAGES as u64, self.iterations)?;
        let mean_ns = times_ns.iter().sum::<u64>() as f64 / times_ns.len() as f64;
        let since = |count: fn(&SchedulerStatistics) -> u64| (count(&after) - count(&before)) as f64;
        Ok(figures([
            ("makespan_ms", seconds * 1e3),
            ("efficiency", self.ideal_s / seconds),
            ("request_mean_ms", mean_ns / 1e6),
            ("request_p99_ms", quantile_us(&mut times_ns, 0.99) / 1e3),
            ("steals", since(steals)),
            ("from_other_nodes", since(remote)),
            ("other_nodes_percent", 1e2 * since(remote) / since(tasks)),
        ]))
    }
}

/// Tasks that ran.
fn tasks(statistics: &SchedulerStatistics) -> u64 {
    statistics.slots.iter().map(|slot| slot.tasks).sum()
}

/// Tasks taken from other slots.
fn steals(statistics: &SchedulerStatistics) -> u64 {
    statistics.slots.iter().flat_map(|slot| slot.steals).sum()
}

/// Tasks that came from another node, by a steal or from its queues.
fn remote(statistics: &SchedulerStatistics) -> u64 {
    let far = Distance::ALL.iter().position(|distance| *distance == Distance::Remote).unwrap_or(0);
    statistics.slots.iter().map(|slot| slot.steals[far] + slot.from_other_nodes).sum()
}
