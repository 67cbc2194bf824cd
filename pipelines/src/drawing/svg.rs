//! SVG without a library: boxes with their ports, arrows between the ports, hints dashed below, and a run's figures in
//! the boxes and beside the arrows.

use std::fmt::Write as _;

use boxwork_lab::escape_xml;

use super::edge_labels::{self, EdgeLabel, LABEL_LINE_HEIGHT, LABEL_PX};
use super::layout::{COLUMN_GAP, Layout, Size, layout};
use super::low_arrows::{LowArrows, runs_below};
use super::{Arrow, ArrowKind, Drawing, DrawnBox, Port, State};

const NAME_PX: f64 = 13.0;
const SMALL_PX: f64 = 10.5;
const PADDING: f64 = 12.0;
const HEAD_HEIGHT: f64 = 42.0;
const LINE_HEIGHT: f64 = 16.0;
const MARGIN: f64 = 24.0;
const TITLE_HEIGHT: f64 = 56.0;

const INK: &str = "#2d3748";
const FAINT: &str = "#718096";
const STREAM: &str = "#4a5568";
const SIDE: &str = "#2b6cb0";
const HINT: &str = "#805ad5";
const WRONG: &str = "#c53030";
const FULL: &str = "#dd6b20";
const FULL_WIDTH: f64 = 3.0;
/// The busiest box: its frame, and its fill as red, green and blue; an idle box has the paler fill.
const BUSIEST: &str = "#c05621";
const HOT: [f64; 3] = [251.0, 211.0, 141.0];
const COLD: [f64; 3] = [247.0, 250.0, 252.0];

/// The drawing as one SVG picture.
pub fn svg(drawing: &Drawing) -> String {
    let sizes: Vec<Size> = drawing.boxes.iter().map(size).collect();
    let gap = edge_labels::gap(drawing, |line| text_width(line, LABEL_PX), COLUMN_GAP);
    let layout = layout(drawing, &sizes, gap);
    let mut body = String::new();
    let labels = edge_labels::place(
        drawing,
        &layout,
        |idx| runs_below(drawing, &layout, &sizes, idx),
        |idx| {
            let arrow = &drawing.arrows[idx];
            let (from, to) = (layout.corners[arrow.from], layout.corners[arrow.to]);
            (port_y(from, arrow.output), port_y(to, arrow.input))
        },
    );
    let low_arrows = LowArrows::new(drawing, &layout, &sizes, &labels);
    let lowest_label = labels.iter().map(EdgeLabel::bottom).fold(0.0, f64::max);
    for (idx, arrow) in drawing.arrows.iter().enumerate() {
        let colour = match (&arrow.kind, arrow.wrong) {
            (_, true) => WRONG,
            (ArrowKind::Stream | ArrowKind::Side, _) if arrow.was_full() => FULL,
            (ArrowKind::Stream, _) => STREAM,
            (ArrowKind::Side, _) => SIDE,
            (ArrowKind::Hint(_), _) => HINT,
        };
        let is_hint = matches!(arrow.kind, ArrowKind::Hint(_));
        let dashes = if arrow.wrong || is_hint { " stroke-dasharray=\"5 4\"" } else { "" };
        let marker = format!("url(#{})", marker_name(colour));
        let width = if is_hint { 1.4 } else { arrow_width(arrow) };
        let path = match low_arrows.low[idx] {
            Some(low) => low_arrows.path(drawing, &layout, &sizes, idx, low),
            None => path(drawing, &layout, &sizes, idx),
        };
        let _ = writeln!(
            body,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"{dashes} marker-end=\"{marker}\"/>"
        );
        if let (ArrowKind::Hint(name), Some(low)) = (&arrow.kind, low_arrows.low[idx]) {
            let (from, to) = (
                low_arrows.x(&layout, &sizes, arrow.from, 0.62),
                low_arrows.x(&layout, &sizes, arrow.to, 0.38),
            );
            let (x, y) = (f64::midpoint(from, to), low - 4.0);
            text(&mut body, (x, y), SMALL_PX, colour, "middle", "", name);
        }
        if let (Some(measured), Some(low)) = (&arrow.measured, low_arrows.low[idx]) {
            let (from, to) = (
                low_arrows.x(&layout, &sizes, arrow.from, 0.62),
                low_arrows.x(&layout, &sizes, arrow.to, 0.38),
            );
            let at = (f64::midpoint(from, to), low - 4.0);
            text(&mut body, at, LABEL_PX, colour, "middle", "", &measured.lines.join(", "));
        }
    }
    for (idx, drawn) in drawing.boxes.iter().enumerate() {
        draw_box(&mut body, drawn, layout.corners[idx], sizes[idx]);
    }
    for label in &labels {
        draw_label(&mut body, label, drawing.arrows[label.arrow].was_full());
    }
    let title_width =
        text_width(&drawing.title, 15.0).max(text_width(&drawing.about, SMALL_PX + 1.0).min(900.0));
    let bottom = layout.height.max(low_arrows.bottom - 8.0).max(lowest_label);
    let legend = legend(drawing, bottom + 30.0);
    let width = layout.width.max(title_width).max(legend.1) + 2.0 * MARGIN;
    let height = bottom.max(low_arrows.bottom) + TITLE_HEIGHT + 2.0 * MARGIN + 24.0;
    let mut head = String::new();
    text(&mut head, (0.0, -38.0), 15.0, INK, "start", "600", &drawing.title);
    text(&mut head, (0.0, -20.0), SMALL_PX + 1.0, FAINT, "start", "", &drawing.about);
    let full = drawing.arrows.iter().any(Arrow::was_full).then_some(FULL);
    let markers: String = [STREAM, SIDE, HINT, WRONG].into_iter().chain(full).map(marker).collect();
    let (dx, dy) = (MARGIN, MARGIN + TITLE_HEIGHT);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"Helvetica, Arial, sans-serif\">\n\
         <title>{}</title>\n<defs>{markers}</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <g transform=\"translate({dx:.0} {dy:.0})\">\n{head}{body}{}</g>\n</svg>\n",
        escape_xml(&drawing.title),
        legend.0
    )
}

