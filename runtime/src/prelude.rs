//! The names that an operator needs: `use boxwork_runtime::prelude::*;`.
//!
//! The name `Default` stays the standard library's: the value of a parameter that is not given is a [`ParameterDefault`].
//! The harness of one box is here with the feature `testing`, which belongs among the `[dev-dependencies]`.

pub use crate::arrow;
pub use crate::descriptor::{Column, Descriptor, Family};
pub use crate::envelope::{ENVELOPE_ROWS_MAX, Envelope, EnvelopeError};
#[cfg(any(test, feature = "testing"))]
pub use crate::harness::Harness;
pub use crate::operator::{
    Bind, BoxError, Cancelled, Catalog, Context, Flow, HintIn, HintOut, In, Join, Kind, Mode, Operator,
    OperatorEntry, OperatorSpec, Out, Pushed, Resource, ResourceSpec, from_fn,
};
pub use crate::parameter::{Arguments, Default as ParameterDefault, Parameter, ParameterType, Value};

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use arrow::array::{ArrayRef, UInt32Array};
    use arrow::schema::DataType;

    fn numbers(_: &Arguments) -> Descriptor {
        Descriptor::new([Column::new("number", DataType::UInt32, "any number")])
    }

    const NUMBERS: In = In::stream(0, "numbers", numbers, "any numbers");
    const LARGE: Out = Out::new(0, "large", numbers, "the large ones");

    static LARGER: OperatorSpec = OperatorSpec {
        parameters: &[Parameter::new(
            "least",
            ParameterType::integer_from(0),
            ParameterDefault::Integer(10),
            "the least number that passes",
        )],
        inputs: &[NUMBERS],
        outputs: &[LARGE],
        ..OperatorSpec::new("larger", "Passes large numbers.", Kind::Stateless, larger)
    };

    fn larger(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
        let least = bind.count("least");
        Ok(from_fn(move |cx| {
            while cx.has_room(LARGE) {
                let Some(numbers) = cx.take(NUMBERS) else {
                    return Ok(if cx.is_ended(NUMBERS) { Flow::Done } else { Flow::Wait });
                };
                let large = |number: &u32| *number as usize >= least;
                let mask: Vec<bool> = numbers.u32s("number")?.iter().map(large).collect();
                cx.push(LARGE, numbers.filter(&mask)?)?;
            }
            Ok(Flow::Wait)
        }))
    }

    #[test]
    fn an_operator_needs_no_other_import() {
        let mut harness = Harness::new(&LARGER, [("least", Value::Integer(5))]).expect("the values fit");
        let numbers: ArrayRef = Arc::new(UInt32Array::from(vec![3, 5, 8]));
        harness.give(NUMBERS, Envelope::from_columns([("number", numbers)]).expect("a table"));
        harness.end(NUMBERS);
        harness.run().expect("no fault");
        assert_eq!(harness.taken(LARGE)[0].u32s("number").expect("numbers"), [5, 8]);
        assert!(harness.is_done());
        // The standard library's `Default` is not hidden.
        assert_eq!(u32::default(), <u32 as Default>::default());
    }
}
