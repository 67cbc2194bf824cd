//! `diversify`: at most a few results of one folder, so that ten pictures of one evening do not fill the page.

use std::collections::HashMap;
use std::sync::Arc;

use boxwork::prelude::*;
use boxwork_stores::store::{SharedStore, Store};

const RESULTS: In = In::stream(0, "distances", columns::distances, "results, nearest first");
const KEPT: Out = Out::new(0, "distances", columns::distances, "the results that are kept");

/// Keeps the nearest few objects of each folder.
///
/// # Inputs
/// `distances`: sorted by query and distance, as `top_k` gives them.
///
/// # Outputs
/// `distances`: those that are kept, in the same order.
///
/// # Parameters
/// `store`: knows the names. `most`: how many objects of one folder are kept for a query.
pub static DIVERSIFY: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "store",
            ParameterType::Resource("store"),
            ParameterDefault::Required,
            "knows the names",
        ),
        Parameter::new(
            "most",
            ParameterType::integer_from(1),
            ParameterDefault::Integer(2),
            "objects kept of one folder",
        ),
    ],
    inputs: &[RESULTS],
    outputs: &[KEPT],
    example: "varied: {kind: diversify, store: signatures, most: 2}",
    ..OperatorSpec::new("diversify", "Keeps the nearest few objects of each folder.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let store = Arc::clone(&bind.resource::<SharedStore>("store")?.0);
    Ok(Box::new(Diversify { store, most: bind.count("most"), kept: HashMap::new() }))
}

struct Diversify {
    store: Arc<dyn Store>,
    most: usize,
    /// By query and folder: how many objects were kept.
    kept: HashMap<(u32, String), usize>,
}

impl Operator for Diversify {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(KEPT) {
            let Some(results) = cx.take(RESULTS) else {
                return Ok(if cx.is_ended(RESULTS) { Flow::Done } else { Flow::Wait });
            };
            let kept = self.keep(&results)?;
            cx.push(KEPT, kept)?;
        }
        Ok(Flow::Wait)
    }
}

impl Diversify {
    fn keep(&mut self, results: &Envelope) -> Result<Envelope, BoxError> {
        let (queries, ids) = (results.u32s("query")?, results.u64s("id")?);
        let mut rows = Vec::new();
        for row in 0..results.rows() {
            let name = self.store.name(ids[row])?;
            let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
            let count = self.kept.entry((queries[row], folder)).or_default();
            *count += 1;
            if *count <= self.most {
                rows.push(row);
            }
        }
        Ok(results.take(&rows)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_custom_operator_is_checked_like_a_shipped_one() {
        let with_diversify = catalog().with(&DIVERSIFY);
        let text = include_str!("../varied_search.yaml");
        let loaded =
            boxwork::pipeline::load_text("varied_search.yaml", text).expect("the text is well formed");
        let (plan, diagnostics) = loaded.check(&with_diversify, &loaded.declaration.defaults());
        assert!(plan.is_some(), "{diagnostics:?}");
        // The shipped command does not know it, and says so.
        let (plan, _) = loaded.check(&catalog(), &loaded.declaration.defaults());
        assert!(plan.is_none());
    }
}
