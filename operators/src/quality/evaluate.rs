//! `evaluate`: how well the distances find images of the same class.
//!
//! Invariants: every object is a query once, and is not in its own ranking; objects at one distance stand by their
//! ids; a class of one image is no query, since there is nothing to find; the intrinsic dimensionality has the same bits in
//! whatever order the distances arrive.

use std::collections::BTreeMap;
use std::sync::Arc;

use boxwork_kernels::memory::filled;
use boxwork_kernels::quality::{
    DistanceMoments, IntrinsicDimensionality, average_precision, mean_average_precision, precision_at,
};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Part};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_runtime::printable::printable;
use serde_json::{Map, Value as Json, json};

use crate::columns;
use crate::quality::all_pairs::pairs_count;
use crate::resources::{self, store_parameter};
use crate::results::sink::{OUT, OrderedWriter, class_of, share_writer};
use boxwork_stores::space::SharedSpace;
use boxwork_stores::spaces;
use boxwork_stores::store::Store;

/// The precision counts the objects of the query's class among so many of the nearest.
const NEAREST: usize = 10;

/// Distances that are sorted in one firing, about: some milliseconds' worth.
const DISTANCES_PER_FIRING: usize = 1 << 17;

const DISTANCES: In =
    In::stream(0, "distances", columns::pair_distances, "the distance of every two objects");

/// Measures the quality of a search over a store whose names begin with their classes.
///
/// An object's class is the folder that its name ends in. Every object is a query.
///
/// The intrinsic dimensionality is that of the distances as they come, in `f64`. If they are not exact, the box adds up
/// their errors and gives a bound on the difference to the intrinsic dimensionality of the exact ones. For the rankings the
/// distances are kept as `f32`, since there are many.
///
/// # Inputs
/// `distances`: the distance of every two objects, as `all_pairs` and `pair_distances` give them.
///
/// # Outputs
/// None.
///
/// # Parameters
/// `store`: the store, for the names. `space`: the space of the distances, which is then named, with the origin of its
/// alpha. `out`: the file to write, or `-` for standard output. `format`: `table` for people or `json`: `{"distance",
/// "map", "precision_at_10", "idim", "classes": {"NAME": {"map", "precision_at_10", "objects"}}}`; a figure without a
/// value is `null`.
pub static EVALUATE: OperatorSpec = OperatorSpec {
    parameters: &[
        store_parameter("the store whose objects the distances are of"),
        Parameter::new(
            "space",
            ParameterType::Resource("space"),
            Default::Absent,
            "the space of the distances, to name it",
        ),
        OUT,
        Parameter::new(
            "format",
            ParameterType::Choice(&["table", "json"]),
            Default::Text("table"),
            "what is written",
        ),
    ],
    inputs: &[DISTANCES],
    example: "quality: {kind: evaluate, store: signatures, format: json}",
    share: Some(share_writer),
    ..OperatorSpec::new("evaluate", "Measures how well images of a class are found.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let store = resources::store(bind)?;
    let objects = store.objects_count() as usize;
    let space = bind.get_resource::<SharedSpace>("space")?;
    Ok(Box::new(Evaluate {
        store,
        distance: space.map(|space| spaces::in_words(&*space.0)),
        writer: bind.shared(),
        part: bind.part,
        is_json: bind.text("format") == "json",
        objects,
        triangle: Vec::new(),
        moments: Vec::new(),
        seen: 0,
        ranked: None,
    }))
}

struct Evaluate {
    store: Arc<dyn Store>,
    /// The distance in words, if the space is given.
    distance: Option<String>,
    writer: Arc<OrderedWriter>,
    part: Part,
    is_json: bool,
    objects: usize,
    /// The distances row by row, as `f32`, since there are many.
    triangle: Vec<f32>,
    /// The moments of each envelope, with the place of its first pair.
    moments: Vec<(usize, DistanceMoments)>,
    seen: u64,
    ranked: Option<Ranked>,
}

/// The classes, and the qualities of the queries so far.
struct Ranked {
    /// Each object's class, by its place among the names.
    class_of: Vec<usize>,
    classes: Vec<Class>,
    next: usize,
    order: Vec<u32>,
}

struct Class {
    name: String,
    objects: usize,
    average_precisions: Vec<Option<f64>>,
    precisions: Vec<f64>,
}

impl Operator for Evaluate {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let expected = pairs_count(self.objects as u64);
        while let Some(envelope) = cx.take(DISTANCES) {
            self.add(&envelope)?;
            cx.progress(self.seen, expected + self.objects as u64);
        }
        if !cx.is_ended(DISTANCES) {
            return Ok(Flow::Wait);
        }
        let ranked = match &mut self.ranked {
            Some(ranked) => ranked,
            None => {
                if self.seen != expected || self.triangle.iter().any(|distance| distance.is_nan()) {
                    return Err(BoxError::new(format!(
                        "{} distances came in, but the {} objects of the store make {expected} pairs: connect \
                         all_pairs and pair_distances over the same store",
                        self.seen, self.objects
                    )));
                }
                let store = &self.store;
                self.ranked.insert(cx.detached("disk", || Ranked::new(&**store))??)
            }
        };
        let upto = self.objects.min(ranked.next + (DISTANCES_PER_FIRING / self.objects).max(1));
        while ranked.next < upto {
            ranked.rank(&self.triangle);
        }
        cx.progress(expected + ranked.next as u64, expected + self.objects as u64);
        if cx.is_cancelled() {
            return Ok(Flow::Done);
        }
        if ranked.next < self.objects {
            return Ok(Flow::More);
        }
        let idim = intrinsic_dimensionality(&mut self.moments);
        let distance = self.distance.as_deref();
        let text = if self.is_json { ranked.json(distance, idim) } else { ranked.table(distance, idim) };
        let (writer, part) = (&self.writer, self.part);
        cx.detached("disk", || writer.write(part, text.into_bytes()))??;
        Ok(Flow::Done)
    }
}

