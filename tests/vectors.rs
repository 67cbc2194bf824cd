//! Vectors by the command: codes of every kind, any number of workers and a scan give one answer, to the byte.

#[path = "support/command.rs"]
mod command;

use std::fs;
use std::path::Path;

use boxwork_kernels::chance::Random;
use boxwork_stores::lists::quantizers_of;
use command::{fails, folder, ok, stats};

/// Files of rows and of queries with so many dimensions, some of them equal.
fn with_files(folder: &Path, rows: usize, dimensions: usize) {
    let mut random = Random::new(93);
    let centres: Vec<f32> = (0..20 * dimensions).map(|_| 90.0 + 50.0 * random.normal_f32()).collect();
    let mut vectors = |count: usize| {
        let mut all: Vec<u8> = Vec::new();
        for nth in 0..count {
            if nth % 17 == 3 {
                all.extend_from_within(all.len() - dimensions..);
                continue;
            }
            let centre = random.idx(20) * dimensions;
            let number = |place: usize| centres[centre + place] + 12.0 * random.normal_f32();
            all.extend((0..dimensions).map(number).map(|x| x.clamp(0.0, 255.0) as u8).collect::<Vec<u8>>());
        }
        all
    };
    let (base, queries) = (vectors(rows), vectors(40));
    fs::write(folder.join("base.u8"), &base).expect("a disk");
    fs::write(folder.join("queries.u8"), &queries).expect("a disk");
    let numbers = base.iter().flat_map(|byte| (f32::from(*byte) + 0.25).to_le_bytes());
    let head = [(rows as u32).to_le_bytes(), (dimensions as u32).to_le_bytes()].concat();
    fs::write(folder.join("base.fbin"), head.into_iter().chain(numbers).collect::<Vec<u8>>())
        .expect("a disk");
}

#[test]
fn codes_workers_and_scans_give_one_answer() {
    let folder = folder();
    with_files(folder.path(), 40_000, 20);
    let bare = ["--type", "u8", "--dimensions", "20"];
    ok(folder.path(), &[&["import", "base.u8", "--out", "bytes.arrow"], &bare[..]].concat());
    ok(folder.path(), &["import", "base.fbin", "--out", "floats.arrow"]);
    for store in ["bytes.arrow", "floats.arrow"] {
        let search = |more: &[&str]| {
            let call =
                ["search", "--store", store, "--query-file", "queries.u8", "-k", "12", "--format", "csv"];
            ok(folder.path(), &[&call[..], &bare, more].concat())
        };
        let wanted = search(&[]);
        assert_eq!(wanted.lines().count(), 1 + 40 * 12);
        let by_name = |more: &[&str]| {
            let call = ["search", "--store", store, "--query", "123", "-k", "12", "--format", "csv"];
            ok(folder.path(), &[&call[..], more].concat())
        };
        for levels in ["planes", "sq8", "pca", "sq4", "product16"] {
            let codes = format!("{levels}.codes.arrow");
            ok(folder.path(), &["index", "--store", store, "--codes", levels, "--out", &codes, "--force"]);
            for workers in ["1", "2", "7"] {
                assert_eq!(
                    search(&["--codes", &codes, "--workers", workers]),
                    wanted,
                    "{store} {levels} {workers}"
                );
            }
            let said = stats(
                folder.path(),
                &["search", "--store", store, "--query", "123", "-k", "12", "--codes", &codes],
            );
            let has = |words: &str| said.contains(words);
            assert!(has("box `nearest`: 40000 rows bounded") && has(" computed ("), "{said}");
            assert_eq!(has(" left by 2 bits ("), levels == "pca", "{said}");
            assert_eq!(has(" left by 4 bits ("), ["planes", "pca", "sq4"].contains(&levels), "{said}");
            assert_eq!(has(" left by 8 bits ("), ["planes", "sq8"].contains(&levels), "{said}");
            assert_eq!(has(" left by product codes ("), levels == "product16", "{said}");
            // One query goes another way, and `search` without codes a third one.
            assert_eq!(by_name(&["--codes", &codes]), by_name(&[]), "{store} {levels}");
        }
    }
}

