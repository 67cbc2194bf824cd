//! Writes the seeds: `fuzz/corpus/TARGET/...`, small sound inputs that a fuzzer then changes.

use std::error::Error;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::{Float32Type, UInt32Type, UInt64Type};
use arrow_array::{
    ArrayRef, BinaryArray, FixedSizeListArray, Float64Array, ListArray, RecordBatch, StringArray,
    UInt32Array, UInt64Array,
};
use arrow_ipc::writer::{FileWriter, StreamWriter};

use boxwork::shipped;
use boxwork_fuzz::objects::{self, KINDS};
use boxwork_fuzz::{folder, store};
use boxwork_kernels::extract::{ExtractParameters, GroundDistance, PointDistribution, Preset};
use boxwork_operators::extract::parameters_json;
use image::{DynamicImage, ImageFormat, Rgb, RgbImage, Rgba, RgbaImage};

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for shipped in shipped::ALL {
        let name = format!("pipelines_{}.yaml", shipped.name());
        put(root, "pipeline", &name, shipped.text.as_bytes())?;
    }
    for folder in ["bad", "good"] {
        for entry in fs::read_dir(root.join("../tests/cases/pipelines").join(folder))? {
            let path = entry?.path();
            let name = format!("{folder}_{}", path.file_name().unwrap_or_default().display());
            put(root, "pipeline", &name, &fs::read(&path)?)?;
        }
    }

    for objects in [1, 3] {
        put(root, "signature_store", &format!("objects-{objects}"), &store::bytes(objects))?;
        put(root, "object_store", &format!("signatures-{objects}"), &store::bytes(objects))?;
    }
    for kind in KINDS {
        let path = folder().join(kind.0);
        objects::write(&path, kind);
        put(root, "object_store", kind.0, &fs::read(path)?)?;
        let named = |(number, object)| format!("{{\"name\":\"{number}\",\"object\":{object}}}\n");
        let lines: String = kind.1.iter().enumerate().map(named).collect();
        put(root, "object_lines", kind.0, lines.as_bytes())?;
    }
    arrow(root)?;

    for entry in fs::read_dir(root.join("../experiments"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "yaml") {
            let name = path.file_name().unwrap_or_default().display().to_string();
            put(root, "experiment", &name, &fs::read(&path)?)?;
        }
    }
    put(root, "experiment", "small", SWEEP.as_bytes())?;
    put(root, "subset", "names", b"v/1\nv/69\n")?;
    put(root, "run_report", "small", REPORT.as_bytes())?;
    put(root, "metrics_page", "small", PAGE.as_bytes())?;

    let lines = [
        "{\"name\":\"a\",\"centroids\":[[1,2]],\"weights\":[5]}\n",
        "{\"weights\":[1e-3,3.25],\"centroids\":[[1,2],[-3e7,4]],\"name\":\"b\",\"width\":7,\"height\":9}\n",
        "{\"name\":\"c\",\"coordinates\":[\"x\",\"y\"],\"centroids\":[[0.1,0.2]],\"weights\":[1]}\n",
    ];
    put(root, "json_lines", "one", lines[0].as_bytes())?;
    put(root, "json_lines", "two", lines[..2].concat().as_bytes())?;
    put(root, "json_lines", "named", [lines[2], "\n", lines[0]].concat().as_bytes())?;

    let uniform = ExtractParameters {
        points_count: 200,
        distribution: PointDistribution::Uniform,
        transform: Preset::BEST.transform(),
        distance: GroundDistance::LInf,
        iterations_count: 3,
        ..ExtractParameters::default()
    };
    let few = ExtractParameters { points_count: 40, seeds_count: 10, iterations_count: 5, ..uniform.clone() };
    for (name, parameters) in
        [("default", &ExtractParameters::default()), ("uniform", &uniform), ("few", &few)]
    {
        put(root, "parameters", name, parameters_json(parameters).as_bytes())?;
    }
    images(root)
}

/// A sweep of tasks that the target knows, and the first lines of a table.
const SWEEP: &str = "\
experiment: 1
about: a sweep
axes:
  alpha: [0.2, 1]
  strategy: [scan, jump]
rounds: 2
warmup: 0
steps:
  store: {do: store, count: 3}
  search: {do: \"${strategy}\", store: \"${store}\", alpha: \"${alpha}\", block: 16}
measure: [search]
plots:
  time: {title: time, x: alpha, y: search.ms, series: strategy, log: [x, y]}
compare: {axis: strategy, value: jump, figure: search.ms}
---
alpha,strategy,search.ms,search.ms_low,search.ms_high,search.distances
0.2,scan,3.2,3.2,3.2,40
\"1\",\"ju\"\"mp\",16,,16,40
";

const REPORT: &str = r#"{"boxwork_report":1,"pipeline":"search.yaml","seconds":0.5,"requests":2,
"by_request":[{"seconds":0.25,"busy_seconds":0.1,"bytes_moved":4096}],
"boxes":[{"name":"distance","operator":"sqfd","copies":4,"firings":9,"rows_in":100,"rows_out":100,"busy_seconds":1.5,
"waiting_seconds":0.25,"blocked_seconds":0.125,"undeclared_blocking_seconds":0.1,"undeclared_blocking_seconds_max":0.1}],
"edges":[{"from":"scan.candidates","to":"distance.candidates","envelopes":7,"rows":700,"bytes":9000,"envelopes_high":4,
"envelopes_max":4,"bytes_high":800,"bytes_max":null,"refusals":3,"grown":1}],
"slots":[],"classes":[],"threads":3,
"devices":[{"name":"0","blocks":1,"failures":0,"kernel_seconds":0.1,"feed_seconds":0.1,"gather_seconds":0.1,"gathered_bytes":8}]}"#;

