//! Slots that rest, are woken, and change hands.

use std::sync::Arc;

use loom::thread;

use super::check;
use crate::request::RequestId;
use crate::scheduler::crew::{Crew, GivenAway};
use crate::scheduler::slot::{Message, Seat, Slot};
use crate::sync::{AtomicUsize, Counter, Mailbox, Mutex, Ordering};
use crate::topology::Topology;

/// A crew whose threads run the loop of `worker.rs`, with a counter in the place of all queues.
struct Work {
    crew: Crew,
    slots: usize,
    /// Tasks that wait.
    queued: AtomicUsize,
    /// Tasks that have not ended.
    left: AtomicUsize,
    computing: AtomicUsize,
    done: Mailbox<()>,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
    tasks: Tasks,
    /// Reasons to wake a slot: published tasks, and looks at the queues that saw tasks. Only a count, so loom need not
    /// see it.
    reasons: Counter,
    /// Tasks that have begun, and the mailbox at which the first of two that meet waits.
    begun: AtomicUsize,
    met: Mailbox<()>,
}

/// The behaviour of the tasks of a crew.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tasks {
    Compute,
    /// The tasks block.
    Block,
    /// Each of two ends when the other has begun, and the threads keep their slots meanwhile.
    Meet,
}

impl Work {
    fn start(topology: Topology, threads_max: usize, count: usize, tasks: Tasks) -> (Arc<Self>, Vec<Slot>) {
        let (crew, slots) = Crew::new(topology, threads_max);
        let work = Arc::new(Self {
            crew,
            slots: slots.len(),
            queued: AtomicUsize::new(0),
            left: AtomicUsize::new(count),
            computing: AtomicUsize::new(0),
            done: Mailbox::new(),
            threads: Mutex::new(Vec::new()),
            tasks,
            reasons: Counter::new(0),
            begun: AtomicUsize::new(0),
            met: Mailbox::new(),
        });
        (work, slots)
    }

    fn any_work(&self) -> bool {
        self.queued.load(Ordering::SeqCst) > 0
    }

    /// A look that may wake a slot.
    fn sees_work(&self) -> bool {
        let sees = self.any_work();
        self.reasons.fetch_add(u64::from(sees), Ordering::Relaxed);
        sees
    }

    fn waiting(&self) -> usize {
        self.queued.load(Ordering::SeqCst)
    }

    /// The number of waiting tasks, for a slot that wakes another if there are as many tasks as slots.
    fn knows_waiting(&self) -> usize {
        let waiting = self.waiting();
        self.reasons.fetch_add(u64::from(waiting >= self.slots), Ordering::Relaxed);
        waiting
    }

    fn publish(&self) {
        self.queued.fetch_add(1, Ordering::SeqCst);
        self.reasons.fetch_add(1, Ordering::Relaxed);
        self.crew.publish(0, None);
    }

    /// Like `publish`, with a known number of waiting tasks. Returns the number that it saw.
    fn publish_one_of_all(&self) -> usize {
        self.queued.fetch_add(1, Ordering::SeqCst);
        self.reasons.fetch_add(1, Ordering::Relaxed);
        let waiting = self.waiting();
        self.crew.publish_one_of(waiting, 0, None);
        waiting
    }

    fn take(&self) -> bool {
        let less = |count: usize| count.checked_sub(1);
        self.queued.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }

    fn spawn(self: &Arc<Self>, slot: Slot) {
        let work = Arc::clone(self);
        let thread = thread::spawn(move || work.run(Some(slot)));
        self.threads.lock().push(thread);
    }

    fn run(self: &Arc<Self>, slot: Option<Slot>) {
        self.run_at(slot, Arc::new(Mailbox::new()));
    }

    /// All slots rest, each with a thread at its seat.
    fn put_to_rest(self: &Arc<Self>, slots: Vec<Slot>) {
        let seats: Vec<Seat> = slots.iter().map(|_| Arc::new(Mailbox::new())).collect();
        for (slot, seat) in slots.into_iter().zip(&seats) {
            self.crew.rest(slot, seat, || false);
        }
        let run = |seat| {
            let work = Arc::clone(self);
            thread::spawn(move || work.run_at(None, seat))
        };
        self.threads.lock().extend(seats.into_iter().map(run));
    }

