//! Rounds of feedback over a real store: they follow the marks, and no answered round is lost, whatever ends the server.
#![cfg(unix)]

#[path = "support/command.rs"]
mod command;
#[path = "support/http.rs"]
mod http;
#[path = "support/served.rs"]
mod served;

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use command::ok;
use http::{Answer, asked};
use serde_json::{Value as Json, json};
use served::Served;

fn data() -> &'static Path {
    served::photos(20)
}

fn begin(served: &Served, body: Json) -> Json {
    let answer = served.post("/v1/stores/photos/sessions", &body);
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()
}

fn address(state: &Json) -> String {
    format!("/v1/sessions/{}", state["session"].as_str().expect("a name"))
}

fn mark(served: &Served, state: &Json, marks: Json) -> Answer {
    let round = state["round"]["round"].clone();
    served.post(&format!("{}/rounds", address(state)), &json!({"round": round, "marks": marks}))
}

fn objects(state: &Json) -> &Vec<Json> {
    state["round"]["objects"].as_array().expect("objects")
}

/// The marks of a person who likes one class.
fn liking(state: &Json, class: &str) -> Json {
    let mark = |object: &Json| json!({"id": object["id"], "relevance": if object["class"] == class { 1 } else { 0 }});
    objects(state).iter().map(mark).collect()
}

#[test]
fn a_session_learns_which_class_is_liked() {
    let served = Served::start(data(), &["--store", "photos.arrow"]);
    let first = &served.get("/v1/stores/photos/objects?limit=1").json()["objects"][0];
    let class = first["class"].as_str().expect("a class").to_owned();
    let mut state = begin(&served, json!({"seed": 3, "batch": 6, "query": [{"id": first["id"]}]}));
    let mut shown: Vec<u64> = Vec::new();
    for _ in 0..3 {
        shown.extend(objects(&state).iter().map(|object| object["id"].as_u64().expect("an id")));
        state = mark(&served, &state, liking(&state, &class)).json();
    }
    shown.sort_unstable();
    assert!(shown.windows(2).all(|pair| pair[0] < pair[1]), "nothing comes twice: {shown:?}");
    // Sample images of one class are alike, so most of what comes is liked.
    let liked =
        state["marks"].as_array().expect("marks").iter().filter(|mark| mark["relevance"] == 1.0).count();
    assert!(liked >= 9, "{liked} of 18, and a third by chance");
    let ranking = served.get(&format!("{}/ranking?limit=10", address(&state))).json();
    assert_eq!(ranking["total"], 60);
    let means: Vec<f64> = ranking["objects"]
        .as_array()
        .expect("objects")
        .iter()
        .map(|object| object["mean"].as_f64().expect("a mean"))
        .collect();
    assert!(means.windows(2).all(|pair| pair[0] >= pair[1]), "{means:?}");
    let id = objects(&state)[0]["id"].clone();
    let why = served.get(&format!("{}/objects/{id}/why", address(&state))).json();
    assert!(
        !why["marks"].as_array().expect("marks").is_empty()
            && why["marks"].as_array().expect("marks").len() <= 5
    );
    assert!(why["nearest_liked"][0]["distance"].as_f64().expect("a distance") >= 0.0, "{why}");
}

#[test]
fn a_round_without_likes_is_spread_and_a_small_store_ends() {
    let served = Served::start(data(), &["--store", "photos.arrow"]);
    let first = begin(&served, json!({"seed": 1, "batch": 8}));
    assert_eq!(objects(&first).len(), 8);
    let dislikes: Json =
        objects(&first).iter().map(|object| json!({"id": object["id"], "relevance": 0})).collect();
    let second = mark(&served, &first, dislikes).json();
    assert_eq!((objects(&second).len(), &second["exhausted"]), (8, &json!(false)));
    let class = objects(&first)[0]["class"].clone();
    let of_class = begin(&served, json!({"batch": 50, "class": class}));
    assert_eq!((objects(&of_class).len(), &of_class["exhausted"]), (20, &json!(true)));
    assert!(objects(&of_class).iter().all(|object| object["class"] == class));
}

