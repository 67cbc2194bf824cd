//! Codes of directions: 1 to 4 bits a number, by which inner products are estimated (RaBitQ; Gao and Long 2024, Gao et al. 2025).
//!
//! A vector `x`, turned at random before, is coded by a vector `c` of odd whole numbers between `-(2^B - 1)` and `2^B - 1`, the one of the
//! largest cosine with it. `|x|^2 <q, c> / <x, c>` is an estimate of `<q, x>`, which is right on average over all rotations. It orders
//! vectors and proves nothing: exact distances decide.
//!
//! Bit `b` of four numbers is a part of a product code of 4 bits, whose table has the 16 sums of `2^b` times their signs. So
//! estimates are sums of tables, and codes are scanned as those are (`product`), with a factor for each row.
//!
//! Invariant: codes, factors and tables have the same bits on every code path.

pub mod reference;
#[cfg(test)]
mod tests;

use crate::product::PARTS_MAX;

/// Numbers of a part.
const WIDTH: usize = 4;
/// Entries of a table.
const ENTRIES: usize = 1 << WIDTH;

/// The most bits of a number.
pub const BITS_MAX: usize = 4;

/// Parts of the code of a vector.
pub const fn parts(dimensions: usize, bits: usize) -> usize {
    dimensions.div_ceil(WIDTH) * bits
}

/// Whether vectors of so many numbers have codes of so many bits.
pub const fn fits(dimensions: usize, bits: usize) -> bool {
    bits >= 1 && bits <= BITS_MAX && dimensions >= 1 && parts(dimensions, bits) <= PARTS_MAX
}

/// The numbers beside a code.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    /// The squared norm of the vector.
    pub square: f32,
    /// Twice the squared norm, by the product of the vector and its code; 0 for a vector of zeros.
    pub scale: f32,
}

/// Appends the code of a vector, a byte for each part: all parts of the lowest bit first.
///
/// # Panics
/// If such vectors have no codes of so many bits.
pub fn encode(vector: &[f32], bits: usize, code: &mut Vec<u8>) -> Factors {
    assert!(fits(vector.len(), bits), "{bits} bits for {} numbers", vector.len());
    let levels = levels(vector, bits);
    let (mut square, mut product) = (0.0f64, 0.0f64);
    for (x, level) in vector.iter().zip(&levels) {
        square += f64::from(*x) * f64::from(*x);
        product += f64::from(*x) * f64::from(signed(*level, bits));
    }
    for bit in 0..bits {
        for levels in levels.chunks(WIDTH) {
            code.push((0..).zip(levels).fold(0, |part, (place, level)| part | (level >> bit & 1) << place));
        }
    }
    let scale = if product > 0.0 { (2.0 * square / product) as f32 } else { 0.0 };
    // Products of tiny numbers may leave f32: such a vector counts as one of zeros.
    Factors { square: square as f32, scale: if scale.is_finite() { scale } else { 0.0 } }
}

/// The number that a level stands for.
fn signed(level: u8, bits: usize) -> i32 {
    2 * i32::from(level) - ((1 << bits) - 1)
}

/// The levels of a code of the largest cosine. The sizes of its numbers are those of the vector's, scaled and cut: from the smallest
/// scale on, each step makes one number larger, and the best of all is kept.
fn levels(vector: &[f32], bits: usize) -> Vec<u8> {
    let most = 1usize << (bits - 1);
    // A step: the scale at which it comes, and the number that grows.
    let mut steps: Vec<(f64, u32)> = Vec::with_capacity(vector.len() * (most - 1));
    let (mut product, mut square) = (0.0f64, vector.len() as f64);
    for (place, x) in (0..).zip(vector) {
        let size = f64::from(x.abs());
        product += size;
        if size > 0.0 {
            steps.extend((1..most).map(|step| (2.0 * step as f64 / size, place)));
        }
    }
    steps.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let (mut sizes, mut best, mut best_steps) = (vec![0u8; vector.len()], product * product / square, 0);
    for (nth, (_, place)) in steps.iter().enumerate() {
        let place = *place as usize;
        sizes[place] += 1;
        product += 2.0 * f64::from(vector[place].abs());
        square += 8.0 * f64::from(sizes[place]);
        let cosine = product * product / square;
        if cosine > best {
            (best, best_steps) = (cosine, nth + 1);
        }
    }
    sizes.fill(0);
    steps[..best_steps].iter().for_each(|(_, place)| sizes[*place as usize] += 1);
    let level = |(x, size): (&f32, &u8)| match *x < 0.0 {
        true => most as u8 - 1 - size,
        false => most as u8 + size,
    };
    vector.iter().zip(&sizes).map(level).collect()
}

/// Numbers of the tables of a query.
pub const fn tables_len(dimensions: usize, bits: usize) -> usize {
    parts(dimensions, bits) * ENTRIES
}

/// Writes the tables of a query, turned as the vectors were: sums are the opposite of its inner product with a code.
///
/// # Panics
/// If the room has another length.
pub fn tables(query: &[f32], bits: usize, out: &mut [f32]) {
    assert_eq!(out.len(), tables_len(query.len(), bits), "room for the tables");
    let (lowest, others) = out.split_at_mut(tables_len(query.len(), 1));
    for (numbers, table) in query.chunks(WIDTH).zip(lowest.as_chunks_mut::<ENTRIES>().0) {
        for (entry, sum) in table.iter_mut().enumerate() {
            *sum = 0.0;
            for (place, x) in numbers.iter().enumerate() {
                *sum += if entry >> place & 1 == 1 { -x } else { *x };
            }
        }
    }
    // Multiples by powers of 2 have no error.
    for (bit, tables) in (1..).zip(others.chunks_exact_mut(lowest.len())) {
        let factor = (1 << bit) as f32;
        tables.iter_mut().zip(&*lowest).for_each(|(to, from)| *to = factor * from);
    }
}
