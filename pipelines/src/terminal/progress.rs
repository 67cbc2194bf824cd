//! The progress of a run: rate and time left, on a terminal only.

use std::fmt::{self, Write as _};
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use boxwork_runtime::Request;
use boxwork_runtime::request::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// The progress bar.
pub(super) struct Bar {
    /// The bar, and whether it shows the work of a box.
    bar: Option<(bool, ProgressBar)>,
    begun: Instant,
}

/// The content of the bar.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Content {
    done: u64,
    total: u64,
    /// The box whose work is shown; none for items.
    of_box: Option<String>,
    message: String,
}

impl Content {
    /// The content for the progress of all boxes that report any, in the order of the plan: the items of the last box that counts some, of the
    /// most that a box knows of. A box after it that counts its work has not passed on any result; the bar shows its work then.
    fn of(progress: &[Progress], problems: u64) -> Option<Self> {
        let counting = progress.iter().rposition(|told| told.done > 0 || told.total > 0);
        let working = progress.iter().rposition(|told| told.work_total > 0);
        let work = working.map(|place| {
            let name = &progress[place].name;
            let copies = progress.iter().filter(|told| told.name == *name);
            let (done, total) =
                copies.fold((0, 0), |sum, told| (sum.0 + told.work_done, sum.1 + told.work_total));
            (place, name, done, total)
        });
        let mut content = match (counting, work) {
            (counting, Some((place, name, done, total))) if counting.is_none_or(|other| other < place) => {
                Self { done, total, of_box: Some(name.clone()), message: String::new() }
            }
            (Some(counting), work) => {
                let total = progress.iter().map(|told| told.total).max().unwrap_or(0);
                let message =
                    work.filter(|(_, _, done, total)| done < total).map(|(_, name, done, total)| {
                        format!("{name} {:.0} %", (100.0 * done as f64 / total as f64).floor())
                    });
                let message = message.unwrap_or_default();
                Self { done: progress[counting].done, total, of_box: None, message }
            }
            (None, _) => return None,
        };
        if problems > 0 {
            let space = if content.message.is_empty() { "" } else { "  " };
            let _ = write!(content.message, "{space}({problems} left out)");
        }
        Some(content)
    }

    /// A bar for such contents.
    fn bar(&self, target: ProgressDrawTarget) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(Some(self.total), target);
        let template = match self.of_box {
            Some(_) => "{bar:30} {percent} % of {prefix}  {eta} left  {msg}",
            None => "{bar:30} {human_pos} of {human_len}  {rate}/s  {eta} left  {msg}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            // The bar's own rate has four decimals.
            bar.set_style(style.with_key("rate", |state: &ProgressState, out: &mut dyn fmt::Write| {
                let _ = write!(out, "{:.0}", state.per_sec());
            }));
        }
        bar
    }
}

impl Bar {
    pub(super) fn new(begun: Instant) -> Self {
        Self { bar: None, begun }
    }

    /// Shows the progress of a request.
    pub(super) fn show(&mut self, request: &Request) {
        /// A run shorter than this shows no bar.
        const QUIET: Duration = Duration::from_millis(300);
        if !std::io::stderr().is_terminal() || self.begun.elapsed() < QUIET {
            return;
        }
        if let Some(content) = Content::of(&request.progress(), request.problems_count()) {
            self.draw(content, ProgressDrawTarget::stderr);
        }
    }

    fn draw(&mut self, content: Content, target: impl FnOnce() -> ProgressDrawTarget) {
        let is_work = content.of_box.is_some();
        // The rates of items and of work have nothing in common.
        if self.bar.as_ref().is_some_and(|(was_work, _)| *was_work != is_work) {
            self.clear();
        }
        let (_, bar) = self.bar.get_or_insert_with(|| (is_work, content.bar(target())));
        bar.set_length(content.total);
        bar.set_position(content.done);
        bar.set_prefix(content.of_box.unwrap_or_default());
        bar.set_message(content.message);
    }

    pub(super) fn clear(&mut self) {
        if let Some((_, bar)) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use indicatif::TermLike;

    use super::*;

    fn told(name: &str, [done, total]: [u64; 2], [work_done, work_total]: [u64; 2]) -> Progress {
        Progress { name: name.to_owned(), done, total, work_done, work_total }
    }

    /// A terminal that keeps what is drawn.
    #[derive(Clone, Debug, Default)]
    struct Screen(Arc<Mutex<String>>);

    impl Screen {
        fn keep(&self, text: &str) -> io::Result<()> {
            self.0.lock().expect("no test panics while it draws").push_str(text);
            Ok(())
        }
    }

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            100
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.keep(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.keep(text)
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn check(progress: &[Progress], problems: u64, drawn: &str) {
        let screen = Screen::default();
        let content = Content::of(progress, problems).expect("a box reports");
        let target = || ProgressDrawTarget::term_like_with_hz(Box::new(screen.clone()), 255);
        let mut bar = Bar::new(Instant::now());
        bar.draw(content, target);
        bar.bar.as_ref().expect("it was drawn").1.tick();
        bar.bar.take();
        let text = screen.0.lock().expect("no test panics while it draws").clone();
        assert!(text.contains(drawn), "{text}");
    }

    #[test]
    fn the_bar_shows_items_and_the_work_of_a_box_that_passes_on_nothing_yet() {
        let listed = told("files", [1, 1], [0, 0]);
        check(std::slice::from_ref(&listed), 0, "1 of 1 ");
        let clean = |done| told("clean", [0, 0], [done, 12_000_000]);
        check(&[listed, clean(4_499_999)], 0, "37 % of clean ");
        // Later ones: one was written, and the next are under way.
        let [listed, written] = [told("files", [9, 9], [0, 0]), told("written", [1, 0], [0, 0])];
        let copy = || told("clean", [0, 0], [1, 4]);
        let all = [listed, copy(), copy(), written];
        check(&all, 2, "1 of 9 ");
        check(&all, 2, "clean 25 %  (2 left out)");
        check(&[told("fit", [0, 0], [1, 10])], 1, "10 % of fit ");
        assert_eq!(Content::of(&[], 3), None);
    }

    #[test]
    fn work_that_is_done_leaves_the_message() {
        let all = [told("clean", [0, 0], [4, 4]), told("written", [2, 3], [0, 0])];
        let content = Content { done: 2, total: 3, of_box: None, message: String::new() };
        assert_eq!(Content::of(&all, 0), Some(content));
    }
}
