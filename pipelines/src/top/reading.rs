//! One page of a run's figures, with its labels cleaned.
//!
//! Invariant: the server cannot control the terminal; control characters do not leave this module.

use std::collections::BTreeMap;

use boxwork_runtime::printable::printable;

use crate::metrics::samples;

/// The most characters of a line that an error cites.
const CITED_CHARS_MAX: usize = 80;

type Labels = BTreeMap<String, String>;

/// The figures of a run at one moment.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    metrics: BTreeMap<String, BTreeMap<Labels, f64>>,
}

impl Reading {
    /// Reads a page.
    ///
    /// # Errors
    /// The first line that is not a run's figure.
    pub fn new(page: &str) -> Result<Self, String> {
        let mut metrics: BTreeMap<String, BTreeMap<Labels, f64>> = BTreeMap::new();
        let cited = |line: String| printable(&line.chars().take(CITED_CHARS_MAX).collect::<String>());
        for mut sample in samples::parse(page).map_err(cited)? {
            for text in sample.labels.values_mut() {
                *text = printable(text);
            }
            // Numbers that a server may send but no run does.
            let value = if sample.value.is_finite() { sample.value } else { 0.0 };
            // Two names may be equal once they are cleaned.
            *metrics.entry(sample.name).or_default().entry(sample.labels).or_default() += value;
        }
        if !metrics.contains_key("boxwork_uptime_seconds") {
            return Err("its page is not of a run".to_owned());
        }
        Ok(Self { metrics })
    }

    /// The sum over a metric's samples.
    pub(super) fn value(&self, name: &str) -> f64 {
        // An empty sum of floats is -0.
        self.samples(name).fold(0.0, |sum, (_, value)| sum + value)
    }

    /// A metric's samples with their labels.
    pub(super) fn samples(&self, name: &str) -> impl Iterator<Item = (&Labels, f64)> {
        self.metrics.get(name).into_iter().flatten().map(|(labels, value)| (labels, *value))
    }

    /// The value of the sample with these labels; 0 if there is none.
    pub(super) fn at(&self, name: &str, labels: &Labels) -> f64 {
        self.metrics.get(name).and_then(|samples| samples.get(labels)).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Reading;

    #[test]
    fn pages_of_others_are_told_apart() {
        assert!(Reading::new("").is_err_and(|error| error.contains("not of a run")));
        assert!(Reading::new("<html>\u{1b}[2J").is_err_and(|error| !error.contains('\u{1b}')));
    }

    #[test]
    fn numbers_that_are_none_count_as_zero() {
        let reading = Reading::new("boxwork_uptime_seconds NaN\nboxwork_threads inf\n").expect("a page");
        assert_eq!((reading.value("boxwork_uptime_seconds"), reading.value("boxwork_threads")), (0.0, 0.0));
    }
}
