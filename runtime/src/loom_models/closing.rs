//! The consumer of an edge closes it while the producer ends: firings of two boxes of a real model.

use std::sync::Arc;

use arrow_array::{ArrayRef, UInt32Array};
use arrow_schema::DataType;
use loom::thread;

use super::check;
use crate::descriptor::{Column, Descriptor};
use crate::envelope::Envelope;
use crate::model::NewTasks;
use crate::model::alone::{end, model, of_kind, prepare, run, value};
use crate::operator::{
    BoxError, Catalog, Context, Flow, In, Kind, Operator, OperatorSpec, Out, ResourceSpec,
};
use crate::parameter::{Arguments, Default, Parameter, ParameterType};
use crate::plan::{Declaration, EdgeDeclaration, ResourceDeclaration};
use crate::prepare::Prepared;

/// Notifies itself through a token, pushes an envelope around the item, and is done.
struct Parting(Arc<UInt32Array>);

impl Operator for Parting {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        drop(cx.outside());
        let item: ArrayRef = self.0.clone();
        cx.push(OUT, Envelope::from_columns([("n", item)])?)?;
        Ok(Flow::Done)
    }
}

/// Closes its input at once.
struct Satisfied;

impl Operator for Satisfied {
    fn process(&mut self, _: &mut Context<'_>) -> Result<Flow, BoxError> {
        Ok(Flow::Done)
    }
}

fn number(_: &Arguments) -> Descriptor {
    Descriptor::new([Column::new("n", DataType::UInt32, "a number")])
}

static ITEM: ResourceSpec = ResourceSpec {
    name: "item",
    about: "what the producer pushes",
    parameters: &[],
    example: "",
    provides: None,
    check: None,
    load: |_| Ok(Arc::new(UInt32Array::from(vec![1]))),
};

const OUT: Out = Out::new(0, "out", number, "the item");

static PARTING: OperatorSpec = OperatorSpec {
    parameters: &[Parameter::new(
        "item",
        ParameterType::Resource("item"),
        Default::Required,
        "what it pushes",
    )],
    outputs: &[OUT],
    ..OperatorSpec::new("parting", "pushes once", Kind::Stateful, |bind| {
        Ok(Box::new(Parting(bind.resource("item")?)))
    })
};

const IN: In = In::stream(0, "in", number, "not needed");

static SATISFIED: OperatorSpec = OperatorSpec {
    inputs: &[IN],
    ..OperatorSpec::new("satisfied", "takes nothing", Kind::Stateful, |_| Ok(Box::new(Satisfied)))
};

fn pipeline() -> Arc<Prepared> {
    let declaration = Declaration {
        resources: vec![ResourceDeclaration {
            name: "item".to_owned(),
            kind: value("item"),
            settings: Vec::new(),
        }],
        boxes: vec![
            of_kind("parting", vec![("item".to_owned(), value("item"))]),
            of_kind("satisfied", Vec::new()),
        ],
        edges: vec![EdgeDeclaration {
            from: end("parting"),
            to: end("satisfied"),
            envelopes: None,
            bytes: None,
        }],
        ..Declaration::default()
    };
    let catalog = Catalog::new([&PARTING, &SATISFIED], [&ITEM]);
    prepare(&declaration, &catalog)
}

#[test]
fn loom_an_edge_closed_while_its_producer_ends_is_drained_once() {
    check(3, || {
        let prepared = pipeline();
        let item = prepared.resource("item").map(Arc::clone).unwrap().downcast::<UInt32Array>().unwrap();
        let holders = Arc::strong_count(&item) + 1; // the operator keeps one
        let model = model(prepared);
        let mut new_tasks = NewTasks::default();
        model.start(&mut new_tasks);
        let producer = new_tasks.drain().next().unwrap().0;
        let consumer = 1 - producer;
        assert!(model.notify_of_outside(consumer), "the consumer has a task");
        let other = {
            let model = Arc::clone(&model);
            thread::spawn(move || run(&model, consumer))
        };
        run(&model, producer);
        other.join().unwrap();
        assert_eq!(Arc::strong_count(&item), holders, "an envelope was left on the edge, or dropped twice");
        assert!(model.settle().is_none(), "both boxes are done");
        model.conclude();
        assert_eq!(model.wait(None).unwrap().result, Ok(()));
        assert_eq!(Arc::strong_count(&item), holders - 1);
    });
}
