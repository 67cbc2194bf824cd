//! `skip_present`: leaves out the files whose names a store has, before anything reads them.
//!
//! Invariant: rows keep their order.

use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef, StringArray};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use crate::columns;
use crate::resources::{self, store_parameter};
use boxwork_stores::store::Store;
use boxwork_stores::store_error::StoreError;

const FILES: In = In::stream(0, "files", columns::files, "the files that were listed");
const REST: Out = Out::new(0, "files", columns::files, "those whose names the store does not have");

/// Leaves out files that a store has.
///
/// A file is known by its name, and its content is not looked at. A note counts the files that are left out.
///
/// # Inputs
/// `files`: paths and names.
///
/// # Outputs
/// `files`: those whose names the store does not have, in their order.
///
/// # Parameters
/// `store`: the store. `replace`: whether all files pass, since they replace the objects of their names.
pub static SKIP_PRESENT: OperatorSpec = OperatorSpec {
    parameters: &[
        store_parameter("the store whose names are left out"),
        Parameter::new(
            "replace",
            ParameterType::Boolean,
            Default::Boolean(false),
            "whether all files pass, since they replace objects",
        ),
    ],
    inputs: &[FILES],
    outputs: &[REST],
    example: "new: {kind: skip_present, store: signatures}",
    ..OperatorSpec::new("skip_present", "Leaves out files whose names a store has.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let passes_all = bind.boolean("replace");
    Ok(Box::new(SkipPresent { store: resources::store(bind)?, passes_all, present: 0 }))
}

struct SkipPresent {
    store: Arc<dyn Store>,
    passes_all: bool,
    present: u64,
}

impl Operator for SkipPresent {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(REST) {
            let Some(files) = cx.take(FILES) else {
                if !cx.is_ended(FILES) {
                    return Ok(Flow::Wait);
                }
                if self.present > 0 {
                    let are = if self.present == 1 { "is" } else { "are" };
                    cx.note(format!("{} {are} there already", self.present));
                }
                return Ok(Flow::Done);
            };
            let rest = match self.passes_all {
                true => files,
                false => {
                    let (store, cancelled) = (&self.store, cx.cancelled());
                    let is_there = |name: &str| Ok(store.find_until(name, &cancelled)?.is_some());
                    let rest = cx.detached("disk", || rest_of(&files, is_there))??;
                    self.present += (files.rows() - rest.rows()) as u64;
                    rest
                }
            };
            if rest.rows() > 0 && cx.push(REST, rest)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Wait)
    }
}

/// The files of an envelope whose names are not known.
pub(crate) fn rest_of(
    files: &Envelope,
    mut is_known: impl FnMut(&str) -> Result<bool, StoreError>,
) -> Result<Envelope, BoxError> {
    let (paths, names) = (files.texts("path")?, files.texts("name")?);
    let mut rows = Vec::with_capacity(names.len());
    for row in 0..names.len() {
        if !is_known(names.value(row))? {
            rows.push(row);
        }
    }
    let of = |texts: &StringArray| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| texts.value(*row))))
    };
    Ok(Envelope::from_columns([("path", of(paths)), ("name", of(names))])?)
}

#[cfg(test)]
mod tests {
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_runtime::parameter::Value;
    use boxwork_stores::testing;

    use super::*;

    fn passed(replaces: bool) -> (Vec<String>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let store: Resource = testing::shared_store(&testing::store(folder.path(), 3));
        let given = [("store", Value::Text("s".into())), ("replace", Value::Boolean(replaces))];
        let mut harness = Harness::with_resources(&SKIP_PRESENT, given, [("s", store)]).unwrap();
        for names in [&["cats/000.png", "cats/9.png"][..], &["dogs/001.png"], &["owls/8.png"]] {
            let texts = || -> ArrayRef { Arc::new(StringArray::from(names.to_vec())) };
            harness.give(FILES, Envelope::from_columns([("path", texts()), ("name", texts())]).unwrap());
        }
        harness.end(FILES);
        while !harness.is_done() {
            harness.run().unwrap();
        }
        let names = |envelope: &Envelope| -> Vec<String> {
            envelope.texts("name").unwrap().iter().flatten().map(str::to_owned).collect()
        };
        (harness.taken(REST).iter().flat_map(names).collect(), harness.notes().to_vec())
    }

    #[test]
    fn names_that_the_store_has_are_left_out_and_counted() {
        let (names, notes) = passed(false);
        assert_eq!(names, ["cats/9.png", "owls/8.png"]);
        assert_eq!(notes, ["2 are there already"]);
        let (names, notes) = passed(true);
        assert_eq!((names.len(), notes.len()), (4, 0));
    }
}
