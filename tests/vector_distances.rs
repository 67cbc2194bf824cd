//! Inner products and cosines by the command: every way to search gives the k least (f64 distance, id), to the byte.

#[path = "support/command.rs"]
mod command;
#[path = "support/http.rs"]
mod http;
#[cfg(unix)]
#[path = "support/served.rs"]
mod served;

use std::fs;
use std::path::Path;

use boxwork_kernels::chance::Random;
use boxwork_kernels::vector::VectorMeasure;
use boxwork_runtime::feeding::faults::has_device;
use command::{fails, folder, json, ok};
use tempfile::TempDir;

const ROWS: usize = 3000;
const QUERIES: usize = 12;
const DIMENSIONS: usize = 19;

/// A type of numbers: its ending, and its bytes of a number.
type Ending = (&'static str, fn(f32) -> Vec<u8>);

const TYPES: [Ending; 4] = [
    ("fbin", |x| x.to_le_bytes().to_vec()),
    ("f16bin", |x| half(x).to_le_bytes().to_vec()),
    ("u8bin", |x| vec![x as u8]),
    ("i8bin", |x| vec![(x as i8).cast_unsigned()]),
];

/// A small whole number as the bits of an f16.
fn half(x: f32) -> u16 {
    let bits = x.to_bits();
    let (sign, exponent, mantissa) = (bits >> 31, bits >> 23 & 255, bits >> 13 & 1023);
    if x == 0.0 { 0 } else { (sign << 15 | (exponent - 112) << 10 | mantissa) as u16 }
}

/// Whole numbers that every type holds, `least` and above: clustered rows, some of them equal, some zero.
fn numbers(random: &mut Random, rows: usize, least: f32) -> Vec<f32> {
    let centres: Vec<f32> = (0..8 * DIMENSIONS).map(|_| 40.0 * random.normal_f32()).collect();
    let mut all: Vec<f32> = Vec::new();
    for row in 0..rows {
        match row % 23 {
            5 => all.extend_from_within(all.len() - DIMENSIONS..),
            11 => all.extend([0.0; DIMENSIONS]),
            _ => {
                let centre = random.idx(8) * DIMENSIONS;
                let number = |place: usize| centres[centre + place] + 9.0 * random.normal_f32();
                let numbers: Vec<f32> = (0..DIMENSIONS).map(number).collect();
                all.extend(numbers.iter().map(|x| x.round().clamp(least, 127.0)));
            }
        }
    }
    all
}

fn file(folder: &Path, name: &str, (ending, bytes): Ending, numbers: &[f32]) {
    let head = [((numbers.len() / DIMENSIONS) as u32).to_le_bytes(), (DIMENSIONS as u32).to_le_bytes()];
    let all: Vec<u8> = head.concat().into_iter().chain(numbers.iter().flat_map(|x| bytes(*x))).collect();
    fs::write(folder.join(format!("{name}.{ending}")), all).expect("a disk");
}

/// A store `v.arrow` of rows of a type, `queries.*`, and both as numbers.
fn with_store(kind: Ending) -> (TempDir, Vec<f32>, Vec<f32>) {
    let folder = folder();
    let mut random = Random::new(101);
    let least = if kind.0 == "u8bin" { 0.0 } else { -127.0 };
    let rows = numbers(&mut random, ROWS, least);
    let mut queries = numbers(&mut random, QUERIES, least);
    // A query of the store, and one that is no whole number.
    queries[..DIMENSIONS].copy_from_slice(&rows[77 * DIMENSIONS..78 * DIMENSIONS]);
    if kind.0 == "fbin" {
        queries[DIMENSIONS..2 * DIMENSIONS].iter_mut().for_each(|x| *x += 0.3);
    }
    file(folder.path(), "base", kind, &rows);
    file(folder.path(), "queries", kind, &queries);
    ok(folder.path(), &["import", &format!("base.{}", kind.0), "--out", "v.arrow"]);
    (folder, rows, queries)
}

/// The rows that a scan in f64 finds for a query, with their distances.
fn wanted(measure: VectorMeasure, query: &[f32], rows: &[f32]) -> Vec<(f64, usize)> {
    let distances = rows.chunks_exact(DIMENSIONS).map(|row| measure.between(query, row));
    let mut all: Vec<(f64, usize)> = distances.zip(0..).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    all
}

/// Rows of the CSV of results: rank, id and distance.
fn found(csv: &str) -> Vec<(f64, usize)> {
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let distance = fields[fields.len() - 1].parse().expect("a distance");
        (distance, fields[fields.len() - 2].parse().expect("a name that is a row"))
    };
    csv.lines().skip(1).map(row).collect()
}

