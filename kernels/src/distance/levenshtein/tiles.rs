//! The edit distance of two texts that are so long that the strips of their table are cut into tiles, which several threads compute.
//!
//! A tile depends on the one above it and the one to its left, and hands on two bits for each cell of its border. So the memory is
//! proportional to the letters of both texts, and the distance is the same in whatever order the tiles are computed.
//!
//! Lanes of a strip are one column behind each other, so all tiles are skewed by as much: step `s` of a strip is the step at which
//! its first word `w` is at column `s - w`, and a tile is some steps. Then a tile's last lane hands on at each step what the strip below
//! needs at the next one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use super::Pattern;
use super::numbered::Numbered;
use super::similar::{Guess, by_bands, guess};
use super::strips::{Band, Strip, moved};
use super::wavefront::{RISES, State, Steps, strip_words};
use crate::CodePath;

/// Texts of more letters, both of them, are worth tiles.
pub const TILED_LETTERS_MIN: usize = 20_000;
/// Cells of a band that are worth tiles: some milliseconds.
const TILED_CELLS_MIN: usize = 1 << 28;
/// Steps of a tile: a share of the letters, so that sixteen threads are busy along the diagonals of a table of 60,000 x 60,000 letters or more.
const TILE_SHARE: usize = 256;
const TILE_MIN: usize = 256;
const TILE_MAX: usize = 2048;
/// A band of so large a share of the table is hardly narrower than the whole.
const WIDE_SHARE: usize = 4;

/// The table of two texts, in tiles numbered from 0.
#[derive(Debug)]
pub struct Tiles {
    path: CodePath,
    texts: Numbered,
    /// The edits for which the band is made.
    edits: usize,
    band: Band,
    strips: Vec<Strip>,
    /// Steps of a tile.
    tile: usize,
    /// By strip: its first tile, and the place of that along the steps. After the last strip: the number of tiles.
    first: Vec<[usize; 2]>,
    /// By strip: what its words know.
    states: Vec<Mutex<Words>>,
    /// By strip: the sum of the differences along its lowest row that lead to the next strip.
    sums: Vec<AtomicI64>,
    /// By place along the steps: the differences along the lowest row of the last tile that was computed there.
    borders: Vec<Mutex<Vec<u8>>>,
}

/// The words of a strip.
#[derive(Debug)]
struct Words {
    state: State,
    /// The difference above the first word at the next step, if a tile of the strip is computed: the tile above handed it on before.
    next: Option<u8>,
    /// The differences above the first word, and then those along the lowest row, of the tile that is computed.
    border: Vec<u8>,
}

/// How the distance of two long texts is found.
#[derive(Debug)]
pub enum Long {
    /// It is found already: the texts are similar, or the pattern has too many different letters for tiles.
    Known(usize),
    /// By these tiles.
    Tiles(Box<Tiles>),
}

impl Pattern {
    /// Whether the table of this text and one of so many letters is worth tiles.
    pub fn is_long(&self, letters: usize) -> bool {
        self.length.min(letters) > TILED_LETTERS_MIN
    }

    /// The distance to another long text, or the tiles that give it.
    pub fn long(&self, text: &[char]) -> Long {
        let path = CodePath::detect();
        let is_long = self.is_long(text.len()) && self.text != text;
        let Some(texts) = is_long.then(|| Numbered::new(self, text)).flatten() else {
            return Long::Known(self.distance(text));
        };
        let most = self.length.max(text.len());
        match guess(path, &texts, most) {
            Guess::Edits(edits) if edits * most > TILED_CELLS_MIN => {
                let tile = (most / TILE_SHARE).clamp(TILE_MIN, TILE_MAX);
                Long::Tiles(Box::new(Tiles::new(path, texts, edits, tile)))
            }
            Guess::Edits(edits) => Long::Known(by_bands(path, &texts, edits, most).unwrap_or(most)),
            Guess::Known(distance) => Long::Known(distance.unwrap_or(most)),
        }
    }
}

