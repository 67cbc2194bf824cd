//! `edit_distances`: the edit distances of all texts of a store from many queries, many pairs at once. `alignments` goes over texts
//! by the same operator.
//!
//! Invariants: distances are exact, and the same on devices and on slots; with `k`, rows that are dropped cannot be among the k nearest by
//! (distance, id).

mod form;
mod search;
mod long_devices;
mod long;
mod chunks;
mod block;
mod scan;

use std::sync::Arc;

use boxwork_kernels::distance::alignments::Numbers;
use boxwork_runtime::operator::{Bind, BoxError, In, Kind, Operator, OperatorSpec, Out, Resource};
use boxwork_runtime::parameter::{Default, DeviceChoice, Parameter, ParameterType};
use boxwork_stores::space::Space;
use boxwork_stores::spaces::{Alignment, DistanceOptions, EditConstants};
use boxwork_stores::store::Store;

use self::chunks::Shared;
use self::form::Wanted;
use self::long_devices::LongDevices;
use self::scan::{EditScan, OnDevices};
use crate::columns;
use crate::devices::code_path;
use crate::devices::stage::DeviceStage;
use crate::resources::{self, SPACE, check_range, device_parameter, get_range, range_parameter};

/// From this many texts on `auto` takes GPUs.
const DEVICE_TEXTS_MIN: u64 = 1 << 16;
/// The distance of which devices take planes of letters.
const LEVENSHTEIN: &str = "levenshtein";

pub(super) const QUERIES: In = In::side(0, "queries", columns::queries, "the queries");
pub(super) const DISTANCES: Out =
    Out::new(0, "distances", columns::distances, "the texts and their distances");

/// Computes the edit distances of texts from many queries.
///
/// Slots share the table of a query and a text of more than 20,000 letters, both of them, in tiles, if it takes some milliseconds. A device
/// computes it if the texts differ in a quarter of their letters or more.
///
/// # Inputs
/// `queries` (side): the queries.
///
/// # Outputs
/// `distances`: for each query the texts and their distances: those within `range`, or all; with `k`, at least the k nearest.
///
/// # Parameters
/// `space`: texts, and the distance levenshtein, or edit with its costs. `k`: the parameter of the `top_k` behind this box; texts that it cannot keep
/// are dropped. `range`: only texts at most this far away. `device`: where to compute; slots compute the distances of texts and queries of 1,025 to
/// 20,000 letters, by edit of more than 16,384.
pub(crate) static EDIT_DISTANCES: OperatorSpec = OperatorSpec {
    parameters: &[
        SPACE,
        Parameter::new(
            "k",
            ParameterType::integer_from(1),
            Default::Absent,
            "`k` of the `top_k` behind this box: texts that cannot be in its answer may be dropped",
        )
        .unit("objects"),
        range_parameter(Default::Absent, "exclude texts farther than this"),
        device_parameter("auto"),
    ],
    inputs: &[QUERIES],
    outputs: &[DISTANCES],
    check: Some(|arguments, resources| {
        resources::distance_of(arguments, resources).map_or(Ok(()), |distance| refuse_others(&distance))?;
        check_range(arguments, resources)
    }),
    code_path: Some(|arguments, devices| code_path::of_device(arguments, devices, DEVICE_TEXTS_MIN)),
    example: "distance: {kind: edit_distances, space: space, k: 10}",
    share: Some(|bind| {
        let space = resources::space(bind)?;
        Ok(Arc::new(Shared::new(space.store(), space.measure() != LEVENSHTEIN)))
    }),
    ..OperatorSpec::new(
        "edit_distances",
        "Computes edit distances of all texts from many queries at once.",
        Kind::Stateful,
        make,
    )
};