const MEASURES: [VectorMeasure; 2] = [VectorMeasure::InnerProduct, VectorMeasure::Cosine];
const ALL_MEASURES: [VectorMeasure; 3] =
    [VectorMeasure::L2, VectorMeasure::InnerProduct, VectorMeasure::Cosine];

#[test]
fn scans_codes_and_workers_give_the_nearest_by_f64_for_every_type() {
    for kind in TYPES {
        let (folder, rows, queries) = with_store(kind);
        let at = folder.path();
        let file = format!("queries.{}", kind.0);
        for measure in ALL_MEASURES {
            let of = |more: &[&str]| {
                let call = ["search", "--store", "v.arrow", "--distance", measure.name(), "--format", "csv"];
                let k = if more.contains(&"-k") { &[][..] } else { &["-k", "9"] };
                ok(at, &[&call[..], k, more].concat())
            };
            let all = of(&["--query-file", &file]);
            let wanted: Vec<Vec<(f64, usize)>> =
                queries.chunks_exact(DIMENSIONS).map(|query| wanted(measure, query, &rows)).collect();
            let nine: Vec<(f64, usize)> = wanted.iter().flat_map(|all| all[..9].to_vec()).collect();
            assert_eq!(found(&all), nine, "{} {measure:?}", kind.0);
            assert_eq!(found(&of(&["--query", "77"])), wanted[0][..9], "{} {measure:?}", kind.0);
            if has_device("scans_codes_and_workers_give_the_nearest_by_f64_for_every_type") {
                let on_device = of(&["--query-file", &file, "--device", "gpu"]);
                assert_eq!(on_device, all, "{} {measure:?} on a device", kind.0);
                let of_one = ["--query-file", &file, "--workers", "1", "-k", "300"];
                let on = |device: &str| of(&[&of_one[..], &["--device", device]].concat());
                assert_eq!(on("gpu"), on("cpu"));
            }
            for levels in ["planes", "sq8", "pca", "sq4", "product16"] {
                let index = ["index", "--store", "v.arrow", "--codes", levels, "--out", "c.arrow", "--force"];
                ok(at, &[&index[..], &["--distance", measure.name()]].concat());
                for workers in ["1", "2", "7"] {
                    let by_codes = of(&["--query-file", &file, "--codes", "c.arrow", "--workers", workers]);
                    assert_eq!(by_codes, all, "{} {measure:?} {levels} {workers}", kind.0);
                }
                assert_eq!(of(&["--query", "77", "--codes", "c.arrow"]), of(&["--query", "77"]));
            }
        }
    }
}

