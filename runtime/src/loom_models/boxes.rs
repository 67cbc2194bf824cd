//! Events of a box, and room on the edge between two.

use std::sync::Arc;

use loom::thread;

use super::check;
use crate::edge::queue::Queue;
use crate::model::box_state::{BoxState, End, Notified};
use crate::sync::{AtomicBool, Ordering};

/// A box, the events that were published for it, and the events that its firings saw.
struct Listener {
    state: BoxState<[bool; 3]>,
    events: [AtomicBool; 3],
}

#[expect(unsafe_code, reason = "the thread that makes a task runs it")]
impl Listener {
    /// Publishes an event and notifies the box. If this makes a task, the caller runs it.
    fn notify(&self, event: usize) {
        // Relaxed: the box's state must carry the event over.
        self.events[event].store(true, Ordering::Relaxed);
        if self.state.notify() == Notified::Plan {
            self.fire();
        }
    }

    fn fire(&self) {
        let mut again = true;
        loop {
            // SAFETY: the task came from the notification, or from the end of the turn before. loom's cell finds two
            // turns at once.
            let mut seen = unsafe { self.state.start() };
            for (seen, event) in seen.iter_mut().zip(&self.events) {
                *seen |= event.load(Ordering::Relaxed);
            }
            // The first firing has more to do.
            match seen.end(std::mem::take(&mut again), false) {
                End::Idle => return,
                End::Again => {}
                End::Room(_) => panic!("no producer waits for room"),
            }
        }
    }
}

#[test]
fn loom_a_box_sees_every_event_and_is_fired_by_one_thread() {
    check(3, || {
        let listener = Arc::new(Listener {
            state: BoxState::new([false; 3]),
            events: [AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false)],
        });
        let threads = [0, 1].map(|event| {
            let listener = Arc::clone(&listener);
            thread::spawn(move || listener.notify(event))
        });
        listener.notify(2);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(listener.state.is_idle());
        assert_eq!(listener.state.claim().map(|seen| *seen), Some([true; 3]), "an event was lost");
    });
}

/// Two boxes and an edge between them that holds one item. The thread that makes a task runs it.
struct Pair {
    producer: BoxState<usize>,
    consumer: BoxState<Vec<usize>>,
    edge: Queue<usize, (), ()>,
    wanted: AtomicBool,
    items: usize,
}

#[expect(unsafe_code, reason = "the thread that makes a task runs it")]
impl Pair {
    /// Pushes items while they fit: `Single::offer` and `Model::fire` in small.
    fn produce(&self) {
        loop {
            // SAFETY: the task came from a notification, or from the end of the turn before.
            let mut turn = unsafe { self.producer.start() };
            let fits = || self.edge.len() == 0;
            let mut pushed = false;
            while *turn < self.items {
                if !fits() {
                    self.wanted.store(true, Ordering::Relaxed);
                    self.consumer.want_room();
                    if !fits() {
                        break;
                    }
                }
                self.wanted.store(false, Ordering::Relaxed);
                // SAFETY: within a turn of the producer.
                unsafe { self.edge.push(*turn) };
                *turn += 1;
                pushed |= self.consumer.notify() == Notified::Plan;
            }
            let End::Again = turn.end(false, false) else {
                if pushed {
                    self.consume();
                }
                return;
            };
            if pushed {
                self.consume();
            }
        }
    }

    fn consume(&self) {
        loop {
            // SAFETY: the task came from a notification, or from the end of the turn before.
            let mut turn = unsafe { self.consumer.start() };
            let mut made_room = false;
            // SAFETY: within a turn of the consumer.
            while let Some((_, item)) = unsafe { self.edge.pop() } {
                turn.push(item);
                made_room = true;
            }
            let mut notified = false;
            let again = loop {
                match turn.end(false, made_room) {
                    End::Idle => break false,
                    End::Again => break true,
                    End::Room(back) => {
                        turn = back;
                        made_room = false;
                        if self.wanted.swap(false, Ordering::AcqRel) {
                            notified = self.producer.notify() == Notified::Plan;
                        }
                    }
                }
            };
            if notified {
                let this: &Self = self;
                this.produce();
            }
            if !again {
                return;
            }
        }
    }
}

#[test]
fn loom_a_producer_that_waits_for_room_is_notified() {
    check(3, || {
        let pair = Arc::new(Pair {
            producer: BoxState::new(0),
            consumer: BoxState::new(Vec::new()),
            edge: Queue::new(),
            wanted: AtomicBool::new(false),
            items: 3,
        });
        assert_eq!(pair.producer.notify(), Notified::Plan);
        let other = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                // An event from elsewhere, so that the consumer fires beside the producer.
                if pair.consumer.notify() == Notified::Plan {
                    pair.consume();
                }
            })
        };
        pair.produce();
        other.join().unwrap();
        assert_eq!(pair.consumer.claim().map(|taken| taken.clone()), Some(vec![0, 1, 2]), "an item was lost");
    });
}
