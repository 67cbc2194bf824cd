//! `boxwork denoise`: less noise, the same bytes for any number of workers, progress, and what is refused.

#[path = "support/command.rs"]
mod command;
#[path = "support/values.rs"]
mod values;

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use boxwork::shipped;
use boxwork_kernels::chance::Random;
use boxwork_operators::catalog;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_runtime::{Config, Request, Runtime};
use command::{fails, folder, ok, stats};
use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
use values::path_value;

/// A picture of coloured stripes with noise.
fn picture(width: u32, height: u32, sigma: f64, seed: u64) -> RgbImage {
    let mut random = Random::mixed(seed);
    let noisy = |level: u32, random: &mut Random| {
        (f64::from(level) + sigma * random.normal()).clamp(0.0, 255.0) as u8
    };
    RgbImage::from_fn(width, height, |x, y| {
        let levels = [60 + x / 16 * 20 % 120, 90 + y / 16 * 15 % 90, 120];
        Rgb(levels.map(|level| noisy(level, &mut random)))
    })
}

fn save(at: &Path, image: impl Into<DynamicImage>, name: &str) {
    let mut content = Cursor::new(Vec::new());
    let image: DynamicImage = image.into();
    image.write_to(&mut content, ImageFormat::from_path(name).expect("a known ending")).expect("an image");
    fs::create_dir_all(at.join(name).parent().expect("a folder")).expect("a folder");
    fs::write(at.join(name), content.into_inner()).expect("a file");
}

fn difference(a: &RgbImage, b: &RgbImage) -> f64 {
    let squares = a.as_raw().iter().zip(b.as_raw()).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2));
    squares.sum::<f64>() / a.as_raw().len() as f64
}

#[test]
fn noise_is_removed_with_the_same_bytes_for_any_number_of_workers() {
    let folder = folder();
    let at = folder.path();
    save(at, picture(90, 70, 20.0, 1), "photos/a/1.png");
    save(at, picture(64, 64, 20.0, 2), "photos/b/2.tiff");
    save(at, DynamicImage::from(picture(40, 30, 10.0, 3)).to_luma8(), "photos/b/3.jpg");
    let denoised = |out: &str, workers: &str| {
        ok(at, &["denoise", "photos", "--out", out, "--sigma", "20", "--workers", workers]);
        ["a/1.png", "b/2.tiff", "b/3.jpg"].map(|name| fs::read(at.join(out).join(name)).expect("a picture"))
    };
    let one = denoised("clean1", "1");
    assert!(one == denoised("clean2", "2") && one == denoised("clean7", "7"), "the number of workers shows");
    let result = image::load_from_memory(&one[0]).expect("an image").into_rgb8();
    let clean = picture(90, 70, 0.0, 1);
    let (before, after) = (difference(&clean, &picture(90, 70, 20.0, 1)), difference(&clean, &result));
    assert!(after * 8.0 < before, "{before} became {after}");

    ok(
        at,
        &["denoise", "photos/a", "--out", "fast", "--profile", "fast", "--phases", "1", "--format", "jpeg"],
    );
    assert!(at.join("fast/a/1.png.jpg").exists());
    let again = ["denoise", "photos", "--out", "clean1"];
    assert!(fails(at, &again, 3).contains("is there already"));
    ok(at, &[&again[..], &["--exists", "skip"]].concat());
    assert!(fs::read(at.join("clean1/a/1.png")).expect("a picture") == one[0], "it stays");
}

/// The units of work that the box `clean` has done, and those that it has begun.
fn work(request: &Request) -> (u64, u64) {
    let told = request.progress().into_iter().find(|told| told.name == "clean");
    told.map_or((0, 0), |told| (told.work_done, told.work_total))
}

