//! Orders of firings that are hard to meet by chance.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arrow_array::{ArrayRef, UInt32Array};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::DataType;

use super::alone::{end, fire, model, of_kind, prepare, run};
use super::notify::NewTasks;
use super::{After, Model};
use crate::descriptor::{Column, Descriptor};
use crate::envelope::Envelope;
use crate::operator::{BoxError, Catalog, Context, Flow, In, Kind, Operator, OperatorSpec, Out};
use crate::parameter::{Arguments, Value};
use crate::plan::{Declaration, EdgeDeclaration, Setting};

static MODEL: OnceLock<Weak<Model>> = OnceLock::new();
/// Columns that were dropped while the order of results was locked, and while it was not.
static DROPPED: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
const FIRST_COPY: usize = 1;
const OTHER_COPY: usize = 2;
const CONSUMER: usize = 3;
static FIRINGS: AtomicUsize = AtomicUsize::new(0);

/// The memory of a column. When it is dropped, it checks whether the order of results is locked.
struct Watched([u32; 1]);

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(model) = MODEL.get().and_then(Weak::upgrade) {
            let is_free = model.reorders[0].try_lock().is_some();
            DROPPED[usize::from(is_free)].fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[expect(unsafe_code, reason = "a column that runs code of the test when it is dropped")]
fn watched() -> Envelope {
    let memory = Arc::new(Watched([7]));
    let start = NonNull::from(&memory.0).cast::<u8>();
    // SAFETY: the memory lies behind the pointer that the buffer keeps, and is never written.
    let buffer = unsafe { Buffer::from_custom_allocation(start, 4, memory) };
    let column: ArrayRef = Arc::new(UInt32Array::new(ScalarBuffer::new(buffer, 0, 1), None));
    Envelope::from_columns([("n", column)]).unwrap()
}

fn number(_: &Arguments) -> Descriptor {
    Descriptor::new([Column::new("n", DataType::UInt32, "a number")])
}

struct Pair;

impl Operator for Pair {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        for _ in 0..2 {
            let column: ArrayRef = Arc::new(UInt32Array::from(vec![1]));
            cx.push(OUT, Envelope::from_columns([("n", column)])?)?;
        }
        Ok(Flow::Done)
    }
}

const OUT: Out = Out::new(0, "out", number, "two numbers");

static PAIR: OperatorSpec = OperatorSpec {
    outputs: &[OUT],
    ..OperatorSpec::new("pair", "pushes two envelopes", Kind::Stateful, |_| Ok(Box::new(Pair)))
};

/// The copy that takes the first envelope pushes nothing. Before its firing ends, the other copy answers the second
/// envelope and the consumer closes.
struct Answer;

impl Operator for Answer {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some(_) = cx.take(IN) else {
            return Ok(if cx.is_ended(IN) { Flow::Done } else { Flow::Wait });
        };
        if FIRINGS.fetch_add(1, Ordering::SeqCst) > 0 {
            cx.push(OUT, watched())?;
        } else if let Some(model) = MODEL.get().and_then(Weak::upgrade) {
            run(&model, OTHER_COPY);
            assert!(model.notify_of_outside(CONSUMER));
            run(&model, CONSUMER);
        }
        Ok(Flow::Wait)
    }
}

const IN: In = In::stream(0, "in", number, "numbers");

static ANSWER: OperatorSpec = OperatorSpec {
    inputs: &[IN],
    outputs: &[Out { about: "a watched column for one of them", ..OUT }],
    ..OperatorSpec::new("answer", "answers in order", Kind::Ordered, |_| Ok(Box::new(Answer)))
};

struct Satisfied;

impl Operator for Satisfied {
    fn process(&mut self, _: &mut Context<'_>) -> Result<Flow, BoxError> {
        Ok(Flow::Done)
    }
}

static SATISFIED: OperatorSpec = OperatorSpec {
    inputs: &[In { about: "not needed", ..IN }],
    ..OperatorSpec::new("satisfied", "takes nothing", Kind::Stateful, |_| Ok(Box::new(Satisfied)))
};

#[test]
fn results_for_a_closed_edge_are_dropped_outside_the_lock_of_their_order() {
    let mut answer = of_kind("answer", Vec::new());
    answer.copies = Some(Setting::Value(Value::Integer(2)));
    let edge = |from, to| EdgeDeclaration { from: end(from), to: end(to), envelopes: Some(2), bytes: None };
    let declaration = Declaration {
        boxes: vec![of_kind("pair", Vec::new()), answer, of_kind("satisfied", Vec::new())],
        edges: vec![edge("pair", "answer"), edge("answer", "satisfied")],
        ..Declaration::default()
    };
    let catalog = Catalog::new([&PAIR, &ANSWER, &SATISFIED], []);
    let model = model(prepare(&declaration, &catalog));
    assert!(MODEL.set(Arc::downgrade(&model)).is_ok());
    let mut new_tasks = NewTasks::default();
    model.start(&mut new_tasks);
    let source = new_tasks.drain().next().unwrap().0;
    assert_eq!(fire(&model, source, &mut new_tasks), After::Ended);
    let planned: Vec<usize> = new_tasks.drain().map(|(cell, _)| cell).collect();
    assert_eq!(planned, [FIRST_COPY, OTHER_COPY]);
    run(&model, FIRST_COPY);
    assert!(model.settle().is_none(), "all boxes are done");
    model.conclude();
    assert_eq!(model.wait(None).unwrap().result, Ok(()));
    let [locked, free] = DROPPED.each_ref().map(|count| count.load(Ordering::SeqCst));
    assert_eq!((locked, free), (0, 1), "a column was dropped under a lock");
}
