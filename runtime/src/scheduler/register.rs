//! The register of requests under way: all of them, or one by its number.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Weak};

use crate::model::Model;
use crate::request::RequestId;
use crate::sync::Mutex;

/// See the module. The references are weak: the register keeps no request alive.
pub(super) struct Register {
    requests: Mutex<HashMap<RequestId, Weak<Model>, BuildHasherDefault<NumberHasher>>>,
}

/// Bits of a hash by which the table distinguishes entries before it compares their keys.
const TAG_BITS: u32 = 7;

impl Register {
    pub(super) fn new() -> Self {
        Self { requests: Mutex::new(HashMap::default()) }
    }

    /// Enters a request.
    pub(super) fn enter(&self, model: &Arc<Model>) {
        let before = self.requests.lock().insert(model.id(), Arc::downgrade(model));
        debug_assert!(before.is_none(), "two requests have one number: the first cannot be found any more");
    }

    /// A request has ended.
    pub(super) fn leave(&self, request: RequestId) {
        let left = self.requests.lock().remove(&request);
        debug_assert!(left.is_some(), "a request left the register that was not in it, or left it twice");
    }

    /// The number of requests.
    pub(super) fn len(&self) -> usize {
        self.requests.lock().len()
    }

    /// All requests, the oldest first.
    pub(super) fn all(&self) -> Vec<Arc<Model>> {
        // Upgraded under the lock, and read by callers outside it: they take other locks.
        let mut all: Vec<Arc<Model>> = self.requests.lock().values().filter_map(Weak::upgrade).collect();
        all.sort_unstable_by_key(|model| model.id());
        all
    }

    /// A request whose number fits.
    pub(super) fn find(&self, fits: impl Fn(RequestId) -> bool) -> Option<Arc<Model>> {
        let requests = self.requests.lock();
        requests.iter().find(|(id, _)| fits(**id)).and_then(|(_, model)| model.upgrade())
    }
}

/// A hash of request numbers. The program itself counts them up, so no caller can choose numbers that collide. Every
/// request enters and leaves the register: the standard hash took a twentieth of the instructions of a request of one box.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 ^= number;
    }

    fn finish(&self) -> u64 {
        // The table takes the place from the lower bits, so neighbours share cache lines, and a tag from the upper bits, in
        // which neighbours differ.
        self.0 ^ (self.0 << (u64::BITS - TAG_BITS))
    }
}
