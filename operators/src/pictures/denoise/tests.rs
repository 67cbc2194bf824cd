//! The box `denoise` on slots and on devices.

use std::sync::Arc;

use boxwork_kernels::CodePath;
use boxwork_kernels::chance::Random;
use boxwork_kernels::denoise::{Denoiser, Picture, Samples, Video, psnr};
use boxwork_kernels::pieces::one_by_one;
use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};
use boxwork_runtime::feeding::{Devices, Options, Picked};
use boxwork_runtime::harness::Harness;
use boxwork_runtime::parameter::Value;

use super::task::stage_of;
use super::*;

fn noisy(sigma: f32) -> (Picture, Picture) {
    let mut random = Random::mixed(3);
    let clean: Vec<f32> = (0..60 * 50).map(|idx| 60.0 + (idx % 60 / 20) as f32 * 60.0).collect();
    let dirty = clean.iter().map(|level| level + sigma * random.normal_f32()).collect();
    let picture = |levels| Picture::new(60, 50, 1, Samples::Floats(levels)).unwrap();
    (picture(clean), picture(dirty))
}

fn denoised(row: Row, settings: &[(&'static str, Value)]) -> (Row, Vec<String>) {
    let pixels = (row.picture.width() * row.picture.height()) as u64;
    let mut harness = Harness::new(&DENOISE, settings.iter().cloned()).unwrap();
    harness.give(NOISY, row.envelope().unwrap());
    harness.end(NOISY);
    harness.run().unwrap();
    assert!(harness.is_done());
    assert_eq!(harness.work(), (pixels, pixels), "the work of a picture counts as its pixels");
    (Row::read(&harness.taken(PICTURES)[0], 0).unwrap(), harness.notes().to_vec())
}

#[test]
fn the_deviation_is_given_or_of_the_row_or_estimated() {
    let (clean, dirty) = noisy(20.0);
    let row = |sigma| Row { name: "a.png".into(), picture: dirty.clone(), sigma };
    let (given, _) = denoised(row(0.0), &[("sigma", Value::Number(20.0))]);
    let (of_row, _) = denoised(row(20.0), &[]);
    assert_eq!(given, of_row);
    let (estimated, _) = denoised(row(0.0), &[]);
    assert!((estimated.sigma - 20.0).abs() < 2.0, "{}", estimated.sigma);
    for result in [&given, &estimated] {
        assert!(psnr(&clean, &result.picture) > psnr(&clean, &dirty) + 8.0);
    }
    let (first, _) = denoised(row(20.0), &[("phases", Value::Integer(1))]);
    assert_ne!(first, of_row);
}

#[test]
fn a_flat_picture_stays_and_is_named() {
    let picture = Picture::new(30, 20, 1, Samples::Bytes(vec![77; 600])).unwrap();
    let (row, notes) = denoised(Row { name: "p/flat.png".into(), picture: picture.clone(), sigma: 0.0 }, &[]);
    assert_eq!(row.picture, picture);
    assert!(notes[0].contains("p/flat.png") && notes[0].contains("stays"), "{notes:?}");
}

#[test]
fn transforms_that_do_not_fit_the_patches_are_refused_with_the_fix() {
    let settings = [("profile", Value::Text("strong".into())), ("transform_2", Value::Text("haar".into()))];
    let message = Harness::new(&DENOISE, settings).err().unwrap().to_string();
    assert!(message.contains("only `dct` can"), "{message}");
    for sigma in [0.0, -3.0, f64::NAN, f64::INFINITY] {
        assert!(Harness::new(&DENOISE, [("sigma", Value::Number(sigma))]).is_err(), "{sigma}");
    }
}

/// A harness whose box has taken these pictures as frames of a video, with one side of frames.
fn filmed(frames: &[Picture], settings: &[(&'static str, Value)]) -> Harness {
    let sides = ("frames", Value::Integer(1));
    let mut harness = Harness::new(&DENOISE, settings.iter().cloned().chain([sides])).unwrap();
    for (nth, picture) in frames.iter().enumerate() {
        let row = Row { name: format!("v/{nth}.png"), picture: picture.clone(), sigma: 0.0 };
        harness.give(NOISY, row.envelope().unwrap());
    }
    harness.end(NOISY);
    harness
}

#[test]
fn frames_leave_in_their_order_as_the_video_denoises_them() {
    let frames: Vec<Picture> = (0..4).map(|nth| picture(40, 30, 3, 8, 10.0 + f64::from(nth))).collect();
    let sigma = ("sigma", Value::Number(15.0));
    let mut harness = filmed(&frames, &[sigma, ("profile", Value::Text("fast".into()))]);
    let mut rows = Vec::new();
    while !harness.is_done() {
        harness.run().unwrap();
        rows.extend(harness.taken(PICTURES).iter().map(|envelope| Row::read(envelope, 0).unwrap()));
    }
    let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["v/0.png", "v/1.png", "v/2.png", "v/3.png"]);
    let parameters = settings(15.0, Profile::Fast).parameters(15.0);
    let mut video = Video::new(parameters, CodePath::detect(), 1, &frames[0]).unwrap();
    let mut expected = Vec::new();
    for nth in 0..=4 {
        match frames.get(nth) {
            Some(frame) => video.give(frame.clone(), Some(15.0)),
            None => video.end(),
        }
        while video.is_ready() {
            expected.push(video.denoise_next(&mut one_by_one(), &|_| ()).unwrap());
        }
    }
    assert!(rows.iter().map(|row| &row.picture).eq(&expected));
    assert_eq!(harness.work().0, harness.work().1);
    let mut none = filmed(&[], &[]);
    none.run().unwrap();
    assert!(none.is_done() && none.taken(PICTURES).is_empty());
}

#[test]
fn frames_without_noise_stay_and_those_of_another_form_are_named() {
    let flat = Picture::new(30, 20, 1, Samples::Bytes(vec![77; 600])).unwrap();
    let frames = [picture(30, 20, 1, 8, 9.0), flat.clone()];
    let mut harness = filmed(&frames, &[]);
    harness.run().unwrap();
    let rows = harness.taken(PICTURES);
    assert_eq!(Row::read(&rows[1], 0).unwrap().picture, flat);
    assert!(harness.notes()[0].contains("v/1.png") && harness.notes()[0].contains("stays"));
    for other in [(30, 21, 1, 8), (30, 20, 3, 8), (30, 20, 1, 16)] {
        let (width, height, channels, bits) = other;
        let frames = [flat.clone(), flat.clone(), picture(width, height, channels, bits, 9.0)];
        let message = filmed(&frames, &[]).run().unwrap_err().to_string();
        assert!(message.starts_with("v/2.png has") && message.contains("one size and depth"), "{message}");
    }
    let devices = [("frames", Value::Integer(2)), ("device", Value::Text("gpu".into()))];
    let message = Harness::new(&DENOISE, devices).err().unwrap().to_string();
    assert!(message.contains("devices denoise no videos"), "{message}");
    assert!(Harness::new(&DENOISE, [("frames", Value::Integer(9))]).is_err());
}

/// Stripes, squares and slopes with noise.
fn drawn(width: usize, height: usize, channels: usize, sigma: f64, seed: u64) -> Vec<f64> {
    let mut random = Random::mixed(seed);
    let mut levels = Vec::new();
    for y in 0..height {
        for x in 0..width {
            for channel in 0..channels {
                let clean = 40 + 2 * x + if (x / 7 + y / 5) % 2 == 0 { 90 } else { 0 } + 20 * channel;
                levels.push((clean % 256) as f64 + sigma * random.normal());
            }
        }
    }
    levels
}

/// Samples of 8 or 16 bits, or floats.
fn picture(width: usize, height: usize, channels: usize, bits: u32, sigma: f64) -> Picture {
    let levels = drawn(width, height, channels, sigma, (width * height) as u64);
    let samples = match bits {
        8 => Samples::Bytes(levels.iter().map(|level| *level as u8).collect()),
        16 => Samples::Words(levels.iter().map(|level| (257.0 * level) as u16).collect()),
        _ => Samples::Floats(levels.iter().map(|level| *level as f32).collect()),
    };
    Picture::new(width, height, channels, samples).unwrap()
}

fn settings(sigma: f64, profile: Profile) -> Settings {
    Settings {
        sigma: Some(sigma),
        profile,
        transforms: [None, None],
        along: StackTransform::Haar,
        phases: 2,
        colour: Colour::Together,
    }
}

fn devices(plan: Plan) -> (Arc<Faulty>, Result<Arc<Devices>, impl std::fmt::Debug>) {
    let cache = Some(std::env::temp_dir().join("boxwork-test-programs"));
    Faulty::devices(plan, Options { cache, ..Options::default() })
}

fn picked(devices: &Arc<Devices>) -> Picked {
    let allowed: Vec<usize> = (0..devices.list().len()).collect();
    Picked { devices: Some((Arc::clone(devices), allowed.into())), reason: String::new() }
}

/// The pictures that a box on devices makes, and its notes.
fn cleaned(
    devices: &Arc<Devices>,
    settings: Settings,
    pictures: &[Picture],
    strip_bytes: u64,
) -> (Vec<Picture>, Vec<String>) {
    let stage = stage_of(settings, picked(devices), 2, strip_bytes);
    let mut harness = Harness::of(&DENOISE, Box::new(stage));
    for (nth, picture) in pictures.iter().enumerate() {
        let row = Row { name: nth.to_string(), picture: picture.clone(), sigma: 0.0 };
        harness.give(NOISY, row.envelope().unwrap());
    }
    harness.end(NOISY);
    while !harness.is_done() {
        harness.run().unwrap();
    }
    let (done, expected) = harness.work();
    assert!(done == expected && done > 0, "{done} of {expected} pixels were counted");
    let rows = harness.taken(PICTURES);
    let rows = rows.iter().map(|envelope| Row::read(envelope, 0).unwrap()).enumerate();
    let pictures = rows.map(|(nth, row)| {
        assert_eq!(row.name, nth.to_string(), "pictures leave in their order");
        row.picture
    });
    (pictures.collect(), harness.notes().to_vec())
}

fn on_slots(settings: &Settings, picture: &Picture) -> Picture {
    let sigma = settings.sigma.unwrap();
    let denoiser = Denoiser::new(settings.parameters(sigma), sigma, CodePath::detect()).unwrap();
    denoiser.denoise_rows(picture, 0..picture.height(), &mut one_by_one(), &|_| ()).unwrap()
}

/// Devices promise at most a level of difference, at one sample in ten thousand, and the same quality. This one rounds as IEEE 754
/// says, so it has the same bits.
fn compare(found: &Picture, expected: &Picture, clean: &Picture, case: &str) {
    let samples = 0..expected.samples().len();
    let each = samples.map(|idx| (found.samples().level(idx) - expected.samples().level(idx)).abs());
    let far = each.clone().filter(|difference| *difference > 0.5).count();
    let most = each.fold(0.0, f32::max);
    assert!(most <= 1.0 && far * 10_000 <= expected.samples().len(), "{case}: {far} differ, by up to {most}");
    let [a, b] = [found, expected].map(|picture| psnr(clean, picture));
    assert!((a - b).abs() < 0.01 || a == b, "{case}: {a} dB and {b} dB");
    assert!(found == expected, "{case}: other bits");
}

/// A box's settings, changed.
fn changed(sigma: f64, profile: Profile, change: impl Fn(&mut Settings)) -> Settings {
    let mut settings = settings(sigma, profile);
    change(&mut settings);
    settings
}

#[test]
fn a_device_denoises_as_slots_do() {
    if !has_device("a_device_denoises_as_slots_do") {
        return;
    }
    let (driver, devices) = devices(Plan::default());
    let devices = devices.unwrap();
    let check = |sigma, profile, change: &dyn Fn(&mut Settings), sizes: &[(usize, usize, usize, u32)]| {
        let [noisy, clean] = [sigma, 0.0].map(|sigma| -> Vec<Picture> {
            sizes.iter().map(|(w, h, channels, bits)| picture(*w, *h, *channels, *bits, sigma)).collect()
        });
        let (found, notes) = cleaned(&devices, changed(sigma, profile, change), &noisy, u64::MAX);
        assert_eq!((notes, found.len()), (Vec::new(), sizes.len()));
        let settings = changed(sigma, profile, change);
        for (((found, noisy), clean), size) in found.iter().zip(&noisy).zip(&clean).zip(sizes) {
            compare(found, &on_slots(&settings, noisy), clean, &format!("{profile:?} {sigma} {size:?}"));
        }
    };
    let usual: &dyn Fn(&mut Settings) = &|_| ();
    let sizes = [(61, 47, 1, 8), (1, 1, 1, 8), (7, 30, 2, 8), (52, 40, 3, 16), (33, 29, 4, 32), (8, 8, 3, 8)];
    check(20.0, Profile::Default, usual, &sizes);
    // Patches of 11 in the second phase.
    check(55.0, Profile::Default, usual, &[(45, 41, 1, 8), (9, 10, 3, 8), (11, 64, 1, 16)]);
    check(15.0, Profile::Fast, usual, &[(70, 33, 1, 8)]);
    check(25.0, Profile::High, usual, &[(30, 34, 1, 8)]);
    check(25.0, Profile::Seed, usual, &[(90, 37, 1, 8)]);
    check(20.0, Profile::Default, &|s| s.phases = 1, &[(40, 31, 3, 8)]);
    let apart: &dyn Fn(&mut Settings) = &|settings| {
        (settings.colour, settings.along) = (Colour::Apart, StackTransform::Walsh);
        settings.transforms = [Some(Transform::Walsh), Some(Transform::Haar)];
    };
    check(20.0, Profile::Default, apart, &[(43, 31, 3, 8)]);
    assert_eq!(devices.take_warnings(), [""; 0], "the device did nothing");
    assert_eq!(devices.statistics()[0].blocks, 14);
    drop(devices);
    assert_eq!(driver.left(), [], "objects of the driver were left behind");
}

#[test]
fn strips_of_a_picture_are_put_together_from_several_devices() {
    if !has_device("strips_of_a_picture_are_put_together_from_several_devices") {
        return;
    }
    let (_, devices) = devices(Plan { appears_as: 2, ..Plan::default() });
    let devices = devices.unwrap();
    let noisy = [picture(40, 230, 1, 8, 20.0), picture(25, 20, 1, 8, 20.0), picture(31, 150, 3, 16, 20.0)];
    // Strips have the fewest rows that they may have.
    let (found, _) = cleaned(&devices, settings(20.0, Profile::Fast), &noisy, 1);
    for (found, noisy) in found.iter().zip(&noisy) {
        assert!(*found == on_slots(&settings(20.0, Profile::Fast), noisy), "the cut shows");
    }
    assert_eq!(devices.statistics().iter().map(|of_one| of_one.blocks).sum::<u64>(), 4 + 1 + 3);
}

#[test]
fn what_devices_fail_at_is_denoised_here() {
    if !has_device("what_devices_fail_at_is_denoised_here") {
        return;
    }
    let noisy = [picture(30, 140, 1, 8, 20.0), picture(24, 20, 1, 8, 20.0)];
    let expected = noisy.clone().map(|noisy| on_slots(&settings(20.0, Profile::Fast), &noisy));
    let run = |plan: Plan| {
        let (driver, devices) = devices(plan);
        if let Ok(devices) = devices {
            let (found, _) = cleaned(&devices, settings(20.0, Profile::Fast), &noisy, 1);
            assert!(found == expected, "a device that fails shows");
        }
        driver.calls()
    };
    let calls = run(Plan::default());
    for call in (6..calls).step_by(13) {
        run(Plan { call, for_good: call % 2 == 0, ..Plan::default() });
    }
}

#[test]
fn what_devices_cannot_do_is_denoised_here_with_a_note() {
    if !has_device("what_devices_cannot_do_is_denoised_here_with_a_note") {
        return;
    }
    let noisy = [picture(24, 20, 1, 8, 20.0)];
    let check = |plan: Plan, along: StackTransform, note: &str| {
        let settings = || changed(20.0, Profile::Fast, |settings| settings.along = along);
        let (_, devices) = devices(plan);
        let devices = devices.unwrap();
        let (found, notes) = cleaned(&devices, settings(), &noisy, u64::MAX);
        assert!(found[0] == on_slots(&settings(), &noisy[0]));
        assert!(notes.len() == 1 && notes[0].contains(note), "{notes:?}");
        assert_eq!(devices.statistics()[0].blocks, 0);
    };
    let lacking = Plan { lacks_wide_atomics: true, ..Plan::default() };
    check(lacking, StackTransform::Haar, "no atomic additions of 64 bits");
    check(Plan::default(), StackTransform::Dct, "the cosine transform along stacks");
}
