//! Queries that are a file: all its rows are asked, whoever starts the pipeline, and the answers are those of its rows by number.

#[path = "support/command.rs"]
mod command;

use std::fs;
use std::path::Path;

use command::{fails, folder, ok, stats};

/// A store of 500 vectors of 4 bytes, and 70 queries: more than one request of a pipeline of 64.
fn prepared(folder: &Path) {
    let bytes =
        |count: usize, factor: usize| (0..count * 4).map(|i| (i * factor % 251) as u8).collect::<Vec<u8>>();
    fs::write(folder.join("base_500x4.u8"), bytes(500, 7919)).expect("a disk");
    fs::write(folder.join("query_70x4.u8"), bytes(70, 104_729)).expect("a disk");
    ok(folder, &["run", "import_vectors", "--set", "from=base_500x4.u8", "--set", "out=s.arrow"]);
}

/// Runs a pipeline over the store, and gives its table.
fn run(folder: &Path, pipeline: &str, more: &[&str]) -> String {
    let common = ["store=s.arrow", "k=7", "format=csv", "out=a.csv"];
    let sets: Vec<&str> = common.iter().chain(more).flat_map(|set| ["--set", set]).collect();
    ok(folder, &[&["run", pipeline], &sets[..]].concat());
    fs::read_to_string(folder.join("a.csv")).expect("a table")
}

#[test]
fn a_file_of_queries_is_asked_row_by_row() {
    let folder = folder();
    let at = folder.path();
    prepared(at);
    let found = run(at, "vector_search", &["queries=query_70x4.u8"]);
    assert_eq!(found.lines().count(), 1 + 70 * 7);
    assert_eq!(found, run(at, "vector_search", &["query_file=query_70x4.u8"]));
    let rows: Vec<String> = (0..70).map(|row| row.to_string()).collect();
    let rows =
        format!("queries=[{}]", rows.iter().map(|row| format!("\"{row}\"")).collect::<Vec<_>>().join(", "));
    assert_eq!(found, run(at, "vector_search", &[&rows, "query_file=query_70x4.u8"]));
    let searched =
        ["search", "--store", "s.arrow", "--query-file", "query_70x4.u8", "-k", "7", "--format", "csv"];
    assert_eq!(found, ok(at, &searched));
    // Requests of two queries split the rows of the file, too.
    let text = fs::read_to_string("pipelines/vector_search.yaml").expect("a pipeline");
    fs::write(at.join("two.yaml"), text.replace("queries: 1024", "queries: 2")).expect("a disk");
    assert_eq!(found, run(at, "two.yaml", &["queries=query_70x4.u8"]));
}

#[test]
fn a_store_of_queries_is_asked_object_by_object() {
    let folder = folder();
    let at = folder.path();
    prepared(at);
    ok(at, &["run", "import_vectors", "--set", "from=query_70x4.u8", "--set", "out=q.arrow"]);
    // Objects are named by their rows, so the tables agree.
    let found = run(at, "vector_search", &["queries=query_70x4.u8"]);
    assert_eq!(found, run(at, "vector_search", &["query_file=q.arrow"]));
    let searched = ["search", "--store", "s.arrow", "--query-file", "q.arrow", "-k", "7", "--format", "csv"];
    assert_eq!(found, ok(at, &searched));
    ok(at, &["remove", "--store", "q.arrow", "3", "69"]);
    let left: Vec<&str> =
        found.lines().filter(|line| !line.starts_with("3,") && !line.starts_with("69,")).collect();
    assert_eq!(left.len(), 1 + 68 * 7);
    assert_eq!(left, run(at, "vector_search", &["query_file=q.arrow"]).lines().collect::<Vec<_>>());
    let call = ["run", "vector_search", "--set", "store=s.arrow", "--set", "query_file=q.arrow"];
    let said = fails(at, &[&call[..], &["--set", "queries=[\"3\"]"]].concat(), 3);
    assert!(said.contains("`3` is no row of `q.arrow`"), "{said}");

    fs::write(at.join("w.jsonl"), "{\"object\": \"kitten\"}\n").expect("a disk");
    ok(at, &["import", "w.jsonl", "--holds", "texts", "--out", "w.arrow"]);
    let call = ["run", "vector_search", "--set", "store=s.arrow", "--set", "query_file=w.arrow"];
    assert!(fails(at, &call, 3).contains("`w.arrow` holds texts"));
}

