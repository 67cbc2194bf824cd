//! Some queries' lists on their way to a device that has the lists of all objects, and the objects with small measures on the way back.

use std::sync::Arc;

use boxwork_kernels::permutation::measures::{self, ListNumbers, Shape};
use boxwork_kernels::permutation::{Comparison, Lists};
use boxwork_kernels::selection::ENTRY;
use boxwork_runtime::feeding::{Back, Block, DeviceError, Feed, SharedKey};
use boxwork_stores::permutations::Permutations;

use crate::devices::device_kernels::{LeastMeasures, least_measures};

/// The content of buffers on a device.
const NUMBERS: u64 = 0;
const ALIVE: u64 = 1;
/// Numbers that one thread gathers at a time.
const PART: usize = 1 << 20;
/// Objects beyond twice the candidates for which there is room: those of the measure of the last one may be many.
const MORE_ENTRIES: usize = 4096;
/// Bytes of the measures of a block at most.
const MEASURES_BYTES_MAX: usize = 1 << 28;
/// Queries of a block at most.
const QUERIES_MAX: usize = 32;

/// What is compared, for all blocks of a request.
pub(super) struct Scanned {
    pub(super) permutations: Arc<Permutations>,
    pub(super) comparison: Comparison,
    /// Candidates of a query.
    pub(super) count: usize,
    shape: Shape,
}

impl Scanned {
    /// The scan on devices; `None` if slots must do it.
    pub(super) fn new(
        permutations: &Arc<Permutations>,
        comparison: Comparison,
        count: usize,
    ) -> Option<Self> {
        let shape = Shape::new(permutations.lists()?, comparison)?;
        let permutations = Arc::clone(permutations);
        (count > 0).then_some(Self { permutations, comparison, count, shape })
    }

    pub(super) fn lists(&self) -> &Lists {
        self.permutations.lists().expect("a scan has lists")
    }

    /// Queries of a block.
    pub(super) fn queries(&self) -> usize {
        let bytes = Shape::stride(self.lists().objects()) * size_of::<f32>();
        (MEASURES_BYTES_MAX / bytes.max(1)).clamp(1, QUERIES_MAX)
    }

    fn capacity(&self) -> usize {
        (2 * self.count + MORE_ENTRIES).min(self.lists().objects())
    }
}

/// Some queries, and what a device has found for them.
pub(super) struct MeasuresBlock {
    pub(super) scanned: Arc<Scanned>,
    /// Their places.
    pub(super) places: Vec<usize>,
    tables: Vec<u8>,
    starts: Vec<u32>,
    /// The device that computed it last.
    pub(super) device: String,
    counts: Vec<u32>,
    entries: Vec<u32>,
}

impl MeasuresBlock {
    /// A block of queries at some places, whose lists these are.
    pub(super) fn new<'l>(
        scanned: &Arc<Scanned>,
        places: Vec<usize>,
        of_queries: impl Iterator<Item = &'l [u16]>,
    ) -> Self {
        let mut tables = Vec::with_capacity(places.len() * scanned.shape.table_bytes());
        let starts = of_queries
            .map(|list| scanned.shape.append_tables(scanned.lists(), scanned.comparison, list, &mut tables))
            .collect();
        let (counts, entries, device) = (Vec::new(), Vec::new(), String::new());
        Self { scanned: Arc::clone(scanned), places, tables, starts, device, counts, entries }
    }

    /// The objects of the nth query with small measures, which its candidates are among; nothing if there was no room for all.
    pub(super) fn found(&self, nth: usize) -> Option<Vec<(u32, u32)>> {
        let (capacity, objects) = (self.scanned.capacity(), self.scanned.lists().objects());
        let count = self.counts.get(nth).map(|count| *count as usize).filter(|count| *count <= capacity)?;
        let entries = self.entries.get(nth * capacity * ENTRY..)?.chunks_exact(ENTRY).take(count);
        let found = entries.map(|entry| (f32::from_bits(entry[1]), entry[0]));
        // Objects that are not there have infinite measures.
        let found: Vec<(u32, u32)> = found
            .filter(|(measure, _)| measure.is_finite())
            .map(|(measure, id)| (measure as u32, id))
            .collect();
        found.iter().all(|(_, id)| (*id as usize) < objects).then_some(found)
    }

    fn send_lists(&self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let (lists, permutations) = (self.scanned.lists(), Arc::clone(&self.scanned.permutations));
        let key = |form| SharedKey { resource: permutations.number(), form, part: 0 };
        match lists.all_numbers() {
            ListNumbers::Bytes(numbers) => {
                feed.shared_in_parts("lists", key(NUMBERS), numbers.len(), PART, |part, to: &mut [u8]| {
                    to.copy_from_slice(&numbers[part * PART..][..to.len()]);
                    Ok(())
                })?;
            }
            ListNumbers::Words(numbers) => {
                feed.shared_in_parts("lists", key(NUMBERS), numbers.len(), PART, |part, to: &mut [u16]| {
                    to.copy_from_slice(&numbers[part * PART..][..to.len()]);
                    Ok(())
                })?;
            }
        }
        let objects = lists.objects();
        feed.shared("alive", key(ALIVE), Shape::stride(objects) / 8, |to: &mut [u8]| {
            let store = permutations.maker().space().store();
            to.copy_from_slice(&measures::alive(objects, |object| store.has(object as u64)));
            Ok(())
        })
    }
}

impl Block for MeasuresBlock {
    fn size(&self) -> u64 {
        (self.places.len() * self.scanned.lists().objects()) as u64
    }

    fn kind(&self) -> &'static str {
        "measures of permutations"
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        self.device = feed.device().info().to_string();
        let (scanned, queries) = (&*self.scanned, self.places.len());
        let capacity = scanned.capacity();
        self.send_lists(feed)?;
        let search = LeastMeasures {
            shape: scanned.shape,
            lists: scanned.lists(),
            tables: &self.tables,
            starts: &self.starts,
            wanted: scanned.count,
            capacity,
        };
        least_measures(feed, &search)?;
        feed.read::<u32>("counts", queries)?;
        feed.read::<u32>("entries", queries * capacity * ENTRY)
    }

    fn collect(&mut self, back: &Back<'_>) {
        self.counts = back.numbers::<u32>("counts").to_vec();
        self.entries = back.numbers::<u32>("entries").to_vec();
    }
}
