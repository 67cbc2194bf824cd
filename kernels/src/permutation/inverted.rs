//! The inverted layout of lists: for each pivot the objects whose lists have it, by place.
//!
//! A query reads the runs of its own pivots only. Each adds to the scores of its objects what a shared pivot takes from the measure of
//! two lists that share none. Of many pivots a list has few, so most runs are not read; of few pivots, a scan reads less (G. Amato, P.
//! Savino, "Approximate similarity search in metric spaces using inverted files", InfoScale 2008).
//!
//! Invariant: candidates are those of a scan of the same lists, to the order.

use super::scan::{Winnow, looks_up_bytes};
use super::tables::{gain, largest};
use super::{Comparison, Lists};
use crate::CodePath;
use crate::lanes::{Lanes, Work, run};

/// Objects whose runs lie together. Their scores of two bytes lie in a cache of the core, and their numbers take two bytes.
pub(super) const BLOCK: usize = 1 << 15;
/// Scores that become measures at once.
const AT_ONCE: usize = 256;
/// Runs are expected to be read faster if lists have fewer than one in so many of the pivots.
const SHARE: usize = 4;
const _: () = assert!(BLOCK.is_multiple_of(AT_ONCE) && BLOCK <= 1 << 16);

/// Lists of many objects, inverted.
#[derive(Clone, Debug)]
pub struct Inverted {
    pivots: usize,
    length: usize,
    blocks: Vec<Block>,
}

/// The runs of at most [`BLOCK`] consecutive objects.
#[derive(Clone, Debug)]
struct Block {
    objects: usize,
    /// The place at which each run begins, by pivot and then by place; last, the end of all runs.
    starts: Vec<u32>,
    /// Numbers of objects within the block, ascending within a run.
    runs: Vec<u16>,
}

impl Inverted {
    /// Inverts lists.
    pub fn of(lists: &Lists) -> Self {
        let (pivots, length) = (lists.pivots(), lists.length());
        let block = |first: usize| Block::of(lists, first..lists.objects().min(first + BLOCK));
        Self { pivots, length, blocks: (0..lists.objects()).step_by(BLOCK).map(block).collect() }
    }

    /// Whether runs are expected to be read faster than lists, as the bench `permutation` shows with `what=layouts`.
    pub fn is_faster(path: CodePath, pivots: usize, length: usize) -> bool {
        !looks_up_bytes(path, pivots) && SHARE * length < pivots
    }

    /// Number of objects.
    pub fn objects(&self) -> usize {
        self.blocks.iter().map(|block| block.objects).sum()
    }

    /// Number of pivots.
    pub fn pivots(&self) -> usize {
        self.pivots
    }

