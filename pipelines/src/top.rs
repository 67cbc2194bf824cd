//! The tables of `boxwork top`: the changes from one reading of a run's figures to the next.
//!
//! Invariant: the server cannot control the terminal; control characters do not leave this module.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use boxwork_runtime::printable::printable;

use crate::metrics::samples::{self, Sample};
use crate::numbers::{amount, share};

/// The most slots and boxes shown; a terminal has few lines.
const SLOTS_SHOWN_MAX: usize = 16;
const BOXES_SHOWN_MAX: usize = 16;
const CLASSES_SHOWN_MAX: usize = 8;
/// In the order of the page, nearest first.
const DISTANCES: [&str; 4] = ["same_core", "shared_cache", "same_node", "other_node"];

/// The figures of a run at one moment.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    samples: BTreeMap<String, Vec<Sample>>,
}

impl Reading {
    /// Reads a page.
    ///
    /// # Errors
    /// The first line that is not a run's figure.
    pub fn new(page: &str) -> Result<Self, String> {
        let mut samples: BTreeMap<String, Vec<Sample>> = BTreeMap::new();
        let shown = |line: String| printable(&line.chars().take(80).collect::<String>());
        for mut sample in samples::parse(page).map_err(shown)? {
            for text in sample.labels.values_mut() {
                *text = printable(text);
            }
            samples.entry(sample.name.clone()).or_default().push(sample);
        }
        if !samples.contains_key("boxwork_uptime_seconds") {
            return Err("its page is not of a run".to_owned());
        }
        Ok(Self { samples })
    }

    fn of(&self, name: &str) -> &[Sample] {
        self.samples.get(name).map_or(&[], Vec::as_slice)
    }

    /// The sum of a metric's matching samples.
    fn sum(&self, name: &str, fits: impl Fn(&Sample) -> bool) -> f64 {
        self.of(name).iter().filter(|sample| fits(sample)).fold(0.0, |sum, sample| sum + sample.value)
    }

    fn value(&self, name: &str) -> f64 {
        self.sum(name, |_| true)
    }
}

/// Two readings of one run, and the seconds between them.
struct Change<'a> {
    before: &'a Reading,
    after: &'a Reading,
    seconds: f64,
}

/// The changes between two readings.
pub fn table(before: &Reading, after: &Reading) -> String {
    let uptime = after.value("boxwork_uptime_seconds");
    let (before, seconds) = match uptime - before.value("boxwork_uptime_seconds") {
        passed if passed > 0.0 => (before.clone(), passed),
        // Another run uses the address now: all of it is new.
        _ => (Reading::default(), uptime.max(f64::MIN_POSITIVE)),
    };
    let change = Change { before: &before, after, seconds };
    let mut text = String::new();
    let _ = writeln!(
        text,
        "up {uptime:.1} s   requests {}   threads {}   tasks in request queues {}",
        after.value("boxwork_requests"),
        after.value("boxwork_threads"),
        after.value("boxwork_queued_tasks")
    );
    change.slots(&mut text);
    change.boxes(&mut text);
    change.classes(&mut text);
    text
}

