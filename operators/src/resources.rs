//! How boxes reach the resources that they name: stores and spaces of any kind, and indexes over them.

pub(crate) mod store;
pub(crate) mod space;
pub(crate) mod pivot_table;
pub(crate) mod lists;
pub(crate) mod hnsw;
pub(crate) mod permutation_table;
pub(crate) mod partial;
pub(crate) mod gp_kernel;
pub(crate) mod gp_model;

use std::sync::Arc;

use boxwork_runtime::operator::{Bind, BoxError, Context, ResourceSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::signature_store::SignatureStore;
use boxwork_stores::space::{SharedSpace, Space};
use boxwork_stores::store::{SharedStore, Store};

/// The kinds of resource of this folder.
pub(crate) static LIST: &[&ResourceSpec] = &[
    &store::STORE,
    &store::SIGNATURE_STORE,
    &space::SPACE,
    &space::SQFD_SPACE,
    &pivot_table::PIVOT_TABLE,
    &lists::LISTS,
    &hnsw::HNSW,
    &permutation_table::PERMUTATION_TABLE,
    &partial::PARTIAL,
    &gp_kernel::GP_KERNEL,
    &gp_model::GP_MODEL,
];

/// The parameter of boxes that compute distances.
pub(crate) const SPACE: Parameter = Parameter::new(
    "space",
    ParameterType::Resource("space"),
    Default::Required,
    "the objects and their distance",
);

/// The parameter of boxes that devices may compute for.
pub(crate) const fn device_parameter(default: &'static str) -> Parameter {
    Parameter::new(
        "device",
        ParameterType::Device,
        Default::Text(default),
        "where to compute: auto, cpu, gpu, or gpu: and the numbers of `boxwork devices`",
    )
}

/// The parameter of boxes that read objects.
pub(crate) const fn store_parameter(about: &'static str) -> Parameter {
    Parameter::new("store", ParameterType::Resource("store"), Default::Required, about)
}

/// The space that a box names.
pub(crate) fn space(bind: &Bind<'_>) -> Result<Arc<dyn Space>, BoxError> {
    Ok(Arc::clone(&bind.resource::<SharedSpace>("space")?.0))
}

pub(crate) use space::{
    check_index, check_measure, check_range, distance_of, get_range, index_space, properties_of,
    range_parameter,
};

/// The store that a box or a resource names.
pub(crate) fn store(bind: &Bind<'_>) -> Result<Arc<dyn Store>, BoxError> {
    Ok(Arc::clone(&bind.resource::<SharedStore>("store")?.0))
}

/// Reads objects into memory, unless they are there, without holding a slot.
///
/// # Errors
/// When a batch is damaged, there is no such object, or the request is cancelled.
pub(crate) fn bring_in(cx: &mut Context<'_>, store: &dyn Store, ids: &[u64]) -> Result<(), BoxError> {
    if !store.is_in(ids) {
        let cancelled = cx.cancelled();
        cx.detached("disk", || store.bring_in_until(ids, &cancelled))??;
    }
    Ok(())
}

/// The store that a box or a resource names, which must hold signatures.
pub(crate) fn signatures(bind: &Bind<'_>) -> Result<Arc<SignatureStore>, BoxError> {
    of_signatures(bind, store(bind)?)
}

/// The store of signatures that a parameter names, if it is given.
pub(crate) fn get_signatures(bind: &Bind<'_>, name: &str) -> Result<Option<Arc<SignatureStore>>, BoxError> {
    let store = bind.get_resource::<SharedStore>(name)?;
    store.map(|store| of_signatures(bind, Arc::clone(&store.0))).transpose()
}

fn of_signatures(bind: &Bind<'_>, store: Arc<dyn Store>) -> Result<Arc<SignatureStore>, BoxError> {
    let path = store.path().display().to_string();
    store.as_signatures().ok_or_else(|| {
        BoxError::new(format!(
            "`{}` needs a store of signatures, and `{path}` holds other objects",
            bind.name
        ))
    })
}

pub(crate) use boxwork_stores::subset::class_of;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_is_the_last_folder() {
        assert_eq!(class_of("photos/cats/001.jpg"), Some("cats"));
        assert_eq!(class_of("cats/001.jpg"), Some("cats"));
        assert_eq!((class_of("001.jpg"), class_of("/001.jpg")), (None, None));
    }
}
