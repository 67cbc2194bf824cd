//! Plots as SVG, made here: bars with the middle half on them, and lines over a logarithmic axis.

use std::fmt::Write as _;

use super::results::significant;
use super::spread::Spread;
use crate::page::escape;

/// The colours of the lines, in turn; told apart on light and dark ground.
const COLOURS: [&str; 8] =
    ["#2b6cb0", "#c05621", "#2f855a", "#805ad5", "#b83280", "#718096", "#b7791f", "#319795"];
const LINE_HEIGHT: f64 = 20.0;
/// About as wide as a letter comes out.
const LETTER_WIDTH: f64 = 6.6;
const PLOT_WIDTH: f64 = 420.0;
const PLOT_HEIGHT: f64 = 240.0;
const MARGIN: f64 = 70.0;

/// One bar.
pub struct Bar {
    pub label: String,
    pub spread: Spread,
    /// Bars of one group have one colour.
    pub group: usize,
}

/// Horizontal bars from zero, with a whisker over the middle half.
pub fn bars(title: &str, bars: &[Bar]) -> String {
    let most = bars.iter().map(|bar| bar.spread.high).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let left = longest(bars.iter().map(|bar| &bar.label)) + 16.0;
    let x = |figure: f64| left + figure.max(0.0) / most * PLOT_WIDTH;
    let (width, height) = (left + PLOT_WIDTH + 90.0, bars.len() as f64 * LINE_HEIGHT + 8.0);
    let mut body = String::new();
    for (idx, bar) in bars.iter().enumerate() {
        let (top, Spread { median, low, high }) = (idx as f64 * LINE_HEIGHT, bar.spread);
        let (middle, colour) = (top + LINE_HEIGHT / 2.0, COLOURS[bar.group % COLOURS.len()]);
        text(&mut body, (left - 8.0, middle + 4.0), "end", &bar.label);
        let _ = writeln!(
            body,
            "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\" fill-opacity=\".75\"/>\
             <line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\" stroke=\"currentColor\" stroke-width=\"2\"/>",
            top + 4.0,
            x(median) - left,
            LINE_HEIGHT - 8.0,
            x(low),
            x(high)
        );
        text(&mut body, (x(high) + 8.0, middle + 4.0), "start", &significant(median));
    }
    picture(title, (width, height), &body)
}

/// One line of a plot.
pub struct Line {
    pub label: String,
    /// In the order of x, which is above zero.
    pub points: Vec<(f64, f64)>,
}

/// Lines over an axis of powers of two, from zero up.
pub fn lines(title: &str, x_title: &str, lines: &[Line]) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let mut places: Vec<f64> = points().map(|point| point.0).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let (Some(&first), Some(&last)) = (places.first(), places.last()) else { return String::new() };
    let most = points().map(|point| point.1).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let span = (last / first).log2().max(1.0);
    let x = |place: f64| MARGIN + 20.0 + (place / first).log2() / span * PLOT_WIDTH;
    let y = |figure: f64| 20.0 + (1.0 - figure.max(0.0) / most) * PLOT_HEIGHT;
    let mut body = String::new();
    for quarter in 0..=4 {
        let figure = most * f64::from(quarter) / 4.0;
        let _ = writeln!(
            body,
            "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{2:.1}\" y2=\"{2:.1}\" stroke=\"currentColor\" stroke-opacity=\".15\"/>",
            x(first),
            x(last),
            y(figure)
        );
        text(&mut body, (x(first) - 8.0, y(figure) + 4.0), "end", &significant(figure));
    }
    for place in &places {
        text(&mut body, (x(*place), y(0.0) + 18.0), "middle", &significant(*place));
    }
    text(&mut body, (x(first) + PLOT_WIDTH / 2.0, y(0.0) + 36.0), "middle", x_title);
    for (idx, line) in lines.iter().enumerate() {
        let colour = COLOURS[idx % COLOURS.len()];
        let path: Vec<String> =
            line.points.iter().map(|at| format!("{:.1},{:.1}", x(at.0), y(at.1))).collect();
        let _ = writeln!(
            body,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        for at in &line.points {
            let _ = writeln!(
                body,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>",
                x(at.0),
                y(at.1)
            );
        }
        let (left, top) = (MARGIN + PLOT_WIDTH + 50.0, 20.0 + idx as f64 * LINE_HEIGHT);
        let _ =
            writeln!(body, "<circle cx=\"{left:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{colour}\"/>", top + 6.0);
        text(&mut body, (left + 10.0, top + 10.0), "start", &line.label);
    }
    let height = (PLOT_HEIGHT + 64.0).max(lines.len() as f64 * LINE_HEIGHT + 40.0);
    let labels = longest(lines.iter().map(|line| &line.label));
    picture(title, (MARGIN + PLOT_WIDTH + 70.0 + labels, height), &body)
}

/// The width of the longest label.
fn longest<'a>(labels: impl Iterator<Item = &'a String>) -> f64 {
    labels.map(|label| label.chars().count()).max().unwrap_or(0) as f64 * LETTER_WIDTH
}

fn picture(title: &str, (width, height): (f64, f64), body: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\">\n<title>{}</title>\n{body}</svg>\n",
        escape(title)
    )
}

fn text(body: &mut String, (x, y): (f64, f64), anchor: &str, content: &str) {
    let content = escape(content);
    let _ = writeln!(
        body,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"currentColor\" text-anchor=\"{anchor}\">{content}</text>"
    );
}
