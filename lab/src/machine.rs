//! The machine on which figures were measured.

use std::fs;

use boxwork_runtime::topology::Topology;
use serde_json::{Value as Json, json};

/// A machine, and its load before the measurement.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Processes ready to run, on average over the last minute.
    pub load: Option<f64>,
    /// Its slots, cores and nodes, or those of a synthetic machine.
    pub topology: Topology,
}

impl Machine {
    /// Reads the processor's name and the load of this machine.
    pub fn look(topology: &Topology) -> Self {
        let load = fs::read_to_string("/proc/loadavg").ok();
        let load = load.and_then(|text| text.split(' ').next()?.parse().ok());
        Self { processor: processor(), load, topology: topology.clone() }
    }

    /// For example `2 slots on 1 node`, and whether the machine is synthetic.
    pub fn shape(&self) -> String {
        let plural =
            |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let topology = &self.topology;
        format!(
            "{} on {} and {}{}",
            plural(topology.slots_count(), "slot"),
            plural(topology.cores().len(), "core"),
            plural(topology.nodes().len(), "NUMA node"),
            if topology.is_virtual() { ", made up" } else { "" }
        )
    }

    /// The machine as JSON, without the topology.
    pub fn json(&self) -> Json {
        json!({"processor": self.processor, "load": self.load, "shape": self.shape()})
    }
}

/// The processor's name, with family and model, as virtual machines give many processors one name.
pub fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name));
        line.and_then(|line| line.split(':').nth(1)).map_or("unknown", str::trim).to_owned()
    };
    format!("{}, family {} model {}", field("model name"), field("cpu family"), field("model"))
}