#[test]
fn codes_made_in_memory_give_the_answer_of_a_scan() {
    let folder = folder();
    let at = folder.path();
    prepared(at);
    for distance in ["l2", "ip", "cosine"] {
        let distance = format!("distance={distance}");
        let scanned = run(at, "vector_search", &["queries=query_70x4.u8", "codes=none", &distance]);
        for levels in ["planes", "sq8", "pca", "sq4", "product16", "product32", "product64"] {
            let codes = format!("codes={levels}");
            assert_eq!(scanned, run(at, "vector_search", &["queries=query_70x4.u8", &codes, &distance]));
        }
    }
    let call = ["--set", "store=s.arrow", "--set", "queries=query_70x4.u8", "--set", "codes=sq5"];
    let said = fails(at, &[&["run", "vector_search"], &call[..]].concat(), 3);
    assert!(said.contains("sq5"), "{said}");
}

#[test]
fn lists_that_are_proved_give_the_answer_of_a_scan() {
    let folder = folder();
    let at = folder.path();
    prepared(at);
    let some = format!("ids=[{}]", (0..250).map(|id| (id * 2).to_string()).collect::<Vec<_>>().join(", "));
    for (holds, distance) in [("rows", "l2"), ("product", "cosine"), ("fast", "ip"), ("rabitq", "l2")] {
        let of = ["--store", "s.arrow", "--distance", distance, "--out", "s.lists.arrow", "--force"];
        ok(at, &[&["lists", "--lists", "8", "--codes", holds], &of[..]].concat());
        let distance = format!("distance={distance}");
        for more in ["ids=[]", "ids=[3, 9, 4]", &some, "range=40"] {
            let scanned = run(at, "vector_search", &["queries=query_70x4.u8", &distance, more]);
            for (probes, codes) in [
                ("probes=1", "codes=none"),
                ("probes=1", "codes=product16"),
                ("probes=3", "codes=sq4"),
                ("probes=8", "codes=planes"),
            ] {
                let sets = ["queries=query_70x4.u8", "lists=s.lists.arrow", &distance, probes, codes, more];
                let proved = run(at, "vector_prove", &sets);
                assert_eq!(proved, scanned, "{holds} {distance} {probes} {codes} {more}");
            }
        }
    }
    // The command's flags, and what it counts.
    let call = ["search", "--store", "s.arrow", "--query", "7", "-k", "7", "--format", "csv"];
    let lists = ["--lists", "s.lists.arrow", "--probes", "2"];
    let proved = ok(at, &[&call[..], &lists, &["--prove"]].concat());
    assert_eq!(proved, ok(at, &call));
    let said = stats(at, &[&call[..], &lists, &["--prove"]].concat());
    assert!(said.contains(" ranked first ("), "{said}");
    ok(at, &["index", "--store", "s.arrow", "--codes", "sq4", "--out", "s.codes.arrow"]);
    let codes = ["--codes", "s.codes.arrow"];
    assert_eq!(ok(at, &[&call[..], &lists, &["--prove"], &codes].concat()), proved);
    let said = fails(at, &[&call[..], &lists, &codes].concat(), 2);
    assert!(said.contains("--prove"), "{said}");
    fails(at, &[&call[..], &["--prove"]].concat(), 2);
}