/// The place of a pair in the triangle, for `a < b`.
fn place(a: usize, b: usize, objects: usize) -> usize {
    a * (2 * objects - a - 1) / 2 + (b - a - 1)
}

impl Evaluate {
    fn add(&mut self, envelope: &Envelope) -> Result<(), BoxError> {
        if self.triangle.is_empty() {
            self.triangle = filled(
                pairs_count(self.objects as u64) as usize,
                f32::NAN,
                || format!("the distance of every two of {} objects", self.objects),
                "evaluate a smaller store, or free memory",
            )?;
        }
        let (a, b) = (envelope.u64s("a")?, envelope.u64s("b")?);
        let (distances, errors) = (envelope.f64s("distance")?, envelope.f64s("error")?);
        let (mut first, mut moments) = (None, DistanceMoments::default());
        for row in 0..envelope.rows() {
            let (a, b) = (a[row].min(b[row]), a[row].max(b[row]));
            if a == b || !self.store.has(a) || !self.store.has(b) {
                return Err(BoxError::new(format!(
                    "the distance of {a} and {b} is none of two objects of the store, which has {}",
                    self.objects
                )));
            }
            let (a, b) = (self.store.rank(a) as usize, self.store.rank(b) as usize);
            let place = place(a, b, self.objects);
            self.triangle[place] = distances[row] as f32;
            moments.add(distances[row], errors[row]);
            first = first.or(Some(place));
        }
        self.moments.extend(first.map(|first| (first, moments)));
        self.seen += envelope.rows() as u64;
        Ok(())
    }
}

/// The intrinsic dimensionality of all pairs.
fn intrinsic_dimensionality(
    of_envelopes: &mut [(usize, DistanceMoments)],
) -> Option<IntrinsicDimensionality> {
    // Envelopes overtake each other where `pair_distances` has copies. Merging rounds, so the order of the merges has to be
    // the same in every run.
    of_envelopes.sort_unstable_by_key(|(first, _)| *first);
    let mut all = DistanceMoments::default();
    of_envelopes.iter().for_each(|(_, moments)| all.merge(moments));
    all.intrinsic_dimensionality()
}

impl Ranked {
    fn new(store: &dyn Store) -> Result<Self, BoxError> {
        let mut names: Vec<Option<String>> = Vec::with_capacity(store.objects_count() as usize);
        for batch in 0..store.batches() {
            store.each_name(batch, &mut |id, name| {
                if store.has(id) {
                    names.push(class_of(name).map(str::to_owned));
                }
            })?;
        }
        if names.iter().all(Option::is_none) {
            return Err(BoxError::new(format!(
                "no name in `{}` has a folder, so there are no classes to compare: name the objects CLASS/NAME",
                store.path().display()
            )));
        }
        let mut classes: BTreeMap<&str, usize> = BTreeMap::new();
        for name in &names {
            *classes.entry(name.as_deref().unwrap_or_default()).or_default() += 1;
        }
        let places: BTreeMap<&str, usize> =
            classes.keys().enumerate().map(|(idx, name)| (*name, idx)).collect();
        Ok(Self {
            class_of: names.iter().map(|name| places[name.as_deref().unwrap_or_default()]).collect(),
            classes: classes
                .iter()
                .map(|(name, objects)| Class {
                    name: (*name).to_owned(),
                    objects: *objects,
                    average_precisions: Vec::new(),
                    precisions: Vec::new(),
                })
                .collect(),
            next: 0,
            order: Vec::new(),
        })
    }

