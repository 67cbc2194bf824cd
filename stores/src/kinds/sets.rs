//! Sets: whole numbers, ascending, each once.

use super::Kind;
use crate::object_column::{Item, ObjectKind};

/// Sets of u32.
#[derive(Debug)]
pub struct Sets;

impl Kind for Sets {
    const KIND: ObjectKind = ObjectKind::Sets;
    type Item<'a> = &'a [u32];

    fn of(item: Item<'_>) -> Option<&[u32]> {
        if let Item::Set(set) = item { Some(set) } else { None }
    }
}