#[test]
fn codes_of_another_content_are_refused_with_the_command_that_makes_them() {
    let folder = folder();
    with_files(folder.path(), 200, 9);
    ok(folder.path(), &["import", "base.fbin", "--out", "v.arrow"]);
    ok(folder.path(), &["index", "--store", "v.arrow", "--codes", "planes", "--out", "c.arrow"]);
    let search = ["search", "--store", "v.arrow", "--codes", "c.arrow", "--query", "7", "--format", "csv"];
    let before = ok(folder.path(), &search);
    assert!(before.lines().nth(1).expect("a result").contains(",7,"), "{before}");
    // Another store under the name.
    ok(folder.path(), &["import", "base.fbin", "--out", "w.arrow"]);
    ok(folder.path(), &["remove", "--store", "w.arrow", "8", "9"]);
    ok(folder.path(), &["compact", "--store", "w.arrow", "--out", "v.arrow", "--force"]);
    let said = fails(folder.path(), &search, 3);
    let command = "boxwork index --store v.arrow --codes planes --out c.arrow --force";
    assert!(said.contains("was made again since") && said.contains(command), "{said}");
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    ok(folder.path(), &words);
    let after = ok(folder.path(), &search);
    let scan = ["search", "--store", "v.arrow", "--query", "7", "--format", "csv"];
    assert_eq!(after, ok(folder.path(), &scan));
    let mut damaged = fs::read(folder.path().join("c.arrow")).expect("the codes");
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::write(folder.path().join("c.arrow"), damaged).expect("a disk");
    assert!(fails(folder.path(), &search, 3).contains("is damaged"));
    fs::write(folder.path().join("c.arrow"), "no codes").expect("a disk");
    assert!(fails(folder.path(), &search, 3).contains(command));
    let other = ["index", "--store", "v.arrow", "--codes", "planes", "--distance", "l1", "--out", "d.arrow"];
    assert!(fails(folder.path(), &other, 1).contains("codes exist for vectors by l2"));
}

/// Real vectors with verified true neighbours, where they lie beside the tree.
#[test]
fn the_true_neighbours_of_real_vectors_are_found() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/vectors/bigann10k");
    if !sample.is_dir() {
        return;
    }
    let folder = folder();
    let at = |name: &str| sample.join(name).to_str().expect("a path in UTF-8").to_owned();
    let bare = ["--type", "u8", "--dimensions", "128"];
    ok(folder.path(), &[&["import", &at("base_10000x128.u8"), "--out", "s.arrow"], &bare[..]].concat());
    ok(folder.path(), &["index", "--store", "s.arrow", "--codes", "planes", "--out", "s.codes.arrow"]);
    let (base, queries) = (fs::read(at("base_10000x128.u8")), fs::read(at("query_100x128.u8")));
    let (base, queries) = (base.expect("the base"), queries.expect("the queries"));
    let truth = fs::read(at("gt_100x100.i32")).expect("the true ids");
    let square = |query: usize, id: usize| -> u32 {
        let (a, b) = (&queries[query * 128..][..128], &base[id * 128..][..128]);
        a.iter().zip(b).map(|(a, b)| u32::from(a.abs_diff(*b)).pow(2)).sum()
    };
    for codes in [&[][..], &["--codes", "s.codes.arrow"]] {
        let query_file = at("query_100x128.u8");
        let call =
            ["search", "--store", "s.arrow", "--query-file", &query_file, "-k", "100", "--format", "json"];
        let found = command::json(&ok(folder.path(), &[&call[..], &bare, codes].concat()));
        for query in 0..100 {
            let results = found["queries"][query]["results"].as_array().expect("results");
            assert_eq!(results.len(), 100);
            for (rank, result) in results.iter().enumerate() {
                let id = &truth[(query * 100 + rank) * 4..][..4];
                let id = i32::from_le_bytes([id[0], id[1], id[2], id[3]]) as usize;
                let distance = result["distance"].as_f64().expect("a number");
                assert_eq!(distance, f64::from(square(query, id)).sqrt(), "query {query}, rank {rank}");
            }
        }
    }
}

/// Real vectors: the shares of rows that the planes leave, for searches of one query and for all of them at once.
#[test]
fn few_real_vectors_are_left_by_each_plane() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/vectors/bigann10k");
    if !sample.is_dir() {
        return;
    }
    let folder = folder();
    let base = sample.join("base_10000x128.u8");
    let bare = ["--type", "u8", "--dimensions", "128"];
    let import = ["import", base.to_str().expect("a path in UTF-8"), "--out", "s.arrow"];
    ok(folder.path(), &[&import[..], &bare].concat());
    ok(folder.path(), &["index", "--store", "s.arrow", "--codes", "planes", "--out", "s.codes.arrow"]);
    let queries = fs::read(sample.join("query_100x128.u8")).expect("the queries");
    let count_of = |rows: &[u8], words: &str| -> f64 {
        fs::write(folder.path().join("q.u8"), rows).expect("a disk");
        let search = ["search", "--store", "s.arrow", "--codes", "s.codes.arrow", "--query-file", "q.u8"];
        let said = stats(folder.path(), &[&search[..], &bare].concat());
        let before = said.split_once(words).unwrap_or_else(|| panic!("no `{words}` in {said}")).0;
        before.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number")
    };
    let singles: Vec<&[u8]> = queries.chunks(128).step_by(10).collect();
    let mean = |words: &str| {
        singles.iter().map(|query| count_of(query, words)).sum::<f64>() / singles.len() as f64 / 10_000.0
    };
    let shares = [" left by 4 bits", " left by 8 bits", " computed"].map(mean);
    assert!(shares[0] <= 0.025 && shares[1] <= 0.007 && shares[2] <= 0.007, "{shares:?}");
    let shares = [" left by 8 bits", " computed"].map(|words| count_of(&queries, words) / 1e6);
    assert!(shares.iter().all(|share| *share <= 0.007), "{shares:?}");
}

