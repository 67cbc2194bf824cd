//! Work in pieces inside a firing, on all slots.

use boxwork_runtime::inside::Inside;
use boxwork_runtime::operator::Context;

/// Computes pieces side by side; returns false if the request was cancelled.
pub(crate) fn side_by_side(cx: &mut Context<'_>, count: usize, f: &(dyn Fn(usize) + Sync)) -> bool {
    cx.inside(|inside| side_by_side_inside(inside, count, f))
}

/// [`side_by_side`] within a firing.
pub(crate) fn side_by_side_inside(inside: &mut Inside<'_>, count: usize, f: &(dyn Fn(usize) + Sync)) -> bool {
    let cancelled = inside.cancelled();
    inside.for_each_chunk(count, 1, |pieces| {
        if !cancelled() {
            pieces.for_each(f);
        }
    });
    !cancelled()
}
