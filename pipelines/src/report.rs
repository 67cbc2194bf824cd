//! The statistics of a run, as `--stats` prints them.

use std::fmt::Write as _;
use std::time::Duration;

use boxwork_runtime::feeding::DeviceStatistics;
use boxwork_runtime::request::{BoxStatistics, Outcome};
use boxwork_runtime::statistics::SchedulerStatistics;
use boxwork_runtime::topology::Distance;

use crate::run_report;

/// The most requests listed one by one.
const REQUESTS_LISTED_MAX: usize = 10;

/// By box: firings, rows, busy, waiting, blocked; by edge: its traffic and its fill; by worker: tasks, steals by
/// distance, parks; by blocking class: operations.
pub fn statistics(
    outcomes: &[Outcome],
    scheduler: &SchedulerStatistics,
    devices: &[(String, DeviceStatistics)],
    elapsed: Duration,
) -> String {
    let mut text = String::new();
    let boxes = run_report::boxes(outcomes);
    list_boxes(&mut text, &boxes);
    counts(&mut text, &boxes);
    figures(&mut text, &boxes);
    undeclared(&mut text, &boxes);
    edges(&mut text, outcomes);
    slots(&mut text, scheduler);
    classes(&mut text, scheduler);
    list_devices(&mut text, devices);
    requests(&mut text, outcomes);
    let _ = writeln!(text, "{} threads, {} in all", scheduler.threads, time(elapsed.as_nanos() as u64));
    text
}

fn list_boxes(text: &mut String, boxes: &[BoxStatistics]) {
    let width = boxes.iter().map(|of_box| of_box.name.len()).max().unwrap_or(0).max("box".len());
    let _ = writeln!(
        text,
        "{:width$}  {:>6}  {:>9}  {:>11}  {:>11}  {:>9}  {:>9}  {:>9}",
        "box", "copies", "firings", "rows in", "rows out", "busy", "waiting", "blocked"
    );
    for of_box in boxes {
        let _ = writeln!(
            text,
            "{:width$}  {:>6}  {:>9}  {:>11}  {:>11}  {:>9}  {:>9}  {:>9}",
            of_box.name,
            of_box.copies,
            of_box.firings,
            of_box.rows_in,
            of_box.rows_out,
            time(of_box.busy_ns),
            time(of_box.waiting_ns),
            time(of_box.blocked_ns)
        );
    }
}

fn edges(text: &mut String, outcomes: &[Outcome]) {
    if let Some(outcome) = outcomes.first() {
        let width = outcome.edges.iter().map(|edge| edge.from.len() + edge.to.len() + 4).max().unwrap_or(0);
        let _ = writeln!(
            text,
            "\n{:width$}  {:>9}  {:>11}  {:>12}  {:>16}  {:>12}",
            "edge", "envelopes", "rows", "bytes", "most waiting", "most bytes"
        );
        for edge in &outcome.edges {
            let most = match edge.state.envelopes_max {
                usize::MAX => edge.state.envelopes_high.to_string(),
                bound => format!("{} of {bound}", edge.state.envelopes_high),
            };
            let name = format!("{} -> {}", edge.from, edge.to);
            let _ = writeln!(
                text,
                "{name:width$}  {:>9}  {:>11}  {:>12}  {most:>16}  {:>12}",
                edge.state.envelopes_total,
                edge.state.rows_total,
                edge.state.bytes_total,
                edge.state.bytes_high
            );
        }
        if outcomes.len() > 1 {
            let _ = writeln!(text, "(edges: the first of {} requests)", outcomes.len());
        }
    }
}

fn slots(text: &mut String, scheduler: &SchedulerStatistics) {
    let distances: Vec<String> = Distance::ALL.iter().map(|distance| format!("{distance:>14}")).collect();
    let _ = writeln!(
        text,
        "\nworker      tasks   stolen from:{}   own queue  other queues     parks     wakes  hand-overs",
        distances.join("")
    );
    for (idx, slot) in scheduler.slots.iter().enumerate() {
        let steals: String = slot.steals.iter().map(|steals| format!("{steals:>14}")).collect();
        let _ = writeln!(
            text,
            "{idx:>6}  {:>9}               {steals}  {:>10}  {:>12}  {:>8}  {:>8}  {:>10}",
            slot.tasks, slot.from_node, slot.from_other_nodes, slot.parks, slot.wakes, slot.hand_overs
        );
    }
}

fn classes(text: &mut String, scheduler: &SchedulerStatistics) {
    for class in &scheduler.classes {
        let of_limit = match class.auto {
            // The final limit may be below limits that were tried.
            true => format!("{} at once (auto: {} at the end)", class.in_flight_high, class.limit),
            false => format!("{} of {} at once", class.in_flight_high, class.limit),
        };
        let _ = writeln!(
            text,
            "blocking class {}: {} operations, at most {of_limit}, {} waited",
            class.name, class.operations, class.waited
        );
    }
}

fn list_devices(text: &mut String, devices: &[(String, DeviceStatistics)]) {
    for (name, device) in devices {
        let gathered = match device.gather_ns {
            0 => "nothing gathered".to_owned(),
            ns => {
                let (bytes, rate) = (device.gathered_bytes as f64, device.gathered_bytes as f64 / ns as f64);
                format!("{:.3} GB gathered at {rate:.1} GB/s", bytes / 1e9)
            }
        };
        let _ = writeln!(
            text,
            "device {name}: {} blocks, {} in kernels, {} of feeding threads, {gathered}, {} failures",
            device.blocks,
            time(device.kernel_ns),
            time(device.feed_ns),
            device.failures
        );
        if device.direct.launches > 0 {
            let _ = writeln!(text, "device {name}, factors: {}", device.direct);
        }
    }
}

