//! The spaces: a distance by its name and constants, over any store.
//!
//! A distance is one file under `spaces/distances`, listed once in [`DISTANCES`]. It declares its sound bounds before a
//! store is opened ([`DistanceOptions::properties`]), and makes the space of a store ([`open`]).

mod options;
mod column_space;
mod signature_space;
mod distances;
mod alignments;
mod root_space;

#[cfg(test)]
mod tests;

pub use alignments::{ALIGNMENTS, Alignment};
pub use column_space::{ColumnDistance, ColumnSpace};
pub use options::{ALPHA, DistanceOptions, EditConstants};
pub use root_space::RootSpace;
pub use signature_space::SignatureSpace;

use std::fmt::Debug;
use std::sync::Arc;

use boxwork_kernels::distance::Properties;
use boxwork_kernels::vector::VectorMeasure;

use crate::space::{Space, SpaceError};
use crate::store::Store;

/// Lists the distances: as values, and by name for the choices of parameters.
macro_rules! distances {
    ($($distance:path),+ $(,)?) => {
        /// Every distance, by the name that pipelines call it.
        pub static DISTANCES: &[&dyn Distance] = &[$(&$distance),+];
        /// The names of [`DISTANCES`], and `auto`: the usual distance of the objects.
        pub const DISTANCE_NAMES_OR_AUTO: &[&str] = &[options::AUTO, $($distance.name),+];
    };
}

// A new distance is a file and a line here.
distances! {
    distances::lp::L1,
    distances::lp::L2,
    distances::lp::LINF,
    distances::lp::LP,
    distances::inner_product::IP,
    distances::inner_product::COSINE,
    distances::canberra::CANBERRA,
    distances::dtw::DTW,
    distances::levenshtein::LEVENSHTEIN,
    distances::edit::EDIT,
    distances::jaccard::JACCARD,
    distances::hamming::HAMMING,
    distances::hausdorff::HAUSDORFF,
    distances::emd::EMD,
    distances::sqfd::SQFD,
}

/// A named distance.
pub trait Distance: Debug + Sync {
    /// The name.
    fn name(&self) -> &'static str;

    /// The kind of its objects, in the plural.
    fn of(&self) -> &'static str;

    /// Its constants.
    fn constants(&self) -> Constants {
        Constants::None
    }

    /// The inequalities that it obeys.
    ///
    /// # Errors
    /// Describes the fault in its constants.
    fn properties(&self, options: &DistanceOptions) -> Result<Properties, String>;

    /// The space of a store, without a root; `measure` names it.
    ///
    /// # Errors
    /// When the store holds objects of another kind, has an object without distances, or cannot be read.
    fn open(
        &self,
        options: &DistanceOptions,
        measure: String,
        store: Arc<dyn Store>,
    ) -> Result<Arc<dyn Space>, SpaceError>;
}

/// The constants of a distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constants {
    /// None.
    None,
    /// `p`.
    Exponent,
    /// `ground`, restricted to metrics.
    Ground,
    /// `similarity`, `ground` and `alpha`.
    Similarity,
    /// `insert`, `delete`, `replace` and `matrix`.
    Costs,
    /// `band`.
    Band,
}

/// Finds a distance by name.
///
/// # Errors
/// Names all distances.
pub fn named(name: &str) -> Result<&'static dyn Distance, String> {
    let found = DISTANCES.iter().find(|distance| distance.name() == name);
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = DISTANCES.iter().map(|distance| distance.name()).collect();
        format!("there is no distance `{name}`; there are {}", names.join(", "))
    })
}

/// Whether an index of pivots or of balls may exclude objects by a distance with these properties.
///
/// # Errors
/// The inequality that the distance does not obey, and what to take in place of such an index.
pub fn allow_index(properties: &Properties) -> Result<(), String> {
    properties.allow_index().map_err(|error| {
        let has_codes = VectorMeasure::named(error.distance).filter(|_| !error.is_root);
        let codes = has_codes.map_or_else(String::new, |measure| {
            let or = if error.has_root { ", or" } else { ":" };
            let measure = measure.name();
            format!("{or} search with codes, which are exact (`boxwork index --codes planes --distance {measure}`)")
        });
        format!("{error}{codes}")
    })
}

/// Whether an index has apexes, which the simplex bound and sketches of an index need, by a distance with these properties.
///
/// # Errors
/// Names the distance, and its root if that has apexes.
pub fn allow_apexes(properties: &Properties) -> Result<(), String> {
    if properties.hilbert {
        return Ok(());
    }
    let name = properties.name;
    let root = if properties.is_root { "the root of " } else { "" };
    let way = if properties.negative_type {
        "its root is one, so make the index and the sketch by that (`boxwork index --root`)"
    } else {
        "leave the sketch out"
    };
    Err(format!(
        "{root}{name} is no Hilbert distance, so that its indexes have no apexes to make a sketch of: {way}"
    ))
}

/// The distance of a space for users: with the origin of its alpha, if it has one.
pub fn in_words(space: &dyn Space) -> String {
    let measure = space.measure();
    let Some(alpha) = DistanceOptions::parse(&measure).and_then(|options| options.alpha) else {
        return measure;
    };
    match space.store().alpha() {
        Some(kept) if kept == alpha => format!("{measure} (the store's alpha)"),
        Some(kept) => format!("{measure} (given; the store's alpha is {kept})"),
        None if alpha == ALPHA => format!("{measure} (the store keeps no alpha; {ALPHA} is the default)"),
        None => format!("{measure} (given; the store keeps no alpha)"),
    }
}

/// The space that the options describe, over a store. Blocks on the disk.
///
/// # Errors
/// When the options do not fit together, or the store holds objects of another kind, has an object without distances,
/// or cannot be read.
pub fn open(options: &DistanceOptions, store: Arc<dyn Store>) -> Result<Arc<dyn Space>, SpaceError> {
    let options = options.resolved(&store);
    let distance = named(&options.distance).map_err(SpaceError::Query)?;
    options.properties().map_err(SpaceError::Query)?;
    let space = distance.open(&options, options.unrooted_text(), store)?;
    Ok(if options.root { Arc::new(RootSpace::new(space)) } else { space })
}
