//! The contract between HTTP and what computes: plain types and two traits.
//!
//! Invariants: a [`Snapshot`] never changes, so all numbers of an answer belong together; a future that is dropped
//! cancels its work; nothing here knows a distance.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An answer that is being computed. Dropping it cancels the work.
pub type Answer<T> = Pin<Box<dyn Future<Output = Result<T, Refusal>> + Send>>;

/// The reason that there is no answer. Texts are for the client: they name no path of the server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such thing, such as the picture of an object.
    #[error("{0}")]
    NotFound(String),
    /// A value does not fit.
    #[error("{0}")]
    Invalid(String),
    /// A file is no picture of a known format.
    #[error("{0}")]
    Unsupported(String),
    /// A picture cannot be decoded.
    #[error("{0}")]
    Undecodable(String),
    /// It took too long.
    #[error("{0}")]
    TooSlow(String),
    /// The store cannot answer at present, and will soon.
    #[error("{0}")]
    Unavailable(String),
    /// The store cannot do this until a person has mended its file.
    #[error("{0}")]
    Stale(String),
    /// The backend stops.
    #[error("the server is stopping")]
    Stopping,
    /// A fault of the server. The text goes to the server's log, not to the client.
    #[error("{0}")]
    Internal(String),
}

/// An object of a store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Object {
    /// Its row in the store.
    pub id: u64,
    /// Its name, a path below the folder of the pictures.
    pub name: String,
    /// The folder in its name; null if it has none.
    pub class: Option<String>,
    /// Width of the picture in pixels, 0 if it is unknown.
    pub width: u32,
    /// Height of the picture in pixels, 0 if it is unknown.
    pub height: u32,
}

/// A class and its size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Class {
    /// The folder in the names of its objects.
    pub name: String,
    /// The number of its objects.
    pub objects: u64,
}

/// A store in a few words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Summary {
    /// Its name in addresses.
    pub name: String,
    /// The objects' name in the plural, such as `signatures`.
    pub kind: String,
    /// The number of its objects.
    pub objects: u64,
    /// A text unique to its content.
    pub fingerprint: String,
    /// The distance in words.
    pub measure: String,
    /// The alpha that the store keeps; null if it keeps none.
    pub alpha: Option<f64>,
    /// How a round is computed: `exact` or `sketch`.
    pub mode: String,
    /// Whether there are thumbnails.
    pub images: bool,
    /// Whether there are the original pictures.
    pub originals: bool,
    /// The classes, by name; the first thousand.
    pub classes: Vec<Class>,
}

/// A page of objects, by id.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Listing {
    /// The objects.
    pub objects: Vec<Object>,
    /// The value of `after` for the next page; null at the end.
    pub next: Option<u64>,
}

/// Which objects count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Those of a class.
    pub class: Option<String>,
    /// Those whose names begin so.
    pub prefix: Option<String>,
}

/// A picture that is no object of the store: its size in pixels, and its signature, a list of numbers for each
/// centroid of which the last is the weight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Picture {
    /// In pixels; 0 if it is unknown.
    pub width: u32,
    /// In pixels; 0 if it is unknown.
    pub height: u32,
    /// The centroids.
    pub signature: Vec<Vec<f32>>,
}

/// An object of the store, or a picture.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// By id.
    Object(u64),
    /// A picture.
    Picture(Arc<Picture>),
}

/// A search.
#[derive(Clone, Debug)]
pub struct Search {
    /// What is searched for.
    pub subject: Subject,
    /// The number of objects to find.
    pub k: usize,
    /// Only objects at most this far away.
    pub range: Option<f64>,
    /// Only objects of this class.
    pub class: Option<String>,
    /// Only these objects.
    pub subset: Option<Vec<u64>>,
    /// Look only into so many lists: the answer may lack objects. Without it the answer is exact.
    pub probes: Option<Probes>,
}

/// The part of a store at which an approximate search looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probes {
    /// Lists, those nearest to the query.
    pub lists: usize,
    /// Candidates for each object to find, if lists hold codes.
    pub refine: usize,
}

/// An object and its distance from the query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// The object.
    pub id: u64,
    /// Its distance.
    pub distance: f64,
}

/// A judgement: 1 is relevant, 0 is not.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// What was judged.
    pub subject: Subject,
    /// From 0 to 1.
    pub relevance: f64,
}

/// All that a round depends on, beside the snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The marks in the order in which they came, the query first.
    pub marks: Vec<Mark>,
    /// The objects that were shown, in their order.
    pub seen: Vec<u64>,
    /// Objects of a round.
    pub batch: usize,
    /// From 0, more like these, to 2, surprising ones.
    pub explore: f64,
    /// Whether objects that were shown and not judged count as weakly irrelevant.
    pub weak: bool,
    /// The seed of chance.
    pub seed: u64,
    /// Only objects of this class.
    pub class: Option<String>,
}

