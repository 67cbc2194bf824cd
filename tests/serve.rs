//! `boxwork serve` over real stores: search, pictures, rounds, changes of a store, kills, full disks, and its end.
#![cfg(unix)]

#[path = "support/command.rs"]
mod command;
#[path = "support/http.rs"]
mod http;
#[path = "support/served.rs"]
mod served;

use std::fs;
use std::path::Path;

use command::{fails, ok};
use http::asked;
use serde_json::{Value as Json, json};
use served::Served;
use tempfile::TempDir;

fn data() -> &'static Path {
    served::photos(12)
}

/// A copy of the store in a folder of the test's own.
fn copied() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::copy(data().join("photos.arrow"), folder.path().join("photos.arrow")).expect("a copy");
    folder
}

fn photos() -> String {
    data().join("photos").to_str().expect("UTF-8").to_owned()
}

/// A picture's file, and its name in the store.
fn first_picture(served: &Served) -> (String, Vec<u8>) {
    let object = &served.get("/v1/stores/photos/objects?limit=1").json()["objects"][0];
    let name = object["name"].as_str().expect("a name").to_owned();
    let content = fs::read(data().join("photos").join(&name)).expect("the picture");
    (name, content)
}

#[test]
fn a_picture_finds_itself_and_what_the_command_finds() {
    let served = Served::start(data(), &["--store", "photos.arrow", "--images", "photos"]);
    let store = served.get("/v1/stores/photos").json();
    assert_eq!(
        (&store["objects"], &store["kind"], &store["images"]),
        (&json!(36), &json!("signatures"), &json!(true))
    );
    assert_eq!(store["classes"].as_array().expect("classes").len(), 3);
    let (name, content) = first_picture(&served);
    let by_name = served.post("/v1/stores/photos/search", &json!({"query": {"name": name}, "k": 5})).json();
    let by_picture = served
        .send("POST", "/v1/stores/photos/search?k=5", &["Content-Type: image/jpeg"], Some(&content))
        .json();
    assert_eq!(by_name["hits"], by_picture["hits"]);
    assert_eq!((&by_name["hits"][0]["name"], &by_name["hits"][0]["distance"]), (&json!(name), &json!(0.0)));
    assert_eq!(
        (&by_picture["query"]["width"], by_name["hits"][0]["width"].as_u64() > Some(0)),
        (&by_name["hits"][0]["width"], true)
    );
    let told =
        ok(data(), &["search", "--store", "photos.arrow", "--query", &name, "-k", "5", "--format", "json"]);
    let told: Json = serde_json::from_str(&told).expect("JSON");
    let pairs = |hits: &Json, name: &str| -> Vec<(String, Option<u64>)> {
        let pair = |hit: &Json| {
            (hit[name].as_str().expect("a name").to_owned(), hit["distance"].as_f64().map(f64::to_bits))
        };
        hits.as_array().expect("hits").iter().map(pair).collect()
    };
    let results = told.pointer("/0/results").or_else(|| told.pointer("/queries/0/results"));
    let results = results.or_else(|| told.pointer("/results/0/results")).unwrap_or_else(|| panic!("{told}"));
    assert_eq!(pairs(results, "name"), pairs(&by_name["hits"], "name"), "to the bit");
    // The signature that a search by picture keeps finds the same.
    let token = &by_picture["query"]["token"];
    let by_token =
        served.post("/v1/stores/photos/search", &json!({"query": {"token": token}, "k": 5})).json();
    assert_eq!(by_token["hits"], by_name["hits"]);
    // Of one class: the nearest of that class, in their order.
    let class = &by_name["hits"][0]["class"];
    let all = served.post("/v1/stores/photos/search", &json!({"query": {"name": name}, "k": 36})).json();
    let expected: Vec<&Json> = all["hits"]
        .as_array()
        .expect("hits")
        .iter()
        .filter(|hit| hit["class"] == *class)
        .take(7)
        .map(|hit| &hit["id"])
        .collect();
    let of_class = served
        .post("/v1/stores/photos/search", &json!({"query": {"name": name}, "k": 7, "class": class}))
        .json();
    let found: Vec<&Json> = of_class["hits"].as_array().expect("hits").iter().map(|hit| &hit["id"]).collect();
    assert_eq!(found, expected);
}

