//! Memory for large lists, reserved so that the system's refusal is an error.
//!
//! A `Vec` that grows by itself ends the process when the system refuses it memory. Code whose lists one store, one file
//! or one parameter can make gigabytes large reserves them here first.

use std::fmt;

use thiserror::Error;

/// Memory that the system refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what} takes {} of memory, which the system refuses: {advice}", Size(*bytes))]
pub struct MemoryRefused {
    what: String,
    bytes: usize,
    advice: &'static str,
}

impl MemoryRefused {
    /// Describes what needed `bytes`, and what to do when there are none.
    pub fn new(what: String, bytes: usize, advice: &'static str) -> Self {
        Self { what, bytes, advice }
    }
}

/// An empty list with room for exactly `count` elements. If the system refuses, the error says what needs them (`what`)
/// and ends with the `advice`.
///
/// # Errors
/// When the system refuses.
///
/// ```
/// use boxwork_kernels::memory::room;
///
/// let refused = room::<f32>(1 << 55, || "a table".to_owned(), "take fewer pivots").unwrap_err().to_string();
/// assert_eq!(refused, "a table takes 134217728.0 GiB of memory, which the system refuses: take fewer pivots");
/// ```
pub fn room<T>(
    count: usize,
    what: impl FnOnce() -> String,
    advice: &'static str,
) -> Result<Vec<T>, MemoryRefused> {
    let mut list = Vec::new();
    match list.try_reserve_exact(count) {
        Ok(()) => Ok(list),
        Err(_) => Err(MemoryRefused { what: what(), bytes: count.saturating_mul(size_of::<T>()), advice }),
    }
}

/// A list of `count` copies of `value`; otherwise as [`room`].
///
/// # Errors
/// When the system refuses.
pub fn filled<T: Clone>(
    count: usize,
    value: T,
    what: impl FnOnce() -> String,
    advice: &'static str,
) -> Result<Vec<T>, MemoryRefused> {
    let mut list = room(count, what, advice)?;
    list.resize(count, value);
    Ok(list)
}

/// Makes room for `count` more elements in a growing list, with the growth that `Vec` itself has; otherwise as [`room`].
///
/// # Errors
/// When the system refuses.
#[inline]
pub fn more<T>(
    list: &mut Vec<T>,
    count: usize,
    what: impl FnOnce() -> String,
    advice: &'static str,
) -> Result<(), MemoryRefused> {
    list.try_reserve(count).map_err(|_| {
        let bytes = list.capacity().saturating_mul(2).max(list.len() + count).saturating_mul(size_of::<T>());
        MemoryRefused { what: what(), bytes, advice }
    })
}

/// A number of bytes in the unit that suits its size.
struct Size(usize);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = if self.0 < 1 << 30 { (1 << 20, "MiB") } else { (1 << 30, "GiB") };
        write!(f, "{:.1} {name}", self.0 as f64 / f64::from(unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_asked_for() {
        let what = || "it".to_owned();
        let list: Vec<u64> = filled(3, 7, what, "").unwrap();
        assert_eq!((list.as_slice(), list.capacity()), (&[7, 7, 7][..], 3));
        let mut list = list;
        more(&mut list, 1, what, "").unwrap();
        assert!(list.capacity() > 3 && list.len() == 3);
        let refused = more(&mut list, usize::MAX / 16, what, "ask for less").unwrap_err();
        assert_eq!(refused, room::<u64>(usize::MAX / 16 + 3, what, "ask for less").unwrap_err());
        let refused = MemoryRefused::new(what(), 3 << 19, "ask for less").to_string();
        assert_eq!(refused, "it takes 1.5 MiB of memory, which the system refuses: ask for less");
    }
}
