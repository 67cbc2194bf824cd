//! The progress of a run: rate and time left, on a terminal only.

use std::fmt;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use boxwork_runtime::Request;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

/// The progress bar.
pub(super) struct Bar {
    bar: Option<ProgressBar>,
    begun: Instant,
}

impl Bar {
    pub(super) fn new(begun: Instant) -> Self {
        Self { bar: None, begun }
    }

    /// Shows the progress of a request: of its last box that reports any, with the total from its first box that knows
    /// it.
    pub(super) fn show(&mut self, request: &Request) {
        /// A run shorter than this shows no bar.
        const QUIET: Duration = Duration::from_millis(300);
        if !std::io::stderr().is_terminal() || self.begun.elapsed() < QUIET {
            return;
        }
        let progress = request.progress();
        let (Some(last), total) =
            (progress.last(), progress.iter().map(|told| told.total).max().unwrap_or(0))
        else {
            return;
        };
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::new(total);
            let style = "{bar:30} {human_pos} of {human_len}  {rate}/s  {eta} left  {msg}";
            if let Ok(style) = ProgressStyle::with_template(style) {
                // The bar's own rate has four decimals.
                bar.set_style(style.with_key("rate", |state: &ProgressState, out: &mut dyn fmt::Write| {
                    let _ = write!(out, "{:.0}", state.per_sec());
                }));
            }
            bar
        });
        bar.set_length(total);
        bar.set_position(last.done);
        let problems = request.problems_count();
        if problems > 0 {
            bar.set_message(format!("({problems} left out)"));
        }
    }

    pub(super) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
