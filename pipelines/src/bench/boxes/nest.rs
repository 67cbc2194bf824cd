//! Boxes that recurse within one firing: a number of Fibonacci, and a tree of ten children each.

use std::sync::Arc;

use boxwork_runtime::inside::Inside;
use boxwork_runtime::operator::{BoxError, Context, Flow, Kind, Operator, OperatorSpec};

use super::super::tally::Tally;
use super::{TALLY_PARAMETER, count};

/// Children of a node of the tree.
const CHILDREN: u64 = 10;

pub static FIB: OperatorSpec = OperatorSpec {
    parameters: &[
        TALLY_PARAMETER,
        count("n", "which number to compute"),
        count("cutoff", "the number up to which it is computed in turn"),
    ],
    ..OperatorSpec::new("fib", "Computes a number of Fibonacci, the naive way.", Kind::Stateful, |bind| {
        let (n, cutoff) = (bind.count("n") as u64, bind.count("cutoff") as u64);
        Ok(Box::new(Nest {
            tally: Tally::bound(bind)?,
            compute: Box::new(move |inside| fib(inside, n, cutoff)),
        }))
    })
};

pub static SKYNET: OperatorSpec = OperatorSpec {
    parameters: &[TALLY_PARAMETER, count("leaves", "leaves of the tree, a power of ten")],
    ..OperatorSpec::new("skynet", "Adds the numbers of a tree's leaves.", Kind::Stateful, |bind| {
        let leaves = bind.count("leaves") as u64;
        Ok(Box::new(Nest {
            tally: Tally::bound(bind)?,
            compute: Box::new(move |inside| node(inside, 0, leaves)),
        }))
    })
};

type Compute = Box<dyn Fn(&mut Inside<'_>) -> u64 + Send>;

struct Nest {
    tally: Arc<Tally>,
    compute: Compute,
}

impl Operator for Nest {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        self.tally.mark(self.tally.now_ns());
        let sum = cx.inside(|inside| (self.compute)(inside));
        self.tally.mark(self.tally.now_ns());
        self.tally.add(sum);
        self.tally.arrive(1);
        Ok(Flow::Done)
    }
}

/// A number of Fibonacci, without branches.
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

/// The sum of so many leaves, numbered from the first.
fn node(inside: &mut Inside<'_>, first: u64, leaves: u64) -> u64 {
    if leaves < CHILDREN { first } else { children(inside, first, leaves / CHILDREN, CHILDREN) }
}

/// So many children of so many leaves each; halved until there is one.
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
