//! The edit distance of texts whose insertions, deletions and replacements have costs of their own.

use std::fs;
use std::sync::Arc;

use boxwork_kernels::CodePath;
use boxwork_kernels::distance::{
    Distance as _, DistanceError, Edit, EditCosts, LetterMatrix, Properties, Slack,
};
use boxwork_kernels::interrupt::{Interrupt, Interrupted};

use crate::kinds::{Kind, Texts};
use crate::space::{Space, SpaceError};
use crate::spaces::column_space::{ColumnDistance, ColumnSpace};
use crate::spaces::options::EditConstants;
use crate::spaces::{Constants, Distance, DistanceOptions};
use crate::store::Store;

/// The least cost of edits.
pub(in crate::spaces) static EDIT: EditSpec = EditSpec { name: "edit" };

/// The named distance. Its matrix is a file, which is read when a store is opened and not before.
#[derive(Debug)]
pub(in crate::spaces) struct EditSpec {
    pub(in crate::spaces) name: &'static str,
}

/// Texts that are compared with a query at once.
const AT_ONCE: usize = 1024;

impl Distance for EditSpec {
    fn name(&self) -> &'static str {
        self.name
    }

    fn of(&self) -> &'static str {
        Texts::NAME
    }

    fn constants(&self) -> Constants {
        Constants::Costs
    }

    fn properties(&self, options: &DistanceOptions) -> Result<Properties, String> {
        let edit = Edit::new(options.costs.numbers()?).map_err(|error| error.to_string())?;
        // Costs of a matrix obey the triangle inequality or not: that is unknown before it is read.
        Ok(match options.costs.matrix {
            Some(_) => Properties::none(self.name),
            None => boxwork_kernels::distance::Distance::properties(&edit),
        })
    }

    fn open(
        &self,
        options: &DistanceOptions,
        measure: String,
        store: Arc<dyn Store>,
    ) -> Result<Arc<dyn Space>, SpaceError> {
        let edit = options.costs.open().and_then(|costs| Edit::new(costs).map_err(|error| error.to_string()));
        Ok(Arc::new(ColumnSpace::new(edit.map_err(SpaceError::Query)?, measure, store)?))
    }
}

impl EditConstants {
    /// The costs without the matrix.
    pub(in crate::spaces) fn numbers(&self) -> Result<EditCosts, String> {
        let [insert, delete, replace] =
            [self.insert, self.delete, self.replace].map(|cost| cost.unwrap_or(1));
        EditCosts::new(insert, delete, replace).map_err(|error| error.to_string())
    }

    /// The costs with the matrix, which is read.
    pub(in crate::spaces) fn open(&self) -> Result<EditCosts, String> {
        let costs = self.numbers()?;
        match self.open_matrix()? {
            Some(matrix) => {
                let file = self.matrix.as_deref().unwrap_or_default();
                costs.with_matrix(matrix).map_err(|error| format!("`{file}`: {error}"))
            }
            None => Ok(costs),
        }
    }

    /// Reads the matrix, if there is one.
    pub(in crate::spaces) fn open_matrix(&self) -> Result<Option<Arc<LetterMatrix>>, String> {
        let Some(file) = &self.matrix else { return Ok(None) };
        let text = fs::read_to_string(file).map_err(|error| format!("`{file}`: {error}"))?;
        let matrix = LetterMatrix::parse(&text).map_err(|fault| format!("`{file}`, {fault}"))?;
        Ok(Some(Arc::new(matrix)))
    }
}

/// Computes the distances of some rows of texts, some at a time.
pub(in crate::spaces) fn in_parts(
    batch: &<Texts as Kind>::Batch,
    rows: &[usize],
    out: &mut [f64],
    mut compare: impl FnMut(&[&[char]], &mut [f64]) -> Result<(), Interrupted>,
) -> Result<(), Interrupted> {
    assert_eq!(rows.len(), out.len(), "a distance a row");
    for (rows, out) in rows.chunks(AT_ONCE).zip(out.chunks_mut(AT_ONCE)) {
        let texts: Vec<&[char]> = rows.iter().map(|row| Texts::item(batch, *row)).collect();
        compare(&texts, out)?;
    }
    Ok(())
}

impl ColumnDistance for Edit {
    type Kind = Texts;
    type Query = Vec<char>;

    fn properties(&self) -> Properties {
        boxwork_kernels::distance::Distance::properties(self)
    }

    fn slack(&self, dimensions: usize) -> Slack {
        boxwork_kernels::distance::Distance::slack(self, dimensions, 0.0)
    }

    fn query(&self, object: &[char]) -> Result<Vec<char>, DistanceError> {
        Ok(object.to_vec())
    }

    fn to(&self, query: &Vec<char>, object: &[char]) -> f64 {
        self.distance(query, object)
    }

    fn to_rows(
        &self,
        query: &Vec<char>,
        batch: &<Texts as Kind>::Batch,
        rows: &[usize],
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), Interrupted> {
        in_parts(batch, rows, out, |texts, out| {
            self.costs().to_each(CodePath::detect(), query, texts, out, interrupt)
        })
    }

    fn between(&self, a: &[char], b: &[char]) -> f64 {
        self.distance(a, b)
    }
}
