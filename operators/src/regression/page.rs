//! The page that plots mean, interval and data over one input, as SVG in HTML without scripts.
//!
//! Invariant: the page needs no other file; names are text, never markup.

use std::fmt::{self, Write as _};

use boxwork_runtime::operator::BoxError;
use boxwork_stores::gp_model::SavedModel;

use crate::results::html::markup::escaped;

/// The size of the plot, and its margins to the left and below.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 480.0;
const MARGIN: f64 = 60.0;
/// Points that are drawn at most; of more every k-th is.
const DRAWN_MAX: usize = 20_000;

/// Predictions to plot.
#[derive(Default)]
pub(super) struct Plotted {
    /// The place on the axis, and mean, deviation, lower and upper end.
    points: Vec<(f64, [f64; 4])>,
}

impl Plotted {
    /// Adds a point.
    pub(super) fn add(&mut self, x: f64, numbers: [f64; 4]) -> fmt::Result {
        self.points.push((x, numbers));
        Ok(())
    }
}

/// A linear scale from numbers to places in the plot.
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn of(numbers: impl Iterator<Item = f64>, (from, to): (f64, f64)) -> Self {
        let finite = numbers.filter(|x| x.is_finite());
        let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        let room = if high > low { 0.03 * (high - low) } else { 0.5 };
        Self { low: low - room, high: high + room, from, to }
    }

    fn at(&self, x: f64) -> f64 {
        self.from + (x - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// Round numbers within the scale, about five of them.
    fn ticks(&self) -> Vec<f64> {
        let rough = (self.high - self.low) / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|part| part * power);
        let step = step.into_iter().find(|step| *step >= rough).unwrap_or(rough);
        let first = (self.low / step).ceil() as i64;
        (first..).map(|nth| nth as f64 * step).take_while(|tick| *tick <= self.high).take(20).collect()
    }
}

/// The page of some predictions, and of the samples of a model if one is given.
pub(super) fn page(plotted: &Plotted, model: Option<&SavedModel>, axis: usize) -> Result<String, BoxError> {
    let every = plotted.points.len().div_ceil(DRAWN_MAX).max(1);
    let mut points: Vec<(f64, [f64; 4])> = plotted.points.iter().copied().step_by(every).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let samples: Vec<(f64, f64)> = match model {
        Some(model) if axis < model.inputs.len() => {
            let (regression, every) = (&model.regression, model.names.len().div_ceil(DRAWN_MAX).max(1));
            let xs = regression.points.dimension(axis).iter().copied();
            xs.zip(regression.targets.iter().copied()).step_by(every).collect()
        }
        _ => Vec::new(),
    };
    if points.is_empty() && samples.is_empty() {
        return Err(BoxError::new("there is nothing to plot: no point was predicted"));
    }
    let xs = Scale::of(points.iter().map(|p| p.0).chain(samples.iter().map(|s| s.0)), (MARGIN, WIDTH - 10.0));
    let values = points.iter().flat_map(|p| [p.1[0], p.1[2], p.1[3]]).chain(samples.iter().map(|s| s.1));
    let ys = Scale::of(values, (HEIGHT - MARGIN, 10.0));
    let unnamed = || (format!("input {}", axis + 1), "target".to_owned());
    let named = model.filter(|model| axis < model.inputs.len());
    let (x_name, y_name) =
        named.map_or_else(unnamed, |model| (model.inputs[axis].clone(), model.target.clone()));
    let is_curve = model.is_none_or(|model| model.inputs.len() == 1);
    let mut svg = axes(&xs, &ys, &x_name, &y_name);
    draw(&mut svg, &points, &samples, (&xs, &ys), is_curve);
    let about = model.map_or_else(String::new, |model| {
        let regression = &model.regression;
        format!(
            "<p>{} samples under <code>{}</code>, noise {:?}, log likelihood {:.4}</p>",
            regression.len(),
            escaped(&regression.expression.to_string()),
            regression.noise,
            regression.log_likelihood
        )
    });
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n<style>{STYLE}</style></head>\n\
         <body><h1>{title}</h1>\n{about}\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{label}\">\n{svg}</svg>\n\
         <p class=\"key\"><span class=\"m\">mean</span> <span class=\"i\">interval</span> <span class=\"d\">data</span></p>\n\
         </body></html>\n",
        title = format_args!("{} over {}", escaped(&y_name), escaped(&x_name)),
        label = format_args!(
            "{} predicted means with their intervals, and {} data points",
            points.len(),
            samples.len()
        ),
    ))
}

