//! Pipelines made in code, as texts with a thousand boxes are impractical.

use boxwork_runtime::parameter::{ParameterType, Value};
use boxwork_runtime::plan::{
    BoxDeclaration, Declaration, EdgeDeclaration, End, HintDeclaration, ParameterDeclaration,
    ResourceDeclaration, Setting,
};

use super::spin::Spin;
use super::tally::TALLY;

/// A pipeline under construction; all its boxes share one tally.
pub struct Graph {
    pub declaration: Declaration,
}

/// A count as a setting.
pub fn whole(count: impl TryInto<i64>) -> Setting {
    Setting::Value(Value::Integer(count.try_into().unwrap_or(i64::MAX)))
}

/// A text or a path as a setting.
pub fn text(text: impl Into<String>) -> Setting {
    Setting::Value(Value::Text(text.into()))
}

impl Graph {
    pub fn new() -> Self {
        let tally = ResourceDeclaration { name: TALLY.to_owned(), kind: text(TALLY), settings: Vec::new() };
        Self { declaration: Declaration { resources: vec![tally], ..Declaration::default() } }
    }

    /// A count given by each request, as a setting.
    pub fn parameter(&mut self, name: &str) -> Setting {
        self.declaration.parameters.push(ParameterDeclaration {
            name: name.to_owned(),
            kind: ParameterType::integer_from(0),
            one_of: Vec::new(),
            default: Some(Value::Integer(0)),
            optional: false,
            about: String::new(),
        });
        Setting::Parameter(name.to_owned())
    }

    pub fn add(&mut self, name: &str, kind: &str, settings: &[(&str, Setting)]) {
        let tally = (TALLY, text(TALLY));
        let settings = settings.iter().chain([&tally]);
        self.declaration.boxes.push(BoxDeclaration {
            name: name.to_owned(),
            kind: text(kind),
            copies: None,
            blocking: None,
            settings: settings.map(|(key, setting)| ((*key).to_owned(), setting.clone())).collect(),
        });
    }

    /// Adds a box that does this many steps of work for each envelope, and announces long ones.
    pub fn stage(&mut self, name: &str, iterations: Setting, spin: Spin) {
        self.add(name, "stage", &[("iterations", iterations), ("long", whole(spin.long()))]);
    }

    /// Sets the number of copies of the last box.
    pub fn copies(&mut self, count: usize) {
        if let Some(last) = self.declaration.boxes.last_mut() {
            last.copies = Some(whole(count));
        }
    }

    pub fn edge(&mut self, from: &str, to: &str, envelopes: usize) {
        let (from, to) = (end(from, None), end(to, None));
        self.declaration.edges.push(EdgeDeclaration { from, to, envelopes: Some(envelopes), bytes: None });
    }

    pub fn hint(&mut self, from: &str, to: &str, hint: &str) {
        self.declaration.hints.push(HintDeclaration { from: end(from, Some(hint)), to: end(to, Some(hint)) });
    }
}

fn end(name: &str, port: Option<&str>) -> End {
    End { name: name.to_owned(), port: port.map(str::to_owned) }
}
