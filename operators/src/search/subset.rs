//! The parameters of boxes that search among some of the objects.

use std::path::PathBuf;
use std::sync::Arc;

use boxwork_runtime::operator::{Bind, BoxError, Context};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::store::Store;
use boxwork_stores::subset::{Subset, SubsetError};

/// The parameter that names a class.
pub(crate) const CLASS: Parameter = Parameter::new(
    "class",
    ParameterType::Text,
    Default::Absent,
    "only objects whose last folder has this name, or whose names begin with it if it ends in /",
);

/// The parameter that names a file of objects.
pub(crate) const SUBSET: Parameter = Parameter::new(
    "subset",
    ParameterType::Path,
    Default::Absent,
    "only objects that this file names: a text with a name on each line, or an Arrow file with a column `id`, or with a \
     column of true and false that has a row for each id",
);

/// The parameter that lists ids.
pub(crate) const IDS: Parameter = Parameter::new(
    "ids",
    ParameterType::List(&ParameterType::Integer { minimum: 0, maximum: i64::MAX }),
    Default::EmptyList,
    "only objects with these ids; an empty list names all",
);

/// If fewer than one of this many objects are in a subset, distances of all of it cost less than a search for the nearest.
const FEW: u64 = 100;

/// The objects among which a box searches, as its parameters say.
#[derive(Default)]
pub(crate) struct Among {
    class: Option<String>,
    file: Option<PathBuf>,
    ids: Vec<i64>,
}

impl Among {
    /// The objects that a file names.
    #[cfg(test)]
    pub(crate) fn of_file(file: PathBuf) -> Self {
        Self { file: Some(file), ..Self::default() }
    }

    /// The parameters of a box that has [`CLASS`], [`SUBSET`] and [`IDS`].
    pub(crate) fn new(bind: &Bind<'_>) -> Self {
        Self {
            class: bind.get_text("class").map(str::to_owned),
            file: bind.get_text("subset").map(Into::into),
            ids: bind.integers("ids"),
        }
    }

    /// Reads the subset without holding a slot; `None` if the parameters give none.
    pub(crate) fn read(
        &self,
        cx: &mut Context<'_>,
        store: &dyn Store,
    ) -> Result<Option<Arc<Subset>>, BoxError> {
        if self.class.is_none() && self.file.is_none() && self.ids.is_empty() {
            return Ok(None);
        }
        let read = || -> Result<Option<Subset>, SubsetError> {
            let of_class = self.class.as_ref().map(|class| Subset::of_class(store, class)).transpose()?;
            let of_file = self.file.as_ref().map(|path| Subset::of_file(store, path)).transpose()?;
            let of_ids = (!self.ids.is_empty()).then(|| Subset::of_ids(store, &self.ids)).transpose()?;
            Ok([of_class, of_file, of_ids].into_iter().flatten().reduce(|all, other| all.and(&other)))
        };
        Ok(cx.detached("disk", read)??.map(Arc::new))
    }
}

/// Whether a subset is so small that a search computes the distances of all its objects.
pub(crate) fn is_few(subset: &Subset, store: &dyn Store) -> bool {
    subset.count() < store.objects_count().div_ceil(FEW)
}