#[test]
fn thumbnails_are_small_and_originals_need_a_flag() {
    let folder = copied();
    let cache = folder.path().join("cache");
    let arguments = [
        "--store",
        "photos.arrow",
        "--images",
        &photos(),
        "--cache",
        cache.to_str().expect("UTF-8"),
        "--originals",
    ];
    let served = Served::start(folder.path(), &arguments);
    let small = served.get("/v1/stores/photos/objects/3/thumbnail?size=96");
    assert_eq!((small.status, small.header("content-type")), (200, Some("image/jpeg")));
    let picture = image::load_from_memory(&small.body).expect("a JPEG");
    assert!(picture.width().max(picture.height()) <= 96);
    assert_eq!(fs::read_dir(&cache).expect("the cache").count(), 1);
    let (name, content) = first_picture(&served);
    assert_eq!(served.get("/v1/stores/photos/objects/0/image").body, content, "{name}");
    let page = served.get("/metrics").text();
    assert!(page.contains("boxwork_thumbnail_misses 1") && page.contains("boxwork_tasks_total{"), "{page}");
    // Names that lead out, and links that do, have no picture.
    let outside = tempfile::tempdir().expect("a folder");
    fs::write(outside.path().join("secret.jpg"), &content).expect("written");
    let images = folder.path().join("images");
    fs::create_dir(&images).expect("a folder");
    std::os::unix::fs::symlink(outside.path(), images.join("up")).expect("a link");
    let line = |name: &str| format!("{{\"name\": \"{name}\", \"centroids\": [[0, 0]], \"weights\": [1]}}\n");
    let evil = ["up/secret.jpg", "../secret.jpg", "/etc/passwd", "."].map(line).concat();
    fs::write(folder.path().join("evil.jsonl"), evil).expect("written");
    ok(folder.path(), &["import", "evil.jsonl", "--out", "evil.arrow"]);
    let served =
        Served::start(folder.path(), &["--store", "evil.arrow", "--images", "images", "--originals"]);
    for id in 0..4 {
        for what in ["thumbnail", "image"] {
            assert_eq!(served.get(&format!("/v1/stores/evil/objects/{id}/{what}")).status, 404, "{id}");
        }
    }
}

#[test]
fn other_hosts_and_paths_that_climb_reach_nothing() {
    let served = Served::start(data(), &["--store", "photos.arrow"]);
    let evil = served.send("GET", "/", &["Host: evil.test"], None);
    assert_eq!((evil.status, evil.problem().as_str()), (403, "host"));
    for path in ["/v1/stores/photos/objects/../../etc/passwd", "/assets/%2e%2e/%2e%2e/etc/passwd", "/%00"] {
        assert!([400, 404].contains(&served.get(path).status), "{path}");
    }
    let origin = ["Content-Type: application/json", "Origin: http://evil.test"];
    let body = json!({"query": {"id": 1}}).to_string();
    assert_eq!(served.send("POST", "/v1/stores/photos/search", &origin, Some(body.as_bytes())).status, 403);
    // A name that is a path on the server's disk is a name of the store or nothing.
    for name in ["/etc/passwd", "photos.arrow", "../photos.arrow", "[1, 2]"] {
        let answer = served.post("/v1/stores/photos/search", &json!({"query": {"name": name}}));
        assert_eq!(answer.problem(), "unknown-object", "{name}");
    }
}

#[test]
fn a_call_that_would_be_unsafe_or_wrong_is_refused() {
    let at = data();
    let refused = |more: &[&str], status: i32| {
        fails(at, &[&["serve", "--listen", "0", "--store", "photos.arrow"], more].concat(), status)
    };
    let open = fails(at, &["serve", "--listen", "0.0.0.0:0", "--store", "photos.arrow"], 2);
    assert!(open.contains("--token-file"), "{open}");
    let folder = tempfile::tempdir().expect("a folder");
    let token = folder.path().join("token");
    fs::write(&token, "short\n").expect("written");
    assert!(refused(&["--token-file", token.to_str().expect("UTF-8")], 2).contains("16 letters"));
    assert!(refused(&["--images", "nothing"], 2).contains("nothing is no folder"));
    assert!(refused(&["--store", "photos.arrow"], 2).contains("two stores"));
    assert!(refused(&["--pivots", "photos.arrow"], 3).contains("photos.arrow"));
    let lines = fails(at, &["serve", "--listen", "0", "--store", "missing.arrow"], 3);
    assert!(lines.contains("missing.arrow"), "{lines}");
    fs::write(folder.path().join("search.yaml"), "boxwork: 1\nboxes:\n  a: {kind: scam}\n").expect("written");
    assert!(refused(&["--pipelines", folder.path().to_str().expect("UTF-8")], 1).contains("scam"));
    let document = ok(at, &["serve", "--openapi"]);
    let kept = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("server/openapi.json"));
    assert_eq!(document, kept.expect("the document"));
}

