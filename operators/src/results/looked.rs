//! The part of the objects that the queries of an approximate search looked at, as every sink says it.

use boxwork_runtime::operator::{Bind, BoxError};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::lists::{Coding, Lists};

/// The lists that were searched.
pub(crate) const LISTS: Parameter = Parameter::new(
    "lists",
    ParameterType::Resource("lists"),
    Default::Absent,
    "the lists that were searched: results say `refine` only if these hold codes",
);

pub(crate) const PROBES: Parameter = Parameter::new(
    "probes",
    ParameterType::integer_from(1),
    Default::Absent,
    "how many lists a query looked into, if it did not look at all objects: results are marked as not exact",
)
.unit("lists");

pub(crate) const REFINE: Parameter = Parameter::new(
    "refine",
    ParameterType::integer_from(1),
    Default::Absent,
    "`refine` of the `scan_lists` of the search, which results say beside `probes`",
);

pub(crate) const CANDIDATES: Parameter = Parameter::new(
    "candidates",
    ParameterType::integer_from(0),
    Default::Absent,
    "`candidates` of the `permutation_candidates` of the search, if it has one: results are marked as not exact",
)
.unit("objects");

pub(crate) const EXPANSION: Parameter = Parameter::new(
    "expansion",
    ParameterType::integer_from(1),
    Default::Absent,
    "`expansion` of the `hnsw_candidates` of the search, if it has one: results are marked as not exact",
)
.unit("vectors");

/// The part of the objects that a query looked at, if it did not look at all: then its answer is approximate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looked {
    /// So many lists, with so many candidates for each object to find if lists hold codes.
    Lists { probes: i64, refine: Option<i64> },
    /// Those that a walk through a graph met, of which it kept so many.
    Graph(i64),
    /// So many candidates by permutations; 0 if their number depends on the store.
    Candidates(i64),
}

impl Looked {
    /// As the parameters of a sink say.
    pub(crate) fn of(bind: &Bind<'_>) -> Result<Option<Self>, BoxError> {
        if let Some(expansion) = bind.get_integer(EXPANSION.name) {
            return Ok(Some(Self::Graph(expansion)));
        }
        let Some(probes) = bind.get_integer(PROBES.name) else {
            return Ok(bind.get_integer(CANDIDATES.name).map(Self::Candidates));
        };
        let lists = bind.get_resource::<Lists>(LISTS.name)?;
        let has_codes = lists.is_none_or(|lists| lists.quantizers().coding() != Coding::Rows);
        let refine = bind.get_integer(REFINE.name).filter(|_| has_codes);
        Ok(Some(Self::Lists { probes, refine }))
    }

    /// In words, as the rest of a sentence about an approximate answer.
    pub(crate) fn in_words(self) -> String {
        match self {
            Self::Lists { probes, refine } => {
                let of_codes = refine.map(|count| format!(", and ranked {count} candidates for each object"));
                format!("each query looked into the {probes} nearest lists{}", of_codes.unwrap_or_default())
            }
            Self::Graph(expansion) => {
                format!(
                    "each query walked through a graph of near neighbours, with an expansion of {expansion}"
                )
            }
            Self::Candidates(0) => {
                "each query looked at the objects with the most similar permutations".to_owned()
            }
            Self::Candidates(count) => {
                format!("each query looked at the {count} objects with the most similar permutations")
            }
        }
    }

    /// The numbers that say it, by name.
    pub(crate) fn numbers(self) -> Vec<(&'static str, i64)> {
        match self {
            Self::Lists { probes, refine } => {
                let refine = refine.map(|count| (REFINE.name, count));
                std::iter::once((PROBES.name, probes)).chain(refine).collect()
            }
            Self::Graph(expansion) => vec![(EXPANSION.name, expansion)],
            Self::Candidates(0) => Vec::new(),
            Self::Candidates(count) => vec![(CANDIDATES.name, count)],
        }
    }

    /// As members of a JSON object.
    pub(crate) fn members(self) -> String {
        let numbers = self.numbers().into_iter().map(|(name, number)| format!("\"{name}\": {number}, "));
        std::iter::once("\"exact\": false, ".to_owned()).chain(numbers).collect()
    }

    /// The titles and the values of columns.
    pub(crate) fn columns(self) -> (String, String) {
        let (mut titles, mut values) = (",exact".to_owned(), ",false".to_owned());
        for (name, number) in self.numbers() {
            titles.push_str(&format!(",{name}"));
            values.push_str(&format!(",{number}"));
        }
        (titles, values)
    }

    /// As the metadata of rows.
    pub(crate) fn metadata(self) -> Vec<(String, String)> {
        let numbers = self.numbers().into_iter().map(|(name, number)| (name, number.to_string()));
        let all = std::iter::once(("exact", "false".to_owned())).chain(numbers);
        all.map(|(name, value)| (format!("boxwork.{name}"), value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_looked_at_is_said_in_every_form() {
        let rows = Looked::Lists { probes: 8, refine: None };
        assert_eq!(rows.members(), "\"exact\": false, \"probes\": 8, ");
        assert_eq!(rows.columns(), (",exact,probes".to_owned(), ",false,8".to_owned()));
        let codes = Looked::Lists { probes: 8, refine: Some(20) };
        assert_eq!(codes.members(), "\"exact\": false, \"probes\": 8, \"refine\": 20, ");
        assert_eq!(codes.columns(), (",exact,probes,refine".to_owned(), ",false,8,20".to_owned()));
        let metadata = [("boxwork.exact", "false"), ("boxwork.probes", "8"), ("boxwork.refine", "20")];
        assert_eq!(codes.metadata(), metadata.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(codes.in_words().ends_with("the 8 nearest lists, and ranked 20 candidates for each object"));
        assert_eq!(Looked::Graph(64).members(), "\"exact\": false, \"expansion\": 64, ");
        assert_eq!(Looked::Graph(64).columns(), (",exact,expansion".to_owned(), ",false,64".to_owned()));
        assert_eq!(Looked::Candidates(0).columns().0, ",exact");
        assert_eq!(Looked::Candidates(9).members(), "\"exact\": false, \"candidates\": 9, ");
    }
}
