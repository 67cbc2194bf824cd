//! The page of `boxwork explain`: a plan on a machine, described before anything runs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use boxwork_runtime::feeding::LazyDevices;
use boxwork_runtime::operator::Mode;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::plan::declaration::{COPIES, KIND};
use boxwork_runtime::plan::{Copies, Piece, Plan, PlanBox, PlanEdge, Setting};
use boxwork_runtime::topology::Topology;
use serde_json::{Value as Json, json};

use crate::catalogue::{columns_json, value_json};

/// A plan with its known values and its machine.
#[derive(Clone, Copy, Debug)]
pub struct Explained<'a> {
    /// The description of the pipeline.
    pub about: &'a str,
    /// The plan.
    pub plan: &'a Plan,
    /// The known values.
    pub values: &'a BTreeMap<String, Value>,
    /// The machine.
    pub topology: &'a Topology,
    /// Its devices.
    pub devices: &'a LazyDevices,
}

impl Explained<'_> {
    /// The page for users.
    pub fn text(&self) -> String {
        let mut page = String::new();
        if !self.about.is_empty() {
            let _ = writeln!(page, "{}\n", self.about);
        }
        let (slots, nodes) = (self.topology.slots_count(), self.topology.nodes().len());
        let queries = self.plan.queries;
        let _ = writeln!(page, "machine: {} on {}", many(slots, "slot"), many(nodes, "node"));
        let _ = writeln!(page, "request: at most {queries} quer{}\n", if queries == 1 { "y" } else { "ies" });
        self.parameters(&mut page);
        self.resources(&mut page);
        self.boxes(&mut page);
        self.edges(&mut page);
        self.hints(&mut page);
        page
    }

    fn parameters(&self, page: &mut String) {
        if self.plan.parameters.is_empty() {
            return;
        }
        let once = self.plan.bound_once();
        let rows = self.plan.parameters.iter().map(|parameter| {
            let value = match self.values.get(&parameter.name) {
                Some(value) => value.to_string(),
                None if parameter.optional => "absent".to_owned(),
                None => format!("not known yet: {}", parameter.kind),
            };
            let bound =
                if once.contains(&parameter.name.as_str()) { "once, at prepare" } else { "for each request" };
            vec![parameter.name.clone(), value, bound.to_owned()]
        });
        table(page, "parameters, and when they are bound", rows.collect());
    }

    fn resources(&self, page: &mut String) {
        if self.plan.resources.is_empty() {
            return;
        }
        let rows = self.plan.resources.iter().map(|resource| {
            let settings = resource.settings.iter().map(|(key, setting)| self.setting(key, setting));
            let settings: Vec<String> = settings.collect();
            vec![resource.name.clone(), resource.spec.name.to_owned(), settings.join(", ")]
        });
        table(page, "resources, in the order in which they are loaded", rows.collect());
    }

    fn boxes(&self, page: &mut String) {
        let rows = self.plan.order().into_iter().map(|idx| {
            let planned = &self.plan.boxes[idx];
            let mut notes = vec![planned.spec.kind.to_string()];
            notes.extend(planned.blocking.as_ref().map(|class| format!("blocks: {class}")));
            notes.extend(self.code_path(planned).map(|path| format!("code: {path}")));
            let settings =
                own_settings(planned).map(|(key, setting)| self.setting(key, setting)).collect::<Vec<_>>();
            notes.push(settings.join(", "));
            notes.retain(|note| !note.is_empty());
            let name = planned.name.clone();
            vec![name, planned.spec.name.to_string(), self.copies_text(planned), notes.join("; ")]
        });
        table(page, "boxes, in the order of the data", rows.collect());
    }

    fn edges(&self, page: &mut String) {
        if self.plan.edges.is_empty() {
            return;
        }
        page.push_str("edges, and the columns that travel\n");
        for idx in self.edge_order() {
            let edge = &self.plan.edges[idx];
            let _ = writeln!(page, "  {}", self.edge_name(edge));
            let _ = writeln!(page, "      {}", edge.descriptor);
            let _ = writeln!(page, "      {}; {}", self.limits(idx), self.sharing(edge));
        }
        page.push('\n');
    }

    fn hints(&self, page: &mut String) {
        if self.plan.hints.is_empty() {
            return;
        }
        let rows = self.plan.hints.iter().map(|hint| {
            let (writer, reader) = (&self.plan.boxes[hint.from], &self.plan.boxes[hint.to]);
            let (written, read) =
                (&writer.spec.hints_written[hint.written], &reader.spec.hints_read[hint.read]);
            let name = format!("{}.{} ~> {}.{}", writer.name, written.name, reader.name, read.name);
            vec![name, read.about.to_string()]
        });
        table(page, "hints: shared values that may be stale", rows.collect());
    }

    fn setting(&self, key: &str, setting: &Setting) -> String {
        match (setting, setting.resolve(self.values)) {
            (_, Some(value)) => format!("{key}: {value}"),
            (Setting::Parameter(name), None) => {
                let absent = self.plan.parameters.iter().any(|known| known.name == *name && known.optional);
                if absent { format!("{key}: absent") } else { format!("{key}: ${{{name}}}") }
            }
            (_, None) => format!("{key}: {}", unresolved(setting)),
        }
    }

    fn copies(&self, planned: &PlanBox) -> usize {
        planned.copies.on(self.topology.slots_count())
    }

    fn copies_text(&self, planned: &PlanBox) -> String {
        let count = self.copies(planned);
        let copies = if count == 1 { "1 copy".to_owned() } else { format!("{count} copies") };
        if planned.copies == Copies::Auto { format!("{copies} (auto)") } else { copies }
    }

    fn code_path(&self, planned: &PlanBox) -> Option<String> {
        Some((planned.spec.code_path.as_ref()?)(planned.arguments.as_ref()?, self.devices))
    }

    fn edge_name(&self, edge: &PlanEdge) -> String {
        let (from, to) = (&self.plan.boxes[edge.from], &self.plan.boxes[edge.to]);
        let input = &to.spec.inputs[edge.input];
        let mode = if input.mode == Mode::Stream { String::new() } else { format!(" ({})", input.mode) };
        format!("{}.{} -> {}.{}{mode}", from.name, from.spec.outputs[edge.output].name, to.name, input.name)
    }

    fn is_side(&self, edge: &PlanEdge) -> bool {
        self.plan.boxes[edge.to].spec.inputs[edge.input].mode == Mode::Side
    }

    fn limits(&self, idx: usize) -> String {
        let edge = &self.plan.edges[idx];
        if self.is_side(edge) {
            return "unbounded, charged to the request's budget".to_owned();
        }
        let envelopes = self.plan.edge_envelopes(idx, self.topology.slots_count());
        format!("at most {} and {}", many(envelopes, "envelope"), bytes(edge.bytes))
    }

    /// Envelopes are shared: neither a fan-out nor copies of the consumer copy columns.
    fn sharing(&self, edge: &PlanEdge) -> String {
        let readers =
            self.plan.edges.iter().filter(|other| other.from == edge.from && other.output == edge.output);
        let mut text = "by pointer".to_owned();
        let readers = readers.count();
        if readers > 1 {
            let _ = write!(text, ", shared by {readers} edges");
        }
        let copies = self.copies(&self.plan.boxes[edge.to]);
        if self.is_side(edge) && copies > 1 {
            let _ = write!(text, ", and by all {copies} copies");
        }
        text
    }

    fn edge_order(&self) -> Vec<usize> {
        let mut places = vec![0; self.plan.boxes.len()];
        for (place, idx) in self.plan.order().into_iter().enumerate() {
            places[idx] = place;
        }
        let mut edges: Vec<usize> = (0..self.plan.edges.len()).collect();
        edges.sort_by_key(|idx| {
            let edge = &self.plan.edges[*idx];
            (places[edge.from], edge.output, places[edge.to], edge.input)
        });
        edges
    }

    /// The page for programs.
    pub fn json(&self) -> Json {
        let plan = self.plan;
        let once = plan.bound_once();
        let parameters: Vec<Json> = plan
            .parameters
            .iter()
            .map(|parameter| {
                json!({
                    "name": parameter.name, "type": parameter.kind.to_string(),
                    "value": self.values.get(&parameter.name).map(value_json),
                    "bound": if once.contains(&parameter.name.as_str()) { "prepare" } else { "request" },
                    "about": parameter.about,
                })
            })
            .collect();
        let resources: Vec<Json> = plan
            .resources
            .iter()
            .map(|resource| {
                let settings = self.settings_json(resource.settings.iter());
                json!({"name": resource.name, "kind": resource.spec.name, "settings": settings})
            })
            .collect();
        let boxes: Vec<Json> = self
            .plan
            .order()
            .into_iter()
            .map(|idx| {
                let planned = &plan.boxes[idx];
                json!({
                    "name": planned.name, "operator": planned.spec.name, "kind": planned.spec.kind.to_string(),
                    "copies": self.copies(planned), "copies_auto": planned.copies == Copies::Auto,
                    "blocking": planned.blocking, "code_path": self.code_path(planned),
                    "settings": self.settings_json(own_settings(planned)),
                })
            })
            .collect();
        let edges: Vec<Json> = self.edge_order().into_iter().map(|idx| self.edge_json(idx)).collect();
        let hints: Vec<Json> = plan
            .hints
            .iter()
            .map(|hint| {
                let (writer, reader) = (&plan.boxes[hint.from], &plan.boxes[hint.to]);
                json!({
                    "from": writer.name, "written": writer.spec.hints_written[hint.written].name,
                    "to": reader.name, "read": reader.spec.hints_read[hint.read].name,
                })
            })
            .collect();
        json!({
            "about": self.about,
            "machine": {"slots": self.topology.slots_count(), "nodes": self.topology.nodes().len()},
            "queries": plan.queries, "parameters": parameters, "resources": resources, "boxes": boxes, "edges": edges, "hints": hints,
        })
    }

    fn edge_json(&self, idx: usize) -> Json {
        let edge = &self.plan.edges[idx];
        let (from, to) = (&self.plan.boxes[edge.from], &self.plan.boxes[edge.to]);
        let (output, input) = (&from.spec.outputs[edge.output], &to.spec.inputs[edge.input]);
        let envelopes = self.plan.edge_envelopes(idx, self.topology.slots_count());
        let bounded = !self.is_side(edge);
        json!({
            "from": from.name, "output": output.name, "to": to.name, "input": input.name,
            "mode": input.mode.to_string(), "columns": columns_json(&edge.descriptor),
            "envelopes": bounded.then_some(envelopes), "bytes": bounded.then_some(edge.bytes),
            "by_pointer": true,
        })
    }

    fn settings_json<'s>(&self, settings: impl Iterator<Item = &'s (String, Setting)>) -> Json {
        let json = |setting: &Setting| match setting.resolve(self.values) {
            Some(value) => value_json(&value),
            None => Json::String(unresolved(setting)),
        };
        settings.map(|(key, setting)| (key.clone(), json(setting))).collect::<serde_json::Map<_, _>>().into()
    }
}

/// The settings that are parameters of the operator.
fn own_settings(planned: &PlanBox) -> impl Iterator<Item = &(String, Setting)> {
    planned.settings.iter().filter(|(key, _)| key != KIND && key != COPIES)
}

/// A setting as written, if its value is unknown.
fn unresolved(setting: &Setting) -> String {
    match setting {
        Setting::Value(value) => value.to_string(),
        Setting::Parameter(name) => format!("${{{name}}}"),
        Setting::Text(pieces) => pieces
            .iter()
            .map(|piece| match piece {
                Piece::Literal(text) => text.clone(),
                Piece::Parameter(name) => format!("${{{name}}}"),
            })
            .collect(),
        Setting::List(items) => {
            format!("[{}]", items.iter().map(unresolved).collect::<Vec<_>>().join(", "))
        }
    }
}

fn table(page: &mut String, title: &str, rows: Vec<Vec<String>>) {
    let _ = writeln!(page, "{title}");
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    for row in rows {
        let mut line = String::from(" ");
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, " {cell:width$} ");
        }
        let _ = writeln!(page, "{}", line.trim_end());
    }
    page.push('\n');
}

fn many(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

fn bytes(bytes: usize) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => many(bytes, "byte"),
    }
}
