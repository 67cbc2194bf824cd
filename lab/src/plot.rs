//! Plots as SVG: bars, and lines over an axis, with the middle half of the rounds over every figure.

mod scale;

use std::fmt::Write as _;

use crate::number::significant;
use crate::page::escape_xml;
use crate::plot::scale::Scale;
use crate::spread::Spread;

/// The colours of the lines, in turn; readable on light and dark ground.
const COLOURS: [&str; 8] =
    ["#2b6cb0", "#c05621", "#2f855a", "#805ad5", "#b83280", "#718096", "#b7791f", "#319795"];
/// The width of all pictures in a row, of one at most, and of bars.
const WIDTH: f64 = 960.0;
const WIDEST: f64 = 600.0;
const BARS: f64 = 480.0;
const HEIGHT: f64 = 220.0;
/// The space above each picture, and beside the pictures at least.
const TOP: f64 = 56.0;
const BESIDE: f64 = 24.0;
const BELOW: f64 = 44.0;
const LINE_HEIGHT: f64 = 18.0;
/// The width of a letter in the widest of the usual fonts.
const LETTER: f64 = 7.4;
/// Pictures in a row.
const ABREAST: usize = 3;
/// Figures that differ by this factor are shown on a logarithmic scale, on which the least can still be seen.
const FAR_APART: f64 = 30.0;

/// Whether figures differ so much that only a logarithmic scale shows them all.
pub(crate) fn are_far_apart(spreads: impl Iterator<Item = Spread>) -> bool {
    let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
    for spread in spreads {
        (low, high) = (low.min(spread.low), high.max(spread.high));
    }
    low > 0.0 && high / low > FAR_APART
}

/// One line of a chart.
pub(crate) struct Line {
    pub(crate) label: String,
    /// A position on the x axis, which may be a name, and a figure.
    pub(crate) points: Vec<(String, Spread)>,
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
        let xs: Vec<String> = points().map(|(x, _)| x.clone()).collect();
        let ys: Vec<f64> = points().flat_map(|(_, of)| [of.low, of.median, of.high]).collect();
        let scales = (Scale::along(&xs, self.log.0), Scale::of_figures(&ys, self.log.1));
        let widest = |scale: &Scale| scale.marks().iter().map(|mark| width_of(mark.1)).fold(0.0, f64::max);
        let beside = (widest(&scales.1) + 16.0 + widest(&scales.0) / 2.0).max(BESIDE);
        let abreast = self.facets.len().min(ABREAST) as f64;
        let width = (WIDTH / abreast - beside).min(WIDEST);
        let mut body = String::new();
        for (idx, (title, lines)) in self.facets.iter().enumerate() {
            let left = beside + (idx % ABREAST) as f64 * (width + beside);
            let top = TOP + (idx / ABREAST) as f64 * (HEIGHT + TOP + BELOW);
            let at = |x: f64, y: f64| (left + x * width, top + (1.0 - y) * HEIGHT);
            text(&mut body, (left, top - 12.0), "start", title);
            frame(&mut body, &at, &scales, self.x);
            for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
                let place = |(x, of): &(String, Spread)| {
                    let (x, y) = (scales.0.place(x)?, |figure| scales.1.place_of(figure));
                    Some([at(x, y(of.median)), at(x, y(of.low)), at(x, y(of.high))])
                };
                let mut places: Vec<[(f64, f64); 3]> = line.points.iter().filter_map(place).collect();
                places.sort_by(|a, b| a[0].0.total_cmp(&b[0].0));
                draw(&mut body, &places, colour);
            }
        }
        let right = beside + abreast * (width + beside) - beside + BESIDE.max(widest(&scales.0) / 2.0 + 4.0);
        let (legend, height) = self.draw_legend(&mut body, right);
        let down = self.facets.len().div_ceil(ABREAST) as f64 * (HEIGHT + TOP + BELOW);
        text(&mut body, (16.0, 20.0), "start", self.heading);
        let width = (right + legend).max(BESIDE + width_of(self.heading));
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

