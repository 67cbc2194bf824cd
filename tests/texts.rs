//! Texts through the shipped pipelines: answers of many queries equal the definition, and bad input is named.

#[path = "support/command.rs"]
mod command;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use boxwork_kernels::chance::Random;
use boxwork_kernels::distance::{Distance, Dtw, EditCosts, Levenshtein, LocalScores};
use boxwork_runtime::feeding::faults::has_device;
use command::{fails, folder, json, ok, stats};

/// Words of a few letters, some of them empty or not ASCII.
fn words(count: usize) -> Vec<String> {
    let mut random = Random::new(11);
    let letters = ['a', 'b', 'c', 'd', 'é', '語'];
    let mut word = || (0..random.idx(14)).map(|_| letters[random.idx(letters.len())]).collect();
    (0..count).map(|_| word()).collect()
}

fn write(at: &Path, words: &[String]) {
    let mut text = String::new();
    for (word, id) in words.iter().zip(0..) {
        writeln!(text, "{{\"name\": \"w{id}\", \"object\": {}}}", serde_json::json!(word)).expect("a string");
    }
    fs::write(at.join("words.jsonl"), text).expect("a disk");
}

fn distance(a: &str, b: &str) -> f64 {
    let letters = |text: &str| text.chars().collect::<Vec<char>>();
    Levenshtein.reference(&letters(a), &letters(b))
}

#[test]
fn neighbours_of_many_queries_are_those_of_the_definition_for_any_number_of_workers() {
    let folder = folder();
    let (at, words) = (folder.path(), words(3000));
    write(at, &words);
    ok(at, &["import", "words.jsonl", "--holds", "texts", "--out", "words.arrow"]);
    let queries: Vec<String> = (0..70).map(|query| format!("w{}", query * 41)).collect();
    let queries = format!("queries=[{}]", queries.join(","));
    let run = [
        "run",
        "edit_neighbours",
        "--set",
        &queries,
        "--set",
        "k=6",
        "--set",
        "within=4",
        "--set",
        "format=json",
    ];
    let mut answers = Vec::new();
    for (texts, workers) in
        [("texts=words.arrow", "1"), ("texts=words.arrow", "2"), ("texts=words.jsonl", "2")]
    {
        answers.push(json(&ok(at, &[&run[..], &["--set", texts, "--workers", workers]].concat())));
    }
    assert!(answers[0] == answers[1] && answers[1] == answers[2]);
    let found = answers[0]["queries"].as_array().expect("a list");
    assert_eq!(found.len(), 70);
    for (query, found) in found.iter().enumerate() {
        let mut expected: Vec<(f64, usize)> = words
            .iter()
            .map(|word| distance(&words[query * 41], word))
            .zip(0..)
            .filter(|found| found.0 <= 4.0)
            .collect();
        expected.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let found: Vec<(f64, usize)> = found["results"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|hit| {
                (hit["distance"].as_f64().expect("a number"), hit["id"].as_u64().expect("an id") as usize)
            })
            .collect();
        assert_eq!(found, expected[..6.min(expected.len())], "query {query}");
    }
    // All distances of more queries than a request takes.
    let few = &words[..4];
    write(at, few);
    let names: Vec<&str> = (0..4100).map(|query| ["w0", "w1", "w2", "w3"][query % 4]).collect();
    let names = format!("queries=[{}]", names.join(","));
    let all = ok(at, &["run", "edit_distances", "--set", "texts=words.jsonl", "--set", &names]);
    let sum: f64 = all
        .lines()
        .skip(1)
        .map(|line| line.rsplit(',').next().unwrap_or("").parse::<f64>().expect("a number"))
        .sum();
    let one: f64 = few.iter().flat_map(|a| few.iter().map(|b| distance(a, b))).sum();
    assert_eq!((all.lines().count(), sum), (1 + 4100 * 4, one * 1025.0));
    // A search by one query, and one without the new box, answer the same.
    let search =
        ["search", "--store", "words.arrow", "--query", "w41", "-k", "6", "--range", "4", "--format", "json"];
    assert_eq!(json(&ok(at, &search))["queries"][0]["results"], answers[0]["queries"][1]["results"]);
}

