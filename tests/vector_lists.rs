//! `boxwork lists` and `boxwork search --lists`: the same files and answers for any number of workers, exact where all lists
//! are looked into, marked as approximate, and refused when they do not fit.

#[path = "support/command.rs"]
mod command;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use boxwork_kernels::chance::Random;
use boxwork_stores::lists::quantizers_of;
use command::{fails, folder, ok};

const LISTS: &str = "20";

/// Vectors of 12 numbers in clusters, with some copies.
fn store(at: &Path, count: usize) {
    let mut random = Random::mixed(9);
    let centres: Vec<Vec<f32>> =
        (0..15).map(|_| (0..12).map(|_| 10.0 * random.normal_f32()).collect()).collect();
    let mut lines = String::new();
    let mut last = Vec::new();
    for row in 0..count {
        if row % 50 != 1 {
            last = centres[random.idx(15)].iter().map(|x| x + random.normal_f32()).collect();
        }
        writeln!(lines, "{{\"name\": \"v{row}\", \"object\": {last:?}}}").expect("a line");
    }
    fs::write(at.join("v.jsonl"), lines).expect("the vectors");
    ok(at, &["import", "v.jsonl", "--holds", "vectors", "--out", "v.arrow", "--force"]);
}

fn lists(at: &Path, codes: &str, out: &str, workers: &str) -> Vec<u8> {
    let arguments = ["lists", "--store", "v.arrow", "--out", out, "--lists", LISTS, "--codes", codes];
    ok(at, &[&arguments[..], &["--workers", workers]].concat());
    fs::read(at.join(out)).expect("the lists")
}

const QUERIES: [&str; 8] =
    ["--query", "v0", "--query", "v51", "--query", "v200", "--query", "[1,2,3,4,5,6,7,8,9,10,11,12]"];

fn search(at: &Path, arguments: &[&str]) -> String {
    ok(at, &[&["search", "--store", "v.arrow", "-k", "7"][..], &QUERIES, arguments].concat())
}

/// Rows of a table in CSV, without the mark of approximate results.
fn rows(text: &str) -> Vec<&str> {
    text.lines().skip(1).map(|line| line.split_once(",false").map_or(line, |(row, _)| row)).collect()
}

#[test]
fn lists_and_answers_do_not_depend_on_workers_and_all_lists_give_the_exact_answer() {
    let folder = folder();
    let at = folder.path();
    store(at, 1500);
    let exact = search(at, &["--format", "csv"]);
    for codes in ["rows", "product", "fast", "rabitq"] {
        let one = lists(at, codes, "a.lists.arrow", "1");
        assert!(one == lists(at, codes, "b.lists.arrow", "3"), "the number of workers shows in {codes}");
        let all = ["--lists", "a.lists.arrow", "--probes", LISTS, "--refine", "300", "--format", "csv"];
        assert_eq!(rows(&search(at, &all)), rows(&exact), "{codes}");
        for (probes, refine) in [("1", "1"), ("3", "2"), ("8", "10")] {
            let some =
                ["--lists", "a.lists.arrow", "--probes", probes, "--refine", refine, "--format", "csv"];
            let found = search(at, &[&some[..], &["--workers", "1"]].concat());
            for workers in ["2", "7"] {
                assert_eq!(search(at, &[&some[..], &["--workers", workers]].concat()), found);
            }
            // Distances are the exact ones of the objects found.
            let mut common = 0;
            for line in rows(&found) {
                let fields: Vec<&str> = line.rsplitn(5, ',').collect();
                let (name, distance) = (fields[1], fields[0]);
                let same = |line: &&str| line.ends_with(&format!(",{name},{distance}"));
                common += usize::from(rows(&exact).iter().any(same));
            }
            // At least the queries that are objects themselves, and much more with more probes.
            let least = if refine == "10" { 24 } else { 3 };
            assert!(common >= least, "{codes}, {probes} probes: {common} of 28 found");
        }
        fs::remove_file(at.join("a.lists.arrow")).expect("a file");
        fs::remove_file(at.join("b.lists.arrow")).expect("a file");
    }
}

