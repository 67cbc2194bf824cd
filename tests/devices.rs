//! Devices as a user sees them: the list, searches on them, and the messages without any.

use std::path::Path;
use std::process::{Command, Output};

use boxwork_runtime::feeding::faults::has_device;
use serde_json::Value as Json;

/// A call whose compiled programs stay cached between tests.
fn boxwork(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_boxwork"));
    command.current_dir(folder).args(arguments).env("NO_COLOR", "1");
    command.env("BOXWORK_CACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/programs"));
    command
}

fn ended(mut command: Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("the command starts");
    let text = |bytes| String::from_utf8(bytes).expect("the output is text");
    (status.code().expect("the command ends by itself"), text(stdout), text(stderr))
}

fn hidden(mut command: Command) -> Command {
    command.env("OCL_ICD_VENDORS", "/nonexistent");
    command
}

/// A store of a few drawn images.
fn with_store() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder for the test");
    for arguments in [
        &["sample-images", "images", "--classes", "3", "--per-class", "4", "--seed", "3"][..],
        &["extract", "images", "--out", "s.arrow", "--points", "300", "--seeds", "60"],
    ] {
        let (status, _, said) = ended(boxwork(folder.path(), arguments));
        assert_eq!(status, 0, "{said}");
    }
    folder
}

const SEARCH: [&str; 9] =
    ["search", "--store", "s.arrow", "--query", "QUERY.jpg", "-k", "7", "--format", "json"];

#[test]
fn the_list_says_what_is_missing() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let (status, list, _) = ended(hidden(boxwork(folder.path(), &["devices"])));
    assert_eq!(status, 0);
    assert!(list.starts_with("no driver") || list.starts_with("no loader"), "{list}");
    let (_, list, _) = ended(hidden(boxwork(folder.path(), &["devices", "--format", "json"])));
    let list: Json = serde_json::from_str(&list).expect("it is JSON");
    assert!(list["devices"].as_array().is_some_and(Vec::is_empty) && list["none"].is_string());
}

#[test]
fn a_device_that_is_not_there_is_an_error_and_auto_does_without() {
    let folder = with_store();
    let arguments: Vec<&str> = SEARCH.iter().copied().chain(["--device", "gpu"]).collect();
    let query = first_image(folder.path());
    let arguments = with_query(&arguments, &query);
    let (status, _, said) = ended(hidden(boxwork(folder.path(), &arguments)));
    assert_eq!(status, 3, "{said}");
    assert!(said.contains("device: gpu: no driver") || said.contains("device: gpu: no loader"), "{said}");
    let (status, _, said) = ended(hidden(boxwork(folder.path(), &with_query(&SEARCH, &query))));
    assert_eq!(status, 0, "{said}");
    let (status, _, said) = ended(boxwork(folder.path(), &["search", "--device", "cuda"]));
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("gpu:0,1"), "{said}");
}

#[test]
fn a_device_finds_what_the_processor_finds() {
    if !has_device("a_device_finds_what_the_processor_finds") {
        return;
    }
    let folder = with_store();
    let (status, list, said) = ended(boxwork(folder.path(), &["devices", "--format", "json"]));
    assert_eq!(status, 0, "{said}");
    let list: Json = serde_json::from_str(&list).expect("it is JSON");
    assert_eq!(list["devices"][0]["works"], Json::Bool(true));
    let query = first_image(folder.path());
    let found = ["cpu", "gpu", "gpu:0"].map(|device| {
        let arguments: Vec<&str> = SEARCH.iter().copied().chain(["--device", device]).collect();
        let (status, found, said) = ended(boxwork(folder.path(), &with_query(&arguments, &query)));
        assert_eq!((status, said.contains("warning")), (0, false), "{said}");
        found
    });
    assert!(found[0].contains("distance"), "{}", found[0]);
    assert!(found.iter().all(|other| *other == found[0]), "{} is not {}", found[1], found[0]);
    // The statistics and the report include the device.
    let told = ["--device", "gpu:0", "--stats", "--report", "r.json"];
    let arguments: Vec<&str> = SEARCH.iter().copied().chain(told).collect();
    let (status, _, said) = ended(boxwork(folder.path(), &with_query(&arguments, &query)));
    assert!(status == 0 && said.contains("device 0 (") && said.contains("gathered at"), "{said}");
    let report = std::fs::read_to_string(folder.path().join("r.json")).expect("a report");
    let report: Json = serde_json::from_str(&report).expect("it is JSON");
    let device = &report["devices"][0];
    assert!(device["blocks"].as_u64() > Some(0) && device["gathered_bytes"].as_u64() > Some(0), "{device}");
}

