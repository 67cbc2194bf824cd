//! Sessions from their first round to their log played again.

mod support;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use boxwork_server::{Config, Limits, Server};
use serde_json::{Value, json};
use support::client::{Answer, send};
use support::fake::name;
use support::{Fake, get, limits, local, post, request, serving, started};

fn begin(at: SocketAddr, body: Value) -> Value {
    let answer = post(at, "/v1/stores/s/sessions", &body);
    assert_eq!(answer.status, 201, "{answer:?}");
    let state = answer.json();
    let session = state["session"].as_str().unwrap();
    assert_eq!(answer.header("location"), Some(format!("/v1/sessions/{session}").as_str()));
    assert_eq!(session.len(), 26);
    state
}

fn address(state: &Value) -> String {
    format!("/v1/sessions/{}", state["session"].as_str().unwrap())
}

fn mark(at: SocketAddr, state: &Value, round: u64, marks: Value) -> Answer {
    post(at, &format!("{}/rounds", address(state)), &json!({"round": round, "marks": marks}))
}

fn act(at: SocketAddr, state: &Value, what: &str) -> Answer {
    post(at, &format!("{}/{what}", address(state)), &json!({}))
}

fn ids(state: &Value) -> Vec<u64> {
    let objects = state["round"]["objects"].as_array().unwrap();
    objects.iter().map(|object| object["id"].as_u64().unwrap()).collect()
}

fn with_logs(backend: &Arc<Fake>, folder: &Path, limits: Limits) -> Server {
    serving(backend, Config { sessions: Some(folder.to_owned()), limits, ..Config::new(local()) })
}

