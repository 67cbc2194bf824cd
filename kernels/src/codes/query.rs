//! A query in whole numbers, and the bounds of one row in f64.

use super::{Encoder, LARGE, NUMBERS_PER_WORD, SLACK, SMALL, TINY, Triple, ZERO_4, ZERO_8};
use crate::vector::{VectorMeasure, inner_product};

/// The largest weight of a byte.
const BYTE_MAX: f64 = 127.0;
/// A fine weight is this many times its high byte, plus its low byte.
pub(super) const HIGH: i32 = 128;
/// Words of a plane whose products are added side by side.
pub(super) const WORDS: usize = 16;

/// A query less the centre, as whole numbers of a step.
#[derive(Clone, Debug)]
pub struct CodeQuery {
    pub(super) measure: VectorMeasure,
    /// The step; NaN if the query has no bounds.
    pub(super) scale: f64,
    /// The high bytes, or the only ones.
    pub(super) high: Vec<i8>,
    /// The low bytes of a fine query.
    pub(super) low: Vec<i8>,
    /// The whole numbers of a fine query by their place in a word of a plane: one for each word, then zeros.
    pub(super) by_place: [Vec<i32>; NUMBERS_PER_WORD],
    /// The sums of these bytes.
    pub(super) sums: [i64; 2],
    /// The squared norm of the query in whole numbers, times the step squared.
    pub(super) square: f64,
    /// The distance of the true query from it, from above.
    pub(super) error: f64,
    /// The inner product with the centre, for inner products; else 0.
    middle: f64,
    /// The centre's norm, and what inner products in f64 may be off relative to the norm of a row with the centre; for inner
    /// products.
    far: (f64, f64),
}

impl CodeQuery {
    /// A query for the codes of an encoder: of bytes, or `fine`, of pairs of bytes.
    ///
    /// # Panics
    /// If it has another number of dimensions.
    pub fn new(encoder: &Encoder, query: &[f32], fine: bool) -> Self {
        assert_eq!(query.len(), encoder.centre().len(), "numbers of a query");
        let moved = encoder.moved(query);
        let largest = largest_of(&moved);
        let whole_max = if fine { BYTE_MAX * f64::from(HIGH) } else { BYTE_MAX };
        let scale = if largest == 0.0 { 1.0 } else { largest / whole_max };
        let whole: Vec<i32> = moved.iter().map(|x| (x / scale).round() as i32).collect();
        let (mut high, mut low) = (Vec::new(), Vec::new());
        for number in &whole {
            if fine {
                let upper = (number + HIGH / 2).div_euclid(HIGH).clamp(-127, 127);
                high.push(upper as i8);
                low.push((number - upper * HIGH) as i8);
            } else {
                high.push(*number as i8);
            }
        }
        let sum = |bytes: &[i8]| bytes.iter().map(|byte| i64::from(*byte)).sum();
        let sums = [sum(&high), sum(&low)];
        let (mut square, mut error) = (0.0, 0.0);
        for (x, number) in moved.iter().zip(&whole) {
            let near = f64::from(*number) * scale;
            square += near * near;
            error += (x - near) * (x - near);
        }
        let by_place = std::array::from_fn(|place| {
            // The low half of byte `n` has number `n` of the eight, the high half number `n + 4`.
            let number = place / 2 + place % 2 * (NUMBERS_PER_WORD / 2);
            let mut weights: Vec<i32> = whole
                .chunks(NUMBERS_PER_WORD)
                .take(if fine { usize::MAX } else { 0 })
                .map(|numbers| numbers.get(number).copied().unwrap_or_default())
                .collect();
            weights.resize(weights.len().next_multiple_of(WORDS), 0);
            weights
        });
        let scale = if has_bounds(largest) { scale } else { f64::NAN };
        let error = error.sqrt() * (1.0 + SLACK) + largest * 1e-12;
        let (middle, far) = of_centre(encoder, query);
        Self { measure: encoder.measure(), scale, high, low, by_place, sums, square, error, middle, far }
    }

    /// A query for product codes, and its numbers less the centre. It has no whole numbers, and its step is 1.
    ///
    /// # Panics
    /// If it has another number of dimensions.
    pub(super) fn of_numbers(encoder: &Encoder, query: &[f32]) -> (Self, Vec<f64>) {
        assert_eq!(query.len(), encoder.centre().len(), "numbers of a query");
        let moved = encoder.moved(query);
        let largest = largest_of(&moved);
        let (middle, far) = of_centre(encoder, query);
        let of_query = Self {
            measure: encoder.measure(),
            scale: if has_bounds(largest) { 1.0 } else { f64::NAN },
            high: Vec::new(),
            low: Vec::new(),
            by_place: Default::default(),
            sums: [0; 2],
            square: moved.iter().map(|x| x * x).sum(),
            error: largest * 1e-12,
            middle,
            far,
        };
        (of_query, moved)
    }

