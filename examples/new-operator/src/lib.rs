//! `new_operator`: keeps the results within a distance.

use boxwork_runtime::arrow::schema::DataType;
use boxwork_runtime::prelude::*;

const RESULTS: In = In::stream(0, "results", results, "results of a search");
const KEPT: Out = Out::new(0, "kept", results, "the results within the distance");

/// The columns that the ports take and give.
fn results(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("query", DataType::UInt32, "the query's number within the request"),
        Column::new("id", DataType::UInt64, "the object's row in the store"),
        Column::new("distance", DataType::Float64, "of the object from the query"),
    ])
}

/// Keeps the results within a distance.
///
/// # Inputs
/// `results`: results of a search.
///
/// # Outputs
/// `kept`: the results within the distance, in the same order.
///
/// # Parameters
/// `within`: the greatest distance that is kept.
pub static NEW_OPERATOR: OperatorSpec = OperatorSpec {
    parameters: &[Parameter::new(
        "within",
        ParameterType::number_from(0.0),
        ParameterDefault::Number(1.0),
        "the greatest distance that is kept",
    )],
    inputs: &[RESULTS],
    outputs: &[KEPT],
    example: "near: {kind: new_operator, within: 2}",
    ..OperatorSpec::new("new_operator", "Keeps the results within a distance.", Kind::Ordered, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(NewOperator { within: bind.number("within") }))
}

struct NewOperator {
    within: f64,
}

impl Operator for NewOperator {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(KEPT) {
            let Some(results) = cx.take(RESULTS) else {
                return Ok(if cx.is_ended(RESULTS) { Flow::Done } else { Flow::Wait });
            };
            let distances = results.f64s("distance")?;
            let near: Vec<bool> = distances.iter().map(|distance| *distance <= self.within).collect();
            cx.push(KEPT, results.filter(&near)?)?;
        }
        Ok(Flow::Wait)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use boxwork_runtime::arrow::array::{Float64Array, UInt32Array, UInt64Array};

    use super::*;

    #[test]
    fn results_within_the_distance_are_kept() -> Result<(), BoxError> {
        let mut harness = Harness::new(&NEW_OPERATOR, [("within", Value::Number(2.0))])?;
        let results = Envelope::from_columns([
            ("query", Arc::new(UInt32Array::from(vec![0, 0, 0])) as _),
            ("id", Arc::new(UInt64Array::from(vec![7, 8, 9])) as _),
            ("distance", Arc::new(Float64Array::from(vec![0.5, 2.0, 2.5])) as _),
        ])?;
        harness.give(RESULTS, results);
        harness.end(RESULTS);
        harness.run()?;
        let kept = harness.taken(KEPT);
        assert_eq!(kept.len(), 1);
        assert_eq!(kept[0].u64s("id")?, [7, 8]);
        assert!(harness.is_done());
        Ok(())
    }

    #[cfg(feature = "command")]
    #[test]
    fn the_pipeline_has_no_faults() {
        let text = include_str!("../pipeline.yaml");
        let loaded = boxwork::pipeline::load_text("pipeline.yaml", text).expect("the text is well formed");
        let catalog = boxwork::catalog().with(&NEW_OPERATOR);
        let (plan, faults) = loaded.check(&catalog, &loaded.declaration.defaults());
        assert!(plan.is_some() && faults.is_empty(), "{faults:?}");
    }
}
