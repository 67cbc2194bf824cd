//! A box's side of feeding: the blocks that it submits, and the queue in which they return.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::block::Block;
use super::device::Device;
use super::error::DeviceError;
use super::plain::Plain;
use super::pool::{Devices, Work};
use super::resident::Resident;
use crate::outside::{Lend, Outside};

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
    fn block(&self) -> &dyn Block {
        &self.block
    }

    fn block_mut(&mut self) -> &mut dyn Block {
        &mut self.block
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
