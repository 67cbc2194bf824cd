//! `space` and `sqfd_space`: a distance over the objects of a store that a pipeline names.

use std::sync::Arc;

use boxwork_kernels::distance::{COST_MAX, Properties};
use boxwork_kernels::vector::VectorMeasure;
use boxwork_runtime::operator::{Bind, BoxError, Resource, ResourceSpec};
use boxwork_runtime::parameter::{Arguments, Default, Parameter, ParameterType, Value};
use boxwork_stores::space::{SharedSpace, Space};
use boxwork_stores::spaces::{self, DISTANCE_NAMES_OR_AUTO, DistanceOptions, EditConstants};
use boxwork_stores::vector_codes::CodesError;

const OBJECTS: Parameter = super::store_parameter("the objects");

const SIMILARITY: Parameter = Parameter::new(
    "similarity",
    ParameterType::Choice(&["gaussian", "heuristic", "minus"]),
    Default::Text("gaussian"),
    "the similarity of two centroids: exp(-alpha d^2), 1 / (alpha + d) or -d",
);

const GROUND: Parameter = Parameter::new(
    "ground",
    ParameterType::Choice(&["l1", "l2", "linf", "l2_squared"]),
    Default::Text("l2"),
    "the distance d of two centroids, for sqfd, hausdorff and emd",
);

const ALPHA: Parameter = Parameter::new(
    "alpha",
    ParameterType::Positive,
    Default::Absent,
    "the steepness for sqfd; the store's by default, or 0.2 if it keeps none. Smaller values index better, larger ones \
     order better",
);

/// A cost of edits.
pub(crate) const fn cost(name: &'static str, about: &'static str) -> Parameter {
    Parameter::new(
        name,
        ParameterType::Integer { minimum: 1, maximum: COST_MAX as i64 },
        Default::Absent,
        about,
    )
}

pub(crate) const MATRIX: Parameter = Parameter::new(
    "matrix",
    ParameterType::Path,
    Default::Absent,
    "a file with the costs of pairs of letters, for edit: a line of letters, then a line for each with its numbers",
);

/// A distance over objects, shared by requests as [`SharedSpace`].
pub(crate) static SPACE: ResourceSpec = ResourceSpec {
    name: "space",
    about: "Objects and their distance, which determines the sound bounds.",
    parameters: &[
        OBJECTS,
        Parameter::new(
            "distance",
            ParameterType::Choice(DISTANCE_NAMES_OR_AUTO),
            Default::Text("auto"),
            "the distance; auto: the usual one for the objects",
        ),
        Parameter::new(
            "p",
            ParameterType::Number { minimum: 1.0, maximum: f64::MAX },
            Default::Absent,
            "the exponent of lp",
        ),
        Parameter::new(
            "root",
            ParameterType::Boolean,
            Default::Boolean(false),
            "take the square root of the distance: the order stays, and more bounds are sound",
        ),
        SIMILARITY,
        GROUND,
        ALPHA,
        cost("insert", "the cost of a letter that only the object has, for edit; 1 if not given"),
        cost("delete", "the cost of a letter that only the query has, for edit; 1 if not given"),
        cost("replace", "the cost of a letter in place of another one, for edit; 1 if not given"),
        MATRIX,
        Parameter::new(
            "band",
            ParameterType::integer_from(0),
            Default::Absent,
            "the most that places of series differ that dtw compares; not given: any",
        ),
    ],
    example: "space: {kind: space, store: objects, distance: l2}",
    provides: Some("space"),
    check: Some(check),
    load: |bind| load(bind, None),
};

/// The signature quadratic form distance over signatures, shared by requests as [`SharedSpace`].
pub(crate) static SQFD_SPACE: ResourceSpec = ResourceSpec {
    name: "sqfd_space",
    about: "The signature quadratic form distance over a store of signatures.",
    parameters: &[OBJECTS, SIMILARITY, GROUND, ALPHA],
    example: "space: {kind: sqfd_space, store: signatures}",
    provides: Some("space"),
    check: Some(|arguments| options(arguments, Some("sqfd")).properties().map(drop)),
    load: |bind| load(bind, Some("sqfd")),
};

/// Whether the constants are sound together. If the store determines the distance, those of sqfd are checked, as only
/// signatures have them.
fn check(arguments: &Arguments) -> Result<(), String> {
    let options = options(arguments, None);
    match options.properties()? {
        Some(_) => Ok(()),
        None => {
            let sqfd = DistanceOptions { distance: "sqfd".to_owned(), p: None, root: false, ..options };
            sqfd.properties().map(drop)
        }
    }
}

fn load(bind: &Bind<'_>, distance: Option<&str>) -> Result<Resource, BoxError> {
    let space = spaces::open(&options(bind.arguments, distance), super::store(bind)?)?;
    Ok(Arc::new(SharedSpace(space)))
}

