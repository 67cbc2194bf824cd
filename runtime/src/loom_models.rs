//! The protocols under loom: all interleavings of a few threads, within a bound on preemptions, run the real code.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p boxwork-runtime --release --lib loom`. The section "Models" of
//! runtime/README.md lists what the models cover. loom finds deadlocks: a lost wake-up leaves a thread parked.

mod boxes;

mod closing;

mod crew;

mod graph;

mod latch;

mod permits;

/// Explores a model with at most this many preemptions of threads that could continue.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.check(model);
}
