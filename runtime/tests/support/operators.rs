//! The operators of the tests' boxes.

use super::*;

const BASKET: Parameter =
    Parameter::new("basket", ParameterType::Resource("basket"), Default::Required, "where it goes");
const fn count(name: &'static str, default: i64) -> Parameter {
    Parameter::new(name, ParameterType::integer_from(0), Default::Integer(default), "a count")
}

struct Source {
    next: u64,
    end: u64,
    rows: u64,
    /// Whether each envelope's data are on a node: its first number gives the node, in turn.
    near: bool,
}
impl Operator for Source {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(OUT) {
            if self.next == self.end {
                return Ok(Flow::Done);
            }
            let until = (self.next + self.rows).min(self.end);
            if self.near {
                let node = self.next as usize % cx.nodes();
                cx.push_near(OUT, envelope(self.next..until), node)?;
            } else {
                cx.push(OUT, envelope(self.next..until))?;
            }
            self.next = until;
            cx.progress(self.next, self.end);
        }
        Ok(Flow::More)
    }
}
const OUT: Out = Out::new(0, "out", numbers, "the numbers from 0");

pub static SOURCE: OperatorSpec = OperatorSpec {
    parameters: &[count("count", 100), count("rows", 1), count("near", 0)],
    outputs: &[OUT],
    ..OperatorSpec::new("source", "numbers from 0", Kind::Stateful, |bind| {
        let (end, rows, near) =
            (bind.count("count") as u64, bind.count("rows") as u64, bind.count("near") > 0);
        Ok(Box::new(Source { next: 0, end, rows, near }))
    })
};

/// Adds, computes for a while, and blocks for a while, by its parameters.
struct Add {
    add: u64,
    spin_us: u64,
    sleep_us: u64,
    block_us: u64,
    /// Branches in a firing.
    branches: usize,
    /// Whether it announces before it computes.
    announces: bool,
    fail_at: Option<u64>,
    panic_at: Option<u64>,
    panic_detached: bool,
    class: String,
    basket: Arc<Basket>,
}
impl Operator for Add {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        Basket::enter(&self.basket.computing, &self.basket.computing_high);
        let result = self.step(cx);
        self.basket.computing.fetch_sub(1, Ordering::SeqCst);
        result
    }
}
impl Add {
    fn step(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(OUT) {
            let Some(taken) = cx.take(IN) else {
                return Ok(if cx.is_ended(IN) { Flow::Done } else { Flow::Wait });
            };
            let values = taken.u64s("n")?;
            if self.announces {
                cx.announce();
            }
            compute(Duration::from_micros(self.spin_us));
            if self.branches > 0 {
                self.branch(cx);
            }
            if self.sleep_us > 0 {
                std::thread::sleep(Duration::from_micros(self.sleep_us));
            }
            if self.block_us > 0 {
                let basket = Arc::clone(&self.basket);
                basket.computing.fetch_sub(1, Ordering::SeqCst);
                let blocked = cx.detached(&self.class, || {
                    Basket::enter(&basket.blocking, &basket.blocking_high);
                    sleep(Duration::from_micros(self.block_us));
                    basket.blocking.fetch_sub(1, Ordering::SeqCst);
                    assert!(!self.panic_detached, "a panic while detached");
                });
                Basket::enter(&basket.computing, &basket.computing_high);
                blocked?;
            }
            if values.iter().any(|n| Some(*n) == self.panic_at) {
                panic!("a panic on purpose");
            }
            if let Some(n) = values.iter().find(|n| Some(**n) == self.fail_at) {
                return Err(BoxError::new(format!("does not like {n}")));
            }
            cx.push(OUT, envelope(values.iter().map(|n| n + self.add)))?;
        }
        Ok(Flow::Wait)
    }
}
impl Add {
    /// Computes in branches, holding a lock across them that only a foreign task on this stack could need.
    fn branch(&self, cx: &mut Context<'_>) {
        let basket = &self.basket;
        basket.computing.fetch_sub(1, Ordering::SeqCst);
        // In a simulation no thread holds a lock while others run.
        let held = (!is_simulated()).then(|| basket.branching.lock());
        let ran = AtomicUsize::new(0);
        cx.for_each_chunk(self.branches, 1, |_| {
            Basket::enter(&basket.computing, &basket.computing_high);
            compute(Duration::from_micros(self.spin_us));
            ran.fetch_add(1, Ordering::SeqCst);
            basket.computing.fetch_sub(1, Ordering::SeqCst);
        });
        drop(held);
        assert_eq!(ran.into_inner(), self.branches, "a branch was lost");
        Basket::enter(&basket.computing, &basket.computing_high);
    }
}
fn make_add(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let at = |name| bind.get_integer(name).map(|n| n as u64);
    Ok(Box::new(Add {
        add: bind.count("add") as u64,
        spin_us: bind.count("spin_us") as u64,
        sleep_us: bind.count("sleep_us") as u64,
        block_us: bind.count("block_us") as u64,
        branches: bind.count("branches"),
        announces: bind.boolean("announces"),
        fail_at: at("fail_at"),
        panic_at: at("panic_at"),
        panic_detached: bind.boolean("panic_detached"),
        class: bind.text("class").to_owned(),
        basket: bind.resource("basket")?,
    }))
}
const ADD: &[Parameter] = &[
    count("add", 1),
    count("spin_us", 0),
    count("sleep_us", 0),
    count("block_us", 0),
    count("branches", 0),
    Parameter::new(
        "announces",
        ParameterType::Boolean,
        Default::Boolean(false),
        "announces before it computes",
    ),
    Parameter::new("fail_at", ParameterType::integer_from(0), Default::Absent, "fails there"),
    Parameter::new("panic_at", ParameterType::integer_from(0), Default::Absent, "panics there"),
    Parameter::new(
        "panic_detached",
        ParameterType::Boolean,
        Default::Boolean(false),
        "panics while detached",
    ),
    Parameter::new("class", ParameterType::Text, Default::Text("nap"), "what it blocks on"),
    BASKET,
];
const IN: In = In::stream(0, "in", numbers, "numbers");