#[test]
fn an_index_finds_the_same() {
    let folder = copied();
    ok(folder.path(), &["index", "--store", "photos.arrow", "--pivots", "8", "--out", "photos.pivots.arrow"]);
    let plain = Served::start(folder.path(), &["--store", "photos.arrow"]);
    let indexed =
        Served::start(folder.path(), &["--store", "photos.arrow", "--pivots", "photos.pivots.arrow"]);
    for id in [0, 17, 35] {
        let body = json!({"query": {"id": id}, "k": 9});
        let [a, b] = [&plain, &indexed].map(|served| served.post("/v1/stores/photos/search", &body).json());
        assert_eq!(a["hits"], b["hits"]);
    }
}

#[test]
fn vectors_are_searched_among_a_class_and_a_subset() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let class = |row: usize| if row == 77 { "rare" } else { ["cats", "dogs", "owls"][row % 3] };
    let line = |row: usize| {
        let (x, y) = (row * 37 % 101, row * 53 % 89);
        format!("{{\"name\": \"{}/{row}\", \"object\": [{x}, {y}]}}\n", class(row))
    };
    fs::write(at.join("v.jsonl"), (0..400).map(line).collect::<String>()).expect("written");
    ok(at, &["import", "v.jsonl", "--holds", "vectors", "--out", "v.arrow"]);
    // A pipeline of a person's own, by another distance than that of the usual search.
    let own = ok(at, &["pipelines", "show", "search"]);
    let usual = "distance:   {type: text, default: auto";
    assert!(own.contains(usual), "{own}");
    fs::write(at.join("search.yaml"), own.replace(usual, "distance:   {type: text, default: l1"))
        .expect("written");
    let every_seventh: Vec<usize> = (0..400).filter(|row| row % 7 == 2).collect();
    for more in [&[][..], &["--pipelines", "."]] {
        let served = Served::start(at, &[&["--store", "v.arrow"], more].concat());
        let search = |body: Json| -> Vec<(String, u64)> {
            let answer = served.post("/v1/stores/v/search", &body).json();
            let hits = answer["hits"].as_array().unwrap_or_else(|| panic!("{answer}"));
            let hit = |hit: &Json| Some((hit["name"].as_str()?.to_owned(), hit["id"].as_u64()?));
            hits.iter().map(|found| hit(found).expect("a name and an id")).collect()
        };
        let all = search(json!({"query": {"id": 5}, "k": 400}));
        assert_eq!(all.len(), 400);
        for (of_class, subset) in [
            (Some("dogs"), None),
            (Some("rare"), None),
            (None, Some(&every_seventh[..])),
            (None, Some(&[77, 3, 9])),
            (Some("cats"), Some(&every_seventh[..])),
            (Some("rare"), Some(&every_seventh[..])),
        ] {
            let has = |(_, row): &(String, u64)| {
                of_class.is_none_or(|of_class| of_class == class(*row as usize))
                    && subset.is_none_or(|subset| subset.contains(&(*row as usize)))
            };
            let wanted: Vec<_> = all.iter().filter(|found| has(found)).take(12).cloned().collect();
            let mut body = json!({"query": {"id": 5}, "k": 12});
            if let Some(of_class) = of_class {
                body["class"] = json!(of_class);
            }
            if let Some(subset) = subset {
                let by_id_or_name = |row: &usize| match row % 2 {
                    0 => json!(row),
                    _ => json!(format!("{}/{row}", class(*row))),
                };
                body["subset"] = subset.iter().map(by_id_or_name).collect();
            }
            assert_eq!(search(body), wanted, "{more:?} {of_class:?} {subset:?}");
        }
    }
}

