//! Tables that fit any width: columns leave by importance, names are cut, and no line wraps.

use ratatui::text::Span;

use super::figures::Figures;
use crate::numbers::{amount, bytes, share};

/// Spaces between two columns.
const GAP: usize = 2;
/// Names are cut down to this before an important column leaves.
const NAME_WIDTH_MIN: usize = 8;
/// Columns up to this importance stay as long as they fit beside a cut name.
const IMPORTANT: u8 = 2;

/// Which figures are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The boxes of all requests.
    #[default]
    Boxes,
    /// Their edges.
    Edges,
    /// The slots of the runtime.
    Slots,
    /// The classes of blocking operations.
    Classes,
}

impl Subject {
    /// All of them, in the order of the Tab key.
    pub const ALL: [Self; 4] = [Self::Boxes, Self::Edges, Self::Slots, Self::Classes];

    /// The word on the screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Boxes => "boxes",
            Self::Edges => "edges",
            Self::Slots => "slots",
            Self::Classes => "blocking classes",
        }
    }

    /// The unit of the rate that the history shows.
    pub fn rate_name(self) -> &'static str {
        match self {
            Self::Boxes | Self::Edges => "rows/s",
            Self::Slots => "tasks/s",
            Self::Classes => "operations/s",
        }
    }

    /// The column by which the table is sorted at first: the busiest row leads, but slots and classes keep their order.
    pub fn sorted_by(self) -> Sort {
        match self {
            Self::Boxes | Self::Edges => Sort { column: 1, descends: true },
            Self::Slots | Self::Classes => Sort { column: 0, descends: false },
        }
    }
}

/// The order of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort {
    /// The number of the column, from 0.
    pub column: usize,
    /// Whether the largest leads.
    pub descends: bool,
}

/// A column: its title, its importance (0 leaves last), and whether it holds names.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The title.
    pub title: &'static str,
    importance: u8,
    is_name: bool,
}

impl Column {
    /// Whether it holds names, which are sorted from A.
    pub fn holds_names(self) -> bool {
        self.is_name
    }
}

/// A value: its text, and the number by which its column is sorted. Names have none and are sorted by their text.
#[derive(Clone, Debug)]
struct Cell {
    text: String,
    order: Option<f64>,
}

/// A row with its name and the rate that its history shows.
#[derive(Clone, Debug)]
pub struct Row {
    /// Unique in its table.
    pub key: String,
    /// See [`Subject::rate_name`].
    pub rate: f64,
    cells: Vec<Cell>,
}

/// Rows under columns.
#[derive(Clone, Debug)]
pub struct Table {
    /// The columns; the first holds the names and stays at each width.
    pub columns: Vec<Column>,
    /// The rows.
    pub rows: Vec<Row>,
    /// The width that the names get before less important columns are shown.
    name_width_wanted: usize,
}

/// A column with its place on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The number of the column.
    pub column: usize,
    /// Its first cell on the line.
    pub at: usize,
    /// Its width in cells.
    pub width: usize,
}

const fn number(title: &'static str, importance: u8) -> Column {
    Column { title, importance, is_name: false }
}

const fn name(title: &'static str, importance: u8) -> Column {
    Column { title, importance, is_name: true }
}

fn text(text: impl Into<String>) -> Cell {
    Cell { text: text.into(), order: None }
}

fn percent(part: f64) -> Cell {
    Cell { text: share(part, 1.0), order: Some(part) }
}

fn rate(rate: f64) -> Cell {
    Cell { text: amount(rate), order: Some(rate) }
}

/// A dot for zero draws no attention.
fn rare(rate: f64) -> Cell {
    Cell { text: if rate > 0.0 { amount(rate) } else { ".".to_owned() }, order: Some(rate) }
}

fn size(count: f64) -> Cell {
    Cell { text: bytes(count as usize), order: Some(count) }
}

impl Table {
    /// The table of a subject, in the order of the figures.
    pub fn new(figures: &Figures, subject: Subject) -> Self {
        match subject {
            Subject::Boxes => Self::boxes(figures),
            Subject::Edges => Self::edges(figures),
            Subject::Slots => Self::slots(figures),
            Subject::Classes => Self::classes(figures),
        }
    }

    fn boxes(figures: &Figures) -> Self {
        let columns = vec![
            name("box", 0),
            number("busy", 1),
            number("rows out/s", 2),
            number("rows in/s", 3),
            name("operator", 4),
            number("blocked", 5),
            number("firings/s", 6),
            number("waiting", 7),
            number("copies", 8),
        ];
        let rows = figures.boxes.iter().map(|of_box| Row {
            key: of_box.name.clone(),
            // A sink makes no rows.
            rate: of_box.rows_in_per_s.max(of_box.rows_out_per_s),
            cells: vec![
                text(&of_box.name),
                percent(of_box.busy),
                rate(of_box.rows_out_per_s),
                rate(of_box.rows_in_per_s),
                text(&of_box.operator),
                percent(of_box.blocked),
                rate(of_box.firings_per_s),
                percent(of_box.waiting),
                rate(of_box.copies),
            ],
        });
        Self { columns, rows: rows.collect(), name_width_wanted: 20 }
    }

    fn edges(figures: &Figures) -> Self {
        let columns = vec![
            name("edge", 0),
            number("rows/s", 1),
            number("waiting", 2),
            number("full/s", 3),
            number("bytes/s", 4),
            number("envelopes/s", 5),
            number("waiting bytes", 6),
        ];
        let rows = figures.edges.iter().map(|edge| {
            let ends = format!("{} -> {}", edge.from, edge.to);
            Row {
                key: ends.clone(),
                rate: edge.rows_per_s,
                cells: vec![
                    text(ends),
                    rate(edge.rows_per_s),
                    rare(edge.waiting_envelopes),
                    rare(edge.refusals_per_s),
                    size(edge.bytes_per_s),
                    rate(edge.envelopes_per_s),
                    size(edge.waiting_bytes),
                ],
            }
        });
        Self { columns, rows: rows.collect(), name_width_wanted: 30 }
    }

