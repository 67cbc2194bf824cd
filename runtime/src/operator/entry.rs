//! An operator in a catalogue: from a static table, or made at run time.
//!
//! A static [`OperatorSpec`] is the short way to write an operator in Rust. An [`OperatorEntry`] owns its names and may
//! hold closures, so that a program can make operators while it runs: from a closure, or from a function of another
//! language.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::{
    Bind, BoxCheck, BoxError, Expand, HintIn, HintOut, In, Join, Kind, Mode, Operator, OperatorSpec, Out,
    Resource,
};
use crate::descriptor::Descriptor;
use crate::feeding::LazyDevices;
use crate::parameter::{Arguments, Parameter};

/// Text that a static table borrows and a table made at run time owns.
pub type Text = Cow<'static, str>;
/// Gives the columns of a port; they may depend on the parameters.
pub type DescriptorOf = Arc<dyn Fn(&Arguments) -> Descriptor + Send + Sync>;
/// Makes the operator of a box (of each copy, for each request).
pub type Make = Arc<dyn Fn(&Bind<'_>) -> Result<Box<dyn Operator>, BoxError> + Send + Sync>;
/// Makes what all requests of a box share.
pub type MakeShared = Arc<dyn Fn(&Bind<'_>) -> Result<Resource, BoxError> + Send + Sync>;
/// The name of the code that runs on a machine with these devices.
pub type CodePath = Arc<dyn Fn(&Arguments, &LazyDevices) -> String + Send + Sync>;
/// Checks the arguments of a box, with those of the plan's resources by name, as far as they are known.
pub type CheckBox =
    Arc<dyn Fn(&Arguments, &dyn Fn(&str) -> Option<Arguments>) -> Result<(), String> + Send + Sync>;

/// An input port of an entry: the fields of [`In`] except the place, which is its place in the entry's list.
#[derive(Clone)]
pub struct InputPort {
    /// The name.
    pub name: Text,
    /// How it receives.
    pub mode: Mode,
    /// Whether it must be connected.
    pub required: bool,
    /// The least envelopes that must fit on its edge.
    pub envelopes_min: usize,
    /// The columns.
    pub descriptor: DescriptorOf,
    /// One line on what comes in.
    pub about: Text,
}

/// An output port of an entry: the fields of [`Out`] except the place, which is its place in the entry's list.
#[derive(Clone)]
pub struct OutputPort {
    /// The name.
    pub name: Text,
    /// The columns.
    pub descriptor: DescriptorOf,
    /// One line on what goes out.
    pub about: Text,
}

/// A hint of an entry: one value per query of the request.
#[derive(Clone, Debug)]
pub struct Hint {
    /// The name.
    pub name: Text,
    /// How values join; both ends of a hint's edge must agree.
    pub join: Join,
    /// One line on what it means.
    pub about: Text,
}

/// The description of an operator. See the fields of [`OperatorSpec`].
///
/// ```
/// use boxwork_runtime::descriptor::Descriptor;
/// use boxwork_runtime::operator::{Catalog, Flow, In, Kind, Mode, OperatorEntry, Out, from_fn};
///
/// /// An operator that passes on every `nth` envelope.
/// fn every(nth: usize) -> OperatorEntry {
///     // The handles of the ports at these places, below.
///     const IN: In = In::nth(0);
///     const OUT: Out = Out::nth(0);
///     OperatorEntry::new(format!("every_{nth}"), "Thins a stream out.", Kind::Stateful, move |_| {
///         let mut count = 0;
///         Ok(from_fn(move |cx| {
///             while cx.has_room(OUT) {
///                 let Some(envelope) = cx.take(IN) else {
///                     return Ok(if cx.is_ended(IN) { Flow::Done } else { Flow::Wait });
///                 };
///                 count += 1;
///                 if count % nth == 0 {
///                     cx.push(OUT, envelope)?;
///                 }
///             }
///             Ok(Flow::Wait)
///         }))
///     })
///     .input("in", Mode::Stream, |_| Descriptor::default(), "any rows")
///     .output("out", |_| Descriptor::default(), "some of them")
/// }
///
/// let catalog = Catalog::default().with(every(2)).with(every(10));
/// assert!(catalog.operator("every_10").is_some());
/// ```
#[derive(Clone)]
pub struct OperatorEntry {
    /// The name, as in `kind: NAME`.
    pub name: Text,
    /// One line on what it does.
    pub about: Text,
    /// Whether a box of it may have copies.
    pub kind: Kind,
    /// The parameters.
    pub parameters: Cow<'static, [Parameter]>,
    /// The input ports; an edge that names no port means the first.
    pub inputs: Vec<InputPort>,
    /// The output ports; an edge that names no port means the first.
    pub outputs: Vec<OutputPort>,
    /// The hints that it reads; the box is planned when one changes.
    pub hints_read: Vec<Hint>,
    /// The hints that it writes.
    pub hints_written: Vec<Hint>,
    /// The blocking class whose permit is taken before each firing starts, or nothing.
    pub blocking: Option<Text>,
    /// A box in YAML, as an example.
    pub example: Text,
    /// Makes the operator of a box (of each copy, for each request).
    pub make: Make,
    /// Makes what all requests of a box share, once, when the pipeline is prepared.
    pub share: Option<MakeShared>,
    /// Gives values in place of those of a request before its queries are split: [`OperatorSpec::expand`].
    pub expand: Option<Expand>,
    /// Names the code that runs on a machine with these devices, for `explain`.
    pub code_path: Option<CodePath>,
    /// Checks what can be checked with no file opened.
    pub check: Option<CheckBox>,
    /// The columns of the batches that a box gives to its request's caller, if the caller wants them.
    pub gives: Option<DescriptorOf>,
}

impl OperatorEntry {
    /// An operator without ports and parameters. To make an operator of a closure, `make` may use
    /// [`from_fn`](super::from_fn).
    pub fn new(
        name: impl Into<Text>,
        about: impl Into<Text>,
        kind: Kind,
        make: impl Fn(&Bind<'_>) -> Result<Box<dyn Operator>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            about: about.into(),
            kind,
            parameters: Cow::Borrowed(&[]),
            inputs: Vec::new(),
            outputs: Vec::new(),
            hints_read: Vec::new(),
            hints_written: Vec::new(),
            blocking: None,
            example: Cow::Borrowed(""),
            make: Arc::new(make),
            share: None,
            expand: None,
            code_path: None,
            check: None,
            gives: None,
        }
    }

    /// Adds a required input. Its handle is [`In::nth`] of the number of inputs before it.
    #[must_use]
    pub fn input(
        mut self,
        name: impl Into<Text>,
        mode: Mode,
        descriptor: impl Fn(&Arguments) -> Descriptor + Send + Sync + 'static,
        about: impl Into<Text>,
    ) -> Self {
        self.inputs.push(InputPort {
            name: name.into(),
            mode,
            required: true,
            envelopes_min: 1,
            descriptor: Arc::new(descriptor),
            about: about.into(),
        });
        self
    }

    /// Adds an output. Its handle is [`Out::nth`] of the number of outputs before it.
    #[must_use]
    pub fn output(
        mut self,
        name: impl Into<Text>,
        descriptor: impl Fn(&Arguments) -> Descriptor + Send + Sync + 'static,
        about: impl Into<Text>,
    ) -> Self {
        self.outputs.push(OutputPort {
            name: name.into(),
            descriptor: Arc::new(descriptor),
            about: about.into(),
        });
        self
    }

    /// Adds a hint that the operator reads. Its handle is [`HintIn::nth`] of the number of hints read before it.
    #[must_use]
    pub fn hint_read(mut self, name: impl Into<Text>, join: Join, about: impl Into<Text>) -> Self {
        self.hints_read.push(Hint { name: name.into(), join, about: about.into() });
        self
    }

    /// Adds a hint that the operator writes. Its handle is [`HintOut::nth`] of the number of hints written before it.
    #[must_use]
    pub fn hint_written(mut self, name: impl Into<Text>, join: Join, about: impl Into<Text>) -> Self {
        self.hints_written.push(Hint { name: name.into(), join, about: about.into() });
        self
    }

    /// The place of an input in the list.
    pub fn input_idx(&self, name: &str) -> Option<usize> {
        self.inputs.iter().position(|port| port.name == name)
    }

    /// The place of an output in the list.
    pub fn output_idx(&self, name: &str) -> Option<usize> {
        self.outputs.iter().position(|port| port.name == name)
    }
}

impl fmt::Debug for OperatorEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorEntry").field("name", &self.name).finish_non_exhaustive()
    }
}

