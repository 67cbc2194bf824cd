//! Vectors: as many finite numbers for each object.

use super::Kind;
use crate::object_column::{Item, ObjectKind};

/// Vectors of f32.
#[derive(Debug)]
pub struct Vectors;

impl Kind for Vectors {
    const KIND: ObjectKind = ObjectKind::Vectors;
    type Item<'a> = &'a [f32];

    fn of(item: Item<'_>) -> Option<&[f32]> {
        if let Item::Vector(vector) = item { Some(vector) } else { None }
    }
}
