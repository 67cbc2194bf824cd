//! `store` and `signature_store`: objects that a pipeline names.

use std::path::Path;
use std::sync::Arc;

use boxwork_runtime::operator::{Bind, BoxError, Resource, ResourceSpec};
use boxwork_runtime::parameter::{Arguments, Default, Parameter, ParameterType, Value};
use boxwork_runtime::topology::Topology;
use boxwork_stores::any_kind::{self, AnyKind};
use boxwork_stores::object_column;
use boxwork_stores::object_store::Access;
use boxwork_stores::signature_store::{SignatureStore, StoreError};
use boxwork_stores::store::{SharedStore, Store};

const PATH: Parameter = Parameter::new(
    "path",
    ParameterType::Path,
    Default::Required,
    "a store made by Boxwork, an Arrow IPC file, or JSON lines (a name ending in .jsonl)",
);

const PLACEMENT: Parameter = Parameter::new(
    "placement",
    ParameterType::Choice(&["map", "copy"]),
    Default::Text("map"),
    "map: leave it in the page cache; copy: distribute it over the NUMA nodes' memory at first use",
);

/// Objects of any kind, opened once and shared by requests as [`SharedStore`].
pub(crate) static STORE: ResourceSpec = ResourceSpec {
    name: "store",
    about: "Objects of any kind: signatures from `boxwork extract`, or a store or column of vectors, texts or sets.",
    parameters: &[
        PATH,
        Parameter::new(
            "column",
            ParameterType::Text,
            Default::Text("object"),
            "the column of the objects, in a file not made by Boxwork",
        ),
        Parameter::new(
            "name",
            ParameterType::Text,
            Default::Text("name"),
            "the column of their names, if there is one",
        ),
        Parameter::new(
            "holds",
            ParameterType::Text,
            Default::Text("auto"),
            "the kind of the objects, such as vectors, texts or sets; auto takes lists of numbers in JSON for vectors",
        ),
        PLACEMENT,
    ],
    example: "objects: {kind: store, path: words.jsonl, column: word}",
    provides: Some("store"),
    check: Some(check),
    load,
};

/// A file of signatures, opened once and shared by requests as [`SharedStore`].
pub(crate) static SIGNATURE_STORE: ResourceSpec = ResourceSpec {
    name: "signature_store",
    about: "A file of signatures, made by `boxwork extract` or `boxwork import`.",
    parameters: &[PATH, PLACEMENT],
    example: "signatures: {kind: signature_store, path: photos.signatures.arrow}",
    provides: Some("store"),
    check: None,
    load: |bind| {
        let store = SignatureStore::open_by(bind.path("path"), access(bind))?;
        Ok(shared(match machine(bind) {
            Some(machine) => Arc::new(store.copied_to(machine)),
            None => Arc::new(store),
        }))
    },
};

fn load(bind: &Bind<'_>) -> Result<Resource, BoxError> {
    let kind = kind_of(bind.text("holds")).map_err(BoxError::new)?;
    Ok(shared(open(
        &bind.path("path"),
        bind.text("column"),
        bind.text("name"),
        kind,
        access(bind),
        machine(bind),
    )?))
}

/// The kind of objects that `holds` names; `None` for `auto`.
fn kind_of(holds: &str) -> Result<Option<&'static dyn AnyKind>, String> {
    if holds == "auto" { Ok(None) } else { any_kind::named(holds).map(Some) }
}

fn check(arguments: &Arguments) -> Result<(), String> {
    match arguments.get("holds") {
        Some(Value::Text(holds)) => kind_of(holds).map(drop),
        _ => Ok(()),
    }
}

/// Opens the objects of a file: a store that Boxwork made, or a column of an Arrow IPC file or of JSON lines. `column`,
/// `name` and `kind` apply to files not made by Boxwork. `access`: how a store comes into memory. `machine`: if given,
/// its nodes take a copy of a store. Blocks on the disk.
///
/// # Errors
/// If the file cannot be read, or an object in it is invalid.
pub fn open(
    path: &Path,
    column: &str,
    name: &str,
    kind: Option<&'static dyn AnyKind>,
    access: Access,
    machine: Option<Topology>,
) -> Result<Arc<dyn Store>, BoxError> {
    if object_column::is_json(path) {
        return object_column::open(path, column, name, kind);
    }
    match any_kind::open_by(path, access, machine) {
        Ok(store) => Ok(store),
        // Another program's Arrow file.
        Err(StoreError::NotAStore { is_foreign: true, .. }) => object_column::open(path, column, name, kind),
        Err(error) => Err(error.into()),
    }
}

/// How a store comes into memory: the runtime says whether files may be mapped.
pub(crate) fn access(bind: &Bind<'_>) -> Access {
    if bind.environment.maps { Access::Map } else { Access::Read }
}

/// The machine whose nodes take a copy of a store, if `placement` asks for one.
fn machine(bind: &Bind<'_>) -> Option<Topology> {
    (bind.text("placement") == "copy").then(|| bind.machine().clone())
}

fn shared(store: Arc<dyn Store>) -> Resource {
    Arc::new(SharedStore(store))
}