    fn slots(figures: &Figures) -> Self {
        let columns = vec![
            number("slot", 0),
            number("busy", 1),
            number("tasks/s", 2),
            number("node", 3),
            number("steals/s same core", 7),
            number("steals/s shared cache", 6),
            number("steals/s same node", 5),
            number("steals/s other node", 4),
            number("parks/s", 8),
            number("hand-overs/s", 9),
        ];
        let rows = figures.slots.iter().map(|slot| {
            let numbered = |name: &str| Cell { text: name.to_owned(), order: name.parse().ok() };
            let mut cells =
                vec![numbered(&slot.slot), percent(slot.busy), rate(slot.tasks_per_s), numbered(&slot.node)];
            cells.extend(slot.steals_per_s.map(rare));
            cells.extend([rare(slot.parks_per_s), rare(slot.hand_overs_per_s)]);
            Row { key: slot.slot.clone(), rate: slot.tasks_per_s, cells }
        });
        Self { columns, rows: rows.collect(), name_width_wanted: NAME_WIDTH_MIN }
    }

    fn classes(figures: &Figures) -> Self {
        let columns = vec![
            name("blocking class", 0),
            number("in flight", 1),
            number("operations/s", 2),
            number("limit", 3),
            number("waiting", 4),
        ];
        let rows = figures.classes.iter().map(|class| Row {
            key: class.class.clone(),
            rate: class.operations_per_s,
            cells: vec![
                text(&class.class),
                rate(class.in_flight),
                rate(class.operations_per_s),
                Cell {
                    text: format!("{}{}", if class.auto { "auto " } else { "" }, class.limit),
                    order: Some(class.limit),
                },
                rate(class.waiting),
            ],
        });
        Self { columns, rows: rows.collect(), name_width_wanted: 20 }
    }

    /// Sorts the rows; equal ones keep the order of the figures.
    pub fn sort(&mut self, sort: Sort) {
        let column = sort.column.min(self.columns.len() - 1);
        self.rows.sort_by(|a, b| {
            let (a, b) = (&a.cells[column], &b.cells[column]);
            let order = match (a.order, b.order) {
                (Some(a), Some(b)) => a.total_cmp(&b),
                _ => a.text.cmp(&b.text),
            };
            if sort.descends { order.reverse() } else { order }
        });
    }

    /// The columns that fit a width, from left to right. The name and the important columns stay as long as
    /// [`NAME_WIDTH_MIN`] cells of the names fit beside them.
    pub fn placed(&self, width: usize) -> Vec<Placed> {
        let natural: Vec<usize> = (0..self.columns.len()).map(|column| self.natural_width(column)).collect();
        let mut by_importance: Vec<usize> = (1..self.columns.len()).collect();
        by_importance.sort_by_key(|column| self.columns[*column].importance);
        let mut chosen = vec![0];
        let mut taken = 0;
        for column in by_importance {
            let is_important = self.columns[column].importance <= IMPORTANT;
            let names = if is_important { NAME_WIDTH_MIN } else { self.name_width_wanted };
            let needed = taken + GAP + natural[column];
            if natural[0].min(names) + needed > width {
                break;
            }
            taken = needed;
            chosen.push(column);
        }
        chosen.sort_unstable();
        let mut at = 0;
        let place = |column: usize| {
            let width = if column == 0 { natural[0].min(width - taken) } else { natural[column] };
            let placed = Placed { column, at, width };
            at += width + GAP;
            placed
        };
        chosen.into_iter().map(place).collect()
    }

    /// The width of a column's longest text. Numbers get room for four digits and a unit, so that columns do not move
    /// with each reading.
    fn natural_width(&self, column: usize) -> usize {
        const NUMBER_WIDTH_MIN: usize = 6;
        let Column { title, is_name, .. } = self.columns[column];
        let texts = self.rows.iter().map(|row| cells(&row.cells[column].text));
        // One cell more shows the order.
        texts.fold((title.len() + 1).max(if is_name { 0 } else { NUMBER_WIDTH_MIN }), usize::max)
    }

    /// The line of titles. The sorted column has a mark.
    pub fn head(&self, placed: &[Placed], sort: Option<Sort>) -> String {
        let title = |column: usize| {
            let mark = match sort {
                Some(sort) if sort.column == column => {
                    if sort.descends {
                        "▾"
                    } else {
                        "▴"
                    }
                }
                _ => "",
            };
            format!("{}{mark}", self.columns[column].title)
        };
        self.line(placed, title)
    }

    /// The line of a row.
    pub fn body(&self, placed: &[Placed], row: &Row) -> String {
        self.line(placed, |column| row.cells[column].text.clone())
    }

    fn line(&self, placed: &[Placed], text: impl Fn(usize) -> String) -> String {
        let mut line = String::new();
        for (nth, &Placed { column, width, .. }) in placed.iter().enumerate() {
            let text = cut(&text(column), width);
            let padding = " ".repeat(width - cells(&text));
            line.push_str(if nth == 0 { "" } else { "  " });
            let parts = if self.columns[column].is_name { [text, padding] } else { [padding, text] };
            line.extend(parts);
        }
        line
    }
}

/// The width of a text on a terminal.
pub fn cells(text: &str) -> usize {
    Span::raw(text).width()
}

/// A text of at most `width` cells; an ellipsis ends one that is cut.
pub fn cut(text: &str, width: usize) -> String {
    if cells(text) <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        kept.push(c);
        if cells(&kept) >= width {
            kept.pop();
            break;
        }
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}