impl Tiles {
    /// The band for so many edits, at least the difference of the lengths, in tiles of so many steps.
    fn new(path: CodePath, texts: Numbered, edits: usize, tile: usize) -> Self {
        let band = Band::new(texts.size(), edits);
        let strips = band.strips(strip_words(path, &texts));
        let (mut first, mut tiles) = (Vec::with_capacity(strips.len() + 1), 0);
        for strip in &strips {
            let steps = strip.steps();
            let begin = steps.start / tile;
            first.push([tiles, begin]);
            tiles += steps.end.div_ceil(tile) - begin;
        }
        first.push([tiles, 0]);
        let words =
            |strip: &Strip| Words { state: State::new(strip.words[1]), next: None, border: Vec::new() };
        let states = strips.iter().map(|strip| Mutex::new(words(strip))).collect();
        let sums = strips.iter().map(|_| AtomicI64::new(0)).collect();
        let places = strips.last().map_or(0, |strip| strip.steps().end.div_ceil(tile));
        let borders = (0..places).map(|_| Mutex::new(vec![RISES; tile])).collect();
        Self { path, texts, edits, band, strips, tile, first, states, sums, borders }
    }

    /// The number of tiles.
    pub fn count(&self) -> usize {
        self.first[self.strips.len()][0]
    }

    /// The letters of rows and of columns by number, and the bits of a number. A letter of a text that the other one lacks has a number that
    /// the other one does not have.
    pub fn letters(&self) -> ([&[u16]; 2], usize) {
        ([&self.texts.rows, &self.texts.columns], self.texts.planes)
    }

    /// Whether the texts differ so much that the band is a large part of the table: then the whole table is soon computed too, where many
    /// cells are computed at once.
    pub fn is_wide(&self) -> bool {
        let [rows, columns] = self.texts.size();
        WIDE_SHARE * self.edits >= rows.max(columns)
    }

    /// Cells of the table.
    pub fn cells(&self) -> u64 {
        self.texts.size().iter().map(|letters| *letters as u64).product()
    }

    /// The strip of a tile, and its place along the steps.
    fn place(&self, tile: usize) -> [usize; 2] {
        let strip = self.first.partition_point(|first| first[0] <= tile) - 1;
        let [first, begin] = self.first[strip];
        [strip, begin + tile - first]
    }

    /// The tile of a strip at a place along the steps.
    fn tile(&self, strip: usize, at: usize) -> Option<usize> {
        let [first, begin] = self.first[strip];
        let tile = first + at.checked_sub(begin)?;
        (tile < self.first[strip + 1][0]).then_some(tile)
    }

    /// The tiles that a tile needs: the one to its left, and the one above it.
    pub fn before(&self, tile: usize) -> impl Iterator<Item = usize> {
        let [strip, at] = self.place(tile);
        let left = at.checked_sub(1).and_then(|left| self.tile(strip, left));
        let above = strip.checked_sub(1).and_then(|above| self.tile(above, at));
        left.into_iter().chain(above)
    }

    /// The tiles that need a tile: the one to its right, and the one below it.
    pub fn after(&self, tile: usize) -> impl Iterator<Item = usize> {
        let [strip, at] = self.place(tile);
        let right = self.tile(strip, at + 1);
        let below = (strip + 1 < self.strips.len()).then(|| self.tile(strip + 1, at)).flatten();
        right.into_iter().chain(below)
    }

    /// Tiles on the longest path from a tile to the last one.
    pub fn left(&self, tile: usize) -> usize {
        let [strip, at] = self.place(tile);
        let [last_strip, last] = self.place(self.count() - 1);
        last_strip - strip + last - at
    }

    /// Computes a tile. Those before it must be computed.
    ///
    /// # Panics
    /// When there is no such tile.
    pub fn compute(&self, tile: usize) {
        let [number, at] = self.place(tile);
        let (strip, all) = (&self.strips[number], self.strips[number].steps());
        let steps = (at * self.tile).max(all.start)..((at + 1) * self.tile).min(all.end);
        // Only this tile has this strip and this border now, so no thread waits.
        let lock = "a tile panicked, and its panic ends the computation";
        let mut words = self.states[number].lock().expect(lock);
        let mut below = self.borders[at].lock().expect(lock);
        let Words { state, next, border } = &mut *words;
        // The strip above handed the difference of a step on at the step before.
        let inside = steps.start - at * self.tile..steps.end - at * self.tile;
        let first = next.unwrap_or_else(|| match (inside.start.checked_sub(1), at.checked_sub(1)) {
            (Some(before), _) => below[before],
            (None, Some(before)) => self.borders[before].lock().expect(lock)[self.tile - 1],
            (None, None) => RISES,
        });
        border.clear();
        border.push(first);
        border.extend_from_slice(&below[inside.start..inside.end - 1]);
        *next = Some(below[inside.end - 1]);
        let (of_strip, column) = (strip.words, steps.start - strip.words[0]);
        Steps { texts: &self.texts, words: of_strip, column, state, place: 0, border }.run(self.path);
        below[inside].copy_from_slice(border);
        let counted = (all.start + self.band.counted(&self.strips, number)).clamp(steps.start, steps.end);
        self.sums[number].fetch_add(moved(0, &border[..counted - steps.start]), Ordering::Relaxed);
    }