#[test]
fn generated_rows_are_the_same_twice_and_by_parts() {
    let folder = folder();
    with_files(folder.path(), 300, 12);
    let generate = |like: &[&str], rows: &str, first: &str, workers: &str, out: &str| {
        let call = ["generate", "vectors", "--rows", rows, "--first", first, "--seed", "7", "--out", out];
        ok(folder.path(), &[&call[..], &["--workers", workers, "--like"], like].concat());
        ok(folder.path(), &["export", out, "--out", "-"])
    };
    for like in [&["base.u8", "--type", "u8", "--dimensions", "12"][..], &["base.fbin"], &["deep"]] {
        let all = generate(like, "9000", "0", "1", "all.arrow");
        assert_eq!(generate(like, "9000", "0", "3", "again.arrow"), all);
        let files =
            ["all.arrow", "again.arrow"].map(|name| fs::read(folder.path().join(name)).expect("a store"));
        assert!(files[0] == files[1], "the files are equal to the byte");
        let halves =
            [generate(like, "5000", "0", "2", "a.arrow"), generate(like, "4000", "5000", "2", "b.arrow")];
        assert_eq!(halves.concat(), all);
        for name in ["all", "again", "a", "b"] {
            fs::remove_file(folder.path().join(format!("{name}.arrow"))).expect("a disk");
        }
    }
    // Numbers of rows beyond 32 bits.
    let far = generate(&["deep"], "2", "5000000000", "1", "far.arrow");
    assert!(far.contains("\"5000000000\"") && far.contains("\"5000000001\""), "{far}");
    let few = [
        "generate",
        "vectors",
        "--like",
        "base.u8",
        "--type",
        "u8",
        "--dimensions",
        "400",
        "--rows",
        "3",
        "--out",
        "x",
    ];
    assert!(fails(folder.path(), &few, 3).contains("has 9 rows, and a sample has at least 16"));
}

#[test]
fn statistics_say_how_lists_came_about() {
    let folder = folder();
    with_files(folder.path(), 1500, 12);
    let bare = ["--type", "u8", "--dimensions", "12"];
    ok(folder.path(), &[&["import", "base.u8", "--out", "v.arrow"], &bare[..]].concat());
    let figures = |workers: &str| {
        let call = ["lists", "--store", "v.arrow", "--out", "s.lists.arrow", "--lists", "20", "--force"];
        let said = stats(folder.path(), &[&call[..], &["--iterations", "50", "--workers", workers]].concat());
        let of_box = |name: &str| {
            let line = said.lines().find(|line| line.starts_with(&format!("box `{name}`: ")));
            line.unwrap_or_else(|| panic!("{said}")).to_owned()
        };
        (of_box("quantizers"), of_box("file"))
    };
    let (training, sizes) = figures("1");
    assert_eq!(figures("3"), (training.clone(), sizes.clone()));
    let number = |line: &str, what: &str| -> f64 {
        let (_, rest) = line.split_once(&format!("{what} ")).unwrap_or_else(|| panic!("{what}: {line}"));
        rest.split(',').next().and_then(|number| number.trim().parse().ok()).expect("a number")
    };
    assert_eq!(number(&training, "vectors clustered"), 1500.0);
    assert_eq!((number(&training, "settled"), number(&sizes, ": lists")), (1.0, 20.0));
    assert!((2.0..50.0).contains(&number(&training, "rounds")));
    // Each of 12 numbers varies by 12 in a cluster, and clusters are less than 250 apart in each.
    let squares = 12.0 * 6.0 * 6.0..12.0 * 100.0 * 100.0;
    assert!(squares.contains(&number(&training, "mean squared distance")), "{training}");
    let [least, mean, most] = ["smallest list", "mean list", "largest list"].map(|what| number(&sizes, what));
    assert!(least <= mean && mean == 75.0 && mean <= most && most < 1500.0, "{sizes}");
}

/// A picture of one pixel as BMP, which readers know by its content.
fn picture(pixel: [u8; 3]) -> Vec<u8> {
    let words = [58_u32, 0, 54, 40, 1, 1, 1 | 24 << 16, 0, 4, 0, 0, 0, 0];
    let head = words.iter().flat_map(|word| word.to_le_bytes());
    b"BM".iter().copied().chain(head).chain(pixel).chain([0]).collect()
}

