//! Alignments of texts that no search by distances takes: costs that depend on the direction, and scores.
//!
//! Their spaces compute from a query to the objects. None is in [`DISTANCES`](super::DISTANCES), because boxes take a named
//! distance of two objects in either order.

use std::sync::Arc;

use boxwork_kernels::CodePath;
use boxwork_kernels::distance::alignments::Numbers;
use boxwork_kernels::distance::{DistanceError, EditCosts, LocalScores, Properties, Slack};
use boxwork_kernels::interrupt::{Interrupt, Interrupted, never};

use super::column_space::{ColumnDistance, ColumnSpace};
use super::distances::edit::in_parts;
use super::options::EditConstants;
use crate::kinds::{Kind, Texts};
use crate::space::{Space, SpaceError};
use crate::store::Store;

/// The names of [`Alignment`].
pub const ALIGNMENTS: &[&str] = &["edit", "smith_waterman"];

/// A number of a query and a text.
#[derive(Clone, Debug)]
pub enum Alignment {
    /// The least cost of edits that turn the query into the text.
    Edit(EditCosts),
    /// The score of the best local alignment, with the opposite sign, so that the most similar text comes first.
    Local(LocalScores),
}

impl Alignment {
    /// The alignment of this name. `equal` is the score of a pair of equal letters, for `smith_waterman`. Reads the matrix, if one is
    /// given.
    ///
    /// # Errors
    /// When a cost is none, or the file of the matrix cannot be read or has a fault.
    pub fn open(name: &str, costs: &EditConstants, equal: u32) -> Result<Self, String> {
        if name == ALIGNMENTS[0] {
            return Ok(Self::Edit(costs.open()?));
        }
        let [insert, delete, replace] =
            [costs.insert, costs.delete, costs.replace].map(|cost| cost.unwrap_or(1));
        let scores = LocalScores::new(equal, replace, insert, delete).map_err(|error| error.to_string())?;
        Ok(Self::Local(match costs.open_matrix()? {
            Some(matrix) => scores.with_matrix(matrix),
            None => scores,
        }))
    }

    /// The numbers as devices compute them.
    pub fn numbers(&self) -> Numbers {
        match self {
            Self::Edit(costs) => Numbers::Edit(costs.clone()),
            Self::Local(scores) => Numbers::Local(scores.clone()),
        }
    }

    /// The space over a store of texts.
    ///
    /// # Errors
    /// When the store holds other objects.
    pub fn space(self, store: Arc<dyn Store>) -> Result<Arc<dyn Space>, SpaceError> {
        let measure = ColumnDistance::properties(&self).name.to_owned();
        Ok(Arc::new(ColumnSpace::new(self, measure, store)?))
    }

    fn to_each(
        &self,
        query: &[char],
        texts: &[&[char]],
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), Interrupted> {
        let path = CodePath::detect();
        match self {
            Self::Edit(costs) => costs.to_each(path, query, texts, out, interrupt),
            Self::Local(scores) => {
                scores.to_each(path, query, texts, out, interrupt)?;
                // A score of 0 is no negative zero.
                out.iter_mut().for_each(|score| *score = 0.0 - *score);
                Ok(())
            }
        }
    }
}

impl ColumnDistance for Alignment {
    type Kind = Texts;
    type Query = Vec<char>;

    fn properties(&self) -> Properties {
        match self {
            Self::Edit(_) => Properties::none(ALIGNMENTS[0]),
            Self::Local(_) => Properties { signed: true, ..Properties::none(ALIGNMENTS[1]) },
        }
    }

    fn slack(&self, _dimensions: usize) -> Slack {
        Slack::EXACT
    }

    fn query(&self, object: &[char]) -> Result<Vec<char>, DistanceError> {
        Ok(object.to_vec())
    }

    fn to(&self, query: &Vec<char>, object: &[char]) -> f64 {
        let mut out = [0.0];
        self.to_each(query, &[object], &mut out, &never).expect("never interrupted");
        out[0]
    }

    fn to_rows(
        &self,
        query: &Vec<char>,
        batch: &<Texts as Kind>::Batch,
        rows: &[usize],
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), Interrupted> {
        in_parts(batch, rows, out, |texts, out| self.to_each(query, texts, out, interrupt))
    }

    /// From the first object to the second one.
    fn between(&self, a: &[char], b: &[char]) -> f64 {
        self.to(&a.to_vec(), b)
    }
}