fn refuse_others(distance: &str) -> Result<(), String> {
    match DistanceOptions::parse(distance).map(|options| (options.distance, options.root)) {
        Some((name, false)) if ["levenshtein", "edit"].contains(&name.as_str()) => Ok(()),
        _ => Err(format!(
            "edit distances are by levenshtein or edit, not by {distance}: write `distance: levenshtein` in the space, or compute \
             its distances by `scan` and `distance`"
        )),
    }
}

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let space = resources::space(bind)?;
    let measure = space.measure();
    refuse_others(&measure).map_err(BoxError::new)?;
    let costs = DistanceOptions::parse(&measure).map(|options| options.costs).unwrap_or_default();
    let range = get_range(bind, &*space)?.unwrap_or(f64::INFINITY);
    let k = bind.get_integer("k").and_then(|k| usize::try_from(k).ok());
    let picked = bind.pick_devices("device", Some(space.store().objects_count()), DEVICE_TEXTS_MIN)?;
    let is_plain = measure == LEVENSHTEIN;
    let wanted = if is_plain {
        Wanted::Levenshtein
    } else {
        let edit = Alignment::open("edit", &costs, 1).map_err(BoxError::new)?;
        Wanted::Alignments(Arc::new(edit.numbers()))
    };
    let note = dear_replacements(&costs);
    let (shared, is_auto) = (bind.shared::<Shared>(), bind.device("device") == DeviceChoice::Auto);
    let has_texts = shared.has_texts();
    let picked = picked.devices.filter(|_| has_texts);
    let long = match &picked {
        Some(picked) if is_plain => LongDevices::picked(picked.clone()),
        None if is_plain && has_texts && is_auto => {
            LongDevices::later(Arc::clone(bind.devices()), bind.slots())
        }
        _ => LongDevices::none(),
    };
    let on_devices = picked.map(|picked| OnDevices::new(shared, wanted, picked, is_auto));
    Ok(stage(bind, space, (k, range), note, (on_devices, long)))
}

/// A note on costs by which a letter is never replaced: a deletion and an insertion cost less.
pub(super) fn dear_replacements(costs: &EditConstants) -> Option<String> {
    let [insert, delete, replace] = [costs.insert, costs.delete, costs.replace].map(|cost| cost.unwrap_or(1));
    let both = insert + delete;
    (replace > both).then(|| {
        format!("`replace` costs {replace}, more than `insert` and `delete` together, so it counts as {both}")
    })
}

/// The texts of a store as devices align them, which requests share.
pub(super) fn share_letters(store: &Arc<dyn Store>) -> Resource {
    Arc::new(Shared::new(store, true))
}

/// The operator over the texts of a space, which computes `numbers` from a query to a text. `auto` takes devices from `texts_min` texts on.
pub(super) fn over(
    bind: &Bind<'_>,
    space: Arc<dyn Space>,
    (numbers, texts_min): (Numbers, u64),
    wanted: (Option<usize>, f64),
    note: Option<String>,
) -> Result<Box<dyn Operator>, BoxError> {
    let picked = bind.pick_devices("device", Some(space.store().objects_count()), texts_min)?;
    let (shared, is_auto) = (bind.shared::<Shared>(), bind.device("device") == DeviceChoice::Auto);
    let numbers = Wanted::Alignments(Arc::new(numbers));
    let picked = picked.devices.filter(|_| shared.has_texts());
    let on_devices = picked.map(|picked| OnDevices::new(shared, numbers, picked, is_auto));
    Ok(stage(bind, space, wanted, note, (on_devices, LongDevices::none())))
}

