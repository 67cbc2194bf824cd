//! `what=users`: users who judge a picture a second.

use std::net::SocketAddr;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use super::client::{Connection, Counts, post};
use super::quick::seconds;
use super::support::memory::{anonymous_bytes, anonymous_bytes_max, megabytes};
use super::support::{Arguments, verdict};
use super::world::World;

const USERS: usize = 16;

pub fn run(world: &World, arguments: &Arguments) {
    let time = seconds(arguments, 20);
    println!("question    how long do {USERS} users wait, each of whom asks for a round every second?");
    let before = anonymous_bytes();
    let (counts, most) = anonymous_bytes_max(|| {
        let all_have_begun = &Barrier::new(USERS);
        std::thread::scope(|scope| {
            let user = |seed| scope.spawn(move || user(world.at(), seed, time, all_have_begun));
            let users: Vec<_> = (0..USERS).map(user).collect();
            Counts::sum(users.into_iter().map(|user| user.join().expect("a user")))
        })
    });
    counts.report("rounds", time);
    println!(
        "memory beside mapped pages: {:.0} MB before, {:.0} MB at most",
        megabytes(before),
        megabytes(most)
    );
    assert!(counts.statuses.keys().all(|status| *status == 200), "errors: {:?}", counts.statuses);
    let wait = counts.percentile(0.99);
    verdict("a round of 16 users, ms, p99", wait, 300.0, wait <= 300.0);
    verdict("memory beside mapped pages, MB", megabytes(most), 600.0, megabytes(most) <= 600.0);
}

/// Begins a session, waits for the others, and then likes the first and dislikes the last of each round.
fn user(at: SocketAddr, seed: usize, time: Duration, all_have_begun: &Barrier) -> Counts {
    let mut connection = Connection::new(at);
    let begin = format!("{{\"seed\":{seed},\"query\":[{{\"id\":{seed}}}]}}");
    let begun = connection.ask(&post("/v1/stores/objects/sessions", &begin));
    assert_eq!(begun.status, 201, "{}", String::from_utf8_lossy(&begun.body));
    let mut state = begun.json();
    let path = format!("/v1/sessions/{}/rounds", state["session"].as_str().expect("a name"));
    all_have_begun.wait();
    let (begun, mut counts) = (Instant::now(), Counts::default());
    for second in 0..time.as_secs() as u32 {
        // Users do not click at the same moment.
        let due = Duration::from_secs(1) * second + Duration::from_millis(62) * seed as u32;
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
        let objects = state["round"]["objects"].as_array().expect("objects");
        let (first, last) = (&objects[0]["id"], &objects[objects.len() - 1]["id"]);
        let round = &state["round"]["round"];
        let marks = format!(
            "{{\"round\":{round},\"marks\":[{{\"id\":{first},\"relevance\":1}},{{\"id\":{last},\"relevance\":0}}]}}"
        );
        let answer = connection.ask(&post(&path, &marks));
        counts.add(&answer);
        state = answer.json();
    }
    counts
}
