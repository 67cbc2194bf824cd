//! The shape that all models of a plan on one machine have in common: the connections between boxes.
//!
//! Boxes are counted by copy, in the order of the plan; a side edge into a box with copies counts once for each copy.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::descriptor::Descriptor;
use crate::edge::EdgeShape;
use crate::operator::{Join, Kind, Mode, PortShape};
use crate::plan::{Plan, PlanBox, PlanEdge};

/// See the module.
pub(crate) struct Shape {
    /// By box of the plan: its copies.
    pub(crate) copies: Vec<Arc<[usize]>>,
    pub(crate) boxes: Vec<BoxShape>,
    pub(crate) edges: Vec<EdgeShape>,
    /// By edge of the plan: `box.port` of both ends, for every outcome.
    pub(crate) ends: Vec<(String, String)>,
    pub(crate) hints: Vec<HintShape>,
    /// By ordered box with copies: the number of copies.
    pub(crate) reorders: Vec<usize>,
}

/// One copy of a box.
pub(crate) struct BoxShape {
    pub(crate) plan_box: usize,
    /// By input port: the edges that feed it, in the order of the plan.
    pub(crate) inputs: Vec<Vec<usize>>,
    /// By output port: the edges that it feeds.
    pub(crate) outputs: Vec<Vec<usize>>,
    /// Shared by all copies.
    pub(crate) ports: Arc<PortShape>,
    /// By the hints that it reads: the cells that feed it.
    pub(crate) hints_read: Vec<Vec<usize>>,
    /// By the hints that it writes: their cells.
    pub(crate) hints_written: Vec<usize>,
    /// The order of an ordered box with copies.
    pub(crate) reorder: Option<usize>,
}

/// A hint that a box writes.
pub(crate) struct HintShape {
    pub(crate) join: Join,
    pub(crate) readers: Arc<[usize]>,
}

/// `box.port` of both ends.
fn ends(plan: &Plan, edge: &PlanEdge) -> (String, String) {
    let (from, to) = (&plan.boxes[edge.from], &plan.boxes[edge.to]);
    (
        format!("{}.{}", from.name, from.spec.outputs[edge.output].name),
        format!("{}.{}", to.name, to.spec.inputs[edge.input].name),
    )
}

/// By box: its ports. The columns of an output are those of its first edge.
fn ports(plan: &Plan) -> Vec<Arc<PortShape>> {
    let outputs = |planned: &PlanBox| vec![Descriptor::default(); planned.spec.outputs.len()];
    let mut of_boxes: Vec<Vec<Descriptor>> = plan.boxes.iter().map(outputs).collect();
    for edge in plan.edges.iter().rev() {
        of_boxes[edge.from][edge.output] = edge.descriptor.clone();
    }
    let shape = |(planned, descriptors): (&PlanBox, Vec<Descriptor>)| {
        Arc::new(PortShape { spec: Arc::clone(&planned.spec), descriptors: descriptors.into() })
    };
    plan.boxes.iter().zip(of_boxes).map(shape).collect()
}

impl Shape {
    /// The shape on a machine with these slots and nodes.
    pub(crate) fn new(plan: &Plan, (slots, nodes): (usize, usize)) -> Self {
        debug_assert!(slots >= nodes && nodes > 0, "a machine has a node without a slot, or no node");
        let mut shape = Self {
            copies: Vec::with_capacity(plan.boxes.len()),
            boxes: Vec::new(),
            edges: Vec::new(),
            ends: plan.edges.iter().map(|edge| ends(plan, edge)).collect(),
            hints: Vec::new(),
            reorders: Vec::new(),
        };
        let ports = ports(plan);
        for (plan_box, planned) in plan.boxes.iter().enumerate() {
            let (first, count) = (shape.boxes.len(), planned.copies.on(slots));
            shape.copies.push((first..first + count).collect());
            let reorder = (planned.spec.kind == Kind::Ordered && count > 1).then(|| {
                shape.reorders.push(count);
                shape.reorders.len() - 1
            });
            shape.boxes.extend((0..count).map(|_| BoxShape {
                plan_box,
                inputs: vec![Vec::new(); planned.spec.inputs.len()],
                outputs: vec![Vec::new(); planned.spec.outputs.len()],
                ports: Arc::clone(&ports[plan_box]),
                hints_read: Vec::new(),
                hints_written: Vec::new(),
                reorder,
            }));
        }
        shape.connect(plan, slots, nodes);
        shape.hint(plan);
        shape.check(plan);
        shape
    }