#[test]
fn a_device_extracts_what_the_processor_extracts() {
    if !has_device("a_device_extracts_what_the_processor_extracts") {
        return;
    }
    let folder = with_store();
    let extracted = ["cpu", "gpu", "gpu:0"].map(|device| {
        let small = ["extract", "images", "--out", "d.arrow", "--force", "--points", "300", "--seeds", "60"];
        let (status, _, said) = ended(boxwork(folder.path(), &[&small[..], &["--device", device]].concat()));
        assert_eq!((status, said.contains("warning")), (0, false), "{said}");
        let (status, signatures, said) = ended(boxwork(folder.path(), &["export", "d.arrow"]));
        assert_eq!(status, 0, "{said}");
        signatures
    });
    assert_eq!(extracted[0].lines().count(), 12);
    assert!(extracted.iter().all(|other| *other == extracted[0]), "a device's signatures differ");
}

#[test]
fn a_device_removes_noise_as_the_processor_does() {
    if !has_device("a_device_removes_noise_as_the_processor_does") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for the test");
    let drawn = ["sample-images", "images", "--classes", "1", "--per-class", "1", "--seed", "3"];
    let quick = ["--sigma", "20", "--profile", "fast", "--phases", "1"];
    let (status, _, said) = ended(boxwork(folder.path(), &drawn));
    assert_eq!(status, 0, "{said}");
    let image = first_image(folder.path());
    let denoised = ["cpu", "gpu"].map(|device| {
        let call = ["denoise", "images", "--out", device, "--device", device];
        let (status, _, said) = ended(boxwork(folder.path(), &[&call[..], &quick].concat()));
        assert_eq!((status, said.contains("warning")), (0, false), "{said}");
        std::fs::read(folder.path().join(device).join(&image)).expect("a picture without noise")
    });
    assert!(denoised[0] == denoised[1], "a device's picture differs");
}

#[test]
fn an_index_on_a_device_gives_the_same_answers_and_explain_says_where() {
    if !has_device("an_index_on_a_device_gives_the_same_answers_and_explain_says_where") {
        return;
    }
    let folder = with_store();
    let index = ["index", "--store", "s.arrow", "--pivots", "3", "--out", "i.arrow"];
    let (status, _, said) = ended(boxwork(folder.path(), &index));
    assert_eq!(status, 0, "{said}");
    // The device writes an identical file.
    let made =
        ["index", "--store", "s.arrow", "--pivots", "3", "--out", "j.arrow", "--device", "gpu:0", "--stats"];
    let (status, _, said) = ended(boxwork(folder.path(), &made));
    assert!(status == 0 && !said.contains("warning") && said.contains("device 0 ("), "{said}");
    let bytes = |name| std::fs::read(folder.path().join(name)).expect("the index was written");
    assert!(bytes("i.arrow") == bytes("j.arrow"), "the device's index differs");
    let query = first_image(folder.path());
    for more in [&["-k", "4"][..], &["--range", "0.5"]] {
        for bound in ["triangular", "ptolemaic", "combined", "simplex"] {
            let found = ["cpu", "gpu"].map(|device| {
                let own = ["--pivots", "i.arrow", "--bound", bound, "--device", device];
                let given = ["search", "--store", "s.arrow", "--query", &query, "--format", "json"];
                let arguments = [&given, more, &own[..]].concat();
                let (status, found, said) = ended(boxwork(folder.path(), &arguments));
                assert_eq!((status, said.contains("warning")), (0, false), "{said}");
                found
            });
            assert!(found[0].contains("distance"), "{}", found[0]);
            assert_eq!(found[0], found[1], "{bound} {more:?}");
        }
    }
    let explained = |device: &str| {
        let text = "boxwork: 1\nresources:\n  signatures: {kind: signature_store, path: s.arrow}\n  \
            space: {kind: sqfd_space, store: signatures}\n  \
            table: {kind: pivot_table, path: i.arrow, space: space}\nboxes:\n  \
            query: {kind: read_query, queries: [a], store: signatures}\n  \
            bounds: {kind: lower_bounds, pivots: table, k: 4, device: DEVICE}\n  \
            distance: {kind: sqfd, space: space}\n  top: {kind: top_k, k: 4, space: space}\n  \
            results: {kind: table, store: signatures}\nedges:\n  - query -> bounds.queries\n  \
            - bounds -> distance.candidates\n  - distance -> top.distances -> results.results\n  \
            - query -> distance.query\n  - query -> top.query\n  - query -> results.query\n";
        std::fs::write(folder.path().join("p.yaml"), text.replace("DEVICE", device))
            .expect("it can be written");
        let (status, page, said) = ended(boxwork(folder.path(), &["explain", "p.yaml"]));
        assert_eq!(status, 0, "{said}");
        page
    };
    assert!(explained("gpu:0").contains("OpenCL (gpu:0: device 0"), "{}", explained("gpu:0"));
    assert!(explained("cpu").contains("(device: cpu)"), "{}", explained("cpu"));
}

