//! How many signatures per second does one core extract from pixels?
//!
//! Unit: images per second; 150 x 150 pixels, 2500 sampling points, 400 seeds, 10 iterations, the transform `practical`;
//! beside it the default preset, `balanced`, in the same rounds (bar: 1.6 ms an image on a core with AVX2).
//! Baseline: OpenCV-contrib's `PCTSignatures` with equal settings on equal pixels, one thread. The thesis reports 400 s
//! for 11,555 images on one core (28.9 per second, 2000 points and 5 iterations); the bar is 6 x OpenCV.
//!
//! Decoding and scaling are not included: both sides start from equal RGB pixels.
//!
//! `cargo bench --bench extraction -- images=FOLDER count=24 rounds=11 points=2500 iterations=10`; without a folder
//! (or BOXWORK_BENCH_IMAGES) the images are drawn by the program. The binary needs no other file.

mod support;

use std::hint::black_box;
use std::path::{Path, PathBuf};

use boxwork_kernels::CodePath;
use boxwork_kernels::extract::{
    ExtractParameters, Extractor, ImageRef, Preset, Signature, StageTimes, reference,
};
use boxwork_kernels::similarity::{Ground, Measure, Similarity};
use boxwork_kernels::sqfd::reference::sqfd;
use boxwork_lab::sample_images::SampleSet;
use image::imageops::{FilterType, resize};
use support::peer::Peer;
use support::signatures::{DIMENSIONS, Signatures};
use support::{Arguments, Side, Spread, clock, print_machine, run_rounds, verdict};

/// Pixels along a side.
const SIDE: usize = 150;
/// The thesis' compromise between precise and easily indexed, for the comparison of answers.
const ALPHA: f64 = 0.64;
const RATIO_WANTED: f64 = 6.0;

fn main() {
    let arguments = Arguments::read(&["images", "count", "rounds", "points", "iterations"]);
    let count = arguments.get("count", 24);
    let rounds = arguments.get("rounds", 11);
    let parameters = ExtractParameters {
        points_count: arguments.get("points", 2500),
        iterations_count: arguments.get("iterations", 10),
        ..Preset::PRACTICAL.parameters()
    };
    let (points, iterations) = (parameters.points_count, parameters.iterations_count);
    let folder = arguments.text("images").map(PathBuf::from);
    let folder = folder.or_else(|| std::env::var_os("BOXWORK_BENCH_IMAGES").map(PathBuf::from));

    println!("question    how many signatures per second does one core extract from pixels?");
    println!("unit        images/s; {SIDE} x {SIDE} pixels, {points} points, {iterations} iterations");
    print_machine();
    let paths = CodePath::available();
    println!("code path   {:?}, of {paths:?}", paths[paths.len() - 1]);
    let images = match &folder {
        Some(folder) => photographs(folder, count),
        None => drawn(count),
    };
    let whence = folder.map_or("drawn by the program".to_owned(), |folder| folder.display().to_string());
    println!("images      {} {whence}", images.len());
    println!("rounds      {rounds}; median (middle half) of processor time, ratios within a round");

    let pixels = temporary("pixels");
    write_pixels(&pixels, &images).expect("the folder of temporary files can be written to");
    let questions = [pixels.to_str().expect("a path in UTF-8"), &points.to_string(), &iterations.to_string()];
    let mut peer = Peer::opencv(&["extraction", questions[0], questions[1], questions[2]]);
    measure(&parameters, &images, rounds, &mut peer);
    drop(peer);
    // The system cleans up what cannot be removed.
    let _ = std::fs::remove_file(&pixels);
}

