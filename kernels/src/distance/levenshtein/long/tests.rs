//! The tiles of long pairs on the processor, as `long.cl` computes them, beside the definition.

use proptest::prelude::*;

use super::super::Levenshtein;
use super::*;
use crate::chance::Random;
use crate::distance::Distance;

/// The differences along a row from a column to the next: a bit for a rise, and one for a fall.
type Difference = [u32; 2];
const FALLS: Difference = [0, 1];

/// A word of rows: those that rise, and those that fall, down its last column, and along the rows to that column.
#[derive(Clone, Copy)]
struct Word {
    rows: [u32; 2],
    handed: [u32; 2],
}

impl Word {
    /// A word that has not begun; the first one lacks some rows at its top.
    fn new(lacking: usize) -> Self {
        Self { rows: [u32::MAX << lacking, 0], handed: [0, u32::MAX] }
    }

    /// The difference along its lowest row.
    fn lowest(&self) -> Difference {
        self.handed.map(|rows| rows >> 31)
    }

    /// The next column.
    fn step(&mut self, equal: u32, [up_in, down_in]: Difference) {
        let [rise, fall] = self.rows;
        let vertical = equal | fall;
        let sum = (equal & rise).wrapping_add(rise).wrapping_add(down_in);
        let horizontal = (sum ^ rise) | equal;
        let (up, down) = (fall | !(horizontal | rise), rise & horizontal);
        let (right, back) = (up << 1 | up_in, down << 1 | down_in);
        *self = Self { rows: [back | !(vertical | right), right & vertical], handed: [up, down] };
    }
}

/// Computes all tiles in the order of the launches.
struct Processor<'p> {
    pairs: &'p LongPairs,
    words: Vec<Word>,
    /// By strip, warp and step of a chunk.
    handed: Vec<Difference>,
    borders: Vec<[u32; 2]>,
}

impl<'p> Processor<'p> {
    fn new(pairs: &'p LongPairs) -> Self {
        let mut words = vec![Word::new(0); pairs.words()];
        for pair in &pairs.pairs {
            words[pair.strips[0] * pairs.shape.items] =
                Word::new(pair.rows[1].div_ceil(WORD) * WORD - pair.rows[1]);
        }
        // Memory of a device has any numbers at first.
        Self {
            pairs,
            words,
            handed: vec![FALLS; pairs.handed()],
            borders: vec![[0x1234_5678; 2]; pairs.border()],
        }
    }

    fn tile(&mut self, pair: &Pair, strip: usize, place: usize) {
        let shape = self.pairs.shape;
        let (rows, columns) = (
            &self.pairs.rows[pair.rows[0]..][..pair.rows[1]],
            &self.pairs.columns[pair.columns[0]..][..pair.columns[1]],
        );
        let words_of_pair = rows.len().div_ceil(WORD);
        let lacking = words_of_pair * WORD - rows.len();
        let last = (words_of_pair - strip * shape.items).min(shape.items) - 1;
        let words = &mut self.words[(pair.strips[0] + strip) * shape.items..][..shape.items];
        let handed = &mut self.handed[(pair.strips[0] + strip) * shape.items / shape.lanes * CHUNK..];
        for step in 0..shape.steps {
            let at = place * shape.steps + step;
            let border = &mut self.borders[pair.border + at / CHUNK];
            let above = if strip == 0 { [1, 0] } else { border.map(|bits| bits >> (at % CHUNK) & 1) };
            // The lowest item first: it needs what the one above it has handed on in the step before.
            for item in (0..=last).rev() {
                let (warp, column) = (
                    item / shape.lanes,
                    at as i64 - (strip * shape.strip_behind() + shape.behind(item)) as i64,
                );
                let difference = match item % shape.lanes {
                    0 if warp == 0 => above,
                    0 => handed[(warp - 1) * CHUNK + step % CHUNK],
                    _ => words[item - 1].lowest(),
                };
                let letter = usize::try_from(column).ok().and_then(|column| columns.get(column));
                let mut equal = 0;
                for r in 0..WORD {
                    let row = ((strip * shape.items + item) * WORD + r).checked_sub(lacking);
                    let is_equal = row.and_then(|row| rows.get(row)) == Some(letter.unwrap_or(&0));
                    equal |= u32::from(is_equal) << r;
                }
                words[item].step(equal, difference);
            }
            for warp in 0..shape.items / shape.lanes - 1 {
                // The warp below has read the difference of the chunk before.
                handed[warp * CHUNK + step % CHUNK] = words[(warp + 1) * shape.lanes - 1].lowest();
            }
            let below = words[last].lowest();
            for (bits, bit) in border.iter_mut().zip(below) {
                *bits = *bits & !(1 << (at % CHUNK)) | bit << (at % CHUNK);
            }
        }
    }

