//! Random graphs on random machines: a graph without a fault gives exactly its result, and every request ends.
//!
//! A failure names its seed; `BOXWORK_STRESS_SEED=n` runs that seed alone, `BOXWORK_STRESS_ROUNDS=n` runs more.

mod support;

use support::random::round;

const ROUNDS: u64 = 200;

#[test]
fn random_graphs_give_their_results_and_end() {
    let from_env = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = from_env("BOXWORK_STRESS_SEED") {
        return (0..20).for_each(|_| round(seed));
    }
    for seed in
        from_env("BOXWORK_STRESS_FROM").unwrap_or(0)..from_env("BOXWORK_STRESS_ROUNDS").unwrap_or(ROUNDS)
    {
        eprintln!("seed {seed}");
        round(seed);
    }
}
