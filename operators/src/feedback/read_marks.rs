//! `read_marks`: gets the objects of a session's marks, and adds the objects that were shown and not judged.
//!
//! A program gives marks of objects that are not in the store as Arrow batches of the columns `name`, `object` and
//! `relevance` (`Submission::inputs` under the box's name); they come before all other marks.
//!
//! Invariant: the rows are in the order in which the session saw the objects, so that the marks of an earlier round come
//! first, and their part of the model is the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef};
use boxwork_kernels::gaussian_process::{MARK_NOISE, MARKS_MAX, WEAK_NOISE};
use boxwork_kernels::interrupt::Interrupt;
use boxwork_runtime::operator::{
    Bind, BoxError, CALLER, Context, Flow, InputReader, Kind, Operator, OperatorSpec, Out,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::store::Store;

use super::marks::{self, Mark, foreign_id};
use crate::columns;
use crate::images::read_files::read_whole;
use crate::resources::{self, store_parameter};
use crate::search::query_objects::{Found, Images, look_up};

const MARKS: Out = Out::new(0, "marks", columns::marks, "the marks with their objects");

/// The parameter of boxes that must know which objects a session has shown.
pub(crate) const SEEN: Parameter = Parameter::new(
    "seen",
    ParameterType::List(&ParameterType::Text),
    Default::EmptyList,
    "the objects that were shown, in their order: names, or # and an id; they are not shown again",
);

/// Gets the objects of the marks.
///
/// A mark is the name of an object in the store, `#` and its id, or an image file, followed by `=` and its relevance from 0
/// (disliked) to 1 (liked). The last `=` counts. Objects that were shown and not judged are weak marks: of relevance 0 with
/// much noise, because a user who finds an object relevant tends to say so.
///
/// # Inputs
/// None. A request's caller may give marks of objects that are not in the store (`Submission::inputs`): batches with the
/// columns `name`, `object` and `relevance`.
///
/// # Outputs
/// `marks`: one envelope, or none without marks. Noise is 0.1 for a mark and 1 for a weak one. A model has at most 1000
/// marks; if there are more, the weak ones of the objects that were shown first are left out.
///
/// # Parameters
/// `marks`: the marks. `seen`: the objects shown so far. `unmarked`: whether those of them that have no mark are weak marks.
/// `store`: the objects.
pub static READ_MARKS: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "marks",
            ParameterType::List(&ParameterType::Text),
            Default::EmptyList,
            "a name, # and an id, or an image file, each with = and a relevance from 0 to 1: cats/001.jpg=1",
        ),
        SEEN,
        Parameter::new(
            "unmarked",
            ParameterType::Choice(&["weak", "ignore"]),
            Default::Text("weak"),
            "objects that were shown and not judged: weak: probably not relevant; ignore: nothing is known",
        ),
        store_parameter("the store that is searched"),
    ],
    outputs: &[MARKS],
    example: "marks: {kind: read_marks, marks: [cats/001.jpg=1, dogs/004.jpg=0], store: signatures}",
    ..OperatorSpec::new("read_marks", "Gets the objects of judgements.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let given = bind.texts("marks").iter().map(|text| parse(text)).collect::<Result<Vec<_>, _>>()?;
    if given.len() > MARKS_MAX {
        return Err(BoxError::new(format!(
            "there are {} marks, and a session has {MARKS_MAX} at most: take back some",
            given.len()
        )));
    }
    let store = resources::store(bind)?;
    Ok(Box::new(ReadMarks {
        given,
        seen: bind.texts("seen"),
        is_weak: bind.text("unmarked") == "weak",
        input: bind.take_input()?,
        images: Images::new(Arc::clone(&store)),
        store,
        foreign: Vec::new(),
        found: None,
        next: 0,
    }))
}

/// Divides a mark into its object and its relevance.
fn parse(text: &str) -> Result<(String, f64), BoxError> {
    let (object, relevance) = text.rsplit_once('=').ok_or_else(|| {
        BoxError::new(format!(
            "the mark `{text}` has no relevance: write `{text}=1` if it is liked, `{text}=0` if not"
        ))
    })?;
    let number = relevance.trim().parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number));
    let number = number.ok_or_else(|| {
        BoxError::new(format!("the mark `{text}`: its relevance `{relevance}` is no number from 0 to 1"))
    })?;
    // A negative zero would be another score.
    Ok((object.to_owned(), number + 0.0))
}