#[test]
fn results_say_that_they_are_approximate() {
    let folder = folder();
    let at = folder.path();
    store(at, 300);
    lists(at, "rows", "v.lists.arrow", "2");
    let by = ["--lists", "v.lists.arrow", "--probes", "2"];
    let json = search(at, &[&by[..], &["--format", "json"]].concat());
    assert!(json.starts_with("{\"exact\": false, \"probes\": 2, \"queries\": ["), "{json}");
    let csv = search(at, &[&by[..], &["--format", "csv"]].concat());
    assert!(csv.contains("distance,exact,probes\n") && csv.ends_with(",false,2\n"), "{csv}");
    assert!(search(at, &by).starts_with("approximate: each query looked into the 2 nearest lists\n"));
    assert!(
        search(at, &[&by[..], &["--format", "html"]].concat()).contains("looked into the 2 nearest lists")
    );
    assert!(!search(at, &["--format", "json"]).contains("\"exact\""));
    // Codes are refined, which rows are not.
    lists(at, "fast", "f.lists.arrow", "2");
    let by = ["--lists", "f.lists.arrow", "--probes", "2", "--refine", "3"];
    let json = search(at, &[&by[..], &["--format", "json"]].concat());
    assert!(json.starts_with("{\"exact\": false, \"probes\": 2, \"refine\": 3, \"queries\": ["), "{json}");
    let csv = search(at, &[&by[..], &["--format", "csv"]].concat());
    assert!(csv.contains("distance,exact,probes,refine\n") && csv.ends_with(",false,2,3\n"), "{csv}");
    assert!(search(at, &by).contains("2 nearest lists, and ranked 3 candidates for each object\n"));
}

#[test]
fn wrong_input_gets_an_error_that_says_what_to_do() {
    let folder = folder();
    let at = folder.path();
    store(at, 300);
    let make = ["lists", "--store", "v.arrow", "--out", "v.lists.arrow"];
    let fail = |more: &[&str], status: i32| fails(at, &[&make[..], more].concat(), status);
    assert!(fail(&["--lists", "301"], 3).contains("ask for fewer lists than objects"));
    assert!(fail(&["--codes", "product", "--parts", "13"], 3).contains("ask for 1 to 12 parts"));
    assert!(fail(&["--codes", "tiny"], 2).contains("product"));
    assert!(!at.join("v.lists.arrow").exists());
    ok(at, &make);
    assert!(fail(&[], 2).contains("--force"));

    let find = ["search", "--store", "v.arrow", "--query", "v0", "--lists", "v.lists.arrow"];
    let refused = |words: &str| {
        let error = fails(at, &find, 3);
        assert!(error.contains(words) && error.contains("boxwork lists --store v.arrow"), "{error}");
    };
    let bytes = fs::read(at.join("v.lists.arrow")).expect("the lists");
    for place in [100, bytes.len() / 3, bytes.len() / 2, bytes.len() - 300] {
        let mut damaged = bytes.clone();
        damaged[place] ^= 8;
        fs::write(at.join("v.lists.arrow"), damaged).expect("the lists");
        refused("");
    }
    fs::write(at.join("v.lists.arrow"), &bytes[..bytes.len() / 2]).expect("the lists");
    refused("cut short");
    fs::write(at.join("v.lists.arrow"), &bytes).expect("the lists");
    ok(at, &find);
    assert!(fails(at, &[&find[..], &["--query", "[1, 2]"]].concat(), 3).contains("query 1"));
    assert!(
        fails(at, &["search", "--store", "v.arrow", "--query", "v0", "--probes", "3"], 2).contains("--lists")
    );

    // Another store under the name.
    let lines = fs::read_to_string(at.join("v.jsonl")).expect("the vectors");
    fs::write(at.join("v.jsonl"), lines.lines().skip(1).map(|line| format!("{line}\n")).collect::<String>())
        .expect("the vectors");
    ok(at, &["import", "v.jsonl", "--holds", "vectors", "--out", "v.arrow", "--force"]);
    let find = ["search", "--store", "v.arrow", "--query", "v1", "--lists", "v.lists.arrow"];
    let error = fails(at, &find, 3);
    assert!(
        error.contains("was made again since") && error.contains("boxwork lists --store v.arrow"),
        "{error}"
    );
    fs::write(at.join("w.jsonl"), "{\"object\": \"kitten\"}\n").expect("the words");
    ok(at, &["import", "w.jsonl", "--holds", "texts", "--out", "w.arrow"]);
    let error = fails(at, &["lists", "--store", "w.arrow", "--out", "w.lists.arrow"], 3);
    assert!(error.contains("l2") || error.contains("vectors"), "{error}");
}

