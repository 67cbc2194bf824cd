//! The tables that tell of an operator and of a kind of resource everything but their code: ports, hints, parameters.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::{Bind, BoxError, Operator};
use crate::descriptor::Descriptor;
use crate::feeding::LazyDevices;
use crate::parameter::{Arguments, Parameter};

/// How an input port receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One edge; each envelope goes to one free copy of the box.
    Stream,
    /// One edge, unbounded; every copy gets all of it, complete before the first firing.
    Side,
    /// Any number of edges, a few envelopes from each in turn; it ends when all have.
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

/// Whether a box may have copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Copies allowed; the order of the output may change.
    Stateless,
    /// Copies allowed; each firing takes one envelope, and the order of the output is restored by it.
    Ordered,
    /// One copy only.
    Stateful,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stateless => "stateless",
            Self::Ordered => "ordered",
            Self::Stateful => "stateful",
        })
    }
}

/// An input port in an operator's table.
#[derive(Clone, Copy)]
pub struct Input {
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

impl Input {
    /// A required stream input.
    pub const fn stream(
        name: &'static str,
        descriptor: fn(&Arguments) -> Descriptor,
        about: &'static str,
    ) -> Self {
        Self { name, mode: Mode::Stream, required: true, envelopes_min: 1, descriptor, about }
    }

    /// A required side input.
    pub const fn side(
        name: &'static str,
        descriptor: fn(&Arguments) -> Descriptor,
        about: &'static str,
    ) -> Self {
        Self { name, mode: Mode::Side, required: true, envelopes_min: 1, descriptor, about }
    }

    /// A required merge input.
    pub const fn merge(
        name: &'static str,
        descriptor: fn(&Arguments) -> Descriptor,
        about: &'static str,
    ) -> Self {
        Self { name, mode: Mode::Merge, required: true, envelopes_min: 1, descriptor, about }
    }

    /// The same, which may stay unconnected; it has then ended from the start. A box that has it connected never waits
    /// for it while another input has envelopes.
    pub const fn optional(mut self) -> Self {
        self.required = false;
        self
    }
}

/// An output port in an operator's table. One that feeds no edge is closed from the start.
#[derive(Clone, Copy)]
pub struct Output {
    /// The name.
    pub name: &'static str,
    /// The columns; may depend on the parameters.
    pub descriptor: fn(&Arguments) -> Descriptor,
    /// One line on what goes out.
    pub about: &'static str,
}

impl Output {
    /// An output of this name and descriptor.
    pub const fn new(
        name: &'static str,
        descriptor: fn(&Arguments) -> Descriptor,
        about: &'static str,
    ) -> Self {
        Self { name, descriptor, about }
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
    /// The value of a hint that nobody has written.
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

/// A hint that an operator reads or writes: one value per query of the request.
#[derive(Clone, Copy, Debug)]
pub struct Hint {
    /// The name.
    pub name: &'static str,
    /// How values join; both ends of a hint's edge must agree.
    pub join: Join,
    /// One line on what it means.
    pub about: &'static str,
}

/// Everything that is known of an operator but its code: the table that the catalogue lists.
pub struct OperatorSpec {
    /// The name, as in `kind: NAME`.
    pub name: &'static str,
    /// One line on what it does.
    pub about: &'static str,
    /// Whether a box of it may have copies.
    pub kind: Kind,
    /// The parameters.
    pub parameters: &'static [Parameter],
    /// The input ports; an edge that names no port means the first.
    pub inputs: &'static [Input],
    /// The output ports; an edge that names no port means the first.
    pub outputs: &'static [Output],
    /// The hints that it reads; the box is planned when one changes.
    pub hints_read: &'static [Hint],
    /// The hints that it writes.
    pub hints_written: &'static [Hint],
    /// The blocking class whose permit is taken before each firing starts, or nothing.
    pub blocking: Option<&'static str>,
    /// A box in YAML, as an example.
    pub example: &'static str,
    /// Makes the operator of a box (of each copy, for each request).
    pub make: fn(&Bind<'_>) -> Result<Box<dyn Operator>, BoxError>,
    /// Makes what all requests of a box share (an output file, say), once, when the pipeline is prepared.
    pub share: Option<Share>,
    /// Which code runs (`AVX2`, say) on a machine with these devices, for `explain`.
    pub code_path: Option<fn(&Arguments, &LazyDevices) -> String>,
    /// Checks what can be checked with no file opened: that a box may do what it does with its resources, say.
    pub check: Option<BoxCheck>,
}

impl OperatorSpec {
    /// A table with nothing but a name, to be filled in with `..OperatorSpec::new(..)`.
    pub const fn new(
        name: &'static str,
        about: &'static str,
        kind: Kind,
        make: fn(&Bind<'_>) -> Result<Box<dyn Operator>, BoxError>,
    ) -> Self {
        Self {
            name,
            about,
            kind,
            parameters: &[],
            inputs: &[],
            outputs: &[],
            hints_read: &[],
            hints_written: &[],
            blocking: None,
            example: "",
            make,
            share: None,
            code_path: None,
            check: None,
        }
    }

    /// The place of an input in the table.
    // An operator names its ports with the literals of its table, which the compiler keeps once: their addresses tell.
    #[inline]
    pub fn input_idx(&self, name: &str) -> Option<usize> {
        match self.inputs {
            [first, ..] if std::ptr::eq(first.name, name) => Some(0),
            inputs => inputs.iter().position(|port| port.name == name),
        }
    }

    /// The place of an output in the table.
    #[inline]
    pub fn output_idx(&self, name: &str) -> Option<usize> {
        match self.outputs {
            [first, ..] if std::ptr::eq(first.name, name) => Some(0),
            outputs => outputs.iter().position(|port| port.name == name),
        }
    }
}

impl fmt::Debug for OperatorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorSpec").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A loaded resource: a snapshot that boxes share.
pub type Resource = Arc<dyn Any + Send + Sync>;
/// Makes what all requests of a box share.
pub type Share = fn(&Bind<'_>) -> Result<Resource, BoxError>;
/// Checks arguments with no file opened; the text says what is wrong.
pub type Check = fn(&Arguments) -> Result<(), String>;
/// Checks the arguments of a box, with those of the plan's resources by name, as far as they are known.
pub type BoxCheck = fn(&Arguments, &dyn Fn(&str) -> Option<Arguments>) -> Result<(), String>;

/// A kind of resource: something loaded once and shared by requests.
pub struct ResourceSpec {
    /// The name, as in `kind: NAME`.
    pub name: &'static str,
    /// One line on what it is.
    pub about: &'static str,
    /// The parameters; those of type [`ParameterType::Resource`](crate::parameter::ParameterType::Resource) name
    /// resources that are loaded before.
    pub parameters: &'static [Parameter],
    /// An example in YAML.
    pub example: &'static str,
    /// The family that it belongs to, where boxes may name any kind of one: a parameter of type `Resource("space")` takes
    /// every kind that provides `space`.
    pub provides: Option<&'static str>,
    /// Checks what can be checked with no file opened: parameters that exclude each other, say.
    pub check: Option<Check>,
    /// Opens or builds it.
    pub load: fn(&Bind<'_>) -> Result<Resource, BoxError>,
}

impl fmt::Debug for ResourceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceSpec").field("name", &self.name).finish_non_exhaustive()
    }
}