const STYLE: &str = "body{font:16px system-ui,sans-serif;max-width:960px;margin:2em auto;color:#222;background:#fff}\
svg{width:100%}text{font-size:13px;fill:#444}.axis{stroke:#bbb}.mean{fill:none;stroke:#0a4ea2;stroke-width:2}\
.band{fill:#0a4ea2;fill-opacity:.18}.bar{stroke:#0a4ea2;stroke-opacity:.35}.dot{fill:#0a4ea2}.data{fill:#b3400a}\
.key span::before{content:'\\25A0 ';}.m::before{color:#0a4ea2}.i::before{color:#b9cbe4}.d::before{color:#b3400a}\
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181a1c}text{fill:#bbb}.axis{stroke:#555}.mean{stroke:#7db3f2}\
.band,.dot{fill:#7db3f2}.bar{stroke:#7db3f2}.data{fill:#f0935c}}";

fn axes(xs: &Scale, ys: &Scale, x_name: &str, y_name: &str) -> String {
    let (left, bottom, right) = (MARGIN, HEIGHT - MARGIN, WIDTH - 10.0);
    let mut svg = String::new();
    // A string takes any text.
    for tick in xs.ticks() {
        let at = xs.at(tick);
        let _ =
            writeln!(svg, "<line class=\"axis\" x1=\"{at:.1}\" y1=\"10\" x2=\"{at:.1}\" y2=\"{bottom}\"/>");
        let _ = writeln!(
            svg,
            "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            short(tick)
        );
    }
    for tick in ys.ticks() {
        let at = ys.at(tick);
        let _ = writeln!(
            svg,
            "<line class=\"axis\" x1=\"{left}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\"/>"
        );
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 6.0,
            at + 4.0,
            short(tick)
        );
    }
    let middle = (left + right) / 2.0;
    let _ = writeln!(
        svg,
        "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
        HEIGHT - 16.0,
        escaped(x_name)
    );
    let _ = writeln!(
        svg,
        "<text x=\"12\" y=\"{}\" transform=\"rotate(-90 12 {0})\" text-anchor=\"middle\">{}</text>",
        bottom / 2.0,
        escaped(y_name)
    );
    svg
}

/// A tick's number without digits of rounding.
fn short(tick: f64) -> String {
    let text = format!("{tick:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let is_plain = tick == 0.0 || (1e-4..1e6).contains(&tick.abs());
    if is_plain { text.to_owned() } else { format!("{tick:.2e}") }
}

/// Draws a curve with its band over one input, else a dot with its bar for each point; then the data.
fn draw(
    svg: &mut String,
    points: &[(f64, [f64; 4])],
    samples: &[(f64, f64)],
    (xs, ys): (&Scale, &Scale),
    is_curve: bool,
) {
    let place = |x: f64, y: f64| format!("{:.2},{:.2} ", xs.at(x), ys.at(y));
    let has_band = points.iter().all(|(_, numbers)| numbers[2].is_finite() && numbers[3].is_finite());
    if is_curve && !points.is_empty() {
        if has_band {
            let upper = points.iter().map(|(x, numbers)| place(*x, numbers[3]));
            let lower = points.iter().rev().map(|(x, numbers)| place(*x, numbers[2]));
            let _ = writeln!(
                svg,
                "<polygon class=\"band\" points=\"{}\"/>",
                upper.chain(lower).collect::<String>()
            );
        }
        let means: String = points.iter().map(|(x, numbers)| place(*x, numbers[0])).collect();
        let _ = writeln!(svg, "<polyline class=\"mean\" points=\"{means}\"/>");
    } else {
        for (x, [mean, _, lower, upper]) in points {
            let (at, middle) = (xs.at(*x), ys.at(*mean));
            if has_band {
                let (from, to) = (ys.at(*lower), ys.at(*upper));
                let _ = writeln!(
                    svg,
                    "<line class=\"bar\" x1=\"{at:.2}\" y1=\"{from:.2}\" x2=\"{at:.2}\" y2=\"{to:.2}\"/>"
                );
            }
            let _ = writeln!(svg, "<circle class=\"dot\" cx=\"{at:.2}\" cy=\"{middle:.2}\" r=\"2\"/>");
        }
    }
    for (x, y) in samples {
        let _ =
            writeln!(svg, "<circle class=\"data\" cx=\"{:.2}\" cy=\"{:.2}\" r=\"3\"/>", xs.at(*x), ys.at(*y));
    }
}
