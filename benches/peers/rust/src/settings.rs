//! The `WORKLOAD name=value ...` arguments.

use std::collections::BTreeMap;

pub struct Settings {
    pub workload: String,
    pub ns_per_iteration: f64,
    values: BTreeMap<String, String>,
}

impl Settings {
    pub fn read() -> Self {
        let mut arguments = std::env::args().skip(1);
        let workload = arguments.next().unwrap_or_default();
        let pair = |argument: String| {
            argument.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
        };
        Self { workload, ns_per_iteration: crate::calibrate(), values: arguments.filter_map(pair).collect() }
    }

    pub fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    pub fn number(&self, name: &str) -> f64 {
        self.text(name).parse().unwrap_or_else(|_| panic!("{name} is missing or no number"))
    }

    pub fn count(&self, name: &str) -> usize {
        self.number(name) as usize
    }

    pub fn workers(&self) -> usize {
        self.count("workers")
    }

    pub fn iterations(&self, microseconds: f64) -> u64 {
        (microseconds * 1e3 / self.ns_per_iteration).round() as u64
    }
}