    fn run(mut self) -> Vec<usize> {
        let pairs = self.pairs;
        for Launch { diagonal, strips } in pairs.launches() {
            for pair in &pairs.pairs {
                for strip in strips.clone().filter(|strip| *strip < pair.strips[1]) {
                    let places = pairs.places(pair, strip);
                    if let Some(place) = diagonal.checked_sub(strip).filter(|place| places.contains(place)) {
                        self.tile(pair, strip, place);
                    }
                }
            }
        }
        (0..pairs.len()).map(|pair| pairs.distance(pair, &self.borders).expect("a distance")).collect()
    }
}

fn text(random: &mut Random, count: usize, letters: usize) -> Vec<u16> {
    (0..count).map(|_| random.idx(letters) as u16).collect()
}

fn reference(a: &[u16], b: &[u16]) -> usize {
    let letters = |text: &[u16]| {
        text.iter()
            .map(|letter| char::from_u32(0x100 + u32::from(*letter)).expect("a letter"))
            .collect::<Vec<char>>()
    };
    Levenshtein.reference(&letters(a), &letters(b)) as usize
}

fn check(shape: Shape, texts: &[[Vec<u16>; 2]]) {
    let mut pairs = LongPairs::new(shape);
    texts.iter().for_each(|[a, b]| pairs.add([a, b]));
    let expected: Vec<usize> = texts.iter().map(|[a, b]| reference(a, b)).collect();
    assert_eq!(Processor::new(&pairs).run(), expected, "{shape:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn tiles_of_all_shapes_give_the_distances_of_the_definition(
        seed in any::<u64>(),
        rows in 1usize..500,
        columns in 1usize..300,
        letters in 1usize..40,
        lanes in 1usize..4,
        warps in 1usize..4,
        chunks in 1usize..4,
    ) {
        let mut random = Random::new(seed);
        let shape = Shape::of_tiles([lanes * warps, lanes, chunks * CHUNK], 6);
        let mut pair = |rows: usize, columns: usize| [text(&mut random, rows, letters), text(&mut random, columns, letters + 1)];
        check(shape, &[pair(rows, columns), pair(columns, rows / 3 + 1), pair(40, 3)]);
    }
}

#[test]
fn lengths_around_words_and_tiles() {
    let mut random = Random::new(3);
    // 128 rows and 32 steps.
    let shape = Shape::of_tiles([4, 2, CHUNK], 4);
    for rows in [1, 31, 32, 33, 127, 128, 129, 257] {
        for columns in [1, 2, 31, 32, 33, 64, 129] {
            check(shape, &[[text(&mut random, rows, 4), text(&mut random, columns, 4)]]);
        }
    }
    let same = text(&mut random, 300, 4);
    check(
        shape,
        &[
            [same.clone(), same.clone()],
            [same[..290].to_vec(), same[5..].to_vec()],
            [vec![1; 200], vec![2; 150]],
        ],
    );
}

#[test]
fn launches_have_each_tile_once_and_after_those_it_needs() {
    for (rows, columns) in [(20_000, 20_000), (100_000, 30_000), (1, 1), (4097, 900)] {
        let mut pairs = LongPairs::new(Shape::new(2));
        pairs.add([&vec![0; rows], &vec![1; columns]]);
        let pair = &pairs.pairs[0];
        let mut next: Vec<usize> = (0..pair.strips[1]).map(|strip| pairs.places(pair, strip).start).collect();
        for Launch { diagonal, strips } in pairs.launches() {
            for strip in strips {
                let place = diagonal - strip;
                assert_eq!(place, next[strip], "a strip's tiles come in order");
                // The columns that matter, and those to the left of the table, are above it.
                assert!(strip == 0 || next[strip - 1] > place || place >= pairs.places(pair, strip - 1).end);
                next[strip] += 1;
            }
        }
        for (strip, next) in next.iter().enumerate() {
            assert_eq!(*next, pairs.places(pair, strip).end);
        }
    }
}

#[test]
fn letters_of_many_bits_have_parts() {
    let parts = |bits: usize| {
        let shape = Shape::new(bits);
        [shape.parts, shape.part_bits]
    };
    assert_eq!([0, 1, 2, 6].map(parts), [[1, 1], [1, 1], [1, 2], [1, 6]]);
    assert_eq!([7, 10, 11, 12, 16].map(parts), [[2, 4], [2, 5], [3, 4], [3, 4], [4, 4]]);
}
