//! Plots as SVG: bars, and lines over an axis.

use std::fmt::Write as _;

use crate::number::significant;
use crate::page::escape_xml;
use crate::spread::Spread;

/// The colours of the lines, in turn; readable on light and dark ground.
const COLOURS: [&str; 8] =
    ["#2b6cb0", "#c05621", "#2f855a", "#805ad5", "#b83280", "#718096", "#b7791f", "#319795"];
const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 220.0;
/// Margins beside and above each picture.
const LEFT: f64 = 70.0;
const TOP: f64 = 56.0;
const BELOW: f64 = 44.0;
const LINE_HEIGHT: f64 = 18.0;
/// The approximate width of a letter.
const LETTER: f64 = 6.6;
/// Pictures in a row.
const ABREAST: usize = 3;

/// Places along one side of a picture.
enum Scale {
    /// From, to, and the distance between two marks.
    Linear(f64, f64, f64),
    Log(f64, f64),
    /// For values that are not all numbers.
    Names(Vec<String>),
}

impl Scale {
    /// An `upright` scale is that of y: it starts at 0 if the figures then still fill half of the picture, and ends at
    /// a round number.
    fn of(values: &[String], is_log: bool, upright: bool) -> Self {
        let numbers: Option<Vec<f64>> = values.iter().map(|value| value.parse().ok()).collect();
        let Some(numbers) = numbers.filter(|numbers| !numbers.is_empty()) else {
            return Self::Names(distinct(values));
        };
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for number in numbers {
            (low, high) = (low.min(number), high.max(number));
        }
        if is_log && low > 0.0 {
            return Self::Log(low, high);
        }
        if !upright {
            return Self::Linear(low, high, step(low, high));
        }
        let low = if low > 0.0 && (low < high / 2.0 || low == high) { 0.0 } else { low };
        let step = step(low, high);
        Self::Linear((low / step).floor() * step, (high / step).ceil() * step, step)
    }

    /// A position from 0 to 1; `None` for a value that is not on the scale.
    fn place(&self, value: &str) -> Option<f64> {
        let share = |at: f64, low: f64, high: f64| if high > low { (at - low) / (high - low) } else { 0.5 };
        match self {
            Self::Names(names) => {
                let idx = names.iter().position(|name| name == value)?;
                Some((idx as f64 + 0.5) / names.len() as f64)
            }
            Self::Linear(low, high, _) => Some(share(value.parse().ok()?, *low, *high)),
            Self::Log(low, high) => Some(share(value.parse::<f64>().ok()?.ln(), low.ln(), high.ln())),
        }
    }

    /// Positions and labels of the marks beside the scale.
    fn marks(&self, values: &[String], upright: bool) -> Vec<(f64, String)> {
        let at = |value: String| self.place(&value).map(|place| (place, value));
        match self {
            Self::Names(names) => names.iter().cloned().filter_map(at).collect(),
            // Few values are marks themselves.
            _ if !upright && distinct(values).len() <= 8 => {
                distinct(values).into_iter().filter_map(at).collect()
            }
            Self::Linear(low, high, step) => {
                let first = (low / step - 1e-9).ceil() as i64;
                let last = (high / step + 1e-9).floor() as i64;
                (first..=last).map(|count| rounded(count as f64 * step)).filter_map(at).collect()
            }
            Self::Log(low, high) => {
                let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
                let mantissas: &[f64] = if last - first > 2 { &[1.0] } else { &[1.0, 2.0, 5.0] };
                let all =
                    (first..=last).flat_map(|power| mantissas.iter().map(move |by| by * 10f64.powi(power)));
                all.map(rounded)
                    .filter_map(at)
                    .filter(|(place, _)| (-0.001..=1.001).contains(place))
                    .collect()
            }
        }
    }
}

/// A round number that divides the range into about four parts.
fn step(low: f64, high: f64) -> f64 {
    let raw = ((high - low) / 4.0).max(high.abs().max(1e-9) * 1e-6);
    let power = 10f64.powf(raw.log10().floor());
    power * [1.0, 2.0, 5.0, 10.0].into_iter().find(|by| by * power >= raw * 0.999).unwrap_or(10.0)
}

