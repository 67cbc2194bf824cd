//! State that lives on one device between blocks: the centroids of an iteration, a table, a tile of a matrix.
//!
//! A block declares which residents it reads and which it writes ([`Block::residents`](super::Block::residents)). It
//! goes to their device. The blocks that use a resident have the effect of running one after the other, in order of
//! submission. No thread waits for that: a block is fed as soon as the earlier blocks that it depends on are fed, and
//! on the device its commands wait for theirs.
//!
//! Invariants: a command runs after all commands of earlier blocks that conflict with its block (one of the two
//! writes); the memory of a resident counts in the device's budget from its first write until its last handle is
//! dropped, and is never released before; a resident that a block failed to write is lost, and all later blocks that
//! use it come back with [`DeviceError::Lost`](super::DeviceError::Lost), so no block computes with a state that lacks
//! a step.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use parking_lot::Mutex;

use super::device::Device;
use super::memory::Buffer;
use super::object::Object;
use super::plain::Plain;

/// Numbers that live on one device between blocks. Clones are handles of one set of numbers.
///
/// The first block that uses a resident writes it. When its device fails, the resident is lost ([`Resident::is_lost`]):
/// the box begins again with another resident, on another device or on the slots, from numbers that it has read back or
/// knows.
pub struct Resident<T> {
    inner: Arc<Inner>,
    len: usize,
    of: PhantomData<fn() -> T>,
}

/// The use of a resident by a block: to read or to write.
#[derive(Clone)]
pub struct Access {
    inner: Arc<Inner>,
    writes: bool,
}

struct Inner {
    device: Arc<Device>,
    bytes: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Set by the first write.
    buffer: Option<Arc<Buffer>>,
    /// The blocks that have not come back, in order of submission.
    turns: VecDeque<Pending>,
    /// The number of turns so far.
    count: u64,
    lost: bool,
}

/// The turn of a block that has not come back.
struct Pending {
    number: u64,
    writes: bool,
    is_fed: bool,
    /// The last command of the block, once it is fed; none if it has enqueued none.
    last: Option<Arc<Object>>,
}

/// A block's turn with a resident. A turn that is dropped before it has [ended](Turn::end) has failed.
pub(super) struct Turn {
    inner: Arc<Inner>,
    number: u64,
    writes: bool,
    succeeded: bool,
}

impl<T: Plain> Resident<T> {
    pub(super) fn new(device: &Arc<Device>, len: usize) -> Self {
        let (device, bytes) = (Arc::clone(device), len * size_of::<T>());
        Self { inner: Arc::new(Inner { device, bytes, state: Mutex::default() }), len, of: PhantomData }
    }

    /// The number of its device.
    pub fn device(&self) -> usize {
        self.inner.device.idx()
    }

    /// The count of its numbers.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether its content is lost: a block failed to write it, or its device gets no more blocks.
    pub fn is_lost(&self) -> bool {
        self.inner.is_lost()
    }

    /// For a block whose kernels read it.
    pub fn reads(&self) -> Access {
        Access { inner: Arc::clone(&self.inner), writes: false }
    }

    /// For a block whose kernels write it, and may read it.
    pub fn writes(&self) -> Access {
        Access { inner: Arc::clone(&self.inner), writes: true }
    }

    /// Whether both are handles of one resident.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The turn with this resident among a block's turns.
    pub(super) fn turn<'a>(&self, turns: &'a [Turn]) -> Option<&'a Turn> {
        turns.iter().find(|turn| Arc::ptr_eq(&turn.inner, &self.inner))
    }
}

impl<T> Clone for Resident<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), len: self.len, of: PhantomData }
    }
}

impl<T> fmt::Debug for Resident<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = self.inner.device.idx();
        f.debug_struct("Resident").field("device", &device).field("len", &self.len).finish_non_exhaustive()
    }
}

impl Access {
    pub(super) fn device(&self) -> &Arc<Device> {
        &self.inner.device
    }
}

impl Inner {
    fn is_lost(&self) -> bool {
        self.device.is_retired() || self.state.lock().lost
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let State { buffer, lost, .. } = std::mem::take(self.state.get_mut());
        // No block uses it any more. Commands that have not ended may still write to a lost resident.
        if let Some(buffer) = buffer.and_then(Arc::into_inner)
            && !lost
        {
            self.device.memory.give_back(buffer);
        }
    }
}