/// Horizontal bars from zero, or dots on a logarithmic scale, with a whisker over the middle half of the rounds.
pub(crate) fn bars(title: &str, bars: &[Bar]) -> String {
    let is_log = are_far_apart(bars.iter().map(|bar| bar.spread));
    let ends = bars.iter().flat_map(|bar| [bar.spread.low.max(0.0), bar.spread.high.max(0.0)]);
    // Bars begin at zero.
    let figures: Vec<f64> = ends.chain((!is_log).then_some(0.0)).collect();
    let scale = Scale::of_figures(&figures, is_log);
    let left = bars.iter().map(|bar| width_of(&bar.label)).fold(0.0, f64::max) + 16.0;
    let x = |figure: f64| left + scale.place_of(figure.max(0.0)) * BARS;
    let bottom = (bars.len() + 1) as f64 * LINE_HEIGHT + 4.0;
    let mut body = String::new();
    text(&mut body, (0.0, 14.0), "start", title);
    let mut end = f64::NEG_INFINITY;
    for (place, label) in scale.marks() {
        let (x, top) = (left + place * BARS, LINE_HEIGHT);
        let _ = writeln!(
            body,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\" stroke=\"currentColor\" stroke-opacity=\".2\"/>"
        );
        let half = width_of(label) / 2.0;
        if x - half > end {
            text(&mut body, (x, bottom + 14.0), "middle", label);
            end = x + half + 4.0;
        }
    }
    for (idx, bar) in bars.iter().enumerate() {
        let (top, Spread { median, low, high }) = ((idx + 1) as f64 * LINE_HEIGHT, bar.spread);
        let (middle, colour) = (top + LINE_HEIGHT / 2.0, COLOURS[bar.group % COLOURS.len()]);
        text(&mut body, (left - 8.0, middle + 4.0), "end", &bar.label);
        let _ = if is_log {
            writeln!(body, "<circle cx=\"{:.1}\" cy=\"{middle:.1}\" r=\"5\" fill=\"{colour}\"/>", x(median))
        } else {
            writeln!(
                body,
                "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\" fill-opacity=\".75\"/>",
                top + 3.0,
                x(median) - left,
                LINE_HEIGHT - 6.0
            )
        };
        whisker(&mut body, (x(low), middle), (x(high), middle), "currentColor");
        text(&mut body, (x(high) + 8.0, middle + 4.0), "start", &significant(median));
    }
    let most = bars.iter().map(|bar| width_of(&significant(bar.spread.median))).fold(0.0, f64::max);
    picture(title, ((left + BARS + most + 16.0).max(width_of(title)), bottom + 24.0), &body)
}

/// A line over the middle half of the rounds, if they differ, with a cap at both ends.
fn whisker(body: &mut String, low: (f64, f64), high: (f64, f64), colour: &str) {
    let length = (high.0 - low.0).hypot(high.1 - low.1);
    if length < 0.5 {
        return;
    }
    // At right angles to the line.
    let (across, down) = ((high.1 - low.1) / length * 3.0, (high.0 - low.0) / length * 3.0);
    let cap =
        |(x, y): (f64, f64)| format!("M{:.1} {:.1}L{:.1} {:.1}", x - across, y - down, x + across, y + down);
    let _ = writeln!(
        body,
        "<path d=\"M{:.1} {:.1}L{:.1} {:.1}{}{}\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
        low.0,
        low.1,
        high.0,
        high.1,
        cap(low),
        cap(high)
    );
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
    (along, upright): &(Scale, Scale),
    x_title: &str,
) {
    for (place, word) in upright.marks() {
        let ((x1, y), (x2, _)) = (at(0.0, place), at(1.0, place));
        let _ = writeln!(
            body,
            "<line x1=\"{x1:.1}\" x2=\"{x2:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"currentColor\" stroke-opacity=\".2\"/>"
        );
        text(body, (x1 - 8.0, y + 4.0), "end", word);
    }
    let mut end = f64::NEG_INFINITY;
    for (place, word) in along.marks() {
        let (x, y) = at(place, 0.0);
        let half = width_of(word) / 2.0;
        // A label that would overlap the label before it is omitted.
        if x - half > end {
            text(body, (x, y + 16.0), "middle", word);
            end = x + half + 4.0;
        }
    }
    let (x, y) = at(0.5, 0.0);
    text(body, (x, y + 34.0), "middle", x_title);
}

