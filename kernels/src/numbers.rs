//! The types of a vector's numbers, and a vector of any of them.

use std::fmt;
use std::str::FromStr;

use half::f16;

/// A type of number that vectors are made of.
pub trait Number: Copy + Send + Sync + 'static {
    /// The type as a value.
    const TYPE: NumberType;

    /// The number as an f32, without an error.
    fn widened(self) -> f32;

    /// The numbers themselves, if they are f32.
    fn as_f32(_numbers: &[Self]) -> Option<&[f32]> {
        None
    }

    /// The number as an f64, without an error.
    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self.widened())
    }
}

impl Number for f32 {
    const TYPE: NumberType = NumberType::F32;

    fn as_f32(numbers: &[Self]) -> Option<&[f32]> {
        Some(numbers)
    }

    #[inline(always)]
    fn widened(self) -> f32 {
        self
    }
}

impl Number for f16 {
    const TYPE: NumberType = NumberType::F16;

    #[inline(always)]
    fn widened(self) -> f32 {
        self.to_f32()
    }
}

impl Number for u8 {
    const TYPE: NumberType = NumberType::U8;

    #[inline(always)]
    fn widened(self) -> f32 {
        f32::from(self)
    }
}

impl Number for i8 {
    const TYPE: NumberType = NumberType::I8;

    #[inline(always)]
    fn widened(self) -> f32 {
        f32::from(self)
    }
}

/// The type of a vector's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NumberType {
    /// 32 bits of floating point.
    F32,
    /// 16 bits of floating point.
    F16,
    /// From 0 to 255.
    U8,
    /// From -128 to 127.
    I8,
}

impl NumberType {
    /// The names of all types.
    pub const NAMES: &[&str] = &["f32", "f16", "u8", "i8"];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::U8 => "u8",
            Self::I8 => "i8",
        }
    }

    /// Bytes of a number.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
            Self::U8 | Self::I8 => 1,
        }
    }
}

impl fmt::Display for NumberType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for NumberType {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = [Self::F32, Self::F16, Self::U8, Self::I8];
        let found = all.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| {
            format!("there are no numbers of type `{name}`; the types are {}", Self::NAMES.join(", "))
        })
    }
}

/// A vector of any type of number, borrowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum VectorRef<'a> {
    /// Numbers of [`NumberType::F32`].
    F32(&'a [f32]),
    /// Numbers of [`NumberType::F16`].
    F16(&'a [f16]),
    /// Numbers of [`NumberType::U8`].
    U8(&'a [u8]),
    /// Numbers of [`NumberType::I8`].
    I8(&'a [i8]),
}

/// Evaluates an expression for the numbers of a vector, whatever their type.
#[macro_export]
#[doc(hidden)]
macro_rules! with_numbers {
    ($vector:expr, $numbers:ident => $body:expr) => {
        match $vector {
            $crate::vector::VectorRef::F32($numbers) => $body,
            $crate::vector::VectorRef::F16($numbers) => $body,
            $crate::vector::VectorRef::U8($numbers) => $body,
            $crate::vector::VectorRef::I8($numbers) => $body,
        }
    };
}

impl VectorRef<'_> {
    /// Number of numbers.
    pub fn len(self) -> usize {
        with_numbers!(self, numbers => numbers.len())
    }

    /// Whether it has no numbers.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The type of its numbers.
    pub fn number_type(self) -> NumberType {
        match self {
            Self::F32(_) => NumberType::F32,
            Self::F16(_) => NumberType::F16,
            Self::U8(_) => NumberType::U8,
            Self::I8(_) => NumberType::I8,
        }
    }

    /// The numbers as f32, without an error.
    pub fn widened(self) -> Vec<f32> {
        with_numbers!(self, numbers => numbers.iter().map(|number| number.widened()).collect())
    }

    /// The place of the first number that is infinite or NaN.
    pub fn not_finite(self) -> Option<usize> {
        match self {
            Self::F32(numbers) => numbers.iter().position(|number| !number.is_finite()),
            Self::F16(numbers) => numbers.iter().position(|number| !number.is_finite()),
            Self::U8(_) | Self::I8(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_widens_without_an_error() {
        for bits in 0..=u16::MAX {
            let half = f16::from_bits(bits);
            if half.is_finite() {
                assert_eq!(f16::from_f32(half.widened()).to_bits(), bits);
                assert_eq!(half.wide(), f64::from(half.widened()));
            }
        }
        assert!((0..=u8::MAX).all(|number| number.widened() as u8 == number));
        assert!((i8::MIN..=i8::MAX).all(|number| number.widened() as i8 == number));
        let halves = [f16::ONE, f16::NAN];
        assert_eq!(VectorRef::F16(&halves).not_finite(), Some(1));
        assert_eq!(VectorRef::I8(&[-3, 4]).widened(), [-3.0, 4.0]);
    }

    #[test]
    fn types_are_found_by_their_names() {
        for name in NumberType::NAMES {
            assert_eq!(name.parse::<NumberType>().unwrap().name(), *name);
        }
        assert!("f64".parse::<NumberType>().unwrap_err().contains("f32, f16, u8, i8"));
    }
}