impl Turn {
    /// The turns of a submitted block: one for each resident, even if the block names it twice. The caller takes the
    /// turns of one block after the other, so that all residents have the blocks in one order.
    pub(super) fn take(accesses: Vec<Access>) -> Vec<Self> {
        let mut turns: Vec<Self> = Vec::with_capacity(accesses.len());
        for Access { inner, writes } in accesses {
            match turns.iter_mut().find(|turn| Arc::ptr_eq(&turn.inner, &inner)) {
                Some(turn) => turn.writes |= writes,
                None => turns.push(Self { inner, number: 0, writes, succeeded: false }),
            }
        }
        for turn in &mut turns {
            let state = &mut *turn.inner.state.lock();
            state.count += 1;
            turn.number = state.count;
            debug_assert!(
                state.turns.back().is_none_or(|last| last.number < turn.number),
                "the turns with a resident are not in the order in which their blocks were submitted"
            );
            let (number, writes) = (turn.number, turn.writes);
            state.turns.push_back(Pending { number, writes, is_fed: false, last: None });
        }
        turns
    }

    /// Earlier turns that must come before this one.
    fn earlier<'s>(&self, state: &'s State) -> impl Iterator<Item = &'s Pending> + use<'s> {
        let (number, writes) = (self.number, self.writes);
        let before = state.turns.iter().take_while(move |pending| pending.number < number);
        before.filter(move |pending| pending.writes || writes)
    }

    /// Whether the blocks that this one depends on are fed, so that this block may be fed.
    pub(super) fn is_next(&self) -> bool {
        self.earlier(&self.inner.state.lock()).all(|pending| pending.is_fed)
    }

    /// Whether blocks that this one depends on have not come back.
    pub(super) fn is_waiting(&self) -> bool {
        self.earlier(&self.inner.state.lock()).next().is_some()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.inner.is_lost()
    }

    pub(super) fn writes(&self) -> bool {
        self.writes
    }

    pub(super) fn bytes(&self) -> usize {
        self.inner.bytes
    }

    /// The commands that this block's commands come after.
    pub(super) fn after(&self) -> Vec<Arc<Object>> {
        let state = self.inner.state.lock();
        debug_assert!(self.earlier(&state).all(|pending| pending.is_fed), "a block is fed before its turn");
        self.earlier(&state).filter_map(|pending| pending.last.clone()).collect()
    }

    /// Its memory, from the first write on.
    pub(super) fn buffer(&self) -> Option<Arc<Buffer>> {
        self.inner.state.lock().buffer.clone()
    }

    /// Sets its memory. The first write has the resident to itself, so no other thread sets it.
    pub(super) fn set_buffer(&self, buffer: Arc<Buffer>) {
        debug_assert!(
            buffer.bytes() >= self.inner.bytes,
            "a resident gets less memory than its numbers need"
        );
        let before = self.inner.state.lock().buffer.replace(buffer);
        debug_assert!(self.writes && before.is_none(), "only the first write sets the memory of a resident");
    }

    /// The block is fed: `last` is its last command.
    pub(super) fn fed(&self, last: Option<&Arc<Object>>) {
        let state = &mut *self.inner.state.lock();
        let pending = state.turns.iter_mut().find(|pending| pending.number == self.number);
        debug_assert!(
            pending.as_ref().is_some_and(|pending| !pending.is_fed),
            "a block was fed twice, or after its turn: blocks that wait for it would read too early"
        );
        if let Some(pending) = pending {
            (pending.is_fed, pending.last) = (true, last.cloned());
        }
    }

    /// The block has come back.
    pub(super) fn end(mut self, succeeded: bool) {
        self.succeeded = succeeded;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let ended = {
            let state = &mut *self.inner.state.lock();
            state.lost |= self.writes && !self.succeeded;
            let at = state.turns.iter().position(|pending| pending.number == self.number);
            at.and_then(|at| state.turns.remove(at))
        };
        debug_assert!(ended.is_some(), "a turn ends once");
    }
}
