//! SVG, made here: boxes with their ports, arrows between the ports, hints dashed below.

use std::fmt::Write as _;

use super::layout::{Layout, Size, layout};
use super::{ArrowKind, Drawing, DrawnBox, Port, State};

const NAME_PX: f64 = 13.0;
const SMALL_PX: f64 = 10.5;
const PADDING: f64 = 12.0;
const HEAD_HEIGHT: f64 = 42.0;
const LINE_HEIGHT: f64 = 16.0;
const MARGIN: f64 = 24.0;
const TITLE_HEIGHT: f64 = 56.0;
/// Between the lowest box over a hint and the hint, and between hints.
const HINT_DROP: f64 = 26.0;

const INK: &str = "#2d3748";
const FAINT: &str = "#718096";
const STREAM: &str = "#4a5568";
const SIDE: &str = "#2b6cb0";
const HINT: &str = "#805ad5";
const WRONG: &str = "#c53030";

/// The drawing as one SVG picture.
pub fn svg(drawing: &Drawing) -> String {
    let sizes: Vec<Size> = drawing.boxes.iter().map(size).collect();
    let layout = layout(drawing, &sizes);
    let mut body = String::new();
    let hints = Hints::new(drawing, &layout, &sizes);
    for (idx, arrow) in drawing.arrows.iter().enumerate() {
        let colour = match (&arrow.kind, arrow.wrong) {
            (_, true) => WRONG,
            (ArrowKind::Stream, _) => STREAM,
            (ArrowKind::Side, _) => SIDE,
            (ArrowKind::Hint(_), _) => HINT,
        };
        let is_hint = matches!(arrow.kind, ArrowKind::Hint(_));
        let dashes = if arrow.wrong || is_hint { " stroke-dasharray=\"5 4\"" } else { "" };
        let marker = format!("url(#{})", marker_name(colour));
        let width = if is_hint { 1.4 } else { 1.6 };
        let path = match hints.low[idx] {
            Some(low) => hints.path(drawing, &layout, &sizes, idx, low),
            None => path(drawing, &layout, &sizes, idx),
        };
        let _ = writeln!(
            body,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"{dashes} marker-end=\"{marker}\"/>"
        );
        if let (ArrowKind::Hint(name), Some(low)) = (&arrow.kind, hints.low[idx]) {
            let (from, to) =
                (hints.x(&layout, &sizes, arrow.from, 0.62), hints.x(&layout, &sizes, arrow.to, 0.38));
            let (x, y) = (f64::midpoint(from, to), low - 4.0);
            text(&mut body, (x, y), SMALL_PX, colour, "middle", "", name);
        }
    }
    for (idx, drawn) in drawing.boxes.iter().enumerate() {
        draw_box(&mut body, drawn, layout.corners[idx], sizes[idx]);
    }
    let title_width =
        text_width(&drawing.title, 15.0).max(text_width(&drawing.about, SMALL_PX + 1.0).min(900.0));
    let legend = legend(drawing, layout.height.max(hints.bottom - 8.0) + 30.0);
    let width = layout.width.max(title_width).max(legend.1) + 2.0 * MARGIN;
    let height = layout.height.max(hints.bottom) + TITLE_HEIGHT + 2.0 * MARGIN + 24.0;
    let mut head = String::new();
    text(&mut head, (0.0, -38.0), 15.0, INK, "start", "600", &drawing.title);
    text(&mut head, (0.0, -20.0), SMALL_PX + 1.0, FAINT, "start", "", &drawing.about);
    let markers: String = [STREAM, SIDE, HINT, WRONG].map(marker).concat();
    let (dx, dy) = (MARGIN, MARGIN + TITLE_HEIGHT);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"Helvetica, Arial, sans-serif\">\n\
         <title>{}</title>\n<defs>{markers}</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <g transform=\"translate({dx:.0} {dy:.0})\">\n{head}{body}{}</g>\n</svg>\n",
        escape(&drawing.title),
        legend.0
    )
}

fn size(drawn: &DrawnBox) -> Size {
    let rows = drawn.inputs.len().max(drawn.outputs.len());
    let widest =
        |ports: &[Port]| ports.iter().map(|port| text_width(&port_label(port), SMALL_PX)).fold(0.0, f64::max);
    let head = text_width(&drawn.name, NAME_PX).max(text_width(&drawn.kind, SMALL_PX));
    let notes = drawn.notes.iter().map(|note| text_width(note, SMALL_PX)).fold(0.0, f64::max);
    let ports = widest(&drawn.inputs) + widest(&drawn.outputs) + 24.0;
    Size {
        width: (head.max(notes) + 2.0 * PADDING).max(ports + 8.0).max(96.0),
        height: HEAD_HEIGHT + LINE_HEIGHT * (rows + drawn.notes.len()) as f64 + 6.0,
    }
}