    fn run_at(self: &Arc<Self>, mut slot: Option<Slot>, seat: Seat) {
        loop {
            if slot.is_none() {
                match seat.take() {
                    Message::Slot(received) => slot = Some(received),
                    Message::Exit => return,
                }
            }
            self.crew.pass_to_attaching(&mut slot, &seat, || self.sees_work());
            let Some(held) = &mut slot else { continue };
            self.crew.try_search(held);
            if self.take() {
                self.crew.found(held, || self.sees_work(), |_| self.knows_waiting());
                self.run_task(&mut slot, &seat);
            } else if let Some(slot) = slot.take() {
                self.crew.rest(slot, &seat, || self.sees_work());
            }
        }
    }

    fn run_task(self: &Arc<Self>, slot: &mut Option<Slot>, seat: &Seat) {
        self.compute();
        if self.tasks == Tasks::Meet {
            match self.begun.fetch_add(1, Ordering::AcqRel) {
                0 => self.met.take(),
                _ => self.met.put(()),
            }
        }
        if let Some(held) = slot.take_if(|_| self.tasks == Tasks::Block) {
            let old = (held.idx, held.node);
            *slot = match self.crew.give_away(held, || self.sees_work()) {
                GivenAway::Kept(held) => Some(held),
                GivenAway::Gone => self.attach(seat, old),
                GivenAway::NeedsThread(held) => {
                    self.spawn(held);
                    self.attach(seat, old)
                }
            };
            self.compute();
        }
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.done.put(());
        }
    }

    fn attach(&self, seat: &Seat, old: (usize, usize)) -> Option<Slot> {
        let rested = self.crew.attach(RequestId(1), seat, old);
        rested.or_else(|| match seat.take() {
            Message::Slot(slot) => Some(slot),
            Message::Exit => panic!("the crew was shut down while a task blocked"),
        })
    }

    fn compute(&self) {
        assert!(self.computing.fetch_add(1, Ordering::Relaxed) < self.slots, "more than N compute");
        self.computing.fetch_sub(1, Ordering::Relaxed);
    }

    /// Waits for all tasks, checks the invariants at rest, and ends the threads.
    fn finish(&self) {
        self.done.take();
        self.crew.check();
        self.crew.exit();
        let wakes: u64 = (0..self.slots).map(|slot| self.crew.wakes(slot)).sum();
        assert!(wakes <= self.reasons.load(Ordering::Relaxed), "a slot was woken for nothing");
        loop {
            let Some(thread) = self.threads.lock().pop() else { break };
            thread.join().unwrap();
        }
        assert!(!self.any_work());
    }
}

#[test]
fn loom_no_wake_up_is_lost_on_one_node() {
    check(3, || {
        let (work, slots) = Work::start(Topology::flat(2), 2, 2, Tasks::Compute);
        slots.into_iter().for_each(|slot| work.spawn(slot));
        work.publish();
        work.publish();
        work.finish();
    });
}

#[test]
fn loom_no_wake_up_is_lost_between_nodes() {
    check(3, || {
        let (work, slots) =
            Work::start(Topology::synthetic("numa:2 core:1 pu:1").unwrap(), 2, 1, Tasks::Compute);
        slots.into_iter().for_each(|slot| work.spawn(slot));
        work.publish();
        work.finish();
    });
}

#[test]
fn loom_no_wake_up_is_lost_to_a_slot_that_searches() {
    check(3, || {
        let (work, mut slots) = Work::start(Topology::flat(2), 2, 2, Tasks::Compute);
        // One searches, the other rests; a publisher that meets a searching slot wakes no slot.
        let searching = slots.remove(0);
        work.put_to_rest(slots);
        work.spawn(searching);
        work.publish();
        work.publish();
        work.finish();
    });
}

