//! Pinned host memory that one device copies from directly, kept from block to block: for parts that do not fit on it.
//!
//! Gathering costs the host one copy for each copy to the device, and eight cores gather slower than the device
//! receives. A part that is read repeatedly is gathered once, into memory that the driver has pinned, and sent from
//! there. Invariants: the devices of an owner never pin more than their common budget; a part that a command may read
//! is never dropped; a pinned part never makes room for another part of its resource, because a scan with too little
//! room would then drop each part just before it reads it.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::driver::DeviceClass;
use super::fill_once::{Fill, FillOnce};
use super::memory::SharedKey;
use super::staging::{Region, Staging};

/// Keys remembered after a first request: those of eight terabytes in parts of 128 MiB.
const ONCE_MAX: usize = 1 << 16;

/// The bytes that the devices of one owner may pin together.
#[derive(Debug)]
pub(super) struct PinBudget {
    given: Option<u64>,
    /// Set at the first use.
    most: OnceLock<u64>,
    used: AtomicU64,
}

impl PinBudget {
    /// A budget of these bytes, or of half of the memory that is available at the first use.
    pub(super) fn new(given: Option<u64>) -> Arc<Self> {
        Arc::new(Self { given, most: OnceLock::new(), used: AtomicU64::new(0) })
    }

