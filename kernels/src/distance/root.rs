//! The square root of another distance. It orders objects as that distance does, and obeys more inequalities.
//!
//! Any four points of a metric space lie in a Euclidean space at the roots of their distances (L. M. Blumenthal,
//! "Theory and applications of distance geometry", 1953), so the root of a metric obeys Ptolemy's inequality and has
//! the four-point property. If the distance is of negative type, as L1 and Jaccard are, this holds for any number of points.

use super::{Distance, DistanceError, Properties, Slack};

/// The square root of a distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Root<D>(pub D);

impl Properties {
    /// The properties of the square root of a distance with these properties.
    #[must_use]
    pub fn rooted(self) -> Self {
        // A Hilbert distance obeys all inequalities, whatever its square does.
        let metric = self.metric || self.negative_type;
        Self {
            name: self.name,
            is_root: true,
            metric,
            ptolemaic: metric,
            four_point: metric,
            hilbert: self.negative_type,
            // The root of a Hilbert distance is a Hilbert distance (I. J. Schoenberg, 1938).
            negative_type: self.negative_type,
            signed: self.signed,
        }
    }
}

impl<D: Distance> Distance for Root<D> {
    type Object<'a> = D::Object<'a>;

    fn properties(&self) -> Properties {
        self.0.properties().rooted()
    }

    fn slack(&self, dimensions: usize, extent: f64) -> Slack {
        self.0.slack(dimensions, extent).rooted()
    }

    fn check(&self, object: Self::Object<'_>) -> Result<(), DistanceError> {
        self.0.check(object)
    }

    fn distance(&self, a: Self::Object<'_>, b: Self::Object<'_>) -> f64 {
        self.0.distance(a, b).sqrt()
    }

    fn reference(&self, a: Self::Object<'_>, b: Self::Object<'_>) -> f64 {
        self.0.reference(a, b).sqrt()
    }
}
