//! The operator contract: the interface of a new kind of box.
//!
//! An operator is one method, [`Operator::process`], and one table, [`OperatorSpec`]. The method takes envelopes that
//! wait on the inputs, pushes envelopes that fit on the outputs, and returns; it never sleeps or spins, and two threads
//! never run it at once. A *firing* is one call of it.
//!
//! The runtime promises to each firing:
//! - every open output has room for one envelope ([`Context::has_room`] says whether it has room for another);
//! - all envelopes of the side inputs are there;
//! - another firing follows when an input arrives or ends, an output has room again, a hint that the box reads changes,
//!   or work that it has begun [outside](Outside) ends;
//! - a box whose outputs are all closed is not fired any more: no consumer wants its results.
//!
//! Nothing here knows a scheduler. A firing reaches its edges through [`Context`], and the scheduler (or `Harness`, in
//! tests) through five methods of a small trait (`operator/context.rs`).

mod memory;
mod environment;
mod caller;
mod bind;
mod handle;
mod hint_cell;
mod table;
mod entry;
mod work;
mod ports;
mod context;
mod catalog;

pub use bind::{Bind, Part, Resource};
pub use caller::{BatchWriter, CALLER, Collected, InputReader, OutputWriter, RequestInput, RequestOutput};
pub use catalog::Catalog;
pub use context::Context;
pub(crate) use context::Services;
pub use entry::{
    CheckBox, CodePath, DescriptorOf, Hint, InputPort, Make, MakeShared, OperatorEntry, OutputPort, Text,
};
pub use environment::{Cancellation, Environment};
pub use handle::{HintIn, HintOut, In, Join, Mode, Out};
pub(crate) use hint_cell::HintCell;
pub use memory::Memory;
pub(crate) use ports::{
    Connections, FiringState, Notice, PortShape, PortState, Ports, Staged, add_count, close_edge, set_figure,
};
pub use table::{BoxCheck, Check, Expand, Kind, OperatorSpec, ResourceSpec, Share};
pub use work::Work;

pub use crate::outside::{Computing, Outside};

use std::fmt;

/// The serial code in a box.
pub trait Operator: Send {
    /// Takes envelopes that wait on the inputs, pushes envelopes that fit on the outputs, and returns.
    ///
    /// # Errors
    /// An error ends the request, with the box's name before the message.
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError>;
}

/// An operator that is a closure: each call is a firing.
pub fn from_fn(
    process: impl FnMut(&mut Context<'_>) -> Result<Flow, BoxError> + Send + 'static,
) -> Box<dyn Operator> {
    struct FromFn<F>(F);

    impl<F: FnMut(&mut Context<'_>) -> Result<Flow, BoxError> + Send> Operator for FromFn<F> {
        fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
            (self.0)(cx)
        }
    }

    Box::new(FromFn(process))
}

/// The state of a box after a firing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It waits for an event: an input, room on an output, a hint.
    Wait,
    /// It has more to do at once and lets other boxes run first.
    More,
    /// It has finished: its outputs end, its inputs close.
    Done,
}

/// An error that ends a request: a message with its causes, for the person at the command line.
pub struct BoxError {
    message: String,
}

impl BoxError {
    /// An error of this message, which names the file, the place and the fix if there are any.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl fmt::Display for BoxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for BoxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

// `BoxError` does not implement `std::error::Error`, so that `?` can convert any error to it.
impl<E: std::error::Error> From<E> for BoxError {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(deeper) = cause {
            let text = deeper.to_string();
            if !message.contains(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            cause = deeper.source();
        }
        Self { message }
    }
}

/// The request was cancelled (or its deadline passed) while a task waited to block; return it by `?`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request was cancelled")]
pub struct Cancelled;

/// A fault in items of the input (a truncated image, say) that does not end the request: it is counted and listed at
/// the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The item: a file, a line of a file; or several items of one fault.
    pub subject: String,
    /// The fault and its fix.
    pub message: String,
    /// The number of items, mostly 1.
    pub items: u64,
}

/// The result of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It is on its way.
    Sent,
    /// Every consumer has closed its input: the envelope was dropped.
    Closed,
}
