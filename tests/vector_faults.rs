//! Files of vectors that are cut short, inconsistent or hostile are refused with the file and the place, and leave nothing.

#[path = "support/command.rs"]
mod command;

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use boxwork_kernels::chance::Random;
use command::{boxwork, fails, folder, ok};

/// Ten vectors of two numbers, as a `.fvecs` file.
fn fvecs() -> Vec<u8> {
    let row =
        |nth: u8| [&2_i32.to_le_bytes()[..], &f32::from(nth).to_le_bytes(), &0.5_f32.to_le_bytes()].concat();
    (0..10).flat_map(row).collect()
}

#[test]
fn faults_of_a_file_are_named_with_their_place_and_leave_no_store() {
    let folder = folder();
    let refused = |name: &str, content: &[u8], more: &[&str], words: &[&str]| {
        fs::write(folder.path().join(name), content).expect("a disk");
        let call = [&["import", name, "--out", "out.arrow"], more].concat();
        let said = fails(folder.path(), &call, 3);
        assert!(said.contains(name) && words.iter().all(|word| said.contains(word)), "{said}");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "{name} left something");
        fs::remove_file(folder.path().join(name)).expect("a disk");
    };
    let sound = fvecs();
    refused("cut.fvecs", &sound[..sound.len() - 3], &[], &["byte 108", "9 bytes into a row of 12"]);
    let mut changed = sound.clone();
    changed[60] = 3;
    refused("changed.fvecs", &changed, &[], &["row 5", "byte 60", "3 dimensions"]);
    let mut nan = sound.clone();
    nan[7 * 12 + 4..7 * 12 + 8].copy_from_slice(&f32::NAN.to_le_bytes());
    refused("nan.fvecs", &nan, &[], &["row 7", "number 0 is NaN"]);
    let large = [&1000_u32.to_le_bytes()[..], &2_u32.to_le_bytes(), &sound].concat();
    refused("large.fbin", &large, &[], &["1000 vectors", "15 whole vectors are there"]);
    refused("bare.bytes", &[7; 10], &["--type", "u8", "--dimensions", "4"], &["2 whole vectors"]);
    refused("empty.npy", &[], &[], &["byte 0", "ends within its head"]);
}

#[test]
fn vectors_of_every_type_keep_their_numbers_and_are_searched() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let bytes: Vec<u8> = (0..300 * 4).map(|i| (i * 7919 % 256) as u8).collect();
    fs::write(at("base.u8"), &bytes).expect("a disk");
    fs::write(at("base.fbin"), {
        let head = [300_u32.to_le_bytes(), 4_u32.to_le_bytes()].concat();
        head.into_iter()
            .chain(bytes.iter().flat_map(|byte| f32::from(*byte).to_le_bytes()))
            .collect::<Vec<u8>>()
    })
    .expect("a disk");
    ok(folder.path(), &["import", "base.u8", "--type", "u8", "--dimensions", "4", "--out", "u8.arrow"]);
    ok(folder.path(), &["import", "base.fbin", "--out", "f32.arrow"]);
    let sizes = ["u8.arrow", "f32.arrow"].map(|name| fs::metadata(at(name)).expect("a store").len());
    assert!(sizes[0] + 3000 < sizes[1], "a number of type u8 takes a byte: {sizes:?}");
    for distance in ["l2", "l1", "linf", "canberra"] {
        let found = ["u8.arrow", "f32.arrow"].map(|store| {
            let call = [
                "search",
                "--store",
                store,
                "--query",
                "17",
                "--query",
                "[1, 2.5, 3, 250]",
                "--distance",
                distance,
            ];
            ok(folder.path(), &[&call[..], &["-k", "7", "--format", "csv"]].concat())
        });
        assert_eq!(found[0], found[1], "{distance}");
        assert!(found[0].lines().count() > 14);
    }
    let said = fails(folder.path(), &["import", "base.u8", "--type", "u8", "--out", "x.arrow"], 2);
    assert!(said.contains("--dimensions"), "{said}");
}

#[test]
fn lists_that_are_written_anew_are_the_old_or_the_new_file_when_the_command_is_killed() {
    let folder = folder();
    let at = folder.path();
    let mut random = Random::mixed(4);
    let vectors: Vec<u8> = (0..3000 * 16).map(|_| random.idx(256) as u8).collect();
    fs::write(at.join("v.u8"), vectors).expect("a disk");
    ok(at, &["import", "v.u8", "--type", "u8", "--dimensions", "16", "--out", "v.arrow"]);
    let make = |seed: &'static str, out: &'static str| {
        ["lists", "--store", "v.arrow", "--out", out, "--lists", "20", "--force", "--seed", seed]
    };
    ok(at, &make("1", "l.arrow"));
    ok(at, &make("5", "new.arrow"));
    let old = fs::read(at.join("l.arrow")).expect("the lists");
    let new = fs::read(at.join("new.arrow")).expect("the lists");
    assert!(old != new, "another seed makes other lists");
    let mut killed = 0;
    for turn in 0..20u64 {
        let mut child =
            boxwork(at).args(make("5", "l.arrow")).stderr(Stdio::null()).spawn().expect("the command starts");
        std::thread::sleep(Duration::from_millis(turn * turn));
        let _ = child.kill();
        killed += u32::from(!child.wait().expect("it ends").success());
        let left = fs::read(at.join("l.arrow")).expect("a file");
        assert!(left == old || left == new, "neither the old nor the new file, killed in turn {turn}");
        fs::write(at.join("l.arrow"), &old).expect("the old lists again");
    }
    assert!(killed > 0, "the first is killed at once");
    // The next command finds nothing in its way that a killed one has left.
    ok(at, &make("5", "l.arrow"));
    assert!(fs::read(at.join("l.arrow")).expect("a file") == new);
}

#[test]
fn codes_along_directions_are_refused_for_vectors_that_are_too_long() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("v_3x1025.u8"), vec![7; 3 * 1025]).expect("a disk");
    ok(at, &["import", "v_3x1025.u8", "--out", "v.arrow"]);
    let index = ["index", "--store", "v.arrow", "--codes", "pca", "--out", "c.arrow"];
    let search =
        ["run", "vector_search", "--set", "store=v.arrow", "--set", "codes=pca", "--set", "queries=0"];
    for call in [&index[..], &search[..]] {
        let said = fails(at, call, 3);
        let told = "codes `pca` are of vectors of up to 1024 numbers, and those of `v.arrow` have 1025";
        assert!(said.contains(told) && said.contains("make codes planes or product64"), "{said}");
    }
}

#[test]
fn codes_that_do_not_exist_are_refused_with_those_that_do() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("v.fvecs"), fvecs()).expect("a disk");
    ok(at, &["import", "v.fvecs", "--out", "v.arrow"]);
    for name in ["product17", "none.codes.arrow"] {
        let codes = format!("codes={name}");
        let find =
            ["run", "vector_search", "--set", "store=v.arrow", "--set", "queries=v.fvecs", "--set", &codes];
        let said = fails(at, &find, 3);
        assert!(said.contains(name) && said.contains("planes, sq8, pca, sq4, product16"), "{said}");
    }
}