/// The ids of objects that are given as names or as `#` and an id. Reads names, so it blocks.
pub(crate) fn ids_of(
    given: &[String],
    store: &dyn Store,
    interrupt: Interrupt<'_>,
) -> Result<Vec<u64>, BoxError> {
    let sources = sources_of(given, store, interrupt)?;
    sources
        .into_iter()
        .zip(given)
        .map(|(source, given)| match source {
            Found::Object(id) => Ok(id),
            _ => Err(BoxError::new(format!("`{given}` is not an object of the store"))),
        })
        .collect()
}

/// Looks up what the marks are of.
fn sources_of(given: &[String], store: &dyn Store, interrupt: Interrupt<'_>) -> Result<Vec<Found>, BoxError> {
    let mut sources = BTreeMap::new();
    let mut names = Vec::new();
    for (place, text) in given.iter().enumerate() {
        match text.strip_prefix('#').and_then(|digits| digits.parse::<u64>().ok()) {
            Some(id) if store.has(id) => {
                sources.insert(place, Found::Object(id));
            }
            Some(id) => {
                let path = store.path().display();
                let why = if id < store.ids_count() { "was removed from" } else { "is not in" };
                return Err(BoxError::new(format!("object {id} {why} `{path}`")));
            }
            None => names.push((place, text.clone())),
        }
    }
    let texts: Vec<String> = names.iter().map(|(_, text)| text.clone()).collect();
    sources.extend(names.iter().map(|(place, _)| *place).zip(look_up(&texts, store, interrupt)?));
    store.bring_in_until(&sources.values().filter_map(stored).collect::<Vec<_>>(), interrupt)?;
    Ok(sources.into_values().collect())
}

fn stored(source: &Found) -> Option<u64> {
    match source {
        Found::Object(id) => Some(*id),
        Found::File | Found::Spelt(_) => None,
    }
}

struct ReadMarks {
    given: Vec<(String, f64)>,
    seen: Vec<String>,
    is_weak: bool,
    store: Arc<dyn Store>,
    /// Marks that the request's caller gives.
    input: Option<InputReader>,
    images: Images,
    /// Marks of objects that are not in the store, so far.
    foreign: Vec<(String, ArrayRef, f64)>,
    /// After the look-up: the sources of the marks, and the ids of the objects shown.
    found: Option<(Vec<Found>, Vec<u64>)>,
    /// The next mark whose object may come from an image file.
    next: usize,
}

impl Operator for ReadMarks {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if let Some(mut input) = self.input.take() {
            let may_block = input.may_block;
            let foreign = &mut self.foreign;
            let mut read = || read_given(&mut input, foreign);
            if may_block { cx.detached(CALLER, read)?? } else { read()? }
        }
        let Some((sources, _)) = &self.found else {
            let objects: Vec<String> = self.given.iter().map(|(object, _)| object.clone()).collect();
            let (store, seen, cancelled) = (&*self.store, &self.seen, cx.cancelled());
            let found = cx.detached("disk", || {
                Ok::<_, BoxError>((
                    sources_of(&objects, store, &cancelled)?,
                    ids_of(seen, store, &cancelled)?,
                ))
            })??;
            self.found = Some(found);
            return Ok(Flow::More);
        };
        // One image per firing: it takes long, and other boxes wait for the slot.
        while let Some(source) = sources.get(self.next) {
            let (text, relevance) = &self.given[self.next];
            self.next += 1;
            match source {
                Found::Object(_) => {}
                Found::Spelt(object) => self.foreign.push((text.clone(), Arc::clone(object), *relevance)),
                Found::File => {
                    let content = cx.detached("disk", || read_whole(text))?;
                    let object = content.and_then(|content| self.images.of_file(&content));
                    let object =
                        object.map_err(|message| BoxError::new(format!("mark `{text}`: {message}")))?;
                    self.foreign.push((text.clone(), object, *relevance));
                    return Ok(Flow::More);
                }
            }
        }
        let marks = self.marks(cx)?;
        if let Some(envelope) = marks::envelope(&marks)? {
            cx.push(MARKS, envelope)?;
        }
        Ok(Flow::Done)
    }
}

