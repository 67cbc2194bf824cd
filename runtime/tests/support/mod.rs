//! Small operators over one column of numbers, and helpers to run graphs of them.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod operators;
pub mod random;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow_array::{ArrayRef, UInt64Array};
use arrow_schema::DataType;
use boxwork_runtime::descriptor::{Column, Descriptor};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::*;
use boxwork_runtime::parameter::{Arguments, Default, Parameter, ParameterType, Value};
use boxwork_runtime::plan::{BoxDeclaration, Declaration, EdgeDeclaration, End, HintDeclaration};
use boxwork_runtime::plan::{ResourceDeclaration, Setting};
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::{Outcome, Submission};
use boxwork_runtime::simulator::{compute, is_simulated, sleep};
use boxwork_runtime::{Config, Runtime};
pub use operators::*;
// The locks of the runtime: ThreadSanitizer sees them whether or not the standard library was built with it.
use parking_lot::Mutex;

pub fn numbers(_: &Arguments) -> Descriptor {
    Descriptor::new([Column::new("n", DataType::UInt64, "a number")])
}

pub fn envelope(values: impl IntoIterator<Item = u64>) -> Envelope {
    Envelope::from_columns([("n", Arc::new(UInt64Array::from_iter_values(values)) as ArrayRef)]).unwrap()
}

/// The numbers that sinks collect, and the number of boxes that compute at once.
#[derive(Default)]
pub struct Basket {
    pub got: Mutex<Vec<u64>>,
    /// The numbers by the sink's number.
    pub by_sink: Mutex<BTreeMap<usize, Vec<u64>>>,
    /// A lock that a box of copies holds while it runs branches.
    pub branching: Mutex<()>,
    pub computing: AtomicUsize,
    pub computing_high: AtomicUsize,
    pub blocking: AtomicUsize,
    pub blocking_high: AtomicUsize,
}

impl Basket {
    pub fn enter(now: &AtomicUsize, high: &AtomicUsize) {
        high.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    }
}

pub static BASKET_RESOURCE: ResourceSpec = ResourceSpec {
    name: "basket",
    about: "what sinks collect",
    parameters: &[],
    example: "",
    provides: None,
    check: None,
    load: |_| Ok(Arc::new(Basket::default())),
};

pub fn catalog() -> Catalog {
    Catalog::new(
        [
            &SOURCE,
            &ADD_STATELESS,
            &ADD_ORDERED,
            &ADD_STATEFUL,
            &ADD_NAP,
            &COLLECT,
            &ADD_SIDE,
            &A_THEN_B,
            &GATHER,
            &GATHER_ORDERED,
            &QUIT,
            &HEAD,
            &HOLD_THEN_CLOSE,
            &HANDSHAKE,
            &UNMADE,
            &STUBBORN,
            &LEAST,
            &UNTIL_HINT,
        ],
        [&BASKET_RESOURCE],
    )
}

/// A graph under construction.
pub struct Graph(pub Declaration);

impl Graph {
    pub fn new() -> Self {
        let basket = ResourceDeclaration {
            name: "basket".into(),
            kind: Setting::Value(Value::Text("basket".into())),
            settings: Vec::new(),
        };
        Self(Declaration { resources: vec![basket], ..Declaration::default() })
    }

    /// Adds a box, with the basket if its kind takes one.
    pub fn add(mut self, name: &str, kind: &str, settings: &[(&str, Value)]) -> Self {
        let mut settings: Vec<_> =
            settings.iter().map(|(key, value)| ((*key).to_owned(), Setting::Value(value.clone()))).collect();
        let takes = catalog().operator(kind).is_some_and(|s| s.parameters.iter().any(|p| p.name == "basket"));
        if takes {
            settings.push(("basket".into(), Setting::Value(Value::Text("basket".into()))));
        }
        let copies =
            settings.iter().position(|(key, _)| key == "copies").map(|place| settings.remove(place).1);
        let kind = Setting::Value(Value::Text(kind.into()));
        self.0.boxes.push(BoxDeclaration { name: name.into(), kind, copies, blocking: None, settings });
        self
    }

    /// Declares the blocking class of the box added last.
    pub fn blocking(mut self, class: &str) -> Self {
        if let Some(last) = self.0.boxes.last_mut() {
            last.blocking = Some(class.into());
        }
        self
    }

    /// Adds a chain of edges, `a -> b.port -> c`.
    pub fn chain(self, chain: &str) -> Self {
        self.bounded(chain, None, None)
    }

    pub fn bounded(mut self, chain: &str, envelopes: Option<usize>, bytes: Option<usize>) -> Self {
        let ends: Vec<End> = chain.split("->").map(|end| end_of(end.trim())).collect();
        for pair in ends.windows(2) {
            let mut from = pair[0].clone();
            // In a chain a port belongs to the consumer.
            if ends.len() > 2 {
                from.port = None;
            }
            self.0.edges.push(EdgeDeclaration { from, to: pair[1].clone(), envelopes, bytes });
        }
        self
    }

    pub fn hint(mut self, from: &str, to: &str) -> Self {
        self.0.hints.push(HintDeclaration { from: end_of(from), to: end_of(to) });
        self
    }

    pub fn prepare(&self) -> Arc<Prepared> {
        self.prepare_with(&catalog())
    }

    pub fn prepare_with(&self, catalog: &Catalog) -> Arc<Prepared> {
        let prepared = Prepared::new(&self.0, catalog, &BTreeMap::new(), &Environment::of_slots(2));
        Arc::new(prepared.unwrap_or_else(|error| panic!("{error}")))
    }

    /// Runs it once on this many slots.
    pub fn run(&self, slots: usize) -> (Outcome, Arc<Basket>) {
        self.run_on(&Runtime::start(Config::flat(slots)).unwrap())
    }

    pub fn run_on(&self, runtime: &Runtime) -> (Outcome, Arc<Basket>) {
        let prepared = self.prepare();
        let request = runtime.submit(&prepared, &Submission::default()).unwrap();
        (wait(&request), basket(&prepared))
    }
}

/// Waits for a request, with a limit: a request that hangs fails the test.
pub fn wait(request: &boxwork_runtime::Request) -> Outcome {
    request.wait_timeout(Duration::from_secs(60)).expect("the request hangs")
}

pub fn basket(prepared: &Prepared) -> Arc<Basket> {
    Arc::clone(prepared.resource("basket").unwrap()).downcast().unwrap()
}

fn end_of(text: &str) -> End {
    match text.split_once('.') {
        Some((name, port)) => End { name: name.into(), port: Some(port.into()) },
        None => End { name: text.into(), port: None },
    }
}

pub fn int(value: i64) -> Value {
    Value::Integer(value)
}

pub fn text(value: &str) -> Value {
    Value::Text(value.into())
}

/// The basket's numbers in ascending order.
pub fn sorted(basket: &Basket) -> Vec<u64> {
    let mut got = basket.got.lock().clone();
    got.sort_unstable();
    got
}