/// The name of an image of the store.
fn first_image(folder: &Path) -> String {
    let class = std::fs::read_dir(folder.join("images")).expect("images were drawn").flatten().next();
    let class = class.expect("a class").path();
    let image = std::fs::read_dir(&class).expect("a class is a folder").flatten().next();
    let image = image.expect("an image").path();
    image.strip_prefix(folder.join("images")).expect("it lies there").to_string_lossy().into_owned()
}

/// The call, with another query.
fn with_query<'a>(arguments: &[&'a str], query: &'a str) -> Vec<&'a str> {
    let swapped = |argument: &&'a str| if argument.ends_with(".jpg") { query } else { *argument };
    arguments.iter().map(swapped).collect()
}

#[test]
fn lists_and_graphs_of_devices_have_the_bytes_of_the_processor() {
    if !has_device("lists_and_graphs_of_devices_have_the_bytes_of_the_processor") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for the test");
    let run = |arguments: &[&str]| {
        let (status, _, said) = ended(boxwork(folder.path(), arguments));
        assert!(status == 0 && !said.contains("warning"), "{said}");
    };
    let bytes = |name: &str| std::fs::read(folder.path().join(name)).expect("the file was written");
    // Whole numbers, so that many distances are equal.
    let numbers: Vec<u8> = (0..400 * 8u32).map(|place| (place * place % 251 % 7) as u8).collect();
    std::fs::write(folder.path().join("base.u8"), numbers).expect("the vectors");
    run(&["import", "base.u8", "--type", "u8", "--dimensions", "8", "--out", "v.arrow"]);
    run(&["remove", "--store", "v.arrow", "17", "300"]);
    let lists = |out: &str, codes: &str, distance: &str, more: &[&str]| {
        let make = ["lists", "--store", "v.arrow", "--lists", "9", "--codes", codes, "--distance", distance];
        run(&[&make, &["--out", out][..], more].concat());
        bytes(out)
    };
    for (codes, distance) in [("rows", "l2"), ("fast", "cosine")] {
        let expected = lists(&format!("{codes}.arrow"), codes, distance, &["--device", "cpu"]);
        for workers in ["1", "2", "7"] {
            let out = format!("{codes}-{workers}.arrow");
            let found = lists(&out, codes, distance, &["--device", "gpu", "--workers", workers]);
            assert!(found == expected, "{codes}, {workers} workers: the device shows");
        }
    }
    let graph = |out: &str, device: &str, workers: &str| {
        let set = [format!("out={out}"), format!("device={device}")];
        let make = ["run", "knn_graph", "--set", "store=v.arrow", "--set", "k=6", "--workers", workers];
        run(&[&make[..], &["--set", &set[0], "--set", &set[1]]].concat());
        bytes(out)
    };
    let expected = graph("cpu.arrow", "cpu", "2");
    for workers in ["1", "7"] {
        assert!(graph("gpu.arrow", "gpu", workers) == expected, "{workers} workers: the device shows");
    }
}