fn measure(parameters: &ExtractParameters, images: &[Vec<u8>], rounds: usize, peer: &mut Option<Peer>) {
    let images: Vec<ImageRef<'_>> =
        images.iter().map(|rgb| ImageRef::new(SIDE, SIDE, rgb).expect("RGB of the right size")).collect();
    let expected: Vec<Signature> = images
        .iter()
        .map(|&image| reference::extract(parameters, image).expect("sound parameters"))
        .collect();
    let centroids =
        expected.iter().map(Signature::centroids_count).sum::<usize>() as f64 / images.len() as f64;
    for path in CodePath::available() {
        let mut extractor = Extractor::with_path(parameters.clone(), path).expect("sound parameters");
        for (image, expected) in images.iter().zip(&expected) {
            assert_eq!(&extractor.extract(*image), expected, "{path:?} differs from the reference");
        }
        println!(
            "checked     {path:?}: the reference's signatures to the bit, {centroids:.1} centroids on average"
        );
    }
    if let Some(peer) = peer {
        check_peer(peer, &expected);
    }

    let new = |path| Extractor::with_path(parameters.clone(), path).expect("sound parameters");
    let mut sides = Vec::new();
    for path in CodePath::available() {
        let (mut extractor, images) = (new(path), &images);
        sides.push(Side::on_this_core(format!("{path:?}"), images.len(), move || {
            for image in images {
                black_box(extractor.extract(*image));
            }
        }));
    }
    let best = sides.len() - 1;
    let balanced = Preset::BALANCED;
    for path in CodePath::available() {
        let parameters = balanced.parameters();
        let mut extractor = Extractor::with_path(parameters, path).expect("sound parameters");
        let images = &images;
        sides.push(Side::on_this_core(format!("{path:?}, {}", balanced.name), images.len(), move || {
            for image in images {
                black_box(extractor.extract(*image));
            }
        }));
    }
    let name = peer.as_ref().map(|peer| peer.name.clone());
    let mut round = 0;
    if let (Some(peer), Some(name)) = (peer, name) {
        /// A part of the images per round, a different part each time: all of them would take a second.
        const PARTS: usize = 4;
        sides.push(Side::new(name, move || {
            round += 1;
            peer.seconds(&format!("time {} {PARTS}", round % PARTS))
        }));
    }
    run_rounds(rounds, &mut sides);

    let opencv = sides.get(2 * (best + 1));
    println!("\n{:22} {:>24} {:>24} {:>24}", "", "images/s", "ms an image", "x OpenCV");
    for side in &sides {
        println!(
            "{:22} {:>24} {:>24} {:>24}",
            side.name,
            Spread::of(side.seconds.iter().map(|seconds| 1.0 / seconds)).to_string(),
            format!("{:.3}", Spread::of(side.seconds.iter().map(|seconds| 1e3 * seconds))),
            opencv.map_or("not measured".to_owned(), |opencv| side.faster_than(opencv).to_string()),
        );
    }
    let path = CodePath::available()[best];
    print_stages(new(path), &images);
    print_limit(parameters, path, centroids, sides[best].spread().median * 1e3);
    for (side, ours) in sides[best + 1..].iter().zip(&sides) {
        println!("{:22} {} x the time of {}", side.name, ours.faster_than(side), ours.name);
    }
    if let Some(opencv) = opencv {
        let ratio = sides[best].faster_than(opencv).median;
        verdict(&format!("{path:?} x OpenCV"), ratio, RATIO_WANTED, ratio >= RATIO_WANTED);
    }
}

/// The signatures of both sides cannot be equal, as each of OpenCV's extractors draws its own points. So the two
/// signatures of an image must be far nearer to each other than those of two images.
fn check_peer(peer: &mut Peer, expected: &[Signature]) {
    let file = temporary("signatures");
    let mut ask = || {
        let answer = peer.ask(&format!("signatures {}", file.display()));
        (
            Signatures::read(&file).expect("the peer has written it"),
            answer["centroids"].as_f64().unwrap_or(0.0),
        )
    };
    let ((theirs, centroids), (again, _)) = (ask(), ask());
    let _ = std::fs::remove_file(&file);
    let mut ours = Signatures::default();
    expected.iter().for_each(|signature| ours.push(&signature.centroids, &signature.weights));
    let measure = Measure::new(Similarity::Gaussian, Ground::L2, ALPHA).expect("alpha is positive");
    let between = |a: &Signatures, b: &Signatures, step: usize| {
        let count = a.count();
        let distance = |row: usize| {
            a.with(|a| b.with(|b| sqfd(&measure, a.signature(row), b.signature((row + step) % count))))
        };
        Spread::of((0..count).map(distance)).median
    };
    let (same, by_chance, others) =
        (between(&ours, &theirs, 0), between(&theirs, &again, 0), between(&ours, &ours, 1));
    println!(
        "checked     {}: {centroids:.1} centroids; distance to ours {same:.3}, of two of its own {by_chance:.3}, \
         between two images {others:.3}",
        peer.name
    );
    assert!(same < 0.5 * others, "the two extract different things");
}