#[test]
fn ranges_may_be_negative_by_inner_products_alone() {
    let (folder, rows, queries) = with_store(TYPES[0]);
    let at = folder.path();
    for measure in MEASURES {
        let wanted = wanted(measure, &queries[..DIMENSIONS], &rows);
        let border = wanted[40].0;
        assert_eq!(border < 0.0, measure == VectorMeasure::InnerProduct);
        let within: Vec<(f64, usize)> = wanted.iter().copied().filter(|row| row.0 <= border).collect();
        let name = measure.name();
        ok(
            at,
            &[
                "index",
                "--store",
                "v.arrow",
                "--codes",
                "sq4",
                "--distance",
                name,
                "--out",
                "c.arrow",
                "--force",
            ],
        );
        let range = border.to_string();
        let call = ["search", "--store", "v.arrow", "--distance", name, "--format", "csv", "--query", "77"];
        let of = |more: &[&str]| found(&ok(at, &[&call[..], &["--range", &range], more].concat()));
        // A range alone finds all within it, by the pipeline `range`; with k, `search` and `vector_search`.
        assert_eq!(of(&[]), within);
        assert_eq!(of(&["-k", "2000"]), within);
        assert_eq!(of(&["-k", "2000", "--codes", "c.arrow"]), within);
        assert_eq!(of(&["-k", "5", "--codes", "c.arrow"]), within[..5]);
        let shown =
            json(&ok(at, &[&call[..5], &["--query", "77", "--range", &range, "--format", "json"]].concat()));
        let results = shown["queries"][0]["results"].as_array().expect("results");
        let shown: Vec<f64> = results.iter().map(|row| row["distance"].as_f64().expect("a number")).collect();
        assert_eq!(shown, within.iter().map(|row| row.0).collect::<Vec<_>>());
    }
    for (distance, more) in [("l2", &[][..]), ("cosine", &["-k", "3"]), ("cosine", &["--codes", "c.arrow"])] {
        let call = ["search", "--store", "v.arrow", "--query", "7", "--range", "-1", "--distance", distance];
        let said = fails(at, &[&call[..], more].concat(), 2);
        assert_eq!(said, "error: --range: -1 is not a number of at least 0\n");
    }
    let pipeline = ["run", "search", "--set", "store=v.arrow", "--set", "queries=7", "--set", "range=-1"];
    let said = fails(at, &[&pipeline[..], &["--set", "distance=cosine"]].concat(), 1);
    assert!(said.contains("the range is -1, and cosine is never below 0"), "{said}");
    let said = fails(at, &pipeline, 3);
    assert!(said.contains("the range is -1, and l2 is never below 0"), "{said}");
}

#[test]
fn vectors_of_zeros_have_distances() {
    let folder = folder();
    let lines = ["[0, 0]", "[3, 4]", "[-3, -4]", "[4, -3]", "[0, 0]"];
    let lines: String = lines.map(|line| format!("{{\"object\": {line}}}\n")).concat();
    fs::write(folder.path().join("v.jsonl"), lines).expect("a disk");
    ok(folder.path(), &["import", "v.jsonl", "--holds", "vectors", "--out", "v.arrow"]);
    for distance in ["ip", "cosine"] {
        ok(
            folder.path(),
            &["index", "--store", "v.arrow", "--codes", "planes", "--distance", distance, "--out", distance],
        );
        let of = |query: &str, more: &[&str]| {
            let call =
                ["search", "--store", "v.arrow", "--distance", distance, "--format", "csv", "--query", query];
            found(&ok(folder.path(), &[&call[..], more].concat()))
        };
        let zero = match distance {
            "ip" => vec![(0.0, 0), (0.0, 1), (0.0, 2), (0.0, 3), (0.0, 4)],
            _ => vec![(0.0, 0), (0.0, 4), (1.0, 1), (1.0, 2), (1.0, 3)],
        };
        let other = match distance {
            "ip" => vec![(-50.0, 1), (0.0, 0), (0.0, 3), (0.0, 4), (50.0, 2)],
            _ => vec![(0.0, 1), (1.0, 0), (1.0, 3), (1.0, 4), (2.0, 2)],
        };
        for more in [&[][..], &["--codes", distance]] {
            assert_eq!(of("[0, 0]", more), zero, "{distance} {more:?}");
            assert_eq!(of("[6, 8]", more), other, "{distance} {more:?}");
        }
    }
}