/// The costs of the first requests.
fn requests(text: &mut String, outcomes: &[Outcome]) {
    for (idx, outcome) in outcomes.iter().take(REQUESTS_LISTED_MAX).enumerate() {
        let _ = writeln!(
            text,
            "request {}: {} busy in {}, {} bytes moved",
            idx + 1,
            time(outcome.busy_ns),
            time(outcome.duration.as_nanos() as u64),
            outcome.bytes_moved
        );
    }
    if outcomes.len() > REQUESTS_LISTED_MAX {
        let (busy_ns, bytes) = outcomes.iter().fold((0, 0), |(busy_ns, bytes), outcome| {
            (busy_ns + outcome.busy_ns, bytes + outcome.bytes_moved)
        });
        let (count, busy) = (outcomes.len(), time(busy_ns));
        let _ = writeln!(text, "all {count} requests: {busy} busy, {bytes} bytes moved");
    }
}

/// Writes the counts of operators, as shares of the first count too.
fn counts(text: &mut String, boxes: &[BoxStatistics]) {
    for of_box in boxes {
        let Some((_, whole)) = of_box.counts.first() else { continue };
        let counts = of_box.counts.iter().enumerate().map(|(idx, (what, count))| {
            let share = 100.0 * *count as f64 / *whole as f64;
            if idx > 0 && *whole > 0 {
                format!("{count} {what} ({share:.3} %)")
            } else {
                format!("{count} {what}")
            }
        });
        let _ = writeln!(text, "box `{}`: {}", of_box.name, counts.collect::<Vec<_>>().join(", "));
    }
}

/// Writes the figures of operators.
fn figures(text: &mut String, boxes: &[BoxStatistics]) {
    for of_box in boxes.iter().filter(|of_box| !of_box.figures.is_empty()) {
        let figures = of_box.figures.iter().map(|(what, number)| format!("{what} {number}"));
        let _ = writeln!(text, "box `{}`: {}", of_box.name, figures.collect::<Vec<_>>().join(", "));
    }
}

/// Advice for boxes that block without a declaration.
fn undeclared(text: &mut String, boxes: &[BoxStatistics]) {
    for of_box in boxes.iter().filter(|of_box| of_box.undeclared_blocking_ns > 0) {
        let _ = writeln!(
            text,
            "box `{}` was off the CPU for {} in one firing, {} in all: declare `blocking: CLASS` or use `detached`",
            of_box.name,
            time(of_box.undeclared_blocking_ns_max),
            time(of_box.undeclared_blocking_ns)
        );
    }
}

/// A time with three significant digits and its unit.
fn time(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use boxwork_runtime::request::BoxStatistics;

    use super::{counts, figures, time, undeclared};

    #[test]
    fn times_have_three_digits() {
        let shown: Vec<String> =
            [999, 1_000, 12_345, 9_999_999, 123_456_789, 61_000_000_000].map(time).into();
        assert_eq!(shown, ["999 ns", "1.00 us", "12.3 us", "10.0 ms", "123 ms", "61.0 s"]);
    }

    #[test]
    fn figures_are_no_shares() {
        let figured = [("rounds", 7.0), ("mean squared distance", 0.125)];
        let of_box =
            BoxStatistics { name: "lists".to_owned(), figures: figured.to_vec(), ..Default::default() };
        let mut text = String::new();
        figures(&mut text, &[BoxStatistics::default(), of_box]);
        assert_eq!(text, "box `lists`: rounds 7, mean squared distance 0.125\n");
    }

    #[test]
    fn counts_are_shares_of_the_first_one() {
        let of_box = |name: &str, counts: &[(&'static str, u64)]| BoxStatistics {
            name: name.to_owned(),
            counts: counts.to_vec(),
            ..Default::default()
        };
        let mut text = String::new();
        let boxes = [
            of_box("nearest", &[("rows bounded", 4000), ("left by 8 bits", 30), ("computed", 0)]),
            of_box("other", &[]),
            of_box("idle", &[("rows bounded", 0), ("computed", 0)]),
        ];
        counts(&mut text, &boxes);
        assert_eq!(
            text,
            "box `nearest`: 4000 rows bounded, 30 left by 8 bits (0.750 %), 0 computed (0.000 %)\n\
             box `idle`: 0 rows bounded, 0 computed\n"
        );
    }

    #[test]
    fn a_box_that_blocks_without_saying_so_is_told_once() {
        let of_box = |name: &str, ms: u64| BoxStatistics {
            name: name.to_owned(),
            undeclared_blocking_ns: 2 * ms * 1_000_000,
            undeclared_blocking_ns_max: ms * 1_000_000,
            ..Default::default()
        };
        let mut text = String::new();
        undeclared(&mut text, &[of_box("load", 48), of_box("decode", 0)]);
        assert_eq!(
            text,
            "box `load` was off the CPU for 48.0 ms in one firing, 96.0 ms in all: declare `blocking: CLASS` or use \
             `detached`\n"
        );
    }
}
