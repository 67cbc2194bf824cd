//! Faults of the graph as a whole: ports with too few or too many edges, cycles, diamonds.

use std::collections::BTreeSet;

use super::{Checker, HELPED_COUNT_MAX, graph};
use crate::operator::{Kind, Mode};
use crate::parameter::nearest;
use crate::plan::declaration::COPIES;
use crate::plan::{Copies, FaultKind, Place, PlanBox, PlanEdge};

impl<'a> Checker<'a> {
    /// Required ports without an edge, inputs with two edges, and boxes whose output no box reads.
    pub(super) fn ports(&mut self, boxes: &[Option<PlanBox>], edges: &[Option<PlanEdge>]) {
        let meant = self.meant();
        for (idx, planned) in boxes.iter().enumerate() {
            let Some(planned) = planned else { continue };
            for (port_idx, port) in planned.spec.inputs.iter().enumerate() {
                let feeding: Vec<usize> = (0..edges.len())
                    .filter(|edge| edges[*edge].as_ref().is_some_and(|e| e.to == idx && e.input == port_idx))
                    .collect();
                // An edge with a fault of its own may be intended for this port.
                let maybe =
                    self.declaration.edges.iter().zip(edges).any(|(declared, edge)| {
                        edge.is_none()
                            && declared.to.name == planned.name
                            && declared.to.port.as_deref().is_none_or(|name| {
                                name == &*port.name || planned.spec.input_idx(name).is_none()
                            })
                    });
                if feeding.is_empty() && port.required && !maybe && !meant.contains(planned.name.as_str()) {
                    let message =
                        format!("box `{}`: the input `{}` is not connected", planned.name, port.name);
                    let help = format!(
                        "add an edge: `- {{from: BOX, to: {}.{}}}` ({})",
                        planned.name, port.name, port.about
                    );
                    self.fault(
                        Place::Box(planned.name.clone()),
                        FaultKind::UnconnectedInput,
                        message,
                        "an input is not connected",
                        Some(help),
                    );
                }
                if port.mode != Mode::Merge {
                    for edge in feeding.iter().skip(1) {
                        let message =
                            format!("the input `{}.{}` is connected twice", planned.name, port.name);
                        let help = Some("join the streams by a `merge` box first".to_owned());
                        self.fault(
                            Place::EdgeTo(*edge),
                            FaultKind::InputConnectedTwice,
                            message,
                            "connected already",
                            help,
                        );
                    }
                }
            }
            self.ordered_copies(idx, planned, edges);
            let read = self.declaration.edges.iter().any(|edge| edge.from.name == planned.name);
            if !planned.spec.outputs.is_empty() && !read && !meant.contains(planned.name.as_str()) {
                let message = format!("nothing reads box `{}`, so it never runs", planned.name);
                self.warning(
                    Place::Box(planned.name.clone()),
                    FaultKind::UnreadBox,
                    message,
                    "no box reads it",
                    None,
                );
            }
        }
    }

