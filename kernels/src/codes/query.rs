//! A query in whole numbers, and the bounds of one row in f64.

use super::principal::{FIELDS, FIELDS_PER_WORD, Field, Principal, SECOND_BITS};
use super::{Encoder, LARGE, NUMBERS_PER_WORD, SLACK, SMALL, TINY, Triple, WORD_BYTES, ZERO_4, ZERO_8};
use crate::CodePath;
use crate::vector::{VectorMeasure, inner_product};

/// All bits of a field along a direction and a half are so many times its bits in the first plane.
const UNITS_OF_ALL: f64 = (2 << SECOND_BITS) as f64;
/// The largest weight of a byte.
const BYTE_MAX: f64 = 127.0;
/// A fine weight is this many times its high byte, plus its low byte.
pub(super) const HIGH: i32 = 128;
/// Words of a plane whose products are added side by side.
pub(super) const WORDS: usize = 16;

/// A query less the centre, as whole numbers of a step, one for each field of a row's code.
#[derive(Clone, Debug)]
pub struct CodeQuery {
    pub(super) measure: VectorMeasure,
    /// The step; NaN if the query has no bounds.
    pub(super) scale: f64,
    /// The high bytes, or the only ones.
    pub(super) high: Vec<i8>,
    /// The low bytes of a fine query.
    pub(super) low: Vec<i8>,
    /// The whole numbers of a fine query by the place of their field in a word of the second plane: one for each word, then zeros.
    pub(super) by_place: Vec<Vec<i32>>,
    /// The sum of products of a code of zeros: of the first plane, and of all bits.
    zeros: [f64; 2],
    /// That of the first plane for each of the bytes: its whole part.
    pub(super) first_zeros: [i64; 2],
    /// The parts of these that are left, together.
    pub(super) first_rest: f32,
    /// The unit of the sums of all bits, in steps.
    unit_of_all: f64,
    /// The squared norm of the query in whole numbers, times the step squared.
    pub(super) square: f64,
    /// The distance of the true query from it, from above.
    pub(super) error: f64,
    /// More than a squared distance differs from that of the vectors that are bounded, as a part of it.
    stretch: f64,
    /// The inner product with the centre, for inner products; else 0.
    middle: f64,
    /// The centre's norm, and what inner products in f64 may be off relative to the norm of a row with the centre; for inner
    /// products.
    far: (f64, f64),
}

/// A number of a query, and the field of rows that it belongs to.
struct Number {
    number: f64,
    /// The weight of the field is this times the number; 0 if it has no code, and then the number stays.
    gain: f64,
    /// The numbers of the field that stand for zero: in the first plane, and of all bits.
    zeros: [f64; 2],
    /// The weight of the field's bits in the second plane is that in the first one, moved by so many bits.
    shift: u32,
}