    fn reserve(&self, bytes: u64) -> bool {
        let usual = || memory_available().unwrap_or(0) / 2;
        let most = *self.most.get_or_init(|| self.given.unwrap_or_else(usual));
        let more = |used: u64| used.checked_add(bytes).filter(|wanted| *wanted <= most);
        self.used.try_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    #[cfg(test)]
    fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// The host's memory in bytes that is not in use, according to the system and to the control group of the process; nothing if
/// neither says.
pub fn memory_available() -> Option<u64> {
    let read = |path| std::fs::read_to_string(path).ok();
    let available = read("/proc/meminfo").and_then(|text| available_of(&text));
    let number = |path| read(path).and_then(|text| text.trim().parse::<u64>().ok());
    let most = number("/sys/fs/cgroup/memory.max");
    let used = || number("/sys/fs/cgroup/memory.current").unwrap_or(0);
    [available, most.map(|most| most.saturating_sub(used()))].into_iter().flatten().min()
}

/// The available memory in a `/proc/meminfo`.
fn available_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// A part of a resource, in pinned memory once a thread has filled it.
pub(super) struct PinnedPart {
    pub(super) memory: FillOnce<(Staging, Region)>,
    bytes: u64,
    budget: Arc<PinBudget>,
}

impl Fill for PinnedPart {
    type Value = (Staging, Region);

    fn place(&self) -> &FillOnce<Self::Value> {
        &self.memory
    }
}

impl Drop for PinnedPart {
    fn drop(&mut self) {
        let before = self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
        debug_assert!(before >= self.bytes, "more pinned memory was released than was reserved");
    }
}

/// The memory pinned for one device.
pub(super) struct Pinned {
    budget: Arc<PinBudget>,
    /// Whether pinning saves the device a copy. A device that computes in the host's memory pins only if a budget was
    /// given.
    is_worth: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    parts: HashMap<SharedKey, Arc<PinnedPart>>,
    /// Parts with one request so far.
    once: HashSet<SharedKey>,
}

impl State {
    /// Whether a part was requested before. Pinning is slower than gathering, so a part is pinned only on its second
    /// request.
    fn is_asked_again(&mut self, key: SharedKey) -> bool {
        if self.once.contains(&key) {
            return true;
        }
        if self.once.len() >= ONCE_MAX {
            // Most keys are of closed resources. A part of an open resource is gathered once more than necessary.
            self.once.clear();
        }
        self.once.insert(key);
        false
    }
}

impl Pinned {
    pub(super) fn new(budget: Arc<PinBudget>, class: DeviceClass) -> Self {
        let is_worth = class == DeviceClass::Gpu || budget.given.is_some();
        Self { budget, is_worth, state: Mutex::default() }
    }

    /// The part of a key, which may be empty; none at the first request, or if there is no room for the bytes.
    pub(super) fn part(&self, key: SharedKey, bytes: usize) -> Option<Arc<PinnedPart>> {
        if !self.is_worth {
            return None;
        }
        {
            let state = &mut *self.state.lock();
            if let Some(part) = state.parts.get(&key) {
                debug_assert!(
                    part.bytes >= bytes as u64,
                    "a part was pinned with fewer bytes than are sent now"
                );
                return Some(Arc::clone(part));
            }
            if !state.is_asked_again(key) {
                return None;
            }
        }
        let bytes = bytes as u64;
        if !self.budget.reserve(bytes) {
            let unused = self.take_unused_of_others(key.resource);
            if unused.is_empty() {
                return None;
            }
            // Without the lock: a driver may take long.
            drop(unused);
            if !self.budget.reserve(bytes) {
                return None;
            }
        }
        let part = PinnedPart { memory: FillOnce::default(), bytes, budget: Arc::clone(&self.budget) };
        // Another thread may have added the part meanwhile: then this returns that part, and these bytes go back.
        Some(Arc::clone(self.state.lock().parts.entry(key).or_insert_with(|| Arc::new(part))))
    }

    /// The unused parts of other resources, most likely closed ones.
    fn take_unused_of_others(&self, resource: u64) -> Vec<Arc<PinnedPart>> {
        let parts = &mut self.state.lock().parts;
        let is_unused = |held: &SharedKey, part: &mut Arc<PinnedPart>| {
            held.resource != resource && Arc::strong_count(part) == 1
        };
        parts.extract_if(is_unused).map(|(_, part)| part).collect()
    }

    /// Whether a part is pinned and filled.
    pub(super) fn holds(&self, key: SharedKey) -> bool {
        let part = self.state.lock().parts.get(&key).map(Arc::clone);
        part.is_some_and(|part| part.memory.is_filled())
    }

    /// The bytes pinned for the device now.
    pub(super) fn bytes(&self) -> u64 {
        self.state.lock().parts.values().map(|part| part.bytes).sum()
    }

    /// Drops a part that could not be filled.
    pub(super) fn forget(&self, key: SharedKey) {
        let part = self.state.lock().parts.remove(&key);
        drop(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(resource: u64, part: u64) -> SharedKey {
        SharedKey { resource, form: 0, part }
    }

    /// Asks twice, because the first request is only noted.
    fn part(pinned: &Pinned, key: SharedKey, bytes: usize) -> Option<Arc<PinnedPart>> {
        drop(pinned.part(key, bytes));
        pinned.part(key, bytes)
    }

    #[test]
    fn available_memory_is_read_in_bytes() {
        let meminfo = "MemTotal:       100 kB\nMemFree:  2 kB\nMemAvailable:      7 kB\n";
        assert_eq!(available_of(meminfo), Some(7 * 1024));
        assert_eq!(available_of("MemTotal: 1 kB"), None);
        let some = PinBudget::new(None);
        assert_eq!(some.reserve(1), memory_available().is_some_and(|bytes| bytes > 1));
    }

    #[test]
    fn keys_of_closed_resources_do_not_pile_up() {
        let mut state = State::default();
        for resource in 0..3 * ONCE_MAX as u64 {
            assert!(!state.is_asked_again(key(resource, 0)));
            assert!(state.is_asked_again(key(resource, 0)));
            assert!(state.once.len() <= ONCE_MAX, "{} keys are remembered", state.once.len());
        }
    }

    #[test]
    fn the_budget_is_common_and_nothing_makes_room_for_its_own_kind() {
        let budget = PinBudget::new(Some(100));
        let [one, other] = [(); 2].map(|()| Pinned::new(Arc::clone(&budget), DeviceClass::Cpu));
        let none = Pinned::new(PinBudget::new(None), DeviceClass::Cpu);
        assert!(part(&none, key(1, 0), 1).is_none(), "it would save no copy");
        assert!(one.part(key(1, 0), 40).is_none() && budget.used() == 0, "it is asked for once");
        let first = one.part(key(1, 0), 40).unwrap();
        assert!(Arc::ptr_eq(&first, &one.part(key(1, 0), 40).unwrap()));
        let second = part(&other, key(1, 0), 40).unwrap();
        assert!(!Arc::ptr_eq(&first, &second), "a device's part is its own");
        assert_eq!(budget.used(), 80);
        drop((first, second));
        assert!(part(&one, key(1, 1), 40).is_none());
        // Unused parts of another resource are dropped, used parts stay.
        let third = part(&one, key(2, 0), 60).unwrap();
        assert_eq!(budget.used(), 100);
        assert!(part(&one, key(3, 0), 1).is_none());
        drop(third);
        assert!(one.part(key(3, 0), 60).is_some());
        one.forget(key(3, 0));
        assert_eq!(budget.used(), 40);
        drop(other);
        assert_eq!(budget.used(), 0);
    }
}
