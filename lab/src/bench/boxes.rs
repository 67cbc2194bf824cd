//! The operators of the workloads: a separate catalogue, of no use outside.

mod stream;
mod job;
mod nest;
mod turn;

use boxwork_runtime::descriptor::{Column, Descriptor};
use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::{Arguments, Default, Parameter, ParameterType};

use super::tally::{TALLY, TALLY_SPEC};

pub use job::{CLASS, write};
pub use nest::fib_in_turn;
pub use turn::PASSES;

/// Every operator that a workload uses.
pub fn catalog() -> Catalog {
    let stream = [&stream::SOURCE, &stream::STAGE, &stream::COPY_ADD, &stream::SINK];
    Catalog::new(
        stream.into_iter().chain([
            &job::JOB,
            &job::TASK,
            &nest::FIB,
            &nest::SKYNET,
            &nest::CLOSURES,
            &turn::TURN_SOURCE,
            &turn::TURN_SINK,
        ]),
        [&TALLY_SPEC],
    )
}

/// The columns on all edges.
fn numbers(_: &Arguments) -> Descriptor {
    Descriptor::new([Column::new("n", arrow_schema::DataType::UInt64, "numbers")])
}

/// The parameter of all of them.
const TALLY_PARAMETER: Parameter =
    Parameter::new(TALLY, ParameterType::Resource(TALLY), Default::Required, "the counters");

/// A parameter for a count.
const fn count(name: &'static str, about: &'static str) -> Parameter {
    Parameter::new(name, ParameterType::integer_from(0), Default::Integer(0), about)
}