#[test]
fn vectors_are_served_by_codes_and_through_lists() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let line = |row: usize| {
        let [a, b, c] = [37, 53, 71].map(|step| row * step % 101);
        format!("{{\"name\": \"v{row}\", \"object\": [{a}, {b}, {c}]}}\n")
    };
    fs::write(at.join("v.jsonl"), (0..500).map(line).collect::<String>()).expect("written");
    ok(at, &["import", "v.jsonl", "--holds", "vectors", "--out", "v.arrow"]);
    ok(at, &["index", "--store", "v.arrow", "--codes", "planes", "--out", "v.codes.arrow"]);
    ok(at, &["lists", "--store", "v.arrow", "--lists", "9", "--out", "v.lists.arrow"]);
    let plain = Served::start(at, &["--store", "v.arrow"]);
    let quick = ["--store", "v.arrow", "--codes", "v.codes.arrow", "--lists", "v.lists.arrow"];
    let quick = Served::start(at, &quick);
    let search = |served: &Served, body: &Json| served.post("/v1/stores/v/search", body).json();
    let mut is_less = false;
    for id in [0, 17, 499] {
        let body = json!({"query": {"id": id}, "k": 20});
        let exact = search(&plain, &body);
        assert_eq!(exact["exact"], json!(true), "{exact}");
        assert_eq!(search(&quick, &body), exact);
        let all = search(&quick, &json!({"query": {"id": id}, "k": 20, "probes": 9}));
        assert_eq!((&all["exact"], &all["probes"]), (&json!(false), &json!(9)));
        assert_eq!(all["hits"], exact["hits"]);
        let one = search(&quick, &json!({"query": {"id": id}, "k": 20, "probes": 1, "refine": 4}));
        assert_eq!(one["hits"][0], exact["hits"][0]);
        is_less |= one["hits"] != exact["hits"];
    }
    assert!(is_less, "one list of nine has all neighbours of each query");
    for (served, body, word) in [
        (&plain, json!({"query": {"id": 1}, "probes": 2}), "--lists"),
        (&quick, json!({"query": {"id": 1}, "refine": 2}), "`probes`"),
        (&quick, json!({"query": {"id": 1}, "probes": 0}), "from 1"),
    ] {
        let refused = served.post("/v1/stores/v/search", &body);
        assert_eq!(refused.status, 422, "{}", refused.json());
        assert!(refused.json().to_string().contains(word), "{}", refused.json());
    }
}

#[test]
fn rounds_come_from_sketches_that_are_kept_in_step() {
    let folder = copied();
    let at = folder.path();
    ok(at, &["sketch", "--store", "photos.arrow", "--out", "photos.sketch.arrow", "--frequencies", "256"]);
    // Sketches bound the objects of large stores; a pipeline of one's own may use them always.
    let own = ok(at, &["pipelines", "show", "feedback"]);
    let always = own.replace("default: auto, one_of: [auto, exact", "default: sketch, one_of: [auto, exact");
    assert_ne!(own, always);
    fs::create_dir(at.join("own")).expect("a folder");
    fs::write(at.join("own/feedback.yaml"), always).expect("written");
    let with = ["--store", "photos.arrow", "--sketch", "photos.sketch.arrow"];
    let usual = Served::start(at, &with);
    assert_eq!(usual.get("/v1/stores/photos").json()["mode"], "exact");
    let served = Served::start(at, &[&with[..], &["--pipelines", "own"]].concat());
    assert_eq!(served.get("/v1/stores/photos").json()["mode"], "sketch");
    let session = served.post("/v1/stores/photos/sessions", &json!({"query": [{"id": 3}], "batch": 5}));
    assert_eq!(session.status, 201);
    assert_eq!(session.json()["round"]["objects"].as_array().expect("objects").len(), 5);

    ok(at, &["sample-images", "more", "--classes", "1", "--per-class", "3", "--seed", "77"]);
    ok(at, &["add", "--store", "photos.arrow", "--sketch", "photos.sketch.arrow", "--replace", "more"]);
    assert_eq!(served.send("POST", "/v1/stores/photos/reload", &[], Some(b"")).status, 200);
    let grown = served.get("/v1/stores/photos").json();
    assert_eq!(grown["mode"], "sketch");
    // Sketches that lack objects are never used: the state before serves on.
    ok(at, &["sample-images", "few", "--classes", "1", "--per-class", "2", "--seed", "78"]);
    ok(at, &["add", "--store", "photos.arrow", "--replace", "few"]);
    assert_eq!(served.send("POST", "/v1/stores/photos/reload", &[], Some(b"")).status, 503);
    assert_eq!(served.get("/readyz").json()["status"], "stale");
    assert_eq!(served.get("/v1/stores/photos").json(), grown);
    let said = fails(at, &[&["serve", "--listen", "0"][..], &with].concat(), 3);
    assert!(
        said.contains("boxwork sketch --append --store photos.arrow --out photos.sketch.arrow"),
        "{said}"
    );
}

