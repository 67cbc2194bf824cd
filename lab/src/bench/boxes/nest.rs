//! Boxes that branch within one firing: a Fibonacci number, a tree with ten children per node, closures in a scope.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use boxwork_runtime::inside::Inside;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec};

use super::super::spin::{SEED, spin};
use super::super::tally::Tally;
use super::{TALLY_PARAMETER, count};

/// Children of a node of the tree.
const CHILDREN: u64 = 10;

pub static FIB: OperatorSpec = OperatorSpec {
    parameters: &[
        TALLY_PARAMETER,
        count("n", "index of the number"),
        count("cutoff", "index up to which it computes sequentially"),
    ],
    ..OperatorSpec::new("fib", "Computes a Fibonacci number naively.", Kind::Stateful, |bind| {
        let (n, cutoff) = (bind.count("n") as u64, bind.count("cutoff") as u64);
        nest(bind, 1, move |inside| fib(inside, n, cutoff))
    })
};

pub static SKYNET: OperatorSpec = OperatorSpec {
    parameters: &[TALLY_PARAMETER, count("leaves", "leaves of the tree, a power of ten")],
    ..OperatorSpec::new("skynet", "Adds the numbers of a tree's leaves.", Kind::Stateful, |bind| {
        let leaves = bind.count("leaves") as u64;
        nest(bind, 1, move |inside| node(inside, 0, leaves))
    })
};

pub static CLOSURES: OperatorSpec = OperatorSpec {
    parameters: &[
        TALLY_PARAMETER,
        count("count", "closures to spawn"),
        count("iterations", "steps of work for each"),
    ],
    ..OperatorSpec::new("closures", "Spawns closures into a scope.", Kind::Stateful, |bind| {
        let (closures, iterations) = (bind.count("count") as u64, bind.count("iterations") as u64);
        nest(bind, closures, move |inside| scoped(inside, closures, iterations))
    })
};

type Compute = Box<dyn Fn(&mut Inside<'_>) -> u64 + Send>;

struct Nest {
    tally: Arc<Tally>,
    /// The count that its end adds to the tally.
    tasks: u64,
    compute: Compute,
}

fn nest(
    bind: &Bind<'_>,
    tasks: u64,
    compute: impl Fn(&mut Inside<'_>) -> u64 + Send + 'static,
) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(Nest { tally: Tally::bound(bind)?, tasks, compute: Box::new(compute) }))
}

impl Operator for Nest {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        self.tally.mark(self.tally.now_ns());
        let sum = cx.inside(|inside| (self.compute)(inside));
        self.tally.mark(self.tally.now_ns());
        self.tally.add(sum);
        self.tally.arrive(self.tasks);
        Ok(Flow::Done)
    }
}

/// A Fibonacci number, computed sequentially.
pub fn fib_in_turn(n: u64) -> u64 {
    if n < 2 { n } else { fib_in_turn(n - 1) + fib_in_turn(n - 2) }
}

fn fib(inside: &mut Inside<'_>, n: u64, cutoff: u64) -> u64 {
    if n < 2 || n <= cutoff {
        return fib_in_turn(n);
    }
    let (a, b) = inside.join(|inside| fib(inside, n - 1, cutoff), |inside| fib(inside, n - 2, cutoff));
    a + b
}

/// The sum that this many closures compute.
fn scoped(inside: &mut Inside<'_>, closures: u64, iterations: u64) -> u64 {
    let sum = AtomicU64::new(0);
    inside.scope(|scope, inside| {
        for _ in 0..closures {
            scope.spawn(inside, |_, _| {
                sum.fetch_add(u64::from(spin(iterations, SEED)), Ordering::Relaxed);
            });
        }
    });
    sum.into_inner()
}

/// The sum of this many leaves, numbered from `first`.
fn node(inside: &mut Inside<'_>, first: u64, leaves: u64) -> u64 {
    if leaves < CHILDREN { first } else { children(inside, first, leaves / CHILDREN, CHILDREN) }
}

/// This many children with this many leaves each; halved until there is one.
fn children(inside: &mut Inside<'_>, first: u64, leaves: u64, count: u64) -> u64 {
    if count == 1 {
        return node(inside, first, leaves);
    }
    let (half, rest) = (count / 2, count - count / 2);
    let (a, b) = inside.join(
        |inside| children(inside, first, leaves, half),
        |inside| children(inside, first + half * leaves, leaves, rest),
    );
    a + b
}
