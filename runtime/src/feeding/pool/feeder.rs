//! One feeding thread: what it does next, and what becomes of the blocks that it has in flight.
//!
//! It sleeps until a block waits and one of its lanes is free, or a driver tells it that a lane's commands have ended;
//! such a call only notes that down and wakes it. Drivers may take their time with that (NVIDIA's tells every 20 ms), so
//! a thread that has blocks in flight also looks for itself, soon at first and then ever later. It sleeps in between
//! though it may have a core to itself: where it has not, a thread that slept is let in before those that compute.

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
use super::{Hall, Parcel, Place, State};
use crate::outside::{Computing, Lend};
use crate::panic_message::panic_message;

/// How soon a feeding thread looks for itself whether a block has come back, and how rarely at last: a block takes a
/// tenth of a millisecond or more, and a look a microsecond. In between it waits this part of what it has waited
/// already, so that what it adds to the time of a block is as small a part of it.
const LOOK_PAUSE_MIN: Duration = Duration::from_micros(20);
const LOOK_PAUSE_MAX: Duration = Duration::from_millis(2);
const LOOK_SHARE: u32 = 32;

/// How long a slot stays withheld from the scheduler of blocks in flight after one was fed or came back. A thread that
/// looks for blocks of a millisecond or less needs a core as much as one that gathers, or the device waits for it.
const HOLD: Duration = Duration::from_millis(4);

/// How often it is looked whether a device that was given up has come to an end after all.
const LOST_PAUSE: Duration = Duration::from_millis(100);

/// A block in flight.
struct Flight {
    /// Counted by its feeding thread.
    number: u64,
    parcel: Parcel,
    begun: Instant,
    /// When all its commands were enqueued.
    fed: Instant,
}

/// What a feeding thread does next.
enum Next {
    Collect(Place, i32),
    Feed(Parcel, Place),
    /// The blocks of an end point that do not come back.
    GiveUp(usize),
    /// A look at what was given up.
    Recover,
    End,
}

/// One feeding thread.
pub(super) struct Feeder {
    hall: Arc<Hall>,
    device: Arc<Device>,
    number: usize,
    end_points: Vec<EndPoint>,
    flights: HashMap<Place, Flight>,
    flights_count: u64,
    /// When the last block came back: blocks overlap, and each counts from there.
    last_back: Option<Instant>,
    /// The same by end point.
    heard: Vec<Option<Instant>>,
    limit: Duration,
    /// The slot that is withheld for this thread, and whose it is.
    slot: Option<(usize, Computing)>,
}

impl Feeder {
    pub(super) fn new(hall: Arc<Hall>, device: Arc<Device>, number: usize, limit: Duration) -> Self {
        Self {
            hall,
            device,
            number,
            end_points: Vec::new(),
            flights: HashMap::new(),
            flights_count: 0,
            last_back: None,
            heard: Vec::new(),
            limit,
            slot: None,
        }
    }