/// The shares of the stages, measured on all images once more.
fn print_stages(mut extractor: Extractor, images: &[ImageRef<'_>]) {
    const TIMES: u32 = 10;
    let mut times = StageTimes::default();
    for _ in 0..TIMES {
        for image in images {
            black_box(extractor.extract_timed(*image, &mut times));
        }
    }
    let share = |stage: std::time::Duration| {
        100.0 * stage.as_secs_f64() / (times.texture + times.sampling + times.clustering).as_secs_f64()
    };
    println!(
        "stages      texture {:.0} %, sampling {:.0} %, clustering {:.0} %",
        share(times.texture),
        share(times.sampling),
        share(times.clustering)
    );
}

/// The least time to compare every sample with every mean; the extractor avoids most comparisons.
fn print_limit(parameters: &ExtractParameters, path: CodePath, centroids: f64, ms: f64) {
    /// No x86-64 core starts more multiply-adds per cycle.
    const PER_CYCLE: f64 = 2.0;
    let lanes = match path {
        CodePath::Avx512 => 16.0,
        CodePath::Avx2 | CodePath::AvxVnni => 8.0,
        _ => return,
    };
    let clock = clock::gigahertz();
    // The number of means at the beginning of a round is known for the first round and the last alone.
    let means = f64::from(parameters.seeds_count) + f64::from(parameters.iterations_count - 1) * centroids;
    let multiply_adds = f64::from(parameters.points_count) * means * DIMENSIONS as f64;
    let limit_ms = multiply_adds / PER_CYCLE / lanes / clock / 1e6;
    println!(
        "limit       {limit_ms:.3} ms an image for comparing all samples with all means, two multiply-adds a cycle at \
         {clock:.2} GHz; all of the extraction takes {:.1} x that",
        ms / limit_ms
    );
}

/// Pictures of all kinds that the program can draw.
fn drawn(count: usize) -> Vec<Vec<u8>> {
    let classes = SampleSet::class_names().len();
    (0..count).map(|idx| scaled(&SampleSet::render(idx % classes, idx / classes, 1))).collect()
}

/// Images of a folder and its subfolders, spread evenly.
fn photographs(folder: &Path, count: usize) -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    gather(folder, &mut files);
    files.sort();
    assert!(!files.is_empty(), "{} holds no images", folder.display());
    let count = count.min(files.len());
    (0..count)
        .map(|idx| {
            let file = &files[idx * files.len() / count];
            let image = image::open(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            scaled(&image.to_rgb8())
        })
        .collect()
}

fn gather(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            gather(&path, files);
        } else if path.extension().is_some_and(|end| ["jpg", "jpeg", "png"].iter().any(|image| end == *image))
        {
            files.push(path);
        }
    }
}

fn scaled(image: &image::RgbImage) -> Vec<u8> {
    resize(image, SIDE as u32, SIDE as u32, FilterType::CatmullRom).into_raw()
}

fn temporary(what: &str) -> PathBuf {
    std::env::temp_dir().join(format!("boxwork-extraction-{what}-{}.bin", std::process::id()))
}

fn write_pixels(path: &Path, images: &[Vec<u8>]) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    for number in [images.len(), SIDE] {
        bytes.extend_from_slice(&(number as u32).to_le_bytes());
    }
    images.iter().for_each(|rgb| bytes.extend_from_slice(rgb));
    std::fs::write(path, bytes)
}