#[test]
fn an_exported_log_gives_the_same_rounds_on_another_server() {
    let served = Served::start(data(), &["--store", "photos.arrow", "--workers", "1"]);
    let name = served.get("/v1/stores/photos/objects/7").json()["name"].as_str().expect("a name").to_owned();
    let picture = fs::read(data().join("photos").join(name)).expect("the picture");
    let found =
        served.send("POST", "/v1/stores/photos/search", &["Content-Type: image/jpeg"], Some(&picture)).json();
    let mut state =
        begin(&served, json!({"seed": 11, "batch": 5, "query": [{"token": found["query"]["token"]}]}));
    let class = objects(&state)[0]["class"].as_str().expect("a class").to_owned();
    for _ in 0..3 {
        state = mark(&served, &state, liking(&state, &class)).json();
    }
    served.post(&format!("{}/undo", address(&state)), &json!({}));
    let log = served.get(&format!("{}/log", address(&state)));
    drop(served);
    let other = Served::start(data(), &["--store", "photos.arrow", "--device", "cpu"]);
    let again = other.send(
        "POST",
        "/v1/stores/photos/sessions",
        &["Content-Type: application/jsonl"],
        Some(&log.body),
    );
    assert_eq!((again.status, &again.json()["replay"]), (201, &json!({"rounds": 4, "same": 4})));
    let copy = other.get(&format!("{}/log", address(&again.json()))).text();
    let rounds = |log: &str| -> Vec<Json> {
        let line =
            |line: &str| serde_json::from_str::<Json>(line).expect("JSON")["op"]["round"]["objects"].clone();
        log.lines().skip(1).map(line).filter(|objects| !objects.is_null()).collect()
    };
    assert_eq!(rounds(&copy), rounds(&log.text()), "to the bit");
}

/// Kills a server in the middle of its rounds, again and again: each round that was answered is there afterwards.
#[test]
fn no_answered_round_is_lost_when_the_server_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let logs = folder.path().join("sessions");
    let arguments = ["--store", "photos.arrow", "--sessions", logs.to_str().expect("UTF-8")];
    let mut served = Served::start(data(), &arguments);
    let mut state = begin(&served, json!({"seed": 1, "batch": 2}));
    for kill in 0..4 {
        let answered = AtomicUsize::new(0);
        let last = std::thread::scope(|scope| {
            let (answered, begun, at) = (&answered, &state, served.address);
            let client = scope.spawn(move || {
                let mut last = begun.clone();
                loop {
                    let body =
                        json!({"round": last["round"]["round"], "marks": liking(&last, "")}).to_string();
                    let json = ["Content-Type: application/json"];
                    let path = format!("{}/rounds", address(&last));
                    match asked(at, "POST", &path, &json, Some(body.as_bytes())) {
                        Ok(answer) if answer.status == 200 => last = answer.json(),
                        _ => return last,
                    }
                    answered.fetch_add(1, Ordering::SeqCst);
                }
            });
            while answered.load(Ordering::SeqCst) < 2 + kill {
                std::thread::yield_now();
            }
            served.child.kill().expect("killed");
            client.join().expect("a client")
        });
        served = Served::start(data(), &arguments);
        let now = served.get(&address(&state)).json();
        let (now_in, then_in) = (now["round"]["round"].as_u64(), last["round"]["round"].as_u64());
        assert!(now_in >= then_in, "round {now_in:?}, and {then_in:?} was answered");
        let number = &last["round"]["round"];
        assert_eq!(served.get(&format!("{}/rounds/{number}", address(&state))).json(), last["round"]);
        state = now;
    }
}

