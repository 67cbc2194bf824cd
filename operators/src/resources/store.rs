//! `store` and `signature_store`: objects that a pipeline names.

use std::path::Path;
use std::sync::Arc;

use boxwork_runtime::operator::{Bind, BoxError, Resource, ResourceSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_runtime::topology::Topology;
use boxwork_stores::any_kind::{self, AnyKind, KIND_NAMES_OR_AUTO};
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

/// The parameter that names the key or the column of objects in a file of another program.
pub(crate) const COLUMN: Parameter = Parameter::new(
    "column",
    ParameterType::Text,
    Default::Absent,
    "the key or the column of the objects; not given: `object`, and for signatures `signature` or the line itself",
);

/// The parameter that names the key or the column of objects' names in a file of another program.
pub(crate) const NAME: Parameter = Parameter::new(
    "name",
    ParameterType::Text,
    Default::Text("name"),
    "the key or the column of the names; if the file has none, texts name themselves, and others are numbered",
);

/// Objects of any kind, opened once and shared by requests as [`SharedStore`].
pub(crate) static STORE: ResourceSpec = ResourceSpec {
    name: "store",
    about: "Objects of any kind: a store that Boxwork made, or a column of another program's file.",
    parameters: &[
        PATH,
        COLUMN,
        NAME,
        Parameter::new(
            "holds",
            ParameterType::Choice(KIND_NAMES_OR_AUTO),
            Default::Text("auto"),
            "the kind of the objects; auto takes lists of numbers in JSON for vectors, and digits for texts",
        ),
        PLACEMENT,
    ],
    example: "objects: {kind: store, path: words.jsonl, column: word}",
    provides: Some("store"),
    check: None,
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
    let kind = match bind.text("holds") {
        "auto" => None,
        holds => Some(any_kind::named(holds).map_err(BoxError::new)?),
    };
    Ok(shared(open(
        &bind.path("path"),
        bind.get_text("column"),
        bind.text("name"),
        kind,
        access(bind),
        machine(bind),
    )?))
}

/// Opens the objects of a file: a store that Boxwork made, or a column of an Arrow IPC file or of JSON lines. `column`,
/// `name` and `kind` are of a file that Boxwork did not make. `access` says how a store comes into memory. If there is
/// a machine, its nodes take a copy of a store. Blocks on the disk.
///
/// # Errors
/// If the file cannot be read, or an object in it is invalid.
pub fn open(
    path: &Path,
    column: Option<&str>,
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
