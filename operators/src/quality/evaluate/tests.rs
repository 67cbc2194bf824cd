//! `evaluate` by hand, and against an algorithm that keeps all distances.

use arrow_array::{ArrayRef, Float64Array, UInt64Array};
use boxwork_kernels::interrupt::never;
use boxwork_kernels::quality::{average_precision, mean_average_precision, precision_at};
use boxwork_runtime::harness::Harness;
use boxwork_runtime::operator::Resource;
use boxwork_runtime::parameter::Value;
use boxwork_stores::signature_store::StoreInfo;
use serde_json::{Value as Json, json};

use super::*;
use crate::resources::class_of;
use boxwork_stores::testing;

const NAMES: [&str; 6] = ["p/cats/0", "cats/1", "p/cats/2", "dogs/3", "dogs/4", "owls/5"];
/// On a line: cats at 0, 1 and 3, dogs at 2 and 10, an owl far away.
const PLACES: [f64; 6] = [0.0, 1.0, 3.0, 2.0, 10.0, 100.0];

/// The distance of two of them, which f32 cannot hold.
fn distance((a, b): (u64, u64)) -> f64 {
    (PLACES[a as usize] - PLACES[b as usize]).abs() / 10.0
}

/// An evaluation of so many distances to mates a block.
struct Check<'a> {
    names: &'a [&'a str],
    mates_max: u64,
    format: &'a str,
    distance: &'a dyn Fn((u64, u64)) -> f64,
    error: f64,
}

impl Check<'_> {
    fn store(&self, folder: &std::path::Path) -> Arc<dyn Store> {
        let objects: Vec<(&str, u64)> = self.names.iter().map(|name| (*name, 1)).collect();
        testing::store_of(folder, &objects, &StoreInfo::default())
    }

    /// The pairs in order.
    fn pairs(&self) -> Vec<(u64, u64)> {
        let folder = tempfile::tempdir().unwrap();
        let blocks = QueryBlocks::new(&*self.store(folder.path()), self.mates_max, &never).unwrap();
        let mut walk = Walk::new(&blocks);
        let id = |position: u32| u64::from(blocks.rank(position));
        std::iter::from_fn(|| walk.next(&blocks)).map(|place| (id(place.query), id(place.other))).collect()
    }

    fn envelope(&self, pairs: &[(u64, u64)]) -> Envelope {
        let columns: [(&str, ArrayRef); 4] = [
            ("a", Arc::new(UInt64Array::from_iter_values(pairs.iter().map(|pair| pair.0)))),
            ("b", Arc::new(UInt64Array::from_iter_values(pairs.iter().map(|pair| pair.1)))),
            ("distance", Arc::new(Float64Array::from_iter_values(pairs.iter().copied().map(self.distance)))),
            ("error", Arc::new(Float64Array::from(vec![self.error; pairs.len()]))),
        ];
        Envelope::from_columns(columns).unwrap()
    }

    /// Returns the text that the box writes if these envelopes come.
    fn evaluate(&self, envelopes: &[Vec<(u64, u64)>]) -> Result<String, BoxError> {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("quality");
        let store = self.store(folder.path());
        let operator = Evaluate {
            distance: None,
            is_signed: false,
            store,
            mates_max: self.mates_max,
            writer: Arc::new(OrderedWriter::new(out.to_str().unwrap())),
            output: None,
            part: Part::WHOLE,
            is_json: self.format == "json",
            ranking: None,
        };
        let mut harness = Harness::of(&EVALUATE, Box::new(operator));
        for pairs in envelopes {
            harness.give(DISTANCES, self.envelope(pairs));
        }
        harness.end(DISTANCES);
        while !harness.is_done() {
            harness.run()?;
        }
        assert_eq!(harness.progress().0, harness.progress().1);
        Ok(std::fs::read_to_string(out).unwrap())
    }

    fn by_fours(&self) -> Result<String, BoxError> {
        let envelopes: Vec<Vec<(u64, u64)>> = self.pairs().chunks(4).map(<[_]>::to_vec).collect();
        self.evaluate(&envelopes)
    }
}

fn check<'a>(format: &'a str, names: &'a [&'a str]) -> Check<'a> {
    Check { names, mates_max: MATES_MAX, format, distance: &distance, error: 0.0 }
}

#[test]
fn qualities_by_hand() {
    let json: Json = serde_json::from_str(&check("json", &NAMES).by_fours().unwrap()).unwrap();
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
    let table = check("table", &NAMES).by_fours().unwrap();
    assert!(table.contains("owls               1       -       -\n"), "{table}");
    assert!(table.contains("dogs               2  0.3750  0.1000\n"), "{table}");
}

