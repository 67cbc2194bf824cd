//! The stage of a box that computes on devices or on slots. It gathers the items that the box takes into blocks, submits some
//! blocks to devices, takes them back, and lets the slots compute the items that no device computes.
//!
//! Invariants: every item that the task takes leaves once, with results of a device or of the slots. If the task is ordered,
//! results leave in the order of their items. The number of blocks that are submitted, or back and not yet sent on, is
//! bounded, and so is the memory of the box.
//!
//! A firing does not wait for a device: it submits the blocks that are ready, and the box fires again when a block is back
//! ([`Blocks::submit`]). The stage copies no block and holds no lock while one is filled: it moves blocks to the feeding
//! threads and back.

mod order;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::{Block, Blocks, Devices};
use boxwork_runtime::operator::{BoxError, Context, Flow, In, Operator, Pushed};

use self::order::{Arrived, Numbered, Order};

/// The size of an item in two units that the task chooses, such as rows and pairs of centroids.
pub(crate) type Weight = [u64; 2];

/// Sizes of a task's blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// A block that reaches either unit is submitted. A smaller one is submitted only if no block is in flight, or if it is the
    /// last.
    pub(crate) block: Weight,
    /// Items that reach neither unit wait for more items; at the end the slots compute them.
    pub(crate) block_min: Weight,
    /// The slots take items until these reach either unit, and at least one, if no device takes blocks.
    pub(crate) slots: Weight,
    /// Submitted blocks for each device: those that its end points hold, and some that wait for an end point.
    pub(crate) blocks_per_device: usize,
}