macro_rules! add {
    ($name:ident, $text:literal, $kind:expr, $blocking:expr) => {
        pub static $name: OperatorSpec = OperatorSpec {
            parameters: ADD,
            inputs: &[IN],
            outputs: &[Out { about: "greater numbers", ..OUT }],
            blocking: $blocking,
            ..OperatorSpec::new($text, "adds", $kind, make_add)
        };
    };
}
add!(ADD_STATELESS, "add", Kind::Stateless, None);
add!(ADD_ORDERED, "add_ordered", Kind::Ordered, None);
add!(ADD_STATEFUL, "add_stateful", Kind::Stateful, None);
add!(ADD_NAP, "add_nap", Kind::Stateless, Some("nap"));

/// Collects; closes its input after `most` rows; panics in its drop if its parameter says so.
struct Collect {
    most: usize,
    seen: usize,
    sink: usize,
    panic_in_drop: bool,
    basket: Arc<Basket>,
}
impl Operator for Collect {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(taken) = cx.take(IN) {
            let values = taken.u64s("n")?;
            self.seen += values.len();
            self.basket.got.lock().extend(values);
            self.basket.by_sink.lock().entry(self.sink).or_default().extend(values);
            if self.seen >= self.most {
                return Ok(Flow::Done);
            }
        }
        Ok(if cx.is_ended(IN) { Flow::Done } else { Flow::Wait })
    }
}
impl Drop for Collect {
    fn drop(&mut self) {
        assert!(!self.panic_in_drop || std::thread::panicking(), "a panic in a drop");
    }
}
pub static COLLECT: OperatorSpec = OperatorSpec {
    parameters: &[
        count("most", i64::MAX),
        count("sink", 0),
        Parameter::new(
            "panic_in_drop",
            ParameterType::Boolean,
            Default::Boolean(false),
            "panics in its drop",
        ),
        BASKET,
    ],
    inputs: &[In { mode: Mode::Merge, ..IN }],
    ..OperatorSpec::new("collect", "collects", Kind::Stateful, |bind| {
        Ok(Box::new(Collect {
            most: bind.count("most"),
            seen: 0,
            sink: bind.count("sink"),
            panic_in_drop: bind.boolean("panic_in_drop"),
            basket: bind.resource("basket")?,
        }))
    })
};

/// Adds the sum of its side input.
struct AddSide;
impl Operator for AddSide {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let sum: u64 = cx.side(SIDE).iter().flat_map(|envelope| envelope.u64s("n").unwrap().to_vec()).sum();
        while cx.has_room(OUT) {
            let Some(taken) = cx.take(IN) else {
                return Ok(if cx.is_ended(IN) { Flow::Done } else { Flow::Wait });
            };
            cx.push(OUT, envelope(taken.u64s("n")?.iter().map(|n| n + sum)))?;
        }
        Ok(Flow::Wait)
    }
}
const SIDE: In = In::side(1, "side", numbers, "what to add");

