//! The state of a session: a fold of its events.

use std::collections::HashMap;
use std::sync::Arc;

use super::event::{self, Event, Given, Header, LineError, Marked, Operation, Shown};

/// A round, and the marks that led to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Objects that the round should have.
    pub batch: usize,
    /// Marks for the round before; none for the first round.
    pub marks: Vec<Marked>,
    /// The store's content.
    pub fingerprint: Arc<str>,
    /// What was shown.
    pub shown: Vec<Shown>,
}

/// A mark in force.
#[derive(Clone, Debug, PartialEq)]
pub struct InForce {
    /// The object's row in the store at `fingerprint`.
    pub id: u64,
    /// Its name.
    pub name: Arc<str>,
    /// From 0 to 1.
    pub relevance: f64,
    /// The round for which it was sent.
    pub round: usize,
    /// The store's content when it was sent.
    pub fingerprint: Arc<str>,
}

/// The state of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// How it began; `explore`, `batch` and `class` are those at present.
    pub header: Header,
    /// What it searches for.
    pub query: Vec<Given>,
    /// The rounds, those undone included.
    pub steps: Vec<Step>,
    /// The index of the present round.
    pub at: usize,
    /// Events so far.
    pub events: u64,
    /// The checksum of the last line.
    pub sum: u32,
    /// The marks that wait for their round while a log is read.
    pending: Option<Vec<Marked>>,
    bytes: usize,
}

/// An event that does not fit the state before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// It is no line of this log.
    #[error(transparent)]
    Line(#[from] LineError),
    /// It does not follow from the lines before.
    #[error("it does not follow from the lines before it")]
    Order,
    /// The version is another one.
    #[error("it is of a version that this program does not know")]
    Version,
}

impl Session {
    /// A session without a round.
    pub fn begin(header: Header) -> Self {
        let bytes = size_of::<Self>() + header.family.len();
        Self { header, query: Vec::new(), steps: Vec::new(), at: 0, events: 0, sum: 0, pending: None, bytes }
    }

    /// Reads the first line of a log.
    ///
    /// # Errors
    /// When it is none of this version.
    pub fn from_line(line: &str) -> Result<Self, FoldError> {
        let (header, sum): (Header, u32) = event::parse(line, 0)?;
        if header.boxwork_session != event::VERSION {
            return Err(FoldError::Version);
        }
        Ok(Self { sum, ..Self::begin(header) })
    }

    /// The first line of its log.
    pub fn first_line(&mut self) -> String {
        let (line, sum) = event::line(&self.header, 0);
        self.sum = sum;
        line
    }

    /// Reads a further line.
    ///
    /// # Errors
    /// When it is no line of this log, or does not follow from the state.
    pub fn read_line(&mut self, line: &str) -> Result<(), FoldError> {
        let (event, sum): (Event, u32) = event::parse(line, self.sum)?;
        if event.event != self.events + 1 {
            return Err(FoldError::Order);
        }
        self.apply(event.op)?;
        (self.events, self.sum) = (event.event, sum);
        Ok(())
    }

    /// The lines of operations that come next, for the log; the state stays.
    pub fn lines(&self, operations: &[Operation], at: u64) -> String {
        let mut sum = self.sum;
        let mut text = String::new();
        for (event, op) in (self.events + 1..).zip(operations) {
            let (line, next) = event::line(&Event { event, at, op: op.clone() }, sum);
            text.push_str(&line);
            sum = next;
        }
        text
    }

    /// Folds lines that [`Session::lines`] made.
    ///
    /// # Errors
    /// When one does not follow from the state, which is then undefined.
    pub fn take_lines(&mut self, lines: &str) -> Result<(), FoldError> {
        lines.lines().try_for_each(|line| self.read_line(line))
    }

