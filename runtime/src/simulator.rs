//! The simulator: the scheduler on virtual workers that run one at a time, in an order drawn from a seed.
//!
//! A simulated thread is a thread of the system that runs while it holds the baton. It passes the baton where an
//! interruption of the scheduler can have an effect (`interleave`), where it waits, and where it computes for some
//! virtual time ([`compute`], [`sleep`]). The seed draws the next thread; if no thread can continue, the clock jumps to
//! the next that is due. Invariants: one simulated thread runs at a time; it holds no lock when it passes the baton. So
//! a seed always gives one run, and the simulator finds and reports a run in which all threads wait for ever.
//!
//! It covers orders of whole steps, on whole graphs and machines, with virtual time. It does not cover orders of single
//! memory accesses (loom does, `loom_models`), locks that operators hold while they compute, and code that reads the
//! system's clock directly.

mod world;

use std::cell::RefCell;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use self::world::World;

/// Simulations under way in this process: while there are none, every function here only reads this.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CURRENT: RefCell<Option<Simulated>> = const { RefCell::new(None) };
}

/// A simulated thread's place in its world.
#[derive(Clone)]
struct Simulated {
    world: Arc<World>,
    number: usize,
}

/// The result of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Simulation<R> {
    /// The result of the closure.
    pub result: R,
    /// The virtual time that it took.
    pub elapsed: Duration,
    /// How often the baton was passed.
    pub steps: u64,
}

/// Runs a closure in a simulation: the runtimes that it starts, and everything they do, follow the seed.
///
/// # Panics
/// When the closure panics, and when all threads wait for each other; the message names the seed.
pub fn simulate<R: Send + 'static>(seed: u64, f: impl FnOnce() -> R + Send + 'static) -> Simulation<R> {
    let (told, end) = mpsc::channel();
    let world = World::new(seed, {
        let told = told.clone();
        // If the closure has ended before, the receiver is gone.
        move |report| _ = told.send(Err(Box::new(report) as Box<_>))
    });
    RUNNING.fetch_add(1, Ordering::SeqCst);
    let client = {
        let world = Arc::clone(&world);
        spawn_in(&world.clone(), format!("seed {seed}: client"), move || {
            let result = catch_unwind(AssertUnwindSafe(f));
            let _ = told.send(result.map(|result| {
                let (elapsed, steps) = world.passed();
                Simulation { result, elapsed, steps }
            }));
        })
    };
    let client = client.unwrap_or_else(|error| panic!("no thread for the simulation: {error}"));
    world.begin();
    let result = end.recv();
    if let Ok(Ok(_)) = result {
        // The threads of a stalled world stay parked for ever; these threads have ended.
        let _ = client.join();
    }
    RUNNING.fetch_sub(1, Ordering::SeqCst);
    match result {
        Ok(Ok(simulation)) => simulation,
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => panic!("the simulation with seed {seed} ended without a result"),
    }
}

/// Computes for a while: in a simulation the virtual clock advances and other threads may run, otherwise this thread is
/// busy.
pub fn compute(duration: Duration) {
    match current() {
        Some(simulated) => simulated.world.sleep(simulated.number, duration),
        None => {
            let begun = Instant::now();
            while begun.elapsed() < duration {
                std::hint::spin_loop();
            }
        }
    }
}

/// Blocks for a while, as a device would; in a simulation, in virtual time.
pub fn sleep(duration: Duration) {
    match current() {
        Some(simulated) => simulated.world.sleep(simulated.number, duration),
        None => std::thread::sleep(duration),
    }
}

/// From now on the simulated system refuses to start threads, or starts them again. Does nothing outside of a
/// simulation.
pub fn refuse_threads(refuses: bool) {
    if let Some(simulated) = current() {
        simulated.world.refuse(refuses);
    }
}

/// The clock that the runtime reads, for deadlines: virtual in a simulation.
pub fn now() -> Instant {
    current().map_or_else(Instant::now, |simulated| simulated.world.now())
}

/// Whether the caller is simulated.
pub fn is_simulated() -> bool {
    current().is_some()
}

fn current() -> Option<Simulated> {
    if RUNNING.load(Ordering::Relaxed) == 0 {
        return None;
    }
    CURRENT.with_borrow(Clone::clone)
}

/// A place where the order of threads matters: another thread may continue first. The caller holds no lock.
#[inline(always)]
pub(crate) fn interleave() {
    if RUNNING.load(Ordering::Relaxed) > 0 {
        interleave_simulated();
    }
}

#[cold]
#[inline(never)]
fn interleave_simulated() {
    if let Some(simulated) = current() {
        simulated.world.interleave(simulated.number);
    }
}