#[test]
fn on_a_full_disk_a_round_is_refused_and_nothing_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let logs = folder.path().join("sessions");
    let arguments = ["--store", "photos.arrow", "--sessions", logs.to_str().expect("UTF-8")];
    // Its distances are kept beside the store by a server that may write.
    drop(Served::start(data(), &arguments));
    // A write beyond 24 blocks fails like on a full disk.
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 24; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_boxwork"), "serve"]);
    let served = Served::of(&mut limited, data(), &arguments);
    let mut state = begin(&served, json!({"seed": 1, "batch": 12}));
    let refused = loop {
        let answer = mark(&served, &state, json!([]));
        if answer.status != 200 {
            break answer;
        }
        state = answer.json();
    };
    assert_eq!((refused.status, refused.problem().as_str()), (503, "log-unwritable"));
    assert_eq!(served.get(&address(&state)).json()["round"], state["round"]);
    assert_eq!(served.get("/healthz").status, 200);
    drop(served);
    let served = Served::start(data(), &arguments);
    assert_eq!(served.get(&address(&state)).json()["round"], state["round"]);
    assert_eq!(mark(&served, &state, json!([])).status, 200, "with room again it goes on");
}

#[test]
fn a_compacted_store_keeps_the_marks_by_their_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    fs::copy(data().join("photos.arrow"), at.join("photos.arrow")).expect("a copy");
    let served = Served::start(at, &["--store", "photos.arrow"]);
    let first = begin(&served, json!({"seed": 2, "batch": 6}));
    let class = objects(&first)[0]["class"].as_str().expect("a class").to_owned();
    let second = mark(&served, &first, liking(&first, &class)).json();
    let gone = objects(&first)[0]["name"].as_str().expect("a name").to_owned();
    ok(at, &["remove", "--store", "photos.arrow", &gone]);
    ok(at, &["compact", "--store", "photos.arrow"]);
    served.send("POST", "/v1/stores/photos/reload", &[], Some(b""));
    let now = served.get(&address(&first)).json();
    assert!(now["notices"].to_string().contains(&gone), "{now}");
    let names = |state: &Json| -> Vec<(Json, Json)> {
        let marks = state["marks"].as_array().expect("marks").iter();
        marks
            .filter(|mark| mark["name"] != json!(gone))
            .map(|mark| (mark["name"].clone(), mark["relevance"].clone()))
            .collect()
    };
    assert_eq!(names(&now), names(&second));
    let third = mark(&served, &now, json!([])).json();
    assert_eq!(third["round"]["round"], 3);
}

/// Figures of a process: threads, open files, resident bytes.
#[cfg(target_os = "linux")]
fn figures(pid: u32) -> (usize, usize, usize) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let of = |name: &str| -> usize {
        let line = status.lines().find(|line| line.starts_with(name)).expect("a line");
        line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
    };
    let files = fs::read_dir(format!("/proc/{pid}/fd")).expect("its files").count();
    (of("Threads:"), files, of("VmRSS:") << 10)
}

#[cfg(target_os = "linux")]
#[test]
fn sessions_and_requests_that_are_cut_off_leave_nothing() {
    let served = Served::start(data(), &["--store", "photos.arrow"]);
    let pid = served.child.id();
    let turn = |nth: usize| {
        let state = begin(&served, json!({"seed": nth, "batch": 3}));
        if nth.is_multiple_of(10) {
            // The client goes before its answer comes.
            let mut client = TcpStream::connect(served.address).expect("a connection");
            let body = "{\"query\":{\"id\":1}}";
            let head = format!(
                "POST /v1/stores/photos/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            client.write_all(head.as_bytes()).expect("sent");
        }
        assert_eq!(served.send("DELETE", &address(&state), &[], None).status, 204);
    };
    (0..60).for_each(turn);
    let settled = || {
        // Connections of clients that went are noticed soon after.
        while !served.get("/metrics").text().lines().any(|line| line == "boxwork_http_connections 1") {
            std::thread::yield_now();
        }
        figures(pid)
    };
    let (threads, files, bytes) = settled();
    (0..300).for_each(turn);
    let (threads_after, files_after, bytes_after) = settled();
    assert!(
        threads_after <= threads + 2 && files_after <= files,
        "{threads} {threads_after} {files} {files_after}"
    );
    assert!(bytes_after <= bytes + (24 << 20), "{bytes} {bytes_after}");
}