#[test]
fn spherical_centroids_have_length_1_by_every_distance() {
    let folder = folder();
    let at = folder.path();
    with_files(at, 600, 12);
    ok(at, &["import", "base.fbin", "--out", "v.arrow"]);
    for distance in ["l2", "ip", "cosine"] {
        for spherical in [&[][..], &["--spherical"]] {
            let call = ["lists", "--store", "v.arrow", "--out", "s.lists.arrow", "--lists", "9", "--force"];
            ok(at, &[&call[..], &["--distance", distance], spherical].concat());
            let quantizers = quantizers_of(&at.join("s.lists.arrow")).expect("lists");
            let square = |centroid: &[f32]| centroid.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
            let is_unit = |centroid: &[f32]| (square(centroid) - 1.0).abs() < 1e-5;
            let units = quantizers.centroids().chunks(12).filter(|centroid| is_unit(centroid)).count();
            let wanted = if distance == "cosine" || !spherical.is_empty() { 9 } else { 0 };
            assert_eq!(units, wanted, "{distance} {spherical:?}");
            // All lists have the exact answer.
            let find = [
                "search",
                "--store",
                "v.arrow",
                "--query",
                "5",
                "-k",
                "4",
                "--format",
                "csv",
                "--distance",
                distance,
            ];
            let found = ok(at, &[&find[..], &["--lists", "s.lists.arrow", "--probes", "9"]].concat());
            let found: Vec<&str> =
                found.lines().skip(1).filter_map(|line| line.strip_suffix(",false,9")).collect();
            assert_eq!(found, ok(at, &find).lines().skip(1).collect::<Vec<_>>());
        }
    }
}

#[test]
fn pages_of_pictures_show_what_every_way_to_search_vectors_finds() {
    let folder = folder();
    let at = folder.path();
    let mut lines = String::new();
    for row in 0..12_u8 {
        let name = format!("{}/{row}.png", ["cats", "dogs"][usize::from(row % 2)]);
        let path = at.join("photos").join(&name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a disk");
        fs::write(path, picture([row, 9, 200])).expect("a disk");
        lines.push_str(&format!("{{\"name\": \"{name}\", \"object\": [{row}, 1, 2]}}\n"));
    }
    fs::write(at.join("v.jsonl"), lines).expect("a disk");
    fs::write(at.join("q.f32"), [3.2_f32, 1.0, 2.0].map(f32::to_le_bytes).concat()).expect("a disk");
    let import = ["import", "v.jsonl", "--holds", "vectors", "--source", "photos", "--out", "v.arrow"];
    ok(at, &import);
    ok(at, &["index", "--store", "v.arrow", "--codes", "planes", "--out", "v.codes.arrow"]);
    fs::write(at.join("some.txt"), "cats/2.png\ncats/4.png\ndogs/3.png\ncats/6.png\n").expect("a disk");
    let page = |more: &[&str]| {
        ok(at, &[&["search", "--store", "v.arrow", "-k", "3", "--format", "html"][..], more].concat())
    };
    let by_name = ["--query", "dogs/3.png"];
    let by_file = ["--query-file", "q.f32", "--type", "f32", "--dimensions", "3"];
    for (query, pictures) in [(&by_name[..], 4), (&by_file[..], 3)] {
        for way in [&[][..], &["--codes", "v.codes.arrow"], &["--subset", "some.txt"], &["--class", "dogs"]] {
            let page = page(&[query, way].concat());
            assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"), "{way:?}");
            assert_eq!(page.matches("data:image/jpeg;base64,").count(), pictures, "{way:?}: {page}");
            assert!(page.contains("photos/dogs/3.png\"><img "), "{way:?}: {page}");
            assert!(!page.contains("Approximate"), "{page}");
        }
    }
    // Vectors in a file have no names of pictures.
    let numbers =
        ["import", "q.f32", "--type", "f32", "--dimensions", "3", "--source", "photos", "--out", "x"];
    assert!(fails(at, &numbers, 2).contains("--source: rows of `q.f32` have numbers for names"));
}

#[test]
fn numbers_of_one_or_two_bytes_fill_a_store_whatever_their_count() {
    let folder = folder();
    let at = folder.path();
    for (numbers, bytes, rows, dimensions) in
        [("u8", 1, 3, 3), ("i8", 1, 5, 1), ("f16", 2, 3, 5), ("u8", 1, 4097, 7)]
    {
        let file = format!("a_{rows}x{dimensions}.{numbers}");
        fs::write(at.join(&file), vec![1_u8; bytes * rows * dimensions]).expect("a disk");
        ok(at, &["import", &file, "--out", "v.arrow", "--force"]);
        let found =
            ok(at, &["search", "--store", "v.arrow", "--query", "0", "-k", "5000", "--format", "csv"]);
        assert_eq!(found.lines().count(), 1 + rows, "{file}");
    }
}