#[test]
fn permutations_of_devices_have_the_bytes_of_the_processor() {
    if !has_device("permutations_of_devices_have_the_bytes_of_the_processor") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for the test");
    let run = |arguments: &[&str]| {
        let (status, _, said) = ended(boxwork(folder.path(), arguments));
        assert!(status == 0 && !said.contains("warning"), "{said}");
        said
    };
    let numbers: Vec<u8> = (0..9000 * 8u64).map(|place| (place * place % 251 % 7) as u8).collect();
    std::fs::write(folder.path().join("base.u8"), numbers).expect("the vectors");
    run(&["import", "base.u8", "--type", "u8", "--dimensions", "8", "--out", "v.arrow"]);
    run(&["remove", "--store", "v.arrow", "17", "300"]);
    let index = |out: &str, device: &str, workers: &str| {
        let set = [format!("out={out}"), format!("device={device}")];
        let make = ["run", "permutation_index", "--set", "store=v.arrow", "--workers", workers, "--stats"];
        let said = run(&[&make[..], &["--set", &set[0], "--set", &set[1]]].concat());
        assert_eq!(said.contains("lists made on devices"), device == "gpu", "{said}");
        std::fs::read(folder.path().join(out)).expect("the file was written")
    };
    let expected = index("cpu.arrow", "cpu", "2");
    for workers in ["1", "7"] {
        assert!(index("gpu.arrow", "gpu", workers) == expected, "{workers} workers: the device shows");
    }
}

#[test]
fn alignments_of_devices_have_the_bytes_of_the_processor() {
    if !has_device("alignments_of_devices_have_the_bytes_of_the_processor") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for the test");
    let letter = |place: usize| b"ARNDCQEGHILKM"[place * place % 251 % 13] as char;
    let text = |row: usize| (0..row % 50).map(|place| letter(row * 7 + place * 3)).collect::<String>();
    let lines = (0..1100).map(|row| format!("{{\"name\": \"w{row}\", \"object\": \"{}\"}}\n", text(row)));
    std::fs::write(folder.path().join("texts.jsonl"), lines.collect::<String>()).expect("the texts");
    std::fs::write(folder.path().join("costs.txt"), "A R N\nA 0 1 5\nR 2 0 3\nN 9 1 0\n").expect("the costs");
    let align = |name: &str, device: &str, workers: &str, more: &[&str]| {
        let device = format!("device={device}");
        let mut make = vec!["run", name, "--workers", workers, "--stats"];
        for set in
            ["texts=texts.jsonl", "queries=[w48,w1,w0,ARNDW]", "format=csv", &device].iter().chain(more)
        {
            make.extend(["--set", set]);
        }
        let (status, found, said) = ended(boxwork(folder.path(), &make));
        assert!(status == 0 && !said.contains("warning"), "{said}");
        assert_eq!(said.contains("distances computed on devices"), device != "device=cpu", "{said}");
        found
    };
    let costs = ["insert=4", "delete=4", "replace=6"];
    for (name, more) in [
        ("alignments", &["measure=edit", "matrix=costs.txt"][..]),
        ("alignments", &["measure=edit"]),
        ("alignments", &["equal=5", "range=-9"]),
        ("edit_distances", &["distance=edit"]),
        ("edit_neighbours", &["distance=edit", "k=40"]),
    ] {
        let more = [&costs[..], more].concat();
        let expected = align(name, "cpu", "2", &more);
        assert!(expected.lines().count() > 100);
        for workers in ["1", "7"] {
            assert!(align(name, "gpu", workers, &more) == expected, "{more:?}: the device shows");
        }
    }
}

