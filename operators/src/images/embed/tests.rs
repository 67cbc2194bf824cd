//! The box `embed` with small models: vectors as computed by hand in f64, and files that are no such models.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_array::{BinaryArray, UInt32Array};
use boxwork_kernels::chance::Random;
use boxwork_runtime::harness::Harness;
use boxwork_runtime::parameter::Value;

use super::onnx::{FLOAT, KERNELS, edges, edges_of, model, node, tensor, value};
use super::*;

const SIZE: usize = 8;

fn picture(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..3 * SIZE * SIZE).map(|_| random.idx(256) as u8).collect()
}

fn pixels(rgbs: &[Vec<u8>], side: usize) -> Envelope {
    let sides: ArrayRef = Arc::new(UInt32Array::from(vec![side as u32; rgbs.len()]));
    let columns: [(&str, ArrayRef); 6] = [
        ("name", Arc::new(StringArray::from_iter_values((0..rgbs.len()).map(|idx| format!("p/{idx}.png"))))),
        ("width", Arc::clone(&sides)),
        ("height", Arc::clone(&sides)),
        ("scaled_width", Arc::clone(&sides)),
        ("scaled_height", sides),
        ("rgb", Arc::new(BinaryArray::from_iter_values(rgbs))),
    ];
    Envelope::from_columns(columns).unwrap()
}