    fn apply(&mut self, operation: Operation) -> Result<(), FoldError> {
        if self.pending.is_some() && !matches!(operation, Operation::Round { .. }) {
            return Err(FoldError::Order);
        }
        match operation {
            Operation::Query(given) if self.steps.is_empty() && self.query.is_empty() => {
                self.bytes += given.iter().map(bytes_of_given).sum::<usize>();
                self.query = given;
            }
            Operation::Marks { round, marks } if !self.steps.is_empty() && round == self.round() => {
                self.pending = Some(marks);
            }
            Operation::Round { round, fingerprint, objects } => self.step(round, fingerprint, objects)?,
            Operation::Undo if self.can_undo() => self.at -= 1,
            Operation::Redo if self.can_redo() => self.at += 1,
            Operation::Explore(explore) => self.header.explore = explore,
            Operation::Batch(batch) => self.header.batch = batch,
            Operation::Filter(class) => self.header.class = class,
            _ => return Err(FoldError::Order),
        }
        Ok(())
    }

    fn step(&mut self, round: usize, fingerprint: Arc<str>, shown: Vec<Shown>) -> Result<(), FoldError> {
        let marks = self.pending.take();
        let is_first = self.steps.is_empty();
        if marks.is_none() != is_first || round != if is_first { 1 } else { self.round() + 1 } {
            return Err(FoldError::Order);
        }
        for undone in self.steps.drain((self.at + 1).min(self.steps.len())..) {
            self.bytes = self.bytes.saturating_sub(bytes_of_step(&undone));
        }
        let batch = self.header.batch;
        let step = Step { batch, marks: marks.unwrap_or_default(), fingerprint, shown };
        self.bytes += bytes_of_step(&step);
        self.steps.push(step);
        self.at = self.steps.len() - 1;
        Ok(())
    }

    /// Whether the last line was of marks whose round is missing.
    pub fn waits_for_round(&self) -> bool {
        self.pending.is_some()
    }

    /// Forgets marks whose round is missing: back to the events and the checksum before their line.
    pub fn drop_marks(&mut self, (events, sum): (u64, u32)) {
        self.pending = None;
        (self.events, self.sum) = (events, sum);
    }

    /// The present round, counted from 1; 0 before the first.
    pub fn round(&self) -> usize {
        if self.steps.is_empty() { 0 } else { self.at + 1 }
    }

    /// Whether there is a round before the present one.
    pub fn can_undo(&self) -> bool {
        self.at > 0
    }

    /// Whether a round was undone.
    pub fn can_redo(&self) -> bool {
        self.at + 1 < self.steps.len()
    }

    /// The marks in force, in the order in which their objects were first marked.
    pub fn marks(&self) -> Vec<InForce> {
        let mut marks: Vec<Option<InForce>> = Vec::new();
        let mut places: HashMap<Arc<str>, usize> = HashMap::new();
        for (idx, step) in self.steps.iter().enumerate().take(self.at + 1).skip(1) {
            // Marks and the round that follows them are of one content of the store.
            let fingerprint = &step.fingerprint;
            for mark in &step.marks {
                let place = places.get(&mark.name).copied();
                let in_force = mark.relevance.map(|relevance| InForce {
                    id: mark.id,
                    name: Arc::clone(&mark.name),
                    relevance,
                    round: idx,
                    fingerprint: Arc::clone(fingerprint),
                });
                match place {
                    Some(place) => marks[place] = in_force,
                    None => {
                        places.insert(Arc::clone(&mark.name), marks.len());
                        marks.push(in_force);
                    }
                }
            }
        }
        marks.into_iter().flatten().collect()
    }

    /// The objects shown up to the present round, each with the content of the store that numbered it.
    pub fn shown(&self) -> impl Iterator<Item = (&Shown, &Arc<str>)> {
        let steps = self.steps.iter().take(self.at + 1);
        steps.flat_map(|step| step.shown.iter().map(move |shown| (shown, &step.fingerprint)))
    }