/// The operator's part of a stage: its blocks, the source of its items, and the way of its results.
pub(crate) trait DeviceTask: Send + Sized + 'static {
    /// A piece of a block, usually an envelope.
    type Item: Send;
    /// The work of a device: its data, its kernels, and the results that it sends back.
    type Block: Block;
    /// A result, usually an envelope.
    type Made: Send;

    /// Whether results leave in the order of their items.
    const IS_ORDERED: bool;

    /// Prepares the parts that all blocks share. The stage calls it once, at the start of the first firing.
    ///
    /// # Errors
    /// An error ends the request.
    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let _ = cx;
        Ok(())
    }

    /// Takes the next item, if there is one. `device` is true if the item is for a block.
    ///
    /// # Errors
    /// An error ends the request.
    fn take(&mut self, cx: &mut Context<'_>, device: bool) -> Result<Option<Taken<Self::Item>>, BoxError>;

    /// Whether no further item comes, unless a block comes back without results.
    fn is_ended(&self, cx: &Context<'_>) -> bool;

    /// Whether the task itself holds items. No envelope at an input fires the box for these, so the stage asks for a further
    /// firing.
    fn has_items(&self) -> bool {
        false
    }

    /// Makes a block, and brings the data that it reads from the disk into memory.
    ///
    /// # Errors
    /// An error ends the request.
    fn block(&mut self, cx: &mut Context<'_>, items: Vec<Self::Item>) -> Result<Self::Block, BoxError>;

    /// The only device that may compute a block, if its data lies on one.
    fn home(&self, block: &Self::Block) -> Option<usize> {
        let _ = block;
        None
    }

    /// Computes on slots while devices compute the block that the stage has just submitted.
    ///
    /// # Errors
    /// An error ends the request.
    fn meanwhile(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let _ = cx;
        Ok(())
    }

    /// Makes results from a block that a device has computed.
    ///
    /// # Errors
    /// An error ends the request.
    fn finish(&mut self, cx: &mut Context<'_>, block: Self::Block) -> Result<BlockOutcome<Self>, BoxError>;

    /// Decides about a block after its device failed; `is_served` says whether any device still takes blocks.
    fn failed(&mut self, block: Self::Block, is_served: bool) -> BlockOutcome<Self>;

    /// Computes some of the items on slots, a few milliseconds' worth, from the front on, and removes them from the queue.
    ///
    /// # Errors
    /// An error ends the request.
    fn compute(
        &mut self,
        cx: &mut Context<'_>,
        left: &mut VecDeque<Self::Item>,
    ) -> Result<Vec<Self::Made>, BoxError>;

    /// Whether the output has room for a result.
    fn has_room(&self, cx: &Context<'_>) -> bool;

    /// Sends a result on.
    ///
    /// # Errors
    /// An error ends the request.
    fn push(&mut self, cx: &mut Context<'_>, made: Self::Made) -> Result<Pushed, BoxError>;
}

/// An item, and the place that computes it. An ordered task mixes pieces with no other items: these would overtake the pieces.
pub(crate) enum Taken<I> {
    /// The stage gathers it with others into a block.
    Piece(I, Weight),
    /// It makes a block by itself.
    Whole(I),
    /// The slots compute it; no device can.
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

/// The outcome of a block, as the task decides it.
pub(crate) enum BlockOutcome<T: DeviceTask> {
    /// The block's results.
    Made(Vec<T::Made>),
    /// The stage submits the block again.
    Retry(T::Block),
    /// The slots compute the block's items.
    Fallback(Vec<T::Item>),
    /// The slots compute the block's items and all later ones: the task does not trust devices any more.
    Untrusted(Vec<T::Item>),
}

/// Counts of the blocks and items of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StageStatistics {
    /// Submissions, including repeated ones.
    pub(crate) submitted: u64,
    /// Blocks that gave results.
    pub(crate) computed: u64,
    /// Repeated submissions.
    pub(crate) again: u64,
    /// Blocks whose items went to the slots.
    pub(crate) failed: u64,
    /// Items that went to the slots.
    pub(crate) left: u64,
}

/// An operator that computes the items of a task on devices or on slots; see the module.
pub(crate) struct DeviceStage<T: DeviceTask> {
    task: T,
    sizes: Sizes,
    has_begun: bool,
    /// None if the slots compute everything.
    blocks: Option<Blocks<Numbered<T::Block>>>,
    blocks_max: usize,
    /// False once a block was [`BlockOutcome::Untrusted`]: the stage uses no results of devices then.
    is_trusted: bool,
    /// The items of the next block.
    gathered: Vec<T::Item>,
    weight: Weight,
    order: Order<T>,
    /// Results that wait for room. The next block becomes results when these have left and `left` is empty.
    made: VecDeque<T::Made>,
    /// The items that the slots compute next.
    left: VecDeque<T::Item>,
    statistics: StageStatistics,
}

/// The items to compute next, and whether a device computes them.
struct Gathered<I> {
    items: Vec<I>,
    device: bool,
}

fn is_enough(weight: Weight, least: Weight) -> bool {
    weight.iter().zip(least).any(|(weight, least)| *weight >= least)
}

impl<T: DeviceTask> DeviceStage<T> {
    /// A stage over those of the devices whose numbers are given. Without devices the slots compute everything.
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

    /// The task, between two firings.
    pub(crate) fn task_mut(&mut self) -> &mut T {
        &mut self.task
    }

    /// Gives the task back when the stage is done.
    pub(crate) fn into_task(self) -> T {
        self.task
    }

    /// Counts of the blocks and items so far.
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

    /// Whether results wait for room, or items for slots. Blocks that are back wait until these have left.
    fn is_leaving(&self) -> bool {
        !self.made.is_empty() || !self.left.is_empty()
    }

    /// Whether the stage holds no item, block or result.
    fn is_empty(&self) -> bool {
        self.gathered.is_empty() && self.in_flight() == 0 && self.order.is_empty() && !self.is_leaving()
    }

    /// Sends results as long as there is room, and makes results from blocks that are back. Returns `Closed` if the consumer
    /// takes no more.
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
            let outcome = match arrived {
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
            match outcome {
                BlockOutcome::Made(made) => {
                    self.statistics.computed += 1;
                    self.order.is_over(number);
                    self.made.extend(made);
                }
                BlockOutcome::Retry(block) => {
                    self.statistics.again += 1;
                    self.submit(cx, number, block);
                }
                BlockOutcome::Fallback(items) => {
                    self.statistics.failed += 1;
                    self.leave(number, items);
                }
                BlockOutcome::Untrusted(items) => {
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

    /// Gathers and submits blocks, up to the limit.
    fn hand_over(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        while self.is_served() {
            // Blocks that wait for an older one, or for room at the output, count too: they also take memory.
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

    /// Takes the items of the next block. None if there are too few for one.
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

    /// Takes the items that the slots compute in this firing, if no device takes blocks.
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
        // Without devices the task itself asks, while it computes, whether the request is cancelled.
        if self.blocks.is_some() && cx.is_cancelled() || self.take_back(cx)? == Pushed::Closed {
            return Ok(Flow::Done);
        }
        self.hand_over(cx)?;
        // `hand_over` may have given items to the slots.
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
