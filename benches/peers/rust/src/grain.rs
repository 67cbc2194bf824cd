//! B8: the smallest task for which half, or nine tenths, of the workers' time is work.

use std::time::Instant;

use crate::{Figures, Settings};

/// Halvings below a microsecond.
const HALVINGS: i32 = 3;

/// Runs all tasks of each grain, from the largest to the smallest; `run` gets the steps and the number of tasks.
pub fn grains(settings: &Settings, mut run: impl FnMut(u64, usize)) -> Figures {
    let (workers, tasks) = (settings.number("workers"), settings.count("tasks_each") * settings.workers());
    let mut measured = Vec::new();
    for power in (-HALVINGS..=settings.count("most_us").ilog2() as i32).rev() {
        let grain_us = f64::from(power).exp2();
        let start = Instant::now();
        run(settings.iterations(grain_us), tasks);
        let ideal_s = tasks as f64 * grain_us / 1e6 / workers;
        measured.push((grain_us, ideal_s / start.elapsed().as_secs_f64()));
    }
    let mut figures = Figures::new();
    for (name, wanted) in [("metg50_us", 0.5), ("metg90_us", 0.9)] {
        figures.extend(least(&measured, wanted).map(|grain| (name.to_owned(), grain)));
    }
    figures.extend(measured.iter().map(|(grain, efficiency)| (format!("efficiency_{grain}us"), *efficiency)));
    figures
}

/// The smallest grain that has this efficiency, interpolated between two measured grains.
fn least(measured: &[(f64, f64)], wanted: f64) -> Option<f64> {
    let place = measured.iter().rposition(|(_, efficiency)| *efficiency >= wanted)?;
    let (grain, efficiency) = measured[place];
    let Some(&(below, lower)) = measured.get(place + 1) else { return Some(grain) };
    Some(below * (grain / below).powf((wanted - lower) / (efficiency - lower)))
}