/// Fault 13 of the trial: the distances were rounded to f32 first.
#[test]
fn idim_is_that_of_distances_in_f64() {
    let exact: Vec<f64> = check("json", &NAMES).pairs().into_iter().map(distance).collect();
    let mean = exact.iter().sum::<f64>() / 15.0;
    let variance = exact.iter().map(|distance| (distance - mean).powi(2)).sum::<f64>() / 15.0;
    let expected = mean * mean / (2.0 * variance);
    let check = check("json", &NAMES);
    let pairs = check.pairs();
    let envelopes: Vec<Vec<(u64, u64)>> = pairs.chunks(4).map(<[_]>::to_vec).collect();
    let idim = |order: [usize; 4]| {
        let json: Json =
            serde_json::from_str(&check.evaluate(&order.map(|nth| envelopes[nth].clone())).unwrap()).unwrap();
        assert_eq!(json["idim_error"], json!(0.0));
        json["idim"].as_f64().unwrap()
    };
    let found = idim([0, 1, 2, 3]);
    assert!((found - expected).abs() < 1e-14 * expected, "{found}, not {expected}");
    for order in [[3, 2, 1, 0], [1, 3, 0, 2]] {
        assert_eq!(idim(order).to_bits(), found.to_bits());
    }
}

#[test]
fn the_table_prints_the_error_of_idim() {
    let table = Check { error: 0.001, ..check("table", &NAMES) }.by_fours().unwrap();
    assert!(table.contains("of that of exact distances\n"), "{table}");
}

/// The algorithm that `evaluate` replaced: all distances, and a sorted list of all objects for each query.
fn by_sorting(check: &Check<'_>) -> (Json, f64) {
    let objects = check.names.len();
    let class: Vec<&str> = check.names.iter().map(|name| class_of(name).unwrap_or_default()).collect();
    let of = |a: usize, b: usize| (check.distance)((a.min(b) as u64, a.max(b) as u64));
    let mut qualities: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for query in 0..objects {
        let mut order: Vec<usize> = (0..objects).filter(|other| *other != query).collect();
        order.sort_by(|a, b| (of(query, *a) as f32).total_cmp(&(of(query, *b) as f32)).then(a.cmp(b)));
        let relevant = class.iter().filter(|other| **other == class[query]).count() - 1;
        let hits = || order.iter().map(|other| class[*other] == class[query]);
        let of_class = qualities.entry(class[query]).or_default();
        if let Some(average_precision) = average_precision(hits(), relevant) {
            of_class.push((average_precision, precision_at(hits(), 10).unwrap()));
        }
    }
    let mean = |values: Vec<f64>| mean_average_precision(values.into_iter().map(Some));
    let all = |of: fn(&(f64, f64)) -> f64| mean(qualities.values().flatten().map(of).collect());
    let of_class = |(name, values): (&&str, &Vec<(f64, f64)>)| {
        let json = json!({
            "map": mean(values.iter().map(|value| value.0).collect()),
            "precision_at_10": mean(values.iter().map(|value| value.1).collect()),
            "objects": class.iter().filter(|other| *other == name).count(),
        });
        ((*name).to_owned(), json)
    };
    let classes: serde_json::Map<String, Json> = qualities.iter().map(of_class).collect();
    let pairs: Vec<f64> =
        (0..objects).flat_map(|a| (a + 1..objects).map(move |b| (a, b))).map(|(a, b)| of(a, b)).collect();
    let average = pairs.iter().sum::<f64>() / pairs.len() as f64;
    let variance = pairs.iter().map(|pair| (pair - average).powi(2)).sum::<f64>() / pairs.len() as f64;
    let json =
        json!({"map": all(|value| value.0), "precision_at_10": all(|value| value.1), "classes": classes});
    (json, average * average / (2.0 * variance))
}

#[test]
fn figures_are_those_of_sorted_lists_to_the_bit() {
    for (objects, classes, ties) in
        [(2, 1, 9), (5, 5, 9), (23, 1, 5), (40, 3, 7), (61, 17, 1000), (61, 30, 3)]
    {
        let names: Vec<String> = (0..objects)
            .map(|object| {
                format!("{}/{object}", ["x", "y", "z"][object % 3].repeat(object * 5 % 11 % classes + 1))
            })
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        // Few different distances, so that many objects are at one; some differ in f64 only.
        let distance = |(a, b): (u64, u64)| {
            let seed = (a.min(b) * 7919 + a.max(b) * 104_729) % 1_000_003;
            0.1 + (seed % ties) as f64 * 0.25 + (seed % 3) as f64 * 1e-12
        };
        for mates_max in [0, 1, 30, 200, MATES_MAX] {
            let check = Check { names: &names, mates_max, format: "json", distance: &distance, error: 0.0 };
            let (expected, idim) = by_sorting(&check);
            let mut found: Json = serde_json::from_str(&check.by_fours().unwrap()).unwrap();
            let found_idim = found.as_object_mut().unwrap().remove("idim").unwrap();
            found.as_object_mut().unwrap().remove("idim_error");
            assert_eq!(
                found.as_object_mut().unwrap().remove("distance"),
                Some(Json::Null),
                "no space is named"
            );
            assert_eq!(found, expected, "{objects} objects, blocks by {mates_max}");
            // The sums are over other orders.
            if objects > 2 {
                let found = found_idim.as_f64().unwrap();
                assert!((found - idim).abs() < 1e-12 * idim, "{found}, not {idim}");
            }
        }
    }
}

