//! Graphs of near neighbours: what they find beside exact searches, and files that are refused. A build without them knows the command
//! and the pipelines, and says which build has them.

#[path = "support/command.rs"]
mod command;
#[cfg(feature = "graph")]
#[path = "graph_search/graphs.rs"]
mod graphs;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use boxwork_kernels::chance::Random;
use command::{fails, folder, ok};

/// Vectors of 12 numbers in clusters, each tenth a copy of the one before, named by their cluster.
fn store(at: &Path, count: usize) {
    let mut random = Random::mixed(9);
    let centres: Vec<Vec<f32>> =
        (0..30).map(|_| (0..12).map(|_| 3.0 * random.normal_f32()).collect()).collect();
    let (mut lines, mut last, mut cluster) = (String::new(), Vec::new(), 0);
    for row in 0..count {
        if row % 10 != 9 {
            cluster = random.idx(30);
            last = centres[cluster].iter().map(|x| x + random.normal_f32()).collect();
        }
        writeln!(lines, "{{\"name\": \"c{cluster}/v{row}\", \"object\": {last:?}}}").expect("a line");
    }
    fs::write(at.join("v.jsonl"), lines).expect("the vectors");
    ok(at, &["import", "v.jsonl", "--holds", "vectors", "--out", "v.arrow", "--force"]);
}

const MAKE: [&str; 5] = ["hnsw", "--store", "v.arrow", "--out", "v.hnsw.arrow"];
const FIND: [&str; 5] = ["search", "--store", "v.arrow", "--graph", "v.hnsw.arrow"];

#[test]
fn the_pipelines_are_sound_in_every_build() {
    let folder = folder();
    let at = folder.path();
    store(at, 100);
    for pipeline in ["vector_graph", "graph_search"] {
        ok(at, &["check", pipeline, "--deny-warnings"]);
    }
    let by_l1 = ["run", "vector_graph", "--set", "store=v.arrow", "--set", "out=g", "--set", "distance=l1"];
    fails(at, &by_l1, 2);
    assert!(
        fails(at, &["search", "--store", "v.arrow", "--query", "[1]", "--refine", "3"], 2)
            .contains("--graph")
    );
    let said = fails(at, &["search", "--store", "v.arrow", "--query", "[1]", "--expansion", "3"], 2);
    assert!(said.contains("--graph"), "{said}");
    if cfg!(not(feature = "graph")) {
        for call in [&MAKE[..], &[&FIND[..], &["--query", "[1,2,3,4,5,6,7,8,9,10,11,12]"]].concat()] {
            let said = fails(at, call, 3);
            assert!(said.contains("v.hnsw.arrow") && said.contains("--features graph"), "{said}");
        }
        assert!(!at.join("v.hnsw.arrow").exists());
    }
}

#[cfg(feature = "graph")]
mod with_graphs {
    use std::fs;
    use std::path::Path;

    use serde_json::Value as Json;

    use super::command::{fails, folder, json, ok, stats};
    use super::{FIND, MAKE, store};

    /// Twenty-five queries by numbers, of which none is an object.
    fn queries() -> Vec<String> {
        let mut random = super::Random::mixed(31);
        let query = |_| {
            let numbers: Vec<f32> = (0..12).map(|_| 3.0 * random.normal_f32()).collect();
            format!("{numbers:?}")
        };
        (0..25).map(query).collect()
    }

    /// The names and distances of each query.
    fn answers(at: &Path, call: &[&str], more: &[&str]) -> Vec<Vec<(String, f64)>> {
        let queries = queries();
        let asked: Vec<&str> = queries.iter().flat_map(|query| ["--query", query]).collect();
        let found = json(&ok(at, &[call, &asked, &["--format", "json"], more].concat()));
        let hit = |hit: &Json| {
            (hit["name"].as_str().expect("a name").to_owned(), hit["distance"].as_f64().expect("a distance"))
        };
        let hits = |query: &Json| query["results"].as_array().expect("results").iter().map(hit).collect();
        found["queries"].as_array().expect("queries").iter().map(hits).collect()
    }

    fn recall(found: &[Vec<(String, f64)>], exact: &[Vec<(String, f64)>]) -> f64 {
        let pairs = found.iter().zip(exact);
        let hits = pairs.map(|(found, exact)| {
            let border = exact.last().map_or(f64::NEG_INFINITY, |last| last.1);
            found.iter().filter(|hit| hit.1 <= border).count()
        });
        hits.sum::<usize>() as f64 / exact.iter().map(Vec::len).sum::<usize>() as f64
    }

