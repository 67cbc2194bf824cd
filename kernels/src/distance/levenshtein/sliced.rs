//! Tables of edit distances of one pattern and 512 texts at once: each pair has one bit of every vector.
//!
//! The vertical and horizontal differences of a table are -1, 0 or 1, so a cell of all pairs takes five to eight operations on
//! bits, without carries, shifts or look-ups (Hyyrö's bit-parallel cells, turned by 90 degrees). Rows are taken several at
//! once, so that their state stays in registers.
//!
//! Invariant: lanes whose text has ended compute numbers that nothing reads.

use crate::CodePath;
use crate::bits::{Bits, PLANES, WORDS};
use crate::lanes::{Lanes, Work, run};

/// Texts that are compared at once.
pub(super) const LANES: usize = WORDS * u64::BITS as usize;

/// The most letters of a pattern, and of a text.
pub(super) const LETTERS_MAX: usize = 1024;
// The numbers that are summed are at most 2 for each letter of a text.
const _: () = assert!(2 * LETTERS_MAX < 1 << PLANES);

/// The most bytes of the bits of letters that several patterns share: part of the second-level cache.
const TABLE_BYTES_MAX: usize = 1 << 18;

/// Letters of 512 texts, a byte each: all first letters, then all second ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Letters<'a> {
    /// The letter of each text at each place.
    pub(super) codes: &'a [[u8; LANES]],
    /// A bit for each text at each place, whether it is longer.
    pub(super) longer: &'a [[u64; WORDS]],
    /// Letters of each text.
    pub(super) lengths: &'a [u32; LANES],
}

/// Computes the distances of each pattern from all texts. A pattern is a list of codes, not empty.
pub(super) fn distances(
    path: CodePath,
    texts: Letters<'_>,
    patterns: &[&[u8]],
    give: &mut dyn FnMut(usize, &[u32; LANES]),
) {
    run(path, Sliced { texts, patterns, give });
}

struct Sliced<'a, 'b> {
    texts: Letters<'a>,
    patterns: &'a [&'a [u8]],
    give: &'a mut (dyn FnMut(usize, &[u32; LANES]) + 'b),
}

impl Work for Sliced<'_, '_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { texts, patterns, give } = self;
        let places = texts.codes.len();
        let mut shared = [false; 256];
        for code in patterns.iter().flat_map(|pattern| pattern.iter()) {
            shared[usize::from(*code)] = true;
        }
        let different = shared.iter().filter(|is_used| **is_used).count();
        if patterns.len() > 1 && different * places * size_of::<[u64; WORDS]>() > TABLE_BYTES_MAX {
            for (number, pattern) in patterns.iter().enumerate() {
                let mut give_one = |_: usize, found: &[u32; LANES]| give(number, found);
                compute(lanes, texts, std::slice::from_ref(pattern), &mut give_one);
            }
        } else {
            compute(lanes, texts, patterns, give);
        }
    }
}

