//! Work in pieces that a caller may compute side by side.
//!
//! Invariant: a result does not depend on which pieces run at the same time, nor on their order: each piece has a place of its
//! own, and sums over pieces are taken in their order.

use std::sync::{Mutex, OnceLock, PoisonError};

/// Calls the closure once for each number below the first argument, in any order, on any threads. Returns false if the caller
/// cancelled it; some numbers are then missing.
pub type Pieces<'a> = dyn FnMut(usize, &(dyn Fn(usize) + Sync)) -> bool + 'a;

/// Computes all pieces one after the other, on the calling thread.
pub fn one_by_one() -> impl FnMut(usize, &(dyn Fn(usize) + Sync)) -> bool {
    |count, f| {
        (0..count).for_each(f);
        true
    }
}

/// The results of all pieces in their order; `None` if the caller cancelled them.
pub fn collect<T: Send + Sync>(
    pieces: &mut Pieces<'_>,
    count: usize,
    f: impl Fn(usize) -> T + Sync,
) -> Option<Vec<T>> {
    let done: Vec<OnceLock<T>> = (0..count).map(|_| OnceLock::new()).collect();
    let is_done = pieces(count, &|piece| {
        // A caller that asks twice gets one answer.
        let _ = done[piece].set(f(piece));
    });
    if !is_done {
        return None;
    }
    done.into_iter().map(OnceLock::into_inner).collect()
}

/// Calls the closure once for each number of a part, with that part of each slice: the next `len` items, the last part
/// shorter. The slices have one length. Returns false if the caller cancelled it; some parts are then as they were.
pub(crate) fn fill<T: Send>(
    pieces: &mut Pieces<'_>,
    slices: &mut [&mut [T]],
    len: usize,
    f: impl Fn(usize, &mut [&mut [T]]) + Sync,
) -> bool {
    let count = slices.first().map_or(0, |slice| slice.len().div_ceil(len));
    let mut parts: Vec<Mutex<Vec<&mut [T]>>> = (0..count).map(|_| Mutex::default()).collect();
    for slice in slices {
        for (part, items) in parts.iter_mut().zip(slice.chunks_mut(len)) {
            part.get_mut().unwrap_or_else(PoisonError::into_inner).push(items);
        }
    }
    // Each lock is taken once: it shows the compiler that parts do not overlap.
    pieces(count, &|part| f(part, &mut parts[part].lock().unwrap_or_else(PoisonError::into_inner)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_slices_are_filled_once_and_none_after_a_cancellation() {
        let (mut a, mut b) = ([0; 7], [0; 7]);
        let add = |part: usize, slices: &mut [&mut [usize]]| {
            for (which, slice) in slices.iter_mut().enumerate() {
                slice.iter_mut().for_each(|number| *number += 10 * part + which + 1);
            }
        };
        assert!(fill(&mut one_by_one(), &mut [&mut a, &mut b], 3, add));
        assert_eq!((a, b), ([1, 1, 1, 11, 11, 11, 21], [2, 2, 2, 12, 12, 12, 22]));
        assert!(!fill(&mut |_, _| false, &mut [&mut a], 3, add));
        assert_eq!(a, [1, 1, 1, 11, 11, 11, 21]);
        assert!(fill(&mut one_by_one(), &mut [&mut a[..0]], 3, |_, _| panic!("there is no part")));
    }

    #[test]
    fn results_are_in_order_and_missing_pieces_are_no_result() {
        let squares = collect(&mut one_by_one(), 4, |piece| piece * piece);
        assert_eq!(squares, Some(vec![0, 1, 4, 9]));
        let mut backwards = |count: usize, f: &(dyn Fn(usize) + Sync)| {
            (0..count).rev().for_each(f);
            true
        };
        assert_eq!(collect(&mut backwards, 3, |piece| piece), Some(vec![0, 1, 2]));
        let mut cancelled = |_: usize, f: &(dyn Fn(usize) + Sync)| {
            f(0);
            false
        };
        assert_eq!(collect(&mut cancelled, 3, |piece| piece), None);
        let mut partial = |_: usize, f: &(dyn Fn(usize) + Sync)| {
            f(0);
            true
        };
        assert_eq!(collect(&mut partial, 3, |piece| piece), None);
    }
}
