//! The descriptors that operators exchange: names, types and units of columns, each written once.
//!
//! Every function has the type that a port's table needs, so an operator only names one. Rows that belong to a query
//! carry `query`, its number within the request; an `id` is an object's row in its store.

mod pictures;

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field};
use boxwork_kernels::sketch::COORDINATES;
use boxwork_runtime::descriptor::{Column, Descriptor, Family};
use boxwork_runtime::envelope::{Envelope, EnvelopeError};
use boxwork_runtime::parameter::{Arguments, Default, Parameter, ParameterType, Value};

use boxwork_stores::any_kind::KINDS;
use boxwork_stores::kinds::{Kind, Signatures};
use boxwork_stores::signature::SIGNATURE;

pub use pictures::{comparisons, named_bytes, whole_pictures};

/// An object of any kind.
static OBJECT: Family = Family {
    name: "Object",
    about: "an object of any kind that stores hold: List<Float32> (a vector), Utf8 (a text), a Signature and others",
    accepts: |kind| KINDS.iter().any(|known| known.is_type(kind)),
};

/// The parameter that names the columns of a box's rows: see [`named`].
pub const NAMED: Parameter = Parameter::new(
    "columns",
    ParameterType::Choice(&[
        "files",
        "bytes",
        "pixels",
        "signatures",
        "queries",
        "candidates",
        "ranges",
        "distances",
        "pairs",
        "pair_distances",
        "pivots",
        "marks",
        "model",
        "bounds",
        "rounds",
        "reasons",
        "samples",
        "regression",
        "predictions",
        "sessions",
        "pictures",
        "thumbnails",
    ]),
    Default::Required,
    "the columns of the rows",
);

/// The columns that [`NAMED`] selects.
pub fn named(arguments: &Arguments) -> Descriptor {
    let Some(Value::Text(name)) = arguments.get(NAMED.name) else { return Descriptor::default() };
    match name.as_str() {
        "files" => files(arguments),
        "bytes" => bytes(arguments),
        "pixels" => pixels(arguments),
        "signatures" => signatures(arguments),
        "queries" => queries(arguments),
        "candidates" => candidates(arguments),
        "ranges" => ranges(arguments),
        "distances" => distances(arguments),
        "pairs" => pairs(arguments),
        "pair_distances" => pair_distances(arguments),
        "pivots" => pivots(arguments),
        "marks" => marks(arguments),
        "model" => model(arguments),
        "bounds" => bounds(arguments),
        "rounds" => rounds(arguments),
        "reasons" => reasons(arguments),
        "samples" => samples(arguments),
        "regression" => regression(arguments),
        "predictions" => predictions(arguments),
        "sessions" => sessions(arguments),
        "pictures" => pictures(arguments),
        "thumbnails" => thumbnails(arguments),
        _ => Descriptor::default(),
    }
}

/// A file to be read: its path, and the name that the object will have.
pub fn files(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("path", DataType::Utf8, "the file's path"),
        Column::new("name", DataType::Utf8, "the object's name: the path below the folder that was listed"),
    ])
}

/// A file's content.
pub fn bytes(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("path", DataType::Utf8, "the file's path"),
        Column::new("name", DataType::Utf8, "the object's name"),
        Column::new("bytes", DataType::Binary, "the file's content"),
    ])
}

/// A decoded and scaled image.
pub fn pixels(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("name", DataType::Utf8, "the object's name"),
        Column::new("width", DataType::UInt32, "of the original, in pixels"),
        Column::new("height", DataType::UInt32, "of the original, in pixels"),
        Column::new("scaled_width", DataType::UInt32, "of the pixels given here"),
        Column::new("scaled_height", DataType::UInt32, "of the pixels given here"),
        Column::new("rgb", DataType::Binary, "three bytes a pixel, row by row from the top"),
    ])
}

/// An object on its way into a store or out of one.
pub fn signatures(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("name", DataType::Utf8, "the object's name, unique in its store"),
        Column::family("signature", &SIGNATURE, "its centroids; the weights sum to 1"),
        Column::new("width", DataType::UInt32, "of the original image in pixels, 0 if there is none"),
        Column::new("height", DataType::UInt32, "of the original image in pixels, 0 if there is none"),
    ])
}