    /// Ranks all objects by their distance from the next query.
    fn rank(&mut self, triangle: &[f32]) {
        let (query, objects) = (self.next, self.class_of.len());
        self.next += 1;
        let class = &mut self.classes[self.class_of[query]];
        if class.objects < 2 {
            return;
        }
        let distance =
            |other: u32| triangle[place(query.min(other as usize), query.max(other as usize), objects)];
        self.order.clear();
        self.order.extend((0..objects as u32).filter(|other| *other as usize != query));
        self.order.sort_unstable_by(|a, b| distance(*a).total_cmp(&distance(*b)).then(a.cmp(b)));
        let hits = || self.order.iter().map(|other| self.class_of[*other as usize] == self.class_of[query]);
        class.average_precisions.push(average_precision(hits(), class.objects - 1));
        class.precisions.extend(precision_at(hits(), NEAREST));
    }

    fn map(&self) -> Option<f64> {
        mean_average_precision(self.classes.iter().flat_map(|class| class.average_precisions.iter().copied()))
    }

    fn precision(&self) -> Option<f64> {
        mean(self.classes.iter().flat_map(|class| &class.precisions))
    }

    fn json(&self, distance: Option<&str>, idim: Option<IntrinsicDimensionality>) -> String {
        let classes: Map<String, Json> = self
            .classes
            .iter()
            .map(|class| {
                let json = json!({
                    "map": class.map(),
                    "precision_at_10": mean(&class.precisions),
                    "objects": class.objects,
                });
                (class.name.clone(), json)
            })
            .collect();
        let json = json!({
            "distance": distance,
            "map": self.map(),
            "precision_at_10": self.precision(),
            "idim": idim.map(|idim| idim.value),
            "idim_error": idim.map(|idim| idim.error),
            "classes": classes,
        });
        format!("{json:#}\n")
    }