/// An object of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chosen {
    /// The object.
    pub id: u64,
    /// The relevance that is expected.
    pub mean: f64,
    /// The standard deviation of that.
    pub deviation: f64,
    /// The bound by which it was chosen.
    pub upper: f64,
    /// The mark with the largest positive share of the mean, and its share.
    pub liked: Option<(u64, f64)>,
    /// The mark with the largest negative share, and its share.
    pub disliked: Option<(u64, f64)>,
}

/// An object of a ranking.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// The object.
    pub id: u64,
    /// The relevance that is expected.
    pub mean: f64,
    /// The standard deviation of that.
    pub deviation: f64,
}

/// Why an object is where it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reasons {
    /// The relevance that is expected.
    pub mean: f64,
    /// The standard deviation of that.
    pub deviation: f64,
    /// The marked objects with the largest shares, and their shares.
    pub marks: Vec<(u64, f64)>,
    /// The nearest liked objects, and their distances.
    pub nearest_liked: Vec<(u64, f64)>,
}

/// A file with its media type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Such as `image/jpeg`.
    pub media_type: &'static str,
    /// The bytes.
    pub bytes: Bytes,
}

/// Whether the server can answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Whether all stores are open and requests are accepted.
    pub ready: bool,
    /// Sentences on stores that are stale or not there.
    pub notes: Vec<String>,
}

/// The stores, and what computes.
pub trait Backend: Send + Sync + 'static {
    /// The names of the stores, in order.
    fn stores(&self) -> Vec<String>;

    /// A store as it is now.
    fn snapshot(&self, store: &str) -> Option<Arc<dyn Snapshot>>;

    /// Opens a store's files anew, if they have changed, and returns whether they had.
    fn reload(&self, store: &str) -> Answer<bool>;

    /// Whether the server can answer.
    fn readiness(&self) -> Readiness;

    /// Its figures, in Prometheus' text format.
    fn figures(&self) -> String;
}

/// A store at one moment.
pub trait Snapshot: fmt::Debug + Send + Sync + 'static {
    /// The store in a few words.
    fn summary(&self) -> Summary;

    /// A text unique to the content.
    fn fingerprint(&self) -> &str;

    /// The extraction and the distance: pictures and sessions fit every snapshot of one family.
    fn family(&self) -> &str;

    /// An object.
    fn object(&self, id: u64) -> Option<Object>;

    /// The object of a name.
    fn find(&self, name: &str) -> Option<u64>;

    /// Whether there are thumbnails.
    fn has_images(&self) -> bool;

    /// A name that resembles this one.
    fn similar(&self, name: &str) -> Option<String>;

    /// Whether a class has an object.
    fn has_class(&self, class: &str) -> bool;

    /// Objects by id, those after an id.
    fn list(&self, filter: &Filter, after: Option<u64>, limit: usize) -> Listing;

    /// The number of an object's centroids, or its length.
    fn centroids(self: Arc<Self>, id: u64) -> Answer<u64>;

    /// The signature of the picture in a file, of at most this many pixels.
    fn extract(self: Arc<Self>, file: Bytes, pixels_max: u64) -> Answer<Picture>;

    /// Checks a signature of a client.
    ///
    /// # Errors
    /// Says why it has no distances.
    fn check(&self, picture: &Picture) -> Result<(), String>;

    /// Whether a search may look into lists.
    fn has_lists(&self) -> bool {
        false
    }

    /// The least range that a search may have: 0, unless distances may be negative.
    fn range_min(&self) -> f64 {
        0.0
    }

    /// The nearest objects, the nearest first.
    fn search(self: Arc<Self>, search: Search) -> Answer<Vec<Found>>;

    /// The next round: at most `batch` objects, none of them seen.
    fn round(self: Arc<Self>, question: Question) -> Answer<Vec<Chosen>>;

    /// The objects by mean, the largest first: at most `limit`.
    fn ranking(self: Arc<Self>, question: Question, limit: usize) -> Answer<Vec<Ranked>>;

    /// Why an object is where it is.
    fn why(self: Arc<Self>, question: Question, id: u64) -> Answer<Reasons>;

    /// A small JPEG picture of an object, at most `size` pixels wide and high.
    fn thumbnail(self: Arc<Self>, id: u64, size: u32) -> Answer<Bytes>;

    /// The picture itself.
    fn original(self: Arc<Self>, id: u64) -> Answer<Content>;
}
