//! The buffers of one device: reused from a pool, within a budget; shared buffers stay on the device.
//!
//! A buffer is *anonymous* (one block's), *replicated* (one per end point) or *shared* (one per device). Invariants:
//! the allocated bytes never exceed the budget; a shared buffer that a block in flight reads is never dropped; unused
//! anonymous buffers are dropped first, then the least recently used shared buffers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::driver::{Driver, Handle, Kind, Use};
use super::error::DeviceError;
use super::fill_once::FillOnce;
use super::object::Object;

/// The contents of a shared buffer: a part of a resource, in the form that a space or a kernel needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SharedKey {
    /// The number of the resource; no two live resources have one number.
    pub resource: u64,
    /// The form.
    pub form: u64,
    /// The part of the resource.
    pub part: u64,
}

/// The smallest buffer; all smaller requests get this size.
const BUFFER_BYTES_MIN: usize = 4096;

/// A buffer of a device.
pub(crate) struct Buffer {
    object: Object,
    bytes: usize,
    used: Arc<AtomicU64>,
}

impl Buffer {
    pub(super) fn handle(&self) -> Handle {
        self.object.handle()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let before = self.used.fetch_sub(self.bytes as u64, Ordering::Relaxed);
        debug_assert!(before >= self.bytes as u64, "more memory of a device was released than was allocated");
    }
}

/// A shared buffer, once a thread has filled it.
pub(super) type Shared = FillOnce<Filled>;

/// A shared buffer and the command that fills it. Other queues wait for that command.
pub(super) struct Filled {
    pub(super) buffer: Buffer,
    pub(super) ready: Arc<Object>,
}

/// The memory of one device.
pub(crate) struct Memory {
    budget_bytes: u64,
    used: Arc<AtomicU64>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    free: BTreeMap<usize, Vec<Buffer>>,
    shared: HashMap<SharedKey, (u64, Arc<Shared>)>,
    /// Counts uses; the buffer used last has the greatest number.
    clock: u64,
}

impl Memory {
    pub(super) fn new(budget_bytes: u64) -> Self {
        Self { budget_bytes, used: Arc::default(), state: Mutex::default() }
    }

    pub(super) fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// A buffer of at least this many bytes, from the pool or new.
    pub(super) fn take(
        &self,
        driver: &Arc<dyn Driver>,
        context: Handle,
        bytes: usize,
    ) -> Result<Buffer, DeviceError> {
        let bytes = class_of(bytes);
        if let Some(buffer) = self.state.lock().free.get_mut(&bytes).and_then(Vec::pop) {
            debug_assert_eq!(buffer.bytes, bytes, "the pool lists a buffer under a wrong size");
            return Ok(buffer);
        }
        self.reserve(bytes as u64)?;
        debug_assert!(
            self.used.load(Ordering::Relaxed) <= self.budget_bytes,
            "more memory of a device is allocated than its budget allows"
        );
        // Counted from here on until it is dropped.
        let own = || Object::own(driver, Kind::Buffer, |driver| driver.buffer(context, bytes, Use::Device));
        let object = match own() {
            Err(error) if error.is_out_of_memory() && self.free_some(u64::MAX) => own(),
            made => made,
        };
        match object {
            Ok(object) => Ok(Buffer { object, bytes, used: Arc::clone(&self.used) }),
            Err(error) => {
                let before = self.used.fetch_sub(bytes as u64, Ordering::Relaxed);
                debug_assert!(before >= bytes as u64, "memory is given back that was not counted");
                Err(error.into())
            }
        }
    }

    /// Keeps a buffer for the next block that needs its size. No command uses it any more.
    pub(super) fn give_back(&self, buffer: Buffer) {
        debug_assert_eq!(class_of(buffer.bytes), buffer.bytes, "a buffer has a size that no block asks for");
        self.state.lock().free.entry(buffer.bytes).or_default().push(buffer);
    }

