//! `play_sessions`: plays users who look for one class, with several methods, to measure what feedback finds.
//!
//! Invariants: a session depends on its method, class and number alone, so the sessions are the same on every machine and for
//! any number of workers; all methods meet the same users.

mod matrix;
mod player;

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, UInt32Builder};
use arrow_array::{ArrayRef, StringArray, UInt32Array};
use arrow_schema::{DataType, Field};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use self::matrix::{Matrix, Objects, Table};
use self::player::{Method, Outcome, Protocol, play};
use crate::columns;
use crate::resources::gp_kernel::{self, GpKernel, KERNEL};

/// The most objects: the distances of all pairs are in memory.
const OBJECTS_MAX: u64 = 4096;

const DISTANCES: In =
    In::stream(0, "distances", columns::pair_distances, "the exact distances of all pairs of the store");
const SESSIONS: Out = Out::new(0, "sessions", columns::sessions, "one row a session");

/// A probability.
const fn probability(name: &'static str, default: f64, about: &'static str) -> Parameter {
    Parameter::new(name, ParameterType::number_within(0.0, 1.0), Default::Number(default), about)
}

/// A count from 1.
const fn count(name: &'static str, most: i64, default: i64, about: &'static str) -> Parameter {
    Parameter::new(name, ParameterType::integer_within(1, most), Default::Integer(default), about)
}