/// The distance that the arguments give; a value that a variable leaves open counts as its default.
pub fn options(arguments: &Arguments, distance: Option<&str>) -> DistanceOptions {
    let text = |name: &str| match arguments.get(name) {
        Some(Value::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let number = |name: &str| match arguments.get(name) {
        Some(Value::Number(number)) => Some(*number),
        _ => None,
    };
    let whole = |name: &str| match arguments.get(name) {
        Some(Value::Integer(whole)) => Some(*whole),
        _ => None,
    };
    let usual = DistanceOptions::default();
    DistanceOptions {
        distance: distance.map(str::to_owned).or_else(|| text("distance")).unwrap_or(usual.distance),
        p: number("p"),
        root: arguments.get("root") == Some(&Value::Boolean(true)),
        similarity: text("similarity").unwrap_or(usual.similarity),
        ground: text("ground").unwrap_or(usual.ground),
        alpha: number("alpha"),
        costs: costs(arguments),
        band: whole("band").and_then(|band| usize::try_from(band).ok()),
    }
}

/// The costs of edits that the arguments give.
pub(crate) fn costs(arguments: &Arguments) -> EditConstants {
    let cost = |name: &str| match arguments.get(name) {
        Some(Value::Integer(cost)) => u32::try_from(*cost).ok(),
        _ => None,
    };
    let matrix = match arguments.get("matrix") {
        Some(Value::Text(file)) => Some(file.clone()),
        _ => None,
    };
    EditConstants { insert: cost("insert"), delete: cost("delete"), replace: cost("replace"), matrix }
}

/// The properties of the space that a box or a resource names, as far as they are known with no file opened.
pub(crate) fn properties_of(
    arguments: &Arguments,
    resources: &dyn Fn(&str) -> Option<Arguments>,
) -> Option<(DistanceOptions, Properties)> {
    let Some(Value::Text(space)) = arguments.get("space") else { return None };
    let options = options(&resources(space)?, None);
    // An unsound space has its own fault, and a request may still give the distance.
    let properties = options.properties().ok().flatten()?;
    Some((options, properties))
}

/// The distance of the space that a box names, if it is known.
pub(crate) fn distance_of(
    arguments: &Arguments,
    resources: &dyn Fn(&str) -> Option<Arguments>,
) -> Option<String> {
    properties_of(arguments, resources).map(|(options, _)| options.text())
}

/// Checks that the space that a box names has a measure of vectors, if its distance is known: l2, ip or cosine.
pub(crate) fn check_measure(
    arguments: &Arguments,
    resources: &dyn Fn(&str) -> Option<Arguments>,
) -> Result<(), String> {
    let options = properties_of(arguments, resources).map(|(options, _)| options.text());
    match options.filter(|text| VectorMeasure::named(text).is_none()) {
        Some(measure) => Err(CodesError::NoCodes { measure }.to_string()),
        None => Ok(()),
    }
}

/// Checks that an index of pivots or of balls is sound for the space that a box or a resource names.
pub(crate) fn check_index(
    arguments: &Arguments,
    resources: &dyn Fn(&str) -> Option<Arguments>,
) -> Result<(), String> {
    properties_of(arguments, resources).map_or(Ok(()), |(_, properties)| spaces::allow_index(&properties))
}

/// The space that an index of pivots or of balls is made for.
pub(crate) fn index_space(bind: &Bind<'_>) -> Result<Arc<dyn Space>, BoxError> {
    let space = super::space(bind)?;
    // A request may give another distance than the plan's, which was checked.
    spaces::allow_index(&space.properties()).map_err(BoxError::new)?;
    Ok(space)
}

/// The parameter `range` of boxes that take any distance.
pub(crate) const fn range_parameter(default: Default, about: &'static str) -> Parameter {
    Parameter::new("range", ParameterType::number(), default, about)
}

/// Checks that a range below 0 is one of a distance that may be negative.
pub(crate) fn check_range(
    arguments: &Arguments,
    resources: &dyn Fn(&str) -> Option<Arguments>,
) -> Result<(), String> {
    let Some(Value::Number(range)) = arguments.get("range") else { return Ok(()) };
    let Some((options, properties)) = properties_of(arguments, resources) else { return Ok(()) };
    allow_range(*range, &options.text(), &properties)
}

/// The parameter `range` of a box over a space, if it is given.
pub(crate) fn get_range(bind: &Bind<'_>, space: &dyn Space) -> Result<Option<f64>, BoxError> {
    let range = bind.get_number("range");
    range
        .map_or(Ok(()), |range| allow_range(range, &space.measure(), &space.properties()))
        .map_err(BoxError::new)?;
    Ok(range)
}

fn allow_range(range: f64, measure: &str, properties: &Properties) -> Result<(), String> {
    match range < 0.0 && !properties.signed {
        true => {
            Err(format!("the range is {range}, and {measure} is never below 0: give a range of at least 0"))
        }
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsound_measures_are_refused_with_no_file_opened() {
        let check = |ground: &str| {
            let given = [("store", "signatures"), ("ground", ground)]
                .map(|(name, value)| (name.to_owned(), Value::Text(value.to_owned())));
            (SQFD_SPACE.check.unwrap())(&Arguments::check(SQFD_SPACE.parameters, given).unwrap())
        };
        assert_eq!(check("l2"), Ok(()));
        let reason = check("l1").unwrap_err();
        assert!(reason.contains("gaussian") && reason.contains("use l2"), "{reason}");
    }
}