#[test]
fn lists_of_a_store_without_some_objects_hold_the_others() {
    let folder = folder();
    let at = folder.path();
    store(at, 300);
    ok(at, &["remove", "--store", "v.arrow", "v7", "v8", "v299"]);
    let exact = ok(at, &["search", "--store", "v.arrow", "--query", "v6", "-k", "297", "--format", "csv"]);
    for codes in ["rows", "fast", "rabitq"] {
        ok(at, &["lists", "--store", "v.arrow", "--out", "v.lists.arrow", "--codes", codes, "--force"]);
        let find = ["search", "--store", "v.arrow", "--query", "v6", "-k", "297", "--lists", "v.lists.arrow"];
        let found = ok(at, &[&find[..], &["--probes", "1000", "--format", "csv"]].concat());
        assert_eq!(rows(&found), rows(&exact), "{codes}");
        assert_eq!(rows(&found).len(), 297);
    }
}

#[test]
fn bytes_are_vectors_too() {
    let folder = folder();
    let at = folder.path();
    let mut random = Random::mixed(3);
    let bytes: Vec<u8> = (0..600 * 16).map(|_| random.below(200) as u8).collect();
    fs::write(at.join("base.u8"), bytes).expect("the vectors");
    ok(at, &["import", "base.u8", "--type", "u8", "--dimensions", "16", "--out", "u.arrow"]);
    let find = ["search", "--store", "u.arrow", "--query", "3", "--query", "599", "--format", "csv"];
    let exact = ok(at, &find);
    for codes in ["rows", "product", "fast", "rabitq"] {
        ok(at, &["lists", "--store", "u.arrow", "--out", "u.lists.arrow", "--codes", codes, "--force"]);
        let by = ["--lists", "u.lists.arrow", "--probes", "30", "--refine", "60"];
        assert_eq!(rows(&ok(at, &[&find[..], &by].concat())), rows(&exact), "{codes}");
    }
}

