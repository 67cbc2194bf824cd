//! The Cholesky factorisation on the slots of a runtime: the same bits on 1, 2 and 7 slots, errors, and a cancel.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use boxwork_kernels::cholesky::{
    Factorisation, NotPositiveDefinite, Plain, Tasks as _, TiledMatrix, reference,
};
use boxwork_operators::cholesky::factorise;
use boxwork_runtime::inside::GraphError;
use boxwork_runtime::operator::*;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::plan::{BoxDeclaration, Declaration, Setting};
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_runtime::{Config, Runtime};

/// The matrix that the box factorises, and the result.
#[derive(Default)]
struct Work {
    matrix: Option<TiledMatrix>,
    result: Option<Result<(), GraphError<NotPositiveDefinite>>>,
}

/// An operator made for one piece of work.
fn operator(work: &Arc<Mutex<Work>>) -> OperatorEntry {
    struct Factorises(Arc<Mutex<Work>>);
    impl Operator for Factorises {
        fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
            let mut work = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let work = &mut *work;
            work.result =
                work.matrix.as_mut().map(|matrix| cx.inside(|inside| factorise(inside, matrix, Plain)));
            Ok(Flow::Done)
        }
    }
    let work = Arc::clone(work);
    OperatorEntry::new("factorises", "Factorises one matrix.", Kind::Stateful, move |_| {
        Ok(Box::new(Factorises(Arc::clone(&work))))
    })
}

fn run(runtime: &Runtime, matrix: TiledMatrix) -> (TiledMatrix, Result<(), GraphError<NotPositiveDefinite>>) {
    let work = Arc::new(Mutex::new(Work { matrix: Some(matrix), result: None }));
    let declared = Declaration {
        boxes: vec![BoxDeclaration {
            name: "f".into(),
            kind: Setting::Value(Value::Text("factorises".into())),
            copies: None,
            blocking: None,
            settings: Vec::new(),
        }],
        ..Declaration::default()
    };
    let catalog = Catalog::new([], []).with(operator(&work));
    let prepared =
        Prepared::new(&declared, &catalog, &BTreeMap::new(), &Environment::of_slots(2)).expect("a plan");
    let request = runtime.submit(&Arc::new(prepared), &Submission::default()).expect("a request");
    request.wait().result.expect("a run");
    let mut work = work.lock().expect("the request has ended");
    (work.matrix.take().expect("the matrix"), work.result.take().expect("the result"))
}

/// A positive definite matrix.
fn entry(row: usize, column: usize) -> f64 {
    let apart = (row - column) as f64;
    (-0.01 * apart * apart).exp() + f64::from(u8::from(row == column))
}

#[test]
fn the_factor_has_the_same_bits_on_any_number_of_slots() {
    for (n, size) in [(1, 16), (64, 64), (65, 16), (200, 32), (500, 16), (500, 64)] {
        let in_turn = TiledMatrix::new(n, size, entry);
        Factorisation::new(&in_turn, Plain).run_all().unwrap();
        let dense: Vec<f64> =
            (0..n * n).map(|at| entry((at % n).max(at / n), (at % n).min(at / n))).collect();
        let expected = reference::factor(n, &dense).unwrap();
        let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-10;
        assert!(in_turn.lower().iter().zip(&expected).all(near), "{n} rows in tiles of {size}");
        for slots in [1, 2, 7] {
            let runtime = Runtime::start(Config::flat(slots)).unwrap();
            for _ in 0..3 {
                let (factored, result) = run(&runtime, TiledMatrix::new(n, size, entry));
                result.unwrap();
                assert!(factored.lower() == in_turn.lower(), "{n} rows in tiles of {size}, {slots} slots");
            }
        }
    }
}

#[test]
fn the_row_that_is_not_positive_definite_is_the_same_on_any_number_of_slots() {
    for slots in [1, 2, 7] {
        let runtime = Runtime::start(Config::flat(slots)).unwrap();
        for at in [0, 31, 32, 170, 299] {
            let bad = |row, column| if (row, column) == (at, at) { -1.0 } else { entry(row, column) };
            let (_, result) = run(&runtime, TiledMatrix::new(300, 32, bad));
            assert_eq!(result, Err(GraphError::Task(NotPositiveDefinite { row: at })), "{slots} slots");
        }
    }
}