    const SCAN: [&str; 3] = ["search", "--store", "v.arrow"];

    #[test]
    fn searches_find_nearly_all_and_their_distances_are_exact() {
        let folder = folder();
        let at = folder.path();
        store(at, 2500);
        for distance in ["l2", "ip", "cosine"] {
            let by = ["--distance", distance];
            let exact = answers(at, &SCAN, &by);
            for (workers, numbers) in [("1", "f32"), ("4", "f32"), ("4", "f16"), ("4", "i8")] {
                let more = ["--force", "--workers", workers, "--numbers", numbers, "--distance", distance];
                ok(at, &[&MAKE[..], &more].concat());
                let many = ["--distance", distance, "--expansion", "128", "--refine", "8"];
                let one = answers(at, &FIND, &[&many[..], &["--workers", "1"]].concat());
                assert_eq!(one, answers(at, &FIND, &[&many[..], &["--workers", "4"]].concat()));
                let found = recall(&one, &exact);
                assert!(found >= 0.95, "{distance} {numbers} {workers}: {found}");
                // Distances are those of a scan, to the bit.
                for (found, exact) in one.iter().zip(&exact) {
                    let known = found
                        .iter()
                        .filter_map(|hit| exact.iter().find(|of| of.0 == hit.0).map(|of| (hit, of)));
                    known.for_each(|(hit, of)| assert_eq!(hit, of));
                    assert!(found.is_sorted_by(|a, b| a.1 <= b.1) && found.len() == 10);
                }
            }
        }
    }

    #[test]
    fn results_say_that_they_are_approximate() {
        let folder = folder();
        let at = folder.path();
        store(at, 300);
        assert!(stats(at, &MAKE).contains("vectors in the graph"));
        let find =
            |more: &[&str]| ok(at, &[&FIND[..], &["--query", "[0,0,0,0,0,0,0,0,0,0,0,0]"], more].concat());
        let by = ["--expansion", "30"];
        let json = find(&[&by[..], &["--format", "json"]].concat());
        assert!(json.starts_with("{\"exact\": false, \"expansion\": 30, \"queries\": ["), "{json}");
        let csv = find(&[&by[..], &["--format", "csv"]].concat());
        assert!(csv.contains("distance,exact,expansion\n") && csv.ends_with(",false,30\n"), "{csv}");
        let table = find(&by);
        assert!(table.starts_with("approximate: each query walked through a graph"), "{table}");
        assert!(find(&[&by[..], &["--format", "html"]].concat()).contains("an expansion of 30"));
    }

    #[test]
    fn some_of_the_objects_are_searched_alone() {
        let folder = folder();
        let at = folder.path();
        store(at, 2000);
        ok(at, &MAKE);
        for class in ["c4", "c17"] {
            let exact = answers(at, &SCAN, &["--class", class]);
            let found = answers(at, &FIND, &["--class", class, "--expansion", "100"]);
            assert!(found.iter().flatten().all(|hit| hit.0.starts_with(&format!("{class}/"))));
            assert!(recall(&found, &exact) >= 0.95);
        }
        // Fewer than one of 100: all of them are ranked, as a scan ranks them.
        let names: Vec<String> =
            answers(at, &SCAN, &["-k", "3"]).into_iter().flatten().map(|hit| hit.0).collect();
        fs::write(at.join("some.txt"), names[..12].join("\n")).expect("a list");
        let some = ["--subset", "some.txt", "-k", "5"];
        assert_eq!(answers(at, &FIND, &some), answers(at, &SCAN, &some));
        // More objects than there are, and a range.
        let all = ["-k", "5000", "--refine", "1"];
        assert_eq!(answers(at, &FIND, &all), answers(at, &SCAN, &["-k", "5000"]));
        let near = ["--range", "6", "--expansion", "2000"];
        assert_eq!(answers(at, &FIND, &near), answers(at, &SCAN, &["--range", "6"]));
        let ids = ["run", "graph_search", "--set", "store=v.arrow", "--set", "graph=v.hnsw.arrow"];
        let found = ok(
            at,
            &[
                &ids[..],
                &[
                    "--set",
                    "queries=[\"[1,1,1,1,1,1,1,1,1,1,1,1]\"]",
                    "--set",
                    "ids=[5, 8]",
                    "--set",
                    "format=csv",
                ],
            ]
            .concat(),
        );
        assert_eq!(found.lines().count(), 3, "{found}");
    }