#[test]
fn recall_counts_true_neighbours_over_all_requests() {
    let folder = folder();
    let at = folder.path();
    prepared(at);
    let found = run(at, "vector_search", &["queries=query_70x4.u8"]);
    // The exact answer as a file of true neighbours, in three forms; the last has another nearest one for query 5.
    let id = |line: &str| line.split(',').nth(2).and_then(|id| id.parse::<i32>().ok()).expect("an id");
    let mut ids: Vec<i32> = found.lines().skip(1).map(id).collect();
    let bytes = |ids: &[i32]| ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>();
    fs::write(at.join("truth_70x7.i32"), bytes(&ids)).expect("a disk");
    let rows = ids.chunks(7).flat_map(|row| [&[7_i32][..], row].concat()).collect::<Vec<_>>();
    fs::write(at.join("truth.ivecs"), bytes(&rows)).expect("a disk");
    ids[5 * 7] = 499 - ids[5 * 7];
    fs::write(at.join("other.ibin"), [bytes(&[70, 7]), bytes(&ids)].concat()).expect("a disk");
    let exact = ["search", "--store", "s.arrow", "--query-file", "query_70x4.u8", "-k", "7"];
    for (truth, nearest, share) in [
        ("truth_70x7.i32", "1.000000", "1.000000"),
        ("truth.ivecs", "1.000000", "1.000000"),
        ("other.ibin", "0.985714", "0.997959"),
    ] {
        let said = ok(at, &[&exact[..], &["--truth", truth]].concat());
        assert!(said.starts_with("70 queries, 7 true neighbours each\n"), "{said}");
        assert!(said.contains(&format!("R@1        {nearest}  ")), "{truth}: {said}");
        assert!(said.contains(&format!("7@7        {share}  ")), "{truth}: {said}");
    }
    // Requests of two queries add up to the same.
    let text = fs::read_to_string("pipelines/vector_search.yaml").expect("a pipeline");
    fs::write(at.join("two.yaml"), text.replace("queries: 1024", "queries: 2")).expect("a disk");
    let call = ["run", "two.yaml", "--set", "store=s.arrow", "--set", "k=7", "--set", "format=recall"];
    let call = [&call[..], &["--set", "queries=query_70x4.u8", "--set", "truth=other.ibin"]].concat();
    assert!(ok(at, &call).contains("7@7        0.997959  "));
    let refused = fails(at, &[&call[..8], &["--set", "queries=query_70x4.u8"]].concat(), 3);
    assert!(refused.contains("give `truth`"), "{refused}");
    ok(at, &["lists", "--store", "s.arrow", "--lists", "9", "--out", "s.lists.arrow"]);
    let few = ["--lists", "s.lists.arrow", "--probes", "1", "--truth", "truth.ivecs"];
    let said = ok(at, &[&exact[..], &few].concat());
    assert!(said.contains("approximate: each query looked into the 1 nearest lists\n"), "{said}");
    let share: f64 = said
        .split_once("7@7")
        .and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok())
        .expect("a share");
    assert!((0.2..1.0).contains(&share), "{said}");
}

#[test]
fn many_queries_look_into_many_lists() {
    let folder = folder();
    let at = folder.path();
    prepared(at);
    // 3000 queries with 40 lists each are more pairs than an envelope has rows.
    let bytes: Vec<u8> = (0..3000 * 4).map(|i: usize| (i * 104_729 % 251) as u8).collect();
    fs::write(at.join("query_3000x4.u8"), bytes).expect("a disk");
    ok(at, &["lists", "--store", "s.arrow", "--lists", "40", "--out", "s.lists.arrow"]);
    let exact = run(at, "vector_search", &["queries=query_3000x4.u8"]);
    let found = run(at, "vector_probe", &["queries=query_3000x4.u8", "lists=s.lists.arrow", "probes=40"]);
    let without_mark = |line: &str| line.split(",false").next().map(str::to_owned);
    assert_eq!(exact.lines().count(), 1 + 3000 * 7);
    assert!(
        exact.lines().skip(1).map(|line| Some(line.to_owned())).eq(found.lines().skip(1).map(without_mark))
    );
}

#[test]
fn lists_are_searched_among_given_ids() {
    let folder = folder();
    let at = folder.path();
    prepared(at);
    ok(at, &["lists", "--store", "s.arrow", "--out", "s.lists.arrow", "--lists", "8"]);
    // Some are scanned in lists by a mask, and one of 100 is ranked whole.
    let many = format!("ids=[{}]", (0..250).map(|id| (id * 2).to_string()).collect::<Vec<_>>().join(", "));
    for ids in ["ids=[3, 9, 4]", &many] {
        let exact = run(at, "vector_search", &["queries=query_70x4.u8", ids]);
        let sets = ["queries=query_70x4.u8", ids, "lists=s.lists.arrow", "probes=8"];
        let listed = run(at, "vector_probe", &sets);
        let ids_of = |table: &str| -> Vec<String> {
            let head = table.lines().next().expect("a head");
            let place = head.split(',').position(|name| name == "id").expect("ids");
            table.lines().skip(1).map(|row| row.split(',').nth(place).expect("an id").to_owned()).collect()
        };
        assert_eq!(ids_of(&exact), ids_of(&listed));
        assert!(
            ids_of(&listed).iter().all(|id| id == "3" || id == "9" || id.parse::<u64>().unwrap() % 2 == 0)
        );
    }
}