    pub(super) fn run(mut self, end_points: usize) {
        for _ in 0..end_points {
            match EndPoint::new(&self.device, self.limit) {
                Ok(end_point) => {
                    self.end_points.push(end_point);
                    self.heard.push(None);
                }
                Err(error) => {
                    self.hall.count_failure(&self.device, &error);
                    if self.end_points.is_empty() {
                        return self.hall.lose_thread(&self.device, &error.to_string());
                    }
                    break;
                }
            }
        }
        debug_assert_eq!(
            self.heard.len(),
            self.end_points.len(),
            "an end point is not watched: a block that hangs there would never be given up"
        );
        loop {
            match self.next() {
                Next::Collect(place, status) => self.collect(place, status),
                Next::Feed(parcel, place) => self.feed(parcel, place),
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

    /// Withholds a slot of a block's scheduler, where it is not held already; gives one of another scheduler back.
    fn hold_slot(&mut self, lender: Option<&Arc<dyn Lend>>) {
        if self.slot.as_ref().map(|(number, _)| *number) != lender.map(|lender| lender.number()) {
            self.slot = None;
            self.slot = lender.and_then(|lender| Some((lender.number(), lender.withhold()?)));
        }
    }

    /// Waits for something to do.
    fn next(&mut self) -> Next {
        if self.flights.is_empty() {
            self.slot = None;
        }
        let hall = Arc::clone(&self.hall);
        let desk = &*hall.desk;
        let mut state = desk.state.lock();
        let begun = Instant::now();
        loop {
            while let Some((place, flight, status)) = state.ended[self.number].pop() {
                // It may have been seen before it was told.
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
                && let Some(at) = self.choose(&state)
                && let Some(parcel) = state.waiting.remove(at)
            {
                return Next::Feed(parcel, place);
            }
            if self.flights.is_empty() {
                if !self.end_points.iter().any(EndPoint::is_lost) {
                    desk.changed.wait(&mut state);
                } else if desk.changed.wait_for(&mut state, LOST_PAUSE).timed_out() {
                    return Next::Recover;
                }
            } else if desk
                .changed
                .wait_for(&mut state, (begun.elapsed() / LOOK_SHARE).clamp(LOOK_PAUSE_MIN, LOOK_PAUSE_MAX))
                .timed_out()
            {
                if let Some((place, status)) = self.look() {
                    return Next::Collect(place, status);
                }
                if begun.elapsed() >= HOLD && self.slot.is_some() {
                    // Not under the lock: the scheduler may have to start a thread for it.
                    MutexGuard::unlocked(&mut state, || self.slot = None);
                }
                if let Some(end_point) = self.overdue() {
                    return Next::GiveUp(end_point);
                }
            }
        }
    }

    /// An end point whose blocks should have come back.
    fn overdue(&mut self) -> Option<usize> {
        let now = Instant::now();
        // The time of a block that waits for another one on the device begins when that one is back.
        let waiting =
            self.flights.values_mut().filter(|flight| flight.parcel.turns.iter().any(Turn::is_waiting));
        waiting.for_each(|flight| flight.fed = now);
        self.flights.iter().find_map(|((end_point, _), flight)| {
            let from = self.heard[*end_point].map_or(flight.fed, |heard| heard.max(flight.fed));
            (now.duration_since(from) >= self.limit).then_some(*end_point)
        })
    }

    /// A lane whose commands have ended, though the driver has not told yet.
    fn look(&self) -> Option<(Place, i32)> {
        self.flights.keys().find_map(|place| Some((*place, self.end_points[place.0].status(place.1)?)))
    }

    /// The first block that waits for this device, if it should take one.
    fn choose(&self, state: &State) -> Option<usize> {
        let at = state.waiting.iter().position(|parcel| parcel.is_ready_for(&self.device))?;
        let parcel = &state.waiting[at];
        let kind = parcel.work.kind();
        let others: Vec<Rate> = self
            .hall
            .devices
            .iter()
            .filter(|device| device.idx() != self.device.idx() && parcel.may_go_to(device))
            .map(|device| state.rates[device.idx()].of(kind))
            .collect();
        let alike = state.waiting.iter().filter(|parcel| parcel.work.kind() == kind);
        let waiting = alike.map(|parcel| parcel.work.size()).sum();
        takes(parcel.work.size(), state.rates[self.device.idx()].of(kind), waiting, &others).then_some(at)
    }

    fn feed(&mut self, mut parcel: Parcel, place: Place) {
        if parcel.turns.iter().any(Turn::is_lost) {
            // The device is not at fault, and the block has nothing to compute with.
            return self.hall.end(parcel, Err(DeviceError::Lost));
        }
        debug_assert!(!self.flights.contains_key(&place), "a lane gets a block while it has one");
        let begun = Instant::now();
        let (desk, number) = (Arc::clone(&self.hall.desk), self.number);
        self.flights_count += 1;
        let flight = self.flights_count;
        let told = Box::new(move |status| {
            desk.state.lock().ended[number].push((place, flight, status));
            desk.changed.notify_all();
        });
        let lender = parcel.work.lender();
        self.hold_slot(lender.as_ref());
        let gatherers = Gatherers { most: self.hall.gatherers, lender };
        let (work, turns) = (&mut parcel.work, &parcel.turns);
        let guarded = |feed: &mut Feed<'_>| {
            catch_unwind(AssertUnwindSafe(|| work.feed(feed)))
                .unwrap_or_else(|cause| Err(DeviceError::Panicked(panic_message(cause.as_ref()))))
        };
        let hall = Arc::clone(&self.hall);
        let on_filled = move || hall.look_again();
        let fed = self.end_points[place.0].feed(place.1, gatherers, guarded, told, (turns, &on_filled));
        // A part that could not be filled is left to the blocks that wait for it.
        if fed.is_err() {
            on_filled();
        }
        let (feed_ns, gathered) =
            (begun.elapsed().as_nanos() as u64, self.end_points[place.0].take_gathered());
        {
            let state = &mut *self.hall.desk.state.lock();
            let of_device = &mut state.statistics[self.device.idx()];
            of_device.feed_ns += feed_ns;
            of_device.gathered_bytes += gathered.bytes;
            of_device.gather_ns += gathered.ns;
        }
        match fed {
            Ok(()) => {
                let last = self.end_points[place.0].last(place.1);
                parcel.turns.iter().for_each(|turn| turn.fed(last));
                if !parcel.turns.is_empty() {
                    self.hall.look_again();
                }
                let flight = Flight { number: flight, parcel, begun, fed: Instant::now() };
                let before = self.flights.insert(place, flight);
                debug_assert!(before.is_none(), "a lane has one block");
                debug_assert!(
                    self.flights.len() <= self.end_points.len() * LANES,
                    "more blocks are in flight than the end points have lanes"
                );
            }
            Err(error) => {
                self.judge(place.0);
                match self.end_points[place.0].take_held_back() {
                    Some(held_back) if error == DeviceError::HeldBack => {
                        self.hall.put_back(parcel, &self.device, held_back);
                    }
                    _ => self.fail(parcel, error),
                }
            }
        }
    }

    fn collect(&mut self, place: Place, status: i32) {
        let Some(Flight { mut parcel, begun, .. }) = self.flights.remove(&place) else {
            unreachable!("a lane's commands ended twice")
        };
        debug_assert!(
            parcel.allowed.contains(&self.device.idx()),
            "a block came back of a device that may not compute it"
        );
        self.hold_slot(parcel.work.lender().as_ref());
        let work = &mut parcel.work;
        let collected = self.end_points[place.0].collect(place.1, status, |back| {
            catch_unwind(AssertUnwindSafe(|| work.collect(back)))
                .map(|()| back.kernel_ns())
                .map_err(|cause| DeviceError::Panicked(panic_message(cause.as_ref())))
        });
        self.heard[place.0] = Some(Instant::now());
        match collected.and_then(|collected| collected) {
            Ok(kernel_ns) => {
                self.device.succeeded();
                let from = self.last_back.map_or(begun, |last| last.max(begun));
                let now = Instant::now();
                self.last_back = Some(now);
                let (size, kind) = (parcel.work.size(), parcel.work.kind());
                {
                    let state = &mut *self.hall.desk.state.lock();
                    let of_device = &mut state.statistics[self.device.idx()];
                    of_device.blocks += 1;
                    of_device.size += size;
                    of_device.kernel_ns += kernel_ns;
                    let seconds = now.duration_since(from).as_secs_f64();
                    state.rates[self.device.idx()].measure(kind, size, seconds);
                }
                self.hall.end(parcel, Ok(()));
            }
            Err(error) => {
                self.judge(place.0);
                self.fail(parcel, error);
            }
        }
    }

    /// The blocks of an end point do not come back: they go elsewhere, and nothing of it is touched any more.
    fn give_up(&mut self, end_point: usize) {
        let places: Vec<Place> = self.flights.keys().filter(|place| place.0 == end_point).copied().collect();
        for (_, lane) in &places {
            self.end_points[end_point].lose(*lane);
        }
        self.judge(end_point);
        for place in places {
            let Some(Flight { mut parcel, .. }) = self.flights.remove(&place) else { continue };
            debug_assert!(
                !parcel.failed.contains(&self.device.idx()),
                "a block was in flight on a device that had failed it"
            );
            self.hall.desk.state.lock().statistics[self.device.idx()].failures += 1;
            parcel.failed.push(self.device.idx());
            parcel.error = Some(self.hung());
            if let Some(parcel) = self.hall.put(parcel, Vec::new()) {
                self.hall.give_up(parcel);
            }
        }
    }

    fn hung(&self) -> DeviceError {
        DeviceError::Hung { seconds: self.limit.as_secs_f64() }
    }

    /// A device of which an end point is lost gets no more blocks.
    fn judge(&self, end_point: usize) {
        if self.end_points[end_point].is_lost() && self.device.retire() {
            let reason = format!("{}; it is computed elsewhere, with the same result", self.hung());
            self.hall.retire(&self.device, &reason);
        }
    }

    /// A block did not work here: it goes to the other devices, or back.
    fn fail(&self, mut parcel: Parcel, error: DeviceError) {
        if error.is_of_device() {
            self.hall.count_failure(&self.device, &error);
            debug_assert!(
                !parcel.failed.contains(&self.device.idx()),
                "a device was given a block once more that it had failed"
            );
            if self.device.failed() {
                self.hall.retire(&self.device, "it has failed too often");
            }
            parcel.failed.push(self.device.idx());
            parcel.error = Some(error);
            if let Some(parcel) = self.hall.put(parcel, Vec::new()) {
                self.hall.give_up(parcel);
            }
        } else {
            self.hall.end(parcel, Err(error));
        }
    }
}
