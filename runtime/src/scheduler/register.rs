//! The register of requests under way: all of them, or one by its number.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use crate::model::Model;
use crate::request::RequestId;
use crate::sync::Mutex;

/// See the module. The references are weak: the register keeps no request alive.
pub(super) struct Register {
    requests: Mutex<BTreeMap<RequestId, Weak<Model>>>,
}

impl Register {
    pub(super) fn new() -> Self {
        Self { requests: Mutex::new(BTreeMap::new()) }
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
        self.requests.lock().values().filter_map(Weak::upgrade).collect()
    }

    /// A request whose number fits.
    pub(super) fn find(&self, fits: impl Fn(RequestId) -> bool) -> Option<Arc<Model>> {
        let requests = self.requests.lock();
        requests.iter().find(|(id, _)| fits(**id)).and_then(|(_, model)| model.upgrade())
    }
}
