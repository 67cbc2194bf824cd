//! Callbacks at the end of requests, without a thread that waits.

mod support;

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use boxwork_runtime::request::{Outcome, RequestError, Submission};
use boxwork_runtime::{Config, Runtime};
use support::*;

const LIMIT: Duration = Duration::from_secs(60);

fn numbers_to_collect(count: i64) -> Graph {
    Graph::new().add("s", "source", &[("count", int(count))]).add("c", "collect", &[]).chain("s -> c")
}

/// A callback that sends the outcome.
fn to(sender: &Sender<Outcome>) -> impl FnOnce(Outcome) + Send + 'static {
    let sender = sender.clone();
    move |outcome| sender.send(outcome).unwrap()
}

#[test]
fn many_requests_call_back_and_no_thread_waits() {
    let runtime = Runtime::start(Config::flat(2)).unwrap();
    let prepared = numbers_to_collect(10).prepare();
    let (sender, ends) = channel();
    for _ in 0..200 {
        // The handle is dropped at once: the request continues.
        runtime.submit(&prepared, &Submission::default()).unwrap().on_end(to(&sender));
    }
    for _ in 0..200 {
        let outcome = ends.recv_timeout(LIMIT).unwrap();
        outcome.result.unwrap();
        assert_eq!(outcome.boxes[1].rows_in, 10);
    }
    assert_eq!(basket(&prepared).got.lock().len(), 2000);
}

#[test]
fn a_callback_after_the_end_is_called_at_once_and_each_is_called_once() {
    let runtime = Runtime::start(Config::flat(1)).unwrap();
    let request = runtime.submit(&numbers_to_collect(1).prepare(), &Submission::default()).unwrap();
    let (sender, ends) = channel();
    request.on_end(to(&sender));
    wait(&request).result.unwrap();
    request.on_end(to(&sender));
    request.on_end(to(&sender));
    drop(sender);
    for _ in 0..3 {
        ends.recv_timeout(LIMIT).unwrap().result.unwrap();
    }
    assert!(ends.recv_timeout(LIMIT).is_err(), "a callback was called twice");
}

#[test]
fn a_cancelled_request_calls_back_too() {
    let runtime = Runtime::start(Config::flat(1)).unwrap();
    let request = runtime.submit(&numbers_to_collect(1_000_000).prepare(), &Submission::default()).unwrap();
    let (sender, ends) = channel();
    request.on_end(to(&sender));
    request.cancel();
    assert_eq!(ends.recv_timeout(LIMIT).unwrap().result, Err(RequestError::Cancelled));
}

#[test]
fn a_callback_that_panics_harms_neither_its_worker_nor_other_callbacks() {
    let runtime = Runtime::start(Config::flat(1)).unwrap();
    let prepared = numbers_to_collect(1).prepare();
    let (sender, ends) = channel();
    let request = runtime.submit(&prepared, &Submission::default()).unwrap();
    request.on_end(|_| panic!("a caller's mistake"));
    request.on_end(to(&sender));
    ends.recv_timeout(LIMIT).unwrap().result.unwrap();
    wait(&runtime.submit(&prepared, &Submission::default()).unwrap()).result.unwrap();
}

#[test]
fn a_callback_may_submit_the_next_request_and_drop_the_runtime() {
    let runtime = Runtime::start(Config::flat(1)).unwrap();
    let prepared = numbers_to_collect(3).prepare();
    let (sender, ends) = channel();
    // Long enough that the callback is set before the end, and a thread of the runtime calls it.
    let first = numbers_to_collect(200_000).prepare();
    let first = runtime.submit(&first, &Submission::default()).unwrap();
    let second = prepared.clone();
    let to_second = to(&sender);
    // The last owner of the runtime is one of its own threads; running requests are cancelled, as always.
    first.on_end(move |outcome| {
        to_second(outcome);
        runtime.submit(&second, &Submission::default()).unwrap().on_end(to(&sender));
        drop(runtime);
    });
    ends.recv_timeout(LIMIT).unwrap().result.unwrap();
    let result = ends.recv_timeout(LIMIT).unwrap().result;
    assert!(matches!(result, Ok(()) | Err(RequestError::Cancelled)), "{result:?}");
}
