//! `store` and `signature_store`: objects that a pipeline names.

use std::path::Path;
use std::sync::Arc;

use boxwork_runtime::operator::{Bind, BoxError, Resource, ResourceSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::object_column::{ObjectColumn, ObjectKind};
use boxwork_stores::signature_store::{SignatureStore, StoreError};
use boxwork_stores::store::{SharedStore, Store};

const PATH: Parameter = Parameter::new(
    "path",
    ParameterType::Path,
    Default::Required,
    "a store that Boxwork made, an Arrow IPC file, or JSON lines by the ending .jsonl",
);

const PLACEMENT: Parameter = Parameter::new(
    "placement",
    ParameterType::Choice(&["map", "copy"]),
    Default::Text("map"),
    "map: leave it in the page cache; copy: into memory of the NUMA nodes, a part each, when first used",
);

/// Objects of any kind, opened once and shared by requests as [`SharedStore`].
pub(crate) static STORE: ResourceSpec = ResourceSpec {
    name: "store",
    about: "Objects of any kind: signatures that `boxwork extract` made, or a column of vectors, texts or sets.",
    parameters: &[
        PATH,
        Parameter::new(
            "column",
            ParameterType::Text,
            Default::Text("object"),
            "the column of the objects, in a file that Boxwork did not make",
        ),
        Parameter::new(
            "name",
            ParameterType::Text,
            Default::Text("name"),
            "the column of their names, where there is one",
        ),
        Parameter::new(
            "holds",
            ParameterType::Choice(&["auto", "vectors", "texts", "sets"]),
            Default::Text("auto"),
            "what the objects are; auto takes lists of numbers in JSON for vectors",
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
    load: |bind| Ok(shared(signatures(SignatureStore::open(bind.path("path"))?, bind))),
};

fn load(bind: &Bind<'_>) -> Result<Resource, BoxError> {
    let kind = match bind.text("holds") {
        "vectors" => Some(ObjectKind::Vectors),
        "texts" => Some(ObjectKind::Texts),
        "sets" => Some(ObjectKind::Sets),
        _ => None,
    };
    let store = open(&bind.path("path"), bind.text("column"), bind.text("name"), kind)?;
    Ok(match store.clone().as_signatures() {
        Some(_) if bind.text("placement") == "copy" => {
            let store = SignatureStore::open(bind.path("path"))?;
            shared(signatures(store, bind))
        }
        _ => shared(store),
    })
}

/// Opens the objects of a file: a store that Boxwork made, or a column of an Arrow IPC file or of JSON lines. `column`,
/// `name` and `kind` are of a file that Boxwork did not make. Blocks on the disk.
///
/// # Errors
/// When the file cannot be read, or holds an object that is none.
pub fn open(
    path: &Path,
    column: &str,
    name: &str,
    kind: Option<ObjectKind>,
) -> Result<Arc<dyn Store>, BoxError> {
    if is_json(path) {
        return Ok(Arc::new(ObjectColumn::open(path, column, name, kind)?));
    }
    match SignatureStore::open(path) {
        Ok(store) => Ok(Arc::new(store)),
        // Another program's Arrow file.
        Err(StoreError::NotAStore { is_foreign: true, .. }) => {
            Ok(Arc::new(ObjectColumn::open(path, column, name, kind)?))
        }
        Err(error) => Err(error.into()),
    }
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ["jsonl", "ndjson", "json"].iter().any(|known| ending == *known))
}

fn signatures(store: SignatureStore, bind: &Bind<'_>) -> Arc<dyn Store> {
    match bind.text("placement") {
        "copy" => Arc::new(store.copied_to(bind.machine().clone())),
        _ => Arc::new(store),
    }
}

fn shared(store: Arc<dyn Store>) -> Resource {
    Arc::new(SharedStore(store))
}
