//! Ports and hints, each declared once: the operator's table lists the declaration, and the operator uses it as the
//! handle of the port.
//!
//! Invariant: the place in a handle is its place in the table, so a hop looks nothing up; `Catalog::with` checks it. A
//! misspelt handle does not compile.

use std::fmt;

use crate::descriptor::Descriptor;
use crate::parameter::Arguments;

/// How an input port receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One edge; each envelope goes to one free copy of the box.
    Stream,
    /// One edge, unbounded; every copy gets all its envelopes, complete before the first firing.
    Side,
    /// Any number of edges, a few envelopes from each in turn; it ends when all edges have ended.
    Merge,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stream => "stream",
            Self::Side => "side",
            Self::Merge => "merge",
        })
    }
}

/// How the values of a hint join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// The least value; the bottom is infinity.
    Minimum,
    /// The greatest value; the bottom is minus infinity.
    Maximum,
}

impl Join {
    /// The value of a hint that no box has written.
    pub const fn bottom(self) -> f64 {
        match self {
            Self::Minimum => f64::INFINITY,
            Self::Maximum => f64::NEG_INFINITY,
        }
    }

    /// The join of two values.
    pub fn join(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Minimum => a.min(b),
            Self::Maximum => a.max(b),
        }
    }
}

/// An input port: a line of an operator's table, and the handle by which the operator takes from it.
///
/// ```
/// use boxwork_runtime::descriptor::Descriptor;
/// use boxwork_runtime::operator::{BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out};
///
/// const NUMBERS: In = In::stream(0, "numbers", |_| Descriptor::default(), "numbers to pass on");
/// const OUT: Out = Out::new(0, "out", |_| Descriptor::default(), "those numbers");
///
/// static PASS: OperatorSpec = OperatorSpec {
///     inputs: &[NUMBERS],
///     outputs: &[OUT],
///     ..OperatorSpec::new("pass", "Passes numbers on.", Kind::Stateless, |_| Ok(Box::new(Pass)))
/// };
///
/// struct Pass;
///
/// impl Operator for Pass {
///     fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
///         while cx.has_room(OUT) {
///             let Some(envelope) = cx.take(NUMBERS) else {
///                 return Ok(if cx.is_ended(NUMBERS) { Flow::Done } else { Flow::Wait });
///             };
///             cx.push(OUT, envelope)?;
///         }
///         Ok(Flow::Wait)
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct In {
    /// The place in the table, from 0.
    pub place: usize,
    /// The name.
    pub name: &'static str,
    /// How it receives.
    pub mode: Mode,
    /// Whether it must be connected.
    pub required: bool,
    /// The least envelopes that must fit on its edge, for the box to make progress; 1 for nearly all.
    pub envelopes_min: usize,
    /// The columns; may depend on the parameters.
    pub descriptor: fn(&Arguments) -> Descriptor,
    /// One line on what comes in.
    pub about: &'static str,
}

impl In {
    const fn new(
        place: usize,
        name: &'static str,
        mode: Mode,
        descriptor: fn(&Arguments) -> Descriptor,
        about: &'static str,
    ) -> Self {
        Self { place, name, mode, required: true, envelopes_min: 1, descriptor, about }
    }

    /// The handle of the input at a place of an [`OperatorEntry`](super::OperatorEntry), which holds its other fields.
    pub const fn nth(place: usize) -> Self {
        Self::new(place, "", Mode::Stream, nothing, "")
    }

    /// A required stream input.
    pub const fn stream(
        place: usize,
        name: &'static str,
        descriptor: fn(&Arguments) -> Descriptor,
        about: &'static str,
    ) -> Self {
        Self::new(place, name, Mode::Stream, descriptor, about)
    }

    /// A required side input.
    pub const fn side(
        place: usize,
        name: &'static str,
        descriptor: fn(&Arguments) -> Descriptor,
        about: &'static str,
    ) -> Self {
        Self::new(place, name, Mode::Side, descriptor, about)
    }

    /// A required merge input.
    pub const fn merge(
        place: usize,
        name: &'static str,
        descriptor: fn(&Arguments) -> Descriptor,
        about: &'static str,
    ) -> Self {
        Self::new(place, name, Mode::Merge, descriptor, about)
    }

    /// This input, which may stay unconnected; it has then ended from the start. If it is connected, its box never
    /// waits for it while another input has envelopes.
    pub const fn optional(mut self) -> Self {
        self.required = false;
        self
    }
}

/// An output port: a line of an operator's table, and the handle by which the operator pushes to it. An output that feeds
/// no edge is closed from the start.
#[derive(Clone, Copy, Debug)]
pub struct Out {
    /// The place in the table, from 0.
    pub place: usize,
    /// The name.
    pub name: &'static str,
    /// The columns; may depend on the parameters.
    pub descriptor: fn(&Arguments) -> Descriptor,
    /// One line on what goes out.
    pub about: &'static str,
}

impl Out {
    /// The handle of the output at a place of an [`OperatorEntry`](super::OperatorEntry), which holds its other fields.
    pub const fn nth(place: usize) -> Self {
        Self::new(place, "", nothing, "")
    }

    /// An output of this name and descriptor.
    pub const fn new(
        place: usize,
        name: &'static str,
        descriptor: fn(&Arguments) -> Descriptor,
        about: &'static str,
    ) -> Self {
        Self { place, name, descriptor, about }
    }
}

/// A hint that an operator reads: one value per query of the request.
#[derive(Clone, Copy, Debug)]
pub struct HintIn {
    /// The place among the hints that the operator reads, from 0.
    pub place: usize,
    /// The name.
    pub name: &'static str,
    /// How values join; both ends of a hint's edge must agree.
    pub join: Join,
    /// One line on what it means.
    pub about: &'static str,
}

impl HintIn {
    /// The handle of the hint at a place of those read by an [`OperatorEntry`](super::OperatorEntry), which holds its
    /// other fields.
    pub const fn nth(place: usize) -> Self {
        Self::new(place, "", Join::Minimum, "")
    }

    /// A hint of this name and join.
    pub const fn new(place: usize, name: &'static str, join: Join, about: &'static str) -> Self {
        Self { place, name, join, about }
    }
}

/// A hint that an operator writes: one value per query of the request.
#[derive(Clone, Copy, Debug)]
pub struct HintOut {
    /// The place among the hints that the operator writes, from 0.
    pub place: usize,
    /// The name.
    pub name: &'static str,
    /// How values join; both ends of a hint's edge must agree.
    pub join: Join,
    /// One line on what it means.
    pub about: &'static str,
}

impl HintOut {
    /// The handle of the hint at a place of those written by an [`OperatorEntry`](super::OperatorEntry), which holds
    /// its other fields.
    pub const fn nth(place: usize) -> Self {
        Self::new(place, "", Join::Minimum, "")
    }

    /// A hint of this name and join.
    pub const fn new(place: usize, name: &'static str, join: Join, about: &'static str) -> Self {
        Self { place, name, join, about }
    }
}

/// Stands for the columns of a port that an [`OperatorEntry`](super::OperatorEntry) gives.
fn nothing(_: &Arguments) -> Descriptor {
    Descriptor::default()
}