#[test]
fn a_graph_of_neighbours_has_those_of_a_search_and_paths() {
    let folder = folder();
    let at = folder.path();
    store(at, 300);
    let graph = |out: &str, workers: &str| {
        let make = ["run", "knn_graph", "--set", "store=v.arrow", "--set", "k=12", "--workers", workers];
        ok(at, &[&make[..], &["--set", &format!("out={out}")]].concat());
        fs::read(at.join(out)).expect("the graph")
    };
    assert!(graph("a.arrow", "1") == graph("b.arrow", "3"), "the number of workers shows");
    let path = |from: &str, to: &str| {
        let ends = [format!("from={from}"), format!("to={to}")];
        let find =
            ["run", "graph_path", "--set", "store=v.arrow", "--set", "graph=a.arrow", "--set", &ends[0]];
        let text = ok(at, &[&find[..], &["--set", &ends[1]]].concat());
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON")
    };
    let same = path("v5", "v5");
    assert_eq!((same["largest"].as_f64(), same["path"].as_array().map(Vec::len)), (Some(0.0), Some(1)));
    // A vector and its nearest other one, which the search lists second.
    let nearest = ok(at, &["search", "--store", "v.arrow", "--query", "v5", "-k", "2", "--format", "json"]);
    let nearest: serde_json::Value = serde_json::from_str(&nearest).expect("JSON");
    let nearest = &nearest["queries"][0]["results"][1];
    let step = path("v5", nearest["name"].as_str().expect("a name"));
    assert!(step["largest"].as_f64() <= nearest["distance"].as_f64(), "{step} {nearest}");
    // A path over many vectors has their distances, or there is none.
    let many = path("v0", "v299");
    let largest = many["path"].as_array().map(|path| {
        path[1..].iter().map(|object| object["distance"].as_f64().expect("a distance")).fold(0.0, f64::max)
    });
    assert_eq!(many["largest"].as_f64(), largest);
    let find = ["run", "graph_path", "--set", "store=v.arrow", "--set", "graph=a.arrow", "--set", "from=v0"];
    assert!(fails(at, &[&find[..], &["--set", "to=nobody"]].concat(), 3).contains("no object `nobody`"));
    // The page has the same objects, of which one has a picture.
    fs::create_dir(at.join("photos")).expect("a folder");
    image::RgbImage::new(4, 4)
        .save_with_format(at.join("photos/v5"), image::ImageFormat::Png)
        .expect("a picture");
    let to = format!("to={}", nearest["name"].as_str().expect("a name"));
    let page =
        ["format=html", "pictures=photos", "from=v5", &to, "out=p.html"].map(|set| ["--set", set]).concat();
    ok(at, &[&find[..6], &page].concat());
    let page = fs::read_to_string(at.join("p.html")).expect("a page");
    assert_eq!(Some(page.matches("<li").count()), step["path"].as_array().map(Vec::len), "{step}");
    assert_eq!(page.matches("data:image/jpeg;base64,").count(), 1);
    assert!(page.matches("<li class=\"largest\">").count() > 0);
}

/// The rows of a search's answer in CSV, each as query, name and distance.
fn found(at: &Path, arguments: &[&str]) -> Vec<(String, String, String)> {
    let text =
        ok(at, &[&["search", "--store", "v.arrow", "--format", "csv"][..], &QUERIES, arguments].concat());
    let each = rows(&text).into_iter().map(|line| {
        let mut fields = line.rsplitn(5, ',').map(str::to_owned);
        let (distance, name) = (fields.next().expect("a distance"), fields.next().expect("a name"));
        (fields.last().expect("a query"), name, distance)
    });
    each.collect()
}

/// A store with names in three classes; `a/` and `b/` have half of the objects each, `c/` has one.
fn classes(at: &Path, count: usize) {
    store(at, count);
    let lines = fs::read_to_string(at.join("v.jsonl")).expect("the vectors");
    let named: String = (0..)
        .zip(lines.lines())
        .map(|(row, line)| {
            let folder = if row < 2 {
                "c"
            } else if row % 2 == 0 {
                "a"
            } else {
                "b"
            };
            line.replace("\"v", &format!("\"{folder}/v")) + "\n"
        })
        .collect();
    // The queries of the tests have no class.
    let named =
        ["c/v0\"", "b/v51\"", "a/v200\""].iter().fold(named, |named, name| named.replace(name, &name[2..]));
    fs::write(at.join("v.jsonl"), named).expect("the vectors");
    ok(at, &["import", "v.jsonl", "--holds", "vectors", "--out", "v.arrow", "--force"]);
}

/// Whether a name is that of a row in a folder.
fn is_in(name: &str, folder: &str, rows: std::ops::Range<u32>) -> bool {
    let (of, row) = name.split_once("/v").unwrap_or_default();
    of.starts_with(folder) && row.parse().is_ok_and(|row| rows.contains(&row))
}