#[test]
fn an_index_of_pivots_or_balls_is_refused_with_the_inequality_and_a_way_out() {
    let (folder, rows, _) = with_store(TYPES[0]);
    let at = folder.path();
    for (distance, root) in [("ip", false), ("cosine", true)] {
        let check = |said: &str| {
            // A diagnostic is broken into lines.
            let said: Vec<&str> = said.split_whitespace().filter(|word| *word != "│").collect();
            let said = said.join(" ");
            let command = format!("boxwork index --codes planes --distance {distance}");
            let words = ["d(a, c) <= d(a, b) + d(b, c)", &command];
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
            assert_eq!(said.contains("`root: true`"), root, "{said}");
        };
        let said = fails(at, &["index", "--store", "v.arrow", "--distance", distance, "--out", "p.arrow"], 1);
        check(&said);
        assert!(!said.contains("wrote") && !at.join("p.arrow").exists(), "{said}");
        for (kind, line) in [
            ("pivots", "nearest: {kind: lower_bounds, pivots: table, bound: none, k: 3}"),
            ("pivots", "nearest: {kind: lower_bounds, pivots: table, k: 3}"),
            ("balls", "nearest: {kind: m_tree, space: space, k: 3}"),
        ] {
            let (table, tail) = match kind {
                "pivots" => (
                    "  table: {kind: pivot_table, space: space}\n",
                    "  distance: {kind: distance, space: space}\n  top: {kind: top_k, space: space, k: 3}\n  results: {kind: csv, store: v}\n\
                     edges:\n  - query -> nearest.queries\n  - nearest -> distance.candidates\n  - distance -> top.distances -> results.results\n  \
                     - query -> distance.query\n  - query -> top.query\n  - query -> results.query\n",
                ),
                _ => (
                    "",
                    "  results: {kind: csv, store: v}\n\
                     edges:\n  - query -> nearest.queries\n  - nearest -> results.results\n  - query -> results.query\n",
                ),
            };
            let text = format!(
                "boxwork: 1\nresources:\n  v: {{kind: store, path: v.arrow}}\n  space: {{kind: space, store: v, distance: \
                 {distance}}}\n{table}boxes:\n  query: {{kind: read_query, queries: ['7'], store: v}}\n  {line}\n{tail}"
            );
            fs::write(at.join("p.yaml"), &text).expect("a disk");
            let said = fails(at, &["check", "p.yaml"], 1);
            check(&said);
            assert!(said.contains("p.yaml:"), "{said}");
            let text = text.replace(&format!("distance: {distance}}}"), "distance: cosine, root: true}");
            fs::write(at.join("p.yaml"), &text).expect("a disk");
            let csv = ok(at, &["run", "p.yaml"]);
            let query = &rows[7 * DIMENSIONS..][..DIMENSIONS];
            let of_scan = wanted(VectorMeasure::Cosine, query, &rows);
            let roots: Vec<(f64, usize)> = of_scan[..3].iter().map(|row| (row.0.sqrt(), row.1)).collect();
            assert_eq!(found(&csv), roots, "{line}");
        }
    }
    // The distance of a request, which the plan does not know.
    let run = [
        "run",
        "metric_search",
        "--set",
        "objects=base.jsonl",
        "--set",
        "queries=7",
        "--set",
        "distance=cosine",
    ];
    let line = |row: &[f32]| format!("{{\"object\": {row:?}}}\n");
    fs::write(at.join("base.jsonl"), rows.chunks(DIMENSIONS).take(50).map(line).collect::<String>())
        .expect("a disk");
    assert!(fails(at, &run, 1).contains("`root: true`"));
    ok(at, &[&run[..], &["--set", "root=true"]].concat());
    let by_ip: Vec<&str> =
        run.iter().map(|word| if *word == "distance=cosine" { "distance=ip" } else { word }).collect();
    assert!(fails(at, &by_ip, 1).contains("ip does not obey the triangle"));
    let said = fails(at, &["search", "--store", "v.arrow", "--query", "7", "--distance", "ip", "--root"], 1);
    assert!(said.contains("ip is negative for similar objects"), "{said}");
}

#[test]
fn codes_of_another_distance_are_refused_with_the_command_that_makes_the_right_ones() {
    let (folder, ..) = with_store(TYPES[2]);
    let at = folder.path();
    ok(at, &["index", "--store", "v.arrow", "--codes", "sq8", "--distance", "ip", "--out", "c.arrow"]);
    for distance in ["l2", "cosine"] {
        let search =
            ["search", "--store", "v.arrow", "--codes", "c.arrow", "--query", "7", "--distance", distance];
        let said = fails(at, &search, 3);
        let flag = if distance == "l2" { "" } else { " --distance cosine" };
        let command = format!("boxwork index --store v.arrow --codes planes{flag} --out c.arrow --force");
        assert!(said.contains("has codes for ip") && said.contains(&command), "{said}");
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        ok(at, &words);
        ok(at, &search);
        ok(
            at,
            &[
                "index",
                "--store",
                "v.arrow",
                "--codes",
                "sq8",
                "--distance",
                "ip",
                "--out",
                "c.arrow",
                "--force",
            ],
        );
    }
}