/// Places of medians, joined, and of the ends of their whiskers.
fn draw(body: &mut String, line: &[[(f64, f64); 3]], colour: &str) {
    let path: Vec<String> = line.iter().map(|[(x, y), ..]| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(
        body,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
        path.join(" ")
    );
    for [(x, y), low, high] in line {
        whisker(body, *low, *high, colour);
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

    fn spread(median: f64) -> Spread {
        Spread { median, low: median * 0.9, high: median * 1.1 }
    }

    /// The texts of a picture, each with the interval that it covers across; the widths of letters are estimates.
    fn texts(svg: &str) -> Vec<(f64, f64, String)> {
        let of = |text: &str| {
            let (attributes, content) = text.split_once('>').unwrap();
            let value = |name: &str| attributes.split_once(name)?.1.split('"').next();
            let x: f64 = value("x=\"").unwrap().parse().unwrap();
            let content = content.split('<').next().unwrap().to_owned();
            let before = match value("text-anchor=\"").unwrap() {
                "end" => width_of(&content),
                "middle" => width_of(&content) / 2.0,
                _ => 0.0,
            };
            (x - before, x - before + width_of(&content), content)
        };
        svg.split("<text ").skip(1).map(of).collect()
    }

    fn assert_whole(svg: &str, label: &str) {
        let width: f64 = svg.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
        let texts = texts(svg);
        assert!(texts.iter().any(|(.., text)| text == label), "{label}: {texts:?}");
        for (from, to, text) in &texts {
            assert!(*from >= -0.5 && *to <= width + 0.5, "{text} from {from} to {to} of {width}");
        }
    }

    #[test]
    fn labels_and_legends_are_whole() {
        let long = "computing boxes=2 messages=100,000 bytes=65536 on 128";
        let bar = |label: &str, median| Bar { label: label.to_owned(), spread: spread(median), group: 0 };
        assert_whole(&bars("hop_ns", &[bar(long, 20.0), bar("short", 3.0)]), long);
        assert_whole(&bars("hop_ns", &[bar(long, 20_000_000.0), bar("short", 3.0)]), long);
        let line = |label: &str| Line {
            label: label.to_owned(),
            points: vec![("1".to_owned(), spread(12_345_678.0)), ("1000000".to_owned(), spread(1.0))],
        };
        for facets in 1..5 {
            let facets =
                (0..facets).map(|idx| (format!("facet {idx}"), vec![line(long), line("b")])).collect();
            let chart =
                Chart { heading: "ms by workers", x: "workers", legend: "", log: (true, true), facets };
            assert_whole(&chart.svg().unwrap(), long);
        }
    }

    #[test]
    fn whiskers_cover_the_middle_half() {
        let still = Spread { median: 2.0, low: 2.0, high: 2.0 };
        let points =
            vec![("1".to_owned(), spread(20.0)), ("2".to_owned(), spread(40.0)), ("3".to_owned(), still)];
        let facets = vec![(String::new(), vec![Line { label: String::new(), points }])];
        let chart = Chart { heading: "ms", x: "workers", legend: "", log: (false, false), facets };
        assert_eq!(
            chart.svg().unwrap().matches("<path d=").count(),
            2,
            "two of three points differ by round"
        );
        let bar = Bar { label: "a".to_owned(), spread: spread(4.0), group: 0 };
        assert_eq!(bars("ms", &[bar]).matches("<path d=").count(), 1);
    }

    #[test]
    fn figures_far_apart_are_dots_on_a_log_scale() {
        let bar = |median| Bar { label: String::new(), spread: spread(median), group: 0 };
        let near = bars("ns", &[bar(100.0), bar(40.0)]);
        assert_eq!((near.matches("<rect").count(), near.matches("<circle").count()), (2, 0));
        let far = bars("ns", &[bar(40_000.0), bar(100.0)]);
        assert_eq!((far.matches("<rect").count(), far.matches("<circle").count()), (0, 2));
    }
}