type Passes = fn(&str) -> bool;

/// Flags, and the objects that they let pass.
const SUBSETS: [(&[&str], Passes); 8] = [
    (&[], |_| true),
    (&["--class", "a"], |name| name.starts_with("a/")),
    (&["--class", "b/v1"], |_| false),
    (&["--class", "c"], |name| name.starts_with("c/")),
    (&["--subset", "some"], |name| is_in(name, "", 2..30)),
    (&["--subset", "some", "--class", "b/"], |name| is_in(name, "b", 2..30)),
    (&["--subset", "few"], |name| ["a/v2", "b/v3"].contains(&name)),
    (&["--subset", "none"], |_| false),
];

/// Compares the answers of some ways to search with the parts of the whole answer.
fn check_parts(at: &Path, by: &[&str], all: &[(String, String, String)], ways: &[Vec<&str>]) {
    let number = |text: &str| text.parse::<f64>().expect("a number");
    let range = number(&all[40].2);
    for (flags, passes) in SUBSETS {
        let part = |limit: usize, range: f64| {
            let each = all.chunk_by(|a, b| a.0 == b.0).flat_map(|rows| {
                let rows = rows.iter().filter(|row| passes(&row.1) && number(&row.2) <= range);
                rows.take(limit).cloned().collect::<Vec<_>>()
            });
            each.collect::<Vec<_>>()
        };
        let within = format!("--range={}", all[40].2);
        let limits: [(&[&str], Vec<_>); 4] = [
            (&["-k", "7"], part(7, f64::INFINITY)),
            (&["-k", "2000"], part(2000, f64::INFINITY)),
            (&["-k", "3", &within], part(3, range)),
            (&[&within], part(2000, range)),
        ];
        for (limit, wanted) in &limits {
            for way in ways {
                let asked = [limit, flags, by, way].concat();
                assert_eq!(found(at, &asked), *wanted, "{asked:?}");
            }
        }
    }
}

#[test]
fn ranges_and_subsets_give_the_part_of_the_whole_answer() {
    let folder = folder();
    let at = folder.path();
    classes(at, 900);
    ok(at, &["remove", "--store", "v.arrow", "a/v400", "b/v13"]);
    let some = (2..30).filter(|row| *row != 13).map(|row| format!("{}/v{row}\n", ["a", "b"][row % 2]));
    fs::write(at.join("some"), some.collect::<String>()).expect("names");
    fs::write(at.join("few"), "a/v2\nb/v3\n").expect("names");
    fs::write(at.join("none"), "").expect("no names");
    for distance in ["l2", "ip", "cosine"] {
        let by = ["--distance", distance];
        let make = |arguments: &[&str], out: &str| {
            let of = ["--store", "v.arrow", "--out", out, "--force"];
            ok(at, &[&arguments[..1], &of, &arguments[1..], &by].concat());
        };
        let all = found(at, &[&["-k", "2000"][..], &by].concat());
        assert_eq!(all.len(), 4 * 898, "all objects but removed ones");
        make(&["index", "--codes", "planes"], "v.codes.arrow");
        let mut ways: Vec<Vec<&str>> = vec![vec![], vec!["--codes", "v.codes.arrow"]];
        let files = ["rows.lists.arrow", "product.lists.arrow", "fast.lists.arrow", "rabitq.lists.arrow"];
        for (codes, file) in ["rows", "product", "fast", "rabitq"].into_iter().zip(files) {
            make(&["lists", "--lists", LISTS, "--codes", codes], file);
            ways.push(vec!["--lists", file, "--probes", LISTS, "--refine", "1000"]);
        }
        check_parts(at, &by, &all, &ways);
        // A query that looks into few lists finds the part of what they have.
        let some = ["--lists", "rows.lists.arrow", "--probes", "3", "-k", "2000"];
        let in_lists = found(at, &[&some[..], &by].concat());
        let of_class: Vec<_> = in_lists.iter().filter(|row| row.1.starts_with("a/")).cloned().collect();
        assert_eq!(found(at, &[&some[..], &by, &["--class", "a"]].concat()), of_class);
        assert!(!of_class.is_empty() && of_class.len() < in_lists.len());
    }
}

