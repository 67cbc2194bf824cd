//! The stage of a box that computes on devices or on slots: it gathers what the box takes into blocks, keeps some of them
//! on their way to devices, takes them back, and has the slots compute what no device does.
//!
//! Invariants: every item that is taken leaves once, with the results of a device or of the slots; where a task is ordered,
//! results leave in the order in which their items were taken. So many blocks are on their way, or back and not yet
//! gone, and no more: the memory of a box is bounded.
//!
//! Nothing waits here. A firing submits what is ready, and the box fires again when a block is back ([`Blocks::submit`]).
//! The stage copies nothing and holds no lock while a block is filled: a block is moved to the feeding threads and back.

mod order;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::{Block, Blocks, Devices};
use boxwork_runtime::operator::{BoxError, Context, Flow, In, Operator, Pushed};

use self::order::{Arrived, Numbered, Order};

/// How much of a block an item is, in two units of the task's own (rows and pairs of centroids, say).
pub(crate) type Weight = [u64; 2];

/// How a task's items are cut into blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// A block that has as much of either unit is worth the way to a device. Less goes there too while the devices are idle,
    /// and at the end.
    pub(crate) block: Weight,
    /// Items that have less of both units wait for more, and at the end the slots compute them.
    pub(crate) block_min: Weight,
    /// So much the slots take at once where there is no device; at least one item.
    pub(crate) slots: Weight,
    /// Blocks of the box under way, for each device: what its end points hold, and some that wait for them.
    pub(crate) blocks_per_device: usize,
}