#[test]
fn a_changed_store_is_loaded_anew_and_a_broken_one_is_not() {
    let folder = copied();
    let at = folder.path();
    let served = Served::start(at, &["--store", "photos.arrow", "--images", &photos()]);
    let before = served.get("/v1/stores/photos").json();
    let names: Vec<String> = served.get("/v1/stores/photos/objects?limit=3").json()["objects"]
        .as_array()
        .expect("objects")
        .iter()
        .map(|object| object["name"].as_str().expect("a name").to_owned())
        .collect();
    ok(at, &["remove", "--store", "photos.arrow", &names[0]]);
    let after = served.send("POST", "/v1/stores/photos/reload", &[], Some(b"")).json();
    assert_eq!((&before["objects"], &after["objects"]), (&json!(36), &json!(35)));
    assert_ne!(before["fingerprint"], after["fingerprint"]);
    assert_eq!(served.get("/v1/stores/photos/objects/0").status, 404, "its object was removed");
    let gone = served.post("/v1/stores/photos/search", &json!({"query": {"name": names[0]}}));
    assert_eq!(gone.problem(), "unknown-object");
    // Numbered anew: the second object is the first now.
    ok(at, &["compact", "--store", "photos.arrow"]);
    served.send("POST", "/v1/stores/photos/reload", &[], Some(b""));
    assert_eq!(served.get("/v1/stores/photos/objects/0").json()["name"], json!(names[1]));
    // The thread that watches the files notices a change without being asked.
    ok(at, &["remove", "--store", "photos.arrow", &names[1]]);
    while served.get("/v1/stores/photos").json()["objects"] != json!(34) {
        std::thread::yield_now();
    }
    fs::write(at.join("new.arrow"), b"no store").expect("written");
    fs::rename(at.join("new.arrow"), at.join("photos.arrow")).expect("renamed");
    let refused = served.send("POST", "/v1/stores/photos/reload", &[], Some(b""));
    assert_eq!((refused.status, refused.problem().as_str()), (503, "stale"));
    assert!(refused.header("retry-after").is_none(), "it lasts until the file is mended");
    fs::remove_file(at.join("photos.arrow")).expect("removed");
    let gone = served.send("POST", "/v1/stores/photos/reload", &[], Some(b""));
    assert_eq!((gone.problem().as_str(), gone.header("retry-after")), ("stale", None));
    let ready = served.get("/readyz").json();
    assert_eq!(ready["status"], "stale");
    assert!(!ready.to_string().contains(at.to_str().expect("UTF-8")), "no path of the server");
    assert_eq!(served.post("/v1/stores/photos/search", &json!({"query": {"id": 5}})).status, 200);
}

#[test]
fn a_signal_ends_it_with_status_0_and_the_address_is_free_again() {
    let mut served = Served::start(data(), &["--store", "photos.arrow"]);
    let address = served.address;
    let (status, said) = served.end_by("-TERM");
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("stopping") && said.contains("stopped"), "{said}");
    assert!(asked(address, "GET", "/", &[], None).is_err());
    let mut served =
        Served::start(data(), &["--store", "photos.arrow", "--listen", &address.port().to_string()]);
    assert_eq!(served.end_by("-INT").0.code(), Some(0));
}

#[test]
fn a_token_is_needed_where_one_was_given() {
    let folder = copied();
    fs::write(folder.path().join("token"), "correct-horse-battery\n").expect("written");
    let served = Served::start(folder.path(), &["--store", "photos.arrow", "--token-file", "token"]);
    assert_eq!(served.get("/v1/stores").status, 401);
    let with = served.send("GET", "/v1/stores", &["Authorization: Bearer correct-horse-battery"], None);
    assert_eq!(with.status, 200);
}
