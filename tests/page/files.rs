//! The page's files: small, all of one origin, with no script or style in the markup.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

/// The most bytes of the page without pictures, each file by gzip.
const PAGE_BYTES_MAX: usize = 60 * 1024;

fn files() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("server/page");
    let entries = fs::read_dir(folder).expect("the page's folder").map(|entry| entry.expect("an entry"));
    let read = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().expect("a plain name");
        (name, fs::read_to_string(entry.path()).expect("a file of text"))
    };
    entries.map(read).collect()
}

#[test]
fn the_page_is_small() {
    let packed = |text: &str| {
        let mut packer = GzEncoder::new(Vec::new(), Compression::best());
        packer.write_all(text.as_bytes()).expect("memory takes it");
        packer.finish().expect("memory takes it").len()
    };
    let bytes: usize = files().iter().map(|(_, text)| packed(text)).sum();
    assert!((10_000..PAGE_BYTES_MAX).contains(&bytes), "{bytes} bytes");
}

#[test]
fn every_module_is_fetched_at_once() {
    let files = files();
    let index = &files.iter().find(|(name, _)| name == "index.html").expect("the page").1;
    for (name, _) in files.iter().filter(|(name, _)| name.ends_with(".js")) {
        assert!(index.contains(&format!("\"/assets/{name}\"")), "index.html does not name {name}");
    }
    let named = index.matches("/assets/").count();
    let found = files.iter().filter(|(name, _)| name != "index.html").count();
    assert_eq!(named, found, "index.html names each file once");
}

#[test]
fn nothing_comes_from_elsewhere_and_no_script_is_in_the_markup() {
    for (name, text) in files() {
        let addresses = text.replace("http://www.w3.org/", "");
        for bad in [
            "http://",
            "https://",
            "\"//",
            " style=\"",
            "<style",
            "onclick=",
            "onerror=",
            "innerHTML",
            "eval(",
        ] {
            assert!(!addresses.contains(bad), "{name} has {bad}");
        }
        for script in text.split("<script").skip(1).filter(|_| name.ends_with(".html")) {
            assert!(script.contains("src=\"/assets/") && script.contains("></script>"), "{name}: {script}");
        }
    }
}

#[test]
fn each_module_says_what_it_is_and_imports_exist() {
    let files = files();
    for (name, text) in files.iter().filter(|(name, _)| name.ends_with(".js")) {
        assert!(text.starts_with("// "), "{name} begins with what it is");
        for import in text.split(" from './").skip(1) {
            let target = import.split('\'').next().expect("a quote");
            assert!(files.iter().any(|(name, _)| name == target), "{name} imports {target}");
        }
    }
}
