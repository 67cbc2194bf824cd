//! A signature in JSON: `{"centroids": [[0.1, 0.2], [0.3, 0.4]], "weights": [0.25, 0.75]}`.
//!
//! If they are known, `"width"` and `"height"` say the size of the image in pixels. `"coordinates"` names the numbers
//! of a centroid. `"alpha"` is for the reader of the whole file. Numbers are written with the fewest digits that read back as the same `f32`.

use std::fmt::Write;

use boxwork_runtime::parameter::did_you_mean;
use serde_json::{Map, Value};

use super::SizedSignature;
use crate::json_lines::ALPHA;
use crate::kinds::lists::write_numbers;

/// The keys of a signature.
const KEYS: [&str; 6] = ["centroids", "weights", "width", "height", "coordinates", ALPHA];

const INFALLIBLE: &str = "a string takes any text";

/// The numbers of a signature column by column, not yet checked.
#[derive(Debug)]
pub(super) struct Parsed {
    /// A column for each coordinate.
    pub(super) columns: Vec<Vec<f32>>,
    /// A weight for each centroid.
    pub(super) weights: Vec<f32>,
    /// Width and height of the image in pixels, or zeros.
    pub(super) size: (u32, u32),
    /// The names of the coordinates, if the value gives them.
    pub(super) coordinates: Option<Vec<String>>,
}

/// Appends a signature; the names of its coordinates too, if they are given.
pub(super) fn write(item: SizedSignature<'_>, coordinates: Option<&[String]>, text: &mut String) {
    let SizedSignature { signature, width, height } = item;
    text.push('{');
    if (width, height) != (0, 0) {
        write!(text, "\"width\":{width},\"height\":{height},").expect(INFALLIBLE);
    }
    if let Some(coordinates) = coordinates {
        write!(text, "\"coordinates\":{},", Value::from(coordinates)).expect(INFALLIBLE);
    }
    text.push_str("\"centroids\":[");
    for centroid in 0..signature.len() {
        if centroid > 0 {
            text.push(',');
        }
        let dimensions = 0..signature.dimensions();
        write_numbers(dimensions.map(|dimension| signature.coordinate(dimension)[centroid]), text);
    }
    text.push_str("],\"weights\":");
    write_numbers(signature.weights().iter().copied(), text);
    text.push('}');
}

/// Reads a signature; the error says what is wrong with it.
pub(super) fn read(members: &Map<String, Value>) -> Result<Parsed, String> {
    if let Some(key) = members.keys().find(|key| !KEYS.contains(&key.as_str())) {
        let near = did_you_mean(key, KEYS);
        return Err(format!("unknown key `{key}`{near}; known are name, {}", KEYS.join(", ")));
    }
    let list = |key: &str, what: &str| {
        members.get(key).and_then(Value::as_array).ok_or_else(|| wanted(members, key, what))
    };
    let centroids = list("centroids", "a list of centroids, each a list of numbers")?;
    let weights = list("weights", "a list of numbers, one a centroid")?;
    if weights.len() != centroids.len() {
        let (centroids, weights) = (centroids.len(), weights.len());
        return Err(format!("{centroids} centroids and {weights} weights: give one weight a centroid"));
    }
    let weights = weights.iter().enumerate().map(|(idx, value)| number(value, || format!("weight {idx}")));
    let weights = weights.collect::<Result<_, _>>()?;
    let side = |key: &str| match members.get(key) {
        None => Ok(0),
        Some(value) => value
            .as_u64()
            .and_then(|side| u32::try_from(side).ok())
            .ok_or_else(|| wanted(members, key, "a whole number of pixels")),
    };
    let coordinates = match members.get("coordinates") {
        None => None,
        Some(value) => {
            let names =
                value.as_array().map(|names| names.iter().map(|name| name.as_str().map(str::to_owned)));
            let names: Option<Vec<String>> = names.and_then(Iterator::collect);
            Some(names.ok_or_else(|| wanted(members, "coordinates", "a list of names"))?)
        }
    };
    let (columns, size) = (columns(centroids)?, (side("width")?, side("height")?));
    Ok(Parsed { columns, weights, size, coordinates })
}

