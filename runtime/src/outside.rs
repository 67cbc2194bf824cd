//! Work of a box outside of its firings: a token that its request waits for.

use std::fmt;
use std::sync::Arc;

/// A token for work of a box outside of its firings, such as a block on a device. Until it is dropped the request
/// neither ends nor counts as stalled; then the box is fired again.
///
/// Give this token to the background work. A box whose operator keeps its own token never finishes.
pub struct Outside {
    over: Option<Box<dyn FnOnce() + Send>>,
    lender: Option<Arc<dyn Lend>>,
}

/// A lender of slots to threads that are not a scheduler's own.
pub(crate) trait Lend: Send + Sync {
    /// Withholds a slot from tasks; `None` if too few are left.
    fn withhold(&self) -> Option<Computing>;
    /// The number of the scheduler that lends; no two schedulers have one number at once.
    fn number(&self) -> usize;
}

/// A slot withheld from tasks while this lives: see [`Outside::computing`].
pub struct Computing(Option<Box<dyn FnOnce() + Send>>);

impl Computing {
    pub(crate) fn new(give_back: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(give_back)))
    }
}

impl Drop for Computing {
    fn drop(&mut self) {
        if let Some(give_back) = self.0.take() {
            give_back();
        }
    }
}

impl Outside {
    /// A token that calls `over` when it is dropped; schedulers and harnesses make it.
    pub fn new(over: impl FnOnce() + Send + 'static) -> Self {
        Self { over: Some(Box::new(over)), lender: None }
    }

    /// Adds the lender of slots.
    pub(crate) fn lent_by(mut self, lender: Arc<dyn Lend>) -> Self {
        debug_assert!(self.lender.is_none(), "two schedulers lend slots to one token");
        self.lender = Some(lender);
        self
    }

    /// The lender of slots, if the token is a scheduler's.
    pub(crate) fn lender(&self) -> Option<Arc<dyn Lend>> {
        self.lender.clone()
    }

    /// Withholds one slot from tasks while a thread outside of the scheduler computes for the box, so that the thread
    /// has a core. The slot is a resting one, or else the next whose task ends, and is withheld until the result is
    /// dropped. `None` if that would leave no slot.
    pub fn computing(&self) -> Option<Computing> {
        self.lender.as_ref()?.withhold()
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        if let Some(over) = self.over.take() {
            over();
        }
    }
}

impl fmt::Debug for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outside").finish_non_exhaustive()
    }
}
