//! Files as the command meets them: those of a folder that it cannot read, names that would steer a terminal, and files
//! that are there already.

#[path = "support/command.rs"]
mod command;

use std::fs;

use command::{POINTS, fails, folder, ok, with_points};

#[test]
fn pictures_of_other_kinds_are_counted_and_other_files_change_no_status() {
    let folder = folder();
    let at = folder.path();
    ok(at, &["sample-images", "images", "--classes", "1", "--per-class", "3"]);
    fs::write(at.join("images/notes.txt"), "text").expect("written");
    let extract = ["extract", "images", "--points", "100", "--out", "s.arrow"];
    let said = fails(at, &extract, 0);
    assert!(said.contains("passed over 1 other file: 1 txt"), "{said}");
    assert!(said.contains("wrote s.arrow: 3 images in ") && !said.contains("skipped"), "{said}");
    for name in ["a.HEIC", "b.heic", "c.nef"] {
        fs::write(at.join("images").join(name), [0, 1, 2]).expect("written");
    }
    let said = fails(at, &["extract", "images", "--points", "100", "--out", "t.arrow"], 1);
    assert!(said.contains("a.HEIC and 1 more file that end in heic: heic files are not read"), "{said}");
    assert!(said.contains("c.nef: nef files are not read"), "{said}");
    assert!(said.contains("wrote t.arrow: 3 images in ") && said.ends_with("; 3 skipped\n"), "{said}");
    // A file that is named is read by its content, whatever its ending.
    fs::create_dir(at.join("new")).expect("a folder");
    let image = fs::read_dir(at.join("images")).expect("the folder").find_map(|entry| {
        let path = entry.expect("an entry").path();
        path.is_dir().then(|| path.join("001.jpg"))
    });
    fs::copy(image.expect("a class"), at.join("new/photo.heic")).expect("a copy");
    ok(at, &["add", "--store", "s.arrow", "new/photo.heic"]);
    let said = fails(at, &["add", "--store", "s.arrow", "new"], 3);
    assert!(said.contains("photo.heic: heic files are not read"), "{said}");
    fs::rename(at.join("new/photo.heic"), at.join("new/photo.jfif")).expect("a new name");
    fs::write(at.join("new/1.png"), "no image").expect("written");
    fs::write(at.join("new/2.avif"), [0]).expect("written");
    let said = fails(at, &["add", "--store", "s.arrow", "new"], 1);
    assert!(said.contains("s.arrow holds 5 objects; done in ") && said.ends_with("; 2 skipped\n"), "{said}");
}

#[cfg(unix)]
#[test]
fn names_cannot_steer_the_terminal() {
    let folder = folder();
    let at = folder.path();
    ok(at, &["sample-images", "images", "--classes", "1", "--per-class", "2"]);
    fs::write(at.join("images/\u{1b}[31mred\u{202e}gpj.png"), "no image").expect("written");
    fs::write(at.join("images/a\nerror: b.heic"), "no image").expect("written");
    let store = "s\u{1b}[2J.arrow";
    let said = fails(at, &["extract", "images", "--points", "100", "--out", store], 1);
    let missing = fails(at, &["search", "--store", "\u{9b}2J\nwrote it.arrow", "--query", "x"], 3);
    let changed = fails(at, &["add", "--store", store, "--replace", "images"], 1);
    for text in [&said, &missing, &changed] {
        assert!(!text.contains(|c: char| (c.is_control() && c != '\n') || c == '\u{202e}'), "{text:?}");
        assert!(
            !text.lines().any(|line| line.starts_with("error: b") || line.starts_with("wrote it")),
            "{text}"
        );
    }
    assert!(
        said.contains("\u{fffd}[31mred\u{fffd}gpj.png: ") && said.contains("wrote s\u{fffd}[2J.arrow: 2"),
        "{said}"
    );
}

#[test]
fn a_file_that_is_there_is_replaced_only_by_force() {
    let folder = with_points(POINTS);
    let at = folder.path();
    fs::create_dir(at.join("images")).expect("a folder");
    fs::write(at.join("old"), "old").expect("written");
    let calls: [&[&str]; 6] = [
        &["extract", "images"],
        &["import", "v.jsonl"],
        &["export", "v.arrow"],
        &["index", "--store", "v.arrow", "--pivots", "2"],
        &["synthesize", "--store", "v.arrow", "--count", "4"],
        &["compact", "--store", "v.arrow"],
    ];
    for call in calls {
        let said = fails(at, &[call, &["--out", "old"]].concat(), 2);
        assert_eq!(said, "error: `old` is there already: name another file, or replace it with --force\n");
        assert_eq!(fs::read(at.join("old")).expect("the old file"), b"old", "{call:?}");
        // The folder holds no image; all else can be made.
        let forced = [call, &["--out", "old", "--force"]].concat();
        if call[0] == "extract" {
            drop(fails(at, &forced, 3))
        } else {
            drop(ok(at, &forced))
        }
        assert_eq!(fs::read(at.join("old")).expect("a file") == b"old", call[0] == "extract", "{call:?}");
        fs::write(at.join("old"), "old").expect("written");
    }
    // The file to read is never replaced by another kind of file.
    let itself = ["--out", "v.arrow", "--force"];
    for call in &calls[2..5] {
        let said = fails(at, &[call, &itself[..]].concat(), 2);
        assert_eq!(said, "error: `v.arrow` is the file to read: name another one\n", "{call:?}");
    }
    // Neither standard output nor a page of results needs it.
    ok(at, &["export", "v.arrow", "--out", "-"]);
    ok(at, &["search", "--store", "v.arrow", "--query", "a", "--out", "old"]);
}

#[cfg(unix)]
#[test]
fn a_pipe_is_not_replaced_by_a_file() {
    use std::os::unix::fs::FileTypeExt as _;

    let folder = with_points(POINTS);
    let at = folder.path();
    let made = std::process::Command::new("mkfifo").arg(at.join("pipe")).status();
    assert!(made.expect("mkfifo starts").success());
    let said = fails(at, &["export", "v.arrow", "--out", "pipe", "--force"], 2);
    assert_eq!(said, "error: `pipe` is no file: name another one\n");
    assert!(fs::metadata(at.join("pipe")).expect("the pipe").file_type().is_fifo());
}
