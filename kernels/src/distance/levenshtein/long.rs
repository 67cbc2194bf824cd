//! Edit distances of long pairs of texts on a device: sizes for `long.cl`, the tiles of each launch, and the distances that its borders give.
//!
//! The rows of a table are words of 32, and a strip has as many words as a group has items. Word `w` of a strip is at column
//! `s - behind(w)` at step `s`, and a tile is some steps of a strip. So all words of a tile compute all the time, and a launch takes
//! all tiles whose strip and place along the steps have one sum.
//!
//! Distances are whole numbers, so those of a device are those of the processor or wrong.

use std::ops::Range;

/// The source of the kernel.
pub const TEXT: &str = include_str!("long.cl");
/// The kernel: a diagonal of tiles.
pub const KERNEL: &str = "tiles";

/// Rows of a word.
const WORD: usize = u32::BITS as usize;
/// Steps between two meetings of a group's items, which are the bits of a word of a border.
pub const CHUNK: usize = 32;

/// Items of a group: a warp for each of the four schedulers of a multiprocessor.
const ITEMS: usize = 128;
/// Items that hand on at every step: a warp.
const LANES: usize = 32;
/// Steps of a tile. With fewer, launches take a share of the time; with more, the strips wait longer for each other.
const STEPS: usize = 1024;
/// Masks of an item in local memory at most: with fewer bits a letter has more parts.
const MASKS_MAX: usize = 64;
// Local memory of a group, in bytes: NVIDIA's OpenCL gives 48 KiB.
const _: () = {
    let masks = MASKS_MAX * ITEMS * size_of::<u32>();
    let letters = (behind(ITEMS - 1, LANES) + STEPS + 2) * size_of::<u16>();
    let differences = (STEPS + CHUNK + ITEMS / LANES * 2 * CHUNK + 2 * ITEMS) * size_of::<[u32; 2]>();
    assert!(masks + letters + differences <= 48 << 10);
};
/// Bits of a letter's number at most.
pub const LETTER_BITS_MAX: usize = 16;

/// Columns that an item is behind the first one of its group.
const fn behind(item: usize, lanes: usize) -> usize {
    item + (CHUNK - 1) * (item / lanes)
}

/// The sizes of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    items: usize,
    lanes: usize,
    steps: usize,
    parts: usize,
    part_bits: usize,
}

impl Shape {
    /// The program for letters of so many bits.
    ///
    /// # Panics
    /// When there are more than [`LETTER_BITS_MAX`].
    pub fn new(letter_bits: usize) -> Self {
        Self::of_tiles([ITEMS, LANES, STEPS], letter_bits)
    }

    /// [`Shape::new`] with tiles of so many items, of which so many hand on at every step, and so many steps.
    ///
    /// # Panics
    /// As there, and when the sizes do not divide each other.
    pub fn of_tiles([items, lanes, steps]: [usize; 3], letter_bits: usize) -> Self {
        assert!(letter_bits <= LETTER_BITS_MAX, "letters of {letter_bits} bits");
        let is_whole = items.is_multiple_of(lanes) && steps.is_multiple_of(CHUNK) && steps > 0;
        assert!(
            items > 0 && lanes > 0 && is_whole,
            "tiles of {items} items, {lanes} lanes and {steps} steps"
        );
        // As few parts as have room for their masks.
        let bits = letter_bits.max(1);
        let fits = |parts: &usize| parts << bits.div_ceil(*parts) <= MASKS_MAX;
        let parts = (1..=bits).find(fits).unwrap_or(bits);
        Self { items, lanes, steps, parts, part_bits: bits.div_ceil(parts) }
    }

    /// Items of a group.
    pub fn items(self) -> usize {
        self.items
    }

    fn behind(self, item: usize) -> usize {
        behind(item, self.lanes)
    }

    /// Steps that a strip is behind the one above it: as its last item is, whose differences the launch before has left.
    fn strip_behind(self) -> usize {
        self.behind(self.items - 1)
    }

    /// The constants to compile the source with.
    pub fn constants(self) -> Vec<(&'static str, String)> {
        let sizes = [
            ("ITEMS", self.items),
            ("LANES", self.lanes),
            ("STEPS", self.steps),
            ("PARTS", self.parts),
            ("PART_BITS", self.part_bits),
        ];
        sizes.map(|(name, size)| (name, size.to_string())).into()
    }
}

/// A pair whose table is computed.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// The first row among those of all pairs, and the number of rows; then the columns.
    rows: [usize; 2],
    columns: [usize; 2],
    /// The first word of its border.
    border: usize,
    /// The first strip among those of all pairs, and the number of strips.
    strips: [usize; 2],
}

/// A launch: the tiles of a diagonal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Strip and place along the steps, together.
    pub diagonal: usize,
    /// The strips that have tiles there, in any of the pairs.
    pub strips: Range<usize>,
}

/// Pairs of long texts, whose tables are computed together.
#[derive(Clone, Debug)]
pub struct LongPairs {
    shape: Shape,
    /// The numbers of letters, one text after the other.
    rows: Vec<u16>,
    columns: Vec<u16>,
    pairs: Vec<Pair>,
    strips: usize,
    border: usize,
}

impl LongPairs {
    /// No pairs.
    pub fn new(shape: Shape) -> Self {
        Self { shape, rows: Vec::new(), columns: Vec::new(), pairs: Vec::new(), strips: 0, border: 0 }
    }