/// A model as a file, and a box of it.
struct Setting {
    _folder: tempfile::TempDir,
    given: Vec<(&'static str, Value)>,
}

impl Setting {
    fn new(content: &[u8], given: &[(&'static str, Value)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.onnx");
        std::fs::write(&path, content).unwrap();
        let text = |path: &Path| Value::Text(path.to_str().unwrap().to_owned());
        let mut all = vec![("model", text(&path)), ("size", Value::Integer(SIZE as i64))];
        all.extend(given.iter().cloned());
        Self { _folder: folder, given: all }
    }

    fn harness(&self) -> Result<Harness, BoxError> {
        Harness::new(&EMBED, self.given.iter().cloned())
    }

    fn refused(&self) -> String {
        let message = self.harness().err().expect("it is refused").to_string();
        assert!(message.contains("m.onnx"), "{message}");
        message
    }

    /// The vectors of pictures by name, and the problems.
    fn vectors(&self, rgbs: &[Vec<u8>]) -> (Vec<(String, Vec<f32>)>, Vec<String>) {
        let mut harness = self.harness().unwrap();
        harness.give(PIXELS, pixels(rgbs, SIZE));
        harness.end(PIXELS);
        harness.run().unwrap();
        assert!(harness.is_done());
        let mut found = Vec::new();
        for envelope in harness.taken(OBJECTS) {
            for row in 0..envelope.rows() {
                let vector = envelope.lists("object").unwrap().value(row);
                let vector = vector.as_primitive::<Float32Type>().values().to_vec();
                found.push((envelope.texts("name").unwrap().value(row).to_owned(), vector));
            }
        }
        let problems =
            harness.problems().iter().map(|problem| format!("{}: {}", problem.subject, problem.message));
        (found, problems.collect())
    }
}

fn boolean(name: &'static str, value: bool) -> (&'static str, Value) {
    (name, Value::Boolean(value))
}

fn text(name: &'static str, value: &str) -> (&'static str, Value) {
    (name, Value::Text(value.to_owned()))
}

fn numbers(name: &'static str, values: &[f64]) -> (&'static str, Value) {
    (name, Value::List(values.iter().copied().map(Value::Number).collect()))
}

const NCHW: [u64; 4] = [0, 3, SIZE as u64, SIZE as u64];

/// The numbers that a model gets, in f64: planes of blue, green and red.
fn planes(rgb: &[u8], mean: [f64; 3], deviation: [f64; 3]) -> Vec<f64> {
    let plane = |channel: usize| {
        rgb.chunks(3)
            .map(move |pixel| (f64::from(pixel[2 - channel]) / 255.0 - mean[channel]) / deviation[channel])
    };
    (0..3).flat_map(plane).collect()
}

#[test]
fn vectors_are_what_the_model_computes() {
    let (mean, deviation) = ([0.4, 0.5, 0.45], [0.2, 0.25, 0.3]);
    let given = [text("channels", "bgr"), numbers("mean", &mean), numbers("deviation", &deviation)];
    let rgbs: Vec<_> = (0..6).map(picture).collect();
    for normalize in [false, true] {
        let setting = Setting::new(&edges(&NCHW), &[&given[..], &[boolean("normalize", normalize)]].concat());
        let (found, problems) = setting.vectors(&rgbs);
        assert_eq!((found.len(), problems.len()), (rgbs.len(), 0));
        for (idx, ((name, vector), rgb)) in found.iter().zip(&rgbs).enumerate() {
            assert_eq!(*name, format!("p/{idx}.png"));
            let mut expected = edges_of(&planes(rgb, mean, deviation), SIZE);
            if normalize {
                let length = expected.iter().map(|number| number * number).sum::<f64>().sqrt();
                expected.iter_mut().for_each(|number| *number /= length);
            }
            assert_eq!(vector.len(), KERNELS);
            for (found, expected) in vector.iter().zip(&expected) {
                assert!((f64::from(*found) - expected).abs() < 1e-5, "{vector:?} and {expected:?}");
            }
        }
        assert_eq!(setting.vectors(&rgbs).0, found, "the same bits again");
        // Alone as beside others.
        assert_eq!(setting.vectors(&rgbs[3..4]).0[0].1, found[3].1);
    }
}

#[test]
fn outputs_are_named_or_numbered_and_inner_results_too() {
    let content = edges(&NCHW);
    let first = Setting::new(&content, &[]).vectors(&[picture(1)]).0;
    for output in ["features", "0", "pooled", "make_pooled"] {
        let found = Setting::new(&content, &[text("output", output)]).vectors(&[picture(1)]).0;
        assert_eq!(found, first, "{output}");
    }
    let message = Setting::new(&content, &[text("output", "1")]).refused();
    assert!(message.contains("one vector") && message.contains("features, map"), "{message}");
    let message = Setting::new(&content, &[text("output", "nothing")]).refused();
    assert!(message.contains("no output `nothing`") && message.contains("features, map"), "{message}");
}

#[test]
fn channels_may_come_last() {
    let nhwc = [1, SIZE as u64, SIZE as u64, 3];
    let nodes = [
        node("Transpose", &["image"], "planes", &[("perm", &[0, 3, 1, 2])]),
        node("GlobalAveragePool", &["planes"], "means", &[]),
    ];
    let content =
        model(&nodes, &[], &[value("image", FLOAT, &nhwc)], &[value("means", FLOAT, &[1, 3, 1, 1])]);
    let setting = Setting::new(&content, &[text("layout", "nhwc"), boolean("normalize", false)]);
    let rgb = picture(5);
    let vector = setting.vectors(std::slice::from_ref(&rgb)).0.swap_remove(0).1;
    for channel in 0..3 {
        let sum: f64 = rgb.chunks(3).map(|pixel| f64::from(pixel[channel]) / 255.0).sum();
        assert!((f64::from(vector[channel]) - sum / (SIZE * SIZE) as f64).abs() < 1e-6);
    }
    let message = Setting::new(&content, &[]).refused();
    assert!(message.contains("1 x 8 x 8 x 3") && message.contains("1 x 3 x 8 x 8"), "{message}");
}

#[test]
fn a_picture_without_finite_numbers_is_reported_by_its_name() {
    // The mean of levels above 0 that is divided by itself: a black picture gives NaN.
    let nodes = [node("GlobalAveragePool", &["image"], "m", &[]), node("Div", &["m", "m"], "ones", &[])];
    let content = model(&nodes, &[], &[value("image", FLOAT, &NCHW)], &[value("ones", FLOAT, &[0, 3, 1, 1])]);
    let black = vec![0; 3 * SIZE * SIZE];
    let rgbs = [picture(1), black.clone(), picture(2)];
    let (found, problems) = Setting::new(&content, &[]).vectors(&rgbs);
    assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["p/0.png", "p/2.png"]);
    assert!(
        problems.len() == 1 && problems[0].contains("p/1.png: the model gives NaN as number 0"),
        "{problems:?}"
    );

    let nodes = [node("GlobalAveragePool", &["image"], "m", &[])];
    let means = model(&nodes, &[], &[value("image", FLOAT, &NCHW)], &[value("m", FLOAT, &[0, 3, 1, 1])]);
    let (found, problems) = Setting::new(&means, &[]).vectors(&[black.clone()]);
    assert!(found.is_empty() && problems[0].contains("no direction"), "{problems:?}");
    assert_eq!(Setting::new(&means, &[boolean("normalize", false)]).vectors(&[black]).0[0].1, [0.0; 3]);
}

#[test]
fn pictures_of_another_size_are_refused_with_the_fix() {
    let setting = Setting::new(&edges(&NCHW), &[]);
    let mut harness = setting.harness().unwrap();
    harness.give(PIXELS, pixels(&[vec![0; 3 * 49]], 7));
    let message = harness.run().unwrap_err().to_string();
    assert!(
        message.contains("p/0.png") && message.contains("7 x 7") && message.contains("8 x 8"),
        "{message}"
    );
}

#[test]
fn models_that_take_no_image_are_refused() {
    let refused = |content: &[u8]| Setting::new(content, &[]).refused();
    let fixed = refused(&edges(&[1, 3, 224, 224]));
    assert!(
        fixed.contains("1 x 3 x 224 x 224") && fixed.contains("1 x 3 x 8 x 8") && fixed.contains("`size`"),
        "{fixed}"
    );
    assert!(refused(&edges(&[0, 3, 8])).contains("any x 3 x 8"));
    let relu = [node("Relu", &["image"], "out", &[])];
    let out = [value("out", FLOAT, &[])];
    const UINT8: u64 = 2;
    let message = refused(&model(&relu, &[], &[value("image", UINT8, &NCHW)], &out));
    assert!(message.contains("U8") && message.contains("32-bit floats"), "{message}");
    let two = [value("image", FLOAT, &NCHW), value("mask", FLOAT, &NCHW)];
    assert!(refused(&model(&relu, &[], &two, &out)).contains("2 inputs (image, mask)"));
    let message = refused(&model(&relu, &[], &two[..1], &out));
    assert!(message.contains("one vector"), "{message}");
    let unknown = [node("Conjure", &["image"], "out", &[])];
    let message = refused(&model(&unknown, &[], &two[..1], &out));
    assert!(message.contains("Conjure"), "{message}");
}

#[test]
fn no_damage_of_a_model_panics() {
    let nothing =
        Setting { _folder: tempfile::tempdir().unwrap(), given: vec![text("model", "/nowhere/m.onnx")] };
    assert!(nothing.refused().contains("cannot be read"));
    for content in [&b""[..], b"hello, this is no model", &[0xff; 64]] {
        assert!(Setting::new(content, &[]).refused().contains("no model"), "{content:?}");
    }
    let sound = edges(&NCHW);
    for length in 0..sound.len() {
        // Whether it is refused depends on the place; a model without its last fields may be one.
        if let Ok(mut harness) = Setting::new(&sound[..length], &[]).harness() {
            harness.give(PIXELS, pixels(&[picture(1)], SIZE));
            let _ = harness.run();
        }
    }
    let mut random = Random::new(7);
    for _ in 0..300 {
        let mut content = sound.clone();
        for _ in 0..1 + random.idx(3) {
            let place = random.idx(content.len());
            content[place] = random.idx(256) as u8;
        }
        if let Ok(mut harness) = Setting::new(&content, &[]).harness() {
            harness.give(PIXELS, pixels(&[picture(1)], SIZE));
            let _ = harness.run();
        }
    }
    // A constant that claims more numbers than the file has.
    let nodes = [node("Add", &["image", "huge"], "out", &[])];
    let huge = tensor("huge", &[1 << 40, 1 << 20], &[1.0]);
    let content = model(&nodes, &[huge], &[value("image", FLOAT, &NCHW)], &[value("out", FLOAT, &[])]);
    Setting::new(&content, &[]).refused();
}