fn size(drawn: &DrawnBox) -> Size {
    let rows = drawn.inputs.len().max(drawn.outputs.len());
    let widest =
        |ports: &[Port]| ports.iter().map(|port| text_width(&port_label(port), SMALL_PX)).fold(0.0, f64::max);
    let head = text_width(&drawn.name, NAME_PX).max(text_width(&drawn.kind, SMALL_PX));
    let below = below(drawn);
    let notes = below.iter().map(|(note, _)| text_width(note, SMALL_PX)).fold(0.0, f64::max);
    let ports = widest(&drawn.inputs) + widest(&drawn.outputs) + 24.0;
    Size {
        width: (head.max(notes) + 2.0 * PADDING).max(ports + 8.0).max(96.0),
        height: HEAD_HEIGHT + LINE_HEIGHT * (rows + below.len()) as f64 + 6.0,
    }
}

/// The text below the ports of a box, and its colour.
fn below(drawn: &DrawnBox) -> Vec<(&str, &'static str)> {
    let notes = drawn.notes.iter().map(|note| (note.as_str(), "#975a16"));
    let measured = drawn.measured.iter().flat_map(|measured| &measured.lines);
    notes.chain(measured.map(|line| (line.as_str(), INK))).collect()
}

fn arrow_width(arrow: &Arrow) -> f64 {
    if arrow.was_full() { FULL_WIDTH } else { 1.6 }
}

fn draw_label(body: &mut String, label: &EdgeLabel, full: bool) {
    let width = label.lines.iter().map(|line| text_width(line, LABEL_PX)).fold(0.0, f64::max);
    // If texts overlap arrows, the arrows run behind them.
    let _ = writeln!(
        body,
        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\" rx=\"3\" fill=\"#ffffff\" fill-opacity=\"0.85\"/>",
        label.middle - width / 2.0,
        label.top,
        label.height()
    );
    let colour = if full { BUSIEST } else { INK };
    for (nth, line) in label.lines.iter().enumerate() {
        let at = (label.middle, label.top + LABEL_LINE_HEIGHT * (nth as f64 + 0.8));
        text(body, at, LABEL_PX, colour, "middle", "", line);
    }
}

fn port_label(port: &Port) -> String {
    if port.side { format!("{} (side)", port.name) } else { port.name.clone() }
}

fn port_y(corner: (f64, f64), idx: usize) -> f64 {
    corner.1 + HEAD_HEIGHT + LINE_HEIGHT * idx as f64 + LINE_HEIGHT / 2.0
}

/// From port to port, through the points between the boxes.
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

fn draw_box(body: &mut String, drawn: &DrawnBox, (x, y): (f64, f64), size: Size) {
    let (stroke, fill, extra) = match drawn.state {
        State::Right if drawn.is_busiest() => (BUSIEST, fill(drawn), " stroke-width=\"2\""),
        State::Right => ("#a0aec0", fill(drawn), ""),
        State::Wrong => (WRONG, "#fff5f5".to_owned(), " stroke-width=\"2\""),
        State::Missing => (WRONG, "#ffffff".to_owned(), " stroke-dasharray=\"5 4\""),
    };
    let _ = writeln!(body, "<g><title>{}</title>", escape_xml(&format!("{}: {}", drawn.kind, drawn.about)));
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
    for (idx, (note, colour)) in below(drawn).into_iter().enumerate() {
        text(body, (middle, port_y((x, y), rows + idx) + 3.5), SMALL_PX, colour, "middle", "", note);
    }
    body.push_str("</g>\n");
}

/// A busier box has a warmer colour.
fn fill(drawn: &DrawnBox) -> String {
    warmth(drawn.measured.as_ref().map_or(0.0, |measured| measured.heat))
}

fn warmth(heat: f64) -> String {
    let mixed = [0, 1, 2].map(|idx| (COLD[idx] + heat * (HOT[idx] - COLD[idx])).round() as u8);
    format!("#{:02x}{:02x}{:02x}", mixed[0], mixed[1], mixed[2])
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
    let (dashed, hot) = (" stroke-dasharray=\"5 4\"", warmth(1.0));
    let entries = [
        (any(|kind| *kind == ArrowKind::Stream), STREAM, 1.6, "", "envelopes, each to one copy"),
        (any(|kind| *kind == ArrowKind::Side), SIDE, 1.6, "", "side input: all to every copy, first"),
        (any(|kind| matches!(kind, ArrowKind::Hint(_))), HINT, 1.6, dashed, "hint: a shared value"),
        (
            drawing.arrows.iter().any(Arrow::was_full),
            FULL,
            FULL_WIDTH,
            "",
            "was full: what feeds it had to wait",
        ),
        (drawing.boxes.iter().any(DrawnBox::is_busiest), &*hot, 10.0, "", "the busiest box"),
        (drawing.arrows.iter().any(|arrow| arrow.wrong), WRONG, 1.6, dashed, "has a fault"),
    ];
    for (_, colour, width, dashes, what) in entries.into_iter().filter(|(shown, ..)| *shown) {
        let _ = writeln!(
            legend,
            "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"{dashes}/>",
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
        escape_xml(content)
    );
}

/// The approximate width of the text in a sans-serif face; slightly more, so that it fits in others too.
pub(super) fn text_width(text: &str, px: f64) -> f64 {
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