#[test]
fn the_work_within_one_picture_is_counted_up_to_its_pixels() {
    let folder = folder();
    let at = folder.path();
    save(at, picture(300, 200, 20.0, 1), "p/x/a.png");
    for workers in [1, 3] {
        let runtime = Runtime::start(Config::flat(workers)).expect("the system gives threads");
        let values = [
            ("in", Value::List(vec![path_value(&at.join("p"))])),
            ("out", path_value(&at.join(format!("q{workers}")))),
            ("sigma", Value::Number(20.0)),
            ("device", Value::Text("cpu".to_owned())),
        ];
        let values: BTreeMap<_, _> =
            values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let declaration = shipped::DENOISE.load().declaration;
        let prepared = Prepared::new(&declaration, &catalog(), &values, &runtime.environment());
        let prepared = Arc::new(prepared.unwrap_or_else(|error| panic!("{error}")));
        let request = runtime.submit(&prepared, &Submission::default()).expect("the values fit");
        let mut seen = vec![(0, 0)];
        while request.wait_timeout(Duration::from_millis(1)).is_none() {
            seen.push(work(&request));
        }
        seen.push(work(&request));
        assert!(seen.is_sorted(), "{workers} workers: {seen:?}");
        assert_eq!(seen.last(), Some(&(60_000, 60_000)), "{workers} workers");
    }
}

#[test]
fn small_and_flat_pictures_pass_and_bad_ones_are_named() {
    let folder = folder();
    let at = folder.path();
    save(at, picture(1, 1, 0.0, 1), "p/x/one.png");
    save(at, picture(7, 300, 9.0, 1), "p/x/thin.png");
    save(at, RgbImage::from_pixel(30, 30, Rgb([9, 8, 7])), "p/x/flat.png");
    let said = stats(at, &["denoise", "p", "--out", "q"]);
    assert!(said.contains("x/flat.png") && said.contains("stays as it is"), "{said}");
    let flat = fs::read(at.join("q/x/flat.png")).expect("a picture");
    assert_eq!(image::load_from_memory(&flat).expect("an image").into_rgb8().get_pixel(3, 3).0, [9, 8, 7]);
    assert!(at.join("q/x/one.png").exists() && at.join("q/x/thin.png").exists());

    fs::write(at.join("p/x/cut.png"), &flat[..flat.len() / 2]).expect("a file");
    let said = fails(at, &["denoise", "p", "--out", "r"], 1);
    assert!(said.contains("p/x/cut.png") && said.contains("cannot be decoded"), "{said}");
    assert!(at.join("r/x/thin.png").exists(), "the others go on");
}

#[test]
fn wrong_input_gets_an_error_that_says_what_to_do() {
    let folder = folder();
    let at = folder.path();
    save(at, picture(30, 30, 9.0, 1), "p/x/a.png");
    for sigma in ["0", "-3", "inf", "nan", "much"] {
        assert!(
            fails(at, &["denoise", "p", "--out", "q", "--sigma", sigma], 2).contains("a number above 0"),
            "{sigma}"
        );
    }
    assert!(fails(at, &["denoise", "p", "--out", "p/clean"], 3).contains("name a folder beside it"));
    assert!(fails(at, &["denoise", "none", "--out", "q"], 3).contains("`none` cannot be listed"));
    let haar = ["denoise", "p", "--out", "q", "--profile", "strong", "--transform-2", "haar"];
    assert!(fails(at, &haar, 3).contains("only `dct` can"));
    fs::write(at.join("file"), "").expect("a file");
    assert!(fails(at, &["denoise", "p", "--out", "file"], 3).contains("is no folder"));
    assert!(!at.join("q").exists() && !at.join("p/clean").exists());
}

/// A scene without any patch that is similar to another one, with noise of its own in each frame.
fn frame(sigma: f64, nth: u64) -> RgbImage {
    let (mut scene, mut random) = (Random::mixed(7), Random::mixed(100 + nth));
    RgbImage::from_fn(60, 40, |_, _| {
        let level = 128.0 + 40.0 * scene.normal();
        Rgb([0, 1, 2].map(|_| (level + sigma * random.normal()).clamp(0.0, 255.0) as u8))
    })
}