fn rounded(number: f64) -> String {
    let digits = (3 - number.abs().max(1e-9).log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{number:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn distinct(values: &[String]) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for value in values {
        if !kept.contains(value) {
            kept.push(value.clone());
        }
    }
    kept
}

/// One line of a chart.
pub(crate) struct Line {
    pub(crate) label: String,
    /// A position on the x axis, which may be a name, and a figure.
    pub(crate) points: Vec<(String, f64)>,
}

/// Lines over one axis, in one picture or in several side by side with common scales.
pub(crate) struct Chart<'a> {
    pub(crate) heading: &'a str,
    /// The title of the x axis.
    pub(crate) x: &'a str,
    /// The title of the lines' labels.
    pub(crate) legend: &'a str,
    /// Whether the scales of x and y are logarithmic.
    pub(crate) log: (bool, bool),
    /// Pictures with their titles. A line's colour is its index among those of its picture.
    pub(crate) facets: Vec<(String, Vec<Line>)>,
}

impl Chart<'_> {
    /// The chart as SVG; `None` if it has no point.
    pub(crate) fn svg(&self) -> Option<String> {
        let points = || self.facets.iter().flat_map(|(_, lines)| lines).flat_map(|line| &line.points);
        points().next()?;
        let (xs, ys): (Vec<String>, Vec<String>) = points().map(|(x, y)| (x.clone(), y.to_string())).unzip();
        let scales = (Scale::of(&xs, self.log.0, false), Scale::of(&ys, self.log.1, true));
        let mut body = String::new();
        for (idx, (title, lines)) in self.facets.iter().enumerate() {
            let left = LEFT + (idx % ABREAST) as f64 * (WIDTH + LEFT);
            let top = TOP + (idx / ABREAST) as f64 * (HEIGHT + TOP + BELOW);
            let at = |x: f64, y: f64| (left + x * WIDTH, top + (1.0 - y) * HEIGHT);
            text(&mut body, (left, top - 12.0), "start", title);
            frame(&mut body, &at, scales.0.marks(&xs, false), scales.1.marks(&ys, true), self.x);
            for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
                let place =
                    |(x, y): &(String, f64)| Some((scales.0.place(x)?, scales.1.place(&y.to_string())?));
                let mut places: Vec<(f64, f64)> = line.points.iter().filter_map(place).collect();
                places.sort_by(|a, b| a.0.total_cmp(&b.0));
                let places: Vec<(f64, f64)> = places.into_iter().map(|(x, y)| at(x, y)).collect();
                draw(&mut body, &places, colour);
            }
        }
        let abreast = self.facets.len().min(ABREAST) as f64;
        let right = LEFT + abreast * (WIDTH + LEFT) - LEFT + 24.0;
        let (legend, height) = self.draw_legend(&mut body, right);
        let down = self.facets.len().div_ceil(ABREAST) as f64 * (HEIGHT + TOP + BELOW);
        text(&mut body, (16.0, 20.0), "start", self.heading);
        let width = (right + legend).max(LEFT + width_of(self.heading));
        Some(picture(self.heading, (width, down.max(height)), &body))
    }

    /// Writes the legend of the colours; returns its width and height.
    fn draw_legend(&self, body: &mut String, left: f64) -> (f64, f64) {
        let (mut width, mut y) = (0.0_f64, TOP + 8.0);
        let lines = self.facets.first().map(|(_, lines)| lines.as_slice()).unwrap_or_default();
        for (line, colour) in
            lines.iter().zip(COLOURS.iter().cycle()).filter(|(line, _)| !line.label.is_empty())
        {
            let label = format!("{} {}", self.legend, line.label);
            let _ = writeln!(body, "<circle cx=\"{left:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>");
            text(body, (left + 10.0, y + 4.0), "start", label.trim_start());
            width = width.max(width_of(&label) + 30.0);
            y += LINE_HEIGHT;
        }
        (width, y + 12.0)
    }
}

/// One bar.
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) spread: Spread,
    /// Bars of one group have one colour.
    pub(crate) group: usize,
}