/// The part of an operator that the stage leaves to it: its blocks, and where items come from and results go.
pub(crate) trait DeviceTask: Send + Sized + 'static {
    /// A piece of a block; mostly an envelope.
    type Item: Send;
    /// The work of a device: its data, its kernels, and the results that it sends back.
    type Block: Block;
    /// A result; mostly an envelope.
    type Made: Send;

    /// Whether results leave in the order of their items.
    const IS_ORDERED: bool;

    /// Prepares what all blocks have in common; called in the first firing, before anything else.
    ///
    /// # Errors
    /// An error ends the request.
    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let _ = cx;
        Ok(())
    }

    /// The next item, where there is one; `device` says that it is for a block.
    ///
    /// # Errors
    /// An error ends the request.
    fn take(&mut self, cx: &mut Context<'_>, device: bool) -> Result<Option<Taken<Self::Item>>, BoxError>;

    /// Whether there will be no further item, unless a block comes back without results.
    fn is_ended(&self, cx: &Context<'_>) -> bool;

    /// Whether it has items that wait at none of its inputs any more, so that it is to be fired again for them.
    fn has_items(&self) -> bool {
        false
    }

    /// Makes a block, and brings what it reads from disk into memory.
    ///
    /// # Errors
    /// An error ends the request.
    fn block(&mut self, cx: &mut Context<'_>, items: Vec<Self::Item>) -> Result<Self::Block, BoxError>;

    /// The only device that a block may go to, where what it needs lies on one.
    fn home(&self, block: &Self::Block) -> Option<usize> {
        let _ = block;
        None
    }

    /// Does on slots what can be done while devices compute the block that was just submitted.
    ///
    /// # Errors
    /// An error ends the request.
    fn meanwhile(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let _ = cx;
        Ok(())
    }

    /// Makes results of a block that a device has computed.
    ///
    /// # Errors
    /// An error ends the request.
    fn finish(&mut self, cx: &mut Context<'_>, block: Self::Block) -> Result<Came<Self>, BoxError>;

    /// Decides about a block that a device failed at; `is_served` says whether any device still takes blocks.
    fn failed(&mut self, block: Self::Block, is_served: bool) -> Came<Self>;

    /// Computes on slots some of what is left for them, from the front on: some milliseconds' worth, as it is one firing. What
    /// it has computed it removes.
    ///
    /// # Errors
    /// An error ends the request.
    fn compute(
        &mut self,
        cx: &mut Context<'_>,
        left: &mut VecDeque<Self::Item>,
    ) -> Result<Vec<Self::Made>, BoxError>;

    /// Whether a result may leave.
    fn has_room(&self, cx: &Context<'_>) -> bool;

    /// Sends a result on.
    ///
    /// # Errors
    /// An error ends the request.
    fn push(&mut self, cx: &mut Context<'_>, made: Self::Made) -> Result<Pushed, BoxError>;
}

/// An item, and how it is to be computed. Pieces of an ordered task are not mixed with other items: these would overtake them.
pub(crate) enum Taken<I> {
    /// It is gathered with others into a block.
    Piece(I, Weight),
    /// It is a block by itself.
    Whole(I),
    /// The slots are to compute it, as no device does.
    ForSlots(I),
}

impl Taken<Envelope> {
    /// The next envelope of an input, as a piece of this weight.
    pub(crate) fn next(
        cx: &mut Context<'_>,
        input: In,
        weight: impl FnOnce(&Envelope) -> Weight,
    ) -> Option<Self> {
        let envelope = cx.take(input)?;
        let weight = weight(&envelope);
        Some(Self::Piece(envelope, weight))
    }
}

/// The outcome of a block.
pub(crate) enum Came<T: DeviceTask> {
    /// Its results.
    Made(Vec<T::Made>),
    /// It is to be submitted again.
    Again(T::Block),
    /// Its items, for the slots.
    Left(Vec<T::Item>),
    /// Its items, for the slots, as is all that comes later: results of devices are used no more.
    Wrong(Vec<T::Item>),
}

/// Counts of the blocks and items of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StageStatistics {
    /// Blocks that were submitted, each as often as it was.
    pub(crate) submitted: u64,
    /// Blocks whose results leave.
    pub(crate) computed: u64,
    /// Blocks that were submitted again.
    pub(crate) again: u64,
    /// Blocks whose items went to the slots.
    pub(crate) failed: u64,
    /// Items that went to the slots.
    pub(crate) left: u64,
}

/// See the module.
pub(crate) struct DeviceStage<T: DeviceTask> {
    task: T,
    sizes: Sizes,
    has_begun: bool,
    /// Nothing where the slots compute everything.
    blocks: Option<Blocks<Numbered<T::Block>>>,
    blocks_max: usize,
    /// Whether results of devices are used.
    is_trusted: bool,
    /// The items of the next block.
    gathered: Vec<T::Item>,
    weight: Weight,
    order: Order<T>,
    /// Results on their way out. The next block becomes results when these have left and `left` is empty.
    made: VecDeque<T::Made>,
    /// The items that the slots compute next.
    left: VecDeque<T::Item>,
    statistics: StageStatistics,
}

/// The items to compute next, and whether a device does.
struct Gathered<I> {
    items: Vec<I>,
    device: bool,
}

fn is_enough(weight: Weight, least: Weight) -> bool {
    weight.iter().zip(least).any(|(weight, least)| *weight >= least)
}

impl<T: DeviceTask> DeviceStage<T> {
    /// A stage over these devices and the numbers of those to use; over the slots alone without any.
    pub(crate) fn new(task: T, sizes: Sizes, devices: Option<(Arc<Devices>, Arc<[usize]>)>) -> Self {
        Self {
            task,
            sizes,
            has_begun: false,
            blocks_max: devices.as_ref().map_or(0, |(_, allowed)| sizes.blocks_per_device * allowed.len()),
            blocks: devices.map(|(devices, allowed)| Blocks::new(devices, allowed)),
            is_trusted: true,
            gathered: Vec::new(),
            weight: [0; 2],
            order: Order::default(),
            made: VecDeque::new(),
            left: VecDeque::new(),
            statistics: StageStatistics::default(),
        }
    }

    /// Its task, when it is done.
    pub(crate) fn into_task(self) -> T {
        self.task
    }

    /// Counts of its blocks and items.
    #[cfg(test)]
    pub(crate) fn statistics(&self) -> StageStatistics {
        self.statistics
    }

    /// Whether any device takes blocks.
    fn is_served(&self) -> bool {
        self.is_trusted && self.blocks.as_ref().is_some_and(Blocks::is_served)
    }

    fn in_flight(&self) -> usize {
        self.blocks.as_ref().map_or(0, Blocks::in_flight)
    }

    /// Whether results wait for room, or items for slots: what has come back waits behind them.
    fn is_leaving(&self) -> bool {
        !self.made.is_empty() || !self.left.is_empty()
    }

    /// Whether nothing is gathered, on its way or leaving.
    fn is_empty(&self) -> bool {
        self.gathered.is_empty() && self.in_flight() == 0 && self.order.is_empty() && !self.is_leaving()
    }

    /// Sends on what there is room for, and makes results of what has come back. `Closed` where no consumer takes more.
    fn take_back(&mut self, cx: &mut Context<'_>) -> Result<Pushed, BoxError> {
        loop {
            while !self.made.is_empty() && self.task.has_room(cx) {
                let Some(made) = self.made.pop_front() else { break };
                if self.task.push(cx, made)? == Pushed::Closed {
                    return Ok(Pushed::Closed);
                }
            }
            if self.is_leaving() {
                return Ok(Pushed::Sent);
            }
            let Some((number, arrived)) = self.order.next(self.blocks.as_mut()) else {
                return Ok(Pushed::Sent);
            };
            let came = match arrived {
                Arrived::Items(items) => {
                    self.leave(number, items);
                    continue;
                }
                Arrived::Block(block, Ok(())) if self.is_trusted => self.task.finish(cx, block)?,
                Arrived::Block(block, Ok(())) => self.task.failed(block, false),
                Arrived::Block(block, Err(error)) if error.is_of_device() => {
                    let is_served = self.is_served();
                    self.task.failed(block, is_served)
                }
                Arrived::Block(_, Err(error)) => return Err(error.into()),
            };
            match came {
                Came::Made(made) => {
                    self.statistics.computed += 1;
                    self.order.is_over(number);
                    self.made.extend(made);
                }
                Came::Again(block) => {
                    self.statistics.again += 1;
                    self.submit(cx, number, block);
                }
                Came::Left(items) => {
                    self.statistics.failed += 1;
                    self.leave(number, items);
                }
                Came::Wrong(items) => {
                    self.statistics.failed += 1;
                    self.is_trusted = false;
                    self.leave(number, items);
                }
            }
        }
    }

    fn leave(&mut self, number: u64, items: Vec<T::Item>) {
        self.order.is_over(number);
        self.statistics.left += items.len() as u64;
        self.left.extend(items);
    }

    fn submit(&mut self, cx: &mut Context<'_>, number: u64, block: T::Block) {
        let Some(blocks) = &mut self.blocks else { unreachable!("a block without devices") };
        self.statistics.submitted += 1;
        let home = self.task.home(&block);
        let block = Numbered { number, block };
        match home {
            Some(device) => blocks.submit_to(block, device, cx.outside()),
            None => blocks.submit(block, cx.outside()),
        }
    }

    /// Submits what is worth it, as far as devices take blocks.
    fn hand_over(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        while self.is_served() {
            // Blocks that wait for an older one, or for room behind the box, are kept few as well.
            let under_way = self.in_flight() + self.order.waiting() + usize::from(self.is_leaving());
            if under_way >= self.blocks_max {
                return Ok(());
            }
            let Some(Gathered { items, device }) = self.gather(cx)? else { return Ok(()) };
            let number = self.order.number();
            if device {
                let block = self.task.block(cx, items)?;
                self.submit(cx, number, block);
                self.task.meanwhile(cx)?;
            } else {
                self.order.keep(number, items);
            }
        }
        if !self.gathered.is_empty() {
            let (number, items) = (self.order.number(), std::mem::take(&mut self.gathered));
            self.weight = [0; 2];
            self.order.keep(number, items);
        }
        Ok(())
    }

    /// The items of the next block, if they are enough for one.
    fn gather(&mut self, cx: &mut Context<'_>) -> Result<Option<Gathered<T::Item>>, BoxError> {
        while !is_enough(self.weight, self.sizes.block) {
            let (item, device) = match self.task.take(cx, true)? {
                None => break,
                Some(Taken::Piece(item, weight)) => {
                    self.gathered.push(item);
                    self.weight.iter_mut().zip(weight).for_each(|(sum, weight)| *sum += weight);
                    continue;
                }
                Some(Taken::Whole(item)) => (item, true),
                Some(Taken::ForSlots(item)) => (item, false),
            };
            debug_assert!(!T::IS_ORDERED || self.gathered.is_empty(), "an item overtakes older ones");
            return Ok(Some(Gathered { items: vec![item], device }));
        }
        if self.gathered.is_empty() {
            return Ok(None);
        }
        let device = is_enough(self.weight, self.sizes.block_min);
        let is_urgent = device && self.in_flight() == 0 || self.task.is_ended(cx);
        if !is_urgent && !is_enough(self.weight, self.sizes.block) {
            return Ok(None);
        }
        self.weight = [0; 2];
        Ok(Some(Gathered { items: std::mem::take(&mut self.gathered), device }))
    }

    /// Takes what the slots compute in a firing, where no device does.
    fn take_for_slots(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let mut sum = [0; 2];
        while let Some(taken) = self.task.take(cx, false)? {
            let (item, weight) = match taken {
                Taken::Piece(item, weight) => (item, weight),
                Taken::Whole(item) | Taken::ForSlots(item) => (item, self.sizes.slots),
            };
            sum.iter_mut().zip(weight).for_each(|(sum, weight)| *sum += weight);
            self.statistics.left += 1;
            self.left.push_back(item);
            if is_enough(sum, self.sizes.slots) {
                break;
            }
        }
        Ok(())
    }
}

impl<T: DeviceTask> Operator for DeviceStage<T> {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.task.begin(cx)?;
        }
        // Without devices the task hears of it while it computes.
        if self.blocks.is_some() && cx.is_cancelled() || self.take_back(cx)? == Pushed::Closed {
            return Ok(Flow::Done);
        }
        self.hand_over(cx)?;
        // What was gathered may have gone to the slots.
        if !self.is_leaving() && self.take_back(cx)? == Pushed::Closed {
            return Ok(Flow::Done);
        }
        if !self.is_served() && self.is_empty() {
            self.take_for_slots(cx)?;
        }
        if self.made.is_empty() && !self.left.is_empty() {
            let made = self.task.compute(cx, &mut self.left)?;
            let is_fruitless = made.is_empty();
            self.made.extend(made);
            if cx.is_cancelled() || self.take_back(cx)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
            if is_fruitless || self.made.is_empty() && !self.left.is_empty() {
                return Ok(Flow::More);
            }
        }
        if !self.is_empty() {
            return Ok(Flow::Wait);
        }
        if self.task.has_items() {
            return Ok(Flow::More);
        }
        if !self.task.is_ended(cx) {
            return Ok(Flow::Wait);
        }
        let StageStatistics { submitted, computed, again, failed, .. } = self.statistics;
        debug_assert_eq!(submitted, computed + again + failed, "each block came back once");
        Ok(Flow::Done)
    }
}
