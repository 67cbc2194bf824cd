//! The page itself, in Prometheus' text exposition format, version 0.0.4.
//!
//! Counters only rise while their labels exist: figures of a request carry its number and disappear with it. Units are
//! seconds and bytes, in the name.

use boxwork_runtime::Runtime;
use boxwork_runtime::request::{BoxStatistics, EdgeStatistics, RequestStatistics};
use boxwork_runtime::statistics::{ClassStatistics, SchedulerStatistics, SlotStatistics};
use boxwork_runtime::topology::Distance;

use super::format::{Kind, Page};
use crate::numbers::seconds;
use crate::run_report;

/// The figures at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The counters of the scheduler.
    pub scheduler: SchedulerStatistics,
    /// By slot: its node.
    pub nodes: Vec<usize>,
    /// The requests under way.
    pub requests: Vec<RequestStatistics>,
}

/// Takes a snapshot; it holds a few locks for a moment each.
pub fn snapshot(runtime: &Runtime) -> Snapshot {
    let topology = runtime.topology();
    Snapshot {
        scheduler: runtime.statistics(),
        nodes: (0..topology.slots_count()).map(|slot| topology.node(slot)).collect(),
        requests: runtime.requests(),
    }
}

/// The page of a snapshot.
pub fn page(snapshot: &Snapshot) -> String {
    let mut page = Page::default();
    page.scheduler(snapshot);
    page.slots(snapshot);
    page.classes(&snapshot.scheduler.classes);
    page.requests(&snapshot.requests);
    page.boxes(&snapshot.requests);
    page.edges(&snapshot.requests);
    page.0
}

