//! The events of a log, and their lines: JSON with a running checksum, so that an edited or foreign line is found.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::backend::Picture;

/// The version of the log.
pub const VERSION: u32 = 1;

/// What becomes of objects that were shown and not marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unmarked {
    /// They count as weakly irrelevant.
    #[default]
    Weak,
    /// They do not count.
    Ignore,
}

/// A part of a session's query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Given {
    /// The object, if it is one of the store.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<u64>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<Arc<str>>,
    /// The picture's token, if the client sent one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub token: Option<String>,
    /// The picture, if it is none of the store.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub picture: Option<Arc<Picture>>,
}

/// The first line of a log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`VERSION`].
    pub boxwork_session: u32,
    /// The name of the store.
    pub store: String,
    /// The store's content when the session began.
    pub fingerprint: Arc<str>,
    /// The extraction and the distance.
    pub family: String,
    /// The seed of chance.
    pub seed: u64,
    /// Objects of a round.
    pub batch: usize,
    /// See [`Question::explore`](crate::backend::Question::explore).
    pub explore: f64,
    /// What becomes of objects without a mark.
    pub unmarked: Unmarked,
    /// Only objects of this class.
    pub class: Option<String>,
    /// When it began, in milliseconds since 1970.
    pub at: u64,
}

/// A mark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Marked {
    /// The object's row in the store of the round.
    pub id: u64,
    /// Its name.
    pub name: Arc<str>,
    /// From 0 to 1; `None` takes a mark back.
    pub relevance: Option<f64>,
}

/// An object as a round showed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// Its row in the store of the round.
    pub id: u64,
    /// Its name.
    pub name: Arc<str>,
    /// See [`Chosen`](crate::backend::Chosen).
    pub mean: f64,
    /// See [`Chosen`](crate::backend::Chosen).
    pub deviation: f64,
    /// See [`Chosen`](crate::backend::Chosen).
    pub upper: f64,
    /// The mark with the largest positive share, by name, and the share.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub liked: Option<(u64, Arc<str>, f64)>,
    /// The mark with the largest negative share, by name, and the share.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub disliked: Option<(u64, Arc<str>, f64)>,
}

/// An event's content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// What the session searches for; at most once, before the first round.
    Query(Vec<Given>),
    /// Marks for a round.
    Marks {
        /// The round for which they were sent.
        round: usize,
        /// As the client sent them.
        marks: Vec<Marked>,
    },
    /// The round that follows.
    Round {
        /// Counted from 1.
        round: usize,
        /// The store's content.
        fingerprint: Arc<str>,
        /// What it showed.
        objects: Vec<Shown>,
    },
    /// One round back.
    Undo,
    /// One round forth.
    Redo,
    /// Another bound for the rounds that follow.
    Explore(f64),
    /// Another size of the rounds that follow.
    Batch(usize),
    /// Another class for the rounds that follow; `None` is all.
    Filter(Option<String>),
}

/// A line of a log after the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Counted from 1.
    pub event: u64,
    /// In milliseconds since 1970.
    pub at: u64,
    /// What happened.
    pub op: Operation,
}

/// A line is no line of this log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// It is no event.
    #[error("it is no event of a session")]
    Shape,
    /// The checksum is another one.
    #[error("its checksum does not fit: it was edited, or belongs to another log")]
    Sum,
}

const SUM: &str = ",\"sum\":\"";

/// The line of a value, with its checksum after that of the line before; and the new checksum.
///
/// # Panics
/// When the value is no JSON object with members, which the types here exclude.
pub fn line(value: &impl Serialize, before: u32) -> (String, u32) {
    let mut text = serde_json::to_string(value).expect("events are plain data");
    assert!(text.len() > 2 && text.pop() == Some('}'), "an event is an object with members");
    let sum = checksum(before, &text);
    text.push_str(&format!("{SUM}{sum:08x}\"}}\n"));
    (text, sum)
}

/// Reads a line, without its end, and the checksum after it.
///
/// # Errors
/// When it has another form or checksum.
pub fn parse<T: for<'a> Deserialize<'a>>(line: &str, before: u32) -> Result<(T, u32), LineError> {
    let (content, sum) = line.rsplit_once(SUM).ok_or(LineError::Shape)?;
    let sum = sum.strip_suffix("\"}").ok_or(LineError::Shape)?;
    if sum != format!("{:08x}", checksum(before, content)) {
        return Err(LineError::Sum);
    }
    // Through a value: members beyond those of the type are those of a later version, which the checksum covers.
    let value: Value = serde_json::from_str(&format!("{content}}}")).map_err(|_| LineError::Shape)?;
    let parsed = serde_json::from_value(value).map_err(|_| LineError::Shape)?;
    Ok((parsed, checksum(before, content)))
}

fn checksum(before: u32, text: &str) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(before);
    hasher.update(text.as_bytes());
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_back_and_an_edited_one_is_refused() {
        let event = Event {
            event: 2,
            at: 5,
            op: Operation::Marks {
                round: 1,
                marks: vec![Marked { id: 3, name: "a \"b\"\n,\"sum\":\"".into(), relevance: Some(0.1) }],
            },
        };
        let (text, sum) = line(&event, 17);
        assert!(text.ends_with("\"}\n") && text.lines().count() == 1);
        assert_eq!(parse::<Event>(text.trim_end(), 17), Ok((event, sum)));
        assert_eq!(parse::<Event>(text.trim_end(), 18), Err(LineError::Sum));
        assert_eq!(parse::<Event>(&text.trim_end().replace("0.1", "0.9"), 17), Err(LineError::Sum));
        for foreign in ["", "{}", "{\"event\":1}", "x\"}", "{\"event\":2,\"sum\":\"0\"}x"] {
            assert!(parse::<Event>(foreign, 17).is_err(), "{foreign}");
        }
        for op in [Operation::Undo, Operation::Filter(None), Operation::Explore(0.25)] {
            let event = Event { event: 1, at: 0, op };
            let (text, sum) = line(&event, 0);
            assert_eq!(parse::<Event>(text.trim_end(), 0), Ok((event, sum)));
        }
    }
}
