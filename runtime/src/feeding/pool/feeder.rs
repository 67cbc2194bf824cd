//! One feeding thread: its choice of the next step, and its blocks in flight.
//!
//! It sleeps until a block waits and one of its lanes is free, or until a driver's callback reports that a lane's
//! commands have ended; the callback only notes this and wakes the thread. Callbacks may be late (NVIDIA's driver calls
//! every 20 ms), so a thread with blocks in flight also polls, at growing intervals. It sleeps in between even if it
//! has a core to itself: on a shared core the system runs a thread that slept before threads that compute.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use super::super::device::Device;
use super::super::end_point::{EndPoint, Feed, LANES};
use super::super::error::DeviceError;
use super::super::gather::Gatherers;
use super::super::resident::Turn;
use super::super::share::{Rate, takes};
use super::{Place, Pool, Queued, State};
use crate::outside::{Computing, Lend};
use crate::panic_message::panic_message;

/// The shortest and the longest pause between two polls: a block takes a tenth of a millisecond or more, and a poll a
/// microsecond. In between, a pause is this fraction of the time waited so far, so polling delays a block by at most
/// that fraction.
const LOOK_PAUSE_MIN: Duration = Duration::from_micros(20);
const LOOK_PAUSE_MAX: Duration = Duration::from_millis(2);
const LOOK_SHARE: u32 = 32;

/// The time for which a slot stays withheld after a block was fed or came back. A thread that polls for blocks of a
/// millisecond or less needs a core as much as a gathering thread, or the device waits for it.
const HOLD: Duration = Duration::from_millis(4);

/// The time between two checks whether the commands of a lost end point have ended.
const LOST_PAUSE: Duration = Duration::from_millis(100);

/// A block in flight.
struct Flight {
    /// Its number at its feeding thread.
    number: u64,
    queued: Queued,
    begun: Instant,
    /// The time at which all its commands were enqueued.
    fed: Instant,
}

/// The next step of a feeding thread.
enum Next {
    Collect(Place, i32),
    Feed(Queued, Place),
    /// Give up the blocks of an end point, which do not come back.
    GiveUp(usize),
    /// Check the lost end points.
    Recover,
    End,
}

/// One feeding thread.
pub(super) struct Feeder {
    pool: Arc<Pool>,
    device: Arc<Device>,
    number: usize,
    end_points: Vec<EndPoint>,
    flights: HashMap<Place, Flight>,
    flights_count: u64,
    /// The time at which the last block came back: blocks overlap, and the time of each begins there.
    last_back: Option<Instant>,
    /// The time at which the last block of each end point came back.
    last_backs: Vec<Option<Instant>>,
    limit: Duration,
    /// The slot that is withheld for this thread, with the number of its scheduler.
    slot: Option<(usize, Computing)>,
}

impl Feeder {
    pub(super) fn new(pool: Arc<Pool>, device: Arc<Device>, number: usize, limit: Duration) -> Self {
        Self {
            pool,
            device,
            number,
            end_points: Vec::new(),
            flights: HashMap::new(),
            flights_count: 0,
            last_back: None,
            last_backs: Vec::new(),
            limit,
            slot: None,
        }
    }

    pub(super) fn run(mut self, end_points: usize) {
        for _ in 0..end_points {
            match EndPoint::new(&self.device, self.limit) {
                Ok(end_point) => {
                    self.end_points.push(end_point);
                    self.last_backs.push(None);
                }
                Err(error) => {
                    self.pool.count_failure(&self.device, &error);
                    if self.end_points.is_empty() {
                        return self.pool.lose_thread(&self.device, &error.to_string());
                    }
                    break;
                }
            }
        }
        debug_assert_eq!(
            self.last_backs.len(),
            self.end_points.len(),
            "an end point has no time of its last block: a block that hangs there would never be given up"
        );
        loop {
            match self.next() {
                Next::Collect(place, status) => self.collect(place, status),
                Next::Feed(queued, place) => self.feed(queued, place),
                Next::GiveUp(end_point) => self.give_up(end_point),
                Next::Recover => self.end_points.iter_mut().for_each(EndPoint::recover),
                Next::End => break,
            }
        }
        debug_assert!(
            self.flights.is_empty(),
            "a feeding thread ends with blocks in flight: they never come back"
        );
        self.end_points.into_iter().for_each(EndPoint::close);
    }

    /// Withholds a slot of a block's scheduler, unless the thread holds one; gives back a slot of another scheduler.
    fn hold_slot(&mut self, lender: Option<&Arc<dyn Lend>>) {
        if self.slot.as_ref().map(|(number, _)| *number) != lender.map(|lender| lender.number()) {
            self.slot = None;
            self.slot = lender.and_then(|lender| Some((lender.number(), lender.withhold()?)));
        }
    }

