//! One signature as a line of JSON, written and read.
//!
//! `{"name": "cats/001.jpg", "centroids": [[0.1, 0.2], [0.3, 0.4]], "weights": [0.25, 0.75]}`, and where they are
//! known `"width"`, `"height"`, and `"coordinates"`, the names of a centroid's numbers. Numbers are written with the
//! fewest digits that read back as the same `f32`.

use std::fmt::Write;
use std::io::{self, BufRead, Read};

use boxwork_kernels::sqfd::SignatureRef;
use boxwork_runtime::parameter::did_you_mean;
use serde_json::{Map, Value};

/// What a line may say.
const KEYS: [&str; 6] = ["name", "centroids", "weights", "width", "height", "coordinates"];

/// Bytes of a line at most: a file without lines must not take all memory.
const LINE_BYTES_MAX: u64 = 1 << 28;
/// The same in tests.
const LINE_BYTES_SMALL: u64 = 1 << 20;

/// What a line said; the numbers column by column, not yet checked as a signature.
#[derive(Debug)]
pub struct Line {
    /// What it is called.
    pub name: String,
    /// The coordinates, a column each.
    pub columns: Vec<Vec<f32>>,
    /// A weight a centroid.
    pub weights: Vec<f32>,
    /// Of the original image in pixels, or 0.
    pub width: u32,
    /// Of the original image in pixels, or 0.
    pub height: u32,
    /// The names of the coordinates, where the line gives them.
    pub coordinates: Option<Vec<String>>,
}

/// Appends a line; `coordinates` are written where given.
pub fn write_line(
    text: &mut String,
    name: &str,
    signature: SignatureRef<'_>,
    (width, height): (u32, u32),
    coordinates: Option<&[String]>,
) {
    write!(text, "{{\"name\":{}", Value::from(name)).expect(INFALLIBLE);
    if (width, height) != (0, 0) {
        write!(text, ",\"width\":{width},\"height\":{height}").expect(INFALLIBLE);
    }
    if let Some(coordinates) = coordinates {
        write!(text, ",\"coordinates\":{}", Value::from(coordinates)).expect(INFALLIBLE);
    }
    text.push_str(",\"centroids\":[");
    for centroid in 0..signature.len() {
        text.push_str(if centroid == 0 { "[" } else { ",[" });
        numbers(text, (0..signature.dimensions()).map(|dimension| signature.coordinate(dimension)[centroid]));
        text.push(']');
    }
    text.push_str("],\"weights\":[");
    numbers(text, signature.weights().iter().copied());
    text.push_str("]}\n");
}

const INFALLIBLE: &str = "a string takes any text";

fn numbers(text: &mut String, values: impl Iterator<Item = f32>) {
    for (idx, value) in values.enumerate() {
        let comma = if idx == 0 { "" } else { "," };
        write!(text, "{comma}{value:?}").expect(INFALLIBLE);
    }
}

/// Appends the next line of a file to a text; gives its bytes, 0 at the end of the file.
///
/// # Errors
/// When the file cannot be read, is not UTF-8 there, or has no end of a line within 256 MiB.
pub fn next_line(reader: &mut dyn BufRead, text: &mut String) -> io::Result<usize> {
    let most = crate::limit(LINE_BYTES_MAX, LINE_BYTES_SMALL);
    let mut limited = reader.take(most + 1);
    let read = limited.read_line(text);
    // First, as the limit may cut a letter in two.
    match limited.limit() == 0 {
        true => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!(
                "the line is longer than {} MiB: give each object a line of its own, and no more numbers than that",
                most >> 20
            ),
        )),
        false => read,
    }
}