#[test]
fn frames_of_a_video_help_each_other_with_the_same_bytes_for_any_number_of_workers() {
    let folder = folder();
    let at = folder.path();
    let names = ["1.png", "2.png", "3.png"];
    for (nth, name) in names.iter().enumerate() {
        save(at, frame(25.0, nth as u64), &format!("p/x/{name}"));
    }
    let denoised = |out: &str, workers: &str, frames: &str| {
        ok(at, &["denoise", "p", "--out", out, "--sigma", "25", "--frames", frames, "--workers", workers]);
        names.map(|name| fs::read(at.join(out).join("x").join(name)).expect("a picture"))
    };
    let one = denoised("q1", "1", "2");
    assert!(
        one == denoised("q2", "2", "2") && one == denoised("q7", "7", "2"),
        "the number of workers shows"
    );
    let alone = denoised("r", "2", "0");
    ok(at, &["denoise", "p", "--out", "s", "--sigma", "25"]);
    assert!(alone[1] == fs::read(at.join("s/x/2.png")).expect("a picture"), "no frames by default");
    let clean = frame(0.0, 1);
    let error =
        |content: &[u8]| difference(&clean, &image::load_from_memory(content).expect("an image").into_rgb8());
    assert!(error(&one[1]) * 1.2 < error(&alone[1]), "{} and {}", error(&one[1]), error(&alone[1]));

    fs::write(at.join("p/x/2a.png"), &one[0][..one[0].len() / 2]).expect("a file");
    let damaged = ["denoise", "p", "--out", "d", "--sigma", "25", "--frames", "2"];
    assert!(fails(at, &damaged, 1).contains("p/x/2a.png"));
    let around = names.map(|name| fs::read(at.join("d/x").join(name)).expect("a picture"));
    assert!(around == one, "a damaged frame counts as none");
    fs::remove_file(at.join("p/x/2a.png")).expect("a file");
    save(at, picture(61, 40, 25.0, 1), "p/x/4.png");
    let said = fails(at, &["denoise", "p", "--out", "t", "--frames", "1"], 3);
    assert!(said.contains("x/4.png has 61 by 40 pixels") && said.contains("one size and depth"), "{said}");
    assert!(fails(at, &["denoise", "p", "--out", "u", "--frames", "9"], 2).contains("0..=8"));
    let said = fails(at, &["denoise", "p", "--out", "u", "--frames", "1", "--device", "gpu"], 3);
    assert!(said.contains("devices denoise no videos") && !at.join("u").exists(), "{said}");
}

#[test]
fn an_evaluation_measures_what_is_gained() {
    let folder = folder();
    let at = folder.path();
    save(at, picture(64, 64, 0.0, 1), "p/x/a.png");
    let evaluate = |workers: &str| {
        let run = [
            "run",
            "denoise_evaluate",
            "--set",
            "images=[p]",
            "--set",
            "sigma=[10, 30]",
            "--set",
            "format=json",
        ];
        ok(at, &[&run[..], &["--set", "out=f.json", "--workers", workers]].concat());
        fs::read_to_string(at.join("f.json")).expect("the figures")
    };
    let text = evaluate("2");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    for (row, sigma) in [(0, 10.0f64), (1, 30.0)] {
        let mean = &json["means"][row];
        let noisy = 20.0 * (255.0 / sigma).log10();
        assert!((mean["noisy_psnr"].as_f64().expect("a number") - noisy).abs() < 0.3, "{text}");
        assert!(mean["psnr"].as_f64().expect("a number") > noisy + 8.0, "{text}");
        assert!(
            mean["ssim"].as_f64().expect("a number") > mean["noisy_ssim"].as_f64().expect("a number"),
            "{text}"
        );
    }
    assert_eq!(text, evaluate("1"), "the number of workers shows");
}
