//! A small session, for tests.

use super::event::{Header, Marked, Operation, Shown, Unmarked, VERSION};
use super::fold::Session;

/// A session that has shown its first round, and its log.
pub(super) fn started() -> (Session, String) {
    let mut session = Session::begin(header());
    let mut log = session.first_line();
    let lines = session.lines(&[round(1)], 0);
    session.take_lines(&lines).unwrap();
    log.push_str(&lines);
    (session, log)
}

fn header() -> Header {
    Header {
        boxwork_session: VERSION,
        store: "s".to_owned(),
        fingerprint: "f".into(),
        family: "a".to_owned(),
        seed: 1,
        batch: 2,
        explore: 0.25,
        unmarked: Unmarked::Weak,
        class: None,
        at: 0,
    }
}

/// A round that shows two objects: those of twice its number, and the next.
pub(super) fn round(round: usize) -> Operation {
    let shown = |id: u64| Shown {
        id,
        name: format!("{id}").into(),
        mean: 0.1 * id as f64,
        deviation: 1.0,
        upper: 2.0,
        liked: None,
        disliked: None,
    };
    let first = 2 * round as u64;
    Operation::Round { round, fingerprint: "f".into(), objects: vec![shown(first), shown(first + 1)] }
}

/// A mark of the first object of a round.
pub(super) fn marks(round: usize, relevance: Option<f64>) -> Operation {
    let id = 2 * round as u64;
    Operation::Marks { round, marks: vec![Marked { id, name: format!("{id}").into(), relevance }] }
}
