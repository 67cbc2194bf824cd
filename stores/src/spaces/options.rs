//! A distance by its name and constants, as pipelines declare it and indexes store it.

use std::fmt::Write;
use std::sync::Arc;

use boxwork_kernels::distance::{Lp, Properties};
use boxwork_kernels::similarity::{Measure, MeasureError};

use super::{Constants, named};
use crate::store::Store;

/// A distance and its constants. A constant applies to the distances that have it.
#[derive(Clone, Debug, PartialEq)]
pub struct DistanceOptions {
    /// A name of [`DISTANCES`](super::DISTANCES), or `auto`: the usual distance of the store's objects.
    pub distance: String,
    /// The exponent of lp.
    pub p: Option<f64>,
    /// Whether to take the square root of the distance.
    pub root: bool,
    /// The similarity of two centroids, for sqfd.
    pub similarity: String,
    /// The distance of two centroids.
    pub ground: String,
    /// The steepness of the similarity.
    pub alpha: f64,
}

impl Default for DistanceOptions {
    fn default() -> Self {
        Self {
            distance: AUTO.to_owned(),
            p: None,
            root: false,
            similarity: "gaussian".to_owned(),
            ground: "l2".to_owned(),
            alpha: 0.2,
        }
    }
}

/// Leaves the distance to the store.
pub(super) const AUTO: &str = "auto";
/// The beginning of the text of a rooted distance.
const ROOT: &str = "root of ";

impl DistanceOptions {
    /// A distance of this name with the default constants.
    pub fn named(distance: &str) -> Self {
        Self { distance: distance.to_owned(), ..Self::default() }
    }

    /// The inequalities that the distance obeys; `None` for `auto`, whose store is not open yet.
    ///
    /// # Errors
    /// Describes the conflict, and the fix.
    pub fn properties(&self) -> Result<Option<Properties>, String> {
        if self.distance != "lp" && self.p.is_some() {
            let distance = &self.distance;
            return Err(format!("`p` is the exponent of lp, and the distance is {distance}: remove it"));
        }
        if self.distance == AUTO {
            return Ok(None);
        }
        let properties = named(&self.distance)?.properties(self)?;
        Ok(Some(if self.root { properties.rooted() } else { properties }))
    }

    /// These options with `auto` replaced by the store's usual distance.
    pub(super) fn resolved(&self, store: &Arc<dyn Store>) -> Self {
        if self.distance != AUTO {
            return self.clone();
        }
        let usual = store.usual_distance();
        Self { distance: usual.to_owned(), ..self.clone() }
    }

    /// The exponent of lp.
    ///
    /// # Errors
    /// When it is missing or below 1.
    pub(super) fn exponent(&self) -> Result<Lp, String> {
        let p = self.p.ok_or("lp needs its exponent: add `p:` with a number from 1 up")?;
        Lp::new(p).map_err(|error| error.to_string())
    }

    /// The ground distance, which must be a metric.
    ///
    /// # Errors
    /// When it is not a metric.
    pub(super) fn metric_ground(&self) -> Result<Lp, String> {
        match self.ground.as_str() {
            "l1" => Ok(Lp::L1),
            "l2" => Ok(Lp::L2),
            "linf" => Ok(Lp::LINF),
            other => Err(format!("{} over {other} is no metric: use l1, l2 or linf", self.distance)),
        }
    }

    /// The measure of sqfd.
    ///
    /// # Errors
    /// When the constants are invalid.
    pub(super) fn measure(&self) -> Result<Measure, MeasureError> {
        Measure::new(self.similarity.parse()?, self.ground.parse()?, self.alpha)
    }

    /// The distance and its constants in words; [`DistanceOptions::parse`] reads them.
    pub fn text(&self) -> String {
        let text = self.unrooted_text();
        if self.root { format!("{ROOT}{text}") } else { text }
    }

    pub(super) fn unrooted_text(&self) -> String {
        let mut text = self.distance.clone();
        let written = match named(&self.distance).map(|distance| distance.constants()) {
            Ok(Constants::Exponent) => write!(text, " with p {:?}", self.p.unwrap_or(f64::NAN)),
            Ok(Constants::Ground) => write!(text, " over {}", self.ground),
            Ok(Constants::Similarity) => {
                text.clear();
                write!(text, "{} similarity over {} at alpha {:?}", self.similarity, self.ground, self.alpha)
            }
            Ok(Constants::None) | Err(_) => Ok(()),
        };
        written.expect("a string takes any text");
        text
    }

    /// Parses the text of a measure; `None` if this program did not write it.
    pub fn parse(text: &str) -> Option<Self> {
        let (root, text) = text.strip_prefix(ROOT).map_or((false, text), |rest| (true, rest));
        let usual = Self { root, ..Self::default() };
        let options = if let Some((similarity, rest)) = text.split_once(" similarity over ") {
            let (ground, alpha) = rest.split_once(" at alpha ")?;
            let (similarity, ground) = (similarity.to_owned(), ground.to_owned());
            Self { distance: "sqfd".to_owned(), similarity, ground, alpha: alpha.parse().ok()?, ..usual }
        } else if let Some((distance, p)) = text.split_once(" with p ") {
            Self { distance: distance.to_owned(), p: Some(p.parse().ok()?), ..usual }
        } else if let Some((distance, ground)) = text.split_once(" over ") {
            Self { distance: distance.to_owned(), ground: ground.to_owned(), ..usual }
        } else {
            Self { distance: text.to_owned(), ..usual }
        };
        let is_sound = matches!(options.properties(), Ok(Some(_))) && options.unrooted_text() == text;
        is_sound.then_some(options)
    }
}