#[test]
fn bad_texts_are_named_with_their_place() {
    let folder = folder();
    let at = folder.path();
    fs::write(at.join("words.jsonl"), b"{\"object\": \"good\"}\n{\"object\": \"bad \xff\"}\n")
        .expect("a disk");
    let run = ["run", "edit_neighbours", "--set", "queries=good", "--set", "texts=words.jsonl"];
    let said = fails(at, &run, 3);
    assert!(said.contains("words.jsonl") && said.contains('2') && said.contains("UTF-8"), "{said}");
    fs::write(at.join("words.jsonl"), "{\"object\": \"good\"}\n{\"object\": [1, 2]}\n").expect("a disk");
    let said = fails(at, &run, 3);
    assert!(said.contains("words.jsonl") && said.contains('2'), "{said}");
    fs::write(at.join("words.jsonl"), "{\"object\": \"good\"}\n{\"object\": \"\"}\n").expect("a disk");
    let found = json(&ok(at, &[&run[..], &["--set", "format=json"]].concat()));
    assert_eq!(
        found["queries"][0]["results"][1]["distance"], 4.0,
        "an empty text is as far as the other has letters"
    );
    assert!(fails(at, &[&run[..], &["--set", "within=-1"]].concat(), 2).contains("within"));
    // Another distance in a pipeline of one's own is a fault of the plan.
    let pipeline = ok(at, &["pipelines", "show", "edit_neighbours"]);
    fs::write(at.join("other.yaml"), pipeline.replace("distance: \"${distance}\"", "distance: jaccard"))
        .expect("a disk");
    let said = fails(at, &["check", "other.yaml"], 1);
    assert!(said.contains("levenshtein"), "{said}");
}

/// The rows of results in CSV: query, id and distance.
fn rows(csv: &str) -> Vec<(String, usize, f64)> {
    let lines = csv.lines().skip(1).map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let distance = fields.last().expect("a distance").parse::<f64>().expect("a number");
        (fields[0].to_owned(), fields[2].parse::<usize>().expect("an id"), distance)
    });
    let mut rows: Vec<_> = lines.collect();
    rows.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.cmp(&b.1)));
    rows
}

#[test]
fn costs_and_scores_are_those_of_the_definition() {
    let folder = folder();
    let (at, words) = (folder.path(), words(200));
    write(at, &words);
    let letters = |word: &str| word.chars().collect::<Vec<char>>();
    let longest = (0..words.len()).max_by_key(|id| letters(&words[*id]).len()).expect("a word");
    let (from, name, queries) = (&words[longest], format!("w{longest}"), format!("queries=w{longest}"));
    let query = ["--set", "texts=words.jsonl", "--set", &queries];
    let found = |run: &[&str]| rows(&ok(at, &[run, &query[..]].concat()));
    let expected = |number: &dyn Fn(&[char], &[char]) -> f64| -> Vec<(String, usize, f64)> {
        let each = words.iter().enumerate();
        each.map(|(id, word)| (name.clone(), id, number(&letters(from), &letters(word)))).collect()
    };
    let costs = EditCosts::new(2, 2, 3).expect("costs");
    let set = ["--set", "insert=2", "--set", "delete=2", "--set", "replace=3"];
    let run = [&["run", "edit_distances", "--set", "distance=edit"][..], &set].concat();
    assert_eq!(found(&run), expected(&|from, to| costs.reference(from, to)));
    // The way back has other costs, so it is no distance.
    let directed = ["--set", "insert=1", "--set", "delete=4", "--set", "replace=3"];
    let costs = EditCosts::new(1, 4, 3).expect("costs");
    let run = ["run", "alignments", "--set", "measure=edit", "--set", "format=csv"];
    let (both, search) =
        ([&run[..], &directed].concat(), ["run", "edit_distances", "--set", "distance=edit"]);
    assert_eq!(found(&both), expected(&|from, to| costs.reference(from, to)));
    let refused = [&search[..], &directed, &query].concat();
    assert!(fails(at, &refused, 1).contains("`insert` costs 1 and `delete` 4"));
    let local = LocalScores::new(2, 3, 1, 4).expect("scores");
    let run = [&["run", "alignments", "--set", "format=csv"][..], &directed].concat();
    assert_eq!(found(&run), expected(&|from, to| 0.0 - local.reference(from, to)));
    let mut scores: Vec<f64> =
        expected(&|from, to| local.reference(from, to)).into_iter().map(|row| row.2).collect();
    scores.sort_by(f64::total_cmp);
    let (least, range) = (scores[150], format!("range=-{}", scores[150]));
    let within = expected(&|from, to| 0.0 - local.reference(from, to));
    let within: Vec<_> = within.into_iter().filter(|row| row.2 <= -least).collect();
    assert!(least > 0.0 && within.len() < 200);
    assert_eq!(found(&[&run[..], &["--set", &range]].concat()), within);
    let wrong = [&run[..], &["--set", "range=6"], &query].concat();
    assert!(fails(at, &wrong, 1).contains("-20"));
    // A matrix, its fault, and a replacement that costs more than both.
    fs::write(at.join("costs.txt"), "# vowels\na é\na 0 1\né 1 0\n").expect("a disk");
    let by_matrix = [
        "run",
        "edit_distances",
        "--set",
        "distance=edit",
        "--set",
        "replace=9",
        "--set",
        "matrix=costs.txt",
    ];
    let matrix = boxwork_kernels::distance::LetterMatrix::parse("a é\na 0 1\né 1 0").expect("a matrix");
    let costs = EditCosts::new(1, 1, 9).and_then(|costs| costs.with_matrix(matrix.into())).expect("costs");
    assert_eq!(found(&by_matrix), expected(&|from, to| costs.reference(from, to)));
    fs::write(at.join("costs.txt"), "a é\na 0\né 1 0\n").expect("a disk");
    let said = fails(at, &[&by_matrix[..], &query].concat(), 3);
    assert!(said.contains("costs.txt") && said.contains("line 2"), "{said}");
}

