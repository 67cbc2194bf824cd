//! `metric_results`: the end of a search among objects of any kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Input, Kind, Operator, OperatorSpec, Part};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use super::{csv, json, table};
use crate::columns;
use crate::results::sink::{Answer, Hit, OUT, OrderedWriter, share_writer};
use crate::search::read_objects::SPACE;
use boxwork_stores::metric_space::MetricSpace;

/// Writes the results of a search in a metric space.
///
/// The formats are those of the sinks of the same names.
///
/// # Inputs
/// `results`: distances. `query` (side): the queries.
///
/// # Outputs
/// None.
///
/// # Parameters
/// `space`: the objects, for their names. `format`: `table`, `json` or `csv`. `out`: the file to write, or `-` for
/// standard output.
pub static METRIC_RESULTS: OperatorSpec = OperatorSpec {
    parameters: &[
        SPACE,
        Parameter::new(
            "format",
            ParameterType::Choice(&["table", "json", "csv"]),
            Default::Text("table"),
            "what the results look like",
        ),
        OUT,
    ],
    inputs: &[
        Input::stream("results", columns::distances, "the objects found and their distances"),
        Input::side("query", columns::object_queries, "the queries, for their names"),
    ],
    example: "results: {kind: metric_results, space: space, format: json}",
    share: Some(share_writer),
    ..OperatorSpec::new("metric_results", "Writes results of any kind.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(MetricResults {
        space: bind.resource("space")?,
        writer: bind.shared(),
        part: bind.part,
        render: match bind.text("format") {
            "json" => json::render,
            "csv" => csv::render,
            _ => table::render,
        },
        rows: Vec::new(),
    }))
}

struct MetricResults {
    space: Arc<MetricSpace>,
    writer: Arc<OrderedWriter>,
    part: Part,
    render: fn(&[Answer], Part) -> String,
    rows: Vec<(u32, f64, u64)>,
}

impl Operator for MetricResults {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take("results") {
            let (queries, ids) = (envelope.u32s("query")?, envelope.u64s("id")?);
            let distances = envelope.f64s("distance")?;
            self.rows.extend((0..envelope.rows()).map(|row| (queries[row], distances[row], ids[row])));
        }
        if !cx.is_ended("results") {
            return Ok(Flow::Wait);
        }
        let mut rows = std::mem::take(&mut self.rows);
        rows.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
        // A query for which nothing was found has an answer too.
        let mut answers: BTreeMap<u32, Answer> = BTreeMap::new();
        for envelope in cx.side("query") {
            let names = envelope.texts("name")?;
            for (row, number) in envelope.u32s("query")?.iter().enumerate() {
                answers.insert(*number, Answer { query: names.value(row).to_owned(), hits: Vec::new() });
            }
        }
        let (space, writer, part, render) = (&self.space, &self.writer, self.part, self.render);
        cx.detached("disk", || {
            for (number, distance, id) in rows {
                let Some(answer) = answers.get_mut(&number) else { continue };
                let rank = answer.hits.len() + 1;
                answer.hits.push(Hit { rank, id, name: space.name(id)?, distance });
            }
            let answers: Vec<Answer> = answers.into_values().collect();
            writer.write(part, render(&answers, part).into_bytes())
        })??;
        Ok(Flow::Done)
    }
}
