//! Texts: Unicode scalar values in order.

use super::Kind;
use crate::object_column::{Item, ObjectKind};

/// Texts, as their letters.
#[derive(Debug)]
pub struct Texts;

impl Kind for Texts {
    const KIND: ObjectKind = ObjectKind::Texts;
    type Item<'a> = &'a [char];

    fn of(item: Item<'_>) -> Option<&[char]> {
        if let Item::Text(text) = item { Some(text) } else { None }
    }
}
