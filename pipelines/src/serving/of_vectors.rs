//! The searches of a store of vectors: by a scan or codes, among some of them, and through lists.

use std::path::PathBuf;

use boxwork_stores::kinds::{Kind, Vectors};
use boxwork_stores::store::Store;

use super::ask::Ready;
use super::pipelines::{InMemory, Pipelines};

/// The searches of a store of vectors.
pub(super) struct OfVectors {
    /// Exact, among all or some of them.
    pub(super) nearest: Ready,
    /// Whether that goes by codes.
    pub(super) has_codes: bool,
    /// Through lists, if there are any: approximate.
    pub(super) lists: Option<Ready>,
}

impl OfVectors {
    /// The searches of a store. There are none if it holds no vectors, or if they have not the distance of the server's search: a
    /// person's own may have another.
    pub(super) fn of(
        prepare: &mut dyn FnMut(&InMemory) -> Result<Ready, String>,
        pipelines: &Pipelines,
        (codes, lists): (&Option<PathBuf>, &Option<PathBuf>),
        store: &dyn Store,
        measure: &str,
    ) -> Result<Option<Self>, String> {
        let file = codes.as_ref().or(lists.as_ref());
        if store.kind() != <Vectors as Kind>::NAME {
            return file.map_or(Ok(None), |file| {
                let (file, path) = (file.display(), store.path().display());
                let kind = store.kind();
                Err(format!("`{file}`: codes and lists are of vectors, and `{path}` holds {kind}"))
            });
        }
        let nearest = prepare(&pipelines.vectors)?;
        let (has_codes, has_lists) = (codes.is_some(), lists.is_some());
        let lists = has_lists.then(|| prepare(&pipelines.lists)).transpose()?;
        if nearest.measure().is_some_and(|(of_vectors, _)| of_vectors == measure) {
            return Ok(Some(Self { nearest, has_codes, lists }));
        }
        file.map_or(Ok(None), |file| {
            Err(format!(
                "`{}` is for the distance of the shipped searches of vectors, and this server's search has another: {measure}",
                file.display()
            ))
        })
    }

    /// Its pipelines.
    pub(super) fn pipelines(&self) -> impl Iterator<Item = &Ready> {
        std::iter::once(&self.nearest).chain(&self.lists)
    }
}