#[test]
fn a_firing_ends_after_a_bounded_number_of_distances() {
    let names: Vec<String> = (0..400).map(|object| format!("all/{object}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let check = Check { distance: &|(a, b)| (a + b) as f64, ..check("json", &names) };
    let folder = tempfile::tempdir().unwrap();
    let store = check.store(folder.path());
    let mut ranking = Ranking::new(QueryBlocks::new(&*store, MATES_MAX, &never).unwrap()).unwrap();
    for pairs in check.pairs().chunks(4096) {
        ranking.keep(&*store, check.envelope(pairs)).unwrap();
    }
    // Each query gets its room by itself.
    for query in 0..400 {
        assert!(matches!(ranking.step, Step::Room), "query {query}");
        assert_eq!(ranking.advance(&*store, 1000).unwrap(), Some(400));
    }
    let (mut pieces, mut distances) = (0, 0);
    while let Some(work) = ranking.advance(&*store, 1000).unwrap() {
        assert!(work <= 1000, "{work} at once");
        (pieces, distances) = (pieces + 1, distances + work);
    }
    assert_eq!((ranking.block, ranking.seen), (1, 400 * 399 / 2));
    assert!(pieces >= distances / 1000 && distances >= 400 * 399 / 2);
}

#[test]
fn a_cancelled_request_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let check = check("json", &NAMES);
    let out = folder.path().join("quality");
    let given = [("store", "s"), ("out", out.to_str().unwrap())]
        .map(|(name, value)| (name, Value::Text(value.to_owned())));
    let store: Resource = Arc::new(boxwork_stores::store::SharedStore(check.store(folder.path())));
    let mut harness = Harness::with_resources(&EVALUATE, given, [("s", store)]).unwrap();
    harness.give(DISTANCES, check.envelope(&check.pairs()));
    harness.end(DISTANCES);
    harness.cancel();
    harness.run().unwrap();
    assert!(harness.is_done() && !out.exists());
}

#[test]
fn a_single_object_and_classes_of_one_have_no_figures() {
    let table = check("table", &["a/0"]).by_fours().unwrap();
    assert!(table.contains("all classes        1       -       -\n"), "{table}");
    assert!(table.contains("undefined, as there are no two objects"), "{table}");
    let json: Json =
        serde_json::from_str(&check("json", &["a/0", "b/1", "c/2"]).by_fours().unwrap()).unwrap();
    assert_eq!((&json["map"], &json["precision_at_10"]), (&Json::Null, &Json::Null), "{json}");
    assert!(json["idim"].as_f64().is_some(), "{json}");
}

#[test]
fn missing_pairs_and_missing_classes_are_refused() {
    let named = Check { distance: &|_| 1.0, ..check("table", &NAMES) };
    let pairs = named.pairs();
    let error = |envelopes: &[&[(u64, u64)]]| {
        let envelopes: Vec<_> = envelopes.iter().map(|pairs| pairs.to_vec()).collect();
        named.evaluate(&envelopes).unwrap_err().to_string()
    };
    let found = error(&[&pairs[..10]]);
    assert!(found.contains("10 distances") && found.contains("15 pairs"), "{found}");
    let found = error(&[&pairs[..4], &pairs[8..]]);
    assert!(found.contains("11 distances") && found.contains("15 pairs"), "{found}");
    for twice in [[&pairs[..], &pairs[..1]], [&pairs[..4], &pairs[2..]], [&pairs[1..4], &pairs[1..4]]] {
        let found = error(&twice);
        assert!(found.contains("came twice or out of order") && found.contains("class_pairs"), "{found}");
    }
    let found = error(&[&[(0, 9)]]);
    assert!(found.contains("0 and 9"), "{found}");
    let not = Check { distance: &|_| f64::NAN, ..check("table", &NAMES) }.by_fours().unwrap_err().to_string();
    assert!(not.contains("is not a number"), "{not}");
    let folder = tempfile::tempdir().unwrap();
    let unnamed = check("table", &["a", "b", "c"]);
    let found = QueryBlocks::new(&*unnamed.store(folder.path()), 9, &never).err().unwrap().to_string();
    assert!(found.contains("no classes"), "{found}");
}
