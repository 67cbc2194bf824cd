//! Searches of vectors give one answer, byte for byte, whatever codes, devices and workers compute it.

#[path = "support/command.rs"]
mod command;

use std::fs;
use std::path::Path;

use boxwork_runtime::feeding::faults::has_device;
use command::{boxwork, folder, ok};

/// Numbers of a vector: parts of product codes, and one more.
const NUMBERS: usize = 33;

/// A store of 700 vectors, some of them equal, without some of its objects; and 40 queries, some of them vectors of the store.
fn prepared(at: &Path) {
    // Clusters, so that codes leave few.
    let number = |row: usize, place: usize| {
        let (row, cluster) = (if row.is_multiple_of(23) { row / 2 } else { row }, row % 12);
        let (near, far) = ((row * 7919 + place * 104_729) % 17, (cluster * 31 + place * 57) % 200);
        (near + far) as u8
    };
    let rows = |first: usize, count: usize| -> Vec<u8> {
        (first..first + count).flat_map(|row| (0..NUMBERS).map(move |place| number(row, place))).collect()
    };
    let wide = |rows: &[u8]| rows.iter().flat_map(|x| f32::from(*x).to_le_bytes()).collect::<Vec<u8>>();
    fs::write(at.join(format!("query_40x{NUMBERS}.u8")), rows(680, 40)).expect("a disk");
    for (numbers, bytes) in [("u8", rows(0, 700)), ("f32", wide(&rows(0, 700)))] {
        let (file, store) = (format!("base_700x{NUMBERS}.{numbers}"), format!("{numbers}.arrow"));
        fs::write(at.join(&file), bytes).expect("a disk");
        let sets = [format!("from={file}"), format!("out={store}")];
        ok(at, &["run", "import_vectors", "--set", &sets[0], "--set", &sets[1]]);
        ok(at, &["remove", "--store", &store, "3", "400", "401"]);
    }
}

/// The table of a search, and what was said beside it.
fn table(at: &Path, pipeline: &str, sets: &[&str], more: &[&str]) -> (String, String) {
    let queries = format!("queries=query_40x{NUMBERS}.u8");
    let common = [queries.as_str(), "k=9", "format=csv", "out=a.csv"];
    let sets: Vec<&str> = common.iter().chain(sets).flat_map(|set| ["--set", set]).collect();
    let mut call = boxwork(at);
    call.env("BOXWORK_CACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/programs"));
    let output = call.args([&["run", pipeline], &sets[..], more].concat()).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !said.contains("warning"), "{sets:?}: {said}");
    (fs::read_to_string(at.join("a.csv")).expect("a table"), said)
}

#[test]
fn codes_devices_and_workers_change_no_byte_of_an_answer() {
    let folder = folder();
    let at = folder.path();
    prepared(at);
    let devices = match has_device("codes_devices_and_workers_change_no_byte_of_an_answer") {
        true => &["device=cpu", "device=gpu"][..],
        false => &["device=cpu"],
    };
    for distance in ["distance=l2", "distance=ip", "distance=cosine"] {
        for store in ["store=u8.arrow", "store=f32.arrow"] {
            let (wanted, _) = table(
                at,
                "vector_search",
                &[store, distance, "codes=none", "device=cpu"],
                &["--workers", "1"],
            );
            assert_eq!(wanted.lines().count(), 1 + 40 * 9);
            for codes in ["none", "sq8", "sq4", "planes", "pca", "product16"] {
                for device in devices {
                    // Each number of workers meets each of the others.
                    for workers in if store == "store=f32.arrow" { &["1", "2", "7"][..] } else { &["2"] } {
                        let sets = [store, distance, *device, &format!("codes={codes}")];
                        let flags = ["--workers", workers, "--stats"];
                        let (found, said) = table(at, "vector_search", &sets, &flags);
                        assert_eq!(found, wanted, "{sets:?}, {workers} workers");
                        let is_noted = said.contains("vectors are searched by codes on slots");
                        assert_eq!(is_noted, codes != "none" && *device == "device=gpu", "{sets:?}: {said}");
                        let is_ranked_there = said.contains("computed on devices");
                        assert_eq!(is_ranked_there, codes == "none" && *device == "device=gpu", "{said}");
                    }
                }
            }
        }
    }
}

#[test]
fn lists_give_one_answer_on_slots_and_on_devices() {
    let folder = folder();
    let at = folder.path();
    prepared(at);
    if !has_device("lists_give_one_answer_on_slots_and_on_devices") {
        return;
    }
    for (holds, distance) in
        [("product", "l2"), ("product", "cosine"), ("fast", "ip"), ("rows", "l2"), ("rabitq", "cosine")]
    {
        let of = ["--store", "f32.arrow", "--distance", distance, "--out", "f.lists.arrow", "--force"];
        ok(at, &[&["lists", "--lists", "20", "--codes", holds, "--iterations", "4"], &of[..]].concat());
        let distance = format!("distance={distance}");
        for (pipeline, probes) in
            [("vector_probe", "probes=3"), ("vector_probe", "probes=20"), ("vector_prove", "probes=2")]
        {
            let sets = ["store=f32.arrow", "lists=f.lists.arrow", &distance, probes];
            let (wanted, _) =
                table(at, pipeline, &[&sets[..], &["device=cpu"]].concat(), &["--workers", "1"]);
            assert!(wanted.lines().count() > 40 * 5, "{wanted}");
            for workers in ["1", "2", "7"] {
                let sets = [&sets[..], &["device=gpu"]].concat();
                let (found, _) = table(at, pipeline, &sets, &["--workers", workers]);
                assert_eq!(found, wanted, "{holds}, {pipeline} {sets:?}, {workers} workers");
            }
        }
    }
    // The statistics say where the nearest lists were found.
    let sets = ["store=f32.arrow", "lists=f.lists.arrow", "distance=cosine", "device=gpu"];
    let (_, said) = table(at, "vector_probe", &sets, &["--stats"]);
    assert!(said.contains("800 centroids compared on devices"), "{said}");
}
