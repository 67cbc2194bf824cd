//! timely: a chain of operators in one worker. It schedules whole dataflows for batches: a hop of one message is its
//! most expensive case, and it offers no blocking work, joins or separate tasks.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use boxwork_peers::{Round, Settings, figures, serve};
use timely::dataflow::InputHandle;
use timely::dataflow::operators::vec::Map;
use timely::dataflow::operators::{Input, Inspect};

fn main() {
    serve("timely 0.32", |workload, settings| (workload == "B1").then(|| chain(settings)));
}

/// One message goes through the chain, then the next.
fn chain(settings: &Settings) -> Round {
    let (boxes, messages) = (settings.count("boxes"), settings.count("messages"));
    let hops = (boxes + 1) * messages;
    Box::new(move || {
        let seconds = timely::execute_directly(move |worker| {
            let arrived = Rc::new(Cell::new(0));
            let mut input = InputHandle::new();
            let told = Rc::clone(&arrived);
            worker.dataflow::<u64, _, _>(|scope| {
                let first = scope.input_from(&mut input);
                let last = (0..boxes).fold(first, |stream, _| stream.map(|message: u64| message));
                last.inspect(move |message| told.set(message + 1));
            });
            let start = Instant::now();
            for message in 0..messages as u64 {
                input.send(message);
                input.flush();
                while arrived.get() <= message {
                    worker.step();
                }
            }
            let seconds = start.elapsed().as_secs_f64();
            assert_eq!(arrived.get(), messages as u64);
            seconds
        });
        figures([("hop_ns", seconds * 1e9 / hops as f64)])
    })
}
