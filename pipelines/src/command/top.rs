//! `boxwork top`: the figures of a run with `--metrics`, every second.

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::time::Duration;

use boxwork_runtime::printable::printable;

use super::{data, data_json, say};
use crate::engine::signals::Interrupts;
use crate::metrics::{client, parse_address};
use crate::terminal::Exit;
use crate::top::{self, Figures, Reading, View};

/// The width of the tables where no terminal bounds it: each column fits.
const PIPE_WIDTH: usize = 300;

/// Shows the work of a run with --metrics, second by second
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The address given to the run, such as 9184 or 127.0.0.1:9184
    #[arg(value_name = "ADDRESS", value_parser = parse_address)]
    address: SocketAddr,
    /// Print the tables once and end
    #[arg(long)]
    once: bool,
    /// Print the figures as JSON
    #[arg(long, requires = "once")]
    json: bool,
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
    let first = match look(address) {
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
    let is_screen = !arguments.once && io::stdout().is_terminal() && io::stdin().is_terminal();
    if is_screen { on_screen(arguments, first) } else { as_text(arguments, first) }
}

fn look(address: SocketAddr) -> Result<Reading, client::Error> {
    let page = client::scrape(address)?;
    Reading::new(&page).map_err(client::Error::Answer)
}

/// The view with keys. A run that no longer answers is asked again until a key ends the command.
fn on_screen(arguments: &Arguments, first: Reading) -> Exit {
    let address = arguments.address;
    let interrupts = Interrupts::listen();
    let mut view = View::new(address.to_string());
    view.take(Ok(first));
    let look = move || look(address).map_err(|error| printable(&error.to_string()));
    let interval = Duration::from_secs_f64(arguments.interval);
    match top::show(view, Box::new(look), interval, || interrupts.cancellation().is_cancelled()) {
        Ok(()) => Exit::Ok,
        Err(error) => {
            say(format_args!("error: the terminal cannot be used: {error}; try --once"));
            Exit::Failed
        }
    }
}

/// The tables below each other, until the run ends.
fn as_text(arguments: &Arguments, mut before: Reading) -> Exit {
    loop {
        std::thread::sleep(Duration::from_secs_f64(arguments.interval));
        let Ok(after) = look(arguments.address) else {
            say(format_args!("the run has ended"));
            return if arguments.once { Exit::Failed } else { Exit::Ok };
        };
        let figures = Figures::between(&before, &after);
        let shown = match serde_json::to_value(&figures) {
            Ok(json) if arguments.json => data_json(&json),
            _ => data(&top::text(&figures, top::width_of_output().unwrap_or(PIPE_WIDTH))),
        };
        if arguments.once || shown != Exit::Ok {
            return shown;
        }
        before = after;
    }
}