/// The distances of patterns that share a table of letters.
#[inline(always)]
fn compute<L: Lanes>(
    lanes: L,
    texts: Letters<'_>,
    patterns: &[&[u8]],
    give: &mut (dyn FnMut(usize, &[u32; LANES]) + '_),
) {
    let places = texts.codes.len();
    let mut numbers = [0; 256];
    let mut tables: Vec<Vec<L::B>> = Vec::new();
    for pattern in patterns {
        for code in *pattern {
            if numbers[usize::from(*code)] == 0 {
                tables.push(differing(lanes, texts.codes, *code));
                numbers[usize::from(*code)] = tables.len();
            }
        }
    }
    let mut longer = vec![lanes.all(false); parts::<L>() * places];
    for part in 0..parts::<L>() {
        for (place, words) in texts.longer.iter().enumerate() {
            longer[part * places + place] = lanes.bits(&words[part * L::BIT_WORDS..]);
        }
    }
    let mut columns = vec![[lanes.all(true), lanes.all(false)]; places];
    for (number, pattern) in patterns.iter().enumerate() {
        let mut found = [0; LANES];
        for part in 0..parts::<L>() {
            for column in &mut columns {
                *column = [lanes.all(true), lanes.all(false)];
            }
            let of = |code: &u8| &tables[numbers[usize::from(*code)] - 1][part * places..(part + 1) * places];
            let mut rows = *pattern;
            while !rows.is_empty() {
                // A loop for each number of rows, so that the compiler keeps their state in registers.
                let taken = match rows.len() {
                    8.. if L::BIT_ROWS == 8 => {
                        several(lanes, [0, 1, 2, 3, 4, 5, 6, 7].map(|row| of(&rows[row])), &mut columns)
                    }
                    4.. => several(lanes, [0, 1, 2, 3].map(|row| of(&rows[row])), &mut columns),
                    2.. => several(lanes, [0, 1].map(|row| of(&rows[row])), &mut columns),
                    _ => several(lanes, [of(&rows[0])], &mut columns),
                };
                rows = &rows[taken..];
            }
            let longer = &longer[part * places..(part + 1) * places];
            let first = part * L::BIT_WORDS * u64::BITS as usize;
            let lengths = &texts.lengths[first..];
            sum(lanes, &columns, longer, pattern.len(), lengths, &mut found[first..]);
        }
        give(number, &found);
    }
}

/// Vectors of 512 bits.
const fn parts<L: Bits>() -> usize {
    WORDS / L::BIT_WORDS
}

/// Marks the letters of the texts that are not this one: by part, then by place.
#[inline(always)]
fn differing<L: Lanes>(lanes: L, codes: &[[u8; LANES]], code: u8) -> Vec<L::B> {
    let mut table = vec![lanes.all(true); parts::<L>() * codes.len()];
    for (place, bytes) in codes.iter().enumerate() {
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<64>().0) {
            *word = !lanes.equal(bytes, code);
        }
        for part in 0..parts::<L>() {
            table[part * codes.len() + place] = lanes.bits(&words[part * L::BIT_WORDS..]);
        }
    }
    table
}

/// Some rows of the table, from the left to the right; returns their number. `columns` has the horizontal differences above them, then below.
#[inline(always)]
fn several<L: Lanes, const ROWS: usize>(
    lanes: L,
    differ: [&[L::B]; ROWS],
    columns: &mut [[L::B; 2]],
) -> usize {
    let mut vertical = [[lanes.all(true), lanes.all(false)]; ROWS];
    for differ in &differ {
        assert_eq!(differ.len(), columns.len(), "a vector a place");
    }
    for (place, column) in columns.iter_mut().enumerate() {
        let mut horizontal = *column;
        for (vertical, differ) in vertical.iter_mut().zip(&differ) {
            (*vertical, horizontal) = lanes.cell(differ[place], *vertical, horizontal);
        }
        *column = horizontal;
    }
    ROWS
}

/// The distances: the number of rows, and the differences along the last one, up to each text's end.
#[inline(always)]
fn sum<L: Lanes>(
    lanes: L,
    columns: &[[L::B; 2]],
    longer: &[L::B],
    rows: usize,
    lengths: &[u32],
    found: &mut [u32],
) {
    // A difference plus 1 is 0, 1 or 2: a number of two bits.
    let mut planes = [lanes.all(false); PLANES];
    let used = PLANES.min((2 * columns.len()).ilog2() as usize + 1);
    for ([right, back], longer) in columns.iter().zip(longer) {
        let one = lanes.and_not(lanes.or(*right, *back), *longer);
        let two = lanes.and(*right, *longer);
        let mut carry = lanes.and(planes[0], one);
        planes[0] = lanes.xor(planes[0], one);
        [planes[1], carry] = lanes.full_add(planes[1], two, carry);
        for plane in &mut planes[2..used] {
            let sum = lanes.xor(*plane, carry);
            carry = lanes.and(*plane, carry);
            *plane = sum;
        }
    }
    let mut words = [[0; WORDS]; PLANES];
    for (words, plane) in words.iter_mut().zip(planes) {
        lanes.store_bits(plane, words);
    }
    for word in 0..L::BIT_WORDS {
        let mut of_word = [0; PLANES];
        for (of_word, words) in of_word.iter_mut().zip(&words) {
            *of_word = words[word];
        }
        let first = word * u64::BITS as usize;
        let mut numbers = [rows as u32; 64];
        lanes.add_planes(&of_word[..used], &mut numbers);
        for ((found, number), length) in found[first..].iter_mut().zip(numbers).zip(&lengths[first..]) {
            // The counted difference has 1 added for each letter.
            *found = number.wrapping_sub(*length);
        }
    }
}
