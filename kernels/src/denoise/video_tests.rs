//! Videos on every path against the definition, and what must change no bit.

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;
use crate::CodePath;
use crate::chance::Random;
use crate::pieces::{Pieces, one_by_one};

/// Frames of stripes and squares that move by some pixels a frame, with noise of a deviation that is another one in each frame.
fn frames(
    (width, height, channels): (usize, usize, usize),
    count: usize,
    (dy, dx): (usize, usize),
    sigma: f64,
    seed: u64,
) -> Vec<Picture> {
    let mut random = Random::mixed(seed);
    let mut frame = |nth: usize| {
        let mut levels = Vec::new();
        for y in 0..height {
            for x in 0..width {
                let (y, x) = (y + nth * dy, x + nth * dx);
                for channel in 0..channels {
                    let clean = 40 + 3 * x + if (x / 7 + y / 5) % 2 == 0 { 90 } else { 0 } + 20 * channel;
                    levels.push(((clean % 256) as f64 + sigma * random.normal()) as f32);
                }
            }
        }
        Picture::new(width, height, channels, Samples::Floats(levels)).unwrap()
    };
    (0..count).map(&mut frame).collect()
}

/// Small windows, so that the definition is quick.
fn small(profile: Profile, sigma: f64) -> Parameters {
    let parameters = Parameters::of(profile, sigma);
    let first = Phase { half_window: 4, ..parameters.first };
    let second = parameters.second.map(|second| Phase { half_window: 4, ..second });
    Parameters { first, second, ..parameters }
}

/// The frames that leave while the frames are given one by one.
fn denoised_by(
    pieces: &mut Pieces<'_>,
    path: CodePath,
    frames: &[Picture],
    parameters: Parameters,
    sigma: f64,
    sides: usize,
) -> Vec<Picture> {
    let mut video = Video::new(parameters, path, sides, &frames[0]).unwrap();
    let (mut left, told) = (Vec::new(), AtomicU64::new(0));
    let tell = |pixels| {
        told.fetch_add(pixels, Ordering::Relaxed);
    };
    let mut leave = |video: &mut Video| {
        while video.is_ready() {
            let expected = video.next_pixels();
            left.push(video.denoise_next(pieces, &tell).unwrap());
            assert_eq!(told.swap(0, Ordering::Relaxed), expected);
        }
    };
    for frame in frames {
        video.give(frame.clone(), Some(sigma));
        leave(&mut video);
    }
    video.end();
    leave(&mut video);
    left
}

fn denoised(frames: &[Picture], parameters: Parameters, sigma: f64, sides: usize) -> Vec<Picture> {
    denoised_by(&mut one_by_one(), CodePath::detect(), frames, parameters, sigma, sides)
}