impl Page {
    fn scheduler(&mut self, snapshot: &Snapshot) {
        let scheduler = &snapshot.scheduler;
        self.family("boxwork_info", Kind::Gauge, "The running version.");
        self.sample("boxwork_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
        let uptime = scheduler.elapsed.as_secs_f64();
        self.single("boxwork_uptime_seconds", Kind::Gauge, "Time since the runtime started.", uptime);
        self.single("boxwork_requests", Kind::Gauge, "Requests under way.", scheduler.requests);
        let help = "Threads, those that wait or block included.";
        self.single("boxwork_threads", Kind::Gauge, help, scheduler.threads);
        let help = "Tasks in the request queues of a node.";
        self.family("boxwork_queued_tasks", Kind::Gauge, help);
        for (node, queued) in scheduler.queued.iter().enumerate() {
            self.sample("boxwork_queued_tasks", &[("node", &node.to_string())], queued);
        }
    }

    fn slots(&mut self, snapshot: &Snapshot) {
        let slots = &snapshot.scheduler.slots;
        let node = |slot: usize| snapshot.nodes.get(slot).copied().unwrap_or(0).to_string();
        type Of = fn(&SlotStatistics) -> u64;
        let families: [(&str, &str, Of); 4] = [
            ("boxwork_tasks_total", "Tasks that a slot ran.", |slot| slot.tasks),
            ("boxwork_parks_total", "How often a slot came to rest.", |slot| slot.parks),
            ("boxwork_wakes_total", "How often a slot was woken.", |slot| slot.wakes),
            ("boxwork_hand_overs_total", "How often a slot was given away to block.", |slot| slot.hand_overs),
        ];
        for (name, help, value) in families {
            self.family(name, Kind::Counter, help);
            for (idx, slot) in slots.iter().enumerate() {
                self.sample(name, &[("slot", &idx.to_string()), ("node", &node(idx))], value(slot));
            }
        }
        let name = "boxwork_slot_rest_seconds_total";
        self.family(
            name,
            Kind::Counter,
            "Time that a slot has rested; the rest it computed or looked for work.",
        );
        for (idx, slot) in slots.iter().enumerate() {
            let labels = [("slot", idx.to_string()), ("node", node(idx))];
            self.sample(
                name,
                &labels.each_ref().map(|(label, text)| (*label, text.as_str())),
                seconds(slot.rested_ns),
            );
        }
        let name = "boxwork_steals_total";
        self.family(
            name,
            Kind::Counter,
            "Tasks that a slot stole, by the distance of the slot that had them.",
        );
        for (idx, slot) in slots.iter().enumerate() {
            for (distance, steals) in Distance::ALL.iter().zip(slot.steals) {
                let distance = distance.to_string().replace(' ', "_");
                self.sample(name, &[("slot", &idx.to_string()), ("distance", &distance)], steals);
            }
        }
        let name = "boxwork_queue_tasks_total";
        self.family(
            name,
            Kind::Counter,
            "Tasks that a slot took from request queues, of its own node or others.",
        );
        for (idx, slot) in slots.iter().enumerate() {
            for (queue, taken) in [("own_node", slot.from_node), ("other_nodes", slot.from_other_nodes)] {
                self.sample(name, &[("slot", &idx.to_string()), ("queue", queue)], taken);
            }
        }
    }

    fn classes(&mut self, classes: &[ClassStatistics]) {
        use Kind::{Counter, Gauge};
        type Of = fn(&ClassStatistics) -> u64;
        let families: [(&str, Kind, &str, Of); 6] = [
            ("boxwork_class_limit", Gauge, "Blocking operations that may be under way at once.", |class| {
                class.limit as u64
            }),
            (
                "boxwork_class_auto",
                Gauge,
                "Whether the limit is found by the runtime: 1, or given: 0.",
                |class| u64::from(class.auto),
            ),
            ("boxwork_class_in_flight", Gauge, "Blocking operations that are under way.", |class| {
                class.in_flight as u64
            }),
            ("boxwork_class_waiting", Gauge, "Blocking operations that wait for a permit.", |class| {
                class.waiting as u64
            }),
            ("boxwork_class_operations_total", Counter, "Blocking operations so far.", |class| {
                class.operations
            }),
            ("boxwork_class_waited_total", Counter, "Blocking operations that had to wait.", |class| {
                class.waited
            }),
        ];
        for (name, kind, help, value) in families {
            self.family(name, kind, help);
            for class in classes {
                self.sample(name, &[("class", &class.name)], value(class));
            }
        }
    }

    fn requests(&mut self, requests: &[RequestStatistics]) {
        let name = "boxwork_request_busy_seconds_total";
        self.family(name, Kind::Counter, "Time in the firings of all boxes of a request, blocking left out.");
        for request in requests {
            self.sample(name, &[("request", &request.id.to_string())], seconds(request.busy_ns));
        }
        let name = "boxwork_request_moved_bytes_total";
        self.family(name, Kind::Counter, "Bytes that came through all edges of a request.");
        for request in requests {
            self.sample(name, &[("request", &request.id.to_string())], request.bytes_moved);
        }
    }

    fn boxes(&mut self, requests: &[RequestStatistics]) {
        type Of = fn(&BoxStatistics) -> f64;
        let families: [(&str, Kind, &str, Of); 9] = [
            ("boxwork_box_copies", Kind::Gauge, "Copies of a box.", |of_box| of_box.copies as f64),
            ("boxwork_box_firings_total", Kind::Counter, "Firings of a box.", |of_box| of_box.firings as f64),
            ("boxwork_box_input_rows_total", Kind::Counter, "Rows that a box took.", |of_box| {
                of_box.rows_in as f64
            }),
            ("boxwork_box_output_rows_total", Kind::Counter, "Rows that a box made.", |of_box| {
                of_box.rows_out as f64
            }),
            (
                "boxwork_box_busy_seconds_total",
                Kind::Counter,
                "Time in a box's firings, blocking left out, summed over its copies.",
                |of_box| seconds(of_box.busy_ns),
            ),
            (
                "boxwork_box_waiting_seconds_total",
                Kind::Counter,
                "Time from being planned to being fired, summed over a box's copies.",
                |of_box| seconds(of_box.waiting_ns),
            ),
            (
                "boxwork_box_blocked_seconds_total",
                Kind::Counter,
                "Time detached: waiting for a permit, blocking, waiting for a slot.",
                |of_box| seconds(of_box.blocked_ns),
            ),
            (
                "boxwork_box_undeclared_blocking_seconds_total",
                Kind::Counter,
                "Time off the CPU in firings that did not say that they block; found by samples.",
                |of_box| seconds(of_box.undeclared_blocking_ns),
            ),
            (
                "boxwork_box_undeclared_blocking_seconds_max",
                Kind::Gauge,
                "The most of it in one firing.",
                |of_box| seconds(of_box.undeclared_blocking_ns_max),
            ),
        ];
        for (name, kind, help, value) in families {
            self.family(name, kind, help);
            for request in requests {
                let id = request.id.to_string();
                for of_box in &request.boxes {
                    let labels =
                        [("request", id.as_str()), ("box", &of_box.name), ("operator", &of_box.kind)];
                    self.sample(name, &labels, value(of_box));
                }
            }
        }
    }

    fn edges(&mut self, requests: &[RequestStatistics]) {
        type Of = fn(&EdgeStatistics) -> u64;
        let families: [(&str, Kind, &str, Of); 6] = [
            ("boxwork_edge_envelopes", Kind::Gauge, "Envelopes that wait on an edge.", |edge| {
                edge.state.envelopes as u64
            }),
            ("boxwork_edge_bytes", Kind::Gauge, "Bytes that wait on an edge.", |edge| {
                edge.state.bytes as u64
            }),
            ("boxwork_edge_envelopes_total", Kind::Counter, "Envelopes that an edge took in.", |edge| {
                edge.state.envelopes_total
            }),
            ("boxwork_edge_rows_total", Kind::Counter, "Rows that an edge took in.", |edge| {
                edge.state.rows_total
            }),
            ("boxwork_edge_bytes_total", Kind::Counter, "Bytes that an edge took in.", |edge| {
                edge.state.bytes_total
            }),
            ("boxwork_edge_refusals_total", Kind::Counter, "How often an edge was found full.", |edge| {
                edge.state.refusals
            }),
        ];
        // A page may not have two samples with equal labels: the fullest edge stands for those to all copies of a box.
        let requests: Vec<_> = requests
            .iter()
            .map(|request| (request.id.to_string(), run_report::one_for_copies(&request.edges)))
            .collect();
        for (name, kind, help, value) in families {
            self.family(name, kind, help);
            for (id, edges) in &requests {
                for edge in edges {
                    let labels = [("request", id.as_str()), ("from", &edge.from), ("to", &edge.to)];
                    self.sample(name, &labels, value(edge));
                }
            }
        }
    }
}
