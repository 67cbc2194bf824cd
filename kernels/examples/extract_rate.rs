//! How many signatures does one core extract per second, and which stage takes the time?
//!
//! Synthetic images of 150 x 150 pixels, half smooth and half textured, 2500 points and 10 iterations. Baseline:
//! OpenCV-contrib's PCT signatures need 34.7 to 38.8 ms an image at this setting. The answer of every path is compared
//! with the reference's before anything is timed; printed is the median of the runs, with the fastest and the slowest.
//!
//! `cargo run --release -p boxwork-kernels --example extract_rate`

use std::time::Instant;

use boxwork_kernels::CodePath;
use boxwork_kernels::chance::Random;
use boxwork_kernels::extract::{
    ExtractParameters, Extractor, ImageRef, Preset, Signature, StageTimes, reference,
};

const SIDE: usize = 150;
const IMAGES: usize = 24;
const RUNS: usize = 15;
const OPENCV_MS: f64 = 36.75;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pixels: Vec<Vec<u8>> = (0..IMAGES as u64).map(synthetic).collect();
    let images = pixels.iter().map(|rgb| ImageRef::new(SIDE, SIDE, rgb)).collect::<Result<Vec<_>, _>>()?;
    let settings = [
        ("2500 points, 10 iterations", Preset::PRACTICAL.parameters()),
        (
            "2000 points, 5 iterations",
            ExtractParameters { points_count: 2000, iterations_count: 5, ..Preset::PRACTICAL.parameters() },
        ),
    ];
    for (name, parameters) in settings {
        let start = Instant::now();
        let expected = images
            .iter()
            .map(|&image| reference::extract(&parameters, image))
            .collect::<Result<Vec<_>, _>>()?;
        let reference_ms = start.elapsed().as_secs_f64() * 1e3 / IMAGES as f64;
        let centroids = expected.iter().map(Signature::centroids_count).sum::<usize>() as f64 / IMAGES as f64;
        println!(
            "{name}: one core, {IMAGES} images of {SIDE} x {SIDE}, {centroids:.1} centroids each on average"
        );
        println!("  reference {reference_ms:8.3} ms an image");
        for path in CodePath::available() {
            measure(&parameters, path, &images, &expected, reference_ms)?;
        }
    }
    Ok(())
}

fn measure(
    parameters: &ExtractParameters,
    path: CodePath,
    images: &[ImageRef<'_>],
    expected: &[Signature],
    reference_ms: f64,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut extractor = Extractor::with_path(parameters.clone(), path)?;
    for (image, expected) in images.iter().zip(expected) {
        assert_eq!(&extractor.extract(*image), expected, "{path:?} differs from the reference");
    }
    let mut runs: Vec<(f64, StageTimes)> = (0..RUNS)
        .map(|_| {
            let mut times = StageTimes::default();
            let start = Instant::now();
            for image in images {
                std::hint::black_box(extractor.extract_timed(*image, &mut times));
            }
            (start.elapsed().as_secs_f64() * 1e3 / images.len() as f64, times)
        })
        .collect();
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (median, times) = runs[RUNS / 2];
    let stage = |time: std::time::Duration| time.as_secs_f64() * 1e3 / images.len() as f64;
    println!(
        "  {:9} {median:8.3} ms ({:.3} to {:.3}), {:6.0} images/s; texture {:.3}, sampling {:.3}, clustering {:.3}; \
         reference x {:.1}; OpenCV-contrib at 2500 and 10 x {:.1}",
        format!("{path:?}"),
        runs[0].0,
        runs[RUNS - 1].0,
        1e3 / median,
        stage(times.texture),
        stage(times.sampling),
        stage(times.clustering),
        reference_ms / median,
        OPENCV_MS / median,
    );
    Ok(())
}

/// Smooth gradients and discs for even numbers; gradients and discs under noise and stripes for odd ones.
fn synthetic(number: u64) -> Vec<u8> {
    let mut random = Random::mixed(number);
    let mut unit = |scale: f64| random.unit() * scale;
    let discs: Vec<[f64; 6]> = (0..7)
        .map(|_| {
            let side = SIDE as f64;
            [unit(side), unit(side), 12.0 + unit(35.0), unit(255.0), unit(255.0), unit(255.0)]
        })
        .collect();
    let slope: [f64; 6] = std::array::from_fn(|_| unit(1.0) - 0.3);
    let stripe = 3.0 + unit(9.0);
    let mut rgb = Vec::with_capacity(3 * SIDE * SIDE);
    for y in 0..SIDE {
        for x in 0..SIDE {
            let (x, y) = (x as f64, y as f64);
            let mut colour = [60.0 + slope[0] * x + slope[1] * y, 90.0 + slope[2] * x, 120.0 + slope[4] * y];
            for disc in &discs {
                if (x - disc[0]).hypot(y - disc[1]) < disc[2] {
                    colour = [disc[3] + slope[3] * x, disc[4] + slope[5] * y, disc[5]];
                }
            }
            if number % 2 == 1 {
                let texture = unit(50.0) - 25.0 + if ((x + y) / stripe).fract() < 0.5 { 30.0 } else { 0.0 };
                colour = colour.map(|value| value + texture);
            }
            rgb.extend(colour.map(|value| value as u8));
        }
    }
    rgb
}
