//! The kinds of objects that a column holds, as types: a distance names the kind that it compares.

mod sets;
mod texts;
mod vectors;

use std::fmt::Debug;

use crate::object_column::{Item, ObjectKind};

pub use sets::Sets;
pub use texts::Texts;
pub use vectors::Vectors;

/// A kind of object.
pub trait Kind: Debug + Send + Sync + 'static {
    /// The kind as a value.
    const KIND: ObjectKind;

    /// One object, borrowed.
    type Item<'a>: Copy;

    /// The object that an item is; nothing where it is of another kind.
    fn of(item: Item<'_>) -> Option<Self::Item<'_>>;
}