    /// The shared buffer of a key, which may be empty. It stays while a block holds it.
    pub(super) fn shared(&self, key: SharedKey) -> Arc<Shared> {
        let state = &mut *self.state.lock();
        state.clock += 1;
        let (used, shared) = state.shared.entry(key).or_default();
        *used = state.clock;
        Arc::clone(shared)
    }

    /// Drops the place of a key that could not be filled.
    pub(super) fn forget(&self, key: SharedKey) {
        let state = &mut *self.state.lock();
        if state.shared.get(&key).is_some_and(|(_, shared)| !shared.is_filled()) {
            state.shared.remove(&key);
        }
    }

    /// Whether the device has a part.
    pub(super) fn holds(&self, key: SharedKey) -> bool {
        let shared = self.state.lock().shared.get(&key).map(|(_, shared)| Arc::clone(shared));
        shared.is_some_and(|shared| shared.is_filled())
    }

    /// Counts an allocation before it is made; makes room first if there is none.
    fn reserve(&self, bytes: u64) -> Result<(), DeviceError> {
        loop {
            let used = self.used.load(Ordering::Relaxed);
            let wanted = used.saturating_add(bytes);
            if wanted <= self.budget_bytes {
                if self.used.compare_exchange(used, wanted, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                    return Ok(());
                }
            } else if !self.free_some(wanted - self.budget_bytes) {
                let (used_bytes, budget_bytes) = (used, self.budget_bytes);
                return Err(DeviceError::Memory { wanted_bytes: bytes, used_bytes, budget_bytes });
            }
        }
    }

    /// Drops the buffers needed least until this many bytes are free. False when there was nothing to drop.
    fn free_some(&self, bytes: u64) -> bool {
        let mut dropped = Vec::new();
        let mut dropped_bytes = 0;
        let mut emptied = Vec::new();
        {
            let state = &mut *self.state.lock();
            while dropped_bytes < bytes
                && let Some(mut largest) = state.free.last_entry()
            {
                if let Some(buffer) = largest.get_mut().pop() {
                    dropped_bytes += buffer.bytes as u64;
                    dropped.push(buffer);
                } else {
                    largest.remove();
                }
            }
            // Only the table holds it: no thread can reach it while the table is locked.
            let mut unused: Vec<(u64, SharedKey)> = state
                .shared
                .iter()
                .filter(|(_, (_, shared))| Arc::strong_count(shared) == 1)
                .map(|(key, (used, _))| (*used, *key))
                .collect();
            unused.sort_unstable_by_key(|(used, _)| *used);
            for (_, key) in unused {
                if dropped_bytes >= bytes {
                    break;
                }
                if let Some((_, shared)) = state.shared.remove(&key) {
                    debug_assert_eq!(
                        Arc::strong_count(&shared),
                        1,
                        "a shared buffer makes room that a block in flight reads"
                    );
                    dropped_bytes += shared.with(|filled| filled.buffer.bytes as u64).unwrap_or(0);
                    emptied.push(shared);
                }
            }
        }
        // Without the lock: a driver may take long.
        drop(dropped);
        drop(emptied);
        dropped_bytes > 0
    }
}

/// The size class of a buffer: eight classes between a power of two and the next, so that little is wasted and many
/// buffers are reused.
fn class_of(bytes: usize) -> usize {
    let bytes = bytes.max(BUFFER_BYTES_MIN);
    let class = bytes.next_multiple_of((bytes.next_power_of_two() / 16).max(1));
    debug_assert!(
        class <= bytes + bytes / 8,
        "a size is rounded up by more than an eighth: memory is wasted"
    );
    class
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_wastes_an_eighth_at_most() {
        for bytes in [0, 1, 4096, 4097, 5000, 65_535, 65_536, 1_000_000, (1 << 30) + 1] {
            let class = class_of(bytes);
            assert!(class >= bytes && class <= bytes.max(BUFFER_BYTES_MIN) * 9 / 8 + 1, "{bytes}: {class}");
            assert_eq!(class_of(class), class);
        }
    }
}
