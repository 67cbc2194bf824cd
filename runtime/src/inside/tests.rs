//! Branches of a firing on the threads of a runtime.

mod graphs;

use super::*;

/// A lane of one thread. A new thread steals one of every `stolen_of` branches; the others are popped again.
struct Thieving {
    branches: Vec<Branch>,
    pushes: usize,
    stolen_of: usize,
    thieves: Vec<std::thread::JoinHandle<()>>,
}

impl Thieving {
    fn new(stolen_of: usize) -> Self {
        Self { branches: Vec::new(), pushes: 0, stolen_of, thieves: Vec::new() }
    }
}

#[expect(unsafe_code, reason = "a thief runs what it took from the lane")]
impl Lane for Thieving {
    fn push(&mut self, branch: Branch) {
        self.pushes += 1;
        if self.pushes.is_multiple_of(self.stolen_of) {
            // SAFETY: each branch is in no other place, and is run once.
            let thief = move || unsafe {
                let (mut next, mut lane) = (Some(branch), Thieving::new(usize::MAX));
                while let Some(branch) = next {
                    branch.run(&mut lane);
                    next = lane.pop();
                }
            };
            self.thieves.push(std::thread::spawn(thief));
        } else {
            self.branches.push(branch);
        }
    }

    fn pop(&mut self) -> Option<Branch> {
        self.branches.pop()
    }

    fn wait(&mut self, latch: &Latch) {
        if !latch.is_set() {
            latch.park();
        }
    }
}

impl Drop for Thieving {
    fn drop(&mut self) {
        assert!(self.branches.is_empty(), "a branch was left behind");
        for thief in self.thieves.drain(..) {
            thief.join().unwrap();
        }
    }
}

/// Runs a closure inside lanes in which no branch, all and some branches are stolen, and without a lane.
fn everywhere(f: impl Fn(&mut Inside<'_>)) {
    let stopping = AtomicBool::new(false);
    f(&mut Inside::new(None, &stopping));
    for stolen_of in [usize::MAX, 1, 3] {
        let mut lane = Thieving::new(stolen_of);
        f(&mut Inside::new(Some(&mut lane), &stopping));
    }
}

fn fibonacci(inside: &mut Inside<'_>, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = inside.join(|inside| fibonacci(inside, n - 1), |inside| fibonacci(inside, n - 2));
    a + b
}

#[test]
fn joins_give_both_results() {
    everywhere(|inside| {
        assert_eq!(fibonacci(inside, if cfg!(miri) { 6 } else { 12 }), if cfg!(miri) { 8 } else { 144 })
    });
}

#[test]
fn chunks_cover_everything_once() {
    everywhere(|inside| {
        for (count, chunk) in [(0, 1), (1, 1), (7, 3), (64, 64), (65, 64), (40, 7)] {
            let mut hits = vec![0_u8; count];
            inside.for_each_chunk_of(&mut hits, chunk, |first, hits| {
                assert!(first % chunk == 0 && hits.len() <= chunk);
                hits.iter_mut().for_each(|hit| *hit += 1);
            });
            assert_eq!(hits, vec![1; count]);
            let sum = crate::sync::AtomicUsize::new(0);
            inside.for_each_chunk(count, chunk, |range| {
                assert!(range.len() <= chunk);
                sum.fetch_add(range.sum::<usize>(), Ordering::Relaxed);
            });
            assert_eq!(sum.into_inner(), (0..count).sum());
        }
    });
}

#[test]
fn a_scope_ends_after_all_that_it_spawned() {
    everywhere(|inside| {
        let ran = crate::sync::AtomicUsize::new(0);
        let (ran_ref, given) = (&ran, inside);
        let result = given.scope(|scope, inside| {
            for _ in 0..5 {
                scope.spawn(inside, move |scope, inside| {
                    ran_ref.fetch_add(1, Ordering::Relaxed);
                    scope.spawn(inside, move |_, inside| {
                        ran_ref.fetch_add(fibonacci(inside, 5) as usize, Ordering::Relaxed);
                    });
                });
            }
            7
        });
        assert_eq!((result, ran.into_inner()), (7, 5 * (1 + 5)));
    });
}

#[test]
fn a_panic_comes_out_when_all_is_over() {
    let message = |panic: Box<dyn std::any::Any + Send>| *panic.downcast::<&str>().unwrap();
    for stolen_of in [usize::MAX, 1] {
        let stopping = AtomicBool::new(false);
        let mut lane = Thieving::new(stolen_of);
        let mut inside = Inside::new(Some(&mut lane), &stopping);
        let mut caught = |f: &dyn Fn(&mut Inside<'_>)| {
            message(catch_unwind(AssertUnwindSafe(|| f(&mut inside))).unwrap_err())
        };
        assert_eq!(caught(&|inside| _ = inside.join(|_| panic!("first"), |_| ())), "first");
        assert_eq!(caught(&|inside| _ = inside.join(|_| (), |_| panic!("second"))), "second");
        let scope = |inside: &mut Inside<'_>| {
            inside.scope(|scope, inside| {
                scope.spawn(inside, |_, _| panic!("spawned"));
                scope.spawn(inside, |_, _| ());
            });
        };
        assert_eq!(caught(&scope), "spawned");
    }
}

#[test]
fn an_inner_caller_leaves_the_branches_of_an_outer_one() {
    // The outer branch is below the scope's: it must not run while the scope waits, because its caller holds the lock.
    let lock = crate::sync::Mutex::new(0);
    everywhere(|inside| {
        inside.join(
            |inside| {
                let held = lock.lock();
                inside.scope(|scope, inside| scope.spawn(inside, |_, inside| _ = fibonacci(inside, 4)));
                drop(held);
            },
            |_| *lock.lock() += 1,
        );
    });
    assert_eq!(*lock.lock(), 4);
}

#[test]
fn a_branch_below_those_of_an_outer_scope_is_taken_back() {
    // No other thread may steal it: a thread that waited for it would wait for ever.
    everywhere(|inside| {
        let ran = crate::sync::AtomicUsize::new(0);
        let ran_ref = &ran;
        let count = move || _ = ran_ref.fetch_add(1, Ordering::Relaxed);
        inside.scope(|outer, inside| {
            inside.join(|inside| outer.spawn(inside, move |_, _| count()), |_| count());
            inside.scope(|inner, inside| {
                inner.spawn(inside, move |_, _| count());
                outer.spawn(inside, move |_, _| count());
            });
        });
        assert_eq!(ran.into_inner(), 4);
    });
}