pub static ADD_SIDE: OperatorSpec = OperatorSpec {
    inputs: &[IN, SIDE],
    outputs: &[Out { about: "sums", ..OUT }],
    ..OperatorSpec::new("add_side", "adds the side input's sum", Kind::Stateless, |_| Ok(Box::new(AddSide)))
};

/// Joins streams in any order.
struct Gather;
impl Operator for Gather {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(OUT) {
            let Some(taken) = cx.take(IN) else {
                return Ok(if cx.is_ended(IN) { Flow::Done } else { Flow::Wait });
            };
            cx.push(OUT, taken)?;
        }
        Ok(Flow::Wait)
    }
}
pub static GATHER: OperatorSpec = OperatorSpec {
    inputs: &[In { mode: Mode::Merge, about: "streams", ..IN }],
    outputs: &[Out { about: "all of them", ..OUT }],
    ..OperatorSpec::new("gather", "joins streams", Kind::Stateless, |_| Ok(Box::new(Gather)))
};
pub static GATHER_ORDERED: OperatorSpec = OperatorSpec {
    inputs: &[In { mode: Mode::Merge, about: "streams", ..IN }],
    outputs: &[Out { about: "all of them", ..OUT }],
    ..OperatorSpec::new("gather_ordered", "joins streams", Kind::Ordered, |_| Ok(Box::new(Gather)))
};

/// Takes all of `a` before any of `b`: with bounded edges from one source it stalls.
struct AThenB;
impl Operator for AThenB {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(OUT) {
            let taken = if cx.is_ended(A) { cx.take(B) } else { cx.take(A) };
            match taken {
                Some(taken) => drop(cx.push(OUT, taken)?),
                None if cx.is_ended(A) && cx.is_ended(B) => return Ok(Flow::Done),
                None if cx.is_ended(A) && !cx.is_ended(B) => return Ok(Flow::Wait),
                None => return Ok(Flow::Wait),
            }
        }
        Ok(Flow::Wait)
    }
}
const A: In = In::stream(0, "a", numbers, "first");
const B: In = In::stream(1, "b", numbers, "second");

pub static A_THEN_B: OperatorSpec = OperatorSpec {
    inputs: &[A, B],
    outputs: &[Out { about: "both", ..OUT }],
    ..OperatorSpec::new("a_then_b", "one stream after the other", Kind::Stateful, |_| Ok(Box::new(AThenB)))
};

/// Passes on a few envelopes and is done, though more may come.
struct Quit {
    left: usize,
}
impl Operator for Quit {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(OUT) {
            if self.left == 0 {
                return Ok(Flow::Done);
            }
            let Some(taken) = cx.take(IN) else {
                return Ok(if cx.is_ended(IN) { Flow::Done } else { Flow::Wait });
            };
            cx.push(OUT, taken)?;
            self.left -= 1;
        }
        Ok(if self.left == 0 { Flow::Done } else { Flow::Wait })
    }
}
pub static QUIT: OperatorSpec = OperatorSpec {
    parameters: &[count("most", 1)],
    inputs: &[IN],
    outputs: &[Out { about: "the first of them", ..OUT }],
    ..OperatorSpec::new("quit", "takes a few", Kind::Stateless, |bind| {
        Ok(Box::new(Quit { left: bind.count("most") }))
    })
};

/// Passes on the first envelopes and drops the others.
struct Head {
    left: usize,
}
impl Operator for Head {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(OUT) {
            let Some(taken) = cx.take(IN) else {
                return Ok(if cx.is_ended(IN) { Flow::Done } else { Flow::Wait });
            };
            if self.left > 0 {
                self.left -= 1;
                cx.push(OUT, taken)?;
            }
        }
        Ok(Flow::Wait)
    }
}
pub static HEAD: OperatorSpec = OperatorSpec {
    parameters: &[count("most", 1)],
    inputs: &[IN],
    outputs: &[Out { about: "the first of them", ..OUT }],
    ..OperatorSpec::new("head", "the first envelopes", Kind::Stateful, |bind| {
        Ok(Box::new(Head { left: bind.count("most") }))
    })
};

