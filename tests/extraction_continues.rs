//! An extraction that was interrupted continues: a killed run, a damaged partial file, other settings, two runs at once.

#[path = "support/command.rs"]
mod command;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use command::{boxwork, fails, folder, ok, run};

const IMAGES: usize = 60;
/// Slow enough for a run to be killed in its middle: one slot, and many points.
const EXTRACT: [&str; 8] = ["extract", "images", "--points", "6000", "--workers", "1", "--device", "cpu"];

fn extract(at: &Path, out: &str) -> (Option<i32>, String) {
    let output = run(at, &[&EXTRACT[..], &["--out", out]].concat());
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn with_images() -> tempfile::TempDir {
    let folder = folder();
    ok(folder.path(), &["sample-images", "images", "--classes", "4", "--per-class", "15"]);
    folder
}

/// The bytes of the whole chunks of a partial file after its settings, and their end: a write that was cut short shows as
/// a last chunk with too few bytes.
fn whole_chunks(file: &[u8]) -> (usize, usize) {
    let (mut chunks, mut at) = (0, 8);
    while let Some(&[a, b, c, d]) = file.get(at..at + 4) {
        let next = at + 8 + u32::from_le_bytes([a, b, c, d]) as usize;
        if next > file.len() {
            break;
        }
        (chunks, at) = (chunks + 1, next);
    }
    (chunks, at)
}

/// Starts an extraction and kills it after some images are in its partial file. Returns that file, which ends with a whole
/// chunk.
fn killed(at: &Path, out: &str) -> PathBuf {
    let partial = at.join(format!("{out}.partial"));
    let mut child = boxwork(at)
        .args(EXTRACT)
        .args(["--out", out])
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    while child.try_wait().expect("a status").is_none() {
        // The settings, and a chunk of images.
        if fs::read(&partial).is_ok_and(|file| whole_chunks(&file).0 >= 2) {
            break;
        }
        std::thread::yield_now();
    }
    child.kill().expect("killed");
    child.wait().expect("a status");
    assert!(!at.join(out).exists(), "the run ended before it was killed");
    let mut file = fs::read(&partial).expect("a partial file");
    file.truncate(whole_chunks(&file).1);
    fs::write(&partial, file).expect("written");
    partial
}

/// The images that a run found there, of all.
fn there(said: &str) -> Option<usize> {
    let (_, rest) = said.split_once("continues: ")?;
    let (count, rest) = rest.split_once(" of ")?;
    assert!(rest.starts_with(&format!("{IMAGES} images were there")), "{said}");
    count.parse().ok()
}

#[test]
fn a_killed_extraction_continues_and_makes_the_same_store() {
    let folder = with_images();
    let at = folder.path();
    let (status, said) = extract(at, "whole.arrow");
    assert_eq!((status, there(&said)), (Some(0), None), "{said}");
    assert!(!at.join("whole.arrow.partial").exists());
    let whole = fs::read(at.join("whole.arrow")).expect("a store");
    let partial = killed(at, "s.arrow");
    let kept = fs::read(&partial).expect("a partial file");

    let again = |content: &[u8]| {
        fs::write(&partial, content).expect("written");
        let _ = fs::remove_file(at.join("s.arrow"));
        let (status, said) = extract(at, "s.arrow");
        assert_eq!(status, Some(0), "{said}");
        assert!(fs::read(at.join("s.arrow")).expect("a store") == whole, "another store: {said}");
        assert!(!partial.exists(), "the partial file stays");
        (there(&said), said.contains("is damaged"))
    };
    let (Some(all), false) = again(&kept) else { panic!("nothing was there") };
    assert!(all > 0 && all < IMAGES);
    // Cut within the last chunk, and a byte of it changed: the chunks before count.
    let (cut, is_damaged) = again(&kept[..kept.len() - 5]);
    assert!(is_damaged && cut.is_none_or(|cut| cut < all), "{cut:?} of {all}");
    let mut flipped = kept.clone();
    let last = flipped.len() - 9;
    flipped[last] ^= 4;
    assert_eq!(again(&flipped), (cut, true));
    // Not even the settings are sound.
    assert_eq!(again(&kept[..20]).0, None);
    assert_eq!(again(&[]).0, None);

    // A picture that changed is extracted again.
    fs::write(&partial, &kept).expect("written");
    fs::remove_file(at.join("s.arrow")).expect("removed");
    let first = fs::read_dir(at.join("images")).expect("a folder").filter_map(Result::ok);
    let mut classes: Vec<PathBuf> = first.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    classes.sort();
    fs::copy(classes[1].join("002.jpg"), classes[0].join("001.jpg")).expect("a copy");
    let (_, said) = extract(at, "s.arrow");
    assert_eq!(there(&said).unwrap_or(0), all - 1, "{said}");
    extract(at, "changed.arrow");
    assert!(
        fs::read(at.join("s.arrow")).expect("a store")
            == fs::read(at.join("changed.arrow")).expect("a store")
    );
}

#[test]
fn other_settings_and_other_files_are_refused_and_restart_starts_anew() {
    let folder = with_images();
    let at = folder.path();
    let partial = killed(at, "s.arrow");
    let kept = fs::read(&partial).expect("a partial file");
    let other = ["extract", "images", "--points", "50", "--out", "s.arrow"];
    let said = fails(at, &other, 3);
    assert!(said.contains("with other settings") && said.contains("--restart"), "{said}");
    assert!(fs::read(&partial).expect("a partial file") == kept, "a refused run changes nothing");
    let said = fails(at, &[&other[..], &["--restart"]].concat(), 0);
    assert!(!said.contains("continues") && said.contains("60 images"), "{said}");
    assert!(!partial.exists());
    fs::write(at.join("t.arrow.partial"), "a letter").expect("written");
    let said = fails(at, &["extract", "images", "--points", "50", "--out", "t.arrow"], 3);
    assert!(said.contains("no unfinished extraction") && said.contains("move it away"), "{said}");
    assert_eq!(fs::read_to_string(at.join("t.arrow.partial")).expect("a letter"), "a letter");
}

#[test]
fn two_extractions_into_one_store_are_refused() {
    let folder = with_images();
    let at = folder.path();
    let held = fs::File::create(at.join("s.arrow.partial")).expect("a file");
    held.try_lock().expect("a lock");
    let said = fails(at, &["extract", "images", "--points", "50", "--out", "s.arrow"], 3);
    assert!(said.contains("another process extracts into `s.arrow`"), "{said}");
    assert!(at.join("s.arrow.partial").exists());
    drop(held);
    ok(at, &["extract", "images", "--points", "50", "--out", "s.arrow"]);
    assert!(!at.join("s.arrow.partial").exists());
}