impl Change<'_> {
    /// The increase of a counter per second, over the matching samples.
    fn rate(&self, name: &str, fits: impl Fn(&Sample) -> bool) -> f64 {
        let rises = self.after.of(name).iter().filter(|sample| fits(sample)).map(|sample| {
            let before = self.before.of(name).iter().find(|before| before.labels == sample.labels);
            (sample.value - before.map_or(0.0, |before| before.value)).max(0.0)
        });
        // An empty sum is -0.
        rises.fold(0.0, |sum, rise| sum + rise) / self.seconds
    }

    fn slots(&self, text: &mut String) {
        let slots = self.after.of("boxwork_tasks_total");
        let _ = writeln!(
            text,
            "\n{:>4}  {:>4}  {:>6}  {:>8}  stolen/s: {:>9}  {:>12}  {:>9}  {:>10}  {:>8}  {:>12}",
            "slot",
            "node",
            "busy",
            "tasks/s",
            "same core",
            "shared cache",
            "same node",
            "other node",
            "parks/s",
            "hand-overs/s"
        );
        for slot in slots.iter().take(SLOTS_SHOWN_MAX) {
            let idx = slot.label("slot");
            let of_slot = |sample: &Sample| sample.label("slot") == idx;
            let busy = 1.0 - self.rate("boxwork_slot_rest_seconds_total", of_slot);
            let steals = DISTANCES.map(|distance| {
                let of_distance = |sample: &Sample| of_slot(sample) && sample.label("distance") == distance;
                amount_or_dot(self.rate("boxwork_steals_total", of_distance))
            });
            let _ = writeln!(
                text,
                "{idx:>4}  {:>4}  {:>6}  {:>8}            {:>9}  {:>12}  {:>9}  {:>10}  {:>8}  {:>12}",
                slot.label("node"),
                share(busy.min(1.0), 1.0),
                amount(self.rate("boxwork_tasks_total", of_slot)),
                steals[0],
                steals[1],
                steals[2],
                steals[3],
                amount_or_dot(self.rate("boxwork_parks_total", of_slot)),
                amount_or_dot(self.rate("boxwork_hand_overs_total", of_slot))
            );
        }
        if slots.len() > SLOTS_SHOWN_MAX {
            let rest = self.rate("boxwork_slot_rest_seconds_total", |_| true);
            let busy = share(slots.len() as f64 - rest, slots.len() as f64);
            let more = slots.len() - SLOTS_SHOWN_MAX;
            let _ = writeln!(text, "... and {more} more; all {} are busy {busy}", slots.len());
        }
    }

    /// The boxes, the busiest first; boxes of one name in several requests are merged.
    fn boxes(&self, text: &mut String) {
        let slots = self.after.of("boxwork_tasks_total").len().max(1) as f64;
        let mut boxes: BTreeMap<&str, (&str, f64)> = BTreeMap::new();
        for sample in self.after.of("boxwork_box_firings_total") {
            boxes.entry(sample.label("box")).or_insert((sample.label("operator"), 0.0));
        }
        for (name, (_, busy)) in &mut boxes {
            *busy = self.rate("boxwork_box_busy_seconds_total", |sample| sample.label("box") == *name);
        }
        let mut boxes: Vec<_> = boxes.into_iter().collect();
        boxes.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
        if boxes.is_empty() {
            text.push_str("\nno request is under way\n");
            return;
        }
        let width = |at: fn(&(&str, (&str, f64))) -> usize, least: usize| {
            boxes.iter().take(BOXES_SHOWN_MAX).map(at).fold(least, usize::max)
        };
        let (names, kinds) =
            (width(|(name, _)| name.chars().count(), 8), width(|(_, (kind, _))| kind.chars().count(), 8));
        let _ = writeln!(
            text,
            "\n{:names$}  {:kinds$}  {:>13}  {:>9}  {:>9}  {:>10}  {:>7}",
            "box", "operator", "busy of slots", "firings/s", "rows in/s", "rows out/s", "blocked"
        );
        for (name, (kind, busy)) in boxes.iter().take(BOXES_SHOWN_MAX) {
            let of_box = |sample: &Sample| sample.label("box") == *name;
            let blocked = self.rate("boxwork_box_blocked_seconds_total", of_box);
            let _ = writeln!(
                text,
                "{name:names$}  {kind:kinds$}  {:>13}  {:>9}  {:>9}  {:>10}  {:>7}",
                share(*busy, slots),
                amount(self.rate("boxwork_box_firings_total", of_box)),
                amount(self.rate("boxwork_box_input_rows_total", of_box)),
                amount(self.rate("boxwork_box_output_rows_total", of_box)),
                share(blocked, 1.0)
            );
        }
        if boxes.len() > BOXES_SHOWN_MAX {
            let _ = writeln!(text, "... and {} more", boxes.len() - BOXES_SHOWN_MAX);
        }
    }

    fn classes(&self, text: &mut String) {
        let classes = self.after.of("boxwork_class_limit");
        if classes.is_empty() {
            return;
        }
        let width = classes.iter().map(|class| class.label("class").chars().count()).fold(14, usize::max);
        let _ = writeln!(
            text,
            "\n{:width$}  {:>9}  {:>7}  {:>7}  {:>12}",
            "blocking class", "in flight", "limit", "waiting", "operations/s"
        );
        for class in classes.iter().take(CLASSES_SHOWN_MAX) {
            let name = class.label("class");
            let of_class = |sample: &Sample| sample.label("class") == name;
            let found = if self.after.sum("boxwork_class_auto", of_class) > 0.0 { "auto " } else { "" };
            let _ = writeln!(
                text,
                "{name:width$}  {:>9}  {:>7}  {:>7}  {:>12}",
                self.after.sum("boxwork_class_in_flight", of_class),
                format!("{found}{}", class.value),
                self.after.sum("boxwork_class_waiting", of_class),
                amount(self.rate("boxwork_class_operations_total", of_class))
            );
        }
        if classes.len() > CLASSES_SHOWN_MAX {
            let _ = writeln!(text, "... and {} more", classes.len() - CLASSES_SHOWN_MAX);
        }
    }
}