    /// The inner product with the centre; the centre's norm, and what inner products in f64 may be off relative to the norm of a
    /// row with the centre.
    pub(super) fn of_centre(&self) -> (f64, (f64, f64)) {
        (self.middle, self.far)
    }

    /// The part along a code, from the sum of products with the bytes of a row.
    pub(super) fn along(&self, sum: i64, is_8: bool, inverse: f32) -> f64 {
        let zero = i64::from(if is_8 { ZERO_8 } else { ZERO_4 });
        let sums =
            if self.low.is_empty() { self.sums[0] } else { self.sums[0] * i64::from(HIGH) + self.sums[1] };
        (sum - zero * sums) as f64 * self.scale * f64::from(inverse)
    }

    /// A lower and an upper bound of the distance of a row, from the query's part along its code, and the row's shift. Bounds
    /// that are no numbers become the widest.
    pub(super) fn bounds(&self, along: f64, row: Triple, shift: f32) -> (f64, f64) {
        let (a, height) = (f64::from(row.along), f64::from(row.height));
        let rest = ((self.square - along * along).max(0.0) + SLACK * self.square).sqrt();
        let (norm, slack) = (a * a + height * height, SLACK * (self.square + a * a + height * height));
        let (lower, upper) = match self.measure {
            VectorMeasure::InnerProduct => {
                let (norm, shift) = (norm.sqrt() * (1.0 + SLACK), f64::from(shift));
                let roundings = slack + SLACK * shift.abs() + self.far.1 * (norm + self.far.0);
                let off = rest * height + self.error * norm + roundings + TINY * (1.0 + self.square.sqrt());
                let middle = -along * a - self.middle - shift;
                (middle - off, middle + off)
            }
            measure => {
                let middle = self.square + norm - 2.0 * along * a;
                let error = self.error + TINY;
                let lower = (middle - 2.0 * rest * height - slack).max(0.0).sqrt() - error;
                let upper = (middle + 2.0 * rest * height + slack).sqrt() + error;
                match measure {
                    // Of normalised vectors the squared distance is twice that of the cosine.
                    VectorMeasure::Cosine => {
                        (lower.max(0.0).powi(2) / 2.0 - SLACK, upper.powi(2) / 2.0 + SLACK)
                    }
                    _ => (lower.max(0.0), upper),
                }
            }
        };
        match lower.is_finite() && upper.is_finite() {
            true => (lower, upper),
            false => (f64::NEG_INFINITY, f64::INFINITY),
        }
    }

    /// The largest value of a comparison, `bases - factors * along - reach * height`, of a row within `range`.
    pub(super) fn limit(&self, range: f64, norm_max: f64) -> f32 {
        let limit = match self.measure {
            VectorMeasure::InnerProduct => {
                let off = self.error * norm_max + self.far.1 * (norm_max + self.far.0);
                2.0 * (range + self.middle + off) + 2.0 * SLACK * (self.square + norm_max * norm_max)
            }
            measure => {
                let range = if measure == VectorMeasure::Cosine {
                    (2.0 * (range + SLACK)).max(0.0).sqrt()
                } else {
                    range
                };
                let reach = range + self.error + TINY;
                reach * reach * (1.0 + SLACK) - self.square * (1.0 - SLACK)
            }
        };
        let limit = limit + TINY * (1.0 + self.square.sqrt());
        let near = limit as f32;
        match limit.is_nan() {
            true => f32::INFINITY,
            false if f64::from(near) < limit => near.next_up(),
            false => near,
        }
    }

    /// Twice the query's norm, from above: what a row's height may take off the squared distance.
    pub(super) fn reach(&self) -> f32 {
        (2.0 * self.square.sqrt() * (1.0 + SLACK)) as f32
    }
}

/// The largest size of a number; NaN if one is none.
fn largest_of(moved: &[f64]) -> f64 {
    moved.iter().fold(0.0_f64, |largest, x| if x.abs() <= largest { largest } else { x.abs() })
}

/// Whether a query with this largest size of a number has bounds.
fn has_bounds(largest: f64) -> bool {
    largest == 0.0 || (SMALL..=LARGE).contains(&largest)
}

/// For inner products, what [`CodeQuery::of_centre`] gives; zeros for other measures.
fn of_centre(encoder: &Encoder, query: &[f32]) -> (f64, (f64, f64)) {
    match encoder.measure() {
        VectorMeasure::InnerProduct => {
            let norm = |numbers: &[f32]| inner_product(numbers, numbers).sqrt();
            let (own, centre) = (norm(query), norm(encoder.centre()));
            // The distance itself, the row's shift and this product: a rounding for each term of each.
            let roundings = 8.0 * (query.len() as f64 + 16.0) * f64::EPSILON;
            (inner_product(query, encoder.centre()), (centre, roundings * (own + centre)))
        }
        _ => (0.0, (0.0, 0.0)),
    }
}