#[test]
fn searches_through_lists_find_on_devices_what_slots_find() {
    if !has_device("searches_through_lists_find_on_devices_what_slots_find") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for the test");
    let ok = |arguments: &[&str]| {
        let (status, found, said) = ended(boxwork(folder.path(), arguments));
        assert!(status == 0 && !said.contains("warning"), "{said}");
        (found, said)
    };
    // Whole numbers, so that many sums are equal.
    let import = |name: &str, count: u32, out: &str| {
        let number = |place: u32| (place + 3) * (place % 37 + count) % 251 % 9;
        let row = |row: u32| (row * 9..row * 9 + 9).map(number).collect::<Vec<u32>>();
        let line = |nth: u32| format!("{{\"name\": \"{name}{nth}\", \"object\": {:?}}}\n", row(nth));
        let lines: String = (0..count).map(line).collect();
        std::fs::write(folder.path().join("lines.jsonl"), lines).expect("the vectors");
        ok(&["import", "lines.jsonl", "--holds", "vectors", "--out", out]);
    };
    import("v", 600, "v.arrow");
    import("w", 70, "w.arrow");
    let files = [
        ("l2", "product", &["--parts", "4"][..]),
        ("ip", "product", &["--parts", "3"]),
        ("cosine", "fast", &[]),
        ("l2", "fast", &["--rotate"]),
        ("l2", "rows", &[]),
    ];
    let mut add = vec!["add", "--store", "v.arrow", "--from", "w.arrow"];
    let names: Vec<String> = (0..files.len()).map(|nth| format!("{nth}.lists.arrow")).collect();
    for ((distance, codes, more), name) in files.iter().zip(&names) {
        let make = ["lists", "--store", "v.arrow", "--lists", "8", "--codes", codes, "--distance", distance];
        ok(&[&make[..], &["--out", name], more].concat());
        add.extend(["--lists", name]);
    }
    // Lists then have parts of two files, and objects that are gone.
    ok(&add);
    ok(&["remove", "--store", "v.arrow", "v17", "v300", "w42"]);
    std::fs::write(
        folder.path().join("some.txt"),
        (18..290).map(|row| format!("v{row}\n")).collect::<String>(),
    )
    .expect("the names");
    for ((distance, codes, _), name) in files.iter().zip(&names) {
        let search = |more: &[&str]| {
            let of =
                ["search", "--store", "v.arrow", "--query-file", "w.arrow", "-k", "5", "--format", "csv"];
            ok(&[&of[..], &["--lists", name, "--distance", distance, "--probes", "3"], more].concat())
        };
        for more in [&["--refine", "1"][..], &["--refine", "7"], &["--subset", "some.txt"], &["--prove"]] {
            let expected = search(&[more, &["--device", "cpu"]].concat()).0;
            for workers in ["1", "2", "7"] {
                let (found, said) = search(&[more, &["--device", "gpu", "--workers", workers]].concat());
                assert!(
                    found == expected,
                    "{codes}, {distance}, {more:?}, {workers} workers: the device shows"
                );
                let is_left =
                    said.contains("lists of rows are scanned on slots: devices scan product codes alone");
                assert_eq!(is_left, *codes == "rows", "{said}");
            }
        }
        let (_, said) = search(&["--device", "gpu", "--stats"]);
        assert_eq!(said.contains("rows of lists scanned"), *codes != "rows", "{said}");
    }
}

#[test]
fn slots_may_take_columns_of_a_fit_on_a_device() {
    if !has_device("slots_may_take_columns_of_a_fit_on_a_device") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for the test");
    let line = |i: usize| format!("{},{}\n", (i * 7 % 600) as f64 / 30.0, (i % 13) as f64);
    let samples = format!("x,y\n{}", (0..600).map(line).collect::<String>());
    std::fs::write(folder.path().join("s.csv"), samples).expect("the samples");
    let fit = |more: &[&str]| {
        let of = ["gp", "fit", "--samples", "s.csv", "--inputs", "x", "--target", "y", "--force"];
        let out = ["--kernel", "rbf(l=2) + white(1)", "--out", "m.gp.arrow", "--workers", "2"];
        let (status, _, said) = ended(boxwork(folder.path(), &[&of[..], &out, more].concat()));
        assert_eq!(status, 0, "{said}");
        let likelihood = said.split("log likelihood ").nth(1).and_then(|rest| rest.split(' ').next());
        (likelihood.and_then(|text| text.parse::<f64>().ok()).expect("a likelihood"), said)
    };
    let (expected, _) = fit(&["--device", "cpu", "--device-slots", "always"]);
    for slots in ["auto", "always", "never"] {
        let (found, said) = fit(&["--device", "gpu:0", "--device-slots", slots]);
        assert!((found - expected).abs() <= 1e-5, "{slots}: {found}, not {expected}");
        // Shares of `always` are those of measured rates; `auto` leaves so few rows to the device.
        assert!(
            said.contains("1 factors") && (slots == "always" || !said.contains("slots, which took")),
            "{said}"
        );
    }
}
