//! B4, fan-out and fan-in: one source, each envelope to all of K boxes that copy it, and one stream of all copies.
//!
//! The counting box merges, as in every peer: a separate box for that would only pass envelopes on.

use super::graph::{Graph, whole};
use super::rig::{Rig, Setup};
use super::{Case, Error, Figures, Measured, Workload, figures};

pub static FAN: Workload = Workload {
    id: "B4",
    name: "fan",
    question: "How many envelopes of 64 KiB per second are broadcast, copied and merged?",
    rounds_max: usize::MAX,
    cases: |is_quick| {
        let sizes: &[(usize, usize)] =
            if is_quick { &[(2, 100), (8, 50)] } else { &[(2, 4000), (8, 1000), (64, 125)] };
        let case = |(boxes, messages): &(usize, usize)| {
            Case::new(&[("boxes", boxes), ("messages", messages), ("rows", &8192), ("edge", &4)])
        };
        sizes.iter().map(case).collect()
    },
    open,
};

struct Fan {
    rig: Rig,
    boxes: u64,
    messages: u64,
    rows: u64,
}

fn open(setup: &Setup, case: &Case) -> Result<Box<dyn Measured<Error>>, Error> {
    let (boxes, messages) = (case.count("boxes")?, case.count("messages")?);
    let (rows, edge) = (case.count("rows")?, case.count("edge")?);
    let mut graph = Graph::new();
    graph.add("source", "source", &[("messages", whole(messages)), ("rows", whole(rows))]);
    graph.add("end", "sink", &[]);
    for idx in 0..boxes {
        let name = format!("copy{idx}");
        graph.add(&name, "copy_add", &[]);
        graph.edge("source", &name, edge);
        graph.edge(&name, "end", edge);
    }
    let rig = Rig::new(setup, &graph)?;
    Ok(Box::new(Fan { rig, boxes: boxes as u64, messages: messages as u64, rows: rows as u64 }))
}

impl Measured<Error> for Fan {
    fn round(&mut self) -> Result<Figures, Error> {
        let outcome = self.rig.run()?;
        let copies = self.boxes * self.messages;
        self.rig.check_arrived(copies)?;
        // The rows count up from zero; in a copy each is one greater.
        let ends = 1 + self.rows;
        Error::unless_equal("the sum of what was copied", self.rig.tally.checksum(), ends * copies)?;
        let seconds = outcome.duration.as_secs_f64();
        let peak: usize = outcome.edges.iter().map(|edge| edge.state.bytes_high).sum();
        Ok(figures([
            ("envelopes_per_s", self.messages as f64 / seconds),
            ("copy_us", seconds * 1e6 / copies as f64),
            ("copied_gb_per_s", (copies * self.rows * 8) as f64 / seconds / 1e9),
            ("edges_mib_peak", peak as f64 / f64::from(1 << 20)),
        ]))
    }
}
