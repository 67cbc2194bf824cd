//! From a view to the cells of a terminal: a pure function, so that a terminal of any size is a test.
//!
//! From top to bottom: the state of the run; the history of the selected row, if there is room; the titles; the rows; the
//! keys, if there is room. A screen of three lines keeps the state, the titles and the selected row.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::table::{Row, Table, cells, cut};
use super::view::View;
use crate::numbers::{amount, share};

/// Screens with fewer lines have no line of keys.
const HEIGHT_WITH_KEYS: u16 = 5;
/// Screens with fewer lines have no history.
const HEIGHT_WITH_HISTORY: u16 = 8;
/// The heights of a history's bars, in eighths of a line.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

const KEYS: [&str; 6] = ["q quit", "? help", "Tab next table", "s sort", "p pause", "jk select"];

const HELP: [(&str, &str); 10] = [
    ("q Esc Ctrl-C", "quit"),
    ("Tab", "boxes, edges, slots, classes"),
    ("↑ ↓ j k", "select a row"),
    ("Home End", "first row, last row"),
    ("s", "sort by the next column"),
    ("1 to 9", "sort by a column; again: reverse"),
    ("p Space", "hold the figures"),
    ("?", "this help"),
    ("busy", "share of all slots, of the time"),
    ("blocked", "time detached, over all copies"),
];

/// Draws a view.
pub fn draw(view: &View, frame: &mut Frame<'_>) {
    let area = frame.area();
    paint(view, area, frame.buffer_mut());
}

/// Draws a view into an area of any size.
fn paint(view: &View, area: Rect, buffer: &mut Buffer) {
    let mut lines = Lines { area, next: 0, buffer };
    // On a low screen the reason takes the place of the state, so that a row is left.
    if view.lost.is_none() || area.height >= HEIGHT_WITH_KEYS {
        lines.put(&state(view, usize::from(area.width)), state_style(view));
    }
    if let Some(reason) = &view.lost {
        let text = format!("no answer: {reason}; trying again");
        lines.put(&text, Style::new().fg(Color::Red).add_modifier(Modifier::BOLD));
    }
    if view.help {
        for (key, meaning) in HELP {
            lines.put(&format!("{key:<13} {meaning}"), Style::new());
        }
        return;
    }
    let table = view.table();
    let selected = view.selected(&table);
    if area.height >= HEIGHT_WITH_HISTORY
        && let Some(row) = table.rows.get(selected)
    {
        lines.put(&history(view, row, usize::from(area.width)), Style::new().fg(Color::Cyan));
    }
    let keys = u16::from(area.height >= HEIGHT_WITH_KEYS);
    rows(view, &table, selected, keys, &mut lines);
    if keys > 0 {
        lines.next = area.height - 1;
        lines.put(&joined(&KEYS, usize::from(area.width)), Style::new().add_modifier(Modifier::DIM));
    }
}

/// The lines of an area; what does not fit is left out.
struct Lines<'a> {
    area: Rect,
    next: u16,
    buffer: &'a mut Buffer,
}

impl Lines<'_> {
    fn put(&mut self, text: &str, style: Style) {
        if self.next < self.area.height {
            let Rect { x, y, width, .. } = self.area;
            let text = cut(text, usize::from(width));
            self.buffer.set_stringn(x, y + self.next, text, usize::from(width), style);
        }
        self.next = self.next.saturating_add(1);
    }

    /// Lines left above the last `reserved` ones.
    fn left(&self, reserved: u16) -> usize {
        usize::from(self.area.height.saturating_sub(self.next).saturating_sub(reserved))
    }
}

/// As many of the texts as fit a width: the important ones come first.
fn joined(texts: &[impl AsRef<str>], width: usize) -> String {
    let mut line = String::new();
    for text in texts.iter().map(AsRef::as_ref) {
        let gap = if line.is_empty() { "" } else { "   " };
        if cells(&line) + gap.len() + cells(text) > width && !line.is_empty() {
            break;
        }
        line.extend([gap, text]);
    }
    line
}

/// The first line: the table's name, and the run as a whole.
fn state(view: &View, width: usize) -> String {
    let mut texts = vec![view.subject.name().to_owned()];
    texts.extend(view.paused.then(|| "paused".to_owned()));
    match &view.figures {
        Some(figures) => texts.extend([
            format!("busy {}", share(figures.busy, 1.0)),
            format!("up {:.0} s", figures.uptime_s),
            format!("requests {}", figures.requests),
            format!("slots {}", figures.slots.len()),
            format!("queued {}", amount(figures.queued_tasks)),
            format!("threads {}", figures.threads),
            view.address.clone(),
        ]),
        None => texts.extend(["reading".to_owned(), view.address.clone()]),
    }
    joined(&texts, width)
}

fn state_style(view: &View) -> Style {
    let style = Style::new().add_modifier(Modifier::BOLD);
    if view.paused { style.fg(Color::Yellow) } else { style }
}

/// The name of a row, its rate, and one bar a reading, as many as fit; the highest bar is the highest rate shown.
fn history(view: &View, row: &Row, width: usize) -> String {
    // The name leaves at least half of the line to the bars.
    let name = cut(&row.key, width / 4);
    let told = format!("{name} {} {} ", amount(row.rate), view.subject.rate_name());
    let rates = view.history(&row.key);
    let count = rates.len().min(width.saturating_sub(cells(&told)));
    let rates = &rates[rates.len() - count..];
    let highest = rates.iter().copied().fold(0.0, f64::max);
    let bar = |rate: &f64| match rate / highest {
        part if part > 0.0 => BARS[((part * 8.0).ceil() as usize).clamp(1, 8) - 1],
        _ => ' ',
    };
    told + &rates.iter().map(bar).collect::<String>()
}

/// The titles and the rows, scrolled so that the selected one is seen.
fn rows(view: &View, table: &Table, selected: usize, reserved: u16, lines: &mut Lines<'_>) {
    let placed = table.placed(usize::from(lines.area.width));
    lines.put(&table.head(&placed, Some(view.sort())), Style::new().add_modifier(Modifier::UNDERLINED));
    let height = lines.left(reserved);
    if table.rows.is_empty() {
        let none = if view.figures.is_some() { "no request is under way" } else { "" };
        lines.put(none, Style::new());
        return;
    }
    let first = (selected + 1).saturating_sub(height);
    for (nth, row) in table.rows.iter().enumerate().skip(first).take(height) {
        let style =
            if nth == selected { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        let width = usize::from(lines.area.width);
        let line = table.body(&placed, row);
        // The bar of the selection spans the screen.
        let padding = " ".repeat(width.saturating_sub(cells(&line)));
        lines.put(&(line + if nth == selected { &padding } else { "" }), style);
    }
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
