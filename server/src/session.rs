//! A session: what was marked and shown, as a fold of its log.
//!
//! Invariants: the state is a function of the events alone; undo and redo move over pairs of marks and round, and the
//! first marks after an undo drop what was undone (the log keeps it); an object that was shown is not shown again, unless
//! its round was undone; marks name objects, so they outlive a store that numbers its objects anew.

pub mod event;
pub mod fold;
pub mod journal;
#[cfg(test)]
mod samples;

pub use event::{Given, Header, Marked, Operation, Shown, Unmarked};
pub use fold::{Session, Step};
pub use journal::{Journal, JournalError};