    #[test]
    fn a_changed_store_says_what_to_do_and_its_graph_is_brought_up() {
        let folder = folder();
        let at = folder.path();
        store(at, 600);
        ok(at, &MAKE);
        assert!(fails(at, &MAKE, 2).contains("--force"));
        let first = ok(at, &["export", "v.arrow", "--out", "-"]);
        let name = answers(at, &SCAN, &[])[0][0].0.clone();
        ok(at, &["remove", "--store", "v.arrow", &name]);
        assert!(answers(at, &FIND, &["-k", "599"]).iter().flatten().all(|hit| hit.0 != name));
        assert!(recall(&answers(at, &FIND, &[]), &answers(at, &SCAN, &[])) >= 0.95);

        // Other vectors under other names.
        let lines = first.replace("\"c", "\"new/c");
        fs::write(at.join("new.jsonl"), lines).expect("lines");
        ok(at, &["import", "new.jsonl", "--holds", "vectors", "--out", "new.arrow"]);
        let with_graph = ["add", "--store", "v.arrow", "--from", "new.arrow", "--lists", "v.hnsw.arrow"];
        let said = fails(at, &with_graph, 3);
        assert!(said.contains("v.hnsw.arrow` is a graph") && said.contains("hnsw --append"), "{said}");
        ok(at, &with_graph[..5]);
        let asked = ["--query", "[0,0,0,0,0,0,0,0,0,0,0,0]"];
        let said = fails(at, &[&FIND[..], &asked].concat(), 3);
        let append = ["hnsw", "--append", "--store", "v.arrow", "--out", "v.hnsw.arrow"];
        assert!(said.contains(&append.join(" ")), "{said}");
        ok(at, &append);
        assert!(recall(&answers(at, &FIND, &[]), &answers(at, &SCAN, &[])) >= 0.95);
        let csv = ok(at, &[&FIND[..], &asked, &["-k", "1199", "--format", "csv"]].concat());
        assert_eq!(csv.lines().filter(|line| line.contains("new/")).count(), 600);

        ok(at, &["compact", "--store", "v.arrow"]);
        let said = fails(at, &[&FIND[..], &asked].concat(), 3);
        assert!(said.contains("boxwork hnsw --store v.arrow --out v.hnsw.arrow --force"), "{said}");
        let missing =
            fails(at, &["search", "--store", "v.arrow", "--graph", "none.arrow", "--query", asked[1]], 3);
        assert!(missing.contains("none.arrow"), "{missing}");
    }
}

#[cfg(feature = "graph")]
#[test]
fn recall_of_walks_is_counted_and_said_to_be_approximate() {
    let folder = folder();
    let at = folder.path();
    store(at, 600);
    ok(at, &MAKE);
    let numbers: Vec<u8> = fs::read_to_string(at.join("v.jsonl"))
        .expect("the vectors")
        .lines()
        .step_by(20)
        .flat_map(|line| {
            let object: serde_json::Value = serde_json::from_str(line).expect("a vector");
            let row = object["object"].as_array().expect("numbers").clone();
            row.into_iter().flat_map(|x| (x.as_f64().expect("a number") as f32 + 0.125).to_le_bytes())
        })
        .collect();
    fs::write(at.join("q.fbin"), [&30_u32.to_le_bytes()[..], &12_u32.to_le_bytes(), &numbers].concat())
        .expect("a disk");
    let exact = ["search", "--store", "v.arrow", "--query-file", "q.fbin", "-k", "5"];
    let found = ok(at, &[&exact[..], &["--format", "csv"]].concat());
    let ids = found.lines().skip(1).flat_map(|line| {
        line.split(',').nth(2).and_then(|id| id.parse::<i32>().ok()).expect("an id").to_le_bytes()
    });
    fs::write(at.join("truth_30x5.i32"), ids.collect::<Vec<u8>>()).expect("a disk");
    let share = |expansion: &str| -> f64 {
        let walk = ["--graph", "v.hnsw.arrow", "--expansion", expansion, "--truth", "truth_30x5.i32"];
        let said = ok(at, &[&exact[..], &walk].concat());
        assert!(said.starts_with("30 queries, 5 true neighbours each\n"), "{said}");
        assert!(said.contains("approximate"), "{said}");
        let of = said.split_once("5@5").and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
        of.unwrap_or_else(|| panic!("no share: {said}"))
    };
    let (few, many) = (share("10"), share("300"));
    assert!(many >= 0.98 && few <= many, "{few} {many}");
}
