//! The JSON of version 1.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::backend::{Object, Snapshot, Summary};
use crate::limits::Limits;
use crate::session::event::Unmarked;

/// The bounds that a client should know.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Bounds {
    /// Objects of a search.
    pub k: usize,
    /// Objects of a round.
    pub batch: usize,
    /// Bytes of a picture.
    pub image_bytes: usize,
    /// Pixels of a picture.
    pub image_pixels: u64,
    /// Marks of a session.
    pub marks: usize,
    /// Rounds of a session.
    pub rounds: usize,
}

impl Bounds {
    /// The bounds of these limits.
    pub fn of(limits: &Limits) -> Self {
        let Limits { k, batch, image_bytes, image_pixels, marks, rounds, .. } = *limits;
        Self { k, batch, image_bytes, image_pixels, marks, rounds }
    }
}

/// A store.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Store {
    /// In a few words.
    #[serde(flatten)]
    pub summary: Summary,
    /// The bounds of requests.
    pub limits: Bounds,
}

/// All stores.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Stores {
    /// In the order of the command line.
    pub stores: Vec<Store>,
}

/// An object with its size.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct OneObject {
    /// The object.
    #[serde(flatten)]
    pub object: Object,
    /// The number of its centroids, or its length.
    pub centroids: u64,
}

/// A search.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SearchBody {
    /// An object by `id` or `name`, a picture by its `token`, or a `signature`.
    pub query: serde_json::Value,
    /// The number of objects to find, 10 if it is not given.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub k: Option<usize>,
    /// Only objects at most this far away.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub range: Option<f64>,
    /// Only objects of this class.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub class: Option<String>,
    /// Only these objects, each by its id or its name.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub subset: Option<Vec<serde_json::Value>>,
    /// Look only into so many lists, if the server has lists of the store: fast, and objects may be missing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub probes: Option<usize>,
    /// With `probes`, candidates for each object to find, if the lists hold codes: 10 if it is not given.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub refine: Option<usize>,
}

/// What was searched for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Asked {
    /// The object, if it is one of the store.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub id: Option<u64>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// The token of a picture that is none of the store, for a session.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub token: Option<String>,
    /// Width of that picture in pixels.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub width: Option<u32>,
    /// Height of that picture in pixels.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub height: Option<u32>,
}

/// An object that was found.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Hit {
    /// The object.
    #[serde(flatten)]
    pub object: Object,
    /// Counted from 1.
    pub rank: usize,
    /// Its distance from the query.
    pub distance: f64,
}

/// The answer to a search.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Hits {
    /// The store.
    pub store: String,
    /// Its content.
    pub fingerprint: String,
    /// What was searched for.
    pub query: Asked,
    /// False if the search looked into some lists only; otherwise the answer is that of a scan.
    pub exact: bool,
    /// The lists that it looked into.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub probes: Option<usize>,
    /// The nearest objects, the nearest first.
    pub hits: Vec<Hit>,
}

/// A part of a mean, by the mark that it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Share {
    /// The marked object.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its part.
    pub share: f64,
}

/// An object of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InRound {
    /// The object.
    #[serde(flatten)]
    pub object: Object,
    /// Counted from 1, in the order in which the objects were chosen.
    pub rank: usize,
    /// The relevance that is expected.
    pub mean: f64,
    /// The standard deviation of that.
    pub deviation: f64,
    /// The bound by which it was chosen.
    pub upper: f64,
    /// The mark with the largest positive share.
    pub liked: Option<Share>,
    /// The mark with the largest negative share.
    pub disliked: Option<Share>,
}

/// A round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Round {
    /// Counted from 1.
    pub round: usize,
    /// What it shows.
    pub objects: Vec<InRound>,
    /// Whether it is shorter than a batch, as no more objects are left.
    pub exhausted: bool,
}

/// A mark in force.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct MarkInForce {
    /// The object.
    #[serde(flatten)]
    pub object: Object,
    /// From 0 to 1.
    pub relevance: f64,
    /// The round for which it was sent.
    pub round: usize,
    /// Whether a round has shown the object.
    pub shown: bool,
}

/// How a replayed log compares with what it says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Replayed {
    /// Rounds that were computed.
    pub rounds: usize,
    /// Those that show the same objects in the same order.
    pub same: usize,
}

/// A session.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct State {
    /// Its name, which is also the right to it.
    pub session: String,
    /// Its store.
    pub store: String,
    /// The store's content at present.
    pub fingerprint: String,
    /// The seed of chance.
    pub seed: u64,
    /// Objects of a round.
    pub batch: usize,
    /// From 0, more like these, to 2, surprising ones.
    pub explore: f64,
    /// What becomes of objects that were shown and not marked.
    pub unmarked: Unmarked,
    /// Only objects of this class.
    pub class: Option<String>,
    /// The present round.
    pub round: Round,
    /// The number of rounds, those undone included.
    pub rounds: usize,
    /// The marks in force.
    pub marks: Vec<MarkInForce>,
    /// What it searches for.
    pub query: Vec<Asked>,
    /// Whether there is a round before.
    pub can_undo: bool,
    /// Whether a round was undone.
    pub can_redo: bool,
    /// Whether no more objects are left.
    pub exhausted: bool,
    /// Objects shown so far.
    pub shown: usize,
    /// Sentences for the person, such as on marks whose objects are gone.
    pub notices: Vec<String>,
    /// If it was made from a log.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replay: Option<Replayed>,
}

/// An object of a ranking.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct InRanking {
    /// The object.
    #[serde(flatten)]
    pub object: Object,
    /// Counted from 1.
    pub rank: usize,
    /// The relevance that is expected.
    pub mean: f64,
    /// The standard deviation of that.
    pub deviation: f64,
}

/// A part of a ranking.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Ranking {
    /// Objects in the whole ranking, at most a thousand.
    pub total: usize,
    /// Those of this page.
    pub objects: Vec<InRanking>,
}

/// A marked object and its share.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct MarkShare {
    /// The object.
    #[serde(flatten)]
    pub object: Object,
    /// What was judged, from 0 to 1.
    pub relevance: f64,
    /// Its part of the mean.
    pub share: f64,
}

/// An object and its distance.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Near {
    /// The object.
    #[serde(flatten)]
    pub object: Object,
    /// The distance.
    pub distance: f64,
}

/// Why an object is where it is.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// The object.
    #[serde(flatten)]
    pub object: Object,
    /// The relevance that is expected.
    pub mean: f64,
    /// The standard deviation of that.
    pub deviation: f64,
    /// The marks with the largest shares.
    pub marks: Vec<MarkShare>,
    /// The nearest liked objects.
    pub nearest_liked: Vec<Near>,
}

/// Whether the server lives, or can answer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`, `stale`, or `not ready`.
    pub status: String,
    /// Sentences on stores that are stale or not there.
    pub notes: Vec<String>,
}

/// An object of a log: as the store has it now, or only by name if it is gone.
pub fn object(snapshot: &Arc<dyn Snapshot>, fingerprint: &str, id: u64, name: &str) -> Object {
    let now = if fingerprint == snapshot.fingerprint() { Some(id) } else { snapshot.find(name) };
    let gone = || Object { id, name: name.to_owned(), class: None, width: 0, height: 0 };
    now.and_then(|id| snapshot.object(id)).unwrap_or_else(gone)
}