impl ReadMarks {
    /// All marks in the order of the session.
    fn marks(&mut self, cx: &mut Context<'_>) -> Result<Vec<Mark>, BoxError> {
        let Some((sources, seen)) = self.found.take() else { return Ok(Vec::new()) };
        let mut relevances = BTreeMap::new();
        for ((text, relevance), id) in
            self.given.iter().zip(&sources).filter_map(|(given, source)| Some((given, stored(source)?)))
        {
            if relevances.insert(id, *relevance).is_some() {
                return Err(BoxError::new(format!("`{text}` is marked twice: give an object one relevance")));
            }
        }
        let shown: BTreeSet<u64> = seen.iter().copied().collect();
        let given = sources.iter().filter_map(stored);
        let mut order: Vec<u64> = given.filter(|id| !shown.contains(id)).collect();
        let mut weak_left = (MARKS_MAX - self.foreign.len().min(MARKS_MAX)).saturating_sub(relevances.len());
        // The latest of the weak ones.
        let (mut kept, mut earlier) = (BTreeSet::new(), BTreeSet::new());
        for id in seen.iter().rev().filter(|id| !relevances.contains_key(id)) {
            if self.is_weak && weak_left > 0 && kept.insert(*id) {
                weak_left -= 1;
            }
        }
        let was_judged = |id: &u64| relevances.contains_key(id) || kept.contains(id);
        order.extend(seen.iter().filter(|id| was_judged(id) && earlier.insert(**id)));
        let count = self.foreign.len() + relevances.len();
        if count > MARKS_MAX {
            return Err(BoxError::new(format!(
                "there are {count} marks, and a session has {MARKS_MAX} at most: take back some"
            )));
        }
        let mut marks = Vec::with_capacity(self.foreign.len() + order.len());
        for (nth, (name, object, relevance)) in self.foreign.drain(..).enumerate() {
            marks.push(Mark { id: foreign_id(nth as u64), name, object, relevance, noise: MARK_NOISE });
        }
        let store = &*self.store;
        let of_store = |id: &u64| {
            let (relevance, noise) = match relevances.get(id) {
                Some(relevance) => (*relevance, MARK_NOISE),
                None => (0.0, WEAK_NOISE),
            };
            Ok(Mark { id: *id, name: store.name(*id)?, object: store.objects(&[*id])?, relevance, noise })
        };
        let stored = || {
            store.bring_in(&order)?;
            order.iter().map(of_store).collect::<Result<Vec<_>, BoxError>>()
        };
        marks.extend(cx.detached("disk", stored)??);
        Ok(marks)
    }
}

/// Reads the marks that a request's caller gives.
fn read_given(input: &mut InputReader, foreign: &mut Vec<(String, ArrayRef, f64)>) -> Result<(), BoxError> {
    for batch in input.batches.by_ref() {
        let batch = batch?;
        let column = |name: &str| {
            let column = batch.column_by_name(name).filter(|column| column.null_count() == 0);
            column.ok_or_else(|| {
                BoxError::new(format!("the marks given have no column `{name}` without nulls; they need name, object and relevance"))
            })
        };
        let wrong = |name: &str, wanted: &str| {
            BoxError::new(format!("the column `{name}` of the marks given is no {wanted}"))
        };
        let names = column("name")?.as_string_opt::<i32>().ok_or_else(|| wrong("name", "Utf8"))?;
        let relevances = column("relevance")?.as_primitive_opt::<Float64Type>();
        let relevances = relevances.ok_or_else(|| wrong("relevance", "Float64"))?;
        let objects = column("object")?;
        for row in 0..batch.num_rows() {
            let relevance = relevances.value(row);
            if !(0.0..=1.0).contains(&relevance) {
                let name = names.value(row);
                return Err(BoxError::new(format!(
                    "the mark `{name}`: its relevance {relevance} is no number from 0 to 1"
                )));
            }
            if foreign.len() >= MARKS_MAX {
                return Err(BoxError::new(format!("more than {MARKS_MAX} marks are given")));
            }
            foreign.push((names.value(row).to_owned(), objects.slice(row, 1), relevance + 0.0));
        }
    }
    Ok(())
}
