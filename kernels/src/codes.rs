//! Codes of a few bits a number that bound distances with certainty.
//!
//! A row less the centre is coded by a vector `c`, of small whole numbers or of a codebook's centroids (`product`), of which only the
//! direction matters. With
//! `u = c / |c|`, the row is `a u + r` and the query `b u + s`, where `r` and `s` are orthogonal to `u`. Then
//!
//! ```text
//! d^2 = (b - a)^2 + |s - r|^2,   and   (|s| - |r|)^2 <= |s - r|^2 <= (|s| + |r|)^2
//! ```
//!
//! so three numbers of a row, `1/|c|`, `a` and `h = |r|`, bound its distance from below and above: the simplex bound of two
//! pivots, the centre and the code itself. For codes of numbers a query is a vector of bytes, so that `<q, c>` is a whole number;
//! its distance from the true query widens both bounds. For product codes `<q, c>` is a sum of tables of the query itself. Codes
//! along principal directions (`principal`) bound turned rows and queries.
//!
//! The inner product of a row and a query, both less the centre `m`, lies within `b a - |s| h` and `b a + |s| h`, and
//! `<q, x> = <q - m, x - m> + <q, m> + <x - m, m>`. A row keeps the last product, its shift. The cosine is half the squared
//! distance of normalised vectors.
//!
//! Invariant: the f64 distance lies within the bounds, for every row and query. The numbers of a row are f32, `h` rounded up,
//! and `SLACK` of the squared norms and of the shift covers all roundings but those of inner products in f64, which are
//! relative to the norms with the centre. Numbers that are not finite bound nothing, and neither do those whose squares would
//! leave f32: rows with a number beyond `LARGE`, and queries with none but below `SMALL` or one beyond `LARGE`.

#![expect(clippy::neg_cmp_op_on_partial_ord, reason = "a number that is no number excludes nothing")]

mod parts;
mod principal;
mod encoder;
mod held;
mod query;
mod nearest;
mod first_plane;
mod product;
mod scan;
#[cfg(test)]
mod tests;

pub use encoder::Encoder;
pub use held::Codes;
pub use nearest::CodeNearest;
pub use principal::Principal;
pub use query::CodeQuery;
pub use scan::CodeQueries;

use std::str::FromStr;

use crate::rotation::DIMENSIONS_MAX;
use crate::vector::VectorMeasure;

/// Rows of a group, whose words lie side by side.
pub const GROUP: usize = 16;
/// Numbers of a row in a word of a plane, 4 bits each.
pub const NUMBERS_PER_WORD: usize = 8;
/// Bytes of a word.
const WORD_BYTES: usize = size_of::<u32>();
/// Parts of a product code in a word, 8 bits each.
const PARTS_PER_WORD: usize = WORD_BYTES;
/// The relative error of squared bounds: 32 roundings of f32.
const SLACK: f64 = 1.0 / (1 << 19) as f64;
/// Larger numbers, less the centre, are not bounded: 2^16 squares of this one fit f32.
const LARGE: f64 = (1_u64 << 50) as f64;
/// Queries of smaller numbers, less the centre, are not bounded: of the square of this one `SLACK` is a normal number of f32.
const SMALL: f64 = 1.0 / (1_u64 << 50) as f64;
/// Numbers of f32 below the normal ones are off by less than this.
const TINY: f64 = 1.0 / (1_u128 << 127) as f64 / (1 << 16) as f64;
/// Shorter codes count as codes of zeros, whose direction says nothing: of longer ones, numbers and their products with queries
/// are normal numbers of f32.
const SHORT: f64 = 1.0 / (1_u64 << 60) as f64;
/// The whole number of a code of 8 bits that stands for zero.
const ZERO_8: i32 = 128;
/// That of a code of 4 bits, doubled: between 7 and 8.
const ZERO_4: i32 = 15;