/// Passes `a` on, and closes `b` when the first envelope of `a` comes.
struct HoldThenClose;
impl Operator for HoldThenClose {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(OUT) {
            let Some(taken) = cx.take(A) else {
                return Ok(if cx.is_ended(A) { Flow::Done } else { Flow::Wait });
            };
            cx.push(OUT, taken)?;
            cx.close(B);
        }
        Ok(Flow::Wait)
    }
}
pub static HOLD_THEN_CLOSE: OperatorSpec = OperatorSpec {
    inputs: &[In { about: "numbers", ..A }, In { about: "never taken", ..B }],
    outputs: &[Out { about: "those of a", ..OUT }],
    ..OperatorSpec::new("hold_then_close", "closes b late", Kind::Stateful, |_| Ok(Box::new(HoldThenClose)))
};

/// Passes an envelope on and blocks until the sink has it: envelopes pushed before must be on their way.
struct Handshake {
    basket: Arc<Basket>,
}
impl Operator for Handshake {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(OUT) {
            let Some(taken) = cx.take(IN) else {
                return Ok(if cx.is_ended(IN) { Flow::Done } else { Flow::Wait });
            };
            let wanted = taken.u64s("n")?[0];
            cx.push(OUT, taken)?;
            let got = cx.detached("handshake", || {
                let until = std::time::Instant::now() + Duration::from_secs(20);
                while !self.basket.got.lock().contains(&wanted) {
                    if std::time::Instant::now() > until {
                        return false;
                    }
                    std::thread::yield_now();
                }
                true
            })?;
            if !got {
                return Err(BoxError::new("the sink did not run"));
            }
        }
        Ok(Flow::Wait)
    }
}
pub static HANDSHAKE: OperatorSpec = OperatorSpec {
    parameters: &[BASKET],
    inputs: &[IN],
    outputs: &[Out { about: "the envelopes taken", ..OUT }],
    ..OperatorSpec::new("handshake", "waits for the sink", Kind::Stateful, |bind| {
        Ok(Box::new(Handshake { basket: bind.resource("basket")? }))
    })
};

/// Cannot be made.
pub static UNMADE: OperatorSpec = OperatorSpec {
    inputs: &[IN],
    ..OperatorSpec::new("unmade", "panics when it is made", Kind::Stateful, |_| panic!("a panic in make"))
};

struct Stubborn;
impl Operator for Stubborn {
    fn process(&mut self, _: &mut Context<'_>) -> Result<Flow, BoxError> {
        Ok(Flow::Wait)
    }
}
pub static STUBBORN: OperatorSpec = OperatorSpec {
    inputs: &[In { about: "never taken", ..IN }],
    ..OperatorSpec::new("stubborn", "takes nothing", Kind::Stateful, |_| Ok(Box::new(Stubborn)))
};

/// Writes the least number seen as a hint.
struct Least;
impl Operator for Least {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(taken) = cx.take(IN) {
            for n in taken.u64s("n")? {
                cx.join_hint(LEAST_SEEN, 0, 100.0 - *n as f64);
            }
        }
        Ok(if cx.is_ended(IN) { Flow::Done } else { Flow::Wait })
    }
}
const LEAST_SEEN: HintOut = HintOut::new(0, "least", Join::Minimum, "the least so far");
const LEAST_READ: HintIn = HintIn::new(0, "least", Join::Minimum, "the least so far");

pub static LEAST: OperatorSpec = OperatorSpec {
    inputs: &[IN],
    hints_written: &[LEAST_SEEN],
    ..OperatorSpec::new("least", "the least so far", Kind::Stateful, |_| Ok(Box::new(Least)))
};

/// A source that continues until the hint falls to a value.
struct UntilHint {
    next: u64,
    until: f64,
}
impl Operator for UntilHint {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if cx.hint(LEAST_READ, 0) <= self.until {
            return Ok(Flow::Done);
        }
        while cx.has_room(OUT) {
            cx.push(OUT, envelope([self.next]))?;
            self.next += 1;
        }
        Ok(Flow::More)
    }
}
pub static UNTIL_HINT: OperatorSpec = OperatorSpec {
    parameters: &[count("until", 10)],
    outputs: &[Out { about: "numbers", ..OUT }],
    hints_read: &[LEAST_READ],
    ..OperatorSpec::new("until_hint", "until the hint is low", Kind::Stateful, |bind| {
        Ok(Box::new(UntilHint { next: 0, until: bind.count("until") as f64 }))
    })
};
