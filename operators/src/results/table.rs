//! `table`: the results of a search for the terminal.

use boxwork_runtime::operator::{Bind, BoxError, Kind, Operator, OperatorSpec, Part};
use boxwork_runtime::printable::printable;

use crate::columns;
use crate::results::looked::Looked;
use crate::results::rows::RowSink;
use crate::results::sink::{Answer, INPUTS, PARAMETERS, TextSink, share_writer};

/// Writes results as aligned tables, one a query.
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
pub static TABLE: OperatorSpec = OperatorSpec {
    parameters: PARAMETERS,
    inputs: INPUTS,
    gives: Some(columns::answers),
    example: "results: {kind: table, store: signatures}",
    share: Some(share_writer),
    ..OperatorSpec::new("table", "Writes results as tables for people.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    if let Some(rows) = RowSink::make(bind)? {
        return Ok(rows);
    }
    TextSink::make(bind, render)
}

pub(crate) fn render(answers: &[Answer], part: Part, looked: Option<Looked>) -> String {
    let mut text = String::new();
    if let Some(looked) = looked.filter(|_| part.idx == 0) {
        text.push_str(&format!("approximate: {}\n\n", looked.in_words()));
    }
    for (idx, answer) in answers.iter().enumerate() {
        if part.idx > 0 || idx > 0 {
            text.push('\n');
        }
        text.push_str(&printable(&answer.query));
        text.push('\n');
        if answer.hits.is_empty() {
            text.push_str("  nothing found\n");
            continue;
        }
        let width = |header: &str, longest: u64| header.len().max(longest.to_string().len());
        let ranks = width("rank", answer.hits.len() as u64);
        let ids = width("id", answer.hits.iter().map(|hit| hit.id).max().unwrap_or(0));
        let distances: Vec<String> = answer.hits.iter().map(|hit| format!("{:.6}", hit.distance)).collect();
        let widest = distances.iter().map(String::len).max().unwrap_or(0).max("distance".len());
        text.push_str(&format!("  {:>ranks$}  {:>widest$}  {:>ids$}  name\n", "rank", "distance", "id"));
        for (hit, distance) in answer.hits.iter().zip(&distances) {
            let (rank, id, name) = (hit.rank, hit.id, printable(&hit.name));
            text.push_str(&format!("  {rank:>ranks$}  {distance:>widest$}  {id:>ids$}  {name}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sink::Hit;

    #[test]
    fn aligns_its_columns() {
        let hit = |rank, id, distance| Hit { rank, id, name: format!("a/{id}\u{1b}[2J"), distance };
        let answers = [
            Answer { query: "cats/1.jpg".into(), hits: vec![hit(1, 12_345, 0.0), hit(2, 9, 12.5)] },
            Answer { query: "dogs/2.jpg".into(), hits: vec![] },
        ];
        assert_eq!(
            render(&answers, Part::WHOLE, None),
            "cats/1.jpg\n  rank   distance     id  name\n     1   0.000000  12345  a/12345\u{fffd}[2J\n     2  12.500000      9  a/9\u{fffd}[2J\n\ndogs/2.jpg\n  nothing found\n"
        );
        let looked = Looked::Lists { probes: 4, refine: None };
        let approximate = render(&answers[1..], Part::WHOLE, Some(looked));
        assert!(approximate.starts_with("approximate: each query looked into the 4 nearest lists\n\ndogs"));
    }
}