    /// Pivots of a list.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(|block| size_of_val(&*block.runs) + size_of_val(&*block.starts)).sum()
    }

    /// The list of an object, by a search in all runs of its block: slow.
    ///
    /// # Panics
    /// When there is no such object.
    pub fn list(&self, object: usize) -> Vec<u16> {
        let (block, nth) = (&self.blocks[object / BLOCK], (object % BLOCK) as u16);
        let mut list = vec![0; self.length];
        for (run, ends) in block.starts.windows(2).enumerate() {
            if block.runs[ends[0] as usize..ends[1] as usize].binary_search(&nth).is_ok() {
                list[run % self.length] = (run / self.length) as u16;
            }
        }
        list
    }

    /// The `count` first objects by (measure, number), in this order, among those that `has` names.
    ///
    /// # Panics
    /// When the query's list has another length, or this machine lacks the instructions.
    pub fn candidates(
        &self,
        path: CodePath,
        comparison: impl Into<Comparison>,
        query: &[u16],
        count: usize,
        has: impl Fn(usize) -> bool,
    ) -> Vec<u32> {
        assert_eq!(query.len(), self.length, "lists of one length");
        assert!(path.is_available(), "this machine has no {path} instructions");
        let comparison = comparison.into();
        if largest(comparison.measure, self.length) <= u64::from(u16::MAX) {
            self.find::<u16>(path, comparison, query, count, has)
        } else {
            self.find::<u32>(path, comparison, query, count, has)
        }
    }

    fn find<S: Score>(
        &self,
        path: CodePath,
        comparison: Comparison,
        query: &[u16],
        count: usize,
        has: impl Fn(usize) -> bool,
    ) -> Vec<u32> {
        let absent = largest(comparison.measure, self.length) as u32;
        let mut winnow = Winnow::new(count.min(self.objects()));
        let (mut scores, mut measures) = (vec![S::default(); BLOCK], [0; AT_ONCE]);
        for (block, first) in self.blocks.iter().zip((0..).step_by(BLOCK)) {
            for (position, pivot) in query.iter().enumerate().take(comparison.query_pivots) {
                for place in comparison.places(position, self.length) {
                    let gain = S::from(gain(comparison.measure, self.length, position, place));
                    let run = block.run(usize::from(*pivot) * self.length + place);
                    // Any number of two bytes is a place of a slice of this length.
                    for object in run {
                        let score = &mut scores[usize::from(*object) % BLOCK];
                        *score = score.plus(gain);
                    }
                }
            }
            for (part, scores) in scores[..block.objects].chunks_mut(AT_ONCE).enumerate() {
                let measures = &mut measures[..scores.len()];
                run(path, Measures { absent, scores, measures: &mut *measures });
                winnow.offer(measures, first + part * AT_ONCE, &has);
            }
        }
        winnow.finish()
    }
}

impl Block {
    /// Puts objects in order by the pivot and the place of each number of their lists, by counting.
    fn of(lists: &Lists, objects: std::ops::Range<usize>) -> Self {
        let length = lists.length();
        let mut starts = vec![0_u32; lists.pivots() * length + 1];
        let mut numbers = Vec::with_capacity(objects.len() * length);
        for object in objects.clone() {
            lists.extend_with(object, &mut numbers);
        }
        for list in numbers.chunks_exact(length) {
            for (place, pivot) in list.iter().enumerate() {
                starts[usize::from(*pivot) * length + place + 1] += 1;
            }
        }
        let mut end = 0;
        for start in &mut starts {
            end += *start;
            *start = end;
        }
        // Each run's start moves to its end while the run fills, which is where the next run starts.
        let mut runs = vec![0; numbers.len()];
        for (object, list) in numbers.chunks_exact(length).enumerate() {
            for (place, pivot) in list.iter().enumerate() {
                let at = &mut starts[usize::from(*pivot) * length + place];
                runs[*at as usize] = object as u16;
                *at += 1;
            }
        }
        starts.rotate_right(1);
        starts[0] = 0;
        Self { objects: objects.len(), starts, runs }
    }

    fn run(&self, run: usize) -> &[u16] {
        &self.runs[self.starts[run] as usize..self.starts[run + 1] as usize]
    }
}

/// A number that shared pivots take from a measure.
trait Score: Copy + Default + Into<u32> {
    fn from(gain: u32) -> Self;
    fn plus(self, gain: Self) -> Self;
}

impl Score for u16 {
    fn from(gain: u32) -> Self {
        gain as Self
    }

    fn plus(self, gain: Self) -> Self {
        self.wrapping_add(gain)
    }
}

impl Score for u32 {
    fn from(gain: u32) -> Self {
        gain
    }

    fn plus(self, gain: Self) -> Self {
        self.wrapping_add(gain)
    }
}

/// Measures from scores, which become zeros.
struct Measures<'a, S> {
    absent: u32,
    scores: &'a mut [S],
    measures: &'a mut [u32],
}

impl<S: Score> Work for Measures<'_, S> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        for (score, measure) in self.scores.iter_mut().zip(self.measures) {
            *measure = self.absent - (*score).into();
            *score = S::default();
        }
    }
}
