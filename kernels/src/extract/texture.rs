//! Contrast and entropy of a window's co-occurrence matrix, and the window itself.
//!
//! Both come from integers: a sum of squared differences, and a sum of c ln c over the cells in fixed point.
//! Integers may be added in any order, so every way of counting gives the same bits.

use crate::elementary::ln;

/// Pairs counted in each 2 x 2 sub-window.
pub(super) const PAIRS: usize = 4;

/// Values of a `u16`: an array of this length is indexed by one without a check.
pub(super) const ANY_U16: usize = 1 << 16;

/// Units of the fixed-point c ln c in 1.
const SCALE: f64 = (1_u64 << 32) as f64;

/// The sub-windows of the window about a pixel: the half-open range of their upper left corners per axis.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Window {
    pub(super) left: usize,
    pub(super) right: usize,
    pub(super) top: usize,
    pub(super) bottom: usize,
}

impl Window {
    /// The window about (`x`, `y`), cut at the image's border; may be empty.
    #[inline(always)]
    pub(super) fn about(x: usize, y: usize, radius: usize, width: usize, height: usize) -> Self {
        Self {
            left: x.saturating_sub(radius),
            right: (x + radius).min(width - 1),
            top: y.saturating_sub(radius),
            bottom: (y + radius).min(height - 1),
        }
    }

    /// Pairs in the window: n of the specification.
    #[inline(always)]
    pub(super) fn pairs_count(&self) -> usize {
        PAIRS * (self.right - self.left) * (self.bottom - self.top)
    }
}

/// c ln c for every count that a window can hold.
#[derive(Debug)]
pub(super) struct EntropyTable {
    /// c ln c in units of 2^-32.
    terms: Vec<u64>,
    /// The growth of a cell's term when its count grows from c to c + 1; zero for counts that cannot occur.
    gains: Box<[u64; ANY_U16]>,
}

impl EntropyTable {
    pub(super) fn new(radius: usize) -> Self {
        let pairs_max = PAIRS * (2 * radius) * (2 * radius);
        let term = |c: usize| if c < 2 { 0 } else { (c as f64 * ln(c as f64) * SCALE + 0.5) as u64 };
        let terms: Vec<u64> = (0..=pairs_max).map(term).collect();
        let mut gains = vec![0; ANY_U16];
        gains.iter_mut().zip(terms.windows(2)).for_each(|(gain, pair)| *gain = pair[1] - pair[0]);
        Self { terms, gains: gains.try_into().expect("as many as are asked for") }
    }

    /// c ln c, in fixed point.
    pub(super) fn term(&self, count: usize) -> u64 {
        self.terms[count]
    }

    /// All terms, by count.
    pub(super) fn terms(&self) -> &[u64] {
        &self.terms
    }

    /// The growth of [`term`](Self::term) from `c` to `c + 1`, for each `c`.
    #[inline(always)]
    pub(super) fn gains(&self) -> &[u64; ANY_U16] {
        &self.gains
    }

    /// Contrast and entropy of `pairs_count` pairs whose squared differences sum to `squares` and whose cells'
    /// terms sum to `terms`: c = squares / n and e = ln n - terms / n = (n ln n - terms) / n. No pairs give zeros.
    #[inline(always)]
    pub(super) fn features(&self, pairs_count: usize, squares: u32, terms: u64) -> [f64; 2] {
        if pairs_count == 0 {
            return [0.0; 2];
        }
        let n = pairs_count as f64;
        // Through the signed integer, since that conversion is one instruction.
        [f64::from(squares) / n, (self.terms[pairs_count] - terms) as i64 as f64 / SCALE / n]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_cut_at_the_border() {
        assert_eq!(Window::about(0, 5, 3, 10, 10), Window { left: 0, right: 3, top: 2, bottom: 8 });
        assert_eq!(Window::about(9, 9, 3, 10, 10), Window { left: 6, right: 9, top: 6, bottom: 9 });
        assert_eq!(Window::about(0, 5, 3, 1, 10).pairs_count(), 0);
        assert_eq!(Window::about(75, 75, 3, 150, 150).pairs_count(), 144);
    }

    #[test]
    fn entropy_of_counts() {
        let table = EntropyTable::new(3);
        let features = |counts: &[usize]| {
            let terms = counts.iter().map(|&count| table.term(count)).sum();
            table.features(counts.iter().sum(), 0, terms)[1]
        };
        assert_eq!(features(&[144]), 0.0);
        assert!((features(&[1; 4]) - 4_f64.ln()).abs() < 1e-9);
        assert!((features(&[1; 144]) - 144_f64.ln()).abs() < 1e-9);
        assert!((features(&[36, 108]) - (0.25 * 4_f64.ln() + 0.75 * (4.0 / 3.0_f64).ln())).abs() < 1e-9);
        assert_eq!(table.gains()[..144].iter().sum::<u64>(), table.term(144));
    }
}
