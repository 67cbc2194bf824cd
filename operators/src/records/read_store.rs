//! `read_store`: all objects of a store, for an export or a copy.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::StringBuilder;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec, Out, Pushed};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use super::HOLDS;
use crate::columns;
use crate::images::extract::{PARAMETERS_NOTE, with_alpha};
use crate::resources;
use boxwork_stores::any_kind::AnyKind;
use boxwork_stores::store::Store;

/// Rows of an envelope: a few megabytes at the usual number of centroids, so that some fit an edge.
const ROWS: usize = 1024;

const OBJECTS: Out = Out::new(0, "objects", columns::objects, "the objects, by id");

/// Gives all objects of a store, in their order, with notes of how they were extracted and of the store's alpha.
///
/// The columns are copied from the file, since a box that reads them later cannot ask whether the file is still whole.
///
/// # Inputs
/// None.
///
/// # Outputs
/// `objects`: the objects.
///
/// # Parameters
/// `store`: the store. `holds`: the kind of its objects.
pub static READ_STORE: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "store",
            ParameterType::Resource("store"),
            Default::Required,
            "the store whose objects are wanted",
        ),
        HOLDS,
    ],
    outputs: &[OBJECTS],
    example: "objects: {kind: read_store, store: signatures}",
    ..OperatorSpec::new("read_store", "Gives all objects of a store.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let (kind, store) = (super::kind(bind)?, resources::store(bind)?);
    if store.kind() != kind.name() {
        let (path, found) = (store.path().display(), store.kind());
        return Err(BoxError::new(format!(
            "`{path}` holds {found}, and `{}` is to read {}: say `holds: {found}`",
            bind.name,
            kind.name()
        )));
    }
    Ok(Box::new(ReadStore { store, kind, sent: 0 }))
}

struct ReadStore {
    store: Arc<dyn Store>,
    kind: &'static dyn AnyKind,
    sent: u64,
}

impl Operator for ReadStore {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while self.sent < self.store.ids_count() {
            if !cx.has_room(OBJECTS) {
                return Ok(Flow::Wait);
            }
            cx.announce();
            resources::bring_in(cx, &*self.store, &[self.sent])?;
            let (batch, _) = self.store.locate(self.sent)?;
            let end = self.store.batch_ids(batch).end.min(self.sent + ROWS as u64);
            let ids: Vec<u64> = self.store.among(self.sent..end).collect();
            self.sent = end;
            if ids.is_empty() {
                continue;
            }
            let pushed = cx.push(OBJECTS, self.envelope(batch, &ids)?)?;
            cx.progress(self.store.count(0..self.sent), self.store.objects_count());
            if pushed == Pushed::Closed {
                break;
            }
        }
        Ok(Flow::Done)
    }
}

impl ReadStore {
    /// The names and columns of objects of one batch.
    fn envelope(&self, batch: usize, ids: &[u64]) -> Result<Envelope, BoxError> {
        let mut names = StringBuilder::new();
        self.store.each_name(batch, &mut |id, name| {
            if ids.binary_search(&id).is_ok() {
                names.append_value(name);
            }
        })?;
        let mut columns: Vec<(&str, ArrayRef)> = vec![("name", Arc::new(names.finish()))];
        columns.extend(self.kind.column_names().iter().copied().zip(self.store.columns(ids)?));
        let envelope = with_alpha(Envelope::from_columns(columns)?, self.store.alpha());
        Ok(match self.store.parameters() {
            Some(parameters) => envelope.with_note(PARAMETERS_NOTE, parameters),
            None => envelope,
        })
    }
}

#[cfg(test)]
mod tests {
    use boxwork_kernels::sqfd::Columns;
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_runtime::parameter::Value;

    use super::*;
    use boxwork_stores::signature::SignatureColumns;
    use boxwork_stores::signature_store::{SignatureStore, StoreInfo, StoreWriter};

    fn harness(path: &std::path::Path) -> Harness {
        let store: Resource =
            boxwork_stores::testing::shared_store(&Arc::new(SignatureStore::open(path).unwrap()));
        let parameters = [("store", Value::Text("signatures".into()))];
        Harness::with_resources(&READ_STORE, parameters, [("signatures", store)]).unwrap()
    }

    #[test]
    fn gives_all_objects_in_order_as_there_is_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let mut writer = StoreWriter::create(&path, &["x"], &StoreInfo::default()).unwrap();
        for object in 0..5000u32 {
            let x: [&[f32]; 1] = [&[object as f32]];
            writer.push(&object.to_string(), Columns::new(&x, &[1.0]).signature(0, 1), object, 1).unwrap();
        }
        writer.finish().unwrap();
        let mut harness = harness(&path);
        harness.room(1);
        let mut next = 0;
        while !harness.is_done() {
            harness.run().unwrap();
            for envelope in harness.taken(OBJECTS) {
                assert!(envelope.bytes() > 0);
                let columns = SignatureColumns::new(envelope.lists("signature").unwrap()).unwrap();
                for row in 0..envelope.rows() {
                    assert_eq!(envelope.texts("name").unwrap().value(row), next.to_string());
                    assert_eq!(columns.signature(row).coordinate(0), [next as f32]);
                    assert_eq!(envelope.u32s("width").unwrap()[row], next);
                    next += 1;
                }
            }
        }
        assert_eq!((next, harness.progress()), (5000, (5000, 5000)));
        assert_eq!(harness.detached(), ["disk", "disk"]);
    }

    #[test]
    fn a_damaged_batch_ends_the_request() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let mut writer = StoreWriter::create(&path, &["x"], &StoreInfo::default()).unwrap();
        let x = vec![0.5; 1000];
        let x: [&[f32]; 1] = [&x];
        writer.push("a", Columns::new(&x, &vec![1.0; 1000]).signature(0, 1000), 0, 0).unwrap();
        writer.finish().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let message = harness(&path).run().unwrap_err().to_string();
        assert!(message.contains("damaged in batch 1 of 1"), "{message}");
    }
}
