//! Our sides: the graph on the slots of a runtime, and its tasks in turn.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use boxwork_kernels::cholesky::{Blocked, Factorisation, Number, Tasks as _, TileKernels, TiledMatrix};
use boxwork_operators::cholesky::factorise;
use boxwork_runtime::operator::{
    BoxError, Catalog, Context, Environment, Flow, Kind, Operator, OperatorEntry,
};
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_runtime::{Config, Runtime};

use super::Case;
use super::matrix::entry;
use super::support::clock::thread_seconds;

/// The matrix of the next run, or the factor and the seconds of the last one.
#[derive(Default)]
struct Work<T> {
    matrix: Option<TiledMatrix<T>>,
    seconds: f64,
}

/// The seconds of some work: of processor time if this thread does all of it.
pub(super) fn seconds_of(threads: usize, work: impl FnOnce()) -> f64 {
    if threads == 1 {
        return thread_seconds(work);
    }
    let begun = Instant::now();
    work();
    begun.elapsed().as_secs_f64()
}

struct Factorises<T, K> {
    work: Arc<Mutex<Work<T>>>,
    threads: usize,
    kernels: K,
}

impl<T: Number, K: TileKernels<T> + Copy + Send> Operator for Factorises<T, K> {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut matrix) = work.matrix.take() else { return Err(BoxError::new("no matrix was given")) };
        let mut result = Ok(());
        work.seconds = seconds_of(self.threads, || {
            result = cx.inside(|inside| factorise(inside, &mut matrix, self.kernels));
        });
        result?;
        work.matrix = Some(matrix);
        Ok(Flow::Done)
    }
}

/// A runtime with one box that factorises.
pub(super) struct Graph<T> {
    runtime: Runtime,
    prepared: Arc<Prepared>,
    work: Arc<Mutex<Work<T>>>,
}

impl<T: Number> Graph<T> {
    /// On so many slots, by these operations on tiles.
    pub(super) fn new<K: TileKernels<T> + Copy + Send + Sync + 'static>(threads: usize, kernels: K) -> Self {
        let work = Arc::new(Mutex::new(Work { matrix: None, seconds: 0.0 }));
        let of_box = Arc::clone(&work);
        let operator = OperatorEntry::new("factorises", "Factorises a matrix.", Kind::Stateful, move |_| {
            Ok(Box::new(Factorises { work: Arc::clone(&of_box), threads, kernels }))
        });
        let text = "boxwork: 1\nboxes:\n  f: {kind: factorises}\n";
        let loaded =
            boxwork::pipeline::load_text("cholesky", text).unwrap_or_else(|flaws| panic!("{flaws:?}"));
        let (values, environment) = (BTreeMap::<String, Value>::new(), Environment::of_slots(threads));
        let catalog = Catalog::new([], []).with(operator);
        let prepared = Prepared::new(&loaded.declaration, &catalog, &values, &environment);
        let prepared = Arc::new(prepared.unwrap_or_else(|error| panic!("{error}")));
        Self {
            runtime: Runtime::start(Config::flat(threads)).expect("the system gives threads"),
            prepared,
            work,
        }
    }

    /// The factor, and the seconds that it took.
    pub(super) fn run(&self, case: Case) -> (TiledMatrix<T>, f64) {
        let matrix = TiledMatrix::new(case.n, case.tile, entry(case.n));
        self.work.lock().unwrap_or_else(PoisonError::into_inner).matrix = Some(matrix);
        let request = self.runtime.submit(&self.prepared, &Submission::default()).expect("the values fit");
        request.wait().result.unwrap_or_else(|error| panic!("{error}"));
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        (work.matrix.take().expect("a run that succeeds leaves its factor"), work.seconds)
    }
}

/// The seconds of the tasks in turn, without a graph.
pub(super) fn in_turn<T: Number>(case: Case) -> f64
where
    Blocked: TileKernels<T>,
{
    let matrix = TiledMatrix::<T>::new(case.n, case.tile, entry(case.n));
    let factorisation = Factorisation::new(&matrix, Blocked);
    thread_seconds(|| factorisation.run_all().unwrap_or_else(|error| panic!("{error}")))
}
