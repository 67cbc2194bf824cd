//! `signature_store`: a store that a pipeline names.

use std::sync::Arc;

use boxwork_runtime::operator::{Bind, BoxError, Resource, ResourceSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_runtime::topology::Topology;

use super::SignatureStore;

/// A file of signatures, opened once and shared by requests as [`SignatureStore`].
pub static SIGNATURE_STORE: ResourceSpec = ResourceSpec {
    name: "signature_store",
    about: "A file of signatures, made by `boxwork extract` or `boxwork import`.",
    parameters: &[
        Parameter::new("path", ParameterType::Path, Default::Required, "the `*.signatures.arrow` file"),
        Parameter::new(
            "placement",
            ParameterType::Choice(&["map", "copy"]),
            Default::Text("map"),
            "map: leave it in the page cache; copy: into memory of the NUMA nodes, a part each, when first used",
        ),
    ],
    example: "signatures: {kind: signature_store, path: photos.signatures.arrow}",
    check: None,
    load,
};

fn load(bind: &Bind<'_>) -> Result<Resource, BoxError> {
    let store = SignatureStore::open(bind.path("path"))?;
    Ok(Arc::new(match bind.text("placement") {
        "copy" => store.copied_to(Topology::detect()),
        _ => store,
    }))
}