/// Reads a line; the error says what is wrong with it.
pub fn read_line(text: &str) -> Result<Line, String> {
    let object: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
        let hint = match ["NaN", "Infinity", "nan", "inf"].iter().any(|word| text.contains(word)) {
            true => "; JSON has no NaN and no infinity: coordinates and weights are finite numbers",
            false => "",
        };
        // The line within this text is always 1; the caller knows the file's.
        format!("not a JSON object: {}{hint}", error.to_string().replace(" at line 1 column", " at column"))
    })?;
    if let Some(key) = object.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!("unknown key `{key}`{}; known are {}", did_you_mean(key, KEYS), KEYS.join(", ")));
    }
    let wanted = |key: &str, what: &str| match object.get(key) {
        Some(_) => format!("`{key}` must be {what}"),
        None => format!("`{key}` is missing: it must be {what}"),
    };
    let name = object.get("name").and_then(Value::as_str).ok_or_else(|| wanted("name", "text"))?;
    let centroids = object.get("centroids").and_then(Value::as_array);
    let centroids =
        centroids.ok_or_else(|| wanted("centroids", "a list of centroids, each a list of numbers"))?;
    let weights = object.get("weights").and_then(Value::as_array);
    let weights = weights.ok_or_else(|| wanted("weights", "a list of numbers, one a centroid"))?;
    if weights.len() != centroids.len() {
        return Err(format!(
            "{} centroids and {} weights: give one weight a centroid",
            centroids.len(),
            weights.len()
        ));
    }
    let weights: Vec<f32> = weights
        .iter()
        .enumerate()
        .map(|(idx, value)| number(value, || format!("weight {idx}")))
        .collect::<Result<_, _>>()?;

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
    let side = |key: &str| match object.get(key) {
        None => Ok(0),
        Some(value) => value
            .as_u64()
            .and_then(|side| u32::try_from(side).ok())
            .ok_or_else(|| wanted(key, "a whole number of pixels")),
    };
    let coordinates = match object.get("coordinates") {
        None => None,
        Some(value) => {
            let names =
                value.as_array().map(|names| names.iter().map(|name| name.as_str().map(str::to_owned)));
            let names: Option<Vec<String>> = names.and_then(Iterator::collect);
            Some(names.ok_or_else(|| wanted("coordinates", "a list of names"))?)
        }
    };
    let (width, height) = (side("width")?, side("height")?);
    Ok(Line { name: name.to_owned(), columns, weights, width, height, coordinates })
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
        write_line(&mut text, "a \"b\"\n\u{e9}", signature, (3, 4), Some(&["x".into(), "y".into()]));
        assert_eq!(text.matches('\n').count(), 1);
        let line = read_line(&text).unwrap();
        assert_eq!((line.name.as_str(), line.width, line.height), ("a \"b\"\n\u{e9}", 3, 4));
        assert_eq!(line.coordinates.unwrap(), ["x", "y"]);
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        for column in [&line.columns[0], &line.columns[1], &line.weights] {
            assert_eq!(bits(column), bits(&values));
        }
    }

    #[test]
    fn says_what_is_wrong() {
        for (line, reason) in [
            ("", "not a JSON object: EOF"),
            ("[1]", "not a JSON object"),
            ("{\"name\":\"a\",\"centroids\":[[NaN]],\"weights\":[1]}", "JSON has no NaN"),
            ("{\"name\":\"a\",\"centroids\":[[1]],\"weight\":[1]}", "did you mean `weights`?"),
            ("{\"centroids\":[[1]],\"weights\":[1]}", "`name` is missing"),
            ("{\"name\":1,\"centroids\":[[1]],\"weights\":[1]}", "`name` must be text"),
            ("{\"name\":\"a\",\"weights\":[1]}", "`centroids` is missing"),
            ("{\"name\":\"a\",\"centroids\":[[1]]}", "`weights` is missing"),
            ("{\"name\":\"a\",\"centroids\":[[1]],\"weights\":[1,2]}", "1 centroids and 2 weights"),
            ("{\"name\":\"a\",\"centroids\":[[1,2],[3]],\"weights\":[1,1]}", "centroid 1 has 1 coordinates"),
            ("{\"name\":\"a\",\"centroids\":[1],\"weights\":[1]}", "centroid 0 must be a list"),
            (
                "{\"name\":\"a\",\"centroids\":[[\"1\"]],\"weights\":[1]}",
                "coordinate 0 of centroid 0 is \"1\"",
            ),
            ("{\"name\":\"a\",\"centroids\":[[1]],\"weights\":[null]}", "weight 0 is null"),
            ("{\"name\":\"a\",\"centroids\":[[1e39]],\"weights\":[1]}", "too large"),
            (
                "{\"name\":\"a\",\"centroids\":[[1]],\"weights\":[1],\"width\":-1}",
                "`width` must be a whole number",
            ),
            ("{\"name\":\"a\",\"centroids\":[[1]],\"weights\":[1],\"coordinates\":\"x\"}", "a list of names"),
        ] {
            let message = read_line(line).unwrap_err();
            assert!(message.contains(reason), "{line}: {message}");
        }
    }
}
