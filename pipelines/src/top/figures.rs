//! The changes from one reading of a run's figures to the next, as rates.
//!
//! Boxes and edges of one name in several requests are merged: a run answers its queries in many requests, and each
//! has the same boxes.

use std::collections::BTreeMap;

use serde::Serialize;

use super::reading::Reading;

/// In the order of the page, nearest first.
const DISTANCES: [&str; 4] = ["same_core", "shared_cache", "same_node", "other_node"];

/// The rates between two readings. Times are seconds; shares are between 0 and 1.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// Seconds since the runtime started.
    pub uptime_s: f64,
    /// Seconds between the two readings.
    pub passed_s: f64,
    /// Requests under way.
    pub requests: f64,
    /// Threads, those that wait or block included.
    pub threads: f64,
    /// Tasks in request queues.
    pub queued_tasks: f64,
    /// The share of the time in which slots computed or looked for work.
    pub busy: f64,
    /// One entry a slot.
    pub slots: Vec<SlotFigures>,
    /// One entry a box, by name.
    pub boxes: Vec<BoxFigures>,
    /// One entry an edge, by its ends.
    pub edges: Vec<EdgeFigures>,
    /// One entry a blocking class, by name.
    pub classes: Vec<ClassFigures>,
}

/// The rates of a slot.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SlotFigures {
    /// Its number.
    pub slot: String,
    /// Its NUMA node.
    pub node: String,
    /// The share of the time in which it did not rest.
    pub busy: f64,
    /// Tasks per second.
    pub tasks_per_s: f64,
    /// Steals per second by distance: same core, shared cache, same node, other node.
    pub steals_per_s: [f64; DISTANCES.len()],
    /// How often a second it came to rest.
    pub parks_per_s: f64,
    /// How often a second it was given away to block.
    pub hand_overs_per_s: f64,
}

/// The rates of a box.
#[derive(Clone, Debug, Default, Serialize)]
pub struct BoxFigures {
    /// Its name.
    #[serde(rename = "box")]
    pub name: String,
    /// Its operator.
    pub operator: String,
    /// Its copies.
    pub copies: f64,
    /// The share of all slots that it used.
    pub busy: f64,
    /// Seconds per second in which it was detached, summed over copies.
    pub blocked: f64,
    /// Seconds per second between plan and firing, summed over copies.
    pub waiting: f64,
    /// Firings per second.
    pub firings_per_s: f64,
    /// Rows per second that it took.
    pub rows_in_per_s: f64,
    /// Rows per second that it made.
    pub rows_out_per_s: f64,
}

/// The rates of an edge.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EdgeFigures {
    /// The output, as `box.port`.
    pub from: String,
    /// The input, as `box.port`.
    pub to: String,
    /// Rows per second.
    pub rows_per_s: f64,
    /// Envelopes per second.
    pub envelopes_per_s: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Envelopes that wait.
    pub waiting_envelopes: f64,
    /// Bytes that wait.
    pub waiting_bytes: f64,
    /// How often a second its producer found it full.
    pub refusals_per_s: f64,
}

/// The rates of a blocking class.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ClassFigures {
    /// Its name.
    pub class: String,
    /// Operations under way.
    pub in_flight: f64,
    /// The most at once.
    pub limit: f64,
    /// Whether the runtime finds the limit.
    pub auto: bool,
    /// Operations that wait for a permit.
    pub waiting: f64,
    /// Operations per second.
    pub operations_per_s: f64,
}

/// Two readings of one run, and the seconds between them.
struct Change<'a> {
    before: &'a Reading,
    after: &'a Reading,
    seconds: f64,
}

/// Values by the texts of some labels.
type Grouped<'a, const N: usize> = BTreeMap<[&'a str; N], f64>;

impl Figures {
    /// The changes between two readings. If another run uses the address since `before`, all of `after` counts.
    pub fn between(before: &Reading, after: &Reading) -> Self {
        let uptime_s = after.value("boxwork_uptime_seconds");
        let nothing = Reading::default();
        let (before, seconds) = match uptime_s - before.value("boxwork_uptime_seconds") {
            passed if passed > 0.0 => (before, passed),
            _ => (&nothing, uptime_s.max(f64::MIN_POSITIVE)),
        };
        let change = Change { before, after, seconds };
        let slots = change.slots();
        let busy = slots.iter().map(|slot| slot.busy).fold(0.0, |sum, busy| sum + busy);
        Self {
            uptime_s,
            passed_s: seconds,
            requests: after.value("boxwork_requests"),
            threads: after.value("boxwork_threads"),
            queued_tasks: after.value("boxwork_queued_tasks"),
            busy: busy / slots.len().max(1) as f64,
            boxes: change.boxes(slots.len()),
            edges: change.edges(),
            classes: change.classes(),
            slots,
        }
    }
}

