//! The numbers of which tiles may be: f64, and f32 for factors that are refined.

use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, Sub, SubAssign};

/// A number of a tile.
pub trait Number:
    Copy
    + Debug
    + Default
    + PartialOrd
    + Send
    + Sync
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + AddAssign
    + SubAssign
    + DivAssign
    + 'static
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// The distance of 1 to the next number.
    const EPSILON: f64;

    /// The square root.
    #[must_use]
    fn root(self) -> Self;
    /// Whether it is neither infinite nor NaN.
    fn has_value(self) -> bool;
    /// The number of this kind that is nearest to one of f64.
    fn of(x: f64) -> Self;
    /// The same value as f64.
    fn wide(self) -> f64;
}

macro_rules! number {
    ($number:ty) => {
        impl Number for $number {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const EPSILON: f64 = <$number>::EPSILON as f64;

            #[inline(always)]
            fn root(self) -> Self {
                self.sqrt()
            }
            #[inline(always)]
            fn has_value(self) -> bool {
                self.is_finite()
            }
            #[inline(always)]
            fn of(x: f64) -> Self {
                x as Self
            }
            #[inline(always)]
            fn wide(self) -> f64 {
                f64::from(self)
            }
        }
    };
}
number!(f64);
number!(f32);
