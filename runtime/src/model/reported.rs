//! The reports of a request's boxes: problems and notes, both bounded.

use crate::operator::Problem;
use crate::request::PROBLEMS_KEPT_MAX;

/// The reports so far.
#[derive(Default)]
pub(super) struct Reported {
    /// The first of the problems.
    pub(super) problems: Vec<Problem>,
    /// The items of all problems.
    pub(super) items: u64,
    /// The first of the notes.
    pub(super) notes: Vec<String>,
}

impl Reported {
    pub(super) fn report(&mut self, problem: Problem) {
        self.items += problem.items;
        if self.problems.len() < PROBLEMS_KEPT_MAX {
            self.problems.push(problem);
        }
    }

    pub(super) fn note(&mut self, note: String) {
        if self.notes.len() < PROBLEMS_KEPT_MAX {
            self.notes.push(note);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_items_count_and_the_first_reports_are_kept() {
        let mut reported = Reported::default();
        for idx in 0..=PROBLEMS_KEPT_MAX {
            reported.report(Problem { subject: idx.to_string(), message: String::new(), items: 3 });
            reported.note(idx.to_string());
        }
        assert_eq!(reported.items, 3 * (PROBLEMS_KEPT_MAX as u64 + 1));
        assert_eq!((reported.problems.len(), reported.notes.len()), (PROBLEMS_KEPT_MAX, PROBLEMS_KEPT_MAX));
        assert_eq!((reported.problems[0].subject.as_str(), reported.notes[0].as_str()), ("0", "0"));
    }
}
