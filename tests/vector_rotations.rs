//! `boxwork lists --rotate` and `--codes rabitq`: turned codes lose less, have the same bytes for any number of workers, and follow
//! their store. Lists of two stores by one codebook are joined.

#[path = "support/command.rs"]
mod command;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use boxwork_kernels::chance::Random;
use command::{fails, folder, ok};

/// Writes vectors whose 16 numbers are all mixtures of few.
fn mixtures(at: &Path, count: usize) {
    let mut random = Random::mixed(12);
    let mixing: Vec<f32> = (0..16 * 16).map(|_| random.normal_f32()).collect();
    let mut lines = String::new();
    for row in 0..count {
        let source: Vec<f32> = (0..16).map(|j| 20.0 * random.normal_f32() * 0.6f32.powi(j)).collect();
        let number = |row: &[f32]| row.iter().zip(&source).map(|(x, y)| x * y).sum::<f32>();
        let vector: Vec<f32> = mixing.chunks(16).map(number).collect();
        writeln!(lines, "{{\"name\": \"v{row}\", \"object\": {vector:?}}}").expect("a line");
    }
    fs::write(at.join("v.jsonl"), lines).expect("the vectors");
    ok(at, &["import", "v.jsonl", "--holds", "vectors", "--out", "v.arrow"]);
}

/// The query and the id of each row of a search by 60 objects.
fn nearest_of_60(at: &Path, more: &[&str]) -> BTreeSet<(String, String)> {
    let queries: Vec<String> = (0..60).map(|row| format!("v{}", row * 25)).collect();
    let queries: Vec<&str> = queries.iter().flat_map(|query| ["--query", query]).collect();
    let find = ["search", "--store", "v.arrow", "-k", "10", "--format", "csv"];
    let text = ok(at, &[&find[..], &queries, more].concat());
    let fields = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    text.lines().skip(1).map(fields).map(|fields| (fields[0].clone(), fields[2].clone())).collect()
}

fn lists_of_mixtures(at: &Path, more: &[&str], out: &str) -> Vec<u8> {
    let make = ["lists", "--store", "v.arrow", "--out", out, "--lists", "4", "--parts", "4", "--force"];
    ok(at, &[&make[..], more].concat());
    fs::read(at.join(out)).expect("the lists")
}

#[test]
fn turned_codes_find_more_where_numbers_go_together() {
    let folder = folder();
    let at = folder.path();
    mixtures(at, 1500);
    for distance in ["l2", "ip", "cosine"] {
        let by = ["--distance", distance];
        let exact = nearest_of_60(at, &by);
        let common = |file: &str, refine: &str| {
            let in_lists = ["--lists", file, "--probes", "4", "--refine", refine];
            nearest_of_60(at, &[&by[..], &in_lists].concat()).intersection(&exact).count()
        };
        for (codes, plain) in [("product", "p.lists.arrow"), ("fast", "f.lists.arrow")] {
            lists_of_mixtures(at, &[&["--codes", codes][..], &by].concat(), plain);
            let without = common(plain, "1");
            for to in [&[][..], &["8"]] {
                let turned = [&["--codes", codes, "--rotate"][..], to, &by].concat();
                let one =
                    lists_of_mixtures(at, &[&turned[..], &["--workers", "1"]].concat(), "r.lists.arrow");
                assert!(
                    one == lists_of_mixtures(at, &turned, "s.lists.arrow"),
                    "the number of workers shows"
                );
                let with = common("r.lists.arrow", "1");
                assert!(
                    with > without,
                    "{distance} {codes} {to:?}: {with} with, {without} without a rotation"
                );
                assert_eq!(common("r.lists.arrow", "150"), 600);
            }
        }
    }
}