fn port_label(port: &Port) -> String {
    if port.side { format!("{} (side)", port.name) } else { port.name.clone() }
}

fn port_y(corner: (f64, f64), idx: usize) -> f64 {
    corner.1 + HEAD_HEIGHT + LINE_HEIGHT * idx as f64 + LINE_HEIGHT / 2.0
}

/// From port to port, by the points that lead it between the boxes.
fn path(drawing: &Drawing, layout: &Layout, sizes: &[Size], idx: usize) -> String {
    let arrow = &drawing.arrows[idx];
    let (from, to) = (layout.corners[arrow.from], layout.corners[arrow.to]);
    let start = (from.0 + sizes[arrow.from].width, port_y(from, arrow.output));
    let end = (to.0 - 2.0, port_y(to, arrow.input));
    let mut path = format!("M {:.1} {:.1}", start.0, start.1);
    let mut at = start;
    for point in layout.via[idx].iter().copied().chain([end]) {
        let reach = (point.0 - at.0) / 2.0;
        let _ = write!(
            path,
            " C {:.1} {:.1} {:.1} {:.1} {:.1} {:.1}",
            at.0 + reach,
            at.1,
            point.0 - reach,
            point.1,
            point.0,
            point.1
        );
        at = point;
    }
    path
}

/// Arrows that run below the boxes: hints, and edges against the direction of the picture.
struct Hints {
    /// The lowest height of each arrow that runs below.
    low: Vec<Option<f64>>,
    bottom: f64,
}

impl Hints {
    fn new(drawing: &Drawing, layout: &Layout, sizes: &[Size]) -> Self {
        let mut hints = Self { low: vec![None; drawing.arrows.len()], bottom: 0.0 };
        let mut taken: Vec<(f64, f64, f64)> = Vec::new();
        for (idx, arrow) in drawing.arrows.iter().enumerate() {
            let (from, to) = (layout.corners[arrow.from], layout.corners[arrow.to]);
            let back = from.0 + sizes[arrow.from].width > to.0;
            if !matches!(arrow.kind, ArrowKind::Hint(_)) && !back {
                continue;
            }
            let (left, right) =
                (from.0.min(to.0), (from.0 + sizes[arrow.from].width).max(to.0 + sizes[arrow.to].width));
            let over = layout
                .corners
                .iter()
                .zip(sizes)
                .filter(|(corner, size)| corner.0 < right && corner.0 + size.width > left);
            let boxes = over.map(|(corner, size)| corner.1 + size.height).fold(0.0, f64::max);
            let via = layout.via.iter().flatten().filter(|(x, _)| *x < right && *x > left);
            let mut low = via.map(|(_, y)| *y).fold(boxes, f64::max) + HINT_DROP;
            // Below the hints that are drawn already on this stretch.
            let beside = taken.iter().filter(|(l, r, _)| *l < right && *r > left);
            let mut heights: Vec<f64> = beside.map(|(_, _, y)| *y).collect();
            heights.sort_by(f64::total_cmp);
            let mut above = 0;
            loop {
                above += heights[above..].partition_point(|y| low - y >= HINT_DROP - 4.0);
                match heights.get(above) {
                    Some(y) if y - low < HINT_DROP - 4.0 => low += HINT_DROP - 4.0,
                    _ => break,
                }
            }
            taken.push((left, right, low));
            hints.low[idx] = Some(low);
            hints.bottom = hints.bottom.max(low + 8.0);
        }
        hints
    }

    fn x(&self, layout: &Layout, sizes: &[Size], of: usize, share: f64) -> f64 {
        layout.corners[of].0 + sizes[of].width * share
    }

    fn path(&self, drawing: &Drawing, layout: &Layout, sizes: &[Size], idx: usize, low: f64) -> String {
        let arrow = &drawing.arrows[idx];
        let (x1, x2) = (self.x(layout, sizes, arrow.from, 0.62), self.x(layout, sizes, arrow.to, 0.38));
        let y1 = layout.corners[arrow.from].1 + sizes[arrow.from].height;
        let y2 = layout.corners[arrow.to].1 + sizes[arrow.to].height + 2.0;
        // Down, along, and up, with round corners.
        let step = if x2 < x1 { -1.0 } else { 1.0 };
        let round = ((x2 - x1).abs() / 2.0).min(14.0);
        format!(
            "M {x1:.1} {y1:.1} L {x1:.1} {:.1} Q {x1:.1} {low:.1} {:.1} {low:.1} L {:.1} {low:.1} Q {x2:.1} {low:.1} {x2:.1} {:.1} L {x2:.1} {y2:.1}",
            low - round,
            x1 + step * round,
            x2 - step * round,
            low - round,
        )
    }
}

