//! How well predictions agree with targets that the model has not seen.

/// The sums of a score, to which predictions are added one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    count: u64,
    squares: f64,
    losses: f64,
    covered: u64,
}

impl Score {
    /// Adds a prediction: the target, the mean, the variance of an observation, and the half width of the interval.
    pub fn add(&mut self, target: f64, mean: f64, variance: f64, half_width: f64) {
        let apart = target - mean;
        self.count += 1;
        self.squares += apart * apart;
        self.losses += 0.5 * ((2.0 * std::f64::consts::PI * variance).ln() + apart * apart / variance);
        self.covered += u64::from(apart.abs() <= half_width);
    }

    /// The number of predictions.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The root of the mean squared difference.
    pub fn rmse(&self) -> f64 {
        (self.squares / self.count as f64).sqrt()
    }

    /// The mean of the negative logarithm of the density of the targets.
    pub fn mean_log_loss(&self) -> f64 {
        self.losses / self.count as f64
    }

    /// The share of targets within their interval.
    pub fn coverage(&self) -> f64 {
        self.covered as f64 / self.count as f64
    }
}

/// The number z such that a normal number lies within -z and z with this probability, from 0 to below 1: bisection of the error
/// function's series and continued fraction, within 1e-12.
pub fn half_width(level: f64) -> f64 {
    let (mut low, mut high) = (0.0, 40.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if inside(middle) < level { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// The probability that a normal number lies within -z and z: the error function of z / sqrt 2.
fn inside(z: f64) -> f64 {
    let x = z / std::f64::consts::SQRT_2;
    let outer = 2.0 / std::f64::consts::PI.sqrt() * (-x * x).exp();
    if x < 2.5 {
        // erf x = 2/sqrt pi exp(-x^2) sum 2^k x^(2k+1) / (2k+1)!! (Abramowitz and Stegun 7.1.6).
        let (mut term, mut sum) = (x, x);
        for k in 1..100 {
            term *= 2.0 * x * x / f64::from(2 * k + 1);
            sum += term;
        }
        return outer * sum;
    }
    // The continued fraction of the complement (7.1.14), from its end.
    let mut tail = x;
    for k in (1..80).rev() {
        tail = x + 0.5 * f64::from(k) / tail;
    }
    1.0 - 0.5 * outer / tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_their_probability() {
        for (level, z) in [
            (0.95, 1.959_963_984_540_054),
            (0.5, 0.674_489_750_196_081_7),
            (0.99, 2.575_829_303_548_900_4),
            (0.999_999, 4.891_638_475_699),
            (0.0, 0.0),
        ] {
            assert!((half_width(level) - z).abs() < 1e-9, "{level}: {}", half_width(level));
        }
    }

    #[test]
    fn a_score_has_the_values_of_its_formulas() {
        let mut score = Score::default();
        score.add(1.0, 0.0, 1.0, 0.5);
        score.add(2.0, 2.0, 4.0, 0.5);
        assert_eq!((score.count(), score.coverage()), (2, 0.5));
        assert!((score.rmse() - 0.5f64.sqrt()).abs() < 1e-15);
        let half_ln = 0.5 * (2.0 * std::f64::consts::PI).ln();
        assert!((score.mean_log_loss() - (half_ln + 0.25 + 0.5 * 2f64.ln())).abs() < 1e-15);
    }
}