#[test]
fn evaluate_ranks_by_inner_products_and_gives_them_no_dimensionality() {
    let folder = folder();
    // By ip the class `a` is near to itself; `b` lies opposite, and is near to itself too; `c` is near to nothing.
    let objects = [("a/1", [3, 1]), ("a/2", [2, 1]), ("b/1", [-2, 0]), ("b/2", [-3, 1]), ("c/1", [0, 0])];
    let line =
        |(name, object): (&str, [i32; 2])| format!("{{\"name\": \"{name}\", \"object\": {object:?}}}\n");
    fs::write(folder.path().join("v.jsonl"), objects.map(line).concat()).expect("a disk");
    ok(folder.path(), &["import", "v.jsonl", "--holds", "vectors", "--out", "v.arrow"]);
    for (distance, has_dimensionality) in [("ip", false), ("cosine", true)] {
        let call = ["evaluate", "--store", "v.arrow", "--format", "json", "--distance", distance];
        let found = json(&ok(folder.path(), &call));
        assert_eq!((found["map"].as_f64(), &found["distance"]), (Some(1.0), &distance.into()), "{found}");
        assert_eq!(found["idim"].is_number(), has_dimensionality, "{found}");
        ok(folder.path(), &["evaluate", "--store", "v.arrow", "--distance", distance]);
    }
}

#[cfg(unix)]
#[test]
fn a_server_searches_by_inner_products_and_takes_their_ranges() {
    let (folder, rows, _) = with_store(TYPES[3]);
    let at = folder.path();
    fs::create_dir(at.join("own")).expect("a disk");
    let shipped = ok(at, &["pipelines", "show", "search"]);
    let text = shipped.replace(
        "{type: text, default: auto, about: \"the distance",
        "{type: text, default: ip, about: \"the distance",
    );
    assert_ne!(shipped, text);
    fs::write(at.join("own/search.yaml"), text).expect("a disk");
    let query = &rows[7 * DIMENSIONS..][..DIMENSIONS];
    let wanted = wanted(VectorMeasure::InnerProduct, query, &rows);
    let border = wanted[4].0;
    let body = serde_json::json!({"query": {"id": 7}, "k": 100, "range": border});
    let by_ip = served::Served::start(at, &["--store", "v.arrow", "--pipelines", "own"]);
    assert_eq!(by_ip.get("/v1/stores/v").json()["measure"], "ip");
    let hits = by_ip.post("/v1/stores/v/search", &body).json()["hits"].clone();
    let hits = hits.as_array().expect("hits").iter();
    let hits: Vec<(f64, u64)> = hits
        .map(|hit| (hit["distance"].as_f64().expect("a number"), hit["id"].as_u64().expect("an id")))
        .collect();
    let within = wanted.iter().filter(|row| row.0 <= border).map(|row| (row.0, row.1 as u64));
    assert_eq!(hits, within.collect::<Vec<_>>());
    let by_l2 = served::Served::start(at, &["--store", "v.arrow"]);
    let refused = by_l2.post("/v1/stores/v/search", &body);
    assert_eq!(refused.status, 422, "{}", refused.text());
}

