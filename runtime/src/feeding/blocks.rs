//! A box's side of feeding: the blocks that it submits, and the queue in which they return.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::device::Device;
use super::end_point::{Back, Feed};
use super::error::DeviceError;
use super::plain::Plain;
use super::pool::{Devices, Work};
use super::resident::{Access, Resident};
use crate::outside::{Lend, Outside};

/// A piece of work for a device. Its methods run on feeding threads.
pub trait Block: Send + 'static {
    /// The amount of work, in a unit of the operator's own. Devices' speeds are measured in it.
    fn size(&self) -> u64;

    /// The kind of work. A device's speed is measured for each kind separately: a million bounds are not a million
    /// distances. It is read again when the block has come back: a block whose kind has changed, because it had to
    /// bring data first, does not count for its old kind.
    fn kind(&self) -> &'static str {
        ""
    }

    /// The residents that it uses: it goes to their device, after the blocks submitted before it that it depends on.
    fn residents(&self) -> Vec<Access> {
        Vec::new()
    }

    /// Gathers the data and enqueues the commands. Called again for another device when one has failed.
    ///
    /// # Errors
    /// Pass on those of the [`Feed`]; return [`DeviceError::Block`] if the data cannot be had.
    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError>;

    /// Takes the results, once all commands have ended.
    fn collect(&mut self, back: &Back<'_>);
}

type Returned<B> = Arc<Mutex<VecDeque<(B, Result<(), DeviceError>)>>>;

/// The blocks of one box.
pub struct Blocks<B> {
    devices: Arc<Devices>,
    /// The devices that may compute them, by number.
    allowed: Arc<[usize]>,
    returned: Returned<B>,
    in_flight: usize,
}

impl<B: Block> Blocks<B> {
    /// For a box whose blocks these devices may compute.
    pub fn new(devices: Arc<Devices>, allowed: impl Into<Arc<[usize]>>) -> Self {
        let allowed = allowed.into();
        debug_assert!(
            allowed.iter().all(|idx| *idx < devices.list().len()),
            "a box is to compute on a device that is not there"
        );
        Self { devices, allowed, returned: Arc::default(), in_flight: 0 }
    }

    /// The devices.
    pub fn devices(&self) -> &Arc<Devices> {
        &self.devices
    }

    /// The numbers of the devices that may compute the blocks.
    pub fn allowed(&self) -> &Arc<[usize]> {
        &self.allowed
    }

    /// Numbers that live on one of the devices between blocks. They take memory once a block writes them.
    ///
    /// # Panics
    /// When the device may not compute the blocks.
    pub fn resident<T: Plain>(&self, device: usize, len: usize) -> Resident<T> {
        assert!(self.allowed.contains(&device), "device {device} may not compute the blocks");
        Resident::new(&self.devices.list()[device], len)
    }

    /// The device with the most memory left among those that take blocks: a home for residents.
    pub fn roomiest(&self) -> Option<usize> {
        let of = |idx: &usize| self.devices.list().get(*idx).filter(|device| !device.is_retired());
        let left = |device: &Device| device.memory_budget_bytes().saturating_sub(device.memory_used_bytes());
        let served = self.allowed.iter().filter_map(of).map(|device| (left(device), device.idx()));
        served.max_by_key(|(left, idx)| (*left, std::cmp::Reverse(*idx))).map(|(_, idx)| idx)
    }

    /// Submits a block. `outside` keeps the request alive, and the box is fired again when the block has come back. A
    /// block that uses residents goes to their device.
    ///
    /// # Panics
    /// When its residents are not all on one of the devices that may compute the blocks.
    pub fn submit(&mut self, block: B, outside: Outside) {
        debug_assert!(
            self.returned.lock().len() <= self.in_flight,
            "more blocks have come back than the box has submitted"
        );
        self.in_flight += 1;
        let work = Submitted { block, returned: Arc::clone(&self.returned), outside };
        self.devices.submit(Box::new(work), Arc::clone(&self.allowed));
    }

    /// [`Blocks::submit`] to one of the devices only, where the data of the block lie.
    ///
    /// # Panics
    /// When the device may not compute the blocks.
    pub fn submit_to(&mut self, block: B, device: usize, outside: Outside) {
        assert!(self.allowed.contains(&device), "device {device} may not compute the blocks");
        self.in_flight += 1;
        let work = Submitted { block, returned: Arc::clone(&self.returned), outside };
        self.devices.submit(Box::new(work), Arc::new([device]));
    }

    /// The next block that has come back, in order of return.
    ///
    /// A block that came back with an error has no results; its box computes it in another way.
    pub fn take(&mut self) -> Option<(B, Result<(), DeviceError>)> {
        let back = self.returned.lock().pop_front()?;
        debug_assert!(
            self.in_flight > 0,
            "a block came back that the box had not submitted, or came back twice"
        );
        self.in_flight -= 1;
        Some(back)
    }

    /// Blocks that were submitted and not taken back.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether any of the devices still takes blocks.
    pub fn is_served(&self) -> bool {
        self.allowed
            .iter()
            .any(|idx| self.devices.list().get(*idx).is_some_and(|device| !device.is_retired()))
    }
}

/// A submitted block, and the queue in which it returns.
struct Submitted<B> {
    block: B,
    returned: Returned<B>,
    outside: Outside,
}

impl<B: Block> Work for Submitted<B> {
    fn size(&self) -> u64 {
        self.block.size()
    }

    fn kind(&self) -> &'static str {
        self.block.kind()
    }

    fn residents(&self) -> Vec<Access> {
        self.block.residents()
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        self.block.feed(feed)
    }

    fn collect(&mut self, back: &Back<'_>) {
        self.block.collect(back);
    }

    fn lender(&self) -> Option<Arc<dyn Lend>> {
        self.outside.lender()
    }

    fn end(self: Box<Self>, result: Result<(), DeviceError>) {
        let Self { block, returned, outside } = *self;
        returned.lock().push_back((block, result));
        // After the block is in the queue: this drop has the box fired.
        drop(outside);
    }
}
