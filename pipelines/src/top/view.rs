//! The state of the screen, and how keys change it.
//!
//! Nothing here draws, reads a socket or knows a clock, so that each key is tested as a function of the state.

use std::collections::{BTreeMap, VecDeque};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::figures::Figures;
use super::reading::Reading;
use super::table::{Sort, Subject, Table};

/// The most rates kept for a row: wider histories fit no terminal.
const HISTORY_MAX: usize = 300;
/// Rows that a page key passes.
const PAGE_ROWS: usize = 10;

/// A key with a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Ends the command, or closes the help.
    Leave,
    /// Ends the command.
    Quit,
    /// Moves the selection by so many rows.
    Move(isize),
    /// Selects the first row.
    First,
    /// Selects the last row.
    Last,
    /// Sorts by the next column.
    SortNext,
    /// Sorts by this column, counted from 0; a second press reverses the order.
    SortBy(usize),
    /// Holds the figures, or lets them run again.
    Pause,
    /// Shows or hides the help.
    Help,
    /// Shows the next table.
    Next,
    /// Shows the table before.
    Previous,
}

impl Key {
    /// The meaning of a key of the keyboard, if it has one.
    pub fn of(event: KeyEvent) -> Option<Self> {
        // Some terminals report the release of a key as well.
        if event.kind == KeyEventKind::Release {
            return None;
        }
        if event.modifiers.contains(KeyModifiers::CONTROL) {
            return matches!(event.code, KeyCode::Char('c' | 'C')).then_some(Self::Quit);
        }
        Some(match event.code {
            KeyCode::Char('q') => Self::Quit,
            KeyCode::Esc => Self::Leave,
            KeyCode::Up | KeyCode::Char('k') => Self::Move(-1),
            KeyCode::Down | KeyCode::Char('j') => Self::Move(1),
            KeyCode::PageUp => Self::Move(-(PAGE_ROWS as isize)),
            KeyCode::PageDown => Self::Move(PAGE_ROWS as isize),
            KeyCode::Home | KeyCode::Char('g') => Self::First,
            KeyCode::End | KeyCode::Char('G') => Self::Last,
            KeyCode::Char('s') => Self::SortNext,
            KeyCode::Char(digit @ '1'..='9') => Self::SortBy(digit as usize - '1' as usize),
            KeyCode::Char('p' | ' ') => Self::Pause,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => Self::Help,
            KeyCode::Tab | KeyCode::Right => Self::Next,
            KeyCode::BackTab | KeyCode::Left => Self::Previous,
            _ => return None,
        })
    }
}

/// All that the screen shows.
#[derive(Clone, Debug)]
pub struct View {
    /// The address of the run.
    pub address: String,
    /// The table shown.
    pub subject: Subject,
    /// Whether the figures are held.
    pub paused: bool,
    /// Whether the help is shown.
    pub help: bool,
    /// The reason for which there are no newer figures.
    pub lost: Option<String>,
    /// The rates shown; none before the second reading.
    pub figures: Option<Figures>,
    /// The last reading; none before the first.
    last: Option<Reading>,
    sorts: BTreeMap<Subject, Sort>,
    selected: BTreeMap<Subject, String>,
    histories: BTreeMap<(Subject, String), VecDeque<f64>>,
}

impl View {
    /// A view without figures.
    pub fn new(address: String) -> Self {
        Self {
            address,
            subject: Subject::default(),
            paused: false,
            help: false,
            lost: None,
            figures: None,
            last: None,
            sorts: BTreeMap::new(),
            selected: BTreeMap::new(),
            histories: BTreeMap::new(),
        }
    }

    /// Takes a reading, or the reason that there is none. A paused view keeps its figures.
    pub fn take(&mut self, reading: Result<Reading, String>) {
        let reading = match reading {
            Ok(reading) => reading,
            Err(reason) => {
                self.lost = Some(reason);
                return;
            }
        };
        self.lost = None;
        if let Some(last) = &self.last
            && !self.paused
        {
            let figures = Figures::between(last, &reading);
            self.remember(&figures);
            self.figures = Some(figures);
        }
        self.last = Some(reading);
    }

    /// Appends the rates to the histories. Those of rows that are gone leave, which bounds their number.
    fn remember(&mut self, figures: &Figures) {
        let mut before = std::mem::take(&mut self.histories);
        for subject in Subject::ALL {
            for row in Table::new(figures, subject).rows {
                let key = (subject, row.key);
                let mut history = before.remove(&key).unwrap_or_default();
                history.push_back(row.rate);
                if history.len() > HISTORY_MAX {
                    history.pop_front();
                }
                self.histories.insert(key, history);
            }
        }
    }

    /// The table shown, in its order.
    pub fn table(&self) -> Table {
        let mut table = Table::new(self.figures.as_ref().unwrap_or(&Figures::default()), self.subject);
        table.sort(self.sort());
        table
    }

    /// The order of the table shown.
    pub fn sort(&self) -> Sort {
        self.sorts.get(&self.subject).copied().unwrap_or_else(|| self.subject.sorted_by())
    }

    /// The number of the selected row: the first one until a row is selected, and if the selected row is gone.
    pub fn selected(&self, table: &Table) -> usize {
        let key = self.selected.get(&self.subject);
        table.rows.iter().position(|row| Some(&row.key) == key).unwrap_or(0)
    }

    /// The rates of a row so far, the latest last.
    pub fn history(&self, key: &str) -> Vec<f64> {
        let history = self.histories.get(&(self.subject, key.to_owned()));
        history.into_iter().flatten().copied().collect()
    }

    /// Obeys a key. Returns whether the command goes on.
    pub fn press(&mut self, key: Key) -> bool {
        match key {
            Key::Quit => return false,
            Key::Leave if !self.help => return false,
            Key::Leave => self.help = false,
            Key::Help => self.help = !self.help,
            Key::Pause => self.paused = !self.paused,
            Key::Next => self.turn(1),
            Key::Previous => self.turn(Subject::ALL.len() - 1),
            Key::SortNext => {
                let column = (self.sort().column + 1) % self.table().columns.len();
                self.order(column);
            }
            Key::SortBy(column) if column < self.table().columns.len() => self.order(column),
            Key::SortBy(_) => {}
            Key::Move(rows) => self.select(|at, _| at.saturating_add_signed(rows)),
            Key::First => self.select(|_, _| 0),
            Key::Last => self.select(|_, count| count),
        }
        true
    }

    fn turn(&mut self, by: usize) {
        let at = Subject::ALL.iter().position(|subject| *subject == self.subject).unwrap_or(0);
        self.subject = Subject::ALL[(at + by) % Subject::ALL.len()];
    }

    /// Sorts by a column: numbers from the largest, names from A; the present column is reversed.
    fn order(&mut self, column: usize) {
        let present = self.sort();
        let descends = if present.column == column {
            !present.descends
        } else {
            !self.table().columns[column].holds_names() && column > 0
        };
        self.sorts.insert(self.subject, Sort { column, descends });
    }

    fn select(&mut self, to: impl Fn(usize, usize) -> usize) {
        let table = self.table();
        let Some(last) = table.rows.len().checked_sub(1) else { return };
        let at = to(self.selected(&table), last).min(last);
        self.selected.insert(self.subject, table.rows[at].key.clone());
    }
}
