//! `boxwork top`: the figures of a run with `--metrics`, every second.

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::time::Duration;

use super::{data, say};
use crate::metrics::{client, parse_address};
use crate::terminal::Exit;
use crate::top::{Reading, table};

/// Shows the work of a run with --metrics, second by second
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The address given to the run, such as 9184 or 127.0.0.1:9184
    #[arg(value_name = "ADDRESS", value_parser = parse_address)]
    address: SocketAddr,
    /// Show it once and end
    #[arg(long)]
    once: bool,
    /// Seconds between two readings
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    interval: f64,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds is wanted".to_owned())?;
    if (0.05..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("from 0.05 to 3600 seconds".to_owned()) }
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Exit {
    let address = arguments.address;
    let mut before = match look(address) {
        Ok(reading) => reading,
        Err(client::Error::Connection(error)) => {
            say(format_args!(
                "error: no run is listening at {address}: {error}; start one with --metrics {}",
                address.port()
            ));
            return Exit::Failed;
        }
        Err(error) => {
            say(format_args!("error: {address}: {error}"));
            return Exit::Failed;
        }
    };
    let refreshes = !arguments.once && io::stdout().is_terminal();
    if refreshes {
        data(CLEAR);
    }
    loop {
        std::thread::sleep(Duration::from_secs_f64(arguments.interval));
        let Ok(after) = look(address) else {
            say(format_args!("the run has ended"));
            return if arguments.once { Exit::Failed } else { Exit::Ok };
        };
        let table = table(&before, &after);
        let shown = data(&if refreshes { over(&table) } else { table });
        if arguments.once || shown != Exit::Ok {
            return shown;
        }
        before = after;
    }
}

fn look(address: SocketAddr) -> Result<Reading, client::Error> {
    let page = client::scrape(address)?;
    Reading::new(&page).map_err(client::Error::Answer)
}

const CLEAR: &str = "\u{1b}[2J";

/// The table, replacing the last one: each line is cleared to its end, and the screen below too, without flicker.
fn over(table: &str) -> String {
    format!("\u{1b}[H{}\u{1b}[J", table.replace('\n', "\u{1b}[K\n"))
}
