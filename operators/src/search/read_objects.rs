//! `read_objects`: what a person asks for among objects of any kind.

use std::sync::Arc;

use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec, Output};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType, did_you_mean};

use crate::columns;
use boxwork_stores::metric_query::{QueryBuilder, check};
use boxwork_stores::metric_space::MetricSpace;
use boxwork_stores::object_column::{ObjectKind, OwnedItem};

/// Names that a misspelt query is compared with at most.
const SUGGESTIONS_FROM: usize = 100_000;

/// Finds the queries among the objects of a space, or reads them from what is given.
///
/// A query is the name of an object; or else an object itself: a text as it stands, a vector or a set as a list in
/// JSON, such as `[0.5, 1]`. Signatures have names only.
///
/// # Inputs
/// None.
///
/// # Outputs
/// `queries`: one envelope, numbered from 0 in the order given.
///
/// # Parameters
/// `queries`: names or objects. `space`: the objects that are searched.
pub static READ_OBJECTS: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "queries",
            ParameterType::List(&ParameterType::Text),
            Default::Required,
            "names of objects, or objects: texts, or lists of numbers such as [0.5, 1]",
        )
        .batched(),
        SPACE,
    ],
    outputs: &[Output::new("queries", columns::object_queries, "the queries")],
    example: "query: {kind: read_objects, queries: [kitten], space: space}",
    ..OperatorSpec::new("read_objects", "Finds or reads queries of any kind.", Kind::Stateful, make)
};

/// The parameter of boxes of a metric space.
pub(crate) const SPACE: Parameter = Parameter::new(
    "space",
    ParameterType::Resource("metric_space"),
    Default::Required,
    "the objects and their distance",
);

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(ReadObjects { given: bind.texts("queries"), space: bind.resource("space")? }))
}

struct ReadObjects {
    given: Vec<String>,
    space: Arc<MetricSpace>,
}

impl Operator for ReadObjects {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let (given, space) = (&self.given, &self.space);
        let envelope = cx.detached("disk", || {
            let mut builder = QueryBuilder::new(space)?;
            for query in given {
                push(&mut builder, space, query)?;
            }
            builder.finish()
        })??;
        if envelope.rows() > 0 {
            cx.push("queries", envelope)?;
        }
        Ok(Flow::Done)
    }
}

fn push(builder: &mut QueryBuilder, space: &MetricSpace, query: &str) -> Result<(), BoxError> {
    let Some(column) = space.column() else {
        let store = space.store().ok_or_else(|| BoxError::new("a space has a store or a column"))?;
        let Some(id) = store.find(query)? else {
            let near = store.read::<_, BoxError>(|objects| {
                let mut names = Vec::new();
                for batch in 0..store.batches() {
                    let named = objects.names(batch)?.zip(store.ids(batch));
                    let there = named.filter(|(_, id)| store.has(*id)).map(|(name, _)| name);
                    names.extend(there.take(SUGGESTIONS_FROM - names.len()));
                }
                Ok(did_you_mean(query, names))
            })?;
            let path = store.path().display();
            return Err(BoxError::new(format!("`{query}` is no name of an object in `{path}`{near}")));
        };
        return builder.push_object(space, id);
    };
    if let Some(id) = column.find(query) {
        return builder.push_object(space, id);
    }
    let wrong = |reason: String| BoxError::new(format!("query `{query}`: {reason}"));
    let item = if column.kind() == ObjectKind::Texts {
        OwnedItem::Text(query.chars().collect())
    } else {
        let near = || did_you_mean(query, column.names().take(SUGGESTIONS_FROM));
        let value = serde_json::from_str(query).map_err(|_| {
            wrong(format!(
                "it is neither a name in `{}` nor a list such as [1, 2]{}",
                column.path().display(),
                near()
            ))
        })?;
        OwnedItem::of_json(&value, Some(column.kind())).map_err(wrong)?
    };
    check(&item, space).map_err(wrong)?;
    builder.push_item(query, &item)
}