    /// The boxes that misspelt ends of edges are likely to mean: their lacking edges follow from the misspelling.
    fn meant(&self) -> BTreeSet<&'a str> {
        let names: BTreeSet<&str> =
            self.declaration.boxes.iter().map(|declared| declared.name.as_str()).collect();
        let ends = self.declaration.edges.iter().flat_map(|edge| [&edge.from, &edge.to]);
        let unknown: BTreeSet<&str> = ends
            .map(|end| end.name.as_str())
            .filter(|name| !names.contains(name))
            .take(HELPED_COUNT_MAX)
            .collect();
        unknown.iter().filter_map(|name| nearest(name, names.iter().copied())).collect()
    }

    pub(super) fn cycles_and_diamonds(&mut self, boxes: &[Option<PlanBox>], edges: &[Option<PlanEdge>]) {
        let pairs: Vec<(usize, usize)> = edges.iter().flatten().map(|edge| (edge.from, edge.to)).collect();
        if let Some(cycle) = graph::cycle(boxes.len(), &pairs) {
            let mut names: Vec<&str> =
                cycle.iter().map(|idx| self.declaration.boxes[*idx].name.as_str()).collect();
            names.push(names[0]);
            let message = format!("the edges form a cycle: {}", names.join(" -> "));
            let last = self.declaration.edges.iter().zip(edges).position(|(_, edge)| {
                edge.as_ref().is_some_and(|edge| Some(&edge.from) == cycle.last() && edge.to == cycle[0])
            });
            let help = Some(
                "what must go back travels as a hint (`hints: [a.x ~> b.x]`), not along an edge".to_owned(),
            );
            self.fault(
                last.map_or(Place::Whole, Place::Edge),
                FaultKind::Cycle,
                message,
                "closes the cycle",
                help,
            );
            return;
        }
        let bounded: Vec<(usize, usize)> = edges
            .iter()
            .flatten()
            .filter(|edge| {
                boxes[edge.to].as_ref().is_some_and(|b| b.spec.inputs[edge.input].mode != Mode::Side)
            })
            .map(|edge| (edge.from, edge.to))
            .collect();
        let feeding = graph::feeding(boxes.len(), &bounded);
        for (idx, planned) in boxes.iter().enumerate() {
            let Some(planned) = planned else { continue };
            // The first edge on each input: a second one has a fault of its own.
            let streams: Vec<(usize, usize)> = (0..planned.spec.inputs.len())
                // A box does not wait for an optional input while another input has envelopes.
                .filter(|input| {
                    let input = &planned.spec.inputs[*input];
                    input.mode == Mode::Stream && input.required
                })
                .filter_map(|input| {
                    edges.iter().enumerate().find_map(|(edge_idx, edge)| {
                        let edge = edge.as_ref().filter(|edge| edge.to == idx && edge.input == input)?;
                        Some((edge_idx, edge.from))
                    })
                })
                .collect();
            // An edge whose envelopes are given was measured for the way beside it.
            let is_measured = |edge: usize| self.declaration.edges[edge].envelopes.is_some();
            for (nth, (other, a)) in streams.iter().enumerate() {
                for (edge, b) in &streams[nth + 1..] {
                    if is_measured(*edge) || is_measured(*other) {
                        continue;
                    }
                    let shared: Vec<usize> = graph::ancestors(*a, &feeding)
                        .intersection(&graph::ancestors(*b, &feeding))
                        .copied()
                        .collect();
                    if let Some(fork) = shared.last() {
                        let message = format!(
                            "`{}` takes two streams that both come from `{}`: with bounded edges one may fill while the other is waited for",
                            planned.name, self.declaration.boxes[*fork].name
                        );
                        let help = Some("make one of the inputs a side input, or give its edge more `envelopes`; the runtime grows it within the memory budget when it stalls".to_owned());
                        self.warning(Place::Edge(*edge), FaultKind::Diamond, message, "may fill up", help);
                    }
                }
            }
        }
    }

    /// Copies of an ordered box restore the order of one edge: several edges count their envelopes separately.
    fn ordered_copies(&mut self, idx: usize, planned: &PlanBox, edges: &[Option<PlanEdge>]) {
        let feeds = |edge: &PlanEdge| edge.to == idx && planned.spec.inputs[edge.input].mode != Mode::Side;
        let count = edges.iter().flatten().filter(|edge| feeds(edge)).count();
        if planned.spec.kind == Kind::Ordered && planned.copies != Copies::Count(1) && count > 1 {
            let message = format!(
                "box `{}`: the operator `{}` is ordered, and its copies cannot restore the order of {count} edges",
                planned.name, planned.spec.name
            );
            let help = "remove `copies`, or join the streams by a `merge` box first".to_owned();
            let place = Place::BoxSetting(planned.name.clone(), COPIES.to_owned());
            self.fault(place, FaultKind::CopiesOfSeveralEdges, message, "one copy only", Some(help));
        }
    }
}
