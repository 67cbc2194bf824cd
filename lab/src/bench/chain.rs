//! B1, chain: one message in flight through boxes that pass it on. Each hop is a push, a plan, a firing and a take.
//!
//! Timed: from sending the first message to the arrival of the last, inside the request; and also the cost of making
//! and ending such a request, per box.

use super::graph::{Graph, whole};
use super::rig::{Rig, Setup};
use super::{Case, Error, Figures, Measured, Workload, boxes, figures};

pub static CHAIN: Workload = Workload {
    id: "B1",
    name: "chain",
    question: "What does one hop cost, when one message is in flight?",
    rounds_max: usize::MAX,
    cases: |is_quick| {
        let sizes: &[(usize, usize)] =
            if is_quick { &[(64, 100)] } else { &[(64, 1000), (1024, 100), (16384, 5)] };
        sizes.iter().map(|(boxes, messages)| Case::new(&[("boxes", boxes), ("messages", messages)])).collect()
    },
    open,
};

struct Chain {
    rig: Rig,
    boxes: f64,
    messages: u64,
}

fn open(setup: &Setup, case: &Case) -> Result<Box<dyn Measured<Error>>, Error> {
    let (boxes, messages) = (case.count("boxes")?, case.count("messages")?);
    let mut graph = Graph::new();
    graph.add("source", "turn_source", &[("messages", whole(messages))]);
    let mut before = "source".to_owned();
    for idx in 0..boxes {
        let name = format!("hop{idx}");
        graph.add(&name, "stage", &[]);
        graph.edge(&before, &name, 1);
        before = name;
    }
    graph.add("end", "turn_sink", &[]);
    graph.edge(&before, "end", 1);
    graph.hint("end", "source", boxes::PASSES);
    Ok(Box::new(Chain { rig: Rig::new(setup, &graph)?, boxes: boxes as f64, messages: messages as u64 }))
}

impl Measured<Error> for Chain {
    fn round(&mut self) -> Result<Figures, Error> {
        let outcome = self.rig.run()?;
        self.rig.check_arrived(self.messages)?;
        let hops = (self.boxes + 1.0) * self.messages as f64;
        let inside_ns = self.rig.tally.marked_ns() as f64;
        let around_ns = outcome.duration.as_nanos() as f64 - inside_ns;
        Ok(figures([("hop_ns", inside_ns / hops), ("request_ns_per_box", around_ns / self.boxes)]))
    }
}