/// A dot for zero draws no attention.
fn amount_or_dot(value: f64) -> String {
    if value > 0.0 { amount(value) } else { ".".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::{Reading, table};

    fn page(uptime: f64, tasks: u64, rest: f64, busy: f64, rows: u64) -> Reading {
        let page = format!(
            "# TYPE boxwork_uptime_seconds gauge\nboxwork_uptime_seconds {uptime}\nboxwork_requests 1\n\
             boxwork_threads 3\nboxwork_queued_tasks{{node=\"0\"}} 4\n\
             boxwork_tasks_total{{slot=\"0\",node=\"0\"}} {tasks}\nboxwork_tasks_total{{slot=\"1\",node=\"0\"}} 0\n\
             boxwork_slot_rest_seconds_total{{slot=\"0\",node=\"0\"}} {rest}\n\
             boxwork_slot_rest_seconds_total{{slot=\"1\",node=\"0\"}} {uptime}\n\
             boxwork_steals_total{{slot=\"0\",distance=\"shared_cache\"}} {tasks}\n\
             boxwork_box_firings_total{{request=\"1\",box=\"lazy\",operator=\"scan\"}} 1\n\
             boxwork_box_firings_total{{request=\"1\",box=\"distance\",operator=\"sqfd\"}} {tasks}\n\
             boxwork_box_busy_seconds_total{{request=\"1\",box=\"distance\",operator=\"sqfd\"}} {busy}\n\
             boxwork_box_output_rows_total{{request=\"1\",box=\"distance\",operator=\"sqfd\"}} {rows}\n\
             boxwork_class_limit{{class=\"di\u{1b}sk\"}} 4\nboxwork_class_in_flight{{class=\"di\u{1b}sk\"}} 2\n\
             boxwork_class_limit{{class=\"net\"}} 8\nboxwork_class_auto{{class=\"net\"}} 1\n"
        );
        Reading::new(&page).expect("a page")
    }

    fn words(text: &str, first: &str) -> Vec<String> {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(first));
        line.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_table_tells_what_changed_in_between() {
        let (before, after) = (page(10.0, 100, 5.0, 1.0, 0), page(12.0, 5_100, 5.5, 2.5, 30_000));
        let text = table(&before, &after);
        assert!(
            text.starts_with("up 12.0 s   requests 1   threads 3   tasks in request queues 4\n"),
            "{text}"
        );
        assert_eq!(
            words(&text, "0"),
            ["0", "0", "75", "%", "2.50", "k", ".", "2.50", "k", ".", ".", ".", "."]
        );
        assert_eq!(words(&text, "1")[..4], ["1", "0", "0", "%"]);
        assert_eq!(
            words(&text, "distance"),
            ["distance", "sqfd", "38", "%", "2.50", "k", "0", "15", "k", "0", "%"],
            "{text}"
        );
        let at = |name: &str| text.find(name).expect("its line");
        assert!(at("\ndistance") < at("\nlazy"), "the busiest box comes first: {text}");
        assert_eq!(words(&text, "di\u{fffd}sk"), ["di\u{fffd}sk", "2", "4", "0", "0"]);
        assert_eq!(words(&text, "net"), ["net", "0", "auto", "8", "0", "0"]);
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn a_new_run_at_the_address_is_read_from_its_beginning() {
        let text = table(&page(10.0, 100, 5.0, 1.0, 0), &page(4.0, 8, 0.0, 4.0, 4));
        assert_eq!(words(&text, "distance")[2..6], ["50", "%", "2", "0"], "{text}");
    }

    #[test]
    fn pages_of_others_are_told_apart() {
        assert!(Reading::new("").is_err_and(|error| error.contains("not of a run")));
        assert!(Reading::new("<html>\u{1b}[2J").is_err_and(|error| !error.contains('\u{1b}')));
    }

    #[test]
    fn what_is_too_much_for_a_terminal_is_counted() {
        let slots: String = (0..40)
            .map(|slot| format!("boxwork_tasks_total{{slot=\"{slot}\"}} 1\nboxwork_box_firings_total{{box=\"b{slot}\"}} 1\n"))
            .collect();
        let reading = Reading::new(&format!("boxwork_uptime_seconds 1\n{slots}")).expect("a page");
        let text = table(&Reading::default(), &reading);
        assert!(
            text.lines().count() < 45 && text.contains("... and 24 more; all 40 are busy 100 %"),
            "{text}"
        );
    }
}