fn draw_box(body: &mut String, drawn: &DrawnBox, (x, y): (f64, f64), size: Size) {
    let (stroke, fill, extra) = match drawn.state {
        State::Right => ("#a0aec0", "#f7fafc", ""),
        State::Wrong => (WRONG, "#fff5f5", " stroke-width=\"2\""),
        State::Missing => (WRONG, "#ffffff", " stroke-dasharray=\"5 4\""),
    };
    let _ = writeln!(body, "<g><title>{}</title>", escape(&format!("{}: {}", drawn.kind, drawn.about)));
    let _ = writeln!(
        body,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"6\" fill=\"{fill}\" stroke=\"{stroke}\"{extra}/>",
        size.width, size.height
    );
    let middle = x + size.width / 2.0;
    text(body, (middle, y + 18.0), NAME_PX, INK, "middle", "600", &drawn.name);
    text(body, (middle, y + 33.0), SMALL_PX, FAINT, "middle", "", &drawn.kind);
    for (idx, port) in drawn.inputs.iter().enumerate() {
        draw_port(body, port, (x, port_y((x, y), idx)), true);
    }
    for (idx, port) in drawn.outputs.iter().enumerate() {
        draw_port(body, port, (x + size.width, port_y((x, y), idx)), false);
    }
    let rows = drawn.inputs.len().max(drawn.outputs.len());
    for (idx, note) in drawn.notes.iter().enumerate() {
        text(body, (middle, port_y((x, y), rows + idx) + 3.5), SMALL_PX, "#975a16", "middle", "", note);
    }
    body.push_str("</g>\n");
}

fn draw_port(body: &mut String, port: &Port, (x, y): (f64, f64), input: bool) {
    let colour = match (port.connected, port.side) {
        (false, _) => "#a0aec0",
        (true, true) => SIDE,
        (true, false) => STREAM,
    };
    let _ = writeln!(body, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{colour}\"/>");
    let (x, anchor) = if input { (x + 8.0, "start") } else { (x - 8.0, "end") };
    text(body, (x, y + 3.5), SMALL_PX, colour, anchor, "", &port_label(port));
}

fn legend(drawing: &Drawing, y: f64) -> (String, f64) {
    let (mut legend, mut x) = (String::new(), 0.0);
    let any =
        |kind: fn(&ArrowKind) -> bool| drawing.arrows.iter().any(|arrow| !arrow.wrong && kind(&arrow.kind));
    let entries = [
        (any(|kind| *kind == ArrowKind::Stream), STREAM, "", "envelopes, each to one copy"),
        (any(|kind| *kind == ArrowKind::Side), SIDE, "", "side input: all to every copy, first"),
        (
            any(|kind| matches!(kind, ArrowKind::Hint(_))),
            HINT,
            " stroke-dasharray=\"5 4\"",
            "hint: a shared value",
        ),
        (drawing.arrows.iter().any(|arrow| arrow.wrong), WRONG, " stroke-dasharray=\"5 4\"", "has a fault"),
    ];
    for (_, colour, dashes, what) in entries.into_iter().filter(|(shown, ..)| *shown) {
        let _ = writeln!(
            legend,
            "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"{colour}\" stroke-width=\"1.6\"{dashes}/>",
            x + 22.0
        );
        text(&mut legend, (x + 28.0, y + 3.5), SMALL_PX, FAINT, "start", "", what);
        x += 28.0 + text_width(what, SMALL_PX) + 22.0;
    }
    (legend, x)
}

fn marker_name(colour: &str) -> String {
    format!("head-{}", colour.trim_start_matches('#'))
}

fn marker(colour: &str) -> String {
    format!(
        "<marker id=\"{}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M 0 0 L 8 4 L 0 8 z\" fill=\"{colour}\"/></marker>",
        marker_name(colour)
    )
}

fn text(
    body: &mut String,
    (x, y): (f64, f64),
    px: f64,
    colour: &str,
    anchor: &str,
    weight: &str,
    content: &str,
) {
    if content.is_empty() {
        return;
    }
    let weight = if weight.is_empty() { String::new() } else { format!(" font-weight=\"{weight}\"") };
    let _ = writeln!(
        body,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{px}\" fill=\"{colour}\" text-anchor=\"{anchor}\"{weight}>{}</text>",
        escape(content)
    );
}

/// About as wide as the text comes out in a sans-serif face; a little more, so that it fits in others too.
fn text_width(text: &str, px: f64) -> f64 {
    let ems: f64 = text
        .chars()
        .map(|c| match c {
            'i' | 'j' | 'l' | 't' | 'f' | 'r' | ' ' | '.' | ',' | ':' | '(' | ')' => 0.36,
            'm' | 'w' | 'M' | 'W' => 0.88,
            c if c.is_ascii_uppercase() => 0.72,
            c if c.is_ascii() => 0.58,
            _ => 1.0,
        })
        .sum();
    ems * px
}

/// Text for XML; characters that XML does not allow become signs.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&apos;",
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
