//! B3, nested: recursion within one firing, whose branches other slots take.
//!
//! Two parts. `fib` computes a Fibonacci number naively, sequentially up to `cutoff`: without it a join costs more than
//! its branch. `skynet` is a tree with ten children per node that adds the numbers of its leaves. Timed: the recursion
//! alone.

use super::boxes::fib_in_turn;
use super::graph::{Graph, whole};
use super::rig::{Rig, Setup};
use super::{Case, Error, Figures, Measured, Workload, figures};

pub static NESTED: Workload = Workload {
    id: "B3",
    name: "nested",
    question: "What does a branch within a box cost?",
    rounds_max: 21,
    cases: |is_quick| {
        let fib = |n: usize, cutoff: usize| Case::new(&[("part", &"fib"), ("n", &n), ("cutoff", &cutoff)]);
        let skynet = |leaves: usize| Case::new(&[("part", &"skynet"), ("leaves", &leaves)]);
        if is_quick {
            vec![fib(25, 0), fib(30, 20), skynet(100_000)]
        } else {
            vec![fib(35, 0), fib(35, 20), skynet(1_000_000)]
        }
    },
    open,
};

struct Nested {
    rig: Rig,
    sum: u64,
    /// Total number of joins.
    joins: f64,
}

/// Larger numbers take minutes.
const N_MAX: usize = 45;

fn open(setup: &Setup, case: &Case) -> Result<Box<dyn Measured<Error>>, Error> {
    let mut graph = Graph::new();
    let (sum, joins) = match case.text("part") {
        "fib" => {
            let (n, cutoff) = (case.count("n")?.min(N_MAX), case.number("cutoff")? as u64);
            graph.add("fib", "fib", &[("n", whole(n)), ("cutoff", whole(cutoff))]);
            (fib_in_turn(n as u64), fib_joins(n as u64, cutoff))
        }
        "skynet" => {
            let leaves = 10_u64.pow(case.count("leaves")?.ilog10());
            graph.add("skynet", "skynet", &[("leaves", whole(leaves))]);
            (leaves * (leaves - 1) / 2, leaves - 1)
        }
        other => {
            let wanted = "fib or skynet";
            return Err(Error::Setting { name: "part", value: other.to_owned(), wanted });
        }
    };
    Ok(Box::new(Nested { rig: Rig::new(setup, &graph)?, sum, joins: joins as f64 }))
}

/// The number of joins for a Fibonacci number.
fn fib_joins(n: u64, cutoff: u64) -> u64 {
    // The joins of the two previous numbers.
    let (mut before, mut last) = (0, 0);
    for _ in cutoff.max(1)..n {
        (before, last) = (last, before + last + 1);
    }
    last
}

impl Measured<Error> for Nested {
    fn round(&mut self) -> Result<Figures, Error> {
        self.rig.run()?;
        self.rig.check_arrived(1)?;
        Error::unless_equal("the sum of the recursion", self.rig.tally.checksum(), self.sum)?;
        let ns = self.rig.tally.marked_ns() as f64;
        Ok(figures([("nested_ms", ns / 1e6), ("join_ns", ns / self.joins)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_are_counted_as_they_are_made() {
        fn count(n: u64, cutoff: u64) -> u64 {
            if n < 2 || n <= cutoff { 0 } else { 1 + count(n - 1, cutoff) + count(n - 2, cutoff) }
        }
        for (n, cutoff) in [(0, 0), (1, 0), (2, 0), (7, 0), (7, 1), (12, 5), (5, 9)] {
            assert_eq!(fib_joins(n, cutoff), count(n, cutoff), "{n} {cutoff}");
        }
    }
}