    /// The distance once all tiles are computed, or the tiles of a wider band that has it.
    pub fn end(self) -> Long {
        let mut number = 0;
        for (strip, sum) in self.strips.iter().zip(&self.sums) {
            number = self.band.begin(number, strip) + sum.load(Ordering::Relaxed);
        }
        if let (Some(strip), Some(state)) = (self.strips.last(), self.states.last()) {
            let state = &state.lock().expect("no tile panicked").state;
            number = self.band.above_padding(number, state, strip.lane());
        }
        let found = usize::try_from(number).expect("differences of a table lead to a distance");
        if found <= self.edits {
            return Long::Known(found);
        }
        // So many edits suffice.
        Long::Tiles(Box::new(Self::new(self.path, self.texts, found, self.tile)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Levenshtein;
    use super::*;
    use crate::chance::Random;
    use crate::distance::Distance;

    /// Computes all tiles, those that are ready at a time on several threads, until no wider band is needed.
    fn distance(tiles: Tiles) -> usize {
        let mut long = Long::Tiles(Box::new(tiles));
        while let Long::Tiles(tiles) = long {
            let mut waits: Vec<usize> = (0..tiles.count()).map(|tile| tiles.before(tile).count()).collect();
            let mut ready: Vec<usize> = (0..tiles.count()).filter(|tile| waits[*tile] == 0).collect();
            let mut computed = 0;
            while !ready.is_empty() {
                computed += ready.len();
                std::thread::scope(|scope| {
                    for tile in &ready {
                        scope.spawn(|| tiles.compute(*tile));
                    }
                });
                let mut next = Vec::new();
                for tile in ready.iter().flat_map(|tile| tiles.after(*tile)) {
                    waits[tile] -= 1;
                    next.extend((waits[tile] == 0).then_some(tile));
                }
                ready = next;
            }
            assert_eq!(computed, tiles.count(), "no tile waits for ever");
            long = tiles.end();
        }
        let Long::Known(distance) = long else { unreachable!("the loop ends with a distance") };
        distance
    }

    #[test]
    fn tiles_give_the_distance_of_the_definition() {
        let mut random = Random::new(2);
        for (rows, columns, letters) in
            [(1, 1, 4), (64, 300, 4), (700, 650, 2), (1000, 129, 60), (129, 1000, 200), (4200, 4300, 4)]
        {
            let alphabet: Vec<char> = ('!'..).take(letters).collect();
            let mut text =
                |count: usize| (0..count).map(|_| alphabet[random.idx(letters)]).collect::<Vec<char>>();
            let (a, b) = (text(rows), text(columns));
            let expected = Levenshtein.reference(&a, &b) as usize;
            for path in CodePath::available() {
                for (tile, edits) in [(64, 0), (192, usize::MAX), (1000, expected), (4096, expected / 2)] {
                    let texts = Numbered::new(&Pattern::new(&a), &b).expect("few letters");
                    let tiles = Tiles::new(path, texts, edits.max(rows.abs_diff(columns)), tile);
                    assert_eq!(tiles.left(tiles.count() - 1), 0, "the last tile ends the table");
                    assert_eq!(distance(tiles), expected, "{path}, tiles of {tile}, {edits} edits");
                }
            }
        }
    }

    #[test]
    fn long_texts_are_cut_unless_they_are_similar() {
        let mut random = Random::new(4);
        let mut text =
            |count: usize| (0..count).map(|_| ['A', 'C', 'G', 'T'][random.idx(4)]).collect::<Vec<char>>();
        let (a, b) = (text(2 * TILED_LETTERS_MIN), text(2 * TILED_LETTERS_MIN));
        let pattern = Pattern::new(&a);
        let Long::Tiles(tiles) = pattern.long(&b) else { panic!("random texts are not similar") };
        assert!(tiles.is_wide() && tiles.letters().1 == 2);
        assert_eq!(distance(*tiles), pattern.distance(&b));
        assert!(matches!(pattern.long(&a[3..]), Long::Known(3)));
        assert!(
            matches!(pattern.long(&b[..2000]), Long::Known(found) if found == pattern.distance(&b[..2000]))
        );
        assert!(pattern.is_long(b.len()) && !pattern.is_long(TILED_LETTERS_MIN));
    }
}
