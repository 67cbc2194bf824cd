//! The k least of many numbers that are off by a declared error: a list that is cut when it is full.
//!
//! Invariant: if each value is off by at most `error`, then the k least true numbers are among the values that are kept.
//! For the k values that look least are truly at most the k-th value plus the error, so the k-th true number is too, and an
//! element that is truly as small looks larger by another error at most.

/// Values beyond twice k that a list holds before it is cut.
const ROOM: usize = 64;

/// The elements that may be among the k least.
#[derive(Clone, Debug)]
pub struct Nearest {
    k: usize,
    /// Values and elements.
    found: Vec<(f64, u32)>,
    /// The k-th least value so far, or one given from elsewhere.
    kth: f64,
    /// The largest error of a value.
    error: f64,
    cut_at: usize,
}

impl Nearest {
    /// No elements yet; `kth` is a value that k elements elsewhere do not exceed, or beyond which no element matters, or infinity.
    pub fn new(k: usize, kth: f64) -> Self {
        Self { k, found: Vec::new(), kth, error: 0.0, cut_at: 2 * k + ROOM }
    }

    /// Raises the largest error.
    pub fn raise_error(&mut self, error: f64) {
        // Not `max`, which ignores NaN: an error that is no number allows every value.
        if !(error <= self.error) {
            self.error = error;
        }
    }

    /// The largest error so far.
    pub fn error(&self) -> f64 {
        self.error
    }

    /// The k-th least value.
    pub fn kth(&self) -> f64 {
        self.kth
    }

    /// No value beyond it matters.
    pub fn limit(&self) -> f64 {
        let limit = self.kth + 2.0 * self.error;
        if limit.is_nan() { f64::INFINITY } else { limit }
    }

    /// [`Nearest::limit`] as an f32 that is not smaller.
    pub fn limit_f32(&self) -> f32 {
        let limit = self.limit();
        let near = limit as f32;
        if f64::from(near) < limit { near.next_up() } else { near }
    }

    /// Adds an element; returns whether the limit may have fallen.
    #[inline]
    pub fn push(&mut self, value: f64, element: u32) -> bool {
        self.found.push((value, element));
        let is_full = self.found.len() >= self.cut_at;
        if is_full {
            self.cut();
        }
        is_full
    }

    /// Drops what can no longer be among the k least.
    pub fn cut(&mut self) {
        if self.found.len() >= self.k && self.k > 0 {
            let (_, kth, _) = self.found.select_nth_unstable_by(self.k - 1, |a, b| a.0.total_cmp(&b.0));
            self.kth = if kth.0 < self.kth { kth.0 } else { self.kth };
        }
        let limit = self.limit();
        // A value that is no number stays.
        self.found.retain(|(value, _)| !(*value > limit));
        // Many equal values must not cause a cut each time.
        self.cut_at = 2 * self.found.len().max(self.k) + ROOM;
    }

    /// Takes over the elements of another part.
    pub fn join(&mut self, other: Self) {
        self.raise_error(other.error);
        self.kth = self.kth.min(other.kth);
        self.found.extend(other.found);
        if self.found.len() >= self.cut_at {
            self.cut();
        }
    }

    /// The elements that may be among the k least, in no order.
    pub fn into_kept(mut self) -> Vec<(f64, u32)> {
        self.cut();
        self.found
    }

    /// The elements that may be among the k least, ascending by value.
    pub fn finish(mut self) -> Vec<(f64, u32)> {
        self.cut();
        self.found.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Random;

    #[test]
    fn the_least_are_kept_whatever_the_errors_ties_and_parts() {
        let mut random = Random::new(11);
        let named = [1, 2, 10, 100, 1000, 2048].map(|k| [0, 1, 31, 500, 5000].map(|len| (k, len)));
        let mut sizes = named.concat();
        sizes.extend((0..200).map(|_| (1 + random.idx(2048), random.idx(5001))));
        for (k, len) in sizes {
            let error = [0.0, 0.5, 3.0][random.idx(3)];
            let exact: Vec<f64> = (0..len)
                .map(|_| match random.below(20) {
                    0 => f64::INFINITY,
                    _ => random.below(1 + len as u64 / 2) as f64,
                })
                .collect();
            let mut parts: Vec<Nearest> = (0..3).map(|_| Nearest::new(k, f64::INFINITY)).collect();
            for (element, value) in exact.iter().enumerate() {
                let part = &mut parts[element % 3];
                part.raise_error(error);
                let value = value + error * (2.0 * random.unit() - 1.0);
                if !(value > part.limit()) {
                    part.push(value, element as u32);
                }
            }
            let mut all = parts.pop().unwrap();
            parts.into_iter().for_each(|part| all.join(part));
            let mut found: Vec<(f64, u32)> =
                all.finish().into_iter().map(|(_, element)| (exact[element as usize], element)).collect();
            let mut wanted: Vec<(f64, u32)> = exact.iter().copied().zip(0..).collect();
            let sort = |list: &mut Vec<(f64, u32)>| {
                list.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                list.truncate(k);
            };
            sort(&mut found);
            sort(&mut wanted);
            assert_eq!(found, wanted);
        }
    }
}