    /// Adds two texts by the numbers of their letters. A letter of one text that the other one lacks has a number that the other one
    /// does not have.
    ///
    /// # Panics
    /// When a text is empty, a number has more bits than the program takes, or all together have more letters than a word of 32 bits counts.
    pub fn add(&mut self, [a, b]: [&[u16]; 2]) {
        // The steps are about as many as the columns and a third of the rows.
        let (rows, columns) = if a.len() >= b.len() { (a, b) } else { (b, a) };
        assert!(!columns.is_empty(), "an empty text has no table");
        let bits = self.shape.parts * self.shape.part_bits;
        let is_known = rows.iter().chain(columns).all(|letter| u32::from(*letter) >> bits == 0);
        assert!(is_known, "letters of more than {bits} bits");
        let pair = Pair {
            rows: [self.rows.len(), rows.len()],
            columns: [self.columns.len(), columns.len()],
            border: self.border,
            strips: [self.strips, rows.len().div_ceil(WORD * self.shape.items)],
        };
        self.rows.extend_from_slice(rows);
        self.columns.extend_from_slice(columns);
        assert!(self.rows.len() + self.columns.len() < 1 << 31, "too many letters together");
        self.strips += pair.strips[1];
        self.border += self.places(&pair, pair.strips[1] - 1).end * self.shape.steps / CHUNK;
        self.pairs.push(pair);
    }

    /// The number of pairs.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The sizes of the program.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The rows of all pairs.
    pub fn rows(&self) -> &[u16] {
        &self.rows
    }

    /// The columns of all pairs.
    pub fn columns(&self) -> &[u16] {
        &self.columns
    }

    /// The pairs as the kernel takes them.
    pub fn descriptors(&self) -> Vec<[u32; 8]> {
        let of = |pair: &Pair| {
            let [rows, columns] = [pair.rows, pair.columns];
            [rows[0], rows[1], columns[0], columns[1], pair.border, pair.strips[0], 0, 0]
                .map(|size| size as u32)
        };
        self.pairs.iter().map(of).collect()
    }

    /// Words of all strips.
    pub fn words(&self) -> usize {
        self.strips * self.shape.items
    }

    /// Differences that warps of all strips hand on.
    pub fn handed(&self) -> usize {
        self.strips * self.shape.items / self.shape.lanes * CHUNK
    }

    /// Words of the borders of all pairs.
    pub fn border(&self) -> usize {
        self.border
    }

    /// Steps that the last item of a strip is behind the first one of the table.
    fn last_behind(&self, pair: &Pair, strip: usize) -> usize {
        let words = pair.rows[1].div_ceil(WORD) - strip * self.shape.items;
        strip * self.shape.strip_behind() + self.shape.behind(words.min(self.shape.items) - 1)
    }

    /// The places of a strip's tiles along the steps.
    fn places(&self, pair: &Pair, strip: usize) -> Range<usize> {
        let first = strip * self.shape.strip_behind() / self.shape.steps;
        first..(pair.columns[1] - 1 + self.last_behind(pair, strip)) / self.shape.steps + 1
    }

    /// The strips of a pair that have a tile on a diagonal.
    fn strips(&self, pair: &Pair, diagonal: usize) -> Range<usize> {
        let first = first_above(pair.strips[1], |strip| strip + self.places(pair, strip).end > diagonal);
        first..first_above(pair.strips[1], |strip| strip + self.places(pair, strip).start > diagonal)
    }

    /// The launches, in order.
    pub fn launches(&self) -> impl Iterator<Item = Launch> {
        let last = |pair: &Pair| pair.strips[1] - 1 + self.places(pair, pair.strips[1] - 1).end;
        let diagonals = self.pairs.iter().map(last).max().unwrap_or(0);
        (0..diagonals).map(|diagonal| {
            let of_pairs = self.pairs.iter().map(|pair| self.strips(pair, diagonal));
            let strips = of_pairs.filter(|strips| !strips.is_empty());
            let strips = strips.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0);
            Launch { diagonal, strips }
        })
    }

    /// The distance of a pair, by the borders that the last launch has left; nothing if it cannot be one.
    ///
    /// # Panics
    /// When there is no such pair, or there are not all borders.
    pub fn distance(&self, pair: usize, borders: &[[u32; 2]]) -> Option<usize> {
        let pair = &self.pairs[pair];
        let first = self.last_behind(pair, pair.strips[1] - 1);
        let (rows, columns) = (pair.rows[1], pair.columns[1]);
        let steps = first..first + columns;
        let mut number = rows as i64;
        for chunk in steps.start / CHUNK..steps.end.div_ceil(CHUNK) {
            let begin = steps.start.max(chunk * CHUNK) - chunk * CHUNK;
            let end = steps.end.min((chunk + 1) * CHUNK) - chunk * CHUNK;
            let wanted = (u32::MAX >> (CHUNK - (end - begin))) << begin;
            let [rises, falls] = borders[pair.border + chunk].map(|bits| (bits & wanted).count_ones());
            number += i64::from(rises) - i64::from(falls);
        }
        let found = usize::try_from(number).ok()?;
        (rows.abs_diff(columns)..=rows.max(columns)).contains(&found).then_some(found)
    }
}

/// The first of so many numbers that is above something, as all after it are; or their count.
fn first_above(count: usize, is_above: impl Fn(usize) -> bool) -> usize {
    let (mut first, mut end) = (0, count);
    while first < end {
        let middle = first.midpoint(end);
        if is_above(middle) {
            end = middle;
        } else {
            first = middle + 1;
        }
    }
    first
}

#[cfg(test)]
mod tests;
