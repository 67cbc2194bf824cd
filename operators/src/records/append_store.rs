//! `append_store`: the end of `boxwork add`, objects that join a store.
//!
//! Invariant: the objects are in the store, and in its indexes, all at once when the input has ended, or not at all.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use serde_json::Value as Json;

use super::HOLDS;
use crate::columns;
use crate::images::extract::PARAMETERS_NOTE;
use boxwork_stores::any_kind::{self, AnyChange, AnyKind};
use boxwork_stores::lists::Lists;
use boxwork_stores::object_store::Access;
use boxwork_stores::store::{SharedStore, Store};
use boxwork_stores::upkeep;

const OBJECTS: In = In::stream(0, "objects", columns::objects, "the objects, made as the store's were");

/// Adds objects to a store.
///
/// The store's other objects keep their ids, and the new ones follow in the order in which they come. A reader that
/// opened the store before keeps the content of that moment. A run that fails, is cancelled or killed leaves the store
/// as it was. It costs what is added, whatever the size of the store, but for a look at all names.
///
/// # Inputs
/// `objects`: the objects, made as the store's were; no two of one name. An object that the store has already, equal to
/// the bit and under the same name, is left out and counted in a note; another object of a name that the store has is
/// refused, unless it replaces it.
///
/// # Outputs
/// None.
///
/// # Parameters
/// `store`: the store to add to. `pivots`: its indexes, which are brought up to it. `merge`: lists of the store `from`; objects that come from
/// it take their lists and codes from these, if they have the same centroids and codebook as lists in `pivots`: others are refused. `replace`: whether an object takes
/// the place of one of its name, which is removed. `holds`: the kind of the objects.
pub static APPEND_STORE: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new("store", ParameterType::Resource("store"), Default::Required, "the store to add to"),
        Parameter::new(
            "pivots",
            ParameterType::List(&ParameterType::Path),
            Default::EmptyList,
            "indexes of the store, which are brought up to it",
        ),
        Parameter::new(
            "merge",
            ParameterType::List(&ParameterType::Path),
            Default::EmptyList,
            "lists of `from`, by the centroids and the codebook of lists in `pivots`, which take them in",
        ),
        Parameter::new(
            "from",
            ParameterType::Resource("store"),
            Default::Absent,
            "the store of which `merge` has lists",
        ),
        Parameter::new(
            "replace",
            ParameterType::Boolean,
            Default::Boolean(false),
            "whether an object takes the place of one of its name",
        ),
        HOLDS,
    ],
    inputs: &[OBJECTS],
    example: "store: {kind: append_store, store: signatures, pivots: [photos.pivots.arrow]}",
    ..OperatorSpec::new("append_store", "Adds objects to a store file.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let pivots = bind.texts("pivots").into_iter().map(PathBuf::from).collect();
    let (kind, store, replaces) =
        (super::kind(bind)?, crate::resources::store(bind)?, bind.boolean("replace"));
    let access = crate::resources::store::access(bind);
    let merge: Vec<PathBuf> = bind.texts("merge").into_iter().map(PathBuf::from).collect();
    let sources = match (merge.is_empty(), bind.get_resource::<SharedStore>("from")?) {
        (true, _) => Vec::new(),
        (false, Some(from)) => upkeep::sources(&merge, &from.0, access)?,
        (false, None) => {
            return Err(BoxError::new("lists to `merge` are of another store: name it as `from`"));
        }
    };
    Ok(Box::new(AppendStore { store, kind, access, pivots, sources, replaces, change: None, present: 0 }))
}

struct AppendStore {
    store: Arc<dyn Store>,
    kind: &'static dyn AnyKind,
    access: Access,
    pivots: Vec<PathBuf>,
    /// Lists that those among `pivots` take in.
    sources: Vec<Lists>,
    replaces: bool,
    // Holds the store's lock from the first firing on; dropped, it leaves the store as it was.
    change: Option<Box<dyn AnyChange>>,
    /// The objects that the store had already.
    present: u64,
}

