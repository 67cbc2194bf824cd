//! Fires the boxes of a model without a scheduler, for tests that choose the order themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{After, Detacher, Model, NewTasks};
use crate::inside::{Branch, Lane, Latch};
use crate::operator::{Cancelled, Catalog, Environment, Outside};
use crate::parameter::Value;
use crate::plan::{BoxDeclaration, Declaration, End, Setting};
use crate::prepare::Prepared;
use crate::request::{RequestId, Submission};

/// Slots of the machine that the models are made for.
const SLOTS: usize = 2;

/// The services of a thread that fires boxes without a scheduler.
struct Alone;

impl Lane for Alone {
    fn push(&mut self, _: Branch) {
        unreachable!("no box here has branches")
    }

    fn pop(&mut self) -> Option<Branch> {
        None
    }

    fn wait(&mut self, _: &Latch) {
        unreachable!("no box here has branches")
    }
}

impl Detacher for Alone {
    fn node(&self) -> usize {
        0
    }

    fn detached(
        &mut self,
        _: &Arc<Model>,
        _: usize,
        _: &str,
        _: &mut NewTasks,
        _: &mut dyn FnMut(),
    ) -> Result<(), Cancelled> {
        unreachable!("no box here blocks")
    }

    fn plan(&mut self, _: &Arc<Model>, _: &mut NewTasks) {}

    fn outside(&mut self, model: &Arc<Model>, cell: usize) -> Outside {
        let model = Arc::clone(model);
        Outside::new(move || assert!(!model.notify_of_outside(cell), "a box that fires was planned again"))
    }
}

/// Fires a box whose task the caller holds.
#[expect(unsafe_code, reason = "the thread that makes a task runs it")]
pub(crate) fn fire(model: &Arc<Model>, cell: usize, new_tasks: &mut NewTasks) -> After {
    // SAFETY: the task came from a notification, or from the end of the firing before.
    unsafe { model.fire(cell, &mut Alone, new_tasks) }
}

/// Fires a box whose task the caller holds, then runs the tasks that its firings have made.
pub(crate) fn run(model: &Arc<Model>, cell: usize) {
    let (mut tasks, mut new_tasks) = (vec![cell], NewTasks::default());
    while let Some(cell) = tasks.pop() {
        if let After::Again(_) = fire(model, cell, &mut new_tasks) {
            tasks.push(cell);
        }
        tasks.extend(new_tasks.drain().map(|(cell, _)| cell));
    }
}

/// Prepares a pipeline that must have no faults.
pub(crate) fn prepare(declaration: &Declaration, catalog: &Catalog) -> Arc<Prepared> {
    Arc::new(Prepared::new(declaration, catalog, &BTreeMap::new(), &Environment::of_slots(SLOTS)).unwrap())
}

/// A request of a prepared pipeline.
pub(crate) fn model(prepared: Arc<Prepared>) -> Arc<Model> {
    Model::new(RequestId(1), prepared, &Submission::default(), &Environment::of_slots(SLOTS)).unwrap()
}

/// A setting of this text.
pub(crate) fn value(text: &str) -> Setting {
    Setting::Value(Value::Text(text.to_owned()))
}

/// A box that has the name of its kind.
pub(crate) fn of_kind(name: &str, settings: Vec<(String, Setting)>) -> BoxDeclaration {
    BoxDeclaration { name: name.to_owned(), kind: value(name), copies: None, blocking: None, settings }
}

/// The end of an edge at a box that has one port there.
pub(crate) fn end(name: &str) -> End {
    End { name: name.to_owned(), port: None }
}
