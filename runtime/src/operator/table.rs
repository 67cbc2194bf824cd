//! The tables that describe an operator and a kind of resource: ports, hints, parameters.

use std::fmt;

use super::{Bind, BoxError, HintIn, HintOut, In, Operator, Out, Resource};
use crate::descriptor::Descriptor;
use crate::feeding::LazyDevices;
use crate::parameter::{Arguments, Parameter, Value};

/// Whether a box may have copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Copies allowed; the order of the output may change.
    Stateless,
    /// Copies allowed; each firing takes one envelope, and the results leave in the order of the input.
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

/// The description of an operator: the table that the catalogue lists.
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
    pub inputs: &'static [In],
    /// The output ports; an edge that names no port means the first.
    pub outputs: &'static [Out],
    /// The hints that it reads; the box is planned when one changes.
    pub hints_read: &'static [HintIn],
    /// The hints that it writes.
    pub hints_written: &'static [HintOut],
    /// The blocking class whose permit is taken before each firing starts, or nothing.
    pub blocking: Option<&'static str>,
    /// A box in YAML, as an example.
    pub example: &'static str,
    /// Makes the operator of a box (of each copy, for each request).
    pub make: fn(&Bind<'_>) -> Result<Box<dyn Operator>, BoxError>,
    /// Makes what all requests of a box share (an output file, say), once, when the pipeline is prepared.
    pub share: Option<Share>,
    /// Gives values in place of those of a request, by parameter, before its queries are split over requests: the rows of a
    /// file that was named as a query, say. They apply if the pipeline's own parameters give all of these.
    pub expand: Option<Expand>,
    /// Names the code that runs (`AVX2`, say) on a machine with these devices, for `explain`.
    pub code_path: Option<fn(&Arguments, &LazyDevices) -> String>,
    /// Checks what can be checked with no file opened: that a box may do what it does with its resources, say.
    pub check: Option<BoxCheck>,
    /// The columns of the batches that a box gives to its request's caller, if the caller wants them
    /// ([`Submission::outputs`](crate::request::Submission::outputs)).
    pub gives: Option<fn(&Arguments) -> Descriptor>,
}

impl OperatorSpec {
    /// A table without ports and parameters; fill it in with `..OperatorSpec::new(..)`.
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
            expand: None,
            code_path: None,
            check: None,
            gives: None,
        }
    }

    /// The place of an input in the table.
    pub fn input_idx(&self, name: &str) -> Option<usize> {
        self.inputs.iter().position(|port| port.name == name)
    }

    /// The place of an output in the table.
    pub fn output_idx(&self, name: &str) -> Option<usize> {
        self.outputs.iter().position(|port| port.name == name)
    }

    /// Checks that each port and hint is at the place of the table that its handle says.
    ///
    /// # Panics
    /// When one is elsewhere: an operator would use another port than it names.
    pub(crate) fn check_places(&self) {
        let places: [(&str, Vec<usize>); 4] = [
            ("input", self.inputs.iter().map(|port| port.place).collect()),
            ("output", self.outputs.iter().map(|port| port.place).collect()),
            ("hint that it reads", self.hints_read.iter().map(|hint| hint.place).collect()),
            ("hint that it writes", self.hints_written.iter().map(|hint| hint.place).collect()),
        ];
        for (what, places) in places {
            for (place, declared) in places.into_iter().enumerate() {
                assert!(
                    place == declared,
                    "the operator `{}` lists at place {place} an {what} that is declared for place {declared}",
                    self.name
                );
            }
        }
    }
}

impl fmt::Debug for OperatorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorSpec").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Makes what all requests of a box share.
pub type Share = fn(&Bind<'_>) -> Result<Resource, BoxError>;
/// Gives other values for some parameters of a box; none if all stay.
pub type Expand = fn(&Bind<'_>) -> Result<Vec<(&'static str, Value)>, BoxError>;
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
    /// Its family, if boxes may name any kind of that family: a parameter of type `Resource("space")` takes every kind
    /// that provides `space`.
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
