//! What a client searches for: an object, a picture by its token, or a signature.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;

use super::shapes::Asked;
use crate::app::App;
use crate::backend::{Picture, Snapshot, Subject};
use crate::body::{Members, brief, cut};
use crate::problem::{Fault, Kind, Problem};
use crate::session::Given;

/// The most centroids of a client's signature.
const CENTROIDS_MAX: usize = 4096;
/// The most numbers of a centroid.
const NUMBERS_MAX: usize = 64;

/// A part of a query: as the backend takes it, and as the log and the client see it.
#[derive(Clone, Debug)]
pub struct Query {
    /// For the backend.
    pub subject: Subject,
    /// For the log.
    pub given: Given,
}

impl Query {
    /// An object of the store.
    pub fn of_object(snapshot: &Arc<dyn Snapshot>, id: u64) -> Option<Self> {
        let object = snapshot.object(id)?;
        let given = Given { id: Some(id), name: Some(object.name.into()), token: None, picture: None };
        Some(Self { subject: Subject::Object(id), given })
    }

    /// A picture.
    pub fn of_picture(picture: Arc<Picture>, token: Option<String>) -> Self {
        let given = Given { id: None, name: None, token, picture: Some(Arc::clone(&picture)) };
        Self { subject: Subject::Picture(picture), given }
    }
}

/// A query as the client sees it.
pub fn asked(given: &Given) -> Asked {
    Asked {
        id: given.id,
        name: given.name.as_deref().map(str::to_owned),
        token: given.token.clone(),
        width: given.picture.as_ref().map(|picture| picture.width),
        height: given.picture.as_ref().map(|picture| picture.height),
    }
}

/// Reads a part of a query at a pointer of a body. A signature may be given where `allows_signature`.
///
/// # Errors
/// With the pointer of what does not fit.
pub fn read(
    app: &App,
    snapshot: &Arc<dyn Snapshot>,
    value: Value,
    pointer: &str,
    allows_signature: bool,
) -> Result<Query, Problem> {
    let forms = if allows_signature {
        "{\"id\"}, {\"name\"}, {\"token\"} or {\"signature\"}"
    } else {
        "{\"id\"}, {\"name\"} or {\"token\"}"
    };
    let fault = |detail: String| Problem::values(vec![Fault { pointer: pointer.to_owned(), detail }]);
    let Value::Object(members) = value else {
        return Err(fault(format!("a query is an object, one of {forms}, not {}", brief(&value))));
    };
    if members.len() != 1 {
        return Err(fault(format!("a query has one member: {forms}")));
    }
    let mut members = Members::below(members, pointer.to_owned());
    let id = members.count("id", 0, u64::MAX);
    let name = members.text("name");
    let token = members.text("token");
    let signature = if allows_signature { members.take("signature") } else { None };
    let found = match (id, name, token, signature) {
        (Some(id), ..) => match Query::of_object(snapshot, id) {
            Some(query) => Ok(query),
            None => Err(unknown(&members.pointer("id"), format!("the store has no object {id}"))),
        },
        (_, Some(name), ..) => by_name(snapshot, &name, &members.pointer("name")),
        (_, _, Some(token), _) => match app.pictures.get(&token, snapshot.family(), Instant::now()) {
            Some(picture) => Ok(Query::of_picture(picture, Some(token))),
            None => {
                let detail = "the token is unknown or too old: search with the picture again".to_owned();
                Err(unknown(&members.pointer("token"), detail))
            }
        },
        (.., Some(signature)) => by_signature(snapshot, &signature, &mut members),
        _ => Err(fault(format!("a query is one of {forms}"))),
    };
    members.check()?;
    found
}

fn unknown(pointer: &str, detail: String) -> Problem {
    Problem::new(Kind::UNKNOWN_OBJECT, detail.clone()).at(pointer, detail)
}

fn by_name(snapshot: &Arc<dyn Snapshot>, name: &str, pointer: &str) -> Result<Query, Problem> {
    if let Some(query) = snapshot.find(name).and_then(|id| Query::of_object(snapshot, id)) {
        return Ok(query);
    }
    let near = snapshot.similar(name).map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    Err(unknown(pointer, format!("the store has no object `{}`{near}", cut(name))))
}

fn by_signature(
    snapshot: &Arc<dyn Snapshot>,
    value: &Value,
    members: &mut Members,
) -> Result<Query, Problem> {
    let pointer = members.pointer("signature");
    let fault = |detail: String| Problem::values(vec![Fault { pointer: pointer.clone(), detail }]);
    let shape = "a signature is a list of centroids, each a list of numbers of which the last is the weight";
    let rows = value.as_array().filter(|rows| (1..=CENTROIDS_MAX).contains(&rows.len()));
    let rows = rows.ok_or_else(|| fault(format!("{shape}; at most {CENTROIDS_MAX} fit")))?;
    let mut signature = Vec::with_capacity(rows.len());
    for row in rows {
        let numbers = row.as_array().filter(|numbers| (2..=NUMBERS_MAX).contains(&numbers.len()));
        let number = |number: &Value| number.as_f64().map(|number| number as f32).filter(|n| n.is_finite());
        let centroid: Option<Vec<f32>> = numbers.and_then(|numbers| numbers.iter().map(number).collect());
        signature.push(centroid.ok_or_else(|| fault(shape.to_owned()))?);
    }
    let picture = Picture { width: 0, height: 0, signature };
    snapshot.check(&picture).map_err(fault)?;
    Ok(Query::of_picture(Arc::new(picture), None))
}
