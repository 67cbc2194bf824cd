//! `what=overload`: four times as many requests as the server can answer.
//!
//! The capacity is the rate at which as many clients as may compute and wait are answered, none of whom is refused. Then
//! four times as many clients ask for four times that rate.

use std::time::Duration;

use super::client::{Connection, load};
use super::quick::{search_of, seconds};
use super::support::memory::{anonymous_bytes, anonymous_bytes_max, megabytes};
use super::support::{Arguments, verdict};
use super::world::World;

/// The load, in capacities.
const TIMES: usize = 4;

pub fn run(world: &World, arguments: &Arguments) {
    let time = seconds(arguments, 20);
    println!("question    what happens at {TIMES} times the capacity for {} s?", time.as_secs());
    let request = |nth: usize| search_of(world.objects(), nth);
    let answer = Connection::new(world.at()).ask(&request(0));
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    let warm = time / 4;
    let capacity = load(world.at(), world.places, warm, Duration::ZERO, request);
    capacity.report("at capacity", warm);
    assert!(capacity.statuses.keys().all(|status| *status == 200), "{:?}", capacity.statuses);
    let rate = capacity.accepted.len() as f64 / warm.as_secs_f64();
    let clients = TIMES * world.places;
    let pause = Duration::from_secs_f64(clients as f64 / (TIMES as f64 * rate));
    let before = anonymous_bytes();
    let (over, most) = anonymous_bytes_max(|| load(world.at(), clients, time, pause, |nth| request(nth + 1)));
    over.report("overloaded", time);
    let after = anonymous_bytes();
    let (before, most, after) = (megabytes(before), megabytes(most), megabytes(after));
    println!("memory beside mapped pages: {before:.0} MB before, {most:.0} MB at most, {after:.0} MB after");
    assert!(over.statuses.keys().all(|status| [200, 429, 503].contains(status)), "{:?}", over.statuses);
    let ratio = over.percentile(0.99) / capacity.percentile(0.99);
    verdict("p99 of accepted over that at capacity", ratio, 2.0, ratio <= 2.0);
}
