//! The order in which the pairs of a labelled store are computed, so that the ranks of a query's class need little memory.
//!
//! Objects stand by class and id; a position is a place in this order. The positions are cut into blocks of queries. In a
//! block, each query first meets the other objects of its class, and then the objects of other classes: a box that keeps
//! the distances of the class can count all later ones away. A block ends when its queries have [`MATES_MAX`] objects of
//! their classes together.
//!
//! Invariants: a store whose queries fit one block has every pair once. Otherwise a pair of two blocks comes in both, so
//! that the pairs are at most doubled; an object that is alone in its class is no query, and meets earlier blocks only as
//! their object. `class_pairs` and `evaluate` derive one order from one store.

use std::collections::BTreeMap;
use std::ops::Range;

use boxwork_kernels::interrupt::{Interrupt, Patience, ask};
use boxwork_kernels::memory::{filled, room};
use boxwork_runtime::operator::BoxError;

use crate::resources::class_of;
use boxwork_stores::store::Store;

/// Distances to objects of their classes that the queries of a block have together. At 12 bytes each these are 192 MiB.
pub(crate) const MATES_MAX: u64 = 1 << 24;

/// Objects that are put in order between two questions: about a millisecond's work.
const OBJECTS_PER_QUESTION: usize = 1 << 14;

/// The classes of a store's objects, and the blocks of its queries.
pub(crate) struct QueryBlocks {
    names: Vec<String>,
    /// The class of each object, by rank.
    class_of: Vec<u32>,
    /// The ranks of the objects, by position.
    ranks: Vec<u32>,
    /// The positions of the objects, by rank.
    positions: Vec<u32>,
    /// The first position of each class, and the end of the last.
    class_starts: Vec<u32>,
    /// The first position of each block, and the end of the last.
    block_starts: Vec<u32>,
    /// The objects of their classes that the queries of each block meet.
    block_mates: Vec<u64>,
    pairs_count: u64,
}

/// A pair of a walk, as positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) block: u32,
    /// False for two objects of one class.
    pub(crate) is_between: bool,
    pub(crate) query: u32,
    pub(crate) other: u32,
}

impl QueryBlocks {
    /// Reads the names of a store. Blocks on the disk.
    ///
    /// # Errors
    /// When a batch is damaged, no name has a class, there are too many objects, memory is refused, or the caller
    /// interrupts.
    pub(crate) fn new(store: &dyn Store, mates_max: u64, interrupt: Interrupt<'_>) -> Result<Self, BoxError> {
        let objects = usize::try_from(store.objects_count()).unwrap_or(usize::MAX);
        if u32::try_from(objects).is_err() {
            return Err(BoxError::new(format!("{objects} objects are too many: 2^32 - 1 are allowed")));
        }
        // Numbered in the order of their appearance, until all names are known.
        let mut numbers: BTreeMap<String, u32> = BTreeMap::new();
        let mut class_of_rank = room(objects, || list(objects), ADVICE)?;
        let mut has_class = false;
        for batch in 0..store.batches() {
            ask(interrupt)?;
            store.each_name(batch, &mut |id, name| {
                if store.has(id) {
                    let class = class_of(name);
                    has_class |= class.is_some();
                    let (class, next) = (class.unwrap_or_default(), numbers.len() as u32);
                    let number = match numbers.get(class) {
                        Some(number) => *number,
                        None => *numbers.entry(class.to_owned()).or_insert(next),
                    };
                    class_of_rank.push(number);
                }
            })?;
        }
        if !has_class {
            return Err(BoxError::new(format!(
                "no name in `{}` has a folder, so there are no classes to compare: name the objects CLASS/NAME",
                store.path().display()
            )));
        }
        let mut sorted = vec![0; numbers.len()];
        numbers.values().zip(0..).for_each(|(number, place)| sorted[*number as usize] = place);
        let mut patience = Patience::new(interrupt, OBJECTS_PER_QUESTION);
        for class in &mut class_of_rank {
            patience.spend(1)?;
            *class = sorted[*class as usize];
        }
        Self::of(numbers.into_keys().collect(), class_of_rank, mates_max, interrupt)
    }