#[test]
fn loom_a_thread_attaches_while_a_slot_searches() {
    check(3, || {
        let (work, slots) = Work::start(Topology::flat(1), 2, 1, Tasks::Compute);
        slots.into_iter().for_each(|slot| work.spawn(slot));
        let publisher = thread::spawn({
            let work = Arc::clone(&work);
            move || work.publish()
        });
        // This thread comes back from blocking, and then finds no task.
        let seat: Seat = Arc::new(Mailbox::new());
        let slot = work.attach(&seat, (0, 0));
        work.compute();
        work.threads.lock().push(publisher);
        let thread = thread::spawn({
            let work = Arc::clone(&work);
            move || work.run_at(slot, seat)
        });
        work.threads.lock().push(thread);
        work.finish();
    });
}

#[test]
fn loom_as_many_are_woken_as_tasks_wait() {
    check(2, || {
        let (work, slots) = Work::start(Topology::flat(3), 3, 2, Tasks::Meet);
        work.put_to_rest(slots);
        work.publish_one_of_all();
        let waiting = work.publish_one_of_all();
        // All slots were at rest: two are on their way, or the tasks have met already.
        let resting = work.crew.check();
        let begun = work.begun.fetch_add(0, Ordering::AcqRel);
        assert!(waiting < 2 || resting <= 1 || begun == 2, "{resting} rest while two tasks wait");
        work.finish();
    });
}

#[test]
fn loom_one_task_wakes_one() {
    check(3, || {
        let (work, slots) = Work::start(Topology::flat(3), 3, 1, Tasks::Compute);
        work.put_to_rest(slots);
        work.publish();
        // The task is published again, as by a slot that has seen it: no other slot wakes before the first has found
        // it.
        work.reasons.fetch_add(1, Ordering::Relaxed);
        work.crew.publish(0, None);
        let resting = work.crew.check();
        assert!(resting >= 2 || !work.any_work(), "{resting} rest while one task waits");
        work.finish();
    });
}

#[test]
fn loom_a_slot_that_has_found_one_of_many_wakes_others() {
    check(3, || {
        // One slot may search at a time: the publisher wakes only one, and that slot wakes the other.
        let (work, slots) = Work::start(Topology::flat(2), 2, 2, Tasks::Meet);
        work.put_to_rest(slots);
        // Both at once, as in an adopted request.
        work.queued.fetch_add(2, Ordering::SeqCst);
        work.reasons.fetch_add(1, Ordering::Relaxed);
        work.crew.publish_one_of(2, 0, None);
        work.finish();
    });
}

#[test]
fn loom_one_slot_changes_hands() {
    check(3, || {
        let (work, slots) = Work::start(Topology::flat(1), 3, 2, Tasks::Block);
        work.queued.store(2, Ordering::SeqCst);
        slots.into_iter().for_each(|slot| work.spawn(slot));
        work.finish();
    });
}

#[test]
fn loom_two_slots_change_hands() {
    check(1, || {
        let (work, slots) = Work::start(Topology::flat(2), 3, 2, Tasks::Block);
        work.queued.store(2, Ordering::SeqCst);
        slots.into_iter().for_each(|slot| work.spawn(slot));
        work.finish();
    });
}

#[test]
fn loom_a_task_published_while_a_slot_is_given_away_is_run() {
    check(3, || {
        let (work, slots) = Work::start(Topology::flat(1), 2, 1, Tasks::Compute);
        // One backup is parked, and this thread has the slot.
        let backup: Seat = Arc::new(Mailbox::new());
        slots.into_iter().for_each(|slot| work.crew.rest(slot, &backup, || false));
        let slot = work.crew.attach(RequestId(1), &Arc::new(Mailbox::new()), (0, 0)).unwrap();
        let threads = [
            thread::spawn({
                let work = Arc::clone(&work);
                move || work.run_at(None, backup)
            }),
            thread::spawn({
                let work = Arc::clone(&work);
                move || work.publish()
            }),
        ];
        work.threads.lock().extend(threads);
        assert!(matches!(work.crew.give_away(slot, || work.sees_work()), GivenAway::Gone));
        // This thread blocks until the task has run: it does not come back for it.
        work.finish();
    });
}