    /// Waits for the next step.
    fn next(&mut self) -> Next {
        if self.flights.is_empty() {
            self.slot = None;
        }
        let pool = Arc::clone(&self.pool);
        let shared = &*pool.shared;
        let mut state = shared.state.lock();
        let begun = Instant::now();
        loop {
            while let Some((place, flight, status)) = state.ended[self.number].pop() {
                // A poll may have found the flight before its callback came.
                if self.flights.get(&place).is_some_and(|found| found.number == flight) {
                    return Next::Collect(place, status);
                }
            }
            if state.closing && self.flights.is_empty() && state.waiting.is_empty() {
                return Next::End;
            }
            let lane = self.end_points.iter().enumerate();
            let lane = lane.filter_map(|(idx, end_point)| Some((idx, end_point.free_lane()?))).next();
            if let Some(place) = lane
                && let Some(at) = self.choose(&mut state)
                && let Some(queued) = state.waiting.remove(at)
            {
                shared.weigh_again(&mut state);
                return Next::Feed(queued, place);
            }
            if self.flights.is_empty() {
                if !self.end_points.iter().any(EndPoint::is_lost) {
                    shared.changed.wait(&mut state);
                } else if shared.changed.wait_for(&mut state, LOST_PAUSE).timed_out() {
                    return Next::Recover;
                }
            } else if shared
                .changed
                .wait_for(&mut state, (begun.elapsed() / LOOK_SHARE).clamp(LOOK_PAUSE_MIN, LOOK_PAUSE_MAX))
                .timed_out()
            {
                if let Some((place, status)) = self.look() {
                    return Next::Collect(place, status);
                }
                if begun.elapsed() >= HOLD && self.slot.is_some() {
                    // Not under the lock: the scheduler may have to start a thread for this slot.
                    MutexGuard::unlocked(&mut state, || self.slot = None);
                }
                if let Some(end_point) = self.overdue() {
                    return Next::GiveUp(end_point);
                }
            }
        }
    }

    /// An end point whose blocks have exceeded the limit.
    fn overdue(&mut self) -> Option<usize> {
        let now = Instant::now();
        // If a block waits for another one on the device, its time begins when that one has come back.
        let waiting =
            self.flights.values_mut().filter(|flight| flight.queued.turns.iter().any(Turn::is_waiting));
        waiting.for_each(|flight| flight.fed = now);
        self.flights.iter().find_map(|((end_point, _), flight)| {
            let from = self.last_backs[*end_point].map_or(flight.fed, |back| back.max(flight.fed));
            (now.duration_since(from) >= self.limit).then_some(*end_point)
        })
    }

    /// Polls for a lane whose commands have ended.
    fn look(&self) -> Option<(Place, i32)> {
        self.flights.keys().find_map(|place| Some((*place, self.end_points[place.0].status(place.1)?)))
    }

    /// The first block that waits for this device, if it should take one.
    fn choose(&self, state: &mut State) -> Option<usize> {
        let at = state.waiting.iter().position(|queued| queued.is_ready_for(&self.device))?;
        let queued = &state.waiting[at];
        let kind = queued.work.block().kind();
        let others: Vec<Rate> = self
            .pool
            .devices
            .iter()
            .filter(|device| device.idx() != self.device.idx() && queued.may_go_to(device))
            .map(|device| state.rates[device.idx()].of(kind))
            .collect();
        let alike = state.waiting.iter().filter(|queued| queued.work.block().kind() == kind);
        let waiting = alike.map(|queued| queued.work.block().size()).sum();
        let takes =
            takes(queued.work.block().size(), state.rates[self.device.idx()].of(kind), waiting, &others);
        state.has_declined |= !takes;
        takes.then_some(at)
    }

