//! Types with one meaning on the host and on a device.
#![expect(unsafe_code, reason = "values are read as the bytes that a device gets")]

use std::slice;

/// A type whose values have one meaning on the host and on a device: a number, an array of numbers, or a struct that
/// [`plain_struct!`](crate::plain_struct) has made.
///
/// # Safety
/// Every pattern of bits is a value, and there are no gaps.
pub unsafe trait Plain: Copy + Send + Sync + 'static {}

macro_rules! numbers {
    ($($number:ty),*) => {
        // SAFETY: plain numbers.
        $(unsafe impl Plain for $number {})*
    };
}

numbers!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

// SAFETY: the elements of an array lie one after the other, without gaps.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// The bytes of a value for a device.
pub(super) fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: there are no gaps, so each byte of the value is written; the slice borrows the value.
    unsafe { slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// Declares a struct of plain fields that kernels take by value, with the layout of an OpenCL C struct of these fields.
///
/// The fields are public. A struct with gaps between its fields does not compile: order the fields by size, the largest
/// first, and fill the end.
///
/// ```
/// boxwork_runtime::plain_struct! {
///     /// The argument of the kernel `blur`.
///     pub struct Blur {
///         sigma: f64,
///         width: u32,
///         height: u32,
///     }
/// }
/// let value = boxwork_runtime::feeding::Value::of(Blur { sigma: 1.5, width: 640, height: 480 });
/// # drop(value);
/// ```
///
/// ```compile_fail
/// boxwork_runtime::plain_struct! {
///     /// Four bytes are missing before `sigma`.
///     pub struct Gap {
///         width: u32,
///         sigma: f64,
///     }
/// }
/// ```
#[macro_export]
macro_rules! plain_struct {
    ($(#[$about:meta])* $visible:vis struct $name:ident { $($(#[$of_field:meta])* $field:ident: $of:ty),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[repr(C)]
        $visible struct $name { $($(#[$of_field])* pub $field: $of),+ }

        const _: () = {
            const fn bytes<T: $crate::feeding::Plain>() -> usize {
                size_of::<T>()
            }
            assert!(0 $(+ bytes::<$of>())+ == size_of::<$name>(), "the struct has gaps");
        };

        // SAFETY: all fields are plain, and together as large as the struct, so there are no gaps.
        #[allow(unsafe_code, reason = "the macro has checked what the trait asks for")]
        unsafe impl $crate::feeding::Plain for $name {}
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::plain_struct! {
        /// A number of each size.
        struct Sizes { eight: f64, four: u32, two: [u8; 2], ones: i16 }
    }

    #[test]
    fn a_struct_is_its_fields_one_after_the_other() {
        let value = Sizes { eight: 1.0, four: 0x0403_0201, two: [5, 6], ones: -1 };
        let mut expected = 1f64.to_ne_bytes().to_vec();
        expected.extend(0x0403_0201u32.to_ne_bytes());
        expected.extend([5, 6, 255, 255]);
        assert_eq!(bytes_of(&value), expected);
        assert_eq!(bytes_of(&[1u64, 2]).len(), 16);
    }
}
