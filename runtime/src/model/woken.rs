//! Whom a firing has told of something, and why: tasks to be planned, by whoever fired it.

use super::Model;
use crate::request::RequestId;

/// Why a box was told: what decides where its task goes. Room on an edge between two boxes counts as an input for a
/// producer that takes from several: what waits there goes on before more is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WokenBy {
    /// An input was just made: the task is immediate, its data are hot.
    Input,
    /// Room was made, or the box goes on: the task is regular.
    Room,
}

/// Tasks that a firing made and nobody has planned yet.
#[derive(Default)]
pub(crate) struct Woken {
    list: Vec<(usize, WokenBy)>,
    /// What a request's clock has just said, if the next firing may go by it; 0 for not.
    read_ns: u64,
    read_of: u64,
}

impl Woken {
    #[inline]
    pub(crate) fn push(&mut self, cell: usize, by: WokenBy) {
        self.list.push((cell, by));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The clock of a request was read, and its next firing follows at once.
    #[inline]
    pub(super) fn has_read(&mut self, request: RequestId, now_ns: u64) {
        (self.read_ns, self.read_of) = (now_ns, request.0);
    }

    /// Time passes: what was read does not count any more.
    #[inline]
    pub(crate) fn forget_clock(&mut self) {
        if self.read_ns != 0 {
            self.read_ns = 0;
        }
    }

    /// What the clock of a request says, read anew unless that has just been done.
    #[inline(never)]
    pub(super) fn now_ns(&self, model: &Model) -> u64 {
        if self.read_ns != 0 && self.read_of == model.id.0 { self.read_ns } else { model.now_ns() }
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Takes the first box that was told of an input and fits.
    #[inline]
    pub(crate) fn take_first_input(&mut self, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let place = self.list.iter().position(|(cell, by)| *by == WokenBy::Input && fits(*cell))?;
        Some(self.list.remove(place).0)
    }

    /// Takes the only box that was told.
    pub(crate) fn take_only(&mut self) -> Option<usize> {
        let [(only, _)] = self.list[..] else { return None };
        self.list.clear();
        Some(only)
    }

    /// Takes the only box that was told, when that was of an input and it fits.
    #[inline]
    pub(crate) fn take_only_input(&mut self, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let [(only, WokenBy::Input)] = self.list[..] else { return None };
        fits(only).then(|| {
            self.list.clear();
            only
        })
    }

    pub(crate) fn drain(
        &mut self,
    ) -> impl DoubleEndedIterator<Item = (usize, WokenBy)> + ExactSizeIterator + '_ {
        self.list.drain(..)
    }
}