    fn table(&self, distance: Option<&str>, idim: Option<IntrinsicDimensionality>) -> String {
        let names: Vec<String> = self.classes.iter().map(|class| printable(&class.name)).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max("all classes".len());
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.4}"));
        let mut text = format!("{:width$}  objects     MAP    P@10\n", "class");
        let mut row = |name: &str, objects: usize, map: Option<f64>, precision: Option<f64>| {
            let (map, precision) = (number(map), number(precision));
            text.push_str(&format!("{name:width$}  {objects:>7}  {map:>6}  {precision:>6}\n"));
        };
        for (name, class) in names.iter().zip(&self.classes) {
            row(name, class.objects, class.map(), mean(&class.precisions));
        }
        row("all classes", self.class_of.len(), self.map(), self.precision());
        let idim = idim.map_or("undefined, as all distances are equal".to_owned(), |idim| in_words(&idim));
        let distance = distance.map_or_else(String::new, |distance| format!("distance: {distance}\n"));
        text + &format!("\n{distance}intrinsic dimensionality: {idim}\n")
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

impl Class {
    fn map(&self) -> Option<f64> {
        mean_average_precision(self.average_precisions.iter().copied())
    }
}

fn mean<'a>(values: impl IntoIterator<Item = &'a f64>) -> Option<f64> {
    let (sum, count) = values.into_iter().fold((0.0, 0usize), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Float64Array, UInt64Array};
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_runtime::parameter::Value;

    use super::*;
    use boxwork_stores::signature_store::StoreInfo;
    use boxwork_stores::testing;

    const NAMES: [&str; 6] = ["p/cats/0", "cats/1", "p/cats/2", "dogs/3", "dogs/4", "owls/5"];
    /// On a line: cats at 0, 1 and 3, dogs at 2 and 10, an owl far away.
    const PLACES: [f64; 6] = [0.0, 1.0, 3.0, 2.0, 10.0, 100.0];

    /// The distance of two of them, which f32 cannot hold.
    fn distance((a, b): (u64, u64)) -> f64 {
        (PLACES[a as usize] - PLACES[b as usize]).abs() / 10.0
    }

    fn check(format: &str, names: &[&str], pairs: &[(u64, u64)]) -> Result<String, BoxError> {
        check_with_error(format, names, pairs, 0.0)
    }

    /// Evaluates distances that may be off by `error`.
    fn check_with_error(
        format: &str,
        names: &[&str],
        pairs: &[(u64, u64)],
        error: f64,
    ) -> Result<String, BoxError> {
        let folder = tempfile::tempdir().unwrap();
        let objects: Vec<(&str, u64)> = names.iter().map(|name| (*name, 1)).collect();
        let store: Resource =
            testing::shared_store(&testing::store_of(folder.path(), &objects, &StoreInfo::default()));
        let out = folder.path().join("quality");
        let given = [("store", "s"), ("format", format), ("out", out.to_str().unwrap())]
            .map(|(name, value)| (name, Value::Text(value.to_owned())));
        let mut harness = Harness::with_resources(&EVALUATE, given, [("s", store)]).unwrap();
        for pairs in pairs.chunks(4) {
            let distances = pairs.iter().copied().map(distance);
            let errors = vec![error; pairs.len()];
            let columns: [(&str, ArrayRef); 4] = [
                ("a", Arc::new(UInt64Array::from_iter_values(pairs.iter().map(|pair| pair.0)))),
                ("b", Arc::new(UInt64Array::from_iter_values(pairs.iter().map(|pair| pair.1)))),
                ("distance", Arc::new(Float64Array::from_iter_values(distances))),
                ("error", Arc::new(Float64Array::from(errors))),
            ];
            harness.give(DISTANCES, Envelope::from_columns(columns).unwrap());
        }
        harness.end(DISTANCES);
        harness.run()?;
        assert!(harness.is_done());
        assert_eq!(harness.progress().0, harness.progress().1);
        Ok(std::fs::read_to_string(out).unwrap())
    }

    fn all_pairs(objects: u64) -> Vec<(u64, u64)> {
        (0..objects).flat_map(|a| (a + 1..objects).map(move |b| (b, a))).collect()
    }

    #[test]
    fn qualities_by_hand() {
        let json: Json = serde_json::from_str(&check("json", &NAMES, &all_pairs(6)).unwrap()).unwrap();
        // From 0: 1(c) 3(d) 2(c); from 1: 0(c) 3(d) 2(c), as 0 and 3 are equally far; from 2: 3(d) 1(c) 0(c).
        let cats = [(1.0 + 2.0 / 3.0) / 2.0, (1.0 + 2.0 / 3.0) / 2.0, (1.0 / 2.0 + 2.0 / 3.0) / 2.0];
        // From 3: 1(c) 2(c) 0(c) 4(d); from 4: 2(c) 3(d).
        let dogs = [1.0 / 4.0, 1.0 / 2.0];
        let near = |found: &Json, expected: f64| (found.as_f64().unwrap() - expected).abs() < 1e-12;
        assert!(near(&json["map"], (cats.iter().sum::<f64>() + dogs.iter().sum::<f64>()) / 5.0), "{json}");
        assert!(near(&json["classes"]["cats"]["map"], cats.iter().sum::<f64>() / 3.0), "{json}");
        assert!(near(&json["classes"]["cats"]["precision_at_10"], 0.2));
        assert!(near(&json["precision_at_10"], (3.0 * 0.2 + 2.0 * 0.1) / 5.0));
        assert_eq!(json["classes"]["owls"], json!({"map": null, "precision_at_10": null, "objects": 1}));
        let table = check("table", &NAMES, &all_pairs(6)).unwrap();
        assert!(table.contains("owls               1       -       -\n"), "{table}");
        assert!(table.contains("dogs               2  0.3750  0.1000\n"), "{table}");
    }

    /// Fault 13 of the trial: the distances were rounded to f32 first.
    #[test]
    fn idim_is_that_of_distances_in_f64() {
        let exact: Vec<f64> = all_pairs(6).into_iter().map(distance).collect();
        let mean = exact.iter().sum::<f64>() / 15.0;
        let variance = exact.iter().map(|distance| (distance - mean).powi(2)).sum::<f64>() / 15.0;
        let expected = mean * mean / (2.0 * variance);
        let pairs = all_pairs(6);
        let idim = |pairs: &[(u64, u64)]| {
            let json: Json = serde_json::from_str(&check("json", &NAMES, pairs).unwrap()).unwrap();
            assert_eq!(json["idim_error"], json!(0.0));
            json["idim"].as_f64().unwrap()
        };
        let found = idim(&pairs);
        assert!((found - expected).abs() < 1e-14 * expected, "{found}, not {expected}");
        // The envelopes in another order.
        let again = idim(&[&pairs[8..12], &pairs[..8], &pairs[12..]].concat());
        assert_eq!(again.to_bits(), found.to_bits());
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
        let table = check_with_error("table", &NAMES, &all_pairs(6), 0.001).unwrap();
        assert!(table.contains("of that of exact distances\n"), "{table}");
    }

    #[test]
    fn missing_pairs_and_missing_classes_are_refused() {
        let error = check("table", &NAMES, &all_pairs(5)).unwrap_err().to_string();
        assert!(error.contains("10 distances") && error.contains("15 pairs"), "{error}");
        let error = check("table", &["a", "b", "c"], &all_pairs(3)).unwrap_err().to_string();
        assert!(error.contains("no classes"), "{error}");
        let error = check("table", &["a/1", "a/2"], &[(0, 2)]).unwrap_err().to_string();
        assert!(error.contains("0 and 2"), "{error}");
    }
}