/// Which bits of the codes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Levels {
    /// 4 bits.
    Sq4,
    /// 8 bits.
    Sq8,
    /// 8 bits in two planes of 4: the first one bounds alone, both bound what it leaves.
    Planes,
    /// 4 bits on average along principal directions, more where rows vary more, in two planes of 2: the first one bounds alone, both
    /// bound what it leaves.
    Pca,
    /// 16 parts of 8 bits each: the nearest of 256 centroids of each part.
    Product16,
    /// 32 such parts.
    Product32,
    /// 64 such parts.
    Product64,
}

impl Levels {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Planes, Self::Sq8, Self::Pca, Self::Sq4, Self::Product16, Self::Product32, Self::Product64];
    /// The names of all levels.
    pub const NAMES: &[&str] = &["planes", "sq8", "pca", "sq4", "product16", "product32", "product64"];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sq4 => "sq4",
            Self::Sq8 => "sq8",
            Self::Planes => "planes",
            Self::Pca => "pca",
            Self::Product16 => "product16",
            Self::Product32 => "product32",
            Self::Product64 => "product64",
        }
    }

    /// Whether the first plane bounds by itself.
    pub const fn has_first(self) -> bool {
        matches!(self, Self::Sq4 | Self::Planes | Self::Pca)
    }

    /// Whether there are two planes, which bound together.
    pub const fn has_both(self) -> bool {
        matches!(self, Self::Sq8 | Self::Planes | Self::Pca)
    }

    /// Whether codes are trained on rows.
    pub const fn is_trained(self) -> bool {
        matches!(self, Self::Pca | Self::Product16 | Self::Product32 | Self::Product64)
    }

    /// The most numbers of a vector that these codes are for; `None` if any.
    pub const fn dimensions_max(self) -> Option<usize> {
        match self {
            Self::Pca => Some(DIMENSIONS_MAX),
            _ => None,
        }
    }

    /// Parts of a product code for vectors of so many numbers: fewer than its name says where a part would have no number. `None`
    /// for codes of numbers.
    pub const fn parts(self, dimensions: usize) -> Option<usize> {
        let parts = match self {
            Self::Sq4 | Self::Sq8 | Self::Planes | Self::Pca => return None,
            Self::Product16 => 16,
            Self::Product32 => 32,
            Self::Product64 => 64,
        };
        let width = dimensions.div_ceil(parts);
        Some(if width == 0 { 0 } else { dimensions.div_ceil(width) })
    }

    /// Planes of words, and triples of numbers, of a row.
    pub const fn counts(self) -> (usize, usize) {
        match self {
            Self::Sq4 => (1, 1),
            Self::Sq8 => (2, 1),
            Self::Planes | Self::Pca => (2, 2),
            Self::Product16 | Self::Product32 | Self::Product64 => (0, 1),
        }
    }

    /// Words of a plane of a row of this many numbers.
    pub const fn plane_words(self, dimensions: usize) -> usize {
        match self {
            Self::Sq4 | Self::Sq8 | Self::Planes => dimensions.div_ceil(NUMBERS_PER_WORD),
            Self::Pca => principal::plane_words(dimensions),
            Self::Product16 | Self::Product32 | Self::Product64 => 0,
        }
    }

    /// Words of a row of this many numbers: its planes, or its product code, its triples, and its shift if the measure has one.
    pub const fn words(self, measure: VectorMeasure, dimensions: usize) -> usize {
        let (planes, triples) = self.counts();
        let of_code = match self.parts(dimensions) {
            Some(parts) => parts.div_ceil(PARTS_PER_WORD),
            None => planes * self.plane_words(dimensions),
        };
        of_code + 3 * triples + has_shift(measure) as usize
    }
}

impl FromStr for Levels {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|levels| levels.name() == name);
        found.ok_or_else(|| format!("there are no codes `{name}`; there are {}", Self::NAMES.join(", ")))
    }
}

/// Whether the rows of a measure have shifts.
const fn has_shift(measure: VectorMeasure) -> bool {
    matches!(measure, VectorMeasure::InnerProduct)
}

/// The numbers of a row for one number of bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Triple {
    /// `1/|c|`; 0 for a code of zeros.
    pub inverse: f32,
    /// The row's part along the code.
    pub along: f32,
    /// The norm of the rest, from above.
    pub height: f32,
}