impl Change<'_> {
    /// The increase of a counter per second, summed over the samples with equal texts of these labels.
    fn rates<const N: usize>(&self, name: &str, by: [&str; N]) -> Grouped<'_, N> {
        let rise = |labels: &BTreeMap<String, String>, value: f64| {
            (value - self.before.at(name, labels)).max(0.0) / self.seconds
        };
        self.grouped(name, by, rise)
    }

    /// The present values, summed in the same way.
    fn levels<const N: usize>(&self, name: &str, by: [&str; N]) -> Grouped<'_, N> {
        self.grouped(name, by, |_, value| value)
    }

    fn grouped<const N: usize>(
        &self,
        name: &str,
        by: [&str; N],
        of: impl Fn(&BTreeMap<String, String>, f64) -> f64,
    ) -> Grouped<'_, N> {
        let mut grouped = Grouped::new();
        for (labels, value) in self.after.samples(name) {
            let key = by.map(|label| labels.get(label).map_or("", String::as_str));
            *grouped.entry(key).or_insert(0.0) += of(labels, value);
        }
        grouped
    }

    fn slots(&self) -> Vec<SlotFigures> {
        let rests = self.rates("boxwork_slot_rest_seconds_total", ["slot"]);
        let steals = self.rates("boxwork_steals_total", ["slot", "distance"]);
        let parks = self.rates("boxwork_parks_total", ["slot"]);
        let hand_overs = self.rates("boxwork_hand_overs_total", ["slot"]);
        let tasks = self.rates("boxwork_tasks_total", ["slot", "node"]).into_iter();
        let mut slots: Vec<_> = tasks
            .map(|([slot, node], tasks_per_s)| SlotFigures {
                slot: slot.to_owned(),
                node: node.to_owned(),
                busy: (1.0 - found(&rests, [slot])).clamp(0.0, 1.0),
                tasks_per_s,
                steals_per_s: DISTANCES.map(|distance| found(&steals, [slot, distance])),
                parks_per_s: found(&parks, [slot]),
                hand_overs_per_s: found(&hand_overs, [slot]),
            })
            .collect();
        // By number: as texts, 10 would precede 2.
        slots.sort_by_key(|slot| slot.slot.parse::<u64>().unwrap_or(u64::MAX));
        slots
    }

    fn boxes(&self, slots_count: usize) -> Vec<BoxFigures> {
        let by_box = |name| self.rates(name, ["box"]);
        let copies = self.levels("boxwork_box_copies", ["box"]);
        let requests = self.levels("boxwork_box_copies", ["box", "request"]);
        let busy = by_box("boxwork_box_busy_seconds_total");
        let blocked = by_box("boxwork_box_blocked_seconds_total");
        let waiting = by_box("boxwork_box_waiting_seconds_total");
        let rows_in = by_box("boxwork_box_input_rows_total");
        let rows_out = by_box("boxwork_box_output_rows_total");
        let requests_of = |name| requests.keys().filter(|[of_box, _]| *of_box == name).count().max(1);
        let firings = self.rates("boxwork_box_firings_total", ["box", "operator"]).into_iter();
        firings
            .map(|([name, operator], firings_per_s)| BoxFigures {
                name: name.to_owned(),
                operator: operator.to_owned(),
                copies: found(&copies, [name]) / requests_of(name) as f64,
                busy: found(&busy, [name]) / slots_count.max(1) as f64,
                blocked: found(&blocked, [name]),
                waiting: found(&waiting, [name]),
                firings_per_s,
                rows_in_per_s: found(&rows_in, [name]),
                rows_out_per_s: found(&rows_out, [name]),
            })
            .collect()
    }

    fn edges(&self) -> Vec<EdgeFigures> {
        let ends = ["from", "to"];
        let rows = self.rates("boxwork_edge_rows_total", ends);
        let bytes = self.rates("boxwork_edge_bytes_total", ends);
        let refusals = self.rates("boxwork_edge_refusals_total", ends);
        let waiting = self.levels("boxwork_edge_envelopes", ends);
        let waiting_bytes = self.levels("boxwork_edge_bytes", ends);
        let envelopes = self.rates("boxwork_edge_envelopes_total", ends).into_iter();
        envelopes
            .map(|(key, envelopes_per_s)| EdgeFigures {
                from: key[0].to_owned(),
                to: key[1].to_owned(),
                rows_per_s: found(&rows, key),
                envelopes_per_s,
                bytes_per_s: found(&bytes, key),
                waiting_envelopes: found(&waiting, key),
                waiting_bytes: found(&waiting_bytes, key),
                refusals_per_s: found(&refusals, key),
            })
            .collect()
    }

    fn classes(&self) -> Vec<ClassFigures> {
        let in_flight = self.levels("boxwork_class_in_flight", ["class"]);
        let auto = self.levels("boxwork_class_auto", ["class"]);
        let waiting = self.levels("boxwork_class_waiting", ["class"]);
        let operations = self.rates("boxwork_class_operations_total", ["class"]);
        let limits = self.levels("boxwork_class_limit", ["class"]).into_iter();
        limits
            .map(|(key, limit)| ClassFigures {
                class: key[0].to_owned(),
                in_flight: found(&in_flight, key),
                limit,
                auto: found(&auto, key) > 0.0,
                waiting: found(&waiting, key),
                operations_per_s: found(&operations, key),
            })
            .collect()
    }
}

fn found<const N: usize>(values: &Grouped<'_, N>, key: [&str; N]) -> f64 {
    values.get(&key).copied().unwrap_or(0.0)
}
