//! The qualities of the classes, as text for people, as JSON or as rows.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use boxwork_kernels::interrupt::{Interrupt, Interrupted, Patience};
use boxwork_kernels::quality::{IntrinsicDimensionality, mean_average_precision};
use boxwork_runtime::printable::printable;
use serde_json::{Map, Value as Json, json};

/// Classes whose rows are written between two questions.
const CLASSES_PER_QUESTION: usize = 1 << 10;

/// The qualities of all classes.
pub(super) struct Report<'a> {
    /// In the order of the classes' names.
    pub(super) classes: Vec<Class<'a>>,
    pub(super) objects: usize,
    pub(super) idim: Option<IntrinsicDimensionality>,
}

/// A class and the qualities of its queries; it has none if it has a single object.
pub(super) struct Class<'a> {
    pub(super) name: &'a str,
    pub(super) objects: usize,
    pub(super) average_precisions: &'a [f64],
    pub(super) precisions: &'a [f64],
}

impl Report<'_> {
    fn map(&self) -> Option<f64> {
        mean_average_precision(
            self.classes.iter().flat_map(|class| class.average_precisions.iter().copied().map(Some)),
        )
    }

    fn precision(&self) -> Option<f64> {
        mean(self.classes.iter().flat_map(|class| class.precisions))
    }

    pub(super) fn json(
        &self,
        distance: Option<&str>,
        interrupt: Interrupt<'_>,
    ) -> Result<String, Interrupted> {
        let mut patience = Patience::new(interrupt, CLASSES_PER_QUESTION);
        let mut classes: Map<String, Json> = Map::new();
        for class in &self.classes {
            patience.spend(1)?;
            let json = json!({
                "map": class.map(),
                "precision_at_10": mean(class.precisions),
                "objects": class.objects,
            });
            classes.insert(class.name.to_owned(), json);
        }
        let json = json!({
            "distance": distance,
            "map": self.map(),
            "precision_at_10": self.precision(),
            "idim": self.idim.map(|idim| idim.value),
            "idim_error": self.idim.map(|idim| idim.error),
            "classes": classes,
        });
        Ok(format!("{json:#}\n"))
    }

    /// Rows of [`columns::qualities`](crate::columns::qualities): one for each class, and one for all.
    pub(super) fn rows(&self, distance: Option<&str>) -> Result<RecordBatch, ArrowError> {
        let classes = self.classes.iter();
        let names = classes.clone().map(|class| Some(class.name)).chain([None]);
        let objects = classes.clone().map(|class| class.objects as u64).chain([self.objects as u64]);
        let maps = classes.clone().map(Class::map).chain([self.map()]);
        let precisions = classes.map(|class| mean(class.precisions)).chain([self.precision()]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter(names)),
            Arc::new(UInt64Array::from_iter_values(objects)),
            Arc::new(Float64Array::from_iter(maps)),
            Arc::new(Float64Array::from_iter(precisions)),
        ];
        let fields = vec![
            Field::new("class", DataType::Utf8, true),
            Field::new("objects", DataType::UInt64, false),
            Field::new("map", DataType::Float64, true),
            Field::new("precision_at_10", DataType::Float64, true),
        ];
        let mut metadata = HashMap::new();
        metadata.extend(distance.map(|distance| ("distance".to_owned(), distance.to_owned())));
        metadata.extend(self.idim.map(|idim| ("idim".to_owned(), format!("{:?}", idim.value))));
        metadata.extend(self.idim.map(|idim| ("idim_error".to_owned(), format!("{:?}", idim.error))));
        RecordBatch::try_new(Arc::new(Schema::new(fields).with_metadata(metadata)), columns)
    }

    pub(super) fn table(
        &self,
        distance: Option<&str>,
        interrupt: Interrupt<'_>,
    ) -> Result<String, Interrupted> {
        let mut patience = Patience::new(interrupt, CLASSES_PER_QUESTION);
        let names: Vec<String> = self.classes.iter().map(|class| printable(class.name)).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max("all classes".len());
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.4}"));
        let mut text = format!("{:width$}  objects     MAP    P@10\n", "class");
        let mut row = |name: &str, objects: usize, map: Option<f64>, precision: Option<f64>| {
            let (map, precision) = (number(map), number(precision));
            text.push_str(&format!("{name:width$}  {objects:>7}  {map:>6}  {precision:>6}\n"));
        };
        for (name, class) in names.iter().zip(&self.classes) {
            patience.spend(1)?;
            row(name, class.objects, class.map(), mean(class.precisions));
        }
        row("all classes", self.objects, self.map(), self.precision());
        let undefined = if self.objects < 2 { "there are no two objects" } else { "all distances are equal" };
        let idim = self.idim.map_or(format!("undefined, as {undefined}"), |idim| in_words(&idim));
        let distance = distance.map_or_else(String::new, |distance| format!("distance: {distance}\n"));
        Ok(text + &format!("\n{distance}intrinsic dimensionality: {idim}\n"))
    }
}

/// An intrinsic dimensionality with the digits that are right.
fn in_words(idim: &IntrinsicDimensionality) -> String {
    let IntrinsicDimensionality { value, error } = *idim;
    if error.is_infinite() {
        return format!("{value:.4}, with an error that is not known");
    }
    // The last digit counts in units that the error fills, at least in part: 0.004 leaves three places.
    let places = if error > 0.0 { (-error.log10()).ceil().clamp(0.0, 4.0) as usize } else { 4 };
    let unit = 10f64.powi(-(places as i32));
    if error <= unit / 2.0 {
        return format!("{value:.places$}");
    }
    format!("{value:.places$}, within {:.places$} of that of exact distances", (error / unit).ceil() * unit)
}

impl Class<'_> {
    fn map(&self) -> Option<f64> {
        mean_average_precision(self.average_precisions.iter().copied().map(Some))
    }
}

fn mean<'a>(values: impl IntoIterator<Item = &'a f64>) -> Option<f64> {
    let (sum, count) = values.into_iter().fold((0.0, 0usize), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use boxwork_kernels::interrupt::never;

    use super::*;

    #[test]
    fn a_report_of_many_classes_stops_when_asked_to() {
        let class = Class { name: "a", objects: 1, average_precisions: &[], precisions: &[] };
        let classes = (0..3 * CLASSES_PER_QUESTION).map(|_| Class { ..class }).collect();
        let report = Report { classes, objects: 3 * CLASSES_PER_QUESTION, idim: None };
        for text in [Report::table, Report::json] {
            let asked = Cell::new(0);
            let interrupt = || {
                asked.set(asked.get() + 1);
                asked.get() == 2
            };
            assert_eq!((text(&report, None, &interrupt), asked.get()), (Err(Interrupted), 2));
            assert!(text(&report, None, &never).is_ok());
        }
    }

    #[test]
    fn the_table_prints_digits_of_idim_that_are_right() {
        for (error, expected) in [
            (0.0, "0.4567"),
            (1e-7, "0.4567"),
            (0.0041, "0.457, within 0.005 of that of exact distances"),
            (0.0004, "0.4567, within 0.0004 of that of exact distances"),
            (0.00049, "0.4567, within 0.0005 of that of exact distances"),
            (7.5, "0, within 8 of that of exact distances"),
            (f64::INFINITY, "0.4567, with an error that is not known"),
        ] {
            assert_eq!(in_words(&IntrinsicDimensionality { value: 0.45672, error }), expected, "{error}");
        }
    }
}
