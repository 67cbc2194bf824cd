//! Lists of many objects at once, by numbers in f32 that are in the order of the distances, or nearly so.
//!
//! The bitonic network of `network` orders them, shortened, with the number of the pivot in the lowest bits. Then each list is put in
//! the order of the whole numbers, and pivots that these cannot tell apart are compared by their f64 distances.

use std::ops::Range;

use super::nearest_pivots;
use super::network::{Least, RUN_MIN};
use crate::CodePath;
use crate::lanes::{Lanes, Work, run};
use crate::panels::PANEL;

/// Appends the lists of some objects: for each the first `length` pivots by (distance, number), as [`nearest_pivots`] gives them.
/// `distances` has all objects for the first pivot, then all for the second.
///
/// # Panics
/// If there is not a distance for each of `pivots` and `objects`, the length is 0 or above `pivots`, or this machine lacks the
/// instructions.
pub fn nearest_of_each(
    path: CodePath,
    distances: &[f64],
    objects: usize,
    pivots: usize,
    length: usize,
    lists: &mut Vec<u16>,
) {
    assert_eq!(distances.len(), objects * pivots, "a distance for each pivot and object");
    assert!((1..=pivots).contains(&length), "a list of {length} of {pivots} pivots");
    run(path, OfEach { distances, objects, pivots, length, lists });
}

struct OfEach<'a> {
    distances: &'a [f64],
    objects: usize,
    pivots: usize,
    length: usize,
    lists: &'a mut Vec<u16>,
}

impl Work for OfEach<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { distances, objects, pivots, length, lists } = self;
        let mut order = Order::new(lanes, pivots, length);
        let mut numbers = vec![f32::MAX; order.padded() * PANEL];
        let mut of_object = vec![0.0; pivots];
        for first in (0..objects).step_by(PANEL) {
            let count = PANEL.min(objects - first);
            let largest = narrow(distances, objects, first..first + count, &mut numbers);
            for column in (0..count).step_by(L::COUNT) {
                order.find(lanes, &numbers[column..]);
                for lane in column..count.min(column + L::COUNT) {
                    let exact = Given { distances, objects, object: first + lane };
                    if largest[lane] < f32::MAX.to_bits() {
                        order.append(&numbers[lane..], lane - column, Some(0.0), &exact, lists);
                        continue;
                    }
                    // Such numbers are not in the order of their bits.
                    for (pivot, distance) in of_object.iter_mut().enumerate() {
                        *distance = exact.distance(pivot);
                    }
                    let end = lists.len();
                    lists.resize(end + length, 0);
                    nearest_pivots(&of_object, &mut lists[end..]);
                }
            }
        }
    }
}

/// Rounds the distances of up to [`PANEL`] objects to f32, and returns the largest bits of each object's: those of a negative number and
/// of a NaN are above those of [`f32::MAX`].
#[inline(always)]
fn narrow(distances: &[f64], objects: usize, of: Range<usize>, numbers: &mut [f32]) -> [u32; PANEL] {
    let mut largest = [0; PANEL];
    let mut padded = [0.0; PANEL];
    for (to, from) in numbers.as_chunks_mut::<PANEL>().0.iter_mut().zip(distances.chunks_exact(objects)) {
        let from = &from[of.clone()];
        let whole = from.first_chunk().unwrap_or_else(|| {
            padded[..from.len()].copy_from_slice(from);
            &padded
        });
        for ((to, from), largest) in to.iter_mut().zip(whole).zip(&mut largest) {
            *to = *from as f32;
            *largest = (*largest).max(to.to_bits());
        }
    }
    largest
}

/// The distances of one object. A closure would not be compiled for the instructions of a path.
pub(super) trait Exact {
    /// The distance from a pivot.
    fn distance(&self, pivot: usize) -> f64;
}

/// An object whose distances are given: all objects for the first pivot, then all for the second.
struct Given<'a> {
    distances: &'a [f64],
    objects: usize,
    object: usize,
}

impl Exact for Given<'_> {
    #[inline(always)]
    fn distance(&self, pivot: usize) -> f64 {
        self.distances[pivot * self.objects + self.object]
    }
}

/// Puts the pivots of some objects in order, one object in each lane.
pub(super) struct Order<V> {
    pivots: usize,
    length: usize,
    /// Pivots with those that are missing in the last run.
    padded: usize,
    /// The bits of a key that are not the number of a pivot.
    kept_bits: u32,
    least: Least<V>,
    /// The least shortened numbers: all lanes for the first place, then all for the second.
    keys: Vec<f32>,
    dropped: [f32; PANEL],
    /// For one object: its number, by its bits, above the number of the pivot.
    kept: Vec<u64>,
    exact: Vec<(f64, u16)>,
}