impl CodeQuery {
    /// A query for the codes of an encoder: of bytes, or `fine`, of pairs of bytes.
    ///
    /// # Panics
    /// If it has another number of dimensions.
    pub fn new(encoder: &Encoder, path: CodePath, query: &[f32], fine: bool) -> Self {
        assert_eq!(query.len(), encoder.centre().len(), "numbers of a query");
        let moved = encoder.moved(query);
        let numbers = match encoder.principal() {
            None => moved.iter().map(|x| Number::of_plain(*x)).collect(),
            Some(principal) => turned_numbers(principal, &principal.turn(path, &moved), fine),
        };
        let heaviest =
            numbers.iter().fold(0.0_f64, |most, number| most.max((number.number * number.gain).abs()));
        let whole_max = if fine { BYTE_MAX * f64::from(HIGH) } else { BYTE_MAX };
        let scale = if heaviest > 0.0 { heaviest / whole_max } else { 1.0 };
        let whole: Vec<i32> =
            numbers.iter().map(|number| (number.number * number.gain / scale).round() as i32).collect();
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
        let (mut square, mut error) = (0.0, 0.0);
        for (Number { number, gain, .. }, whole) in numbers.iter().zip(&whole) {
            let near = if *gain > 0.0 { f64::from(*whole) * scale / gain } else { *number };
            square += near * near;
            error += (number - near) * (number - near);
        }
        let largest = largest_of(&moved);
        let by_place = if fine { by_place(encoder, &numbers, &whole) } else { Vec::new() };
        let (zeros, first_zeros, first_rest) = zeros(&numbers, &whole, [&high, &low]);
        let scale = if has_bounds(largest) { scale } else { f64::NAN };
        // The sums of a turned query are off by less than the last part says.
        let error = error.sqrt() * (1.0 + SLACK) + largest * 1e-12 + norm_slack(encoder, square);
        let (middle, far) = of_centre(encoder, query);
        Self {
            measure: encoder.measure(),
            scale,
            high,
            low,
            by_place,
            zeros,
            first_zeros,
            first_rest,
            unit_of_all: if encoder.principal().is_some() && fine { 1.0 / UNITS_OF_ALL } else { 1.0 },
            square,
            error,
            stretch: encoder.principal().map_or(0.0, Principal::stretch),
            middle,
            far,
        }
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
            by_place: Vec::new(),
            zeros: [0.0; 2],
            first_zeros: [0; 2],
            first_rest: 0.0,
            unit_of_all: 1.0,
            square: moved.iter().map(|x| x * x).sum(),
            error: largest * 1e-12,
            stretch: 0.0,
            middle,
            far,
        };
        (of_query, moved)
    }

    /// The sum of products of a code of zeros with a query that is not fine, which is a whole number.
    pub(super) fn offset(&self, has_both: bool) -> i32 {
        self.zeros[usize::from(has_both)] as i32
    }

    /// The inner product with the centre; the centre's norm, and what inner products in f64 may be off relative to the norm of a
    /// row with the centre.
    pub(super) fn of_centre(&self) -> (f64, (f64, f64)) {
        (self.middle, self.far)
    }

    /// The part along a code, from the sum of products with the numbers of a row.
    pub(super) fn along(&self, sum: i64, is_all: bool, inverse: f32) -> f64 {
        let unit = if is_all { self.unit_of_all } else { 1.0 };
        (sum as f64 - self.zeros[usize::from(is_all)]) * unit * self.scale * f64::from(inverse)
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
                let stretch = self.stretch * (self.square.sqrt() + self.error) * norm;
                let off = rest * height
                    + self.error * norm
                    + stretch
                    + roundings
                    + TINY * (1.0 + self.square.sqrt());
                let middle = -along * a - self.middle - shift;
                (middle - off, middle + off)
            }
            measure => {
                let middle = self.square + norm - 2.0 * along * a;
                let error = self.error + TINY;
                let lower = (middle - 2.0 * rest * height - slack).max(0.0).sqrt() - error;
                let upper = (middle + 2.0 * rest * height + slack).sqrt() + error;
                let (lower, upper) = (lower * (1.0 - self.stretch), upper * (1.0 + self.stretch));
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
                let stretch = self.stretch * (self.square.sqrt() + self.error);
                let off = (self.error + stretch) * norm_max + self.far.1 * (norm_max + self.far.0);
                2.0 * (range + self.middle + off) + 2.0 * SLACK * (self.square + norm_max * norm_max)
            }
            measure => {
                let range = if measure == VectorMeasure::Cosine {
                    (2.0 * (range + SLACK)).max(0.0).sqrt()
                } else {
                    range
                };
                let reach = range * (1.0 + self.stretch) + self.error + TINY;
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

impl Number {
    /// A number of a query for codes of numbers, which all have the same step.
    fn of_plain(number: f64) -> Self {
        Self { number, gain: 1.0, zeros: [f64::from(ZERO_4), f64::from(ZERO_8)], shift: 0 }
    }
}

/// The numbers of a turned query in the order of a row's fields. Those of a fine query belong to fields where they lie in a byte of
/// the first plane; the others belong to bytes of all bits.
fn turned_numbers(principal: &Principal, turned: &[f64], fine: bool) -> Vec<Number> {
    let of_field = |field: &Field| {
        let Field { direction, step, bits, shift } = *field;
        let middle = f64::from(1_u32 << (bits + SECOND_BITS as u32));
        let number = direction.map_or(0.0, |direction| turned[direction]);
        if !fine {
            return Number { number, gain: step / 2.0, zeros: [0.0, middle], shift: 0 };
        }
        let place = f64::from(1_u32 << shift);
        let of_first = place * f64::from((1_u32 << bits) - 1) / 2.0;
        let gain = step * f64::from(1_u32 << SECOND_BITS) / place;
        Number { number, gain, zeros: [of_first, place * (middle - 1.0)], shift: shift + 1 }
    };
    principal.fields().iter().map(of_field).collect()
}

/// The whole numbers of a query by the place of their fields in a word of the second plane.
fn by_place(encoder: &Encoder, numbers: &[Number], whole: &[i32]) -> Vec<Vec<i32>> {
    let is_turned = encoder.principal().is_some();
    let words = encoder.levels().plane_words(encoder.centre().len());
    let (places, bytes) = match is_turned {
        true => (FIELDS_PER_WORD, words * WORD_BYTES),
        false => (NUMBERS_PER_WORD, 0),
    };
    let field = |word: usize, place: usize| match is_turned {
        true => place % FIELDS * bytes + word * WORD_BYTES + place / FIELDS,
        // The low half of byte `n` has number `n` of the eight, the high half number `n + 4`.
        false => word * NUMBERS_PER_WORD + place / 2 + place % 2 * (NUMBERS_PER_WORD / 2),
    };
    let of_place = |place: usize| {
        let weight = |field: usize| whole.get(field).map_or(0, |whole| whole << numbers[field].shift);
        let mut weights: Vec<i32> = (0..words).map(|word| weight(field(word, place))).collect();
        weights.resize(words.next_multiple_of(WORDS), 0);
        weights
    };
    (0..places).map(of_place).collect()
}

/// The sums of products of codes of zeros with whole numbers; those of the first plane for each of their bytes, and the parts of
/// these that are no whole numbers.
fn zeros(numbers: &[Number], whole: &[i32], bytes: [&[i8]; 2]) -> ([f64; 2], [i64; 2], f32) {
    let sum = |level: usize| {
        let pairs = numbers.iter().zip(whole);
        pairs.map(|(number, whole)| number.zeros[level] * f64::from(*whole)).sum::<f64>()
    };
    let of_bytes = bytes.map(|bytes| {
        let pairs = numbers.iter().zip(bytes);
        pairs.map(|(number, byte)| number.zeros[0] * f64::from(*byte)).sum::<f64>()
    });
    let floors = of_bytes.map(f64::floor);
    let rest = (of_bytes[0] - floors[0]) * f64::from(HIGH) + of_bytes[1] - floors[1];
    ([sum(0), sum(1)], floors.map(|floor| floor as i64), rest as f32)
}

/// More than the sums of a turned query are off; 0 if none is turned.
fn norm_slack(encoder: &Encoder, square: f64) -> f64 {
    if encoder.principal().is_some() { square.sqrt() * 2.0_f64.powi(-36) } else { 0.0 }
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
