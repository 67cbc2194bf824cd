//! `alignments`: costs of edits from queries to texts that depend on the direction, and scores of local alignments.

use boxwork_kernels::distance::COST_MAX;
use boxwork_runtime::operator::{Bind, BoxError, Kind, Operator, OperatorSpec};
use boxwork_runtime::parameter::{Arguments, Default, Parameter, ParameterType, Value};
use boxwork_stores::spaces::{self, Alignment, EditConstants};

use super::edit_distances::{DISTANCES, QUERIES, dear_replacements, over, share_letters};
use crate::devices::code_path;
use crate::resources::space::{MATRIX, cost, costs};
use crate::resources::{self, device_parameter, get_range, range_parameter};

/// From this many texts on `auto` may take GPUs, if these have enough letters.
const DEVICE_TEXTS_MIN: u64 = 1 << 10;

/// Aligns all texts of a store with queries.
///
/// `edit` is the least cost of insertions, deletions and replacements that turn the query into the text; the way back may cost another
/// number. `smith_waterman` is the score of the most similar parts of both, with the opposite sign: the most similar text comes first,
/// as by the distance `ip`. Neither is a distance of searches, which is the same in either order of two objects.
///
/// # Inputs
/// `queries` (side): the queries.
///
/// # Outputs
/// `distances`: for each query all texts and their numbers, or those within `range`.
///
/// # Parameters
/// `store`: texts. `measure`: edit or smith_waterman. `equal`: what a pair of equal letters adds to a score. `insert`, `delete`,
/// `replace`: costs, which a score loses. `matrix`: a file with the costs or scores of pairs of letters. `range`: only texts with at most this number.
/// `device`: where to compute; slots align texts and queries of more than 16,384 letters.
pub(crate) static ALIGNMENTS: OperatorSpec = OperatorSpec {
    parameters: &[
        resources::store_parameter("the texts"),
        Parameter::new(
            "measure",
            ParameterType::Choice(spaces::ALIGNMENTS),
            Default::Text("edit"),
            "edit: the least cost of edits; smith_waterman: the score of the best local alignment, with the opposite sign",
        ),
        Parameter::new(
            "equal",
            ParameterType::Integer { minimum: 1, maximum: COST_MAX as i64 },
            Default::Integer(1),
            "what a pair of equal letters adds to a score of smith_waterman",
        ),
        cost("insert", "the cost of a letter that only the text has; 1 if not given"),
        cost("delete", "the cost of a letter that only the query has; 1 if not given"),
        cost("replace", "the cost of a letter in place of another one; 1 if not given"),
        MATRIX,
        range_parameter(Default::Absent, "exclude texts with a larger number"),
        device_parameter("auto"),
    ],
    inputs: &[QUERIES],
    outputs: &[DISTANCES],
    check: Some(|arguments, _| check(arguments)),
    code_path: Some(|arguments, devices| code_path::of_device(arguments, devices, DEVICE_TEXTS_MIN)),
    share: Some(|bind| Ok(share_letters(&resources::store(bind)?))),
    example: "scores: {kind: alignments, store: proteins, measure: smith_waterman, equal: 2}",
    ..OperatorSpec::new(
        "alignments",
        "Aligns all texts with queries, by directed costs or by local scores.",
        Kind::Stateful,
        make,
    )
};

fn check(arguments: &Arguments) -> Result<(), String> {
    let is_local = arguments.get("measure") == Some(&Value::Text("smith_waterman".to_owned()));
    match arguments.get("range") {
        Some(Value::Number(range)) if *range > 0.0 && is_local => Err(format!(
            "the range is {range}, and scores have the opposite sign: for texts with a score of at least 20 write -20"
        )),
        Some(Value::Number(range)) if *range < 0.0 && !is_local => Err(format!(
            "the range is {range}, and costs of edits are never below 0: give a range of at least 0"
        )),
        _ => Ok(()),
    }
}

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let measure = bind.text("measure");
    let equal = u32::try_from(bind.integer("equal")).unwrap_or(COST_MAX);
    let given: EditConstants = costs(bind.arguments);
    let alignment = Alignment::open(measure, &given, equal).map_err(BoxError::new)?;
    let note = dear_replacements(&given).filter(|_| matches!(alignment, Alignment::Edit(_)));
    let numbers = alignment.numbers();
    let space = alignment.space(resources::store(bind)?)?;
    let range = get_range(bind, &*space)?.unwrap_or(f64::INFINITY);
    over(bind, space, (numbers, DEVICE_TEXTS_MIN), (None, range), note)
}