impl Operator for AppendStore {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let change = match &mut self.change {
            Some(change) => change,
            None => {
                // Before any object comes: if another process changes the store, the run fails before it has computed
                // anything.
                let (path, access) = (self.store.path(), self.access);
                self.change.insert(cx.detached("disk", || any_kind::change_by(path, access))??)
            }
        };
        while let Some(envelope) = cx.take(OBJECTS) {
            let (kind, replaces) = (self.kind, self.replaces);
            self.present += cx.detached("disk", || append(&mut **change, kind, &envelope, replaces))??;
            cx.progress(change.added(), 0);
        }
        if !cx.is_ended(OBJECTS) {
            return Ok(Flow::Wait);
        }
        let Some(change) = self.change.take().filter(|_| !cx.is_cancelled()) else { return Ok(Flow::Done) };
        if change.added() == 0 {
            // Nothing changes, but an index may lack objects of earlier changes. The change holds the store's lock.
            drop(change);
            for pivots in &self.pivots {
                let done =
                    upkeep::bring_up(self.store.path(), pivots, self.access, &mut |numbers, piece, f| {
                        cx.inside(|inside| inside.for_each_chunk_of(numbers, piece, f));
                        !cx.is_cancelled()
                    });
                match done {
                    Err(error) if error.is_cancelled() => return Ok(Flow::Done),
                    done => done?,
                };
            }
            cx.note(in_words(0, 0, self.present));
            return Ok(Flow::Done);
        }
        let pending = cx.detached("disk", || change.write())??;
        let (pivots, sources) = (&self.pivots, &self.sources);
        // The distances are computed by the workers; the files that are written between them are small.
        let done = upkeep::commit_merging(pending, pivots, sources, &mut |numbers, piece, f| {
            cx.inside(|inside| inside.for_each_chunk_of(numbers, piece, f));
            !cx.is_cancelled()
        });
        let (added, removed) = match done {
            // The change was dropped, and the store is as it was.
            Err(error) if error.is_cancelled() => return Ok(Flow::Done),
            done => done?,
        };
        cx.note(in_words(added, removed, self.present));
        cx.progress(added, added);
        Ok(Flow::Done)
    }
}

/// Says what a change has done.
fn in_words(added: u64, replaced: u64, present: u64) -> String {
    let mut text = format!("added {added}");
    if replaced > 0 {
        text += &format!(", of which {replaced} replace others");
    }
    if present > 0 {
        text += &format!(", {present} {} there already", if present == 1 { "is" } else { "are" });
    }
    text
}

/// Adds the objects of an envelope, and returns the number of those that the store has already.
fn append(
    change: &mut dyn AnyChange,
    kind: &dyn AnyKind,
    envelope: &Envelope,
    replaces: bool,
) -> Result<u64, BoxError> {
    if envelope.rows() == 0 {
        return Ok(0);
    }
    let (names, columns) = super::objects(envelope, kind)?;
    // First, as signatures of other coordinates were extracted otherwise too.
    change.check_kind(&columns)?;
    check_parameters(&*change.store(), envelope.note(PARAMETERS_NOTE))?;
    if replaces {
        change.push_rows(names, &columns, true)?;
        return Ok(0);
    }
    let mut present = 0;
    let push = |change: &mut dyn AnyChange, rows: Range<usize>| {
        let columns: Vec<ArrayRef> =
            columns.iter().map(|column| column.slice(rows.start, rows.len())).collect();
        if rows.is_empty() {
            Ok(())
        } else {
            change.push_rows(&names.slice(rows.start, rows.len()), &columns, false)
        }
    };
    let mut first = 0;
    for row in 0..names.len() {
        if change.has_equal(names.value(row), &columns, row)? {
            push(change, first..row)?;
            (first, present) = (row + 1, present + 1);
        }
    }
    push(change, first..names.len())?;
    Ok(present)
}

/// Refuses signatures that were not made as the store's.
fn check_parameters(store: &dyn Store, found: Option<&str>) -> Result<(), BoxError> {
    let read = |text: Option<&str>| text.and_then(|text| serde_json::from_str::<Json>(text).ok());
    let (wanted, came) = (read(store.parameters()), read(found));
    if wanted == came {
        return Ok(());
    }
    let path = store.path().display();
    let (Some(Json::Object(wanted)), Some(Json::Object(came))) = (wanted, came) else {
        let how = match found {
            Some(_) => "were extracted from images, and those of the store are not (it was imported)",
            None => "do not say how they were extracted, and those of the store were extracted from images",
        };
        return Err(BoxError::new(format!(
            "the signatures that came for `{path}` {how}: their distances would mean nothing"
        )));
    };
    let keys = wanted.keys().chain(came.keys().filter(|key| !wanted.contains_key(*key)));
    let said = |value: Option<&Json>| value.map_or_else(|| "nothing".to_owned(), Json::to_string);
    let differ: Vec<String> = keys
        .filter(|key| wanted.get(*key) != came.get(*key))
        .map(|key| format!("{key} {} where the store has {}", said(came.get(key)), said(wanted.get(key))))
        .collect();
    Err(BoxError::new(format!(
        "the signatures that came for `{path}` were extracted otherwise: {}",
        differ.join(", ")
    )))
}