/// The largest difference of two videos, and the share of samples that differ by more than a hundredth.
fn difference(a: &[Picture], b: &[Picture]) -> (f32, f64) {
    let (mut largest, mut far, mut count) = (0f32, 0, 0);
    for (a, b) in a.iter().zip(b) {
        for idx in 0..a.samples().len() {
            let difference = (a.samples().level(idx) - b.samples().level(idx)).abs();
            largest = largest.max(difference);
            far += usize::from(difference > 0.01);
            count += 1;
        }
    }
    (largest, far as f64 / count as f64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn every_path_is_near_the_definition_and_all_have_the_same_bits(
        width in 5usize..30, height in 5usize..24, channels in 1usize..4, count in 1usize..6, sides in 0usize..4,
        move_y in 0usize..3, move_x in 0usize..4, strong: bool, one_phase: bool, apart: bool, walsh: bool, seed: u64,
    ) {
        let sigma = if strong { 50.0 } else { 18.0 };
        let video = frames((width, height, channels), count, (move_y, move_x), sigma, seed);
        let mut parameters = small(Profile::Default, sigma);
        parameters.second = parameters.second.filter(|_| !one_phase);
        parameters.colour = if apart { Colour::Apart } else { Colour::Together };
        parameters.along = if walsh { StackTransform::Walsh } else { StackTransform::Haar };
        let expected = reference_video(&video, &parameters, sigma, sides);
        let on = |path| denoised_by(&mut one_by_one(), path, &video, parameters, sigma, sides);
        let results: Vec<_> = CodePath::available().into_iter().map(on).collect();
        prop_assert_eq!(results[0].len(), count);
        // As for pictures: a coefficient at the limit may be kept by one and not by the other.
        let (largest, share) = difference(&results[0], &expected);
        prop_assert!(largest < 8.0 && share < 0.12, "{largest} {share}");
        for result in &results[1..] {
            prop_assert!(*result == results[0]);
        }
    }

    #[test]
    fn frames_alone_are_pictures(
        width in 1usize..60, height in 1usize..50, channels in 1usize..5, strong: bool, sides in 0usize..9, seed: u64,
    ) {
        let sigma = if strong { 50.0 } else { 20.0 };
        let video = frames((width, height, channels), 3, (1, 1), sigma, seed);
        let parameters = small(Profile::Default, sigma);
        let denoiser = Denoiser::new(parameters, sigma, CodePath::detect()).unwrap();
        let alone: Vec<Picture> = video
            .iter()
            .map(|picture| denoiser.denoise_rows(picture, 0..height, &mut one_by_one(), &|_| ()).unwrap())
            .collect();
        prop_assert!(denoised(&video, parameters, sigma, 0) == alone);
        prop_assert!(denoised(&video[..1], parameters, sigma, sides) == alone[..1]);
    }
}

/// Frames of several tiles in both directions.
fn of_many_tiles(channels: usize) -> Vec<Picture> {
    frames((210, 60, channels), 4, (1, 2), 25.0, 3)
}

#[test]
fn the_order_of_tiles_changes_no_bit() {
    let video = of_many_tiles(3);
    let mut most = 0;
    let mut backwards = |count: usize, f: &(dyn Fn(usize) + Sync)| {
        most = most.max(count);
        (0..count).rev().for_each(f);
        true
    };
    let parameters = small(Profile::Default, 25.0);
    let back = denoised_by(&mut backwards, CodePath::detect(), &video, parameters, 25.0, 2);
    assert!(denoised(&video, parameters, 25.0, 2) == back);
    assert!(most > 3, "{most} tiles");
}

#[test]
fn many_tiles_are_near_the_definition() {
    let video = of_many_tiles(1);
    let parameters = Parameters { second: None, ..small(Profile::Default, 25.0) };
    let expected = reference_video(&video, &parameters, 25.0, 2);
    let (largest, share) = difference(&denoised(&video, parameters, 25.0, 2), &expected);
    assert!(largest < 8.0 && share < 0.12, "{largest} {share}");
}

#[test]
fn frames_around_help_most_where_nothing_moves() {
    let mean =
        |a: &[Picture], b: &[Picture]| a.iter().zip(b).map(|(a, b)| psnr(a, b)).sum::<f64>() / a.len() as f64;
    let gain = |motion: (usize, usize)| {
        let [clean, noisy] = [0.0, 25.0].map(|sigma| frames((64, 64, 1), 5, motion, sigma, 9));
        let parameters = Parameters::of(Profile::Default, 25.0);
        let quality = |sides| mean(&clean, &denoised(&noisy, parameters, 25.0, sides));
        quality(2) - quality(0)
    };
    let (still, moving) = (gain((0, 0)), gain((1, 2)));
    assert!(still > 1.0 && moving > 0.3, "{still} dB and {moving} dB");
}

#[test]
fn a_frame_without_noise_stays_and_helps_the_others() {
    let [clean, noisy] = [0.0, 20.0].map(|sigma| frames((30, 20, 1), 7, (0, 1), sigma, 4));
    let mut video = noisy.clone();
    video[1] = clean[1].clone();
    let parameters = small(Profile::Default, 20.0);
    let mut of = Video::new(parameters, CodePath::detect(), 1, &video[0]).unwrap();
    let mut left = Vec::new();
    let leave = |of: &mut Video, left: &mut Vec<Picture>| {
        while of.is_ready() {
            let (expected, told) = (of.next_pixels(), AtomicU64::new(0));
            let tell = |pixels| {
                told.fetch_add(pixels, Ordering::Relaxed);
            };
            left.push(of.denoise_next(&mut one_by_one(), &tell).unwrap());
            assert_eq!(told.load(Ordering::Relaxed), expected);
        }
    };
    for (nth, frame) in video.iter().enumerate() {
        of.give(frame.clone(), (nth != 1).then_some(20.0));
        leave(&mut of, &mut left);
    }
    assert_eq!(left.len(), 3, "a frame waits for the four after it");
    of.end();
    leave(&mut of, &mut left);
    assert!(left.len() == 7 && left[1] == video[1]);
    let alone = denoised(&noisy, parameters, 20.0, 1);
    assert!(psnr(&clean[0], &left[0]) > psnr(&clean[0], &alone[0]));
    // Five frames with their pixels, twice, and the sums of three for each phase.
    assert_eq!(of.bytes(), 600 * (2 * 2 * 5 * 4 + 2 * 3 * 16));
}

#[test]
fn no_frame_leaves_a_cancelled_video() {
    let video = frames((30, 20, 1), 2, (0, 1), 20.0, 4);
    for cancelled in 0.. {
        let mut of = Video::new(small(Profile::Default, 20.0), CodePath::detect(), 1, &video[0]).unwrap();
        video.iter().for_each(|frame| of.give(frame.clone(), Some(20.0)));
        of.end();
        let mut calls = 0;
        let mut pieces = |count: usize, f: &(dyn Fn(usize) + Sync)| {
            calls += 1;
            (0..count).for_each(f);
            calls <= cancelled
        };
        if of.denoise_next(&mut pieces, &|_| ()).is_some() {
            assert!(cancelled > 8, "{cancelled} calls");
            break;
        }
        assert!(!of.is_ready());
    }
}