fn stage(
    bind: &Bind<'_>,
    space: Arc<dyn Space>,
    wanted: (Option<usize>, f64),
    note: Option<String>,
    of_devices: (Option<OnDevices>, LongDevices),
) -> Box<dyn Operator> {
    let devices = of_devices.0.as_ref().map(OnDevices::devices);
    let task = EditScan::new(space, wanted, bind.slots(), note, of_devices);
    Box::new(DeviceStage::new(task, scan::SIZES, devices))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use arrow_array::{ArrayRef, StringArray, UInt32Array};
    use boxwork_kernels::distance::{Distance, Levenshtein};
    use boxwork_runtime::envelope::Envelope;
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_runtime::parameter::Value;
    use boxwork_stores::any_kind::named;
    use boxwork_stores::object_column;
    use boxwork_stores::space::SharedSpace;
    use boxwork_stores::spaces::open;
    use boxwork_stores::testing;

    use super::*;

    fn words(count: u64) -> Vec<String> {
        let letters = |i: u64| {
            (0..i % 13).map(move |j| ['a', 'b', 'c', '\u{e9}'][((i * 31 + j * 17) % 7 % 4) as usize])
        };
        (0..count).map(|i| letters(i).collect()).collect()
    }

    fn space(texts: &[String], distance: &str) -> Resource {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("texts.jsonl");
        let lines = texts.iter().map(|text| format!("{{\"object\": \"{text}\"}}\n"));
        fs::write(&path, lines.collect::<String>()).unwrap();
        let store = object_column::open(&path, None, "name", Some(named("texts").unwrap())).unwrap();
        Arc::new(SharedSpace(open(&DistanceOptions::named(distance), store).unwrap()))
    }

    fn side(queries: &[&str]) -> Envelope {
        let objects: ArrayRef = Arc::new(StringArray::from(queries.to_vec()));
        let numbers: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..queries.len() as u32));
        Envelope::from_columns([("query", numbers), ("name", Arc::clone(&objects)), ("object", objects)])
            .unwrap()
    }

    /// Compares the answers with those of the definition; with `k`, those that a `top_k` makes of the rows.
    fn check(texts: &[String], queries: &[&str], k: Option<usize>, range: Option<f64>) {
        check_by(&|a, b| Levenshtein.reference(a, b), texts, queries, k, range);
    }

    /// Compares the answers with those of a definition.
    pub(super) fn check_by(
        definition: &dyn Fn(&[char], &[char]) -> f64,
        texts: &[String],
        queries: &[&str],
        k: Option<usize>,
        range: Option<f64>,
    ) {
        let mut given = vec![("space", Value::Text("s".into()))];
        given.extend(k.map(|k| ("k", Value::Integer(k as i64))));
        given.extend(range.map(|range| ("range", Value::Number(range))));
        let resource = space(texts, "levenshtein");
        let mut harness = Harness::with_resources(&EDIT_DISTANCES, given, [("s", resource)]).unwrap();
        harness.room(2);
        harness.give(QUERIES, side(queries));
        let mut found = Vec::new();
        while !harness.is_done() {
            harness.run().unwrap();
            found.extend(testing::distance_rows(&harness.taken(DISTANCES)));
        }
        let nearest = |mut rows: Vec<(u32, u64, f64)>| {
            rows.sort_by(|a, b| a.0.cmp(&b.0).then(a.2.total_cmp(&b.2)).then(a.1.cmp(&b.1)));
            let of_queries = rows.chunk_by(|a, b| a.0 == b.0);
            of_queries
                .flat_map(|rows| rows[..k.unwrap_or(usize::MAX).min(rows.len())].to_vec())
                .collect::<Vec<_>>()
        };
        if let Some(k) = k.filter(|_| texts.len() > 3000) {
            assert!(found.len() < queries.len() * (k + 8) * 8, "{} rows of few are dropped", found.len());
        }
        let letters = |text: &str| text.chars().collect::<Vec<char>>();
        let mut expected = Vec::new();
        for (query, number) in queries.iter().zip(0..) {
            for (text, id) in texts.iter().zip(0..) {
                let distance = definition(&letters(query), &letters(text));
                if distance <= range.unwrap_or(f64::INFINITY) {
                    expected.push((number, id, distance));
                }
            }
        }
        assert_eq!(nearest(found), nearest(expected));
    }

    #[test]
    fn rows_hold_the_answers_of_the_definition() {
        let texts = words(5000);
        let queries = ["abcabc", "", "\u{e9}\u{e9}b", "zzzzzzzzzzzzzzzzzzzzzz"];
        check(&texts, &queries, None, None);
        check(&texts, &queries, Some(7), None);
        check(&texts, &queries, Some(2000), None);
        check(&texts, &queries, None, Some(3.0));
        check(&texts, &queries, Some(3), Some(2.0));
        check(&texts[..3], &queries, Some(10), None);
        check(&texts[..3], &[], Some(10), None);
        // More queries than are compared together.
        let many: Vec<&str> = texts[20..150].iter().map(String::as_str).collect();
        check(&texts[..1500], &many, Some(2), None);
    }

    #[test]
    fn another_distance_is_refused_with_a_way_out() {
        assert!(refuse_others("jaccard").unwrap_err().contains("distance: levenshtein"));
        let mut harness = {
            let given = [("space", Value::Text("s".into()))];
            Harness::with_resources(&EDIT_DISTANCES, given, [("s", space(&words(9), "levenshtein"))]).unwrap()
        };
        // A query that is no text.
        harness.give(QUERIES, testing::queries(&[("q0", 1)]));
        let error = harness.run().unwrap_err().to_string();
        assert!(error.contains("query 0"), "{error}");
    }
}
