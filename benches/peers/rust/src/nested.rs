//! B3: recursion whose branches other threads take. `join` runs two closures side by side.

/// Runs two closures side by side.
pub trait Join: Copy + Send + Sync {
    fn join(self, a: impl FnOnce() -> u64 + Send, b: impl FnOnce() -> u64 + Send) -> (u64, u64);
}

/// A Fibonacci number, computed sequentially.
pub fn fib_in_turn(n: u64) -> u64 {
    if n < 2 { n } else { fib_in_turn(n - 1) + fib_in_turn(n - 2) }
}

pub fn fib(with: impl Join, n: u64, cutoff: u64) -> u64 {
    if n < 2 || n <= cutoff {
        return fib_in_turn(n);
    }
    let (a, b) = with.join(|| fib(with, n - 1, cutoff), || fib(with, n - 2, cutoff));
    a + b
}

/// Children of a node of the tree.
const CHILDREN: u64 = 10;

/// The sum of this many leaves, numbered from the first.
pub fn skynet(with: impl Join, first: u64, leaves: u64) -> u64 {
    if leaves < CHILDREN { first } else { children(with, first, leaves / CHILDREN, CHILDREN) }
}

fn children(with: impl Join, first: u64, leaves: u64, count: u64) -> u64 {
    if count == 1 {
        return skynet(with, first, leaves);
    }
    let (half, rest) = (count / 2, count - count / 2);
    let (a, b) = with.join(
        || children(with, first, leaves, half),
        || children(with, first + half * leaves, leaves, rest),
    );
    a + b
}