/// Horizontal bars from zero, with a whisker over the middle half of the rounds.
pub(crate) fn bars(title: &str, bars: &[Bar]) -> String {
    let most = bars.iter().map(|bar| bar.spread.high).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let left = bars.iter().map(|bar| width_of(&bar.label)).fold(0.0, f64::max) + 16.0;
    let x = |figure: f64| left + figure.max(0.0) / most * WIDTH;
    let mut body = String::new();
    text(&mut body, (0.0, 14.0), "start", title);
    for (idx, bar) in bars.iter().enumerate() {
        let (top, Spread { median, low, high }) = ((idx + 1) as f64 * LINE_HEIGHT, bar.spread);
        let (middle, colour) = (top + LINE_HEIGHT / 2.0, COLOURS[bar.group % COLOURS.len()]);
        text(&mut body, (left - 8.0, middle + 4.0), "end", &bar.label);
        let _ = writeln!(
            body,
            "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\" fill-opacity=\".75\"/>\
             <line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\" stroke=\"currentColor\" stroke-width=\"2\"/>",
            top + 3.0,
            x(median) - left,
            LINE_HEIGHT - 6.0,
            x(low),
            x(high)
        );
        text(&mut body, (x(high) + 8.0, middle + 4.0), "start", &significant(median));
    }
    picture(title, (left + WIDTH + 90.0, (bars.len() + 1) as f64 * LINE_HEIGHT + 8.0), &body)
}

/// A picture as a separate file, with its namespace; within a page it needs none.
pub(crate) fn standalone(svg: &str) -> String {
    svg.replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1)
}

fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

fn picture(title: &str, (width, height): (f64, f64), body: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"12\" color=\"#4a5568\">\n\
         <title>{}</title>\n{body}</svg>\n",
        escape_xml(title)
    )
}

/// The grid of a picture and the words beside it.
fn frame(
    body: &mut String,
    at: &dyn Fn(f64, f64) -> (f64, f64),
    x_marks: Vec<(f64, String)>,
    y_marks: Vec<(f64, String)>,
    x_title: &str,
) {
    let mut last = f64::NEG_INFINITY;
    for (place, word) in y_marks {
        let ((x1, y), (x2, _)) = (at(0.0, place), at(1.0, place));
        let _ = writeln!(
            body,
            "<line x1=\"{x1:.1}\" x2=\"{x2:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"currentColor\" stroke-opacity=\".2\"/>"
        );
        if (y - last).abs() >= 12.0 {
            text(body, (x1 - 8.0, y + 4.0), "end", &short(&word));
            last = y;
        }
    }
    let mut end = f64::NEG_INFINITY;
    let mut marks = x_marks;
    marks.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (place, word) in marks {
        let (x, y) = at(place, 0.0);
        let half = width_of(&short(&word)) / 2.0;
        // A label that would overlap the label before it is omitted.
        if x - half > end {
            text(body, (x, y + 16.0), "middle", &short(&word));
            end = x + half + 4.0;
        }
    }
    let (x, y) = at(0.5, 0.0);
    text(body, (x, y + 34.0), "middle", x_title);
}

/// A number with at most four digits, or a word.
fn short(word: &str) -> String {
    word.parse::<f64>().map_or_else(
        |_| word.to_owned(),
        |number| if word.len() > 7 { rounded(number) } else { word.to_owned() },
    )
}

fn draw(body: &mut String, line: &[(f64, f64)], colour: &str) {
    let path: Vec<String> = line.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(
        body,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
        path.join(" ")
    );
    for (x, y) in line {
        let _ = writeln!(body, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
    }
}

fn text(body: &mut String, (x, y): (f64, f64), anchor: &str, content: &str) {
    let content = escape_xml(content);
    let _ = writeln!(
        body,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"currentColor\" text-anchor=\"{anchor}\">{content}</text>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(numbers: &[f64]) -> Vec<String> {
        numbers.iter().map(|number| number.to_string()).collect()
    }

    fn words(numbers: &[f64], is_log: bool, upright: bool) -> Vec<String> {
        let values = texts(numbers);
        let marks = Scale::of(&values, is_log, upright).marks(&values, upright);
        assert!(marks.iter().all(|(place, _)| (-0.001..=1.001).contains(place)), "{marks:?}");
        marks.into_iter().map(|(_, word)| word).collect()
    }

    #[test]
    fn marks_are_round_or_the_values_themselves() {
        assert_eq!(words(&[0.479, 0.5518], false, true), ["0.46", "0.48", "0.5", "0.52", "0.54", "0.56"]);
        assert_eq!(words(&[3.0, 17.0], false, true), ["0", "5", "10", "15", "20"]);
        assert_eq!(words(&[4.0, 16.0, 48.0], true, false), ["4", "16", "48"]);
        assert_eq!(words(&[0.3, 4.0], true, true), ["0.5", "1", "2"]);
        assert_eq!(words(&[7.0], false, true), ["0", "2", "4", "6", "8"]);
        let names = ["scan".to_owned(), "auto".to_owned()];
        assert_eq!(Scale::of(&names, true, false).marks(&names, false).len(), 2);
    }
}