/// Waits for an event at an address until a time, if the caller is simulated. Returns whether time ran out, or nothing
/// if the caller is not simulated.
pub(crate) fn wait(on: usize, until: Option<Instant>) -> Option<bool> {
    current().map(|simulated| simulated.world.wait(simulated.number, on, until))
}

/// Wakes one or all of the threads that wait at an address.
pub(crate) fn notify(on: usize, all: bool) {
    if let Some(simulated) = current() {
        simulated.world.notify(on, all);
    }
}

/// A thread, simulated if its maker is.
pub(crate) struct Thread {
    handle: std::thread::JoinHandle<()>,
    simulated: Option<usize>,
}

impl Thread {
    /// Starts a thread.
    ///
    /// # Errors
    /// When the system starts no thread.
    pub(crate) fn spawn(name: String, f: impl FnOnce() + Send + 'static) -> std::io::Result<Self> {
        match current() {
            Some(simulated) => spawn_in(&simulated.world, name, f),
            None => {
                let handle = std::thread::Builder::new().name(name).spawn(f)?;
                Ok(Self { handle, simulated: None })
            }
        }
    }

    /// Whether it is the calling thread.
    pub(crate) fn is_current(&self) -> bool {
        self.handle.thread().id() == std::thread::current().id()
    }

    /// Waits for its end.
    pub(crate) fn join(self) -> std::thread::Result<()> {
        if let (Some(number), Some(simulated)) = (self.simulated, current()) {
            simulated.world.await_end(simulated.number, number);
        }
        self.handle.join()
    }
}

fn spawn_in(world: &Arc<World>, name: String, f: impl FnOnce() + Send + 'static) -> std::io::Result<Thread> {
    if world.refuses() {
        return Err(std::io::Error::new(ErrorKind::WouldBlock, "the simulated system has no thread left"));
    }
    let number = world.add(&name);
    let simulated = Simulated { world: Arc::clone(world), number };
    let body = move || {
        simulated.world.await_baton(number);
        CURRENT.set(Some(simulated.clone()));
        let result = catch_unwind(AssertUnwindSafe(f));
        CURRENT.set(None);
        simulated.world.end(number);
        if let Err(panic) = result {
            resume_unwind(panic);
        }
    };
    match std::thread::Builder::new().name(name).spawn(body) {
        Ok(handle) => Ok(Thread { handle, simulated: Some(number) }),
        Err(error) => {
            world.forget(number);
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{Condvar, Mutex};

    /// Threads that note their turns.
    fn turns(seed: u64) -> Vec<usize> {
        simulate(seed, || {
            let notes = Arc::new(Mutex::new(Vec::new()));
            let threads = [0, 1, 2].map(|number| {
                let notes = Arc::clone(&notes);
                let body = move || {
                    for _ in 0..4 {
                        notes.lock().push(number);
                        interleave();
                    }
                };
                Thread::spawn(format!("turns {number}"), body).unwrap()
            });
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            notes.lock().clone()
        })
        .result
    }

    #[test]
    fn a_seed_gives_one_order_and_seeds_differ() {
        let orders: std::collections::BTreeSet<_> = (0..20).map(turns).collect();
        assert!(orders.len() > 10, "20 seeds gave {} orders", orders.len());
        (0..20).for_each(|seed| assert_eq!(turns(seed), turns(seed)));
    }

    #[test]
    fn time_is_virtual() {
        let hour = Duration::from_secs(3600);
        let simulation = simulate(1, move || {
            let begun = now();
            let other = Thread::spawn("other".to_owned(), move || compute(hour)).unwrap();
            sleep(hour / 2);
            assert_eq!(now() - begun, hour / 2);
            other.join().unwrap();
            now() - begun
        });
        assert_eq!((simulation.result, simulation.elapsed), (hour, hour));
        assert!(!is_simulated());
    }

    #[test]
    fn a_wait_without_an_end_is_reported() {
        let stuck = catch_unwind(|| {
            simulate(7, || {
                let (mutex, never) = (Mutex::new(()), Condvar::new());
                never.wait(&mut mutex.lock());
            })
        });
        let report = *stuck.unwrap_err().downcast::<String>().unwrap();
        assert!(report.contains("seed 7") && report.contains("client"), "{report}");
    }

    #[test]
    fn a_wait_may_time_out() {
        let simulation = simulate(3, || {
            let (mutex, never) = (Mutex::new(()), Condvar::new());
            let until = now() + Duration::from_secs(5);
            never.wait_until(&mut mutex.lock(), until).timed_out()
        });
        assert!(simulation.result);
        assert_eq!(simulation.elapsed, Duration::from_secs(5));
    }
}
