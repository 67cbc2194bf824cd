//! A topology as text: the tree of nodes, caches and cores, the steal order of each slot, and the notes.

use std::fmt::{Display, Formatter, Result};
use std::ops::Range;

use super::{Distance, Topology};

/// Cores go to a new line from this column on.
const COLUMNS_COUNT: usize = 96;
/// A machine with more slots shows the steal order of its first slots only: the others follow their pattern.
const STEAL_LINES_COUNT_MAX: usize = 64;

impl Display for Topology {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}, ", count(self.nodes().len(), "node"))?;
        if !self.caches().is_empty() {
            write!(f, "{}, ", count(self.caches().len(), "cache"))?;
        }
        let pinned = if self.is_virtual() { "; virtual: nothing can be pinned" } else { "" };
        let (cores, slots) = (count(self.cores().len(), "core"), count(self.slots_count(), "slot"));
        writeln!(f, "{cores}, {slots} ({}{pinned})", self.provider())?;
        let legend = if self.is_virtual() { "slots" } else { "slot:CPU" };
        writeln!(f, "each [ ] is a core with its {legend}\n")?;

        for idx in 0..self.nodes().len() {
            self.fmt_node(f, idx)?;
        }
        self.fmt_steal_order(f)?;
        if !self.notes().is_empty() {
            writeln!(f, "\nnotes")?;
        }
        self.notes().iter().try_for_each(|note| writeln!(f, "  {note}"))
    }
}

impl Topology {
    fn fmt_node(&self, f: &mut Formatter<'_>, idx: usize) -> Result {
        let node = &self.nodes()[idx];
        let last = idx + 1 == self.nodes().len();
        let facts: Vec<String> = [
            node.os_idx.filter(|&os_idx| os_idx != idx).map(|os_idx| format!("system's node {os_idx}")),
            node.package.map(|package| format!("package {package}")),
            node.memory_bytes.map(bytes),
        ]
        .into_iter()
        .flatten()
        .collect();
        let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
        writeln!(f, "{}─ node {idx}{facts}", if last { "└" } else { "├" })?;

        let bar = if last { "   " } else { "│  " };
        let caches = self.caches().iter().filter(|cache| cache.node == idx);
        let known = caches.clone().map(|cache| cache.slots.start).min().unwrap_or(node.slots.end);
        if known > node.slots.start {
            self.fmt_cores(f, bar, node.slots.start..known)?;
        }
        for cache in caches {
            let corner = if cache.slots.end == node.slots.end { "└" } else { "├" };
            let size = cache.bytes.map_or_else(String::new, |size| format!(" {}", bytes(size)));
            writeln!(f, "{bar}{corner}─ L{}{size}", cache.level)?;
            let inner = if cache.slots.end == node.slots.end { "   " } else { "│  " };
            self.fmt_cores(f, &format!("{bar}{inner}"), cache.slots.clone())?;
        }
        Ok(())
    }

    fn fmt_cores(&self, f: &mut Formatter<'_>, indent: &str, slots: Range<usize>) -> Result {
        let cores = self.core(slots.start)..=self.core(slots.end - 1);
        let cores = cores.map(|core| {
            let slots: Vec<String> =
                self.cores()[core].slots.clone().map(|slot| self.slot_name(slot)).collect();
            format!("[{}]", slots.join(" "))
        });
        let mut line = String::new();
        for core in cores {
            if !line.is_empty() && indent.chars().count() + line.len() + core.len() >= COLUMNS_COUNT {
                writeln!(f, "{indent}{line}")?;
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&core);
        }
        writeln!(f, "{indent}{line}")
    }

    fn slot_name(&self, slot: usize) -> String {
        match self.os_idx(slot) {
            Some(os_idx) => format!("{slot}:{os_idx}"),
            None if self.is_virtual() => slot.to_string(),
            None => format!("{slot}:-"),
        }
    }

    fn fmt_steal_order(&self, f: &mut Formatter<'_>) -> Result {
        if self.slots_count() == 1 {
            return Ok(());
        }
        writeln!(f, "\nsteal order, nearest first")?;
        for slot in 0..self.slots_count().min(STEAL_LINES_COUNT_MAX) {
            let rings: Vec<String> = self
                .steal_rings(slot)
                .into_iter()
                .map(|ring| match ring.distance {
                    Distance::Remote => format!("node {} {}", self.node(ring.slots[0]), ranges(ring.slots)),
                    distance => format!("{distance} {}", ranges(ring.slots)),
                })
                .collect();
            writeln!(f, "  slot {slot}: {}", rings.join(" | "))?;
        }
        match self.slots_count().saturating_sub(STEAL_LINES_COUNT_MAX) {
            0 => Ok(()),
            more => writeln!(f, "  and {} in the same way", count(more, "more slot")),
        }
    }
}

fn count(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// `32 MiB`, `4.8 GiB`
fn bytes(bytes: u64) -> String {
    let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|&(_, size)| bytes >= size) {
        Some((unit, size)) if bytes.is_multiple_of(size) => format!("{} {unit}", bytes / size),
        Some((unit, size)) => format!("{:.1} {unit}", bytes as f64 / size as f64),
        None => format!("{bytes} bytes"),
    }
}

/// `1-3,8`
fn ranges(mut slots: Vec<usize>) -> String {
    slots.sort_unstable();
    let runs = slots.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [only] => only.to_string(),
        run => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    runs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing() {
        let drawn = Topology::synthetic("pack:2 l3:2 core:2 pu:2").unwrap().first(13).to_string();
        let expected = "\
2 nodes, 4 caches, 8 cores, 13 slots (synthetic; virtual: nothing can be pinned)
each [ ] is a core with its slots

├─ node 0 (package 0)
│  ├─ L3
│  │  [0 1] [2 3]
│  └─ L3
│     [4 5] [6 7]
└─ node 1 (package 1)
   ├─ L3
   │  [8 9] [10]
   └─ L3
      [11] [12]

steal order, nearest first
  slot 0: same core 1 | shared cache 2-3 | same node 4-7 | node 1 8-12
  slot 1: same core 0 | shared cache 2-3 | same node 4-7 | node 1 8-12
  slot 2: same core 3 | shared cache 0-1 | same node 4-7 | node 1 8-12
";
        assert!(drawn.starts_with(expected), "{drawn}");
    }

    #[test]
    fn long_drawings_are_cut_and_notes_come_last() {
        let drawn = Topology::flat(100).first(101).to_string();
        assert!(drawn.lines().all(|line| line.chars().count() < 110), "{drawn}");
        assert!(
            drawn.contains("  slot 63: same node 0-62,64-100\n  and 37 more slots in the same way\n"),
            "{drawn}"
        );
        assert!(
            drawn.ends_with("\nnotes\n  1 virtual slot added to node 0 of a machine with 100\n"),
            "{drawn}"
        );
    }

    #[test]
    fn sizes_and_ranges() {
        assert_eq!(bytes(32 << 20), "32 MiB");
        assert_eq!(bytes(5_194_866_688), "4.8 GiB");
        assert_eq!(bytes(100), "100 bytes");
        assert_eq!(ranges(vec![4, 8, 2, 3]), "2-4,8");
    }
}
