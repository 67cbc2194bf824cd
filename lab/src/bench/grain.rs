//! B8, grain: the smallest task for which half, or nine tenths, of the workers' time is work.
//!
//! Three parts. `tasks` are independent boxes, one firing each; the time includes making the request. `envelopes` go
//! from one box to as many copies of another as there are workers. `closures` are spawned into a scope within one
//! firing, and timed there.

use std::collections::BTreeMap;

use boxwork_runtime::parameter::Value;
use boxwork_runtime::request::Submission;

use super::graph::{Graph, whole};
use super::rig::{Rig, Setup};
use super::spin::Spin;
use super::{Case, Error, Figures, Measured, Workload};

pub static GRAIN: Workload = Workload {
    id: "B8",
    name: "grain",
    question: "What is the smallest task that is worth a task?",
    rounds_max: 11,
    cases: |is_quick| {
        let most_us = if is_quick { 256 } else { 4096 };
        let part = |part: &str, each: usize| {
            Case::new(&[("part", &part), ("tasks_each", &each), ("most_us", &most_us)])
        };
        vec![part("tasks", 64), part("envelopes", 256), part("closures", 64)]
    },
    open,
};

/// Halvings below a microsecond.
const HALVINGS: i32 = 3;

struct Grain {
    rig: Rig,
    spin: Spin,
    workers: f64,
    tasks: u64,
    /// Whether the tasks are closures of one firing.
    nested: bool,
    /// In microseconds, in descending order.
    grains_us: Vec<f64>,
}

fn open(setup: &Setup, case: &Case) -> Result<Box<dyn Measured<Error>>, Error> {
    let tasks = case.count("tasks_each")? * setup.workers();
    let mut graph = Graph::new();
    let iterations = graph.parameter("iterations");
    match case.text("part") {
        "tasks" => {
            for idx in 0..tasks {
                graph.add(&format!("task{idx}"), "task", &[("iterations", iterations.clone())]);
            }
        }
        "envelopes" => {
            graph.add("source", "source", &[("messages", whole(tasks))]);
            graph.stage("stage", iterations, setup.spin);
            graph.copies(setup.workers());
            graph.add("end", "sink", &[]);
            let edge = 4.max(2 * setup.workers());
            graph.edge("source", "stage", edge);
            graph.edge("stage", "end", edge);
        }
        "closures" => {
            graph.add("closures", "closures", &[("iterations", iterations), ("count", whole(tasks))]);
        }
        other => {
            let wanted = "tasks, envelopes or closures";
            return Err(Error::Setting { name: "part", value: other.to_owned(), wanted });
        }
    }
    let powers = case.count("most_us")?.ilog2() as i32;
    let grains_us = (-HALVINGS..=powers).rev().map(|power| f64::from(power).exp2()).collect();
    let (workers, tasks, spin) = (setup.workers() as f64, tasks as u64, setup.spin);
    let nested = case.text("part") == "closures";
    Ok(Box::new(Grain { rig: Rig::new(setup, &graph)?, spin, workers, tasks, nested, grains_us }))
}

impl Measured<Error> for Grain {
    fn round(&mut self) -> Result<Figures, Error> {
        let mut measured = Vec::new();
        for &grain_us in &self.grains_us {
            measured.push((grain_us, self.efficiency(grain_us)?));
        }
        let mut figures = Figures::new();
        for (name, wanted) in [("metg50_us", 0.5), ("metg90_us", 0.9)] {
            figures.extend(least_grain(&measured, wanted).map(|grain| (name.to_owned(), grain)));
        }
        figures.extend(
            measured.iter().map(|(grain, efficiency)| (format!("efficiency_{grain}us"), *efficiency)),
        );
        Ok(figures)
    }
}

impl Grain {
    fn efficiency(&self, grain_us: f64) -> Result<f64, Error> {
        let iterations = self.spin.iterations(grain_us);
        let values = BTreeMap::from([("iterations".to_owned(), Value::Integer(iterations as i64))]);
        let outcome = self.rig.run_with(&Submission { values, ..Submission::default() })?;
        self.rig.check_arrived(self.tasks)?;
        self.rig.check_tasks(self.tasks, iterations)?;
        let seconds = if self.nested {
            self.rig.tally.marked_ns() as f64 / 1e9
        } else {
            outcome.duration.as_secs_f64()
        };
        Ok(self.tasks as f64 * grain_us / 1e6 / self.workers / seconds)
    }
}

/// The smallest grain that has this efficiency, interpolated between two measured grains; `None` if none has it. Larger
/// grains may have less: a disturbance of the machine makes a run less efficient, never more.
fn least_grain(measured: &[(f64, f64)], wanted: f64) -> Option<f64> {
    let place = measured.iter().rposition(|(_, efficiency)| *efficiency >= wanted)?;
    let (grain, efficiency) = measured[place];
    let Some(&(below, lower)) = measured.get(place + 1) else { return Some(grain) };
    let share = (wanted - lower) / (efficiency - lower);
    Some(below * (grain / below).powf(share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_grain_lies_between_two() {
        let measured = [(4.0, 0.9), (2.0, 0.7), (1.0, 0.3)];
        assert!((least_grain(&measured, 0.5).unwrap() - 2.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(least_grain(&measured, 0.2), Some(1.0), "it is the smallest measured grain");
        assert_eq!(least_grain(&measured, 0.95), None);
        let disturbed = [(8.0, 0.1), (4.0, 0.9), (2.0, 0.7), (1.0, 0.3)];
        assert_eq!(least_grain(&disturbed, 0.5), least_grain(&measured, 0.5));
    }
}
