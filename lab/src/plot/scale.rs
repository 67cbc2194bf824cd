//! Scales: places along one side of a picture, and their marks.
//!
//! Invariants: marks increase; a scale of numbers from low to high has at least two, on a linear scale evenly spaced at
//! multiples of a round number.

use crate::number::significant;

/// Values up to this number are marks themselves.
const FEW: usize = 8;

/// Places along one side of a picture.
pub(super) enum Scale {
    Numbers {
        low: f64,
        high: f64,
        is_log: bool,
        marks: Vec<(f64, String)>,
    },
    /// For values that are not all numbers.
    Names(Vec<String>),
}

impl Scale {
    /// The scale of x: it ends at the least and the greatest value, and few values are its marks.
    pub(super) fn along(values: &[String], is_log: bool) -> Self {
        let mut names: Vec<String> = Vec::new();
        for value in values {
            if !names.contains(value) {
                names.push(value.clone());
            }
        }
        let numbers: Option<Vec<f64>> = names.iter().map(|name| finite(name)).collect();
        let Some(numbers) = numbers.filter(|numbers| !numbers.is_empty()) else { return Self::Names(names) };
        let (low, high) = ends(&numbers);
        let is_log = is_log && low > 0.0;
        let mut marks: Vec<(f64, String)> = if names.len() <= FEW || low == high {
            numbers.into_iter().zip(names).collect()
        } else {
            ticks(low, high, is_log, false).into_iter().map(|tick| (tick, label(tick))).collect()
        };
        marks.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self::Numbers { low, high, is_log, marks }
    }

    /// The scale of figures: it ends at marks, and starts at 0 if the figures then still fill half of it.
    pub(super) fn of_figures(figures: &[f64], is_log: bool) -> Self {
        let (mut low, mut high) = ends(figures);
        let is_log = is_log && low > 0.0;
        if is_log && low == high {
            (low, high) = (low / 2.0, high * 2.0);
        } else if !is_log && low > 0.0 && (low < high / 2.0 || low == high) {
            low = 0.0;
        } else if low == high {
            high = if low < 0.0 { 0.0 } else { 1.0 };
        }
        let ticks = ticks(low, high, is_log, true);
        let (low, high) = ends(&ticks);
        Self::Numbers {
            low,
            high,
            is_log,
            marks: ticks.into_iter().map(|tick| (tick, label(tick))).collect(),
        }
    }

    /// The place of a value from 0 to 1; `None` for a value that is not on the scale.
    pub(super) fn place(&self, value: &str) -> Option<f64> {
        match self {
            Self::Names(names) => {
                let idx = names.iter().position(|name| name == value)?;
                Some((idx as f64 + 0.5) / names.len() as f64)
            }
            Self::Numbers { .. } => finite(value).map(|number| self.place_of(number)),
        }
    }

    /// The place of a number from 0 to 1; names have none, and are in the middle.
    pub(super) fn place_of(&self, number: f64) -> f64 {
        match self {
            Self::Numbers { low, high, is_log: true, .. } if high > low => {
                (number / low).ln() / (high / low).ln()
            }
            Self::Numbers { low, high, .. } if high > low => (number - low) / (high - low),
            _ => 0.5,
        }
    }

    /// Places and labels of the marks.
    pub(super) fn marks(&self) -> Vec<(f64, &str)> {
        match self {
            Self::Names(names) => {
                names.iter().filter_map(|name| Some((self.place(name)?, name.as_str()))).collect()
            }
            Self::Numbers { marks, .. } => {
                marks.iter().map(|(number, label)| (self.place_of(*number), label.as_str())).collect()
            }
        }
    }
}

fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

fn ends(numbers: &[f64]) -> (f64, f64) {
    numbers
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), number| (low.min(*number), high.max(*number)))
}

/// Round numbers between two others, in their order. `whole` ticks enclose both; others lie between them.
fn ticks(low: f64, high: f64, is_log: bool, whole: bool) -> Vec<f64> {
    if !is_log {
        return linear_ticks(low, high, whole);
    }
    let (first, last) = (low.log10().floor() as i32 - 1, high.log10().ceil() as i32 + 1);
    let every = (f64::floor((high / low).log10() / 6.0) as i32).max(1);
    for (mantissas, every) in [(&[1][..], every), (&[1, 2, 5], 1)] {
        let powers = (first - every..=last + every).filter(|power| power.rem_euclid(every) == 0);
        let ticks = powers.flat_map(|power| mantissas.iter().map(move |mantissa| decimal(*mantissa, power)));
        let ticks = cut(ticks.collect(), low, high, whole);
        if ticks.len() >= if whole { 4 } else { 3 } {
            return ticks;
        }
    }
    linear_ticks(low, high, whole)
}

/// Multiples of the greatest of 1, 2 and 5 times a power of ten that leaves three of them between the ends.
fn linear_ticks(low: f64, high: f64, whole: bool) -> Vec<f64> {
    // So near to each other that their difference is the rounding of a sum: around them instead.
    let least = low.abs().max(high.abs()).max(f64::MIN_POSITIVE) * 1e-9;
    let (low, high) = if high - low < least { (low - least, high + least) } else { (low, high) };
    let third = (high - low) / 3.0;
    let power = third.log10().floor() as i32;
    let by = [5, 2, 1].into_iter().find(|by| decimal(*by, power) <= third).unwrap_or(1);
    let step = decimal(by, power);
    let (first, last) = ((low / step).floor() as i64 - 1, (high / step).ceil() as i64 + 1);
    cut((first..=last).map(|count| decimal(count * by, power)).collect(), low, high, whole)
}

