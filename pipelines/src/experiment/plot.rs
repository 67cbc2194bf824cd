//! The plots of a sweep as SVG: lines of medians over an axis, a picture for each facet side by side.

use std::fmt::Write as _;

use super::sweep::{Plot, Sweep};
use super::table::{Row, number};
use crate::drawing::escape;

/// The colours of the lines, in turn; told apart on light and dark ground.
const COLOURS: [&str; 8] =
    ["#2b6cb0", "#c05621", "#2f855a", "#805ad5", "#b83280", "#718096", "#b7791f", "#319795"];
const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 220.0;
/// Beside and above each picture.
const LEFT: f64 = 70.0;
const TOP: f64 = 56.0;
const BELOW: f64 = 44.0;
const LINE_HEIGHT: f64 = 18.0;
/// About as wide as a letter comes out.
const LETTER: f64 = 6.6;
/// Pictures in a row.
const ABREAST: usize = 3;

/// Places along one side of a picture.
enum Scale {
    /// With the distance of its marks.
    Linear(f64, f64, f64),
    Log(f64, f64),
    /// Values that are no numbers, or not all above zero where a logarithm is asked for.
    Names(Vec<String>),
}

impl Scale {
    /// `upright` is the side of the figures: it begins at 0 where that leaves half of the picture to them, and ends at a
    /// round number.
    fn of(values: &[String], is_log: bool, upright: bool) -> Self {
        let numbers: Option<Vec<f64>> = values.iter().map(|value| value.parse().ok()).collect();
        let Some(numbers) = numbers.filter(|numbers| !numbers.is_empty()) else {
            let mut names: Vec<String> = Vec::new();
            for value in values {
                if !names.contains(value) {
                    names.push(value.clone());
                }
            }
            return Self::Names(names);
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

    /// From 0 to 1; nothing for what is not on it.
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

    /// What is written beside it: places and words.
    fn marks(&self, values: &[String], upright: bool) -> Vec<(f64, String)> {
        let at = |value: String| self.place(&value).map(|place| (place, value));
        match self {
            Self::Names(names) => names.iter().cloned().filter_map(at).collect(),
            // Few values of an axis stand for themselves.
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

/// A round number that goes some four times into what lies between.
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

/// All plots that have something to show, by their names.
pub(super) fn plots(sweep: &Sweep, rows: &[Row]) -> Vec<(String, String)> {
    let drawn = sweep.plots.iter().filter_map(|plot| Some((plot.name.clone(), picture(sweep, plot, rows)?)));
    drawn.collect()
}

/// An axis's value or a figure, as a text.
fn cell(row: &Row, name: &str) -> Option<String> {
    let figure = || row.figures.get(name).copied().filter(|figure| figure.is_finite()).map(number);
    row.values.get(name).cloned().or_else(figure)
}

fn picture(sweep: &Sweep, plot: &Plot, rows: &[Row]) -> Option<String> {
    let points: Vec<(&Row, String, String)> =
        rows.iter().filter_map(|row| Some((row, cell(row, &plot.x)?, cell(row, &plot.y)?))).collect();
    if points.is_empty() {
        return None;
    }
    let (xs, ys): (Vec<String>, Vec<String>) = points.iter().map(|(_, x, y)| (x.clone(), y.clone())).unzip();
    let values_of = |axis: &Option<String>| match axis.as_ref().and_then(|axis| sweep.axis(axis)) {
        Some(axis) => axis.values.clone(),
        None => vec![String::new()],
    };
    let (facets, series) = (values_of(&plot.facets), values_of(&plot.series));
    let (x_scale, y_scale) = (Scale::of(&xs, plot.log_x, false), Scale::of(&ys, plot.log_y, true));
    let mut body = String::new();
    for (idx, facet) in facets.iter().enumerate() {
        let left = LEFT + (idx % ABREAST) as f64 * (WIDTH + LEFT);
        let top = TOP + (idx / ABREAST) as f64 * (HEIGHT + TOP + BELOW);
        let at = |x: f64, y: f64| (left + x * WIDTH, top + (1.0 - y) * HEIGHT);
        if let Some(axis) = &plot.facets {
            text(&mut body, (left, top - 12.0), "start", &format!("{axis} {facet}"));
        }
        frame(&mut body, &at, x_scale.marks(&xs, false), y_scale.marks(&ys, true), &plot.x);
        for (number, value) in series.iter().enumerate() {
            let is_of = |row: &Row| {
                let is = |axis: &Option<String>, value: &String| {
                    axis.as_ref().is_none_or(|axis| row.values.get(axis) == Some(value))
                };
                is(&plot.facets, facet) && is(&plot.series, value)
            };
            let mut line: Vec<(f64, f64)> = points
                .iter()
                .filter(|(row, _, _)| is_of(row))
                .filter_map(|(_, x, y)| Some((x_scale.place(x)?, y_scale.place(y)?)))
                .collect();
            line.sort_by(|a, b| a.0.total_cmp(&b.0));
            draw(
                &mut body,
                &line.into_iter().map(|(x, y)| at(x, y)).collect::<Vec<_>>(),
                COLOURS[number % COLOURS.len()],
            );
        }
    }
    let abreast = facets.len().min(ABREAST) as f64;
    let right = LEFT + abreast * (WIDTH + LEFT) - LEFT + 24.0;
    for (number, value) in series.iter().enumerate().filter(|_| plot.series.is_some()) {
        let (colour, y) = (COLOURS[number % COLOURS.len()], TOP + 8.0 + number as f64 * LINE_HEIGHT);
        let _ = writeln!(body, "<circle cx=\"{right:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>");
        text(
            &mut body,
            (right + 10.0, y + 4.0),
            "start",
            &format!("{} {value}", plot.series.as_deref().unwrap_or("")),
        );
    }
    let words = |text: &str| text.chars().count() as f64 * LETTER;
    let series_name = plot.series.as_deref().map_or(0.0, |name| words(name) + 12.0);
    let legend = series.iter().map(|value| words(value)).fold(0.0, f64::max) + series_name + 30.0;
    let heading = format!("{}: {}", plot.title, plot.y);
    let width = (right + legend).max(LEFT + words(&heading));
    let down = facets.len().div_ceil(ABREAST) as f64 * (HEIGHT + TOP + BELOW);
    let height = down.max(TOP + series.len() as f64 * LINE_HEIGHT + 20.0);
    text(&mut body, (16.0, 20.0), "start", &heading);
    Some(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"12\" color=\"#4a5568\">\n\
         <title>{}</title>\n{body}</svg>\n",
        escape(&plot.title)
    ))
}

/// The lines behind a picture, and what is written beside them.
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
        let half = short(&word).chars().count() as f64 * LETTER / 2.0;
        // Words that would lie on each other are left out.
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
    let content = escape(content);
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
    fn marks_are_round_and_axes_stand_for_themselves() {
        assert_eq!(words(&[0.479, 0.5518], false, true), ["0.46", "0.48", "0.5", "0.52", "0.54", "0.56"]);
        assert_eq!(words(&[3.0, 17.0], false, true), ["0", "5", "10", "15", "20"]);
        assert_eq!(words(&[4.0, 16.0, 48.0], true, false), ["4", "16", "48"]);
        assert_eq!(words(&[0.3, 4.0], true, true), ["0.5", "1", "2"]);
        assert_eq!(words(&[7.0], false, true), ["0", "2", "4", "6", "8"]);
        let names = ["scan".to_owned(), "auto".to_owned()];
        assert_eq!(Scale::of(&names, true, false).marks(&names, false).len(), 2);
    }
}
