//! The box `extract` on slots and on devices.

use std::collections::BTreeMap;

use arrow_array::BinaryArray;
use boxwork_kernels::extract::{GroundDistance, PointDistribution, Preset};
use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};
use boxwork_runtime::feeding::{Devices, Options};
use boxwork_runtime::harness::Harness;
use boxwork_runtime::operator::Environment;
use boxwork_runtime::parameter::Value;

use super::*;
use boxwork_stores::signature::SignatureColumns;

fn pixels(rgbs: &[Vec<u8>], side: u32) -> Envelope {
    let names = (0..rgbs.len()).map(|idx| format!("a/{idx}"));
    let sides: ArrayRef = Arc::new(UInt32Array::from(vec![side; rgbs.len()]));
    let columns: [(&str, ArrayRef); 6] = [
        ("name", Arc::new(StringArray::from_iter_values(names))),
        ("width", Arc::new(UInt32Array::from(vec![640; rgbs.len()]))),
        ("height", Arc::new(UInt32Array::from(vec![480; rgbs.len()]))),
        ("scaled_width", Arc::clone(&sides)),
        ("scaled_height", sides),
        ("rgb", Arc::new(BinaryArray::from_iter_values(rgbs))),
    ];
    Envelope::from_columns(columns).unwrap()
}

