//! How far a computed distance may lie from the real one, and what that takes off the bounds of an index.
//!
//! With `d` the real distance and `x` the computed one, `|x - d| <= relative d + absolute`. Every bound here is one
//! that the *computed* distance of query and object is not below, given *computed* distances to a third object: so an
//! object whose bound is above the range, strictly, has a reported distance beyond the range, and of objects at one
//! distance none is lost (decision 020).

/// The error of a computed distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slack {
    /// Its part that grows with the distance.
    pub relative: f64,
    /// Its part that does not, in the unit of distances.
    pub absolute: f64,
    /// Where distances are roots of what was computed: the part that does not grow of the error of their squares, which
    /// is less than follows from `absolute`.
    pub squared: Option<f64>,
}

/// A number that is kept as an f32 is off by at most this part of it.
const STORED: f64 = 1.0 / (1u64 << 24) as f64;

impl Slack {
    /// Of distances that are whole numbers, or computed by comparisons alone.
    pub const EXACT: Self = Self { relative: 0.0, absolute: 0.0, squared: None };

    /// Of distances that are off by so many roundings to the nearest f64.
    pub fn roundings(count: f64) -> Self {
        Self { relative: count * f64::EPSILON / 2.0, ..Self::EXACT }
    }

    /// Of distances that are square roots of what is off by at most `noise`.
    pub fn of_squares(noise: f64) -> Self {
        Self { relative: f64::EPSILON, absolute: noise.sqrt(), squared: Some(noise) }
    }

    /// That of the same distances kept as f32.
    #[must_use]
    pub fn stored(self) -> Self {
        Self {
            relative: self.relative + STORED,
            // Below it numbers have fewer digits.
            absolute: self.absolute + f64::from(f32::MIN_POSITIVE),
            squared: None,
        }
    }

    /// That of the square roots of the same distances.
    #[must_use]
    pub fn rooted(self) -> Self {
        // |sqrt(x) - sqrt(d)| <= sqrt(|x - d|) for the absolute part, and half the relative one.
        let squared = Some(self.absolute);
        Self { relative: self.relative + f64::EPSILON, absolute: self.absolute.sqrt(), squared }
    }

    /// The larger of two.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            relative: self.relative.max(other.relative),
            absolute: self.absolute.max(other.absolute),
            squared: self.squared.zip(other.squared).map(|(a, b)| a.max(b)),
        }
    }

    // Two or three computed distances enter a bound, each off by a `relative` part and an `absolute` one, and the
    // distance that is bounded is off itself, by a part of no more than their sum. Four of each leave room for the
    // roundings of these lines.
    fn of(self, sum: f64) -> f64 {
        4.0 * (self.relative + f64::EPSILON) * sum + 4.0 * self.absolute
    }

    /// A bound on the distance of two objects that are at `x` and `y` from a third: `|x - y|`, less the error.
    #[inline]
    pub fn apart(self, x: f64, y: f64) -> f64 {
        (x - y).abs() - self.of(x + y)
    }

    /// A bound on the distance of an object at `x` from a centre to all objects at most `radius` from it.
    #[inline]
    pub fn outside(self, x: f64, radius: f64) -> f64 {
        x - radius - self.of(x + radius)
    }

    /// A bound on the distance of an object at `x` from a centre to all objects at least `radius` from it.
    #[inline]
    pub fn inside(self, x: f64, radius: f64) -> f64 {
        radius - x - self.of(x + radius)
    }

    /// A bound on the distance of an object at `own` and `other` from two pivots to all objects that are at least as
    /// near to the first pivot and at most `largest` from either: half the difference (the double-pivot constraint).
    #[inline]
    pub fn beyond_border(self, own: f64, other: f64, largest: f64) -> f64 {
        (own - other) / 2.0 - self.of(own + other + largest)
    }

    /// The same where any four objects lie in a Euclidean space, by the pivots' distance `apart`: how far the query
    /// lies beyond the plane in the middle between them (R. Connor, L. Vadicamo, F. A. Cardillo, F. Rabitti,
    /// "Supermetric search", Information Systems 80, 2019).
    #[inline]
    pub fn beyond_plane(self, own: f64, other: f64, apart: f64, largest: f64) -> f64 {
        // The squares of the query's two distances, and of an object's that is as near to either pivot.
        let noise = 4.0 * self.noise_squared(own.max(other).max(largest));
        let apart = apart + self.of(apart);
        if apart == 0.0 {
            return 0.0;
        }
        let beyond = ((own - other) * (own + other) - noise) / (2.0 * apart);
        beyond - self.of(own + other)
    }

    /// The noise of squared distances up to `largest`, which the bounds of pivot tables take
    /// ([`TableErrors`](crate::lower_bound::TableErrors)).
    pub fn noise_squared(self, largest: f64) -> f64 {
        // An error `e` of a distance is one of `2 d e + e^2` of its square.
        let of = |error: f64| 2.0 * largest * error + error * error;
        let relative = (self.relative + f64::EPSILON) * largest;
        match self.squared {
            Some(noise) => of(relative) + noise,
            None => of(relative + self.absolute),
        }
    }
}
