//! The counters of a trace: the numbers of waiting tasks and envelopes, from one event to the next.
//!
//! The runtime read request queues and edges when it recorded an event; a class's counts follow from its closures.

use std::collections::BTreeMap;

use boxwork_runtime::statistics::TraceKind;

use super::slices::end_ns;
use super::{Mark, MarkKind, Recorded};

/// The tracks of all counters: the nodes' request queues, then the edges, then the blocking classes.
pub(super) struct Counters {
    nodes: usize,
    edges: Vec<String>,
    /// By an edge's index: its track among the edges. Edges to the copies of a box have one name, and one track.
    edge_tracks: Vec<usize>,
    classes: Vec<String>,
}

impl Counters {
    pub(super) fn new(recorded: &Recorded<'_>) -> Self {
        let mut edges: Vec<String> = Vec::new();
        let edge_tracks = recorded.edges.iter().map(|name| {
            edges.iter().position(|known| known == name).unwrap_or_else(|| {
                edges.push(name.clone());
                edges.len() - 1
            })
        });
        let edge_tracks = edge_tracks.collect();
        let mut classes: Vec<String> = Vec::new();
        for event in recorded.events {
            if let TraceKind::Detached { class, .. } | TraceKind::Permit { class, .. } = &event.kind
                && !classes.contains(class)
            {
                classes.push(class.clone());
            }
        }
        classes.sort();
        Self { nodes: recorded.topology.nodes().len(), edges, edge_tracks, classes }
    }

    /// The processes that only hold counters.
    pub(super) fn processes(&self) -> impl Iterator<Item = (usize, &'static str)> {
        [(self.nodes, "edges"), (self.nodes + 1, "blocking classes")].into_iter()
    }

    /// The process and the name of a track.
    pub(super) fn track(&self, track: usize) -> (usize, &str) {
        if track < self.nodes {
            return (track, "request queues");
        }
        match self.edges.get(track - self.nodes) {
            Some(edge) => (self.nodes, edge),
            None => (self.nodes + 1, &self.classes[track - self.nodes - self.edges.len()]),
        }
    }

    pub(super) fn marks(&self, recorded: &Recorded<'_>) -> Vec<Mark> {
        let mut marks = self.waiting(recorded);
        marks.extend(self.blocking(recorded));
        marks
    }

    /// The request queues and the edges.
    fn waiting(&self, recorded: &Recorded<'_>) -> Vec<Mark> {
        let mut marks = Vec::new();
        let mut order: Vec<usize> = (0..recorded.events.len()).collect();
        order.sort_by_key(|idx| end_ns(&recorded.events[*idx]));
        let mut queued = vec![None; self.nodes];
        // By track the sum over all requests and copies, and the part of each.
        let mut sums = vec![0; self.edges.len()];
        let mut parts: BTreeMap<(u64, usize), usize> = BTreeMap::new();
        let mut last_ns = 0;
        for event in order.into_iter().map(|idx| &recorded.events[idx]) {
            last_ns = end_ns(event);
            let node = recorded.topology.node(event.slot);
            if queued[node].replace(event.queued) != Some(event.queued) {
                let what = MarkKind::Count(node, vec![("tasks", event.queued)]);
                marks.push(Mark { at_ns: last_ns, what });
            }
            let TraceKind::Firing { request, edges, .. } = &event.kind else { continue };
            for (place, depth) in edges {
                let Some(track) = self.edge_tracks.get(*place).copied() else { continue };
                let before = parts.insert((*request, *place), *depth);
                if before != Some(*depth) {
                    sums[track] = sums[track] - before.unwrap_or(0) + depth;
                    marks.push(self.depth(track, last_ns, sums[track]));
                }
            }
        }
        // A failed request left envelopes behind, which its end freed.
        let left = sums.iter().enumerate().filter(|(_, sum)| **sum > 0);
        marks.extend(left.map(|(track, _)| self.depth(track, last_ns, 0)));
        marks
    }

    fn depth(&self, edge: usize, at_ns: u64, envelopes: usize) -> Mark {
        Mark { at_ns, what: MarkKind::Count(self.nodes + edge, vec![("envelopes", envelopes)]) }
    }

    /// The blocking classes.
    fn blocking(&self, recorded: &Recorded<'_>) -> Vec<Mark> {
        // By class and time: the changes of the numbers that wait, block and attach.
        let mut changes: BTreeMap<(usize, u64), [isize; 3]> = BTreeMap::new();
        for event in recorded.events {
            let (class, permit_ns, blocked_ns) = match &event.kind {
                TraceKind::Detached { class, permit_ns, blocked_ns, .. } => (class, *permit_ns, *blocked_ns),
                TraceKind::Permit { class, .. } => (class, end_ns(event) - event.begin_ns, 0),
                _ => continue,
            };
            let Ok(class) = self.classes.binary_search(class) else { continue };
            let permitted = event.begin_ns + permit_ns;
            let returned = permitted + blocked_ns;
            let ends = [event.begin_ns, permitted, returned, end_ns(event).max(returned)];
            for (phase, ends) in ends.windows(2).enumerate() {
                changes.entry((class, ends[0])).or_default()[phase] += 1;
                changes.entry((class, ends[1])).or_default()[phase] -= 1;
            }
        }
        let mut counts = vec![[0_isize; 3]; self.classes.len()];
        let mark = |((class, at_ns), change): ((usize, u64), [isize; 3])| {
            for (count, change) in counts[class].iter_mut().zip(change) {
                *count += change;
            }
            let [waiting, blocked, attaching] =
                counts[class].map(|count| usize::try_from(count).unwrap_or(0));
            let values =
                vec![("wait for a permit", waiting), ("block", blocked), ("wait for a slot", attaching)];
            Mark { at_ns, what: MarkKind::Count(self.nodes + self.edges.len() + class, values) }
        };
        changes.into_iter().map(mark).collect()
    }
}