#[test]
fn lists_find_most_of_the_nearest_in_few_of_them_and_all_in_all() {
    for kind in [TYPES[0], TYPES[3]] {
        let (folder, ..) = with_store(kind);
        let at = folder.path();
        for measure in MEASURES {
            let name = measure.name();
            let call = ["search", "--store", "v.arrow", "-k", "9", "--format", "csv", "--distance", name];
            // The rows 0 to 29 are queries.
            let asked: Vec<String> = (0..30).map(|row| row.to_string()).collect();
            let asked: Vec<&str> = asked.iter().flat_map(|row| ["--query", row]).collect();
            let of = |more: &[&str]| {
                let csv = ok(at, &[&call[..], &asked, more].concat());
                let lines = csv.lines().map(|line| line.split_once(",false").map_or(line, |(row, _)| row));
                found(&lines.map(|line| format!("{line}\n")).collect::<String>())
            };
            let exact = of(&[]);
            for codes in ["rows", "product", "fast"] {
                let file = |out: &str, workers: &str| {
                    let lists = ["lists", "--store", "v.arrow", "--lists", "24", "--codes", codes, "--force"];
                    ok(at, &[&lists[..], &["--distance", name, "--out", out, "--workers", workers]].concat());
                    fs::read(at.join(out)).expect("the lists")
                };
                assert!(file("a.lists", "1") == file("b.lists", "3"), "{codes} {name}");
                let all = of(&["--lists", "a.lists", "--probes", "24", "--refine", "400"]);
                assert_eq!(all, exact, "{} {codes} {name}", kind.0);
                let few = of(&["--lists", "a.lists", "--probes", "6"]);
                // Equal distances have many rows here, of which any are as near.
                let distances = |rows: &[(f64, usize)]| rows.iter().map(|row| row.0).collect::<Vec<f64>>();
                let pairs = exact.chunks(9).zip(few.chunks(9));
                let hits = pairs.map(|(exact, few)| {
                    let border = exact[exact.len() - 1].0;
                    distances(few).iter().filter(|distance| **distance <= border).count()
                });
                let hits = hits.sum::<usize>();
                assert!(hits > 30 * 9 * 9 / 10, "{} {codes} {name}: {hits} of {}", kind.0, 30 * 9);
                let other = if name == "ip" { "cosine" } else { "ip" };
                let search = ["search", "--store", "v.arrow", "--query", "7", "--lists", "a.lists"];
                let said = fails(at, &[&search[..], &["--distance", other]].concat(), 3);
                let command =
                    format!("boxwork lists --store v.arrow --distance {other} --out a.lists --force");
                assert!(said.contains(&format!("has lists for {name}")) && said.contains(&command), "{said}");
                let said = fails(at, &search, 3);
                assert!(said.contains("boxwork lists --store v.arrow --out a.lists --force"), "{said}");
            }
        }
    }
}

#[test]
fn a_graph_by_the_cosine_has_the_neighbours_of_a_search_and_one_by_ip_is_refused() {
    let (folder, ..) = with_store(TYPES[0]);
    let at = folder.path();
    let make = ["run", "knn_graph", "--set", "store=v.arrow", "--set", "k=4", "--set", "out=g.arrow"];
    ok(at, &[&make[..], &["--set", "distance=cosine"]].concat());
    // The path from a vector to its nearest other one is their step, as the graph has no shorter one.
    for name in ["7", "100", "2000"] {
        let search = ["search", "--store", "v.arrow", "--query", name, "--distance", "cosine", "-k", "2"];
        let nearest = json(&ok(at, &[&search[..], &["--format", "json"]].concat()));
        let nearest = &nearest["queries"][0]["results"][1];
        let to = format!("to={}", nearest["name"].as_str().expect("a name"));
        let from = format!("from={name}");
        let find = ["run", "graph_path", "--set", "store=v.arrow", "--set", "graph=g.arrow"];
        let path = json(&ok(at, &[&find[..], &["--set", &from, "--set", &to]].concat()));
        let steps = path["path"].as_array().expect("a path");
        assert_eq!((steps.len(), &path["largest"]), (2, &nearest["distance"]), "{path} {nearest}");
    }
    let check = |said: &str| {
        // A diagnostic is broken into lines.
        let said: Vec<&str> = said.split_whitespace().filter(|word| *word != "│").collect();
        let said = said.join(" ");
        let words = ["by ip the longest vectors are the nearest", "take `distance: cosine`"];
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    };
    check(&fails(at, &[&make[..], &["--set", "distance=ip"]].concat(), 1));
    let pipeline = ok(at, &["pipelines", "show", "knn_graph"])
        .replace("text, default: auto, about: \"l2", "text, default: ip, about: \"l2");
    fs::write(at.join("by_ip.yaml"), pipeline).expect("a disk");
    check(&fails(at, &["check", "by_ip.yaml"], 1));
}