    fn of(
        names: Vec<String>,
        class_of: Vec<u32>,
        mates_max: u64,
        interrupt: Interrupt<'_>,
    ) -> Result<Self, BoxError> {
        let objects = class_of.len();
        let mut patience = Patience::new(interrupt, OBJECTS_PER_QUESTION);
        let mut class_starts = vec![0u32; names.len() + 1];
        for class in &class_of {
            patience.spend(1)?;
            class_starts[*class as usize + 1] += 1;
        }
        (1..class_starts.len()).for_each(|class| class_starts[class] += class_starts[class - 1]);
        let mut next = class_starts.clone();
        let mut ranks = filled(objects, 0, || list(objects), ADVICE)?;
        let mut positions = filled(objects, 0, || list(objects), ADVICE)?;
        for (rank, class) in class_of.iter().enumerate() {
            patience.spend(1)?;
            let position = &mut next[*class as usize];
            ranks[*position as usize] = rank as u32;
            positions[rank] = *position;
            *position += 1;
        }
        let (block_starts, block_mates, pairs_count) = (vec![0], Vec::new(), 0);
        let mut blocks =
            Self { names, class_of, ranks, positions, class_starts, block_starts, block_mates, pairs_count };
        blocks.cut(mates_max, &mut patience)?;
        blocks.count(&mut patience)?;
        Ok(blocks)
    }

    fn cut(&mut self, mates_max: u64, patience: &mut Patience<'_>) -> Result<(), BoxError> {
        let mut mates = 0;
        for position in 0..self.objects() {
            patience.spend(1)?;
            let more = u64::from(self.mates(position));
            // A block has one query at least, whatever the size of its class.
            if mates > 0 && mates + more > mates_max {
                self.block_starts.push(position);
                self.block_mates.push(mates);
                mates = 0;
            }
            mates += more;
        }
        if self.objects() > 0 {
            self.block_starts.push(self.objects());
            self.block_mates.push(mates);
        }
        Ok(())
    }

    /// Counts the pairs.
    fn count(&mut self, patience: &mut Patience<'_>) -> Result<(), BoxError> {
        for block in 0..self.blocks() {
            for query in self.block(block) {
                patience.spend(1)?;
                let parts = [false, true].map(|is_between| self.others(block, query, is_between));
                self.pairs_count += parts.iter().flatten().map(|others| others.len() as u64).sum::<u64>();
            }
        }
        Ok(())
    }

    pub(crate) fn objects(&self) -> u32 {
        self.class_of.len() as u32
    }

    /// The names of the classes, in the order of their numbers.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The number of an object's class.
    pub(crate) fn class(&self, position: u32) -> usize {
        self.class_of[self.rank(position) as usize] as usize
    }

    /// The positions of a class.
    pub(crate) fn of_class(&self, class: usize) -> Range<u32> {
        self.class_starts[class]..self.class_starts[class + 1]
    }

    /// The number of other objects in an object's class.
    pub(crate) fn mates(&self, position: u32) -> u32 {
        self.of_class(self.class(position)).len() as u32 - 1
    }

    pub(crate) fn rank(&self, position: u32) -> u32 {
        self.ranks[position as usize]
    }

    pub(crate) fn position(&self, rank: u32) -> u32 {
        self.positions[rank as usize]
    }

    pub(crate) fn blocks(&self) -> u32 {
        self.block_starts.len() as u32 - 1
    }

    /// The objects of their classes that the queries of a block meet.
    pub(crate) fn block_mates(&self, block: u32) -> u64 {
        self.block_mates[block as usize]
    }

    /// The positions of a block's queries.
    pub(crate) fn block(&self, block: u32) -> Range<u32> {
        self.block_starts[block as usize]..self.block_starts[block as usize + 1]
    }

    /// The place of a pair in the order, if the first of the two is the query.
    pub(crate) fn place(&self, query: u32, other: u32) -> Place {
        let block = self.block_starts.partition_point(|start| *start <= query) as u32 - 1;
        Place { block, is_between: self.class(query) != self.class(other), query, other }
    }

    /// The objects that a query meets: those of earlier blocks, and those that follow it.
    fn others(&self, block: u32, query: u32, is_between: bool) -> [Range<u32>; 2] {
        let (start, class) = (self.block(block).start, self.of_class(self.class(query)));
        if !is_between {
            return [class.start..start.max(class.start), query + 1..class.end];
        }
        let before = if class.len() > 1 { start.min(class.start) } else { 0 };
        [0..before, class.end..self.objects()]
    }

    /// The number of pairs.
    pub(crate) fn pairs_count(&self) -> u64 {
        self.pairs_count
    }
}

const ADVICE: &str = "free memory";

fn list(objects: usize) -> String {
    format!("the classes of {objects} objects")
}

/// A walk over the pairs, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    block: u32,
    is_between: bool,
    query: u32,
    others: [Range<u32>; 2],
}

