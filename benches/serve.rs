//! The cost of HTTP: the page, thumbnails, health under load, rounds of many users, overload, and what a server keeps.
//!
//! Unit: milliseconds and requests a second by the wall clock, over loopback; clients and server share the process and the
//! cores, so memory is that of both. Baselines are the bars of each row, printed beside its figure. The capacity for the
//! overload is measured in the same run: the rate at which as many clients as may compute and wait are answered.
//!
//! Not included: extraction and thumbnails that are made, which are the engine's work (`benches/extraction.rs`).

mod support;

#[path = "serve/client.rs"]
mod client;
#[path = "serve/world.rs"]
mod world;
#[path = "serve/quick.rs"]
mod quick;
#[path = "serve/round.rs"]
mod round;
#[path = "serve/users.rs"]
mod users;
#[path = "serve/overload.rs"]
mod overload;
#[path = "serve/lasting.rs"]
mod lasting;
#[path = "../tests/page/driver.rs"]
mod driver;
#[path = "../tests/page/browser.rs"]
#[allow(dead_code, reason = "the click uses a part of it")]
mod browser;
#[path = "serve/click.rs"]
mod click;

use support::{Arguments, print_machine};
use world::World;

const HELP: &str = "\
what=page       first byte of the page: requests=2000
what=thumbnails cached thumbnails: seconds=5
what=health     /healthz while all slots compute: seconds=5
what=round      a round of one user with many marks: marks=60 sessions=11
what=users      16 users, each of whom asks for a round every second: seconds=20
what=overload   four times the requests that the server can answer: seconds=20
what=sessions   sessions made and ended: sessions=10000
what=cut        requests of which a tenth is cut off: requests=20000
what=click      from a click on Next to twelve painted pictures, in Chromium: rounds=15
all: objects=20000 workers=2 (slots), or store=FILE, and sketch=FILE for rounds over large stores
several, parted by commas; the default is all but click";

fn main() {
    let names = [
        "what", "objects", "workers", "store", "sketch", "seconds", "requests", "sessions", "rounds", "marks",
    ];
    let arguments = Arguments::read(&names);
    let what = arguments
        .text("what")
        .unwrap_or("page,thumbnails,health,round,users,overload,sessions,cut")
        .to_owned();
    if what == "help" {
        println!("{HELP}");
        return;
    }
    print_machine();
    let world = World::new(&arguments);
    println!("store       {}", world.about());
    for what in what.split(',') {
        println!();
        match what {
            "page" => quick::page(&world, &arguments),
            "thumbnails" => quick::thumbnails(&world, &arguments),
            "health" => quick::health(&world, &arguments),
            "round" => round::run(&world, &arguments),
            "users" => users::run(&world, &arguments),
            "overload" => overload::run(&world, &arguments),
            "sessions" => lasting::sessions(&world, &arguments),
            "cut" => lasting::cut(&world, &arguments),
            "click" => click::run(&world, &arguments),
            other => {
                eprintln!("what={other} is no question of this bench: what=help lists them");
                std::process::exit(2);
            }
        }
    }
    assert!(world.server.stop(), "all requests ended");
}