impl From<&'static OperatorSpec> for OperatorEntry {
    /// The entry of a static table.
    ///
    /// # Panics
    /// When a port or hint is at another place of the table than its handle says.
    fn from(spec: &'static OperatorSpec) -> Self {
        spec.check_places();
        let input = |port: &In| InputPort {
            name: port.name.into(),
            mode: port.mode,
            required: port.required,
            envelopes_min: port.envelopes_min,
            descriptor: Arc::new(port.descriptor),
            about: port.about.into(),
        };
        let output = |port: &Out| OutputPort {
            name: port.name.into(),
            descriptor: Arc::new(port.descriptor),
            about: port.about.into(),
        };
        let read = |hint: &HintIn| Hint { name: hint.name.into(), join: hint.join, about: hint.about.into() };
        let written =
            |hint: &HintOut| Hint { name: hint.name.into(), join: hint.join, about: hint.about.into() };
        Self {
            name: spec.name.into(),
            about: spec.about.into(),
            kind: spec.kind,
            parameters: Cow::Borrowed(spec.parameters),
            inputs: spec.inputs.iter().map(input).collect(),
            outputs: spec.outputs.iter().map(output).collect(),
            hints_read: spec.hints_read.iter().map(read).collect(),
            hints_written: spec.hints_written.iter().map(written).collect(),
            blocking: spec.blocking.map(Cow::Borrowed),
            example: spec.example.into(),
            make: Arc::new(spec.make),
            share: spec.share.map(|share| Arc::new(share) as MakeShared),
            expand: spec.expand,
            code_path: spec.code_path.map(|code_path| Arc::new(code_path) as CodePath),
            check: spec.check.map(|check: BoxCheck| Arc::new(check) as CheckBox),
            gives: spec.gives.map(|gives| Arc::new(gives) as DescriptorOf),
        }
    }
}

impl From<&'static OperatorSpec> for Arc<OperatorEntry> {
    fn from(spec: &'static OperatorSpec) -> Self {
        Self::new(spec.into())
    }
}
