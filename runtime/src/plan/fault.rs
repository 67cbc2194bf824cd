//! The kinds of fault that a check finds.

/// The kind of a fault, for programs: a front end uses it to find the place in its text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// A required input has no edge.
    UnconnectedInput,
    /// An input that takes one edge has several.
    InputConnectedTwice,
    /// No box reads any output of a box.
    UnreadBox,
    /// Boxes feed each other in a circle.
    Cycle,
    /// Two ways of bounded edges between two boxes can stall.
    Diamond,
    /// Copies of an ordered box cannot restore the order of several edges.
    CopiesOfSeveralEdges,
    /// There is no box of this name.
    UnknownBox(String),
    /// An end of an edge needs a port, and the box has none on that side.
    NoPort,
    /// A box has no port of that name.
    UnknownPort,
    /// An edge holds less than its consumer needs at once.
    EdgeTooSmall,
    /// The columns of an output are not those of the input.
    DescriptorMismatch,
    /// A hint's ends join their values in different ways.
    HintMismatch,
    /// The pipeline has no boxes.
    NoBoxes,
    /// The number of queries in a request is out of range.
    WrongQueries,
    /// A parameter's default is not of its type or range.
    WrongDefault,
    /// Nothing uses a parameter.
    UnusedParameter,
    /// Resources refer to each other in a circle.
    ResourceCycle,
    /// A kind of resource refuses its settings.
    RefusedResource,
    /// There is no such kind of resource.
    UnknownResourceKind,
    /// A setting names a resource of another family.
    WrongKind,
    /// The kind of a box depends on a parameter without a value.
    UnboundKind,
    /// The pipeline declares no parameter of this name.
    UnknownPipelineParameter(String),
    /// An operator or kind of resource has no such parameter.
    UnknownParameter,
    /// A value is out of range.
    WrongValue,
    /// A required parameter is not given.
    MissingParameter,
    /// A value is of another type.
    WrongType,
    /// There is no such operator.
    UnknownOperator,
    /// An operator refuses its settings.
    RefusedBox,
    /// A stateful operator cannot have copies.
    CopiesOfStateful,
}

impl FaultKind {
    /// A stable word for machines, such as `unknown-operator`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnconnectedInput => "unconnected-input",
            Self::InputConnectedTwice => "input-connected-twice",
            Self::UnreadBox => "unread-box",
            Self::Cycle => "cycle",
            Self::Diamond => "diamond",
            Self::CopiesOfSeveralEdges => "copies-of-several-edges",
            Self::UnknownBox(_) => "unknown-box",
            Self::NoPort => "no-port",
            Self::UnknownPort => "unknown-port",
            Self::EdgeTooSmall => "edge-too-small",
            Self::DescriptorMismatch => "descriptor-mismatch",
            Self::HintMismatch => "hint-mismatch",
            Self::NoBoxes => "no-boxes",
            Self::WrongQueries => "wrong-queries",
            Self::WrongDefault => "wrong-default",
            Self::UnusedParameter => "unused-parameter",
            Self::ResourceCycle => "resource-cycle",
            Self::RefusedResource => "refused-resource",
            Self::UnknownResourceKind => "unknown-resource-kind",
            Self::WrongKind => "wrong-kind",
            Self::UnboundKind => "unbound-kind",
            Self::UnknownPipelineParameter(_) => "unknown-pipeline-parameter",
            Self::UnknownParameter => "unknown-parameter",
            Self::WrongValue => "wrong-value",
            Self::MissingParameter => "missing-parameter",
            Self::WrongType => "wrong-type",
            Self::UnknownOperator => "unknown-operator",
            Self::RefusedBox => "refused-box",
            Self::CopiesOfStateful => "copies-of-stateful",
        }
    }
}