#[test]
fn rotations_are_for_codes_and_for_vectors_that_are_added() {
    let folder = folder();
    let at = folder.path();
    mixtures(at, 300);
    lists_of_mixtures(at, &["--codes", "fast", "--rotate"], "r.lists.arrow");
    let new = "{\"name\": \"new\", \"object\": [1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7]}\n";
    fs::write(at.join("w.jsonl"), new).expect("a vector");
    ok(at, &["import", "w.jsonl", "--holds", "vectors", "--out", "w.arrow"]);
    ok(at, &["add", "--store", "v.arrow", "--from", "w.arrow", "--lists", "r.lists.arrow"]);
    let find = ["search", "--store", "v.arrow", "--query", "new", "-k", "1", "--lists", "r.lists.arrow"];
    assert!(ok(at, &[&find[..], &["--refine", "1"]].concat()).contains("  new\n"));
    let fail = |more: &[&str]| {
        let make = ["lists", "--store", "v.arrow", "--out", "t.lists.arrow", "--rotate"];
        fails(at, &[&make[..], more].concat(), 3)
    };
    let made = |more: &[&str], out: &str| {
        lists_of_mixtures(at, &[&["--codes", "fast", "--rotate"][..], more].concat(), out)
    };
    let random = made(&["--rotate-start", "random", "--workers", "1"], "a.lists.arrow");
    assert!(random == made(&["--rotate-start", "random", "--workers", "3"], "b.lists.arrow"));
    assert!(random != made(&[], "c.lists.arrow"), "the start shows");
    assert!(made(&["--rotate-start", "principal"], "d.lists.arrow") == made(&[], "e.lists.arrow"));
    assert!(fail(&[]).contains("no codes to turn"));
    assert!(fail(&["17", "--codes", "fast"]).contains("ask for 16 at most"));
    assert!(fail(&["8", "--codes", "fast", "--parts", "9"]).contains("ask for 1 to 8 parts"));
}

#[test]
fn each_bit_of_a_direction_finds_more() {
    let folder = folder();
    let at = folder.path();
    mixtures(at, 1500);
    let make = |more: &[&str], out: &str| {
        let make =
            ["lists", "--store", "v.arrow", "--out", out, "--lists", "4", "--codes", "rabitq", "--force"];
        ok(at, &[&make[..], more].concat());
        fs::read(at.join(out)).expect("the lists")
    };
    for distance in ["l2", "ip", "cosine"] {
        let by = ["--distance", distance];
        let exact = nearest_of_60(at, &by);
        let mut found = Vec::new();
        for bits in ["1", "2", "3", "4"] {
            let options = [&["--bits", bits][..], &by].concat();
            let one = make(&[&options[..], &["--workers", "1"]].concat(), "r.lists.arrow");
            assert!(one == make(&options, "s.lists.arrow"), "the number of workers shows");
            let common = |refine: &str| {
                let in_lists = ["--lists", "r.lists.arrow", "--probes", "4", "--refine", refine];
                nearest_of_60(at, &[&by[..], &in_lists].concat()).intersection(&exact).count()
            };
            found.push(common("1"));
            assert_eq!(common("150"), 600, "{distance} {bits}");
        }
        assert!(found.is_sorted() && found[0] > 60 && found[3] > 400, "{distance}: {found:?} of 600");
    }
    let fail = |more: &[&str]| {
        fails(at, &[&["lists", "--store", "v.arrow", "--out", "t.lists.arrow"][..], more].concat(), 3)
    };
    assert!(fail(&["--bits", "2", "--codes", "fast"]).contains("codes `rabitq`"));
    assert!(fail(&["--codes", "rabitq", "--rotate"]).contains("a rotation of their own"));
    assert!(fail(&["--codes", "rabitq", "--parts", "3"]).contains("ask for 1 to 4 bits"));
}

#[test]
fn rows_of_a_file_are_queries_of_lists() {
    let folder = folder();
    let at = folder.path();
    let mut random = Random::mixed(5);
    let bytes: Vec<u8> = (0..400 * 6).map(|_| random.below(200) as u8).collect();
    fs::write(at.join("base.u8"), &bytes).expect("the vectors");
    fs::write(at.join("queries.u8"), &bytes[..30 * 6]).expect("the queries");
    let bare = ["--type", "u8", "--dimensions", "6"];
    ok(at, &[&["import", "base.u8", "--out", "v.arrow"][..], &bare].concat());
    ok(at, &["lists", "--store", "v.arrow", "--lists", "9", "--codes", "fast", "--out", "v.lists.arrow"]);
    let find = ["search", "--store", "v.arrow", "--query-file", "queries.u8", "-k", "5", "--format", "csv"];
    let exact = ok(at, &[&find[..], &bare].concat());
    let by = ["--lists", "v.lists.arrow", "--probes", "9", "--refine", "100"];
    let found = ok(at, &[&find[..], &bare, &by].concat());
    assert_eq!(found.lines().count(), 1 + 30 * 5);
    let found = found.replace(",false,9,100\n", "\n").replace(",exact,probes,refine\n", "\n");
    assert_eq!(found, exact);
    assert!(fails(at, &[&find[..], &by].concat(), 3).contains("queries.u8"));
}