#[test]
fn commands_take_costs_and_an_index_keeps_them() {
    let folder = folder();
    let (at, words) = (folder.path(), words(400));
    write(at, &words);
    ok(at, &["import", "words.jsonl", "--holds", "texts", "--out", "words.arrow"]);
    let of_store = ["--store", "words.arrow"];
    let costs = ["--distance", "edit", "--insert", "2", "--delete", "2", "--replace", "3"];
    let search = |more: &[&str]| {
        let run = ["search", "--query", "w7", "--query", "w11", "-k", "5", "--format", "json"];
        json(&ok(at, &[&run[..], &of_store, more].concat()))["queries"].clone()
    };
    let scan = search(&costs);
    let letters = |id: usize| words[id].chars().collect::<Vec<char>>();
    let edit = EditCosts::new(2, 2, 3).expect("costs");
    for (query, of_query) in [7, 11].into_iter().zip(scan.as_array().expect("a list")) {
        let mut expected: Vec<(f64, u64)> =
            (0..words.len()).map(|id| (edit.reference(&letters(query), &letters(id)), id as u64)).collect();
        expected.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let hits = of_query["results"].as_array().expect("a list").iter();
        let hits = hits.map(|hit| (hit["distance"].as_f64(), hit["id"].as_u64()));
        let expected = expected[..5].iter().map(|(distance, id)| (Some(*distance), Some(*id)));
        assert_eq!(hits.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
    // An index by these costs answers searches by them only.
    let index = ["index", "--pivots", "4", "--out", "words.pivots.arrow"];
    ok(at, &[&index[..], &of_store, &costs].concat());
    assert_eq!(search(&[&costs[..], &["--pivots", "words.pivots.arrow"]].concat()), scan);
    let others = ["search", "--query", "w7", "--pivots", "words.pivots.arrow", "--distance", "edit"];
    let said = fails(at, &[&others[..], &of_store].concat(), 3);
    assert!(said.contains("words.pivots.arrow") && said.contains("with costs 2, 2, 3"), "{said}");
    // A matrix, costs that there are not, and a band.
    fs::write(at.join("costs.txt"), "a b\na 0 1\nb 1 0\n").expect("a disk");
    let by_matrix = search(&["--distance", "edit", "--replace", "2", "--matrix", "costs.txt"]);
    assert_ne!(by_matrix, search(&["--distance", "edit", "--replace", "2"]));
    let none = ["search", "--query", "w7", "--distance", "edit", "--insert", "0"];
    assert!(fails(at, &[&none[..], &of_store].concat(), 2).contains("--insert"));
    let series: String = (0..30).map(|id| format!("{{\"object\": [{id}, {}, 3, 9]}}\n", id % 7)).collect();
    fs::write(at.join("series.jsonl"), series).expect("a disk");
    let warped = |more: &[&str]| {
        let run =
            ["search", "--store", "series.jsonl", "--query", "7", "--distance", "dtw", "--format", "json"];
        json(&ok(at, &[&run[..], more].concat()))["queries"].clone()
    };
    let (any, none) = (warped(&[]), warped(&["--band", "0"]));
    assert_eq!(warped(&["--band", "3"]), any);
    assert_ne!(none, any);
}

#[test]
fn series_are_warped() {
    let folder = folder();
    let at = folder.path();
    let series: Vec<Vec<f32>> = (0..60_u16)
        .map(|id| (0..40_u16).map(|place| f32::from(place * 7 * (id % 5 + 1) % 31 + id / 5)).collect())
        .collect();
    let lines: String =
        series.iter().map(|series| format!("{{\"object\": {}}}\n", serde_json::json!(series))).collect();
    fs::write(at.join("series.jsonl"), lines).expect("a disk");
    let search = [
        "search",
        "--store",
        "series.jsonl",
        "--query",
        "7",
        "-k",
        "9",
        "--distance",
        "dtw",
        "--format",
        "json",
    ];
    let found = json(&ok(at, &search));
    let mut expected: Vec<(f64, u64)> =
        series.iter().map(|other| Dtw::new(None).distance(&series[7], other)).zip(0..).collect();
    expected.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let hits = found["queries"][0]["results"].as_array().expect("a list").iter();
    let hits =
        hits.map(|hit| (hit["distance"].as_f64().expect("a number"), hit["id"].as_u64().expect("an id")));
    assert_eq!(hits.collect::<Vec<_>>(), expected[..9]);
    let index = ["index", "--store", "series.jsonl", "--distance", "dtw", "--out", "series.pivots.arrow"];
    let said = fails(at, &index, 1);
    assert!(said.contains("dtw") && said.contains("triangle inequality"), "{said}");
}

#[test]
fn all_texts_are_compared_with_all() {
    let folder = folder();
    let (at, words) = (folder.path(), words(150));
    write(at, &words);
    // More queries than a request takes are split as others are.
    let many = self::words(4200);
    let (all, lines) =
        (["run", "edit_distances", "--set", "texts=words.jsonl", "--set", "queries=all"], "lines");
    let checksum = |csv: &str, of: usize| -> (usize, f64) {
        let rows = csv.lines().skip(1).map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let [query, id, distance] =
                [fields[0].strip_prefix('w'), Some(fields[2]), fields.last().copied()]
                    .map(|field| field.expect(lines).parse::<f64>().expect("a number"));
            (query * of as f64 + id) % 1009.0 * distance
        });
        rows.fold((0, 0.0), |(count, sum), row| (count + 1, sum + row))
    };
    let expected: f64 = (0..words.len() * words.len())
        .map(|pair| {
            let (query, id) = (pair / words.len(), pair % words.len());
            (pair % 1009) as f64 * distance(&words[query], &words[id])
        })
        .sum();
    for workers in ["1", "2"] {
        let found = ok(at, &[&all[..], &["--workers", workers]].concat());
        assert_eq!(checksum(&found, words.len()), (words.len() * words.len(), expected));
    }
    write(at, &many);
    let near = ok(at, &[&all[..], &["--set", "within=0"]].concat());
    let same = |word: &String| many.iter().filter(|other| *other == word).count();
    assert_eq!(near.lines().count() - 1, many.iter().map(same).sum::<usize>());
    // A text of this name is a query like others.
    fs::write(at.join("words.jsonl"), "{\"object\": \"all\"}\n{\"object\": \"ball\"}\n").expect("a disk");
    let found = ok(at, &all);
    assert_eq!(found.lines().skip(1).collect::<Vec<_>>(), ["all,1,0,all,0", "all,2,1,ball,1"]);
}