/// An object on its way into a store or out of one, of the kind that the parameter `holds` names.
pub fn objects(arguments: &Arguments) -> Descriptor {
    match arguments.get("holds") {
        Some(Value::Text(holds)) if holds != Signatures::NAME => Descriptor::new([
            Column::new("name", DataType::Utf8, "the object's name, unique in its store"),
            Column::family("object", &OBJECT, "the object"),
        ]),
        _ => signatures(arguments),
    }
}

/// A vector on its way into a store.
pub fn vectors(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("name", DataType::Utf8, "the object's name, unique in its store"),
        Column::family("object", &OBJECT, "the vector"),
    ])
}

/// A query of the request.
pub fn queries(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("query", DataType::UInt32, "the query's number within the request"),
        Column::new("name", DataType::Utf8, "the query as the user wrote it"),
        Column::family("object", &OBJECT, "the query's object"),
    ])
}

/// The lower bound of a distance of which nothing is known; some distances may be negative.
pub(crate) const NO_BOUND: f64 = f64::NEG_INFINITY;

/// An object whose distance to a query may matter.
pub fn candidates(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("query", DataType::UInt32, "the query's number within the request"),
        Column::new("id", DataType::UInt64, "the object's row in the store"),
        Column::new("lower", DataType::Float64, "a lower bound of the distance"),
    ])
}

/// Consecutive ids whose objects' distances to a query may matter; ids without an object are skipped.
pub fn ranges(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("query", DataType::UInt32, "the query's number within the request"),
        Column::new("first", DataType::UInt64, "the first id"),
        Column::new("count", DataType::UInt64, "the number of ids"),
    ])
}

/// The distance of an object from a query.
pub fn distances(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("query", DataType::UInt32, "the query's number within the request"),
        Column::new("id", DataType::UInt64, "the object's row in the store"),
        Column::new("distance", DataType::Float64, "of the object from the query"),
    ])
}

/// An object of an answer, as sinks of results give it to a request's caller.
pub fn answers(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("query", DataType::UInt32, "the query's number within the request"),
        Column::new("rank", DataType::UInt32, "the object's place in the answer, from 1"),
        Column::new("id", DataType::UInt64, "the object's row in the store"),
        Column::new("name", DataType::Utf8, "the object's name"),
        Column::new("distance", DataType::Float64, "of the object from the query"),
    ])
}

/// The quality of a class, as `evaluate` gives it to a request's caller; a class of one object has none.
pub fn qualities(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("class", DataType::Utf8, "the class; null for all classes together, in the last row"),
        Column::new("objects", DataType::UInt64, "objects of the class"),
        Column::new("map", DataType::Float64, "mean average precision; null without queries"),
        Column::new("precision_at_10", DataType::Float64, "mean share of the class among the 10 nearest"),
    ])
}

/// An envelope of [`distances`], from rows of (query, id, distance).
pub(crate) fn distances_envelope(rows: &[(u32, u64, f64)]) -> Result<Envelope, EnvelopeError> {
    let columns: [(&str, ArrayRef); 3] = [
        ("query", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.0)))),
        ("id", Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.1)))),
        ("distance", Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.2)))),
    ];
    Envelope::from_columns(columns)
}

/// A file with its size and time.
pub fn listed(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("path", DataType::Utf8, "the file's path"),
        Column::new("name", DataType::Utf8, "the object's name"),
        Column::new("bytes", DataType::UInt64, "of the file"),
        Column::new("modified", DataType::UInt64, "the file's last change, in nanoseconds since 1970"),
    ])
}
/// Two objects of a store.
pub fn pairs(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("a", DataType::UInt64, "an object's row in the store"),
        Column::new("b", DataType::UInt64, "another's"),
    ])
}

/// The distance of two objects of a store.
pub fn pair_distances(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("a", DataType::UInt64, "an object's row in the store"),
        Column::new("b", DataType::UInt64, "another's"),
        Column::new("distance", DataType::Float64, "of the two objects"),
        Column::new("error", DataType::Float64, "how far the distance may be from the exact one"),
    ])
}

/// The pivots of an index.
pub fn pivots(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("query", DataType::UInt32, "the pivot's number, and its number as a query"),
        Column::new("id", DataType::UInt64, "the object's row in the store"),
    ])
}

/// A judgement of an object.
pub fn marks(_: &Arguments) -> Descriptor {
    Descriptor::new(mark_columns())
}

