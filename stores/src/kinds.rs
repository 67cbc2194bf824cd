//! The kinds of objects, one file each: the columns of their files, their checks, and the forms in which they come.
//!
//! A store file, its lock, its changes and its names know no kind: [`ObjectStore`](crate::object_store::ObjectStore) is
//! generic over this trait. A new kind is a file here and a line in [`KINDS`](crate::any_kind::KINDS).

pub(crate) mod lists;
pub mod signatures;
mod vectors;
mod texts;
mod sets;
mod codes;

use std::fmt::Debug;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field, Schema};
use serde_json::Value;

pub use codes::Codes;
pub use sets::Sets;
pub use signatures::Signatures;
pub use texts::Texts;
pub use vectors::{DIMENSIONS_MAX, Vectors, as_f32};

/// The key of the number of coordinates or dimensions in a file's metadata.
pub(crate) const DIMENSIONS_KEY: &str = "boxwork.dimensions";
/// The column of the objects in the files of every kind but signatures.
pub const OBJECT: &str = "object";

/// A kind of object. A value says what all objects of one store have in common, such as the dimension of vectors.
pub trait Kind: Clone + Debug + PartialEq + Send + Sync + 'static {
    /// The name of the objects, in the plural. Files say it in their metadata.
    const NAME: &'static str;
    /// The distance by which boxes compare the objects if the user names none.
    const USUAL_DISTANCE: &'static str;
    /// The Arrow types that columns of other programs may have.
    const ARROW_TYPES: &'static str;
    /// The form that the text of a query must have, such as `a list such as [1, 2]`.
    const TEXT: &'static str;

    /// Whether an object in JSON is a list of members that stand in its line, beside its name, and not under a key. The
    /// text of a query spells no such object.
    const FILLS_LINE: bool = false;

    /// The names of the [columns](Kind::columns).
    const COLUMN_NAMES: &'static [&'static str] = &[OBJECT];

    /// One object, borrowed, with all that its store holds of it but its name.
    type Item<'a>: Copy;
    /// The columns of some objects, checked.
    type Batch: Debug + Send + Sync;
    /// Objects that become a batch.
    type Builder: Send;

    /// Whether objects in a store's files and in envelopes have this Arrow type.
    fn is_type(kind: &DataType) -> bool;

    /// The kind of a file with this schema; nothing if the schema is of another kind.
    fn of_schema(schema: &Schema) -> Option<Self>;

    /// The kind of the first object in a column; nothing if the column is of another kind.
    fn of_array(objects: &ArrayRef) -> Option<Self>;

    /// The kind of an object in JSON; nothing if the value has the form of another kind.
    ///
    /// # Errors
    /// The value has this form, but its object is invalid; the message names no kind.
    fn of_json(value: &Value) -> Option<Result<Self, String>>;

    /// The JSON value that the text of a query spells; nothing if it spells none.
    fn json_of_text(text: &str) -> Option<Value> {
        serde_json::from_str(text).ok()
    }

    /// The columns of a file beside ids and names. The first one holds the objects: a list or a text.
    fn columns(&self) -> Vec<Field>;

    /// Entries of a file's metadata by which [`Kind::of_schema`] knows the kind again.
    fn metadata(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// The common shape of all objects in words, such as `3 numbers`.
    fn shape(&self) -> String;

    /// Whether objects of this value have distances to those of another one.
    fn compares(&self, other: &Self) -> bool {
        self == other
    }

    /// Numbers of a vector; 0 for kinds whose objects differ in length.
    fn dimensions(&self) -> usize {
        0
    }

    /// The Arrow type of an object.
    fn object_type(&self) -> DataType {
        self.columns()[0].data_type().clone()
    }

    /// Checks [columns](Kind::columns). The numbers stay in place; everything that readers use as an index is copied
    /// first.
    ///
    /// # Errors
    /// Describes the fault of the columns.
    fn batch(&self, columns: &[ArrayRef]) -> Result<Self::Batch, String>;

    /// An object of a batch.
    ///
    /// # Panics
    /// When there is no such row.
    fn item(batch: &Self::Batch, row: usize) -> Self::Item<'_>;

    /// A builder without objects.
    fn builder(&self) -> Self::Builder;

    /// Appends an object.
    ///
    /// # Errors
    /// Describes the fault of the object, or says that the system gives no memory for it. The builder is unchanged.
    fn push(builder: &mut Self::Builder, item: Self::Item<'_>) -> Result<(), String>;

    /// Appends the object in a row of [columns](Kind::columns), of which all but the first may be missing, or in a row
    /// of a column of [another program](Kind::ARROW_TYPES).
    ///
    /// # Errors
    /// As [`Kind::push`]; and when the columns are of another type.
    fn push_row(builder: &mut Self::Builder, columns: &[ArrayRef], row: usize) -> Result<(), String>;

    /// Appends an object in JSON.
    ///
    /// # Errors
    /// As [`Kind::push`]; and when the value has another form.
    fn push_json(builder: &mut Self::Builder, value: &Value) -> Result<(), String>;

    /// Writes an object as JSON, from which [`Kind::push_json`] makes an equal one. The first object of a file also
    /// has the members from which [`Kind::of_json`] makes this value of the kind.
    fn write_json(&self, item: Self::Item<'_>, is_first: bool, text: &mut String);

    /// Whether the builder holds so many numbers that they should become a batch, whatever the number of objects.
    fn is_full(builder: &Self::Builder) -> bool;

    /// The [columns](Kind::columns) of all objects in the builder, which is empty again.
    fn finish(builder: &mut Self::Builder) -> Vec<ArrayRef>;

    /// Appends the bytes of an object, which tell it from every other object of this length. Returns its length.
    fn append_bytes(item: Self::Item<'_>, bytes: &mut Vec<u8>) -> usize;
}
