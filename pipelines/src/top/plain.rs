//! The figures as text, for pipes and files: the same tables below each other.

use std::fmt::Write as _;

use super::figures::Figures;
use super::table::{Subject, Table};

/// The most slots and boxes printed. The JSON form has all.
const ROWS_MAX: usize = 16;

/// All tables in at most `width` cells a line.
pub fn text(figures: &Figures, width: usize) -> String {
    let mut text = format!(
        "up {:.1} s   requests {}   threads {}   queued tasks {}\n",
        figures.uptime_s, figures.requests, figures.threads, figures.queued_tasks
    );
    if figures.boxes.is_empty() {
        text.push_str("\nno request is under way\n");
    }
    for subject in [Subject::Slots, Subject::Boxes, Subject::Edges, Subject::Classes] {
        let mut table = Table::new(figures, subject);
        if table.rows.is_empty() {
            continue;
        }
        table.sort(subject.sorted_by());
        let placed = table.placed(width);
        let _ = writeln!(text, "\n{}", table.head(&placed, None).trim_end());
        for row in table.rows.iter().take(ROWS_MAX) {
            let _ = writeln!(text, "{}", table.body(&placed, row).trim_end());
        }
        if table.rows.len() > ROWS_MAX {
            let _ = writeln!(text, "... and {} more", table.rows.len() - ROWS_MAX);
        }
    }
    text
}