fn mark_columns() -> [Column; 7] {
    [
        Column::new("query", DataType::UInt32, "the session's number within the request: 0"),
        Column::new("mark", DataType::UInt32, "the mark's number, from 0"),
        Column::new(
            "id",
            DataType::UInt64,
            "the object's row in the store; for others 2^64 - 2, 2^64 - 3 and so on",
        ),
        Column::new("name", DataType::Utf8, "the object's name, or as the user wrote it"),
        Column::family("object", &OBJECT, "the object"),
        Column::new("relevance", DataType::Float64, "from 0, disliked, to 1, liked"),
        Column::new("noise", DataType::Float64, "the variance of the relevance's noise"),
    ]
}

/// The marks of a session with the Gaussian process fitted to them.
pub fn model(_: &Arguments) -> Descriptor {
    let row = Field::new("item", DataType::Float64, false);
    let fitted = [
        Column::new("alpha", DataType::Float64, "the mark's weight in the mean of every object"),
        Column::new("row", DataType::List(Arc::new(row)), "the mark's row of the Cholesky factor"),
    ];
    Descriptor::new(mark_columns().into_iter().chain(fitted))
}

/// A tile of a matrix.
pub fn tiles(_: &Arguments) -> Descriptor {
    let numbers = DataType::List(Arc::new(Field::new("item", DataType::Float64, false)));
    Descriptor::new([
        Column::new("i", DataType::UInt32, "the row of tiles, from 0"),
        Column::new("j", DataType::UInt32, "the column of tiles, from 0"),
        Column::new("numbers", numbers, "the tile's numbers, by columns"),
    ])
}

/// A sample: a point and its target.
pub fn samples(_: &Arguments) -> Descriptor {
    Descriptor::new(sample_columns())
}

fn sample_columns() -> [Column; 3] {
    let numbers = DataType::List(Arc::new(Field::new("item", DataType::Float64, false)));
    [
        Column::new("name", DataType::Utf8, "the sample's name, or its line or row"),
        Column::new("x", numbers, "the inputs"),
        Column::new("y", DataType::Float64, "the target; NaN if it is not known"),
    ]
}

/// The samples of a Gaussian process with their part in it. The first envelope has its covariance and numbers as a note.
pub fn regression(_: &Arguments) -> Descriptor {
    let numbers = DataType::List(Arc::new(Field::new("item", DataType::Float64, false)));
    let fitted = [
        Column::new("alpha", DataType::Float64, "the sample's weight in every mean"),
        Column::new("row", numbers, "the sample's row of the Cholesky factor"),
    ];
    Descriptor::new(sample_columns().into_iter().chain(fitted))
}

/// A sample with what a Gaussian process predicts for its point.
pub fn predictions(_: &Arguments) -> Descriptor {
    let predicted = [
        Column::new("mean", DataType::Float64, "the mean"),
        Column::new("deviation", DataType::Float64, "the standard deviation; NaN if it was not computed"),
        Column::new("lower", DataType::Float64, "the lower end of the interval"),
        Column::new("upper", DataType::Float64, "the upper end"),
    ];
    Descriptor::new(sample_columns().into_iter().chain(predicted))
}

/// The mean of an object under a model, and a bound of what may be expected of it.
pub fn bounds(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("query", DataType::UInt32, "the session's number within the request: 0"),
        Column::new("id", DataType::UInt64, "the object's row in the store"),
        Column::new("mean", DataType::Float64, "the mean, roughly: the expected relevance"),
        Column::new(
            "upper",
            DataType::Float64,
            "at least the mean plus the weighted deviation, within `error`",
        ),
        Column::new("error", DataType::Float64, "how far `upper` may be from its value"),
    ])
}

/// The objects of a round, in the order of the choice.
pub fn rounds(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("query", DataType::UInt32, "the session's number within the request: 0"),
        Column::new("rank", DataType::UInt32, "the place in the round, from 1"),
        Column::new("id", DataType::UInt64, "the object's row in the store"),
        Column::new("mean", DataType::Float64, "the expected relevance"),
        Column::new("deviation", DataType::Float64, "its standard deviation given the marks"),
        Column::new(
            "upper",
            DataType::Float64,
            "the bound by which the object was chosen, given the marks and earlier ranks",
        ),
        Column::new("liked", DataType::UInt64, "the id of the mark that raises the mean most, or 2^64 - 1"),
        Column::new("liked_share", DataType::Float64, "by how much it does"),
        Column::new(
            "disliked",
            DataType::UInt64,
            "the id of the mark that lowers the mean most, or 2^64 - 1",
        ),
        Column::new("disliked_share", DataType::Float64, "by how much it does, below 0"),
    ])
}