const PAGE: &str = "\
boxwork_uptime_seconds 1.5
boxwork_tasks_total{slot=\"0\",node=\"0\"} 7
---
# TYPE boxwork_uptime_seconds gauge
boxwork_uptime_seconds 2.5
boxwork_requests 1
boxwork_threads 3
boxwork_queued_tasks{node=\"0\"} 4
boxwork_tasks_total{slot=\"0\",node=\"0\"} 12
boxwork_slot_rest_seconds_total{slot=\"0\",node=\"0\"} 0.5
boxwork_steals_total{slot=\"0\",distance=\"shared_cache\"} 2
boxwork_box_firings_total{request=\"1\",box=\"distance\",operator=\"sqfd\"} 9
boxwork_box_busy_seconds_total{request=\"1\",box=\"distance\",operator=\"sqfd\"} 1e-3
boxwork_class_limit{class=\"di\\\\s\\nk\"} 4
boxwork_class_in_flight{class=\"disk\"} 2
boxwork_class_auto{class=\"disk\"} 1
";

/// Files and streams as other programs write them.
fn arrow(root: &Path) -> Result<(), Box<dyn Error>> {
    let lists = [Some(vec![Some(1.0), Some(2.5)]), Some(vec![Some(-3e7), Some(0.125)])];
    let sets = [Some(vec![Some(3), Some(1), Some(3)]), Some(vec![])];
    let codes = [Some(vec![Some(15)]), Some(vec![Some(u64::MAX)])];
    let numbers: ArrayRef = Arc::new(UInt32Array::from(vec![0, 1]));
    let objects: [(&str, ArrayRef); 5] = [
        ("lists", Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(lists.clone()))),
        ("fixed", Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(lists, 2))),
        ("texts", Arc::new(StringArray::from(vec!["naïve", "b"]))),
        ("sets", Arc::new(ListArray::from_iter_primitive::<UInt32Type, _, _>(sets))),
        ("codes", Arc::new(ListArray::from_iter_primitive::<UInt64Type, _, _>(codes))),
    ];
    for (kind, objects) in objects {
        let names: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
        let columns =
            [("query", Arc::clone(&numbers), true), ("name", names, true), ("object", objects, true)];
        write(root, kind, &RecordBatch::try_from_iter_with_nullable(columns)?)?;
    }
    let distances: [(&str, ArrayRef); 3] = [
        ("distance", Arc::new(Float64Array::from(vec![0.5, 1.5]))),
        ("id", Arc::new(UInt64Array::from(vec![7, 9]))),
        ("query", numbers),
    ];
    write(root, "distances", &RecordBatch::try_from_iter(distances)?)?;
    let bytes: [(&str, ArrayRef); 3] = [
        ("path", Arc::new(StringArray::from(vec!["/a", "/b"]))),
        ("name", Arc::new(StringArray::from(vec!["a", "b"]))),
        ("bytes", Arc::new(BinaryArray::from_vec(vec![b"1", b"23"]))),
    ];
    write(root, "bytes", &RecordBatch::try_from_iter(bytes)?)
}

/// Writes a batch twice, into a file and into a stream.
fn write(root: &Path, name: &str, batch: &RecordBatch) -> Result<(), Box<dyn Error>> {
    let schema = batch.schema();
    let (mut file, mut stream) =
        (FileWriter::try_new(Vec::new(), &schema)?, StreamWriter::try_new(Vec::new(), &schema)?);
    for _ in 0..2 {
        file.write(batch)?;
        stream.write(batch)?;
    }
    put(root, "arrow_import", &format!("{name}.file"), &file.into_inner()?)?;
    put(root, "arrow_import", &format!("{name}.stream"), &stream.into_inner()?)
}

fn images(root: &Path) -> Result<(), Box<dyn Error>> {
    let rgb = RgbImage::from_fn(9, 7, |x, y| Rgb([(x * 25) as u8, (y * 33) as u8, (x ^ y) as u8]));
    let rgba = RgbaImage::from_fn(5, 4, |x, y| Rgba([(x * 40) as u8, 9, (y * 50) as u8, (x * y * 12) as u8]));
    let (rgb, rgba) = (DynamicImage::from(rgb), DynamicImage::from(rgba));
    let grey = DynamicImage::from(rgb.to_luma8());
    let deep = DynamicImage::from(rgb.to_rgb16());
    use ImageFormat::{Bmp, Gif, Jpeg, Png, Tiff, WebP};
    let images = [
        ("rgb", &rgb, &[Bmp, Gif, Jpeg, Png, Tiff, WebP][..]),
        ("rgba", &rgba, &[Bmp, Gif, Png, Tiff, WebP][..]),
        ("grey", &grey, &[Bmp, Jpeg, Png, Tiff, WebP][..]),
        ("deep", &deep, &[Png, Tiff][..]),
    ];
    for (name, image, formats) in images {
        for format in formats {
            let mut content = Cursor::new(Vec::new());
            image.write_to(&mut content, *format)?;
            let ending = format.extensions_str().first().copied().unwrap_or_default();
            for target in ["image", "picture"] {
                put(root, target, &format!("{name}.{ending}"), content.get_ref())?;
            }
        }
    }
    Ok(())
}

fn put(root: &Path, target: &str, name: &str, content: &[u8]) -> Result<(), Box<dyn Error>> {
    let folder: PathBuf = root.join("corpus").join(target);
    fs::create_dir_all(&folder)?;
    Ok(fs::write(folder.join(name), content)?)
}
