//! How fast is a Cholesky factorisation by tiles, as a graph of tasks inside a box, beside the library's own?
//!
//! Units: GFLOP/s of f64, n^3 / 3 FLOP a factorisation, by processor time on one thread and by wall time on several. Both sides compute tiles or blocks by `faer`: own side, the
//! graph of docs/decisions/115 on the slots of a runtime; beside it `faer`'s own factorisation of the whole matrix, on as many threads of
//! rayon. A third side runs the tasks in turn on one thread without a graph: what the graph costs on one slot. Sides are measured in
//! turn. The limit is two vector FMA a cycle and core, at the clock that the bench measures.
//!
//! The factors are compared before anything is timed. The bars are those of one core: 1.3 times `faer`, 0.97 of the tasks' own rate.
//!
//! `cargo bench --bench cholesky --features faer-threads -- n=4096 tile=256 threads=1 rounds=5`
//!
//! With more threads than free cores neither the rates nor the ratios say anything.

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use boxwork_kernels::cholesky::{Factorisation, Faer, Tasks as _, TiledMatrix};
use boxwork_operators::cholesky::factorise;
use boxwork_runtime::operator::{
    BoxError, Catalog, Context, Environment, Flow, Kind, Operator, OperatorEntry,
};
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_runtime::{Config, Runtime};
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor::{self, LltParams, LltRegularization};
use faer::{Mat, Par, Spec};
use support::clock::{gigahertz, thread_seconds};
use support::{Arguments, Side, print_machine, run_rounds, verdict};

/// The largest difference of two factors of a matrix of this bench, whose entries are below n + 1.
const DIFFERENCE_MAX: f64 = 1e-9;

/// A positive definite matrix: numbers between -1 and 1, and n on the diagonal.
fn entry(n: usize) -> impl Fn(usize, usize) -> f64 {
    move |row, column| {
        let mixed = ((row << 32 | column) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11;
        let random = mixed as f64 / (1_u64 << 52) as f64 - 1.0;
        if row == column { n as f64 } else { random }
    }
}

/// The matrix of the next run, or the factor and the seconds of the last one.
#[derive(Default)]
struct Work {
    matrix: Option<TiledMatrix>,
    seconds: f64,
}

/// The seconds of some work: of processor time if this thread does all of it.
fn seconds_of(threads: usize, work: impl FnOnce()) -> f64 {
    if threads == 1 {
        return thread_seconds(work);
    }
    let begun = Instant::now();
    work();
    begun.elapsed().as_secs_f64()
}

struct Factorises {
    work: Arc<Mutex<Work>>,
    threads: usize,
}

impl Operator for Factorises {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut matrix) = work.matrix.take() else { return Err(BoxError::new("no matrix was given")) };
        let mut result = Ok(());
        work.seconds = seconds_of(self.threads, || {
            result = cx.inside(|inside| factorise(inside, &mut matrix, Faer));
        });
        result?;
        work.matrix = Some(matrix);
        Ok(Flow::Done)
    }
}

/// A runtime with one box that factorises.
struct Graph {
    runtime: Runtime,
    prepared: Arc<Prepared>,
    work: Arc<Mutex<Work>>,
}