    fn feed(&mut self, mut queued: Queued, place: Place) {
        if queued.turns.iter().any(Turn::is_lost) {
            // The device is not at fault; the block's input is lost.
            return self.pool.end(queued, Err(DeviceError::Lost));
        }
        debug_assert!(!self.flights.contains_key(&place), "a lane gets a block while it has one");
        let begun = Instant::now();
        let (shared, number) = (Arc::clone(&self.pool.shared), self.number);
        self.flights_count += 1;
        let flight = self.flights_count;
        let on_ended = Box::new(move |status| {
            shared.state.lock().ended[number].push((place, flight, status));
            shared.changed.notify_all();
        });
        let lender = queued.work.lender();
        self.hold_slot(lender.as_ref());
        let gatherers = Gatherers { most: self.pool.gatherers, lender };
        let (block, turns) = (queued.work.block_mut(), &queued.turns);
        let guarded = |feed: &mut Feed<'_>| {
            catch_unwind(AssertUnwindSafe(|| block.feed(feed)))
                .unwrap_or_else(|cause| Err(DeviceError::Panicked(panic_message(cause.as_ref()))))
        };
        let pool = Arc::clone(&self.pool);
        let on_filled = move || pool.look_again();
        let fed = self.end_points[place.0].feed(place.1, gatherers, guarded, on_ended, (turns, &on_filled));
        // The blocks that wait for a part may fill it now.
        if fed.is_err() {
            on_filled();
        }
        let (feed_ns, gathered) =
            (begun.elapsed().as_nanos() as u64, self.end_points[place.0].take_gathered());
        {
            let state = &mut *self.pool.shared.state.lock();
            let of_device = &mut state.statistics[self.device.idx()];
            of_device.feed_ns += feed_ns;
            of_device.gathered_bytes += gathered.bytes;
            of_device.gather_ns += gathered.ns;
        }
        match fed {
            Ok(()) => {
                let last = self.end_points[place.0].last(place.1);
                queued.turns.iter().for_each(|turn| turn.fed(last));
                if !queued.turns.is_empty() {
                    self.pool.look_again();
                }
                let flight = Flight { number: flight, queued, begun, fed: Instant::now() };
                let before = self.flights.insert(place, flight);
                debug_assert!(before.is_none(), "a lane has got a second block");
                debug_assert!(
                    self.flights.len() <= self.end_points.len() * LANES,
                    "more blocks are in flight than the end points have lanes"
                );
            }
            Err(error) => {
                self.retire_if_lost(place.0);
                match self.end_points[place.0].take_held_back() {
                    Some(held_back) if error == DeviceError::HeldBack => {
                        self.pool.put_back(queued, &self.device, held_back);
                    }
                    _ => self.fail(queued, error),
                }
            }
        }
    }

    fn collect(&mut self, place: Place, status: i32) {
        let Some(Flight { mut queued, begun, .. }) = self.flights.remove(&place) else {
            unreachable!("a lane's commands ended twice")
        };
        debug_assert!(
            queued.allowed.contains(&self.device.idx()),
            "a block came back from a device that may not compute it"
        );
        self.hold_slot(queued.work.lender().as_ref());
        let block = queued.work.block_mut();
        let collected = self.end_points[place.0].collect(place.1, status, |back| {
            catch_unwind(AssertUnwindSafe(|| block.collect(back)))
                .map(|()| back.kernels().to_vec())
                .map_err(|cause| DeviceError::Panicked(panic_message(cause.as_ref())))
        });
        self.last_backs[place.0] = Some(Instant::now());
        match collected.and_then(|collected| collected) {
            Ok(kernels) => {
                self.device.succeeded();
                let from = self.last_back.map_or(begun, |last| last.max(begun));
                let now = Instant::now();
                self.last_back = Some(now);
                let (size, kind) = (queued.work.block().size(), queued.work.block().kind());
                {
                    let state = &mut *self.pool.shared.state.lock();
                    let of_device = &mut state.statistics[self.device.idx()];
                    of_device.blocks += 1;
                    of_device.size += size;
                    of_device.kernel_ns += kernels.iter().map(|(_, ns)| ns).sum::<u64>();
                    for (name, ns) in kernels {
                        *state.kernels[self.device.idx()].entry(name).or_default() += ns;
                    }
                    let seconds = now.duration_since(from).as_secs_f64();
                    state.rates[self.device.idx()].measure(kind, size, seconds);
                    self.pool.shared.weigh_again(state);
                }
                self.pool.end(queued, Ok(()));
            }
            Err(error) => {
                self.retire_if_lost(place.0);
                self.fail(queued, error);
            }
        }
    }

    /// Gives up an end point whose blocks do not come back. The blocks go to other devices, and the end point's memory
    /// is left as it is.
    fn give_up(&mut self, end_point: usize) {
        let places: Vec<Place> = self.flights.keys().filter(|place| place.0 == end_point).copied().collect();
        for (_, lane) in &places {
            self.end_points[end_point].lose(*lane);
        }
        self.retire_if_lost(end_point);
        for place in places {
            let Some(Flight { mut queued, .. }) = self.flights.remove(&place) else { continue };
            debug_assert!(
                !queued.failed.contains(&self.device.idx()),
                "a block was in flight on a device that had failed it"
            );
            self.pool.shared.state.lock().statistics[self.device.idx()].failures += 1;
            queued.failed.push(self.device.idx());
            queued.error = Some(self.hung());
            if let Some(queued) = self.pool.put(queued, Vec::new()) {
                self.pool.give_up(queued);
            }
        }
    }

    fn hung(&self) -> DeviceError {
        DeviceError::Hung { seconds: self.limit.as_secs_f64() }
    }

    /// Retires the device if an end point of it is lost.
    fn retire_if_lost(&self, end_point: usize) {
        if self.end_points[end_point].is_lost() && self.device.retire() {
            let reason = format!("{}; it is computed elsewhere, with the same result", self.hung());
            self.pool.retire(&self.device, &reason);
        }
    }

    /// A block has failed on this device: it goes to the other devices, or back to its box.
    fn fail(&self, mut queued: Queued, error: DeviceError) {
        if error.is_of_device() {
            self.pool.count_failure(&self.device, &error);
            debug_assert!(
                !queued.failed.contains(&self.device.idx()),
                "a device was given a block once more that it had failed"
            );
            if self.device.failed() {
                self.pool.retire(&self.device, "it has failed too often");
            }
            queued.failed.push(self.device.idx());
            queued.error = Some(error);
            if let Some(queued) = self.pool.put(queued, Vec::new()) {
                self.pool.give_up(queued);
            }
        } else {
            self.pool.end(queued, Err(error));
        }
    }
}