/// The parts of marks in the mean of one object.
pub fn reasons(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("query", DataType::UInt32, "the session's number within the request: 0"),
        Column::new("id", DataType::UInt64, "the object's row in the store"),
        Column::new("mean", DataType::Float64, "the expected relevance of the object"),
        Column::new("deviation", DataType::Float64, "its standard deviation"),
        Column::new("mark", DataType::UInt64, "the id of a mark, or 2^64 - 1 if there is none"),
        Column::new("name", DataType::Utf8, "the mark's name"),
        Column::new("relevance", DataType::Float64, "the mark's relevance, from 0 to 1"),
        Column::new("noise", DataType::Float64, "the variance of the relevance's noise"),
        Column::new("share", DataType::Float64, "by how much the mark raises or lowers the mean"),
        Column::new("distance", DataType::Float64, "of the object from the mark's object"),
    ])
}

/// The finds of a simulated session.
pub fn sessions(_: &Arguments) -> Descriptor {
    let item = Arc::new(Field::new("item", DataType::UInt32, false));
    Descriptor::new([
        Column::new("method", DataType::Utf8, "the method that chose the objects"),
        Column::new("class", DataType::Utf8, "the class that the user looks for"),
        Column::new("user", DataType::UInt32, "the user's number, from 0"),
        Column::new(
            "first",
            DataType::UInt32,
            "objects shown up to the first relevant one; one more than all if there was none",
        ),
        Column::new(
            "tenth",
            DataType::UInt32,
            "objects shown up to the tenth relevant one; one more than all if there was none",
        ),
        Column::new("found", DataType::List(item), "relevant objects among those shown, after each round"),
    ])
}

/// Objects by id and name.
pub fn pictures(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("id", DataType::UInt64, "the object's row in the store"),
        Column::new("name", DataType::Utf8, "the object's name: the path below the folder of the pictures"),
    ])
}

/// Small pictures.
pub fn thumbnails(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("id", DataType::UInt64, "the object's row in the store"),
        Column::new("jpeg", DataType::Binary, "a JPEG file; empty for an object without a picture"),
    ])
}

/// The frequencies and directions of sketches.
pub fn basis(_: &Arguments) -> Descriptor {
    let numbers = DataType::List(Arc::new(Field::new("item", DataType::Float32, false)));
    Descriptor::new([
        Column::new("seed", DataType::UInt64, "the seed of the frequencies"),
        Column::new("frequencies", DataType::UInt32, "their number"),
        Column::new(
            "numbers",
            numbers,
            "the directions: the place of the sample's mean, then their parts for each feature",
        ),
    ])
}

/// Bytes of a sketch.
pub(crate) const SKETCH_BYTES: i32 = 2 * COORDINATES as i32;

/// The sketch of an object.
pub fn sketches(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("id", DataType::UInt64, "the object's row in the store"),
        Column::new(
            "sketch",
            DataType::FixedSizeBinary(SKETCH_BYTES),
            "64 half-precision numbers, little-endian",
        ),
    ])
}

/// The centroids of lists, and the codebook of their codes.
pub fn quantizers(_: &Arguments) -> Descriptor {
    let numbers = || DataType::List(Arc::new(Field::new("item", DataType::Float32, false)));
    Descriptor::new([
        Column::new("dimensions", DataType::UInt32, "the numbers of a vector"),
        Column::new("codes", DataType::Utf8, "what lists hold: rows, product, fast or rabitq"),
        Column::new("parts", DataType::UInt32, "the parts of a code, 0 for rows"),
        Column::new("centroids", numbers(), "the centroid of each list, one after the other"),
        Column::new("codebook", numbers(), "the centroids of each part, one after the other"),
        Column::new(
            "rotation",
            numbers(),
            "the rows of the rotation before codes, one after the other; none without",
        ),
    ])
}

/// The list of an object, and its code.
pub fn assigned(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("id", DataType::UInt64, "the object's row in the store"),
        Column::new("list", DataType::UInt32, "the list of the nearest centroid"),
        Column::new("code", DataType::Binary, "a byte for each part of the code; empty for rows"),
    ])
}

/// A list to look into for a query.
pub fn probes(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("query", DataType::UInt32, "the query's number within the request"),
        Column::new("list", DataType::UInt32, "the number of the list"),
        Column::new("distance", DataType::Float64, "of the list's centroid from the query"),
    ])
}
