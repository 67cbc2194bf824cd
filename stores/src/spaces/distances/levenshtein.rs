//! The Levenshtein distance of texts.

use boxwork_kernels::distance::{Distance, DistanceError, Levenshtein, Pattern, Properties, Slack};

use crate::kinds::Texts;
use crate::spaces::Constants;
use crate::spaces::column_space::{ColumnDistance, ColumnDistanceSpec};

/// The number of letters to insert, delete or replace.
pub(in crate::spaces) static LEVENSHTEIN: ColumnDistanceSpec<Levenshtein> =
    ColumnDistanceSpec { name: "levenshtein", constants: Constants::None, make: |_| Ok(Levenshtein) };

impl ColumnDistance for Levenshtein {
    type Kind = Texts;
    type Query = Pattern;

    fn properties(&self) -> Properties {
        Distance::properties(self)
    }

    fn slack(&self, dimensions: usize) -> Slack {
        Distance::slack(self, dimensions, 0.0)
    }

    fn query(&self, object: &[char]) -> Result<Pattern, DistanceError> {
        self.check(object)?;
        Ok(Pattern::new(object))
    }

    fn to(&self, query: &Pattern, object: &[char]) -> f64 {
        query.distance(object) as f64
    }

    fn between(&self, a: &[char], b: &[char]) -> f64 {
        self.distance(a, b)
    }
}
