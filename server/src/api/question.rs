//! From a session to what the backend computes, and back to what a client sees.
//!
//! Invariant: a question depends on the session and the snapshot alone, and its order on the log alone.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::query::asked;
use super::shapes::{self, InRound, MarkInForce, Round, Share, State};
use crate::backend::{Chosen, Mark, Question, Snapshot, Subject};
use crate::problem::{Kind, Problem};
use crate::session::event::Unmarked;
use crate::session::fold::InForce;
use crate::session::{Session, Shown, Step};

/// Notices of one kind that are given; the rest are counted.
const NOTICES_MAX: usize = 5;

/// A question, and sentences on what was left out of it.
#[derive(Debug)]
pub struct Asking {
    /// For the backend.
    pub question: Question,
    /// The marks in it that are objects, by id.
    pub marks: Vec<(u64, InForce)>,
    /// For the person.
    pub notices: Vec<String>,
}

/// Refuses a session of another extraction or distance.
///
/// # Errors
/// When it is one.
pub fn check_family(session: &Session, snapshot: &Arc<dyn Snapshot>) -> Result<(), Problem> {
    if session.header.family == snapshot.family() {
        return Ok(());
    }
    let detail = "the store was made anew with another extraction or distance: download the session's log and post it \
                  to the store's sessions to play it again there";
    Err(Problem::new(Kind::STORE_CHANGED, detail))
}

/// The present id of an object of a session.
fn now(snapshot: &Arc<dyn Snapshot>, fingerprint: &str, id: u64, name: &str) -> Option<u64> {
    let id = if fingerprint == snapshot.fingerprint() { Some(id) } else { snapshot.find(name) };
    id.filter(|id| snapshot.object(*id).is_some())
}

/// The question of a session's next round.
pub fn asking(session: &Session, snapshot: &Arc<dyn Snapshot>) -> Asking {
    let mut gone = Vec::new();
    let mut marks = Vec::new();
    for given in &session.query {
        let subject = match (&given.picture, &given.name) {
            (Some(picture), _) => Some(Subject::Picture(Arc::clone(picture))),
            (None, Some(name)) => {
                let id = now(snapshot, &session.header.fingerprint, given.id.unwrap_or(u64::MAX), name);
                gone.extend(id.is_none().then(|| name.to_string()));
                id.map(Subject::Object)
            }
            (None, None) => None,
        };
        marks.extend(subject.map(|subject| Mark { subject, relevance: 1.0 }));
    }
    let is_query = |id: u64| marks.iter().any(|mark| mark.subject == Subject::Object(id));
    let mut in_force = Vec::new();
    let mut of_query = Vec::new();
    for mark in session.marks() {
        match now(snapshot, &mark.fingerprint, mark.id, &mark.name) {
            Some(id) if is_query(id) => of_query.push((id, mark)),
            Some(id) => in_force.push((id, mark)),
            None => gone.push(mark.name.to_string()),
        }
    }
    // A mark of the query's own object replaces the query's.
    for (id, mark) in &of_query {
        let places = marks.iter_mut().filter(|known| known.subject == Subject::Object(*id));
        places.for_each(|known| known.relevance = mark.relevance);
    }
    marks.extend(
        in_force.iter().map(|(id, mark)| Mark { subject: Subject::Object(*id), relevance: mark.relevance }),
    );
    in_force.extend(of_query);
    let seen = session.shown();
    let seen = seen.filter_map(|(shown, fingerprint)| now(snapshot, fingerprint, shown.id, &shown.name));
    let header = &session.header;
    let question = Question {
        seen: seen.collect(),
        batch: header.batch,
        explore: header.explore,
        weak: header.unmarked == Unmarked::Weak,
        seed: header.seed,
        class: header.class.clone(),
        marks,
    };
    Asking { question, marks: in_force, notices: notices(&gone) }
}

fn notices(gone: &[String]) -> Vec<String> {
    let named = |name: &String| format!("`{name}` is not in the store any more: its mark does not count");
    let mut notices: Vec<String> = gone.iter().take(NOTICES_MAX).map(named).collect();
    if gone.len() > NOTICES_MAX {
        notices.push(format!("so it is with {} further marks", gone.len() - NOTICES_MAX));
    }
    notices
}

/// A round for the log.
pub fn shown(chosen: &[Chosen], snapshot: &Arc<dyn Snapshot>) -> Vec<Shown> {
    let name = |id: u64| snapshot.object(id).map(|object| Arc::<str>::from(object.name));
    let share = |share: Option<(u64, f64)>| {
        let (id, share) = share?;
        Some((id, name(id)?, share))
    };
    let one = |chosen: &Chosen| {
        Some(Shown {
            id: chosen.id,
            name: name(chosen.id)?,
            mean: chosen.mean,
            deviation: chosen.deviation,
            upper: chosen.upper,
            liked: share(chosen.liked),
            disliked: share(chosen.disliked),
        })
    };
    chosen.iter().filter_map(one).collect()
}

/// A round as it was.
pub fn round(step: &Step, number: usize, snapshot: &Arc<dyn Snapshot>) -> Round {
    let share = |share: &Option<(u64, Arc<str>, f64)>| {
        let (id, name, share) = share.as_ref()?;
        Some(Share { id: *id, name: name.to_string(), share: *share })
    };
    let one = |(idx, shown): (usize, &Shown)| InRound {
        object: shapes::object(snapshot, &step.fingerprint, shown.id, &shown.name),
        rank: idx + 1,
        mean: shown.mean,
        deviation: shown.deviation,
        upper: shown.upper,
        liked: share(&shown.liked),
        disliked: share(&shown.disliked),
    };
    let objects: Vec<InRound> = step.shown.iter().enumerate().map(one).collect();
    Round { round: number, exhausted: objects.len() < step.batch, objects }
}

/// A session as its client sees it.
pub fn state(name: &str, session: &Session, snapshot: &Arc<dyn Snapshot>, mut notices: Vec<String>) -> State {
    let asking = asking(session, snapshot);
    notices.extend(asking.notices);
    let shown: HashSet<&str> = session.shown().map(|(shown, _)| &*shown.name).collect();
    let marks = asking.marks.iter().filter_map(|(id, mark)| {
        Some(MarkInForce {
            object: snapshot.object(*id)?,
            relevance: mark.relevance,
            round: mark.round,
            shown: shown.contains(&*mark.name),
        })
    });
    let header = &session.header;
    let round = session.steps.get(session.at).map(|step| round(step, session.round(), snapshot));
    let round = round.unwrap_or(Round { round: 0, objects: Vec::new(), exhausted: true });
    State {
        session: name.to_owned(),
        store: header.store.clone(),
        fingerprint: snapshot.fingerprint().to_owned(),
        seed: header.seed,
        batch: header.batch,
        explore: header.explore,
        unmarked: header.unmarked,
        class: header.class.clone(),
        exhausted: round.exhausted,
        round,
        rounds: session.steps.len(),
        marks: marks.collect(),
        query: session.query.iter().map(asked).collect(),
        can_undo: session.can_undo(),
        can_redo: session.can_redo(),
        shown: session.shown().count(),
        notices,
        replay: None,
    }
}

/// The relevance of marked objects by id.
pub fn relevances(question: &Question) -> HashMap<u64, f64> {
    let of = |mark: &Mark| match mark.subject {
        Subject::Object(id) => Some((id, mark.relevance)),
        Subject::Picture(_) => None,
    };
    question.marks.iter().filter_map(of).collect()
}
