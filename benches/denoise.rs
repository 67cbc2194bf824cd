//! How fast does one core remove noise from pictures, and how well, beside the reference package of BM3D's authors?
//!
//! Units: megapixels a second by processor time, both phases; PSNR in decibels and SSIM against the clean picture. Both sides
//! get the same noisy numbers and are clamped to 0..255 before they are compared. Cases: a drawn picture of 256 and of 512
//! pixels, and each picture of `images` in grey at three deviations and in colour at one. In grey, the first phase alone is
//! compared too, which must not be worse than the peer's.
//!
//! The peer is a Python with the package `bm3d` (`pip install bm3d`), named by BOXWORK_PYTHON. Its licence allows
//! noncommercial use only: it is run for comparison, and nothing of it is in our code.
//!
//! `cargo bench --bench denoise -- images=a.jpg,b.jpg rounds=1`

mod support;

use std::fs;
use std::path::Path;

use boxwork_kernels::CodePath;
use boxwork_kernels::chance::Random;
use boxwork_kernels::denoise::{Denoiser, Parameters, Picture, Profile, Samples, psnr, ssim};
use boxwork_kernels::pieces::one_by_one;
use support::peer::Peer;
use support::{Arguments, Side, print_machine, run_rounds, verdict};

/// Times the peer's rate that are aimed at.
const SPEED_BAR: f64 = 25.0;
/// Decibels below the peer that are allowed.
const PSNR_BAR: f64 = 0.05;
/// SSIM below the peer's that is allowed.
const SSIM_BAR: f64 = 0.002;

/// A clean picture with noise of a deviation to be added.
struct Case {
    name: String,
    clean: Picture,
    sigma: f64,
}

/// A wave, a disc, a box and a checkerboard, blurred by a Gaussian of deviation 0.7 pixels.
fn drawn(side: usize) -> Picture {
    let at = |x: usize, y: usize| {
        let (u, v) = (x as f64 / side as f64, y as f64 / side as f64);
        let mut level = 128.0 + 60.0 * (14.0 * u + 5.0 * v).sin();
        if (u - 0.3).hypot(v - 0.35) < 0.18 {
            level = 220.0;
        }
        if (0.55..0.9).contains(&u) && (0.15..0.4).contains(&v) {
            level = 40.0;
        }
        if u > 0.5 && v > 0.6 {
            level = if (x / 16 + y / 16).is_multiple_of(2) { 200.0 } else { 60.0 };
        }
        level
    };
    let weights: Vec<f64> = (-3..=3).map(|i| (-f64::from(i * i) / (2.0 * 0.49)).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let beside = |place: usize, i: usize| (place + i).saturating_sub(3).min(side - 1);
    let blurred = |x: usize, y: usize| {
        let row = |j: usize| (0..7).map(|i| weights[i] * at(beside(x, i), beside(y, j))).sum::<f64>();
        (0..7).map(|j| weights[j] * row(j)).sum::<f64>() / (sum * sum)
    };
    picture(side, side, 1, (0..side * side).map(|idx| blurred(idx % side, idx / side) as f32).collect())
}

fn picture(width: usize, height: usize, channels: usize, levels: Vec<f32>) -> Picture {
    Picture::new(width, height, channels, Samples::Floats(levels)).expect("finite samples of this size")
}

/// The cases of a photograph: grey at three deviations, colour at one.
fn photographs(path: &str) -> Vec<Case> {
    let image = image::open(path).unwrap_or_else(|error| panic!("images={path}: {error}"));
    let (width, height) = (image.width() as usize, image.height() as usize);
    let floats = |bytes: Vec<u8>| bytes.into_iter().map(f32::from).collect();
    let grey = picture(width, height, 1, floats(image.to_luma8().into_raw()));
    let colour = picture(width, height, 3, floats(image.to_rgb8().into_raw()));
    let file = Path::new(path).file_name().map_or(path.into(), |name| name.to_string_lossy());
    let mut cases: Vec<Case> = [15.0, 25.0, 50.0]
        .map(|sigma| Case { name: format!("{file}, grey"), clean: grey.clone(), sigma })
        .into();
    cases.push(Case { name: format!("{file}, colour"), clean: colour, sigma: 25.0 });
    cases
}

fn noisy(case: &Case) -> Picture {
    let mut random = Random::mixed(1);
    let clean = &case.clean;
    let level = |idx| (f64::from(clean.samples().level(idx)) + case.sigma * random.normal()) as f32;
    let levels = (0..clean.samples().len()).map(level).collect();
    picture(clean.width(), clean.height(), clean.channels(), levels)
}

/// The peer's result, clamped as ours.
fn of_peer(peer: &mut Peer, question: &str, folder: &Path, like: &Picture) -> Picture {
    peer.ask(question);
    let bytes = fs::read(folder.join("denoised")).expect("the peer's result");
    let numbers = bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().expect("eight bytes")));
    let levels = numbers.map(|level| level.clamp(0.0, 255.0) as f32).collect();
    picture(like.width(), like.height(), like.channels(), levels)
}

