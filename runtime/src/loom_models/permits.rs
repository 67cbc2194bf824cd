//! Permits of a class of blocking operations.

use std::sync::Arc;

use loom::thread;

use super::check;
use crate::request::RequestId;
use crate::scheduler::blocking::{Admission, Class, Entered, Permit, Used};
use crate::statistics::ClassLimit;
use crate::sync::{AtomicBool, AtomicUsize, Ordering};

/// A class whose tasks are numbers.
fn class() -> Arc<Class<u64>> {
    Arc::new(Class::new("nap", ClassLimit::Fixed(1), 1))
}

/// Uses a permit, if it was granted.
fn use_permit(class: &Class<u64>, permit: Permit, out: &AtomicUsize) {
    if permit == Permit::Granted {
        assert_eq!(out.fetch_add(1, Ordering::Relaxed), 0, "more permits are out than there are");
        out.fetch_sub(1, Ordering::Relaxed);
        assert_eq!(class.release(Used::Not), []);
    }
}

#[test]
fn loom_permits_are_few_and_none_is_lost() {
    check(3, || {
        let (class, out, stopping) =
            (class(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let threads = [(1, false), (2, false), (3, true)].map(|(request, holding)| {
            let (class, out, stopping) = (Arc::clone(&class), Arc::clone(&out), Arc::clone(&stopping));
            thread::spawn(move || {
                let is_stopping = || request == 2 && stopping.load(Ordering::Acquire);
                let permit = match class.enter(RequestId(request), holding, is_stopping) {
                    Entered::Now(permit) => permit,
                    Entered::Waits(mailbox) => mailbox.take(),
                };
                assert!(permit == Permit::Granted || request == 2, "another request was cancelled");
                use_permit(&class, permit, &out);
            })
        });
        stopping.store(true, Ordering::Release);
        assert!(class.cancel(RequestId(2)).is_empty());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(class.try_acquire(), "a permit was lost");
        assert!(!class.try_acquire(), "a permit was made");
    });
}

#[test]
fn loom_the_oldest_waiter_is_first_and_a_cancelled_one_leaves() {
    check(3, || {
        let class = class();
        assert!(class.try_acquire());
        let wait = |request| match class.enter(RequestId(request), false, || false) {
            Entered::Now(_) => panic!("the permit is out"),
            Entered::Waits(mailbox) => mailbox,
        };
        let young = wait(3);
        assert!(matches!(class.admit(RequestId(2), 2, |_| false), Admission::Later));
        let old = wait(1);
        let threads = [
            thread::spawn({
                let class = Arc::clone(&class);
                move || assert_eq!(class.release(Used::Not), [], "a thread waits before the task")
            }),
            thread::spawn({
                let class = Arc::clone(&class);
                move || {
                    if old.take() == Permit::Granted {
                        // The permit goes to the task, unless its request was cancelled before; then to the young
                        // waiter.
                        if class.release(Used::Not) == [2] {
                            assert_eq!(class.release(Used::Not), []);
                        }
                    }
                }
            }),
        ];
        let left = class.cancel(RequestId(2));
        assert!(left.len() <= 1);
        assert_eq!(young.take(), Permit::Granted);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(!class.try_acquire(), "the young waiter has the permit");
        assert_eq!(class.release(Used::Not), []);
        assert!(class.try_acquire(), "a permit was lost");
    });
}

#[test]
fn loom_a_cancelled_waiter_does_not_wait_for_the_permit() {
    check(3, || {
        let (class, stopping) = (class(), Arc::new(AtomicBool::new(false)));
        assert!(class.try_acquire());
        let waiter = thread::spawn({
            let (class, stopping) = (Arc::clone(&class), Arc::clone(&stopping));
            move || match class.enter(RequestId(1), false, || stopping.load(Ordering::Acquire)) {
                Entered::Now(permit) => permit,
                Entered::Waits(mailbox) => mailbox.take(),
            }
        });
        let task = thread::spawn({
            let (class, stopping) = (Arc::clone(&class), Arc::clone(&stopping));
            move || {
                !matches!(
                    class.admit(RequestId(1), 1, |_| stopping.load(Ordering::Acquire)),
                    Admission::Later
                )
            }
        });
        stopping.store(true, Ordering::Release);
        let left = class.cancel(RequestId(1));
        assert_eq!(waiter.join().unwrap(), Permit::Cancelled);
        assert!(task.join().unwrap() || left == [1], "the task is left behind");
        assert_eq!(class.release(Used::Not), []);
        assert!(class.try_acquire(), "a permit was lost");
    });
}

#[test]
fn loom_permits_of_a_limit_that_changes() {
    check(3, || {
        let (class, out) = (class(), Arc::new(AtomicUsize::new(0)));
        let highest = 2;
        let threads = [1, 2].map(|request| {
            let (class, out) = (Arc::clone(&class), Arc::clone(&out));
            thread::spawn(move || {
                if let Entered::Waits(mailbox) = class.enter(RequestId(request), request == 2, || false) {
                    assert_eq!(mailbox.take(), Permit::Granted);
                }
                assert!(
                    out.fetch_add(1, Ordering::Relaxed) < highest,
                    "more permits are out than there were"
                );
                out.fetch_sub(1, Ordering::Relaxed);
                run_tasks(&class, class.release(Used::Not));
            })
        });
        // One task beside the two threads; the thread that gets it runs it.
        match class.admit(RequestId(3), 3, |_| false) {
            Admission::Permitted(_) => run_tasks(&class, vec![3]),
            Admission::Later => {}
            Admission::Draining(_) => panic!("no request is stopping"),
        }
        run_tasks(&class, class.set_limit(highest));
        run_tasks(&class, class.set_limit(1));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        // All have ended: the last set limit holds, and no permit is out.
        assert!(class.try_acquire(), "a permit was lost");
        assert!(!class.try_acquire(), "a permit was made");
    });
}

/// Runs tasks that have permits, and the tasks that get their permits.
fn run_tasks(class: &Class<u64>, mut tasks: Vec<u64>) {
    while tasks.pop().is_some() {
        tasks.extend(class.release(Used::Not));
    }
}
