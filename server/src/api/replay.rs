//! A log played again: a new session with the log's seed, marks and settings, computed anew on the store as it is.
//!
//! It proves that a log determines its rounds, and carries a session over to a store that was made anew.

use std::collections::HashSet;
use std::sync::Arc;

use axum::body::Body;
use axum::http::Response;

use super::question;
use super::shapes::Replayed;
use super::steps::{created, fold, next_round};
use crate::app::App;
use crate::backend::Snapshot;
use crate::problem::{Kind, Problem};
use crate::session::event::{self, Event, Given, Header, Marked, Operation, Shown};
use crate::session::{Session, journal};
use crate::sessions::now_ms;

/// A replay under way.
struct Replay<'a> {
    app: &'a App,
    snapshot: &'a Arc<dyn Snapshot>,
    session: Session,
    lines: String,
    pending: Option<Vec<Marked>>,
    gone: HashSet<String>,
    replayed: Replayed,
}

/// Plays a log, and answers with the new session.
///
/// # Errors
/// When it is no log, or a round cannot be computed.
pub async fn replay(
    app: &App,
    store: &str,
    snapshot: &Arc<dyn Snapshot>,
    log: &[u8],
) -> Result<Response<Body>, Problem> {
    let refused = |error: journal::JournalError| Problem::new(Kind::LOG_BROKEN, error.to_string());
    let (logged, length) = journal::fold(log, "the log").map_err(refused)?;
    if logged.events as usize > 8 * app.limits().rounds {
        return Err(Problem::new(Kind::SESSION_FULL, "the log has more events than a session may"));
    }
    let text = std::str::from_utf8(&log[..length]).unwrap_or_default();
    let whole = tokio::time::timeout(app.limits().deadline, played(app, store, snapshot, text)).await;
    let replay = whole.map_err(|_| Problem::new(Kind::DEADLINE, "the log's rounds take too long"))??;
    let mut notices: Vec<String> = replay.gone.iter().take(5).cloned().collect();
    notices.sort_unstable();
    let (name, held) = app.sessions.add(replay.session, replay.lines).await?;
    let mut state = question::state(&name, &held.session, snapshot, notices);
    state.replay = Some(replay.replayed);
    Ok(created(&name, &state))
}

async fn played<'a>(
    app: &'a App,
    store: &str,
    snapshot: &'a Arc<dyn Snapshot>,
    text: &str,
) -> Result<Replay<'a>, Problem> {
    let broken = |error: event::LineError| Problem::new(Kind::LOG_BROKEN, error.to_string());
    let mut lines = text.lines();
    let (header, mut sum): (Header, u32) =
        event::parse(lines.next().unwrap_or_default(), 0).map_err(broken)?;
    let mut gone = HashSet::new();
    let class = header.class.filter(|class| {
        let is_there = snapshot.has_class(class);
        if !is_there {
            gone.insert(format!("the store has no class `{class}`: all objects count"));
        }
        is_there
    });
    let mut session = Session::begin(Header {
        store: store.to_owned(),
        fingerprint: snapshot.fingerprint().into(),
        family: snapshot.family().to_owned(),
        class,
        at: now_ms(),
        ..header
    });
    let lines_so_far = session.first_line();
    let replayed = Replayed { rounds: 0, same: 0 };
    let mut replay = Replay { app, snapshot, session, lines: lines_so_far, pending: None, gone, replayed };
    for line in lines {
        let (event, next): (Event, u32) = event::parse(line, sum).map_err(broken)?;
        sum = next;
        replay.event(event.op).await?;
    }
    Ok(replay)
}

impl Replay<'_> {
    async fn event(&mut self, operation: Operation) -> Result<(), Problem> {
        let operations = match operation {
            Operation::Query(given) => vec![Operation::Query(self.given(given))],
            Operation::Marks { marks, .. } => {
                self.pending = Some(self.marks(marks));
                return Ok(());
            }
            Operation::Round { objects, .. } => self.round(&objects).await?,
            Operation::Filter(Some(class)) if !self.snapshot.has_class(&class) => {
                self.gone.insert(format!("the store has no class `{class}`: all objects count"));
                vec![Operation::Filter(None)]
            }
            other => vec![other],
        };
        fold(self.app, &mut self.session, &mut self.lines, &operations)
    }

    fn given(&mut self, given: Vec<Given>) -> Vec<Given> {
        let mut kept = Vec::new();
        for given in given {
            match &given.name {
                None => kept.push(given),
                Some(name) => match self.snapshot.find(name) {
                    Some(id) => kept.push(Given { id: Some(id), ..given }),
                    None => drop(self.gone.insert(left_out(name))),
                },
            }
        }
        kept
    }

    fn marks(&mut self, marks: Vec<Marked>) -> Vec<Marked> {
        let mut kept = Vec::new();
        for mark in marks {
            match self.snapshot.find(&mark.name) {
                Some(id) => kept.push(Marked { id, ..mark }),
                None => drop(self.gone.insert(left_out(&mark.name))),
            }
        }
        kept
    }

    async fn round(&mut self, logged: &[Shown]) -> Result<Vec<Operation>, Problem> {
        let marks = self.pending.take();
        let before = self.session.round();
        let fingerprint: Arc<str> = self.snapshot.fingerprint().into();
        let following = match &marks {
            None => next_round(self.app, &self.session, self.snapshot).await?,
            Some(marks) => {
                let marked = self.session.with_marks(marks, fingerprint);
                match next_round(self.app, &marked, self.snapshot).await? {
                    Operation::Round { fingerprint, objects, .. } => {
                        Operation::Round { round: before + 1, fingerprint, objects }
                    }
                    other => other,
                }
            }
        };
        self.replayed.rounds += 1;
        if let Operation::Round { objects, .. } = &following {
            let is_same = objects.len() == logged.len()
                && objects.iter().zip(logged).all(|(new, old)| new.name == old.name);
            self.replayed.same += usize::from(is_same);
        }
        let marks = marks.map(|marks| Operation::Marks { round: before, marks });
        Ok(marks.into_iter().chain([following]).collect())
    }
}

fn left_out(name: &str) -> String {
    format!("`{name}` is not in the store: its mark does not count")
}