fn run_case(case: &Case, rounds: usize, folder: &Path, peer: &mut Option<Peer>) {
    let dirty = noisy(case);
    let both = Parameters::of(Profile::Default, case.sigma);
    let denoised_by = |parameters: Parameters, path: CodePath| {
        let mut result = dirty.clone();
        let denoiser = Denoiser::new(parameters, case.sigma, path).expect("settings of a profile");
        assert!(denoiser.denoise(&mut result, &mut one_by_one(), &|_| ()), "never cancelled");
        result
    };
    let denoised = |path: CodePath| denoised_by(both, path);
    let path = CodePath::detect();
    let own = denoised(path);
    for other in CodePath::available() {
        assert!(denoised(other) == own, "{other} has other bits");
    }
    let pixels = dirty.width() * dirty.height();
    println!("\n{}, {} x {}, sigma {}, {path}", case.name, dirty.width(), dirty.height(), case.sigma);
    let figures = |picture: &Picture| (psnr(&case.clean, picture), ssim(&case.clean, picture));
    let (before, after) = (figures(&dirty), figures(&own));
    println!("quality     noisy {:.2} dB, {:.4}; ours {:.2} dB, {:.4}", before.0, before.1, after.0, after.1);
    let question = |phases: usize| {
        format!("{} {} {} {} {phases}", dirty.height(), dirty.width(), dirty.channels(), case.sigma)
    };
    let shape = question(2);
    let mut sides = vec![Side::on_this_core("ours", pixels, || {
        denoised(path);
    })];
    if let Some(peer) = peer.as_mut() {
        let numbers =
            (0..dirty.samples().len()).flat_map(|idx| f64::from(dirty.samples().level(idx)).to_le_bytes());
        fs::write(folder.join("noisy"), numbers.collect::<Vec<u8>>()).expect("a disk");
        let theirs = figures(&of_peer(peer, &shape, folder, &dirty));
        println!("            {} {:.2} dB, {:.4}", peer.name, theirs.0, theirs.1);
        verdict("PSNR", after.0, theirs.0 - PSNR_BAR, after.0 >= theirs.0 - PSNR_BAR);
        verdict("SSIM", after.1, theirs.1 - SSIM_BAR, after.1 >= theirs.1 - SSIM_BAR);
        if dirty.channels() == 1 {
            let first = psnr(&case.clean, &denoised_by(Parameters { second: None, ..both }, path));
            let theirs = psnr(&case.clean, &of_peer(peer, &question(1), folder, &dirty));
            println!("phase 1     ours {first:.2} dB, {} {theirs:.2} dB", peer.name);
            verdict("PSNR 1", first, theirs, first >= theirs);
        }
        sides.push(Side::new(peer.name.clone(), || peer.seconds(&shape)));
    }
    run_rounds(rounds, &mut sides);
    for side in &sides {
        println!("{:<18} {:.3} s a megapixel", side.name, side.spread().median * 1e6);
    }
    if let Some(peer) = sides.get(1) {
        let ratio = sides[0].faster_than(peer);
        println!("ratio       {ratio} times {}", peer.name);
        verdict("speed", ratio.median, SPEED_BAR, ratio.median >= SPEED_BAR);
    }
}

fn main() {
    let arguments = Arguments::read(&["images", "rounds", "peer"]);
    println!("question    how fast and how well does one core remove noise?");
    print_machine();
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().to_str().expect("a path in UTF-8");
    let mut peer = if arguments.get("peer", 1) == 1 { Peer::bm3d(&[place]) } else { None };
    let mut cases: Vec<Case> =
        [256, 512].map(|side| Case { name: "drawn".to_owned(), clean: drawn(side), sigma: 25.0 }).into();
    cases.extend(
        arguments.text("images").into_iter().flat_map(|paths| paths.split(',')).flat_map(photographs),
    );
    for case in &cases {
        run_case(case, arguments.get("rounds", 1), folder.path(), &mut peer);
    }
}