impl Graph {
    fn new(threads: usize) -> Self {
        let work = Arc::new(Mutex::new(Work::default()));
        let of_box = Arc::clone(&work);
        let operator = OperatorEntry::new("factorises", "Factorises a matrix.", Kind::Stateful, move |_| {
            Ok(Box::new(Factorises { work: Arc::clone(&of_box), threads }))
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
    fn run(&self, matrix: TiledMatrix) -> (TiledMatrix, f64) {
        self.work.lock().unwrap_or_else(PoisonError::into_inner).matrix = Some(matrix);
        let request = self.runtime.submit(&self.prepared, &Submission::default()).expect("the values fit");
        request.wait().result.unwrap_or_else(|error| panic!("{error}"));
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        (work.matrix.take().expect("a run that succeeds leaves its factor"), work.seconds)
    }
}

/// The library's own factorisation of the whole matrix, and its seconds.
fn whole(n: usize, threads: usize) -> (Mat<f64>, f64) {
    let of = entry(n);
    let mut matrix = Mat::from_fn(n, n, |row, column| of(row.max(column), row.min(column)));
    let parallel = if threads == 1 { Par::Seq } else { Par::rayon(threads) };
    let parameters = Spec::<LltParams, f64>::default();
    let mut memory = MemBuffer::new(factor::cholesky_in_place_scratch::<f64>(n, parallel, parameters));
    let stack = MemStack::new(&mut memory);
    let of_pivots = LltRegularization::default();
    let seconds = seconds_of(threads, || {
        let factored = factor::cholesky_in_place(matrix.as_mut(), of_pivots, parallel, stack, parameters);
        factored.unwrap_or_else(|error| panic!("{error:?}"));
    });
    (matrix, seconds)
}

/// The tasks in turn, without a graph.
fn in_turn(n: usize, tile: usize) -> f64 {
    let matrix = TiledMatrix::new(n, tile, entry(n));
    let factorisation = Factorisation::new(&matrix, Faer);
    thread_seconds(|| factorisation.run_all().unwrap_or_else(|error| panic!("{error}")))
}

fn check(n: usize, tiled: &TiledMatrix, whole: &Mat<f64>) {
    let lower = tiled.lower();
    let apart = |at: usize| (lower[at] - whole[(at % n, at / n)]).abs();
    let below = (0..n * n).filter(|at| at % n >= at / n);
    let difference = below.map(apart).fold(0.0, f64::max);
    assert!(difference <= DIFFERENCE_MAX, "the factors are {difference} apart");
    println!("checked     the two factors are at most {difference:.1e} apart");
}

fn main() {
    let arguments = Arguments::read(&["n", "tile", "threads", "rounds"]);
    let (n, tile) = (arguments.get("n", 4096_usize), arguments.get("tile", 256_usize));
    let (threads, rounds) = (arguments.get("threads", 1_usize), arguments.get("rounds", 5));
    println!("question    how fast is a Cholesky factorisation by tiles, as a graph of tasks inside a box?");
    print_machine();
    let flop_per_cycle = if std::arch::is_x86_feature_detected!("avx512f") { 32.0 } else { 16.0 };
    let limit = threads as f64 * gigahertz() * flop_per_cycle;
    let graph = Graph::new(threads);
    let matrix = || TiledMatrix::new(n, tile, entry(n));
    println!(
        "matrix      {n} rows, tiles of {tile}, {} tasks",
        Factorisation::new(&matrix(), Faer).steps().count()
    );
    check(n, &graph.run(matrix()).0, &whole(n, threads).0);
    let mut sides = vec![
        Side::new(format!("graph, {threads} slots"), || graph.run(matrix()).1),
        Side::new(format!("faer's llt, {threads} threads"), || whole(n, threads).1),
        Side::new("tasks in turn, 1 thread", || in_turn(n, tile)),
    ];
    run_rounds(rounds, &mut sides);
    let gigaflop = (n as f64).powi(3) / 3.0 / 1e9;
    for side in &sides {
        let rate = support::Spread::of(side.seconds.iter().map(|seconds| gigaflop / seconds));
        println!("{:<28} {rate} GFLOP/s, {:.2} of the limit of {limit:.0}", side.name, rate.median / limit);
    }
    let (beside, alone) = (sides[0].faster_than(&sides[1]), sides[0].faster_than(&sides[2]));
    println!("ratio       {beside:.2} times faer's own, {alone:.2} times the tasks in turn on one thread");
    if threads == 1 {
        verdict("graph on one slot, of faer's own", beside.median, 1.3, beside.median >= 1.3);
        verdict("graph on one slot, of its tasks in turn", alone.median, 0.97, alone.median >= 0.97);
    }
}