impl Walk {
    pub(crate) fn new(blocks: &QueryBlocks) -> Self {
        let others = if blocks.objects() > 0 { blocks.others(0, 0, false) } else { [0..0, 0..0] };
        Self { block: 0, is_between: false, query: 0, others }
    }

    /// The next pair.
    pub(crate) fn next(&mut self, blocks: &QueryBlocks) -> Option<Place> {
        loop {
            let [before, after] = &mut self.others;
            if let Some(other) = before.next().or_else(|| after.next()) {
                let Self { block, is_between, query, .. } = *self;
                return Some(Place { block, is_between, query, other });
            }
            if self.block >= blocks.blocks() {
                return None;
            }
            self.query += 1;
            if self.query == blocks.block(self.block).end {
                self.block += u32::from(self.is_between);
                self.is_between = !self.is_between;
                if self.block == blocks.blocks() {
                    return None;
                }
                self.query = blocks.block(self.block).start;
            }
            self.others = blocks.others(self.block, self.query, self.is_between);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;

    use boxwork_kernels::interrupt::never;

    use super::*;

    /// Blocks over objects of these classes.
    pub(super) fn blocks(classes: &[u32], mates_max: u64) -> QueryBlocks {
        of_interrupt(classes, mates_max, &never).unwrap()
    }

    fn of_interrupt(
        classes: &[u32],
        mates_max: u64,
        interrupt: Interrupt<'_>,
    ) -> Result<QueryBlocks, BoxError> {
        let names = classes.iter().max().map_or(0, |class| class + 1);
        let names = (0..names).map(|name| name.to_string()).collect();
        QueryBlocks::of(names, classes.to_vec(), mates_max, interrupt)
    }

    fn walked(blocks: &QueryBlocks) -> Vec<Place> {
        let mut walk = Walk::new(blocks);
        std::iter::from_fn(|| walk.next(blocks)).collect()
    }

    #[test]
    fn every_query_meets_every_object_and_first_its_class() {
        for objects in 0..30u32 {
            for classes in 1..6 {
                let class: Vec<u32> = (0..objects).map(|rank| rank * 7 % 11 % classes).collect();
                for mates_max in [0, 1, 5, 40, u64::MAX] {
                    let blocks = blocks(&class, mates_max);
                    let places = walked(&blocks);
                    assert_eq!(places.len() as u64, blocks.pairs_count());
                    assert!(places.is_sorted_by(|a, b| a < b), "{class:?} by {mates_max}");
                    let mut met = BTreeSet::new();
                    for place in &places {
                        assert_eq!(*place, blocks.place(place.query, place.other));
                        assert!(met.insert((place.query, place.other)), "twice {place:?}");
                        if blocks.block(place.block).contains(&place.other) {
                            assert!(met.insert((place.other, place.query)), "twice {place:?}");
                        }
                    }
                    for query in (0..objects).filter(|query| blocks.mates(*query) > 0) {
                        let of_query = met.range((query, 0)..=(query, u32::MAX)).count();
                        assert_eq!(of_query as u32, objects - 1, "{class:?} by {mates_max}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_order_of_many_objects_stops_when_asked_to() {
        let objects = 5 * OBJECTS_PER_QUESTION;
        for classes in [1, objects as u32] {
            let class: Vec<u32> = (0..objects as u32).map(|rank| rank % classes).collect();
            let asked = Cell::new(0);
            let stop_at = |limit: usize| {
                asked.set(0);
                let interrupt = || {
                    asked.set(asked.get() + 1);
                    asked.get() >= limit
                };
                of_interrupt(&class, MATES_MAX, &interrupt).map(drop)
            };
            // Each object is counted, placed, cut and paired.
            stop_at(usize::MAX).unwrap();
            let all = asked.get();
            assert!(all >= 4 * objects / OBJECTS_PER_QUESTION - 1, "{all} questions");
            for limit in 1..=all {
                let error = stop_at(limit).unwrap_err().to_string();
                assert!(asked.get() == limit && error.contains("interrupted"), "{error}");
            }
        }
    }

    #[test]
    fn queries_that_fit_a_block_make_every_pair_once() {
        let class: Vec<u32> = (0..40).map(|rank| rank % 7).collect();
        let mates: u64 = (0..40).map(|position| u64::from(blocks(&class, 0).mates(position))).sum();
        let found = blocks(&class, mates);
        assert_eq!((found.blocks(), found.pairs_count()), (1, 40 * 39 / 2));
        let found = blocks(&class, mates - 1);
        assert!(found.blocks() == 2 && found.pairs_count() < 40 * 39);
    }
}
