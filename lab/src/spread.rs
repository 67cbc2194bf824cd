//! Medians, quantiles, and the middle half of some figures.

/// The median of some figures, and the bounds of their middle half.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Half of the figures are smaller.
    pub median: f64,
    /// A quarter of the figures are smaller.
    pub low: f64,
    /// A quarter of the figures are larger.
    pub high: f64,
}

impl Spread {
    /// The spread of at least one figure.
    pub fn of(figures: &[f64]) -> Self {
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        // Interpolated between two figures: three rounds have a middle half too.
        let at = |quarter: usize| {
            let (place, rest) = ((sorted.len() - 1) * quarter / 4, (sorted.len() - 1) * quarter % 4);
            let above = sorted[(place + 1).min(sorted.len() - 1)];
            sorted[place] + (above - sorted[place]) * rest as f64 / 4.0
        };
        Self { median: at(2), low: at(1), high: at(3) }
    }
}

/// The latency in microseconds that this share of the latencies does not exceed; zero if there are none.
pub fn quantile_us(latencies_ns: &mut [u64], share: f64) -> f64 {
    if latencies_ns.is_empty() {
        return 0.0;
    }
    latencies_ns.sort_unstable();
    let place = (share * (latencies_ns.len() - 1) as f64).round() as usize;
    latencies_ns[place] as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_half_of_a_few() {
        let spread = Spread::of(&[5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!(spread, Spread { median: 3.0, low: 2.0, high: 4.0 });
        assert_eq!(Spread::of(&[1.0, 3.0, 2.0]), Spread { median: 2.0, low: 1.5, high: 2.5 });
        assert_eq!(Spread::of(&[7.0]), Spread { median: 7.0, low: 7.0, high: 7.0 });
        assert_eq!((quantile_us(&mut [3000, 1000, 2000], 0.5), quantile_us(&mut [], 0.5)), (2.0, 0.0));
    }
}
