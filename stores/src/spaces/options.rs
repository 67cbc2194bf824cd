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
    /// The steepness of the similarity; without it the store's, or [`ALPHA`] for a store that keeps none.
    pub alpha: Option<f64>,
    /// The costs of edit.
    pub costs: EditConstants,
    /// The most that places of series differ that dtw compares; without it they may be anywhere.
    pub band: Option<usize>,
}

/// The costs of edits that are given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EditConstants {
    /// The cost of a letter that the object has and the query has not; 1 if not given.
    pub insert: Option<u32>,
    /// The cost of a letter that the query has and the object has not; 1 if not given.
    pub delete: Option<u32>,
    /// The cost of a letter in place of another one; 1 if not given.
    pub replace: Option<u32>,
    /// A file with costs of pairs of letters, in place of `replace`.
    pub matrix: Option<String>,
}

impl EditConstants {
    /// The costs in words, empty if all are 1.
    fn text(&self) -> String {
        let [insert, delete, replace] =
            [self.insert, self.delete, self.replace].map(|cost| cost.unwrap_or(1));
        let mut text = String::new();
        if [insert, delete, replace] != [1; 3] {
            text += &format!("{COSTS}{insert}, {delete}, {replace}");
        }
        if let Some(matrix) = &self.matrix {
            text += &format!("{MATRIX}{matrix}");
        }
        text
    }

    /// Parses [`EditConstants::text`].
    fn parse(text: &str) -> Option<Self> {
        let (costs, matrix) = match text.split_once(MATRIX) {
            Some((costs, matrix)) => (costs, Some(matrix.to_owned())),
            None => (text, None),
        };
        if costs.is_empty() {
            return Some(Self { matrix, ..Self::default() });
        }
        let mut costs = costs.strip_prefix(COSTS)?.split(", ").map(|cost| cost.parse().ok());
        let mut cost = || costs.next().flatten();
        Some(Self { insert: Some(cost()?), delete: Some(cost()?), replace: Some(cost()?), matrix })
    }
}

impl Default for DistanceOptions {
    fn default() -> Self {
        Self {
            distance: AUTO.to_owned(),
            p: None,
            root: false,
            similarity: "gaussian".to_owned(),
            ground: "l2".to_owned(),
            alpha: None,
            costs: EditConstants::default(),
            band: None,
        }
    }
}

/// The alpha of stores that keep none.
pub const ALPHA: f64 = 0.2;
/// Leaves the distance to the store.
pub(super) const AUTO: &str = "auto";
/// The beginning of the text of a rooted distance.
const ROOT: &str = "root of ";
/// The distance that has costs, and the beginnings of their text.
const EDIT: &str = "edit";
const COSTS: &str = " with costs ";
const MATRIX: &str = " by the matrix ";
/// The distance that has a band, and the beginning of its text.
const DTW: &str = "dtw";
const BAND: &str = " with band ";

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
        if self.distance != EDIT && self.costs != EditConstants::default() {
            let distance = &self.distance;
            return Err(format!(
                "`insert`, `delete`, `replace` and `matrix` are costs of edit, and the distance is {distance}: write \
                 `distance: edit`"
            ));
        }
        if self.distance != DTW && self.band.is_some() {
            let distance = &self.distance;
            return Err(format!("`band` is one of dtw, and the distance is {distance}: remove it"));
        }
        if self.distance == AUTO {
            return Ok(None);
        }
        let properties = named(&self.distance)?.properties(self)?;
        if self.root && properties.signed {
            let distance = &self.distance;
            return Err(format!(
                "{distance} is negative for similar objects, so it has no root: remove `root`"
            ));
        }
        Ok(Some(if self.root { properties.rooted() } else { properties }))
    }

    /// These options with `auto` replaced by the store's usual distance, and no alpha by the store's.
    pub(super) fn resolved(&self, store: &Arc<dyn Store>) -> Self {
        let is_auto = self.distance == AUTO;
        let distance = if is_auto { store.usual_distance().to_owned() } else { self.distance.clone() };
        let alpha = self.alpha.or_else(|| store.alpha()).unwrap_or(ALPHA);
        Self { distance, alpha: Some(alpha), ..self.clone() }
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
        Measure::new(self.similarity.parse()?, self.ground.parse()?, self.alpha.unwrap_or(ALPHA))
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
                let alpha = self.alpha.unwrap_or(ALPHA);
                write!(text, "{} similarity over {} at alpha {alpha:?}", self.similarity, self.ground)
            }
            Ok(Constants::Costs) => write!(text, "{}", self.costs.text()),
            Ok(Constants::Band) => self.band.map_or(Ok(()), |band| write!(text, "{BAND}{band}")),
            Ok(Constants::None) | Err(_) => Ok(()),
        };
        written.expect("a string takes any text");
        text
    }

    /// The options of a command that name this distance over a store, such as ` --alpha 1.28`; each begins with a space.
    pub fn flags(&self, store: &dyn Store) -> String {
        let usual = Self::default();
        let mut flags = String::new();
        let mut flag = |name: &str, value: &str, usual: &str| {
            if value != usual {
                flags.push_str(&format!(" --{name} {value}"));
            }
        };
        flag("distance", &self.distance, store.usual_distance());
        match named(&self.distance).map(|distance| distance.constants()) {
            Ok(Constants::Exponent) => flag("p", &format!("{:?}", self.p.unwrap_or(f64::NAN)), ""),
            Ok(Constants::Ground) => flag("ground", &self.ground, &usual.ground),
            Ok(Constants::Similarity) => {
                flag("similarity", &self.similarity, &usual.similarity);
                flag("ground", &self.ground, &usual.ground);
                flag("alpha", &format!("{:?}", self.alpha.unwrap_or(ALPHA)), "");
            }
            // Costs and bands are constants of pipelines, and no options of commands.
            Ok(Constants::Costs | Constants::Band | Constants::None) | Err(_) => {}
        }
        if self.root {
            flags.push_str(" --root");
        }
        flags
    }

    /// Parses the text of a measure; `None` if this program did not write it.
    pub fn parse(text: &str) -> Option<Self> {
        let (root, text) = text.strip_prefix(ROOT).map_or((false, text), |rest| (true, rest));
        let usual = Self { root, ..Self::default() };
        let options = if let Some(costs) = text.strip_prefix(EDIT) {
            Self { distance: EDIT.to_owned(), costs: EditConstants::parse(costs)?, ..usual }
        } else if let Some((distance, band)) = text.split_once(BAND) {
            Self { distance: distance.to_owned(), band: Some(band.parse().ok()?), ..usual }
        } else if let Some((similarity, rest)) = text.split_once(" similarity over ") {
            let (ground, alpha) = rest.split_once(" at alpha ")?;
            let (similarity, ground) = (similarity.to_owned(), ground.to_owned());
            let alpha = Some(alpha.parse().ok()?);
            Self { distance: "sqfd".to_owned(), similarity, ground, alpha, ..usual }
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