/// Those of some increasing numbers that lie between two others, or that enclose both.
fn cut(mut ticks: Vec<f64>, low: f64, high: f64, whole: bool) -> Vec<f64> {
    if whole {
        let first = ticks.iter().rposition(|tick| *tick <= low).unwrap_or(0);
        let last = ticks.iter().position(|tick| *tick >= high).unwrap_or(ticks.len().saturating_sub(1));
        ticks.truncate(last + 1);
        ticks.drain(..first);
    } else {
        ticks.retain(|tick| (low..=high).contains(tick));
    }
    ticks
}

/// A decimal number, rounded once: 3 tenths are 0.3.
fn decimal(mantissa: i64, power: i32) -> f64 {
    if power < 0 { mantissa as f64 / 10f64.powi(-power) } else { mantissa as f64 * 10f64.powi(power) }
}

fn label(tick: f64) -> String {
    match tick.abs() {
        size if size != 0.0 && !(1e-4..1e9).contains(&size) => format!("{tick:e}"),
        size if size.fract() == 0.0 => significant(tick),
        _ => tick.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<&str> {
        let marks = scale.marks();
        assert!(marks.iter().all(|(place, _)| (-1e-9..=1.0 + 1e-9).contains(place)), "{marks:?}");
        assert!(marks.windows(2).all(|two| two[0].0 < two[1].0), "{marks:?}");
        marks.into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn marks_are_round_or_the_values_themselves() {
        let figures = |figures: &[f64], is_log| {
            let scale = Scale::of_figures(figures, is_log);
            labels(&scale).join(" ")
        };
        assert_eq!(figures(&[0.479, 0.5518], false), "0.46 0.48 0.5 0.52 0.54 0.56");
        assert_eq!(figures(&[3.0, 17.0], false), "0 5 10 15 20");
        assert_eq!(figures(&[7.0], false), "0 2 4 6 8");
        assert_eq!(figures(&[0.0], false), "0 0.2 0.4 0.6 0.8 1");
        assert_eq!(figures(&[20.5, 47.3], true), "20 25 30 35 40 45 50");
        assert_eq!(figures(&[0.3, 4.0], true), "0.2 0.5 1 2 5");
        assert_eq!(figures(&[3.0, 40_000.0], true), "1 10 100 1,000 10,000 100,000");
        assert_eq!(figures(&[2e-6, 3e7], true), "1e-6 0.0001 0.01 1 100 10,000 1,000,000 100,000,000");
        let along = |values: &[&str]| {
            let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
            labels(&Scale::along(&values, true)).join(" ")
        };
        assert_eq!(along(&["48", "4", "16"]), "4 16 48");
        assert_eq!(along(&["auto", "scan"]), "auto scan");
        assert_eq!(along(&["21", "22", "23", "25", "27", "31", "35", "40", "47"]), "25 30 35 40 45");
    }

    /// Pairs of numbers of all sizes and distances, the lower one first.
    fn pairs() -> impl Iterator<Item = (f64, f64)> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        (0..20_000).map(move |_| {
            let low = 10f64.powf(24.0 * next() - 12.0);
            (low, low * (1.0 + 10f64.powf(16.0 * next() - 8.0)))
        })
    }

    #[test]
    fn every_linear_scale_has_marks_at_equal_distances() {
        let around_zero = pairs().map(|(low, high)| (-low, high));
        let below_zero = pairs().map(|(low, high)| (-high, -low));
        for (low, high) in pairs().chain(around_zero).chain(below_zero) {
            let inside = ticks(low, high, false, false);
            assert!((2..=9).contains(&inside.len()), "{low} to {high}: {inside:?}");
            assert!(inside.iter().all(|tick| (low..=high).contains(tick)), "{low} to {high}: {inside:?}");
            let step = inside[1] - inside[0];
            let even = |two: &[f64]| ((two[1] - two[0]) / step - 1.0).abs() < 1e-6;
            assert!(step > 0.0 && inside.windows(2).all(even), "{low} to {high}: {inside:?}");
            let whole = ticks(low, high, false, true);
            assert!(whole[0] <= low && whole[whole.len() - 1] >= high, "{low} to {high}: {whole:?}");
            assert!(whole.len() <= inside.len() + 2, "{low} to {high}: {whole:?}");
        }
    }

    #[test]
    fn every_log_scale_has_marks() {
        for (low, high) in pairs() {
            let inside = ticks(low, high, true, false);
            assert!((2..=13).contains(&inside.len()), "{low} to {high}: {inside:?}");
            assert!(inside.iter().all(|tick| (low..=high).contains(tick)), "{low} to {high}: {inside:?}");
            let whole = ticks(low, high, true, true);
            assert!(whole[0] > 0.0 && whole[0] <= low, "{low} to {high}: {whole:?}");
            assert!(whole[whole.len() - 1] >= high, "{low} to {high}: {whole:?}");
            for ticks in [inside, whole] {
                assert!(ticks.windows(2).all(|two| two[0] < two[1]), "{low} to {high}: {ticks:?}");
                let mut labels: Vec<String> = ticks.iter().map(|tick| label(*tick)).collect();
                labels.dedup();
                assert_eq!(labels.len(), ticks.len(), "{low} to {high}: {labels:?}");
            }
        }
    }
}