#[test]
fn extracts_what_the_kernel_does_and_reports_what_is_no_image() {
    let noise: Vec<u8> =
        (0..30 * 30 * 3u32).map(|idx| (idx.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut harness = Harness::new(&EXTRACT, [("points", Value::Integer(300))]).unwrap();
    harness.give(PIXELS, pixels(&[vec![200; 2700], vec![1; 5], noise.clone()], 30));
    harness.end(PIXELS);
    harness.run().unwrap();
    assert!(harness.is_done());
    assert_eq!(harness.announced(), 1, "the producer continues while an envelope is computed");
    assert_eq!(harness.problems().len(), 1);
    assert_eq!(harness.problems()[0].subject, "a/1");
    let envelopes = harness.taken(SIGNATURES);
    assert_eq!(envelopes[0].texts("name").unwrap().iter().flatten().collect::<Vec<_>>(), ["a/0", "a/2"]);
    assert_eq!(envelopes[0].u32s("height").unwrap(), [480, 480]);
    let note = envelopes[0].note(PARAMETERS_NOTE).unwrap();
    assert_eq!(parameters_from_json(note).unwrap().points_count, 300);
    assert_eq!(scaled_size(note), 30);
    assert_eq!(alpha_of(&envelopes[0]), Some(Preset::BALANCED.alpha));
    let columns = SignatureColumns::new(envelopes[0].lists("signature").unwrap()).unwrap();
    let parameters = ExtractParameters { points_count: 300, ..ExtractParameters::default() };
    let expected = Extractor::new(parameters).unwrap().extract(ImageRef::new(30, 30, &noise).unwrap());
    let found = columns.signature(1);
    assert_eq!(found.weights(), expected.weights);
    assert_eq!(found.coordinate(5), expected.centroids[5]);
}

/// The parameters of a box with these settings.
fn parameters_with(given: &[(&str, Value)]) -> ExtractParameters {
    let given = given.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let arguments = Arguments::check(EXTRACT.parameters, given).unwrap();
    let (resources, environment) = (BTreeMap::new(), Environment::of_slots(1));
    parameters(&Bind::new("extract", &arguments, &resources, &environment)).unwrap()
}

#[test]
fn a_preset_decides_what_is_not_given() {
    assert_eq!(parameters_with(&[]), Preset::BALANCED.parameters());
    let transform = |name: &str| ("transform", Value::Text(name.to_owned()));
    for preset in Preset::ALL {
        assert_eq!(parameters_with(&[transform(preset.name)]), preset.parameters());
    }
    let numbers = [8.0, 8.0, 0.01, 0.02, 0.02, 0.04, 0.5];
    let multiplier = ("multiplier", Value::List(numbers.map(Value::Number).to_vec()));
    let mut expected = Preset::BALANCED.parameters();
    expected.transform.multiplier = numbers;
    assert_eq!(parameters_with(std::slice::from_ref(&multiplier)), expected);
    let mut expected = Preset::BEST.parameters();
    expected.transform.multiplier = numbers;
    assert_eq!(parameters_with(&[transform("best"), multiplier]), expected);
    let given = [("points", 300), ("seeds", 60), ("grey_levels", 9), ("iterations", 2), ("cluster_min", 0)];
    let given: Vec<_> = given.into_iter().map(|(name, count)| (name, Value::Integer(count))).collect();
    let expected = ExtractParameters {
        points_count: 300,
        seeds_count: 60,
        grey_max: 8,
        iterations_count: 2,
        cluster_weight_min: 0,
        distribution: PointDistribution::Gaussian { sigma: 0.3 },
        ..Preset::PRACTICAL.parameters()
    };
    let sigma = ("sigma", Value::Number(0.3));
    assert_eq!(parameters_with(&[&given[..], &[sigma, transform("practical")]].concat()), expected);
}

#[test]
fn parameters_are_read_back() {
    let uniform = ExtractParameters {
        distribution: PointDistribution::Uniform,
        seed: u64::MAX,
        join_distance: 0.1 + 0.2,
        distance: GroundDistance::LInf,
        transform: Preset::BEST.transform(),
        ..ExtractParameters::default()
    };
    // A reader that rounds carelessly reads the neighbour of this number.
    let mut careful = ExtractParameters::default();
    careful.transform.multiplier[2] = 0.021_844_674_407_370_954;
    for parameters in [ExtractParameters::default(), uniform, careful] {
        assert_eq!(parameters_from_json(&parameters_json(&parameters)), Ok(parameters));
    }
    let json = parameters_json(&Preset::PRACTICAL.parameters());
    assert!(json.contains("\"join_distance\":0.2,") && json.contains("\"sigma\":0.2"), "{json}");
    assert!(parameters_from_json("{}").unwrap_err().contains("`points` is missing"));
    assert!(parameters_from_json("points").unwrap_err().contains("not JSON"));
    let wide = json.replace("\"sigma\":0.2", "\"sigma\":\"wide\"");
    assert!(parameters_from_json(&wide).unwrap_err().contains("`sigma` is no number"));
    let eight = json.replace("\"offset\":[", "\"offset\":[null,");
    assert!(parameters_from_json(&eight).unwrap_err().contains("`offset` is not seven numbers"));
    let zero = json.replace("\"points\":2500", "\"points\":0");
    assert!(parameters_from_json(&zero).unwrap_err().contains("points_count is 0"));
}

#[test]
fn multipliers_replace_the_preset() {
    let given = |numbers: &[f64]| {
        let numbers = numbers.iter().copied().map(Value::Number).collect();
        Harness::new(&EXTRACT, [("multiplier", Value::List(numbers))])
    };
    assert!(given(&[8.0, 8.0, 0.01, 0.02, 0.02, 0.04, 0.25]).is_ok());
    let error = given(&[8.0, 8.0]).err().unwrap().to_string();
    assert!(error.contains("2 numbers") && error.contains("give 7"), "{error}");
    let error = given(&[8.0, 8.0, 9.0, 0.02, 0.02, 0.04, 0.25]).err().unwrap().to_string();
    assert!(error.contains("scales L by 9"), "{error}");
}

#[test]
fn sigma_is_for_gaussian_points_only() {
    let given = [("distribution", Value::Text("grid".into())), ("sigma", Value::Number(0.3))];
    let error = Harness::new(&EXTRACT, given).err().unwrap().to_string();
    assert!(error.contains("`sigma`") && error.contains("grid"), "{error}");
    assert!(Harness::new(&EXTRACT, [("sigma", Value::Number(0.3))]).is_ok());
}

fn devices(plan: Plan) -> (Arc<Faulty>, Arc<Devices>) {
    let cache = Some(std::env::temp_dir().join("boxwork-test-programs"));
    let (driver, devices) = Faulty::devices(plan, Options { cache, ..Options::default() });
    (driver, devices.unwrap())
}

/// Pictures of noise, of one colour, of stripes and of gradients.
fn drawn(nth: u32, width: u32, height: u32) -> Vec<u8> {
    let of_pixel = |x: u32, y: u32| match nth % 4 {
        0 => {
            let hash =
                (x ^ y.wrapping_mul(0x9e37_79b9) ^ nth.wrapping_mul(0x85eb_ca6b)).wrapping_mul(0xc2b2_ae35);
            [(hash >> 24) as u8, (hash >> 16) as u8, (hash >> 8) as u8]
        }
        1 => [(nth * 37) as u8, 200, 90],
        2 => [if (x / 5 + nth).is_multiple_of(2) { 250 } else { 3 }, (y * 2) as u8, (x / 3) as u8],
        _ => [(x * 255 / width) as u8, (y * 255 / height) as u8, ((x + y + nth) % 256) as u8],
    };
    (0..height).flat_map(|y| (0..width).flat_map(move |x| of_pixel(x, y))).collect()
}

/// Runs a box of this kind on pictures of one size, and compares its output with `extract`.
fn check(
    devices: &Arc<Devices>,
    change: impl Fn(&mut ExtractParameters),
    side: u32,
    envelopes: &[Vec<Vec<u8>>],
) {
    let mut parameters =
        ExtractParameters { points_count: 300, seeds_count: 60, ..ExtractParameters::default() };
    change(&mut parameters);
    let allowed: Vec<usize> = (0..devices.list().len()).collect();
    let picked = Picked { devices: Some((Arc::clone(devices), allowed.into())), reason: String::new() };
    let stage = stage(parameters.clone(), None, picked, 0, 2).unwrap();
    let mut harness = Harness::of(&EXTRACT, Box::new(stage));
    for rgbs in envelopes {
        harness.give(PIXELS, pixels(rgbs, side));
    }
    harness.end(PIXELS);
    harness.run().unwrap();
    assert!(harness.is_done());
    let mut extractor = Extractor::new(parameters).unwrap();
    let mut found = harness.taken(SIGNATURES).into_iter();
    for rgbs in envelopes {
        let is_picture = |rgb: &&Vec<u8>| rgb.len() == (3 * side * side) as usize;
        let expected: Vec<Signature> = rgbs
            .iter()
            .filter(is_picture)
            .map(|rgb| {
                let side = side as usize;
                extractor.extract(ImageRef::new(side, side, rgb).unwrap())
            })
            .collect();
        if expected.is_empty() {
            continue;
        }
        let envelope = found.next().expect("an envelope of signatures");
        let columns = SignatureColumns::new(envelope.lists("signature").unwrap()).unwrap();
        assert_eq!(envelope.rows(), expected.len());
        for (row, expected) in expected.iter().enumerate() {
            let signature = columns.signature(row);
            assert_eq!(signature.weights(), expected.weights, "picture {row} of side {side}");
            for d in 0..FEATURES {
                assert_eq!(signature.coordinate(d), expected.centroids[d], "coordinate {d} of {row}");
            }
        }
    }
    assert!(found.next().is_none());
}

#[test]
fn a_device_gives_the_same_bits() {
    if !has_device("a_device_gives_the_same_bits") {
        return;
    }
    let (driver, devices) = devices(Plan::default());
    let pictures = |count: u32, side| (0..count).map(|nth| drawn(nth, side, side)).collect::<Vec<_>>();
    check(&devices, |_| (), 40, &[pictures(8, 40), Vec::new(), vec![vec![1; 5]], pictures(3, 40)]);
    for side in [1, 2, 7] {
        check(&devices, |_| (), side, &[pictures(4, side)]);
    }
    // Each change is compiled anew, so they are few.
    let changes: [fn(&mut ExtractParameters); 5] = [
        |p| (p.distance, p.cluster_weight_min) = (GroundDistance::L1, 0),
        |p| (p.distance, p.window_radius) = (GroundDistance::LInf, 0),
        |p| (p.window_radius, p.grey_max, p.iterations_count) = (5, 31, 2),
        |p| (p.cluster_weight_min, p.points_count) = (60_000, 5),
        |p| (p.centroids_count_max, p.join_distance) = (3, 0.05),
    ];
    for change in changes {
        check(&devices, change, 30, &[pictures(5, 30)]);
    }
    for preset in Preset::ALL {
        check(&devices, |p| *p = preset.parameters(), 150, &[pictures(4, 150)]);
    }
    assert_eq!(devices.take_warnings(), [""; 0], "the device did nothing");
    assert!(devices.statistics()[0].blocks > 5);
    drop(devices);
    assert_eq!(driver.left(), [], "objects of the driver were left behind");
}

#[test]
fn what_does_not_fit_a_device_is_computed_here() {
    if !has_device("what_does_not_fit_a_device_is_computed_here") {
        return;
    }
    let (_, devices) = devices(Plan::default());
    check(&devices, |p| (p.points_count, p.seeds_count) = (2000, 2000), 20, &[vec![drawn(0, 20, 20)]]);
    assert_eq!(devices.statistics()[0].blocks, 0);
}

#[test]
fn what_devices_fail_at_is_computed_here() {
    if !has_device("what_devices_fail_at_is_computed_here") {
        return;
    }
    let pictures: Vec<Vec<u8>> = (0..3).map(|nth| drawn(nth, 20, 20)).collect();
    let calls = {
        let (driver, devices) = devices(Plan::default());
        check(&devices, |_| (), 20, &[pictures.clone(), pictures.clone()]);
        drop(devices);
        driver.calls()
    };
    // The first calls open the devices.
    for call in (6..calls).step_by(5) {
        let (_, devices) = devices(Plan { call, for_good: call % 2 == 0, ..Plan::default() });
        check(&devices, |_| (), 20, &[pictures.clone(), pictures.clone()]);
    }
}