/// Plays sessions of feedback.
///
/// A user looks for objects of one class, the last folder of a name. The user likes one random object of the class to begin
/// with, which is not counted, or begins with a first screen of random or spread objects, and then judges each object of each
/// round by its class. Relevant objects are counted among those shown.
///
/// # Inputs
/// `distances`: the distances of all pairs of objects, once each, without an error.
///
/// # Outputs
/// `sessions`: one row for each method, class and seed.
///
/// # Parameters
/// `kernel`: the covariance of the objects. `methods`: `random`, `nearest` (to any liked object), `gp_mean`, `gp_ucb` (the
/// largest upper bounds) and `gp_bucb` (with hallucinated variances). `seeds`: users of each class. `rounds` and `batch`: of a
/// session. `explore`: the weight of the deviation. `first`: how a session begins. `flips`: the share of judgements that are
/// wrong. `clicks`: the share of relevant objects that are liked; below 1 no object is disliked. `unmarked`: objects shown and
/// not judged. `rare`: if given, each class has only so many members for its users. `classes`: the classes, by default all.
/// `seed`: the users. `rerank`: if the kernel uses sketches, a model chooses among so many objects, those of the largest bounds.
pub static PLAY_SESSIONS: OperatorSpec = OperatorSpec {
    parameters: &[
        KERNEL,
        Parameter::new(
            "methods",
            ParameterType::List(&ParameterType::Choice(Method::NAMES)),
            Default::Required,
            "the methods to compare",
        ),
        count("seeds", 100_000, 100, "users of each class"),
        count("rounds", 1000, 15, "rounds of a session"),
        count("batch", 1000, 12, "objects of a round"),
        super::gp_scan::EXPLORE,
        Parameter::new(
            "first",
            ParameterType::Choice(&["query", "random", "spread"]),
            Default::Text("query"),
            "the beginning: a liked object of the class, or a first screen of random or of spread objects",
        ),
        probability("flips", 0.0, "the share of judgements that are wrong"),
        probability(
            "clicks",
            1.0,
            "the share of relevant objects that are liked; below 1 no object is disliked",
        ),
        Parameter::new(
            "unmarked",
            ParameterType::Choice(&["weak", "ignore"]),
            Default::Text("weak"),
            "objects that were shown and not judged",
        ),
        Parameter::new(
            "rare",
            ParameterType::integer_within(1, OBJECTS_MAX as i64),
            Default::Absent,
            "members that the class has for its users; by default all",
        ),
        Parameter::new(
            "classes",
            ParameterType::List(&ParameterType::Text),
            Default::EmptyList,
            "the classes; by default all of at least two objects",
        ),
        Parameter::new("seed", ParameterType::integer_from(0), Default::Integer(1), "the users"),
        count("rerank", 32_768, 256, "objects among which a model chooses, if sketches bound them"),
    ],
    inputs: &[DISTANCES],
    outputs: &[SESSIONS],
    example: "play: {kind: play_sessions, kernel: kernel, methods: [nearest, gp_bucb]}",
    check: Some(gp_kernel::check),
    ..OperatorSpec::new("play_sessions", "Plays users who look for one class.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let kernel = gp_kernel::kernel(bind)?;
    let objects = kernel.space.store().objects_count();
    if objects > OBJECTS_MAX {
        return Err(BoxError::new(format!(
            "sessions are played with the distances of all pairs in memory, of at most {OBJECTS_MAX} objects, and the \
             store has {objects}: play with a smaller store, such as one made by `boxwork extract` of fewer pictures"
        )));
    }
    let protocol = Protocol {
        rounds: bind.count("rounds"),
        batch: bind.count("batch"),
        explore: bind.number("explore"),
        first: bind.text("first").parse()?,
        flips: bind.number("flips"),
        clicks: bind.number("clicks"),
        is_weak: bind.text("unmarked") == "weak",
        rare: bind.get_integer("rare").and_then(|rare| usize::try_from(rare).ok()),
        seed: bind.count("seed") as u64,
        rerank: bind.count("rerank"),
    };
    let methods = bind.texts("methods").iter().map(|name| name.parse()).collect::<Result<Vec<_>, _>>()?;
    Ok(Box::new(PlaySessions {
        kernel,
        methods,
        users: bind.count("seeds"),
        classes: bind.texts("classes"),
        protocol,
        state: State::New,
        done: 0,
    }))
}

struct PlaySessions {
    kernel: Arc<GpKernel>,
    methods: Vec<Method>,
    users: usize,
    classes: Vec<String>,
    protocol: Protocol,
    state: State,
    /// Sessions played.
    done: usize,
}

enum State {
    New,
    Matrix(Objects, Matrix),
    Playing(Objects, Table),
}

/// Sessions of one firing: half a second of a core at most.
const SESSIONS_PER_FIRING: usize = 16;

impl Operator for PlaySessions {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        match &mut self.state {
            State::New => {
                let (store, classes) = (Arc::clone(self.kernel.space.store()), &self.classes);
                let objects = cx.detached("disk", || Objects::read(&*store, classes))??;
                let matrix = Matrix::new(objects.ids.len());
                self.state = State::Matrix(objects, matrix);
            }
            State::Matrix(objects, matrix) => match cx.take(DISTANCES) {
                Some(pairs) => matrix.take(&objects.ids, &pairs)?,
                None if cx.is_ended(DISTANCES) => {
                    let table = matrix.finish(&self.kernel, &objects.ids)?;
                    self.state = State::Playing(std::mem::take(objects), table);
                }
                None => return Ok(Flow::Wait),
            },
            State::Playing(objects, table) => {
                let total = self.methods.len() * objects.classes.len() * self.users;
                if self.done == total {
                    return Ok(Flow::Done);
                }
                if !cx.has_room(SESSIONS) {
                    return Ok(Flow::Wait);
                }
                let upto = total.min(self.done + SESSIONS_PER_FIRING);
                let numbers: Vec<usize> = (self.done..upto).collect();
                let mut outcomes: Vec<Option<Outcome>> = numbers.iter().map(|_| None).collect();
                let (protocol, users, methods) = (&self.protocol, self.users, &self.methods);
                let (objects, table) = (&*objects, &*table);
                let at = |number: usize| {
                    let (of_method, user) = (number / users, number % users);
                    (methods[of_method / objects.classes.len()], of_method % objects.classes.len(), user)
                };
                cx.inside(|inside| {
                    let cancelled = inside.cancelled();
                    inside.for_each_chunk_of(&mut outcomes, 1, |first, outcomes| {
                        for (place, outcome) in outcomes.iter_mut().enumerate() {
                            let (method, class, user) = at(numbers[first + place]);
                            *outcome = play(method, protocol, objects, table, (class, user), &cancelled);
                        }
                    });
                });
                let rows: Vec<(Method, &str, usize, Outcome)> = numbers
                    .iter()
                    .zip(outcomes)
                    .filter_map(|(number, outcome)| {
                        let (method, class, user) = at(*number);
                        Some((method, objects.classes[class].0.as_str(), user, outcome?))
                    })
                    .collect();
                if cx.is_cancelled() {
                    return Ok(Flow::Done);
                }
                let envelope = envelope(&rows)?;
                self.done = upto;
                cx.progress(self.done as u64, total as u64);
                if cx.push(SESSIONS, envelope)? == Pushed::Closed {
                    return Ok(Flow::Done);
                }
            }
        }
        Ok(Flow::More)
    }
}

fn envelope(rows: &[(Method, &str, usize, Outcome)]) -> Result<Envelope, BoxError> {
    let item = Field::new("item", DataType::UInt32, false);
    let mut found = ListBuilder::new(UInt32Builder::new()).with_field(item);
    for (.., outcome) in rows {
        found.values().append_slice(&outcome.found);
        found.append(true);
    }
    let numbers =
        |of: fn(&Outcome) -> u32| Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| of(&row.3))));
    let columns: [(&str, ArrayRef); 6] = [
        ("method", Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.0.name())))),
        ("class", Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.1)))),
        ("user", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.2 as u32)))),
        ("first", numbers(|outcome| outcome.first)),
        ("tenth", numbers(|outcome| outcome.tenth)),
        ("found", Arc::new(found.finish())),
    ];
    Ok(Envelope::from_columns(columns)?)
}
