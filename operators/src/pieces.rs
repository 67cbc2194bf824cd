//! Work in pieces inside a firing, on all slots.

use boxwork_runtime::operator::Context;

/// Computes pieces side by side; returns false if the request was cancelled.
pub(crate) fn side_by_side(cx: &mut Context<'_>, count: usize, f: &(dyn Fn(usize) + Sync)) -> bool {
    cx.inside(|inside| {
        let cancelled = inside.cancelled();
        inside.for_each_chunk(count, 1, |pieces| {
            if !cancelled() {
                pieces.for_each(f);
            }
        });
    });
    !cx.is_cancelled()
}
