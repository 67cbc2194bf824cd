//! The queries of a request, prepared for their distances once a slot has to compute some.
//!
//! Devices compute the distances of what they find, and thousands of queries take longer to prepare than to send.

use std::sync::Arc;

use boxwork_runtime::operator::{BoxError, Context};
use boxwork_stores::space::Space;

use super::INPUTS;
use crate::search::queries::Queries;
use crate::search::scan_lists::query_vectors;

/// The queries of a request, by number.
pub(super) struct Asked {
    numbers: Vec<u32>,
    prepared: Option<Queries>,
}

impl Asked {
    /// Reads the queries of the side input, and their vectors, query after query.
    ///
    /// # Errors
    /// When an object is no vector of so many finite numbers.
    pub(super) fn read(
        cx: &mut Context<'_>,
        space: &Arc<dyn Space>,
        dimensions: usize,
    ) -> Result<(Self, Vec<f32>), BoxError> {
        let asked = cx.side(INPUTS[0]).to_vec();
        match query_vectors(cx, &asked, dimensions) {
            Ok((numbers, vectors)) => Ok((Self { numbers, prepared: None }, vectors)),
            Err(error) => {
                // The space knows best what is wrong with an object.
                Queries::of_side(cx, INPUTS[0], space)?;
                Err(error)
            }
        }
    }

    /// The number of queries.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The numbers of the queries within the request, ascending.
    pub(super) fn numbers(&self) -> &[u32] {
        &self.numbers
    }

    /// The queries, prepared for their distances.
    ///
    /// # Errors
    /// As [`Queries::of_side`].
    pub(super) fn prepared(
        &mut self,
        cx: &mut Context<'_>,
        space: &Arc<dyn Space>,
    ) -> Result<&Queries, BoxError> {
        let queries = match self.prepared.take() {
            Some(queries) => queries,
            None => Queries::of_side(cx, INPUTS[0], space)?,
        };
        Ok(self.prepared.insert(queries))
    }
}