#[test]
fn long_texts_are_shared_by_workers() {
    let folder = folder();
    let (at, mut random) = (folder.path(), Random::new(21));
    let mut text = |count: usize| (0..count).map(|_| ["A", "C", "G", "T"][random.idx(4)]).collect::<String>();
    let texts = [text(30_000), text(21_000), text(100), text(25_000)];
    write(at, &texts);
    let letters = |text: &str| text.chars().collect::<Vec<char>>();
    let mut expected = Vec::new();
    for (query, name) in [(&texts[0], "w0"), (&texts[3], "w3")] {
        for (id, text) in texts.iter().enumerate() {
            expected.push((name.to_owned(), id, Levenshtein.distance(&letters(query), &letters(text))));
        }
    }
    let run = ["run", "edit_distances", "--set", "texts=words.jsonl", "--set", "queries=[w0,w3]"];
    for workers in ["1", "2", "3"] {
        let found = rows(&ok(at, &[&run[..], &["--workers", workers]].concat()));
        assert_eq!(found, expected, "{workers} workers");
    }
    if has_device("long_texts_are_shared_by_workers") {
        let said = stats(at, &[&run[..], &["--set", "device=gpu", "--set", "out=there.csv"]].concat());
        assert!(said.contains("distances of long texts computed on devices"), "{said}");
        assert_eq!(rows(&fs::read_to_string(at.join("there.csv")).expect("a file")), expected);
    }
}