#[test]
fn a_subset_that_is_none_is_refused() {
    let folder = folder();
    let at = folder.path();
    store(at, 60);
    fs::write(at.join("names"), "v1\nv61\n").expect("names");
    ok(at, &["index", "--store", "v.arrow", "--codes", "planes", "--out", "v.codes.arrow"]);
    for more in [&[][..], &["--codes", "v.codes.arrow"]] {
        let find = ["search", "--store", "v.arrow", "--query", "v0", "--subset"];
        let error = fails(at, &[&find[..], &["names"], more].concat(), 3);
        assert!(error.contains("no object `v61`") && error.contains("a name on each line"), "{error}");
        assert!(fails(at, &[&find[..], &["nowhere"], more].concat(), 3).contains("cannot read"));
        assert!(fails(at, &[&find[..], &["v.codes.arrow"], more].concat(), 3).contains("neither"));
    }
}

/// Imports some lines of vectors as a store.
fn import(at: &Path, lines: &[&str], out: &str) {
    fs::write(at.join("some.jsonl"), lines.join("\n") + "\n").expect("the vectors");
    ok(at, &["import", "some.jsonl", "--holds", "vectors", "--out", out, "--force"]);
}

#[test]
fn codes_and_lists_follow_their_store() {
    let folder = folder();
    let at = folder.path();
    store(at, 1000);
    let lines = fs::read_to_string(at.join("v.jsonl")).expect("the vectors");
    let lines: Vec<&str> = lines.lines().collect();
    import(at, &lines[..700], "v.arrow");
    let lists = ["rows.lists.arrow", "product.lists.arrow", "fast.lists.arrow", "rabitq.lists.arrow"];
    for (codes, out) in ["rows", "product", "fast", "rabitq"].into_iter().zip(lists) {
        ok(at, &["lists", "--store", "v.arrow", "--lists", LISTS, "--codes", codes, "--out", out]);
    }
    ok(at, &["index", "--store", "v.arrow", "--codes", "planes", "--out", "v.codes.arrow"]);
    let ways = || {
        let of_lists = lists.iter().map(|lists| vec!["--lists", lists, "--probes", LISTS, "--refine", "200"]);
        [vec!["--codes", "v.codes.arrow"]].into_iter().chain(of_lists)
    };
    let check = |k: &str| {
        let exact = found(at, &["-k", k]);
        for way in ways() {
            assert_eq!(found(at, &[&["-k", k][..], &way].concat()), exact, "{way:?}");
        }
        exact.len()
    };
    let all = [
        "--codes",
        "v.codes.arrow",
        "--lists",
        lists[0],
        "--lists",
        lists[1],
        "--lists",
        lists[2],
        "--lists",
        lists[3],
    ];
    ok(at, &["remove", "--store", "v.arrow", "v7", "v8", "v151"]);
    assert_eq!(check("2000"), 4 * 697);
    import(at, &lines[700..900], "w.arrow");
    ok(at, &[&["add", "--store", "v.arrow", "--from", "w.arrow"][..], &all].concat());
    assert!(at.join("fast.lists.arrow.part-1").exists());
    // Objects that were added and removed since.
    ok(at, &["remove", "--store", "v.arrow", "v701", "v899"]);
    assert_eq!(check("2000"), 4 * 895);
    check("7");
    // Some lists hold what they held, and what was added to them.
    let some = ["--lists", lists[0], "--probes", "4", "-k", "2000"];
    let in_lists = found(at, &some);
    assert!(in_lists.iter().any(|row| row.1 == "v850" || row.1 == "v720") && in_lists.len() < 4 * 895);

    // A file that was not named is behind, and says how it catches up.
    import(at, &lines[900..], "w.arrow");
    ok(at, &["add", "--store", "v.arrow", "--from", "w.arrow", "--lists", lists[0]]);
    for way in ways().filter(|way| way[1] != lists[0]) {
        let find = ["search", "--store", "v.arrow", "--query", "v0"];
        let error = fails(at, &[&find[..], &way].concat(), 3);
        let command = error.split('`').find(|words| words.starts_with("boxwork ")).expect("a command");
        assert!(command.contains("--append"), "{error}");
        ok(at, &command.split(' ').skip(1).collect::<Vec<_>>());
    }
    assert_eq!(check("2000"), 4 * 995);
    // The files of the compacted store are those of that store, made at once.
    ok(at, &[&["compact", "--store", "v.arrow"][..], &all].concat());
    assert!(!at.join("fast.lists.arrow.part-1").exists());
    assert_eq!(check("2000"), 4 * 995);
    assert_eq!(found(at, &some).len(), found(at, &[&some[..], &["--workers", "1"]].concat()).len());
    // Objects that were all removed again need no file.
    import(at, &[&lines[0].replace("v0", "new")], "w.arrow");
    ok(at, &["add", "--store", "v.arrow", "--from", "w.arrow"]);
    ok(at, &["remove", "--store", "v.arrow", "new"]);
    ok(at, &["search", "--store", "v.arrow", "--query", "v0", "--lists", lists[0]]);
}

