//! Work that a box has begun outside of its firings keeps its request alive, and slots are withheld while it computes.

mod support;

use std::sync::Mutex;
use std::time::Duration;

use boxwork_runtime::operator::*;
use boxwork_runtime::request::{RequestError, Submission};
use boxwork_runtime::{Config, Runtime};
use support::*;

const IN: In = In::stream(0, "in", numbers, "numbers");
const OUT: Out = Out::new(0, "out", numbers, "the same");

/// Work that boxes have begun outside; the test lets it end.
static GATE: Mutex<Vec<Outside>> = Mutex::new(Vec::new());

/// Passes on what it takes, one envelope each time that something outside is over.
struct Gated {
    begun: bool,
}

impl Operator for Gated {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if !std::mem::replace(&mut self.begun, true) {
            let outside = cx.outside();
            GATE.lock().unwrap().push(outside);
            return Ok(Flow::Wait);
        }
        while cx.has_room(OUT)
            && let Some(envelope) = cx.take(IN)
        {
            cx.push(OUT, envelope)?;
        }
        Ok(if cx.is_ended(IN) { Flow::Done } else { Flow::Wait })
    }
}

static GATED: OperatorSpec = OperatorSpec {
    inputs: &[IN],
    outputs: &[Out { about: "the same", ..OUT }],
    ..OperatorSpec::new("gated", "waits for the test", Kind::Stateful, |_| {
        Ok(Box::new(Gated { begun: false }))
    })
};

#[test]
fn what_is_outside_is_no_stall_and_keeps_a_cancelled_request() {
    let runtime = Runtime::start(Config::flat(2)).unwrap();
    let prepared = Graph::new()
        .add("s", "source", &[("count", int(50))])
        .add("g", "gated", &[])
        .add("c", "collect", &[])
        .chain("s -> g -> c")
        .prepare_with(&catalog().with(&GATED));
    for cancelled in [false, true] {
        let request = runtime.submit(&prepared, &Submission::default()).unwrap();
        while GATE.lock().unwrap().is_empty() {
            std::thread::yield_now();
        }
        if cancelled {
            request.cancel();
        }
        assert!(request.wait_timeout(Duration::from_millis(20)).is_none(), "it ended with something outside");
        let outside = std::mem::take(&mut *GATE.lock().unwrap());
        drop(outside);
        let result = wait(&request).result;
        assert_eq!(result, if cancelled { Err(RequestError::Cancelled) } else { Ok(()) });
    }
    assert_eq!(basket(&prepared).got.lock().len(), 50);
}

/// Computes as a feeding thread would, until the test lets it end.
struct Feigned {
    begun: bool,
}

impl Operator for Feigned {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(Flow::Done);
        }
        let outside = cx.outside();
        FEIGNED.lock().unwrap().push(outside);
        Ok(Flow::Wait)
    }
}

static FEIGNED: Mutex<Vec<Outside>> = Mutex::new(Vec::new());

static FEIGN: OperatorSpec = OperatorSpec {
    outputs: &[Out { about: "nothing", ..OUT }],
    ..OperatorSpec::new("feign", "computes elsewhere", Kind::Stateful, |_| {
        Ok(Box::new(Feigned { begun: false }))
    })
};

#[test]
fn slots_are_withheld_while_feeding_threads_compute_and_come_back() {
    let runtime = Runtime::start(Config::flat(3)).unwrap();
    let feigning = Graph::new()
        .add("f", "feign", &[])
        .add("c", "collect", &[])
        .chain("f -> c")
        .prepare_with(&catalog().with(&FEIGN));
    let busy = Graph::new()
        .add("s", "source", &[("count", int(300))])
        .add("a", "add", &[("copies", int(3)), ("spin_us", int(20))])
        .add("c", "collect", &[])
        .chain("s -> a -> c");
    for _ in 0..10 {
        let request = runtime.submit(&feigning, &Submission::default()).unwrap();
        while FEIGNED.lock().unwrap().is_empty() {
            std::thread::yield_now();
        }
        let outside = FEIGNED.lock().unwrap().pop().unwrap();
        // The slot of the firing that has just begun this may not rest yet; the others do, or come at once.
        while runtime.statistics().slots.iter().map(|slot| slot.parks).sum::<u64>() < 1 {
            std::thread::yield_now();
        }
        let withheld = [outside.computing(), outside.computing()];
        assert!(withheld.iter().all(Option::is_some));
        assert!(outside.computing().is_none(), "no slot would be left for tasks");
        let (outcome, basket) = busy.run_on(&runtime);
        outcome.result.unwrap();
        assert_eq!(basket.got.lock().len(), 300);
        drop(withheld);
        // A wish that is taken back before a slot has come to it.
        drop(outside.computing());
        assert!(busy.run_on(&runtime).0.result.is_ok());
        drop(outside);
        wait(&request).result.unwrap();
    }
}