#[test]
fn lists_of_two_stores_by_one_codebook_are_joined() {
    let folder = folder();
    let at = folder.path();
    mixtures(at, 300);
    let lines = fs::read_to_string(at.join("v.jsonl")).expect("the vectors");
    let lines: Vec<&str> = lines.lines().collect();
    for (name, lines) in [("a", &lines[..200]), ("b", &lines[200..])] {
        fs::write(at.join("some.jsonl"), lines.join("\n")).expect("the vectors");
        let out = format!("{name}.arrow");
        ok(at, &["import", "some.jsonl", "--holds", "vectors", "--out", &out]);
    }
    let make = |store: &str, out: &str, more: &[&str]| {
        ok(at, &[&["lists", "--store", store, "--out", out, "--force"][..], more].concat());
    };
    for codes in [&["rows"][..], &["product"], &["fast", "--rotate"], &["rabitq"]] {
        make("a.arrow", "a.lists.arrow", &[&["--lists", "5", "--codes"], codes].concat());
        make("b.arrow", "b.lists.arrow", &["--like", "a.lists.arrow"]);
        // Joined, and with each vector assigned anew.
        let add = |name: &str, more: &[&str]| {
            let [store, lists] = ["arrow", "lists.arrow"].map(|ending| format!("{name}.{ending}"));
            fs::copy(at.join("a.arrow"), at.join(&store)).expect("copied");
            fs::copy(at.join("a.lists.arrow"), at.join(&lists)).expect("copied");
            let words = ["add", "--store", &store, "--from", "b.arrow", "--lists", &lists];
            ok(at, &[&words[..], more].concat());
            fs::read(at.join(format!("{lists}.part-1"))).expect("the added lists")
        };
        assert!(add("joined", &["--merge", "b.lists.arrow"]) == add("anew", &[]), "{codes:?}");
        ok(at, &["compact", "--store", "joined.arrow", "--lists", "joined.lists.arrow"]);
        let find = ["search", "--store", "joined.arrow", "--query", "v250", "-k", "300", "--format", "csv"];
        let by = ["--lists", "joined.lists.arrow", "--probes", "5", "--refine", "9"];
        let count = |text: String| text.lines().count();
        assert_eq!(count(ok(at, &[&find[..], &by].concat())), count(ok(at, &find)), "{codes:?}");
        for file in ["joined.arrow", "anew.arrow", "anew.lists.arrow.part-1", "joined.lists.arrow.part-1"] {
            _ = fs::remove_file(at.join(file));
        }
    }
    // Lists by centroids of their own are refused, with the command that makes others.
    make("b.arrow", "b.lists.arrow", &["--lists", "5", "--codes", "rabitq"]);
    let add = [
        "add",
        "--store",
        "a.arrow",
        "--from",
        "b.arrow",
        "--lists",
        "a.lists.arrow",
        "--merge",
        "b.lists.arrow",
    ];
    let error = fails(at, &add, 3);
    assert!(error.contains("`b.lists.arrow` cannot be merged with `a.lists.arrow`"), "{error}");
    let command = error.split('`').find(|words| words.starts_with("boxwork lists")).expect("a command");
    ok(at, &command.split(' ').skip(1).collect::<Vec<_>>());
    ok(at, &add);
    let like = ["lists", "--store", "b.arrow", "--out", "c.lists.arrow", "--like", "a.lists.arrow"];
    let error = fails(at, &[&like[..], &["--distance", "ip"]].concat(), 3);
    assert!(error.contains("has lists for l2 of 16 numbers"), "{error}");
    assert!(fails(at, &[&like[..], &["--lists", "7"]].concat(), 2).contains("cannot be used with"));
    assert!(fails(at, &[&add[..5], &["--merge", "b.lists.arrow"]].concat(), 2).contains("--lists"));
}
