//! The order of a stage's blocks.

use std::collections::BTreeMap;

use boxwork_runtime::feeding::{Access, Back, Block, Blocks, DeviceError, Feed};

use super::DeviceTask;

/// A block and its place in the order.
pub(super) struct Numbered<B> {
    pub(super) number: u64,
    pub(super) block: B,
}

impl<B: Block> Block for Numbered<B> {
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
}

/// A block that is back from a device, or items that went to none.
pub(super) enum Arrived<T: DeviceTask> {
    Block(T::Block, Result<(), DeviceError>),
    Items(Vec<T::Item>),
}

/// Numbers for blocks, and the blocks that are back and wait for older ones.
pub(super) struct Order<T: DeviceTask> {
    number_next: u64,
    /// Number of the oldest block that is not over.
    oldest: u64,
    back: BTreeMap<u64, Arrived<T>>,
}

impl<T: DeviceTask> Default for Order<T> {
    fn default() -> Self {
        Self { number_next: 0, oldest: 0, back: BTreeMap::new() }
    }
}

impl<T: DeviceTask> Order<T> {
    /// A number for the next block.
    pub(super) fn number(&mut self) -> u64 {
        self.number_next += 1;
        self.number_next - 1
    }

    /// Keeps items that go to no device until all older blocks are over.
    pub(super) fn keep(&mut self, number: u64, items: Vec<T::Item>) {
        let before = self.back.insert(number, Arrived::Items(items));
        debug_assert!(before.is_none(), "two blocks of one number");
    }

    /// Number of blocks that are back and wait for older ones.
    pub(super) fn waiting(&self) -> usize {
        self.back.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.back.is_empty()
    }

    /// Takes the next block that is back, with its number. If the task is not ordered, any block that is back is next.
    pub(super) fn next(
        &mut self,
        blocks: Option<&mut Blocks<Numbered<T::Block>>>,
    ) -> Option<(u64, Arrived<T>)> {
        if !T::IS_ORDERED {
            let come = |(Numbered { number, block }, result)| (number, Arrived::Block(block, result));
            return self.back.pop_first().or_else(|| blocks?.take().map(come));
        }
        if let Some(blocks) = blocks {
            while let Some((Numbered { number, block }, result)) = blocks.take() {
                debug_assert!((self.oldest..self.number_next).contains(&number), "a block is back twice");
                self.back.insert(number, Arrived::Block(block, result));
            }
        }
        self.back.remove(&self.oldest).map(|arrived| (self.oldest, arrived))
    }

    /// Ends a block, with results or without: the next one may leave.
    pub(super) fn is_over(&mut self, number: u64) {
        debug_assert!(
            !T::IS_ORDERED || number == self.oldest,
            "block {number} leaves before {}",
            self.oldest
        );
        self.oldest = number + 1;
    }
}
