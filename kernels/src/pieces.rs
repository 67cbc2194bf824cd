//! Work in pieces that a caller may compute side by side.
//!
//! Invariant: a result does not depend on which pieces run at the same time, nor on their order: each piece has a place of its
//! own, and sums over pieces are taken in their order.

use std::sync::OnceLock;

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

#[cfg(test)]
mod tests {
    use super::*;

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