    /// Checks that every end exists, and that both ends of an edge list the edge.
    fn check(&self, plan: &Plan) {
        if !cfg!(debug_assertions) {
            return;
        }
        debug_assert_eq!(
            self.copies.iter().map(|copies| copies.len()).sum::<usize>(),
            self.boxes.len(),
            "a copy belongs to no box, or to two"
        );
        debug_assert!(
            self.copies.iter().enumerate().all(|(plan_box, copies)| {
                !copies.is_empty() && copies.iter().all(|cell| self.boxes[*cell].plan_box == plan_box)
            }),
            "a box has no copy, or the copy of another box"
        );
        debug_assert!(
            self.edges.is_sorted_by_key(|edge| edge.plan_edge),
            "the edges of a side input's copies do not follow each other"
        );
        debug_assert!(
            self.edges.iter().all(|edge| !edge.producers.is_empty() && !edge.consumers.is_empty()),
            "an edge has no box at one of its ends"
        );
        let ends: usize = self.edges.iter().map(|edge| edge.producers.len() + edge.consumers.len()).sum();
        let ports: usize =
            self.boxes.iter().flat_map(|cell| cell.inputs.iter().chain(&cell.outputs)).map(Vec::len).sum();
        debug_assert_eq!(ends, ports, "an edge ends at a box that does not list it");
        debug_assert!(
            self.edges.iter().all(|edge| edge.envelopes_max > 0 && edge.bytes_max > 0),
            "an edge has room for nothing: its producer would wait for ever"
        );
        debug_assert_eq!(self.ends.len(), plan.edges.len(), "an edge of the plan has no names for its ends");
        debug_assert!(
            self.boxes.iter().all(|cell| cell
                .hints_read
                .iter()
                .flatten()
                .chain(&cell.hints_written)
                .all(|hint| *hint < self.hints.len())),
            "a box reads or writes a hint that has no cell"
        );
        debug_assert!(
            self.boxes.iter().all(|cell| cell.reorder.is_none_or(|order| order < self.reorders.len())),
            "a copy has its place in an order that does not exist"
        );
    }

    fn connect(&mut self, plan: &Plan, slots: usize, nodes: usize) {
        for (plan_edge, edge) in plan.edges.iter().enumerate() {
            let (producers, consumers) = (&self.copies[edge.from], &self.copies[edge.to]);
            let spec = &plan.boxes[edge.to].spec;
            if spec.inputs[edge.input].mode == Mode::Side {
                self.edges.extend(consumers.iter().map(|consumer| EdgeShape {
                    plan_edge,
                    producers: Arc::clone(producers),
                    consumers: Arc::from([*consumer]),
                    lanes: 0,
                    envelopes_max: usize::MAX,
                    bytes_max: usize::MAX,
                }));
            } else {
                // The order of an ordered box is the order in which its copies take envelopes.
                let is_free = spec.kind == Kind::Stateless && consumers.len() > 1 && nodes > 1;
                self.edges.push(EdgeShape {
                    plan_edge,
                    producers: Arc::clone(producers),
                    consumers: Arc::clone(consumers),
                    lanes: if is_free { nodes } else { 0 },
                    envelopes_max: plan.edge_envelopes(plan_edge, slots),
                    bytes_max: edge.bytes,
                });
            }
        }
        for (idx, edge) in self.edges.iter().enumerate() {
            let planned = &plan.edges[edge.plan_edge];
            for consumer in &*edge.consumers {
                self.boxes[*consumer].inputs[planned.input].push(idx);
            }
            for producer in &*edge.producers {
                self.boxes[*producer].outputs[planned.output].push(idx);
            }
        }
    }

    /// One cell for each hint that a box writes, shared by its copies.
    fn hint(&mut self, plan: &Plan) {
        let mut places = BTreeMap::new();
        for (plan_box, planned) in plan.boxes.iter().enumerate() {
            for (written, hint) in planned.spec.hints_written.iter().enumerate() {
                let reading =
                    plan.hints.iter().filter(|edge| (edge.from, edge.written) == (plan_box, written));
                let readers = reading.flat_map(|edge| self.copies[edge.to].iter().copied()).collect();
                places.insert((plan_box, written), self.hints.len());
                self.hints.push(HintShape { join: hint.join, readers });
            }
        }
        for cell in &mut self.boxes {
            let (plan_box, spec) = (cell.plan_box, &plan.boxes[cell.plan_box].spec);
            let feeding = |read| {
                let edges = plan.hints.iter().filter(|hint| (hint.to, hint.read) == (plan_box, read));
                edges.map(|hint| places[&(hint.from, hint.written)]).collect()
            };
            cell.hints_read = (0..spec.hints_read.len()).map(feeding).collect();
            cell.hints_written = (0..spec.hints_written.len()).map(|idx| places[&(plan_box, idx)]).collect();
        }
    }
}