#[test]
fn a_session_goes_on_by_marks() {
    let (server, _) = started();
    let at = server.address();
    let first = begin(at, json!({"seed": 7, "batch": 3, "query": [{"id": 20}]}));
    assert_eq!((&first["seed"], &first["rounds"], &first["shown"]), (&json!(7), &json!(1), &json!(3)));
    assert_eq!(first["query"], json!([{"id": 20, "name": "owls/020.jpg"}]));
    assert_eq!(ids(&first), [20, 19, 21]);
    let one = &first["round"]["objects"][1];
    assert_eq!(one["liked"], json!({"id": 20, "name": "owls/020.jpg", "share": 0.5}));
    assert_eq!((&one["rank"], &one["disliked"]), (&json!(2), &json!(null)));
    let second = mark(at, &first, 1, json!([{"id": 19, "relevance": 1}, {"id": 21, "relevance": 0}])).json();
    assert_eq!((&second["round"]["round"], &second["can_undo"]), (&json!(2), &json!(true)));
    assert_eq!(second["marks"][0]["name"], "dogs/019.jpg");
    assert_eq!((&second["marks"][0]["round"], &second["marks"][0]["shown"]), (&json!(1), &json!(true)));
    assert!(ids(&second).iter().all(|id| ![19, 20, 21].contains(id)), "nothing comes twice");
    assert_eq!(get(at, &address(&first)).json(), second);
    let round = get(at, &format!("{}/rounds/1", address(&first))).json();
    assert_eq!(round, first["round"]);
    assert_eq!(get(at, &format!("{}/rounds/3", address(&first))).status, 404);
    // An object that was never shown may be marked, and a mark may be taken back.
    let third =
        mark(at, &first, 2, json!([{"id": 39, "relevance": 0.5}, {"id": 19, "relevance": null}])).json();
    let marks: Vec<(u64, bool)> = third["marks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mark| (mark["id"].as_u64().unwrap(), mark["shown"].as_bool().unwrap()))
        .collect();
    assert_eq!(marks, [(21, true), (39, false)]);
    let ranking = get(at, &format!("{}/ranking?offset=1&limit=2", address(&first))).json();
    assert_eq!((&ranking["total"], &ranking["objects"][0]["rank"]), (&json!(40), &json!(2)));
    let why = get(at, &format!("{}/objects/22/why", address(&first))).json();
    assert_eq!((&why["id"], &why["marks"][0]["share"]), (&json!(22), &json!(0.25)));
    assert_eq!(why["nearest_liked"][0]["distance"], 2.0);
    assert_eq!(send(at, "DELETE", &address(&first), &json!({})).status, 204);
    assert_eq!(get(at, &address(&first)).problem(), "not-found");
}

#[test]
fn the_same_marks_twice_are_one_round_and_others_conflict() {
    let (server, _) = started();
    let at = server.address();
    let first = begin(at, json!({"batch": 4}));
    let marks = json!([{"id": 1, "relevance": 1}]);
    let second = mark(at, &first, 1, marks.clone()).json();
    assert_eq!(mark(at, &first, 1, marks.clone()).json(), second, "safe to retry");
    let conflict = mark(at, &first, 1, json!([{"id": 2, "relevance": 1}]));
    assert_eq!((conflict.status, conflict.problem().as_str()), (409, "round"));
    assert_eq!(mark(at, &first, 3, marks).problem(), "round");
    assert_eq!(get(at, &address(&first)).json(), second);
    // Two windows at once: one goes on, the other is told.
    let answers: Vec<u16> = std::thread::scope(|scope| {
        let windows: Vec<_> = [4, 5]
            .map(|id| {
                let first = &first;
                scope.spawn(move || mark(at, first, 2, json!([{"id": id, "relevance": 1}])).status)
            })
            .into_iter()
            .collect();
        windows.into_iter().map(|window| window.join().unwrap()).collect()
    });
    let mut answers = answers;
    answers.sort_unstable();
    assert_eq!(answers, [200, 409]);
}

#[test]
fn undo_and_redo_move_over_rounds() {
    let (server, _) = started();
    let at = server.address();
    let first = begin(at, json!({"batch": 2}));
    assert_eq!(act(at, &first, "undo").problem(), "round");
    let second = mark(at, &first, 1, json!([{"id": 0, "relevance": 1}])).json();
    let third = mark(at, &first, 2, json!([{"id": 2, "relevance": 0}])).json();
    let undone = act(at, &first, "undo").json();
    assert_eq!((&undone["round"], &undone["can_redo"]), (&second["round"], &json!(true)));
    assert_eq!(act(at, &first, "redo").json(), third);
    act(at, &first, "undo");
    let again = mark(at, &first, 2, json!([{"id": 2, "relevance": 0}])).json();
    assert_eq!(again, third, "the same marks give the same round");
    act(at, &first, "undo");
    let other = mark(at, &first, 2, json!([{"id": 3, "relevance": 1}])).json();
    assert_eq!((&other["can_redo"], &other["rounds"]), (&json!(false), &json!(3)));
    assert_eq!(act(at, &first, "redo").problem(), "round");
}

#[test]
fn settings_change_the_rounds_that_follow() {
    let (server, _) = started();
    let at = server.address();
    let first = begin(at, json!({"batch": 2, "class": "dogs", "explore": 0, "unmarked": "ignore"}));
    assert_eq!((&first["class"], &first["unmarked"]), (&json!("dogs"), &json!("ignore")));
    assert!(ids(&first).iter().all(|id| id % 3 == 1));
    let changed =
        send(at, "PATCH", &address(&first), &json!({"explore": 2, "class": null, "batch": 5})).json();
    assert_eq!((&changed["explore"], &changed["class"]), (&json!(2.0), &json!(null)));
    assert_eq!(changed["round"], first["round"]);
    let second = mark(at, &first, 1, json!([])).json();
    assert_eq!(ids(&second).len(), 5);
    for (body, pointer) in [
        (json!({"explore": 3}), "/explore"),
        (json!({"batch": 0}), "/batch"),
        (json!({"class": "cows"}), "/class"),
        (json!({"seed": 1}), "/seed"),
    ] {
        let answer = send(at, "PATCH", &address(&first), &body);
        assert_eq!(
            (answer.problem().as_str(), &answer.json()["errors"][0]["pointer"]),
            ("values", &json!(pointer))
        );
    }
}

#[test]
fn marks_that_do_not_fit_change_nothing() {
    let (server, _) = started();
    let at = server.address();
    let first = begin(at, json!({"batch": 2}));
    let good = json!({"id": 1, "relevance": 1});
    for (marks, problem, pointer) in [
        (json!([good, {"id": 2, "relevance": -0.1}]), "values", "/marks/1/relevance"),
        (json!([good, {"id": 2, "relevance": 1.5}]), "values", "/marks/1/relevance"),
        (json!([{"id": 2, "relevance": "1"}]), "values", "/marks/0/relevance"),
        (json!([{"id": 2}]), "values", "/marks/0/relevance"),
        (json!([{"relevance": 1}]), "values", "/marks/0/id"),
        (json!([good, good]), "values", "/marks/1/id"),
        (json!([good, 3]), "values", "/marks/1"),
        (json!([good, {"id": 2, "relevance": 1, "why": 1}]), "values", "/marks/1/why"),
        (json!([good, {"id": 400, "relevance": 1}]), "unknown-object", "/marks/1/id"),
        (json!(3), "values", "/marks"),
    ] {
        let answer = mark(at, &first, 1, marks.clone());
        assert_eq!((answer.status, answer.problem().as_str()), (422, problem), "{marks}");
        assert_eq!(answer.json()["errors"][0]["pointer"], pointer, "{marks}");
    }
    let nan = request(
        at,
        "POST",
        &format!("{}/rounds", address(&first)),
        &["Content-Type: application/json"],
        Some(b"{\"round\":1,\"marks\":[{\"id\":1,\"relevance\":NaN}]}"),
    );
    assert_eq!(nan.problem(), "malformed");
    assert_eq!(get(at, &address(&first)).json(), first);
    for (body, pointer) in [
        (json!({"batch": 101}), "/batch"),
        (json!({"explore": -1}), "/explore"),
        (json!({"unmarked": "strong"}), "/unmarked"),
        (json!({"class": "cows"}), "/class"),
        (json!({"seed": -1}), "/seed"),
        (json!({"query": [{"id": 1}, {"name": name(1)}]}), "/query/1"),
        (json!({"query": {"id": 1}}), "/query"),
    ] {
        let answer = post(at, "/v1/stores/s/sessions", &body);
        assert_eq!(answer.json()["errors"][0]["pointer"], pointer, "{body}");
    }
    for guessed in [
        "/v1/sessions/aaaaaaaaaaaaaaaaaaaaaaaaaa",
        "/v1/sessions/short",
        "/v1/sessions/AAAAAAAAAAAAAAAAAAAAAAAAAA",
    ] {
        let answer = get(at, guessed);
        assert_eq!(answer.problem(), "not-found");
        assert_eq!(
            answer.json()["detail"],
            get(at, "/v1/sessions/bbbbbbbbbbbbbbbbbbbbbbbbbb").json()["detail"]
        );
    }
}

#[test]
fn small_stores_are_exhausted() {
    for objects in [0, 1, 2] {
        let backend = Fake::new(objects);
        let server = serving(&backend, Config { limits: limits(), ..Config::new(local()) });
        let first = begin(server.address(), json!({"batch": 3}));
        assert_eq!((ids(&first).len(), &first["exhausted"]), (objects, &json!(true)));
        let second = mark(server.address(), &first, 1, json!([])).json();
        assert_eq!((ids(&second).len(), &second["exhausted"]), (0, &json!(true)));
    }
}

#[test]
fn a_picture_begins_a_session_and_its_log_keeps_it() {
    let (server, _) = started();
    let at = server.address();
    let found =
        request(at, "POST", "/v1/stores/s/search?k=1", &["Content-Type: image/png"], Some(b"P\x09")).json();
    let token = found["query"]["token"].clone();
    let first = begin(at, json!({"batch": 3, "query": [{"token": token}]}));
    assert_eq!(ids(&first), [9, 8, 10]);
    assert_eq!(first["query"][0]["token"], token);
    let log = get(at, &format!("{}/log", address(&first)));
    let again =
        request(at, "POST", "/v1/stores/s/sessions", &["Content-Type: application/jsonl"], Some(&log.body));
    assert_eq!((again.status, &again.json()["replay"]), (201, &json!({"rounds": 1, "same": 1})));
}

#[test]
fn a_log_played_again_gives_the_same_rounds() {
    let (server, backend) = started();
    let at = server.address();
    let first = begin(at, json!({"batch": 4, "seed": 3, "query": [{"id": 5}]}));
    mark(at, &first, 1, json!([{"id": 6, "relevance": 1}, {"id": 4, "relevance": 0}]));
    mark(at, &first, 2, json!([{"id": 9, "relevance": 0.25}]));
    act(at, &first, "undo");
    send(at, "PATCH", &address(&first), &json!({"batch": 2}));
    let last = mark(at, &first, 2, json!([{"id": 8, "relevance": 1}])).json();
    let log = get(at, &format!("{}/log", address(&first)));
    assert_eq!(log.header("content-type"), Some("application/jsonl"));
    assert_eq!(log.text().lines().count(), 11);
    let replay = |log: &[u8]| {
        request(at, "POST", "/v1/stores/s/sessions", &["Content-Type: application/jsonl"], Some(log))
    };
    let again = replay(&log.body).json();
    assert_eq!(again["replay"], json!({"rounds": 4, "same": 4}));
    for key in ["round", "marks", "query", "seed", "batch", "shown", "rounds"] {
        assert_eq!(again[key], last[key], "{key}");
    }
    // The same on a store that was made anew, where ids differ and an object is gone.
    let mut names: Vec<Option<String>> =
        (0..40).rev().filter(|nth| *nth != 6).map(|nth| Some(name(nth))).collect();
    names.push(Some("new.jpg".to_owned()));
    backend.change("second", "another", names);
    assert_eq!(get(at, &address(&first)).problem(), "store-changed");
    assert_eq!(mark(at, &first, 3, json!([])).problem(), "store-changed");
    let moved = replay(&log.body).json();
    assert_eq!(moved["fingerprint"], "second");
    assert!(moved["notices"].to_string().contains("cats/006.jpg"), "{moved}");
    for (bad, words) in [
        (b"".to_vec(), "line 1"),
        (b"no log\n".to_vec(), "line 1"),
        (log.text().replacen("0.25", "0.75", 1).into_bytes(), "checksum"),
    ] {
        let answer = replay(&bad);
        assert!([404, 409].contains(&answer.status), "{answer:?}");
        assert!(answer.status == 404 || answer.text().contains(words), "{answer:?}");
    }
}

#[test]
fn marks_follow_their_objects_when_a_store_is_numbered_anew() {
    let (server, backend) = started();
    let at = server.address();
    let first = begin(at, json!({"batch": 3, "query": [{"id": 30}]}));
    let second = mark(at, &first, 1, json!([{"id": 29, "relevance": 1}, {"id": 31, "relevance": 0}])).json();
    // The first ten objects go, and the rest is numbered anew; so is the object that was liked.
    let names: Vec<_> = (10..40).filter(|nth| *nth != 29).map(|nth| Some(name(nth))).collect();
    backend.change("second", "f", names);
    let state = get(at, &address(&first)).json();
    assert!(state["notices"][0].as_str().unwrap().contains("owls/029.jpg"), "{state}");
    assert_eq!(state["marks"].as_array().unwrap().len(), 1);
    assert_eq!((&state["marks"][0]["id"], &state["marks"][0]["name"]), (&json!(20), &json!("dogs/031.jpg")));
    let shown = second["round"]["objects"][0].clone();
    // The client knows the objects of its round by the ids of then.
    let third = mark(at, &first, 2, json!([{"id": shown["id"], "relevance": 1}])).json();
    assert!(third["marks"].as_array().unwrap().iter().any(|mark| mark["name"] == shown["name"]), "{third}");
    let before: Vec<&Value> =
        second["round"]["objects"].as_array().unwrap().iter().map(|object| &object["name"]).collect();
    assert!(
        third["round"]["objects"].as_array().unwrap().iter().all(|object| !before.contains(&&object["name"]))
    );
}

#[test]
fn sessions_have_limits() {
    let backend = Fake::new(40);
    let limits = Limits { rounds: 3, marks: 2, sessions: 2, ..limits() };
    let server = serving(&backend, Config { limits, ..Config::new(local()) });
    let at = server.address();
    let first = begin(at, json!({"batch": 1}));
    let full = mark(
        at,
        &first,
        1,
        json!([{"id": 1, "relevance": 1}, {"id": 2, "relevance": 1}, {"id": 3, "relevance": 1}]),
    );
    assert_eq!(full.status, 422);
    mark(at, &first, 1, json!([{"id": 1, "relevance": 1}, {"id": 2, "relevance": 1}]));
    assert_eq!(mark(at, &first, 2, json!([{"id": 3, "relevance": 1}])).problem(), "session-full");
    mark(at, &first, 2, json!([]));
    assert_eq!(mark(at, &first, 3, json!([])).problem(), "session-full");
    let second = begin(at, json!({}));
    let refused = post(at, "/v1/stores/s/sessions", &json!({}));
    assert_eq!((refused.status, refused.problem().as_str()), (503, "sessions-full"));
    send(at, "DELETE", &address(&second), &json!({}));
    begin(at, json!({}));
}

#[test]
fn logs_outlive_the_server_and_its_memory() {
    let folder = tempfile::tempdir().unwrap();
    let backend = Fake::new(40);
    let few = || Limits { sessions: 2, ..limits() };
    let server = with_logs(&backend, folder.path(), few());
    let at = server.address();
    let states: Vec<Value> = (0..5)
        .map(|seed| {
            let first = begin(at, json!({"seed": seed, "batch": 3}));
            mark(at, &first, 1, json!([{"id": seed, "relevance": 1}])).json()
        })
        .collect();
    // Only two are in memory; the others are folded again.
    for state in &states {
        assert_eq!(&get(at, &address(state)).json(), state);
    }
    drop(server);
    let server = with_logs(&backend, folder.path(), few());
    let at = server.address();
    for state in &states {
        assert_eq!(&get(at, &address(state)).json(), state);
        let next = mark(at, state, 2, json!([{"id": 30, "relevance": 0}]));
        assert_eq!(next.json()["round"]["round"], 3);
    }
    assert_eq!(send(at, "DELETE", &address(&states[0]), &json!({})).status, 204);
    assert_eq!(
        (get(at, &address(&states[0])).status, fs::read_dir(folder.path()).unwrap().count()),
        (404, 4)
    );
}

#[test]
fn torn_logs_lose_nothing_that_was_acknowledged_and_edited_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let backend = Fake::new(40);
    let server = with_logs(&backend, folder.path(), limits());
    let first = begin(server.address(), json!({"batch": 3}));
    let second = mark(server.address(), &first, 1, json!([{"id": 1, "relevance": 1}])).json();
    drop(server);
    let file = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&file).unwrap();
    fs::write(&file, [&whole[..], b"{\"event\":4,\"at\":17,\"op\":{\"mar"].concat()).unwrap();
    let server = with_logs(&backend, folder.path(), limits());
    let state = get(server.address(), &address(&first)).json();
    assert_eq!(state["round"], second["round"]);
    assert!(state["notices"][0].as_str().unwrap().contains("was dropped"), "{state}");
    assert_eq!(fs::read(&file).unwrap(), whole);
    let third = mark(server.address(), &first, 2, json!([]));
    assert_eq!(third.json()["round"]["round"], 3);
    drop(server);
    let text = String::from_utf8(fs::read(&file).unwrap()).unwrap();
    fs::write(&file, text.replacen("\"relevance\":1.0", "\"relevance\":0.0", 1)).unwrap();
    let server = with_logs(&backend, folder.path(), limits());
    let refused = get(server.address(), &address(&first));
    assert_eq!((refused.status, refused.problem().as_str()), (409, "log-broken"));
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(
        detail.contains("line 3: its checksum") && !detail.contains(folder.path().to_str().unwrap()),
        "{detail}"
    );
}

#[cfg(unix)]
#[test]
fn a_log_that_cannot_be_written_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let backend = Fake::new(40);
    let server = with_logs(&backend, folder.path(), limits());
    let at = server.address();
    let first = begin(at, json!({"batch": 3}));
    let file = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&file).unwrap();
    // Another program has changed the log: nothing is appended to it.
    fs::write(&file, [&whole[..], b"x"].concat()).unwrap();
    let refused = mark(at, &first, 1, json!([{"id": 1, "relevance": 1}]));
    assert_eq!((refused.status, refused.problem().as_str()), (503, "log-unwritable"));
    assert!(refused.header("retry-after").is_none(), "nobody knows when there will be room again");
    let state = get(at, &address(&first)).json();
    assert_eq!(state["round"], first["round"]);
    assert_eq!(mark(at, &first, 1, json!([{"id": 1, "relevance": 1}])).status, 200);
}
