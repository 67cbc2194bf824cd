//! The largest error of a computed distance, and the bounds of an index that allow for it.
//!
//! With `d` the real distance and `x` the computed one, `|x - d| <= relative d + absolute`. Every function here returns a
//! lower bound of the *computed* distance between query and object, from *computed* distances to a third object. So if an
//! object's bound exceeds the range, its reported distance exceeds the range too, and no object at a tied distance is lost
//! (decision 020).

/// The error of a computed distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slack {
    /// The part that is relative to the distance.
    pub relative: f64,
    /// The absolute part, in the unit of distances.
    pub absolute: f64,
    /// For distances that are roots of computed numbers: the absolute part of the error of their squares. It is smaller than
    /// what follows from `absolute`.
    pub squared: Option<f64>,
}

/// The relative error of a number that is stored as f32.
const STORED: f64 = 1.0 / (1u64 << 24) as f64;

impl Slack {
    /// For distances that are whole numbers, or that are computed by comparisons alone.
    pub const EXACT: Self = Self { relative: 0.0, absolute: 0.0, squared: None };

    /// For distances with an error of this many roundings to f64.
    pub fn roundings(count: f64) -> Self {
        Self { relative: count * f64::EPSILON / 2.0, ..Self::EXACT }
    }

    /// For distances that are square roots of numbers with an error of at most `noise`.
    pub fn of_squares(noise: f64) -> Self {
        Self { relative: f64::EPSILON, absolute: noise.sqrt(), squared: Some(noise) }
    }

    /// The error of the same distances stored as f32.
    #[must_use]
    pub fn stored(self) -> Self {
        Self {
            relative: self.relative + STORED,
            // Subnormal numbers have fewer digits.
            absolute: self.absolute + f64::from(f32::MIN_POSITIVE),
            squared: None,
        }
    }

    /// The error of the square roots of the same distances.
    #[must_use]
    pub fn rooted(self) -> Self {
        // |sqrt(x) - sqrt(d)| <= sqrt(|x - d|) for the absolute part. The relative part is halved.
        let squared = Some(self.absolute);
        Self { relative: self.relative + f64::EPSILON, absolute: self.absolute.sqrt(), squared }
    }

    /// The larger of each part of two errors.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            relative: self.relative.max(other.relative),
            absolute: self.absolute.max(other.absolute),
            squared: self.squared.zip(other.squared).map(|(a, b)| a.max(b)),
        }
    }

    // A bound uses two or three computed distances, each with a relative and an absolute error. The bounded distance has
    // errors too, and it is at most the sum of the others. Four of each leave room for the roundings of these lines.
    fn of(self, sum: f64) -> f64 {
        4.0 * (self.relative + f64::EPSILON) * sum + 4.0 * self.absolute
    }

    /// A bound for two objects at distances `x` and `y` from a third: `|x - y|` minus the error.
    #[inline]
    pub fn apart(self, x: f64, y: f64) -> f64 {
        (x - y).abs() - self.of(x + y)
    }

    /// A bound for an object at distance `x` from a centre, and all objects within `radius` of the centre.
    #[inline]
    pub fn outside(self, x: f64, radius: f64) -> f64 {
        x - radius - self.of(x + radius)
    }

    /// A bound for an object at distance `x` from a centre, and all objects at least `radius` away from the centre.
    #[inline]
    pub fn inside(self, x: f64, radius: f64) -> f64 {
        radius - x - self.of(x + radius)
    }

    /// A bound for an object at distances `own` and `other` from two pivots, and all objects that are at least as near to the
    /// first pivot as to the second and at most `largest` away from both: half the difference of `own` and `other` (the
    /// double-pivot constraint).
    #[inline]
    pub fn beyond_border(self, own: f64, other: f64, largest: f64) -> f64 {
        (own - other) / 2.0 - self.of(own + other + largest)
    }

    /// Like `beyond_border`, for distances with the four-point property and pivots that are `apart` from each other: the distance
    /// of the object from the plane in the middle between the pivots (R. Connor, L. Vadicamo, F. A. Cardillo, F. Rabitti,
    /// "Supermetric search", Information Systems 80, 2019).
    #[inline]
    pub fn beyond_plane(self, own: f64, other: f64, apart: f64, largest: f64) -> f64 {
        // The squares of the object's two distances, and of the distances of an object on the plane.
        let noise = 4.0 * self.noise_squared(own.max(other).max(largest));
        let apart = apart + self.of(apart);
        if apart == 0.0 {
            return 0.0;
        }
        let beyond = ((own - other) * (own + other) - noise) / (2.0 * apart);
        beyond - self.of(own + other)
    }

    /// The largest error of squared distances up to `largest`, as the bounds of pivot tables take it
    /// ([`TableErrors`](crate::lower_bound::TableErrors)).
    pub fn noise_squared(self, largest: f64) -> f64 {
        // An error `e` of a distance is an error `2 d e + e^2` of its square.
        let of = |error: f64| 2.0 * largest * error + error * error;
        let relative = (self.relative + f64::EPSILON) * largest;
        match self.squared {
            Some(noise) => of(relative) + noise,
            None => of(relative + self.absolute),
        }
    }
}