    /// The session as these marks leave it, before the round that they lead to: that round is empty.
    #[must_use]
    pub fn with_marks(&self, marks: &[Marked], fingerprint: Arc<str>) -> Self {
        let mut marked = self.clone();
        marked.steps.truncate(self.at + 1);
        let batch = self.header.batch;
        marked.steps.push(Step { batch, marks: marks.to_vec(), fingerprint, shown: Vec::new() });
        marked.at = marked.steps.len() - 1;
        marked
    }

    /// Bytes in memory, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

fn bytes_of_given(given: &Given) -> usize {
    let numbers = given.picture.as_ref().map_or(0, |picture| picture.signature.len() * 64);
    size_of::<Given>() + numbers + given.name.as_ref().map_or(0, |name| name.len())
}

fn bytes_of_step(step: &Step) -> usize {
    let shown = step.shown.iter().map(|shown| size_of::<Shown>() + shown.name.len() + 16);
    let marks = step.marks.iter().map(|mark| size_of::<Marked>() + mark.name.len() + 16);
    size_of::<Step>() + shown.sum::<usize>() + marks.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples::{marks, round, started};
    use super::*;

    #[test]
    fn marks_after_an_undo_drop_what_was_undone() {
        let (mut session, _) = started();
        for operations in [&[marks(1, Some(1.0)), round(2)][..], &[marks(2, Some(0.0)), round(3)]] {
            let lines = session.lines(operations, 0);
            session.take_lines(&lines).unwrap();
        }
        assert_eq!((session.round(), session.marks().len(), session.shown().count()), (3, 2, 6));
        let lines = session.lines(&[Operation::Undo, Operation::Undo, Operation::Redo], 0);
        session.take_lines(&lines).unwrap();
        assert_eq!((session.round(), session.can_redo(), session.marks().len()), (2, true, 1));
        let lines = session.lines(&[marks(2, Some(0.5)), round(3)], 0);
        session.take_lines(&lines).unwrap();
        assert_eq!((session.can_redo(), session.marks()[1].relevance), (false, 0.5));
        assert_eq!(session.marks().iter().map(|mark| mark.round).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn what_does_not_follow_is_refused() {
        for operations in [
            &[Operation::Undo][..],
            &[Operation::Redo],
            &[round(2)],
            &[marks(2, None)],
            &[marks(1, None), Operation::Undo],
            &[marks(1, None), round(3)],
            &[Operation::Query(Vec::new())],
        ] {
            let (mut session, _) = started();
            let lines = session.lines(operations, 0);
            assert!(session.take_lines(&lines).is_err(), "{operations:?}");
        }
    }

    #[test]
    fn a_mark_taken_back_is_gone() {
        let (mut session, _) = started();
        let back =
            Operation::Marks { round: 2, marks: vec![Marked { id: 2, name: "2".into(), relevance: None }] };
        let lines = session.lines(&[marks(1, Some(1.0)), round(2), back, round(3)], 0);
        session.take_lines(&lines).unwrap();
        assert!(session.marks().is_empty() && !session.waits_for_round());
    }

    proptest! {
        /// A log folds to the session that wrote it, whatever was done.
        #[test]
        fn a_replayed_log_is_the_session(actions in proptest::collection::vec(0_u8..6, 0..40)) {
            let (mut session, mut log) = started();
            for action in actions {
                let operations = match action {
                    0 | 1 => vec![marks(session.round(), Some(0.5)), round(session.round() + 1)],
                    2 if session.can_undo() => vec![Operation::Undo],
                    3 if session.can_redo() => vec![Operation::Redo],
                    4 => vec![Operation::Explore(1.5), Operation::Filter(Some("c".to_owned()))],
                    _ => vec![Operation::Batch(3)],
                };
                let lines = session.lines(&operations, 9);
                session.take_lines(&lines).unwrap();
                log.push_str(&lines);
            }
            let mut lines = log.lines();
            let mut again = Session::from_line(lines.next().unwrap()).unwrap();
            lines.try_for_each(|line| again.read_line(line)).unwrap();
            prop_assert_eq!(again, session);
        }
    }
}
