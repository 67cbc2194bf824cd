//! `what=round`: a whole round of one user, over HTTP.

use super::client::{Connection, Counts, post};
use super::support::{Arguments, verdict};
use super::world::World;

/// Objects of a round.
const BATCH: usize = 12;

pub fn run(world: &World, arguments: &Arguments) {
    let marks: usize = arguments.get("marks", 60);
    let sessions: usize = arguments.get("sessions", 11);
    assert!(marks >= BATCH, "a round has {BATCH} marks");
    println!("question    how long is a round with {marks} marks, whose earlier ones the server has seen?");
    let mut connection = Connection::new(world.at());
    let mut counts = Counts::default();
    let objects = world.objects();
    for session in 0..sessions {
        // Without a query, and with no mark but those that are made: their number is the one asked for.
        let begin = format!("{{\"seed\":{session},\"unmarked\":\"ignore\"}}");
        let begun = connection.ask(&post("/v1/stores/objects/sessions", &begin));
        assert_eq!(begun.status, 201, "{}", String::from_utf8_lossy(&begun.body));
        let mut state = begun.json();
        let path = format!("/v1/sessions/{}/rounds", state["session"].as_str().expect("a name"));
        let mut marked = 0;
        while marked < marks {
            let shown = state["round"]["objects"].as_array().expect("objects");
            // Every third one is liked. The last round brings the marks to the number asked for.
            let judged = shown.iter().take(marks - marked).enumerate().map(|(place, object)| {
                format!("{{\"id\":{},\"relevance\":{}}}", object["id"], u8::from(place % 3 == 0))
            });
            let judged: Vec<String> = judged.collect();
            marked += judged.len();
            let round = &state["round"]["round"];
            let answer = connection
                .ask(&post(&path, &format!("{{\"round\":{round},\"marks\":[{}]}}", judged.join(","))));
            assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
            state = answer.json();
            if marked == marks {
                counts.add(&answer);
            }
        }
    }
    counts = Counts::sum([counts]);
    let [first, half, most] = [0.0, 0.5, 1.0].map(|share| counts.percentile(share));
    println!("a round with {marks} marks: {first:.1} to {most:.1} ms, {sessions} sessions");
    let bar = if objects > 200_000 { 100.0 } else { 25.0 };
    verdict("a whole round, ms, p50", half, bar, half <= bar);
}