#[test]
fn lists_start_spread_and_keep_the_centroids_of_others() {
    let folder = folder();
    let at = folder.path();
    store(at, 900);
    let make = |more: &[&str], out: &str| {
        ok(at, &[&["lists", "--store", "v.arrow", "--out", out, "--force"][..], more].concat());
        fs::read(at.join(out)).expect("the lists")
    };
    let spread = ["--lists", LISTS, "--start", "spread", "--codes", "fast"];
    let one = make(&[&spread[..], &["--workers", "1"]].concat(), "a.lists.arrow");
    assert!(one == make(&[&spread[..], &["--workers", "3"]].concat(), "b.lists.arrow"), "workers show");
    assert!(one != make(&["--lists", LISTS, "--codes", "fast"], "b.lists.arrow"), "the start does not show");
    let of = |file: &str| quantizers_of(&at.join(file)).expect("quantizers").centroids().to_vec();
    let kept = of("a.lists.arrow");
    for start in ["random", "spread"] {
        let more = ["--keep", "a.lists.arrow", "--lists", "30", "--start", start];
        let both = make(&[&more[..], &["--workers", "1"]].concat(), "c.lists.arrow");
        assert!(both == make(&more, "b.lists.arrow"), "workers show");
        let centroids = of("c.lists.arrow");
        assert_eq!((&centroids[..kept.len()], centroids.len()), (&kept[..], 30 * 12));
        assert!(centroids[kept.len()..].chunks(12).all(|new| kept.chunks(12).all(|old| old != new)));
        let all = ["--lists", "c.lists.arrow", "--probes", "30"];
        assert_eq!(found(at, &[&["-k", "7"][..], &all].concat()), found(at, &["-k", "7"]));
    }
    let fail = |more: &[&str]| {
        fails(
            at,
            &[&["lists", "--store", "v.arrow", "--out", "d.lists.arrow", "--keep"][..], more].concat(),
            3,
        )
    };
    assert!(fail(&["a.lists.arrow", "--lists", "19"]).contains("ask for 20 at least"));
    assert!(fail(&["v.arrow"]).contains("holds no lists"));
    import(at, &["{\"object\": [1, 2]}", "{\"object\": [3, 4]}"], "w.arrow");
    ok(at, &["lists", "--store", "w.arrow", "--out", "w.lists.arrow"]);
    assert!(fail(&["w.lists.arrow"]).contains("have 2 numbers, and the vectors 12"));
}