fn key(number: f32, pivot: usize) -> u64 {
    // The bits of numbers that are not negative are in the order of the numbers.
    u64::from(number.to_bits()) << 32 | pivot as u64
}

fn number(key: u64) -> f64 {
    f64::from(f32::from_bits((key >> 32) as u32))
}

impl<V: Copy> Order<V> {
    #[inline(always)]
    pub(super) fn new<L: Lanes<V = V>>(lanes: L, pivots: usize, length: usize) -> Self {
        let run = length.next_power_of_two().max(RUN_MIN);
        let padded = pivots.next_multiple_of(run);
        Self {
            pivots,
            length,
            padded,
            kept_bits: !0 << (usize::BITS - (padded - 1).leading_zeros()),
            least: Least::new(lanes, run),
            keys: vec![0.0; run * L::COUNT],
            dropped: [0.0; PANEL],
            kept: Vec::with_capacity(run),
            exact: Vec::new(),
        }
    }

    /// The pivots for which [`Order::find`] needs numbers.
    pub(super) fn padded(&self) -> usize {
        self.padded
    }

    /// Finds the pivots with the least numbers for each lane. Numbers of a pivot lie side by side, [`PANEL`] after those of the
    /// pivot before; none is negative, and numbers beyond the last pivot are the largest.
    #[inline(always)]
    pub(super) fn find<L: Lanes<V = V>>(&mut self, lanes: L, numbers: &[f32]) {
        self.least.find(lanes, numbers, self.padded, self.kept_bits);
        for (key, to) in self.least.kept().iter().zip(self.keys.chunks_exact_mut(L::COUNT)) {
            lanes.store(*key, to);
        }
        lanes.store(self.least.dropped(), &mut self.dropped);
    }

    /// Appends the list of the object of a lane, whose numbers begin with the first of `numbers` and are [`PANEL`] apart. Distances
    /// of pivots whose numbers differ by at most `slack` may be in either order; without a slack, numbers are in the order of the
    /// distances, and equal ones are equally far.
    #[inline(always)]
    pub(super) fn append(
        &mut self,
        numbers: &[f32],
        lane: usize,
        slack: Option<f64>,
        exact: &impl Exact,
        lists: &mut Vec<u16>,
    ) {
        self.kept.clear();
        let lanes = self.keys.len() / self.least.kept().len();
        for shortened in self.keys.iter().skip(lane).step_by(lanes) {
            let pivot = (shortened.to_bits() & !self.kept_bits) as usize;
            if pivot >= self.pivots {
                break;
            }
            let key = key(numbers[pivot * PANEL], pivot);
            self.kept.push(key);
            // Shortened numbers are nearly in order.
            let mut place = self.kept.len() - 1;
            while place > 0 && self.kept[place - 1] > key {
                self.kept.swap(place - 1, place);
                place -= 1;
            }
        }
        let limit = number(self.kept[self.length - 1]) + slack.unwrap_or(0.0);
        // The number of a pivot makes a shortened number larger.
        let dropped = f32::from_bits(self.dropped[lane].to_bits() & self.kept_bits);
        if f64::from(dropped) <= limit {
            self.keep_all_within(numbers, limit);
        }
        if let Some(slack) = slack {
            let mut place = 0;
            while place < self.length && place + 1 < self.kept.len() {
                if number(self.kept[place + 1]) - number(self.kept[place]) > slack {
                    place += 1;
                } else {
                    place = self.settle(slack, place, exact);
                }
            }
        }
        lists.extend(self.kept[..self.length].iter().map(|key| *key as u16));
    }

    /// Keeps all pivots within the limit.
    #[cold]
    #[inline(never)]
    fn keep_all_within(&mut self, numbers: &[f32], limit: f64) {
        self.kept.clear();
        for (pivot, number) in numbers.iter().step_by(PANEL).take(self.pivots).enumerate() {
            if f64::from(*number) <= limit {
                self.kept.push(key(*number, pivot));
            }
        }
        self.kept.sort_unstable();
    }

    /// Orders the pivots from `first` on that follow each other nearly, by their distances; returns the place after them.
    #[inline(always)]
    fn settle(&mut self, slack: f64, first: usize, exact: &impl Exact) -> usize {
        let mut end = first + 1;
        while end < self.kept.len() && number(self.kept[end]) - number(self.kept[end - 1]) <= slack {
            end += 1;
        }
        self.exact.clear();
        for key in &self.kept[first..end] {
            self.exact.push((exact.distance(*key as u32 as usize), *key as u16));
        }
        self.exact.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (key, (_, pivot)) in self.kept[first..end].iter_mut().zip(&self.exact) {
            *key = u64::from(*pivot);
        }
        end
    }
}