fn wanted(members: &Map<String, Value>, key: &str, what: &str) -> String {
    match members.get(key) {
        Some(_) => format!("`{key}` must be {what}"),
        None => format!("`{key}` is missing: it must be {what}"),
    }
}

/// The coordinates of all centroids, a column each.
fn columns(centroids: &[Value]) -> Result<Vec<Vec<f32>>, String> {
    let rows = centroids.iter().enumerate().map(|(idx, centroid)| {
        centroid.as_array().ok_or_else(|| format!("centroid {idx} must be a list of numbers"))
    });
    let rows: Vec<&Vec<Value>> = rows.collect::<Result<_, _>>()?;
    let dimensions = rows.first().map_or(0, |row| row.len());
    let mut columns = vec![Vec::with_capacity(rows.len()); dimensions];
    for (idx, row) in rows.into_iter().enumerate() {
        if row.len() != dimensions {
            return Err(format!(
                "centroid {idx} has {} coordinates where centroid 0 has {dimensions}: all have the same number",
                row.len()
            ));
        }
        for (coordinate, value) in row.iter().enumerate() {
            columns[coordinate].push(number(value, || format!("coordinate {coordinate} of centroid {idx}"))?);
        }
    }
    Ok(columns)
}

fn number(value: &Value, place: impl Fn() -> String) -> Result<f32, String> {
    let number = value.as_f64().ok_or_else(|| format!("{} is {value}, not a number", place()))? as f32;
    if number.is_finite() {
        Ok(number)
    } else {
        Err(format!("{} is {value}, too large for a 32-bit number", place()))
    }
}

#[cfg(test)]
mod tests {
    use boxwork_kernels::sqfd::Columns;

    use super::*;

    fn parse(text: &str) -> Result<Parsed, String> {
        let value: Value = serde_json::from_str(text).unwrap();
        read(value.as_object().unwrap())
    }

    #[test]
    fn every_number_reads_back_to_the_bit() {
        let mut state = 1u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f32::from_bits(state ^ (state >> 13))
        };
        let values: Vec<f32> =
            std::iter::repeat_with(&mut random).filter(|value| value.is_finite()).take(20_000).collect();
        let values: Vec<f32> = values
            .into_iter()
            .chain([0.0, -0.0, f32::MIN_POSITIVE, 1e-45, f32::MAX, 0.1, 1.0 / 3.0])
            .collect();
        let columns: [&[f32]; 2] = [&values, &values];
        let signature = Columns::new(&columns, &values).signature(0, values.len());
        let mut text = String::new();
        let coordinates = ["x".to_owned(), "y\"".to_owned()];
        write(SizedSignature { signature, width: 3, height: 4 }, Some(&coordinates), &mut text);
        let parsed = parse(&text).unwrap();
        assert_eq!((parsed.size, parsed.coordinates.unwrap()), ((3, 4), coordinates.to_vec()));
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        for column in [&parsed.columns[0], &parsed.columns[1], &parsed.weights] {
            assert_eq!(bits(column), bits(&values));
        }
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, reason) in [
            ("{\"centroids\":[[1]],\"weight\":[1]}", "did you mean `weights`?"),
            ("{\"weights\":[1]}", "`centroids` is missing"),
            ("{\"centroids\":[[1]]}", "`weights` is missing"),
            ("{\"centroids\":[[1]],\"weights\":[1,2]}", "1 centroids and 2 weights"),
            ("{\"centroids\":[[1,2],[3]],\"weights\":[1,1]}", "centroid 1 has 1 coordinates"),
            ("{\"centroids\":[1],\"weights\":[1]}", "centroid 0 must be a list"),
            ("{\"centroids\":[[\"1\"]],\"weights\":[1]}", "coordinate 0 of centroid 0 is \"1\""),
            ("{\"centroids\":[[1]],\"weights\":[null]}", "weight 0 is null"),
            ("{\"centroids\":[[1e39]],\"weights\":[1]}", "too large"),
            ("{\"centroids\":[[1]],\"weights\":[1],\"width\":-1}", "`width` must be a whole number"),
            ("{\"centroids\":[[1]],\"weights\":[1],\"coordinates\":\"x\"}", "a list of names"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(reason), "{text}: {message}");
        }
    }
}
