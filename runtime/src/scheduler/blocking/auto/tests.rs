//! The controller on simulated devices, against the best fixed limit.

use super::simulated::{Limit, Rate, Run, changing, four, replaced, round, serial, spinning, unlimited};
use super::{Auto, above, below};

const MAX: usize = 64;
const SEEDS: u64 = 10;

/// The losses against the best fixed limit in percent: without noise, and the mean and the worst with it.
fn losses(rate: Rate, operations: usize) -> [f64; 3] {
    let loss = |noise, seed| {
        let run = Run { operations, rate, noise, seed };
        let auto = run.makespan(&mut Limit::Auto(Auto::new(MAX)));
        (auto as f64 / run.best(MAX) as f64 - 1.0) * 100.0
    };
    let noisy: Vec<f64> = (0..SEEDS).map(|seed| loss(true, seed)).collect();
    [loss(false, 0), noisy.iter().sum::<f64>() / SEEDS as f64, noisy.iter().copied().fold(f64::MIN, f64::max)]
}

/// Checks that a device's losses are at most these, mean and worst.
fn check(name: &str, rate: Rate, operations: usize, mean: f64, worst: f64) {
    let [exact, noisy, noisy_worst] = losses(rate, operations);
    println!(
        "{name:10} {operations:5} operations: {exact:6.1} % lost, {noisy:6.1} % with noise, at worst {noisy_worst:6.1} %"
    );
    assert!(exact <= mean && noisy <= mean && noisy_worst <= worst, "{name}: more than {mean} %, {worst} %");
}

#[test]
fn long_runs_are_near_the_best_fixed_limit() {
    check("serial", serial, 2000, 1.0, 1.0);
    check("four", four, 2000, 3.0, 4.0);
    check("spinning", spinning, 2000, 2.0, 4.0);
    check("round", round, 2000, 5.0, 12.0);
    check("changing", changing, 5000, 5.0, 12.0);
    // With 64 at once 2000 operations are 31 rounds, and the climb takes six of them.
    check("unlimited", unlimited, 2000, 25.0, 30.0);
    check("unlimited", unlimited, 10_000, 8.0, 10.0);
}

#[test]
fn forty_operations_are_too_few_to_learn_and_cost_little_where_the_start_fits() {
    check("serial", serial, 40, 1.0, 1.0);
    // A step down for one batch is half a round of ten; the rest is the incomplete round at the end of a run.
    check("four", four, 40, 12.0, 20.0);
    check("spinning", spinning, 40, 20.0, 35.0);
    check("round", round, 40, 20.0, 30.0);
    // All at once would be one round, and 4, 2, 8, 16 and the rest are five.
    check("unlimited", unlimited, 40, 550.0, 550.0);
}

#[test]
fn a_disk_that_is_replaced_by_a_better_one_is_noticed() {
    for seed in 0..SEEDS {
        let mut limit = Limit::Auto(Auto::new(MAX));
        let run = Run { operations: 3000, rate: replaced, noise: true, seed };
        let lost = run.makespan(&mut limit) as f64 / replaced_best(&run) - 1.0;
        let Limit::Auto(auto) = limit else { unreachable!("it was made as one") };
        assert!(auto.limit() >= 6, "it has {}", auto.limit());
        assert!(lost < 0.4, "{lost}");
    }
}

/// No fixed limit fits both devices, so each part has its best limit.
fn replaced_best(run: &Run) -> f64 {
    let before = super::simulated::CHANGES[0];
    super::simulated::UNIT_NS as f64 * (before as f64 + (run.operations - before) as f64 / 8.0)
}

#[test]
fn without_waiters_nothing_is_learnt_and_the_limit_stays() {
    let mut auto = Auto::new(MAX);
    let limit = auto.limit();
    for round in 0..1000 {
        auto.begin(round * 10, limit);
        auto.end(round * 10 + 5, limit - 1, false);
    }
    assert_eq!(auto.limit(), limit);
}

#[test]
fn the_bound_holds_however_small() {
    for max in [0, 1, 2, 5, 10] {
        let mut auto = Auto::new(max);
        for end in 1..500 {
            assert!((1..=max.max(1)).contains(&auto.limit()), "{} of {max}", auto.limit());
            // Times that make larger limits look better, and run backwards when they come.
            auto.end(end * 100 / auto.limit() as u64, auto.limit() - 1, true);
        }
    }
}

#[test]
fn small_steps_lead_up_and_down_the_same_way() {
    let steps = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];
    for pair in steps.windows(2) {
        assert_eq!((above(pair[0]), below(pair[1])), (pair[1], pair[0]));
    }
    assert_eq!((below(1), below(5), below(10), above(5), above(9)), (1, 4, 8, 6, 12));
}
