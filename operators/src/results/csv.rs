//! `csv`: the results of a search as comma-separated lines.

use std::borrow::Cow;

use boxwork_runtime::operator::{Bind, BoxError, Kind, Operator, OperatorSpec, Part};

use crate::columns;
use crate::results::looked::Looked;
use crate::results::rows::RowSink;
use crate::results::sink::{Answer, INPUTS, PARAMETERS, TextSink, exact_text, share_writer};

/// Writes results as CSV (RFC 4180, but with plain line feeds).
///
/// A header, then a line a result: `query,rank,id,name,distance`. With `probes`, columns `exact,probes` follow, and `refine` if lists
/// hold codes. Distances are read back to the bit.
///
/// # Inputs
/// `results`: distances. `query` (side): the queries.
///
/// # Outputs
/// None. A request's caller may take the results as rows (`Submission::outputs`); nothing is written then.
///
/// # Parameters
/// `store`: the store that was searched. `out`: the file to write, or `-` for standard output. `space`, `k`, `range`,
/// `truth`: of no effect here; with them the format may be a parameter. `probes`, `refine`, `lists`, `candidates`, `expansion`: what
/// an approximate search looked at.
pub static CSV: OperatorSpec = OperatorSpec {
    parameters: PARAMETERS,
    inputs: INPUTS,
    gives: Some(columns::answers),
    example: "results: {kind: csv, store: signatures, out: results.csv}",
    share: Some(share_writer),
    ..OperatorSpec::new("csv", "Writes results as comma-separated lines.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    if let Some(rows) = RowSink::make(bind)? {
        return Ok(rows);
    }
    TextSink::make(bind, render)
}

pub(crate) fn render(answers: &[Answer], part: Part, looked: Option<Looked>) -> String {
    // Columns that only approximate results have.
    let (titles, values) = looked.map(Looked::columns).unwrap_or_default();
    let mut text = String::new();
    if part.idx == 0 {
        text.push_str(&format!("query,rank,id,name,distance{titles}\n"));
    }
    for answer in answers {
        let query = field(&answer.query);
        for hit in &answer.hits {
            let (name, distance) = (field(&hit.name), exact_text(hit.distance));
            text.push_str(&format!("{query},{},{},{name},{distance}{values}\n", hit.rank, hit.id));
        }
    }
    text
}

/// A field, quoted if it must be.
pub(crate) fn field(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) {
        Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sink::Hit;

    #[test]
    fn quotes_what_must_be_and_writes_one_header() {
        let answer = |query: &str, name: &str| Answer {
            query: query.to_owned(),
            hits: vec![Hit { rank: 1, id: 3, name: name.to_owned(), distance: 0.5 }],
        };
        let text = render(&[answer("a,b", "c\"d")], Part { idx: 0, count: 2 }, None)
            + &render(&[answer("e", "f")], Part { idx: 1, count: 2 }, None);
        let looked = Looked::Lists { probes: 3, refine: None };
        let approximate = render(&[answer("e", "f")], Part::WHOLE, Some(looked));
        assert_eq!(approximate, "query,rank,id,name,distance,exact,probes\ne,1,3,f,0.5,false,3\n");
        assert_eq!(text, "query,rank,id,name,distance\n\"a,b\",1,3,\"c\"\"d\",0.5\ne,1,3,f,0.5\n");
    }
}