/// Numbers of a vector of [`typed`].
const NUMBERS: usize = 6;

/// 3000 vectors of whole numbers as f32, f16, u8 and i8: the type, the bytes, and those of a number.
fn typed() -> [(&'static str, Vec<u8>, usize); 4] {
    let numbers: Vec<u8> = (0..3000 * NUMBERS).map(|i| (i * 7919 % 97) as u8).collect();
    // A whole number in 16 bits of floating point: its exponent, and what follows the leading bit.
    let half = |x: u8| match u16::from(x).checked_ilog2() {
        None => 0,
        Some(power) => ((power as u16 + 15) << 10) | (u16::from(x) << (10 - power) & 0x3ff),
    };
    let wide = numbers.iter().flat_map(|x| f32::from(*x).to_le_bytes()).collect();
    let halves = numbers.iter().flat_map(|x| half(*x).to_le_bytes()).collect();
    [("f32", wide, 4), ("f16", halves, 2), ("u8", numbers.clone(), 1), ("i8", numbers, 1)]
}

/// The answers of searches through the lists of vectors of a type, and the bytes of lists for `l2`.
fn answers_of_type(at: &Path, kind: &str, bytes: &[u8], size: usize) -> (Vec<String>, u64) {
    let [base, more] = [("base_2500x6", 0..2500), ("more_500x6", 2500..3000)].map(|(name, rows)| {
        let file = format!("{name}.{kind}");
        fs::write(at.join(&file), &bytes[rows.start * NUMBERS * size..rows.end * NUMBERS * size])
            .expect("a disk");
        file
    });
    let [store, added, lists] =
        ["arrow", "more.arrow", "lists.arrow"].map(|ending| format!("{kind}.{ending}"));
    ok(at, &["import", &base, "--out", &store]);
    ok(at, &["import", &more, "--out", &added]);
    let make = |distance: &str| {
        let made = ["lists", "--store", &store, "--lists", "11", "--out", &lists, "--force"];
        ok(at, &[&made[..], &["--distance", distance]].concat());
    };
    let search = |arguments: &[&str]| {
        let found = ["search", "--store", &store, "--lists", &lists, "--format", "csv"];
        ok(at, &[&found[..], arguments].concat())
    };
    let mut answers = Vec::new();
    for distance in ["cosine", "ip", "l2"] {
        make(distance);
        for probes in ["1", "4", "11"] {
            answers.push(search(&[
                "--query-file",
                &more,
                "-k",
                "9",
                "--probes",
                probes,
                "--distance",
                distance,
            ]));
        }
    }
    let length = fs::metadata(at.join(&lists)).expect("lists").len();
    // Lists follow their store: more vectors in a file of their own, fewer, and all in one file again.
    let of_store = ["--query", "7", "--query", "[1, 2, 3, 4, 5, 6]", "-k", "40", "--probes", "3"];
    ok(at, &["add", "--from", &added, "--store", &store, "--lists", &lists, "--replace"]);
    answers.push(search(&of_store));
    ok(at, &["remove", "--store", &store, "11", "12"]);
    answers.push(search(&of_store));
    ok(at, &["compact", "--store", &store, "--lists", &lists]);
    answers.push(search(&of_store));
    (answers, length)
}

#[test]
fn lists_keep_the_type_of_their_vectors_and_give_the_same_answers() {
    let folder = folder();
    let found = typed().map(|(kind, bytes, size)| (kind, answers_of_type(folder.path(), kind, &bytes, size)));
    for (kind, (answers, _)) in &found {
        assert!(answers == &found[0].1.0, "{kind} and f32 have different answers");
    }
    // Of 6 numbers a vector takes 24, 12 or 6 bytes, and its id 8.
    let sizes = found.map(|(_, (_, length))| length);
    assert!(sizes[1] * 5 < sizes[0] * 4 && sizes[2] * 3 < sizes[0] * 2 && sizes[3] == sizes[2], "{sizes:?}");
}

#[test]
fn a_file_that_does_not_fit_its_name_is_refused_with_the_byte() {
    let folder = folder();
    let at = folder.path();
    prepared(at);
    fs::write(at.join("short_9x4.u8"), [1; 35]).expect("a disk");
    let call = ["run", "vector_search", "--set", "store=s.arrow", "--set", "queries=short_9x4.u8"];
    let said = fails(at, &call, 3);
    assert!(said.contains("byte 35") && said.contains("8 whole vectors are there"), "{said}");
    let call = ["run", "vector_search", "--set", "store=s.arrow", "--set", "queries=missing_9x4.u8"];
    let said = fails(at, &call, 3);
    assert!(said.contains("missing_9x4.u8"), "{said}");
}

#[test]
fn codes_beside_the_store_are_found() {
    let folder = folder();
    let at = folder.path();
    prepared(at);
    let said = |distance: &str, queries: &str| {
        let call = ["search", "--store", "s.arrow", "--query-file", queries, "--distance", distance];
        let (k, out) = (["-k", "7", "--format", "csv"], ["--out", "a.csv"]);
        let told = stats(at, &[&call[..], &k, &out].concat());
        (fs::read_to_string(at.join("a.csv")).expect("a table"), told)
    };
    // Products of bytes are as fast as bounds, so codes serve queries that are no bytes.
    let numbers: Vec<u8> = (0..70 * 4).flat_map(|i| ((i * 7919 % 251) as f32 + 0.25).to_le_bytes()).collect();
    let head = [70_u32.to_le_bytes(), 4_u32.to_le_bytes()].concat();
    fs::write(at.join("q.fbin"), [head, numbers].concat()).expect("a disk");
    let (scanned, told) = said("l2", "q.fbin");
    assert!(!told.contains("beside the store"), "{told}");
    for levels in ["sq4", "planes", "product16"] {
        let out = format!("x.{levels}.codes.arrow");
        ok(at, &["index", "--store", "s.arrow", "--codes", levels, "--out", &out]);
    }
    // Files of no codes, of other stores and damaged ones are passed over.
    ok(at, &["run", "import_vectors", "--set", "from=query_70x4.u8", "--set", "out=q.arrow"]);
    ok(at, &["index", "--store", "q.arrow", "--codes", "planes", "--out", "a.codes.arrow"]);
    fs::write(at.join("b.codes.arrow"), "no codes").expect("a disk");
    fs::copy(at.join("x.planes.codes.arrow"), at.join("c.codes.arrow")).expect("a disk");
    let bytes = fs::read(at.join("c.codes.arrow")).expect("a file");
    fs::write(at.join("c.codes.arrow"), &bytes[..bytes.len() / 2]).expect("a disk");
    let (found, told) = said("l2", "q.fbin");
    assert_eq!(found, scanned);
    assert!(told.contains("bounded by `x.planes.codes.arrow`"), "{told}");
    // By another distance, of bytes, and with fewer queries than reading pays for, there are none.
    assert!(!said("ip", "q.fbin").1.contains("beside the store"));
    assert!(!said("l2", "query_70x4.u8").1.contains("beside the store"));
    // A file whose rows are damaged is told of, and the answer is a scan's.
    let mut bytes = fs::read(at.join("x.planes.codes.arrow")).expect("a file");
    let middle = bytes.len() / 3;
    bytes[middle] ^= 1;
    fs::write(at.join("x.planes.codes.arrow"), &bytes).expect("a disk");
    let (found, told) = said("l2", "q.fbin");
    assert_eq!(found, scanned);
    assert!(told.contains("all rows are compared: ") && told.contains("damaged"), "{told}");
    fs::remove_file(at.join("x.planes.codes.arrow")).expect("a file");
    // Codes of a store that has grown are told of with their command.
    ok(at, &["add", "--store", "s.arrow", "--from", "q.arrow", "--replace"]);
    let (_, told) = said("l2", "q.fbin");
    assert!(told.contains("all rows are compared: ") && told.contains("boxwork index --append"), "{told}");
}
