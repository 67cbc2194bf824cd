//! `json`: the results of a search as one JSON object.

use boxwork_runtime::operator::{Bind, BoxError, Kind, Operator, OperatorSpec, Part};

use crate::columns;
use crate::results::looked::Looked;
use crate::results::rows::RowSink;
use crate::results::sink::{Answer, INPUTS, PARAMETERS, TextSink, exact_text, share_writer};

/// Writes results as JSON.
///
/// One object, whichever number of requests the run has:
/// `{"queries": [{"query": "...", "results": [{"rank": 1, "id": 17, "name": "...", "distance": 0.123}]}]}`.
/// With `probes`, it begins with `"exact": false, "probes": 8`, and `"refine": 10` if lists hold codes. Distances are read back to the bit.
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
pub static JSON: OperatorSpec = OperatorSpec {
    parameters: PARAMETERS,
    inputs: INPUTS,
    gives: Some(columns::answers),
    example: "results: {kind: json, store: signatures, out: results.json}",
    share: Some(share_writer),
    ..OperatorSpec::new("json", "Writes results as JSON.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    if let Some(rows) = RowSink::make(bind)? {
        return Ok(rows);
    }
    TextSink::make(bind, render)
}

pub(crate) fn render(answers: &[Answer], part: Part, looked: Option<Looked>) -> String {
    let mut text = String::new();
    if part.idx == 0 {
        text.push('{');
        text.push_str(&looked.map_or_else(String::new, Looked::members));
        text.push_str("\"queries\": [");
    }
    for (idx, answer) in answers.iter().enumerate() {
        text.push_str(if part.idx == 0 && idx == 0 { "\n" } else { ",\n" });
        text.push_str(&format!("{{\"query\": {}, \"results\": [", quoted(&answer.query)));
        for hit in &answer.hits {
            text.push_str(&format!(
                "{}\n  {{\"rank\": {}, \"id\": {}, \"name\": {}, \"distance\": {}}}",
                if hit.rank == 1 { "" } else { "," },
                hit.rank,
                hit.id,
                quoted(&hit.name),
                exact_text(hit.distance)
            ));
        }
        text.push_str("]}");
    }
    if part.idx + 1 == part.count {
        text.push_str("\n]}\n");
    }
    text
}

/// A text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sink::Hit;

    #[test]
    fn parts_make_one_object() {
        let hit = |rank, id, distance| Hit { rank, id, name: format!("a \"{id}\"\n"), distance };
        let first = [
            Answer { query: "q\\0".into(), hits: vec![hit(1, 7, 0.0), hit(2, 9, 1.0 / 3.0)] },
            Answer { query: "q1".into(), hits: vec![] },
        ];
        let second = [Answer { query: "q2".into(), hits: vec![hit(1, 8, 0.25)] }];
        let text = render(&first, Part { idx: 0, count: 2 }, None)
            + &render(&second, Part { idx: 1, count: 2 }, None);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let queries = json["queries"].as_array().unwrap();
        assert_eq!(queries.len(), 3);
        assert_eq!(queries[0]["query"], "q\\0");
        assert_eq!(
            queries[0]["results"][1].to_string(),
            r#"{"rank":2,"id":9,"name":"a \"9\"\n","distance":0.3333333333333333}"#
        );
        assert_eq!(queries[1]["results"].as_array().unwrap().len(), 0);
        assert_eq!(queries[2]["results"][0]["distance"], 0.25);
        let none: serde_json::Value = serde_json::from_str(&render(&[], Part::WHOLE, None)).unwrap();
        assert_eq!(none["queries"].as_array().unwrap().len(), 0);
        let looked = Looked::Lists { probes: 8, refine: Some(10) };
        let approximate: serde_json::Value =
            serde_json::from_str(&render(&second, Part::WHOLE, Some(looked))).unwrap();
        assert_eq!((&approximate["exact"], &approximate["probes"]), (&false.into(), &8.into()));
        assert_eq!(approximate["refine"], 10);
        assert_eq!(approximate["queries"][0]["query"], "q2");
    }
}
