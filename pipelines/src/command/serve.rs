//! `boxwork serve`: search, feedback and a page over HTTP.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use boxwork_runtime::operator::Catalog;
use boxwork_runtime::topology::Topology;
use boxwork_server::{Bound, Config, Limits, Log, openapi};

use super::{data, print_diagnostics, say};
use crate::engine::{Engine, Interrupts};
use crate::serving::{Opening, Pipelines, Stores};
use crate::terminal::Exit;

/// The least bytes of a token.
const TOKEN_BYTES_MIN: usize = 16;
/// Interval at which a stop is looked for.
const POLL: Duration = Duration::from_millis(50);

/// Serves search, rounds of feedback and a page over HTTP, on this machine unless another address is named
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A store; may be given many times. Its name in addresses is that of its file
    #[arg(long, value_name = "FILE", required_unless_present = "openapi")]
    store: Vec<PathBuf>,
    /// The index of the store; as many as stores, or none
    #[arg(long, value_name = "FILE")]
    pivots: Vec<PathBuf>,
    /// The sketches of the store, made by `boxwork sketch`, for rounds over more than 4096 objects; as many as stores, or none
    #[arg(long, value_name = "FILE")]
    sketch: Vec<PathBuf>,
    /// The codes of a store of vectors, made by `boxwork index --codes`, with which most distances are skipped; as many as stores, or none
    #[arg(long, value_name = "FILE")]
    codes: Vec<PathBuf>,
    /// The lists of a store of vectors, made by `boxwork lists`, for searches that ask for `probes`; as many as stores, or none
    #[arg(long, value_name = "FILE")]
    lists: Vec<PathBuf>,
    /// The folder in which the names of the store's objects are paths, for pictures; as many as stores, or one for all
    #[arg(long, value_name = "DIR")]
    images: Vec<PathBuf>,
    /// Give the original pictures too, and not only small ones
    #[arg(long, requires = "images")]
    originals: bool,
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", value_parser = parse_address)]
    listen: SocketAddr,
    /// A name of this server beside localhost, as browsers use it; may be given many times
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// A file with the token that clients must send; needed on other addresses than the loopback
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Serve anyone who reaches the address
    #[arg(long, conflicts_with = "token_file")]
    insecure_no_token: bool,
    /// The origin of another site whose pages may use this server, such as https://photos.example
    #[arg(long, value_name = "ORIGIN")]
    cors: Option<String>,
    /// A folder with pipelines of your own: search.yaml, auto.yaml, feedback.yaml
    #[arg(long, value_name = "DIR")]
    pipelines: Option<PathBuf>,
    /// The folder for the logs of sessions; without it, sessions end with the server
    #[arg(long, value_name = "DIR")]
    sessions: Option<PathBuf>,
    /// The folder that keeps small pictures; without it, they are kept in memory alone
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// The most bytes of that folder, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    cache_mib: u64,
    /// The steepness of the similarity [default: the store's]
    #[arg(long, value_name = "A")]
    alpha: Option<f64>,
    /// Where to compute: auto, cpu, gpu, or gpu: and the numbers of `boxwork devices`
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Slots to compute on [default: all logical cores that this process may use]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    workers: Option<u32>,
    #[command(flatten)]
    bounds: Bounds,
    /// Print the OpenAPI document and end
    #[arg(long)]
    openapi: bool,
}

/// The bounds that clients meet.
#[derive(Debug, clap::Args)]
struct Bounds {
    /// The largest JSON body, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=65536))]
    json_kib: u32,
    /// The largest picture, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=512))]
    image_mib: u32,
    /// Connections at once
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=65536))]
    connections: u32,
    /// Requests that compute at once [default: two for each slot]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    computing: Option<u32>,
    /// Requests that wait to compute; further ones are refused
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(0..=65536))]
    waiting: u32,
    /// Requests a second of one client; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 50)]
    rate: u32,
    /// Requests at once of one client after a pause
    #[arg(long, value_name = "N", default_value_t = 100)]
    burst: u32,
    /// Small pictures a second of one client; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 500)]
    picture_rate: u32,
    /// Seconds for the head of a request
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = seconds)]
    head_seconds: f64,
    /// Seconds for the body of a request
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = seconds)]
    body_seconds: f64,
    /// Seconds for an answer
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    deadline_seconds: f64,
    /// Seconds that a connection may rest between requests
    #[arg(long, value_name = "SECONDS", default_value_t = 75.0, value_parser = seconds)]
    keep_alive_seconds: f64,
    /// Seconds for requests under way when the server stops
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    stop_seconds: f64,
    /// Sessions in memory; those with logs are read again when they are used
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    sessions_max: u32,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds is wanted".to_owned())?;
    if (0.05..=86_400.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("from 0.05 to 86400 seconds".to_owned())
    }
}

/// An address as the user writes it: `8080`, `localhost:8080`, `127.0.0.1:8080`.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost:").or_else(|| text.strip_prefix(':')).unwrap_or(text);
    if let Ok(port) = port.parse() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    text.parse().map_err(|_| format!("`{text}` is no address; one is 8080, 127.0.0.1:8080 or [::1]:8080"))
}

impl Bounds {
    fn limits(&self, slots: usize) -> Limits {
        let usual = Limits::default().on_slots(slots);
        let seconds = Duration::from_secs_f64;
        Limits {
            json_bytes: (self.json_kib as usize) << 10,
            image_bytes: (self.image_mib as usize) << 20,
            connections: self.connections as usize,
            computing: self.computing.map_or(usual.computing, |computing| computing as usize),
            waiting: self.waiting as usize,
            rate: self.rate,
            burst: self.burst,
            thumbnail_rate: self.picture_rate,
            head: seconds(self.head_seconds),
            body: seconds(self.body_seconds),
            deadline: seconds(self.deadline_seconds),
            keep_alive: seconds(self.keep_alive_seconds),
            stop: seconds(self.stop_seconds),
            sessions: self.sessions_max as usize,
            ..usual
        }
    }
}

/// A fault of the call, or of the start.
struct Refused(Exit, String);

impl Refused {
    fn usage(message: impl Into<String>) -> Self {
        Self(Exit::Usage, message.into())
    }

    fn failed(message: impl Into<String>) -> Self {
        Self(Exit::Failed, message.into())
    }
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    if arguments.openapi {
        return data(&openapi::text());
    }
    let pipelines = Pipelines::load(arguments.pipelines.as_deref(), catalog, !arguments.pivots.is_empty());
    let pipelines = match pipelines {
        Ok(pipelines) => pipelines,
        Err(faults) => {
            print_diagnostics(&faults);
            return Exit::Problems;
        }
    };
    match serve(catalog, arguments, pipelines) {
        Ok(exit) => exit,
        Err(Refused(exit, message)) => {
            say(format_args!("error: {message}"));
            exit
        }
    }
}

fn serve(catalog: &Catalog, arguments: &Arguments, pipelines: Pipelines) -> Result<Exit, Refused> {
    let token = token(arguments)?;
    let openings = openings(arguments)?;
    let topology = Topology::detect();
    let topology =
        arguments.workers.map_or_else(|| topology.clone(), |workers| topology.first(workers as usize));
    let slots = topology.slots_count();
    let bound = Bound::new(arguments.listen).map_err(|error| {
        Refused::failed(format!(
            "{} cannot be listened on: {error}; choose another with --listen",
            arguments.listen
        ))
    })?;
    // Signals are counted from here on: the first stops the server, the second ends the process.
    let interrupts = Interrupts::listen();
    let refused = |error: std::io::Error| Refused::failed(format!("the server cannot start: {error}"));
    let engine = Arc::new(Engine::builder().topology(topology).maps(true).start().map_err(refused)?);
    let log = Log::to(|line| say(format_args!("{line}")));
    let stores = opened(&interrupts, &engine, catalog, pipelines, openings, &log)?;
    let Some(stores) = stores else {
        say(format_args!("interrupted before the stores were open"));
        return Ok(Exit::Interrupted);
    };
    let config = Config {
        hosts: arguments.host.clone(),
        token,
        cors: arguments.cors.clone(),
        originals: arguments.originals,
        sessions: arguments.sessions.clone(),
        limits: arguments.bounds.limits(slots),
        log,
        ..Config::new(arguments.listen)
    };
    let address = bound.address();
    let server = bound.serve(config, Arc::new(stores)).map_err(refused)?;
    say(format_args!("serving http://{address}/ (Ctrl-C ends it)"));
    while !interrupts.cancellation().is_asked() {
        std::thread::sleep(POLL);
    }
    say(format_args!("stopping: requests under way are answered first; a second signal ends at once"));
    let all_ended = server.stop();
    engine.cancel();
    say(format_args!("{}", if all_ended { "stopped" } else { "stopped: some requests were cancelled" }));
    Ok(Exit::Ok)
}

/// Opens the stores on a thread of their own, so that a signal stops it. Nothing if one came.
fn opened(
    interrupts: &Interrupts,
    engine: &Arc<Engine>,
    catalog: &Catalog,
    pipelines: Pipelines,
    openings: Vec<Opening>,
    log: &Log,
) -> Result<Option<Stores>, Refused> {
    std::thread::scope(|scope| {
        let opening =
            scope.spawn(|| Stores::open(Arc::clone(engine), catalog, pipelines, openings, log.clone()));
        while !opening.is_finished() {
            if interrupts.cancellation().is_asked() {
                engine.cancel();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        match opening.join() {
            _ if interrupts.cancellation().is_asked() => Ok(None),
            Ok(stores) => stores.map(Some).map_err(Refused::failed),
            Err(_) => Err(Refused::failed("the stores could not be opened")),
        }
    })
}

/// The token, if clients need one.
fn token(arguments: &Arguments) -> Result<Option<String>, Refused> {
    let is_local = arguments.listen.ip().is_loopback();
    let Some(path) = &arguments.token_file else {
        if is_local || arguments.insecure_no_token {
            return Ok(None);
        }
        let message = format!(
            "anyone who reaches {} could use the server: give --token-file FILE, or --insecure-no-token",
            arguments.listen
        );
        return Err(Refused::usage(message));
    };
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Refused::failed(format!("the token in {shown} cannot be read: {error}")))?;
    let token = text.trim();
    let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
    if token.len() < TOKEN_BYTES_MIN || !is_plain {
        let message = format!("the token in {shown} needs {TOKEN_BYTES_MIN} letters or more, without spaces");
        return Err(Refused::usage(message));
    }
    Ok(Some(token.to_owned()))
}

/// The name of a store in addresses: its file's, without endings.
fn name_of(path: &Path) -> String {
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let stem = [".signatures.arrow", ".arrow", ".jsonl"].iter().find_map(|ending| name.strip_suffix(ending));
    stem.unwrap_or(&name).to_owned()
}

fn openings(arguments: &Arguments) -> Result<Vec<Opening>, Refused> {
    let count = arguments.store.len();
    let Arguments { pivots, sketch, codes, lists, images, .. } = arguments;
    for (files, what) in [
        (pivots, "indexes"),
        (sketch, "files of sketches"),
        (codes, "files of codes"),
        (lists, "files of lists"),
    ] {
        if !files.is_empty() && files.len() != count {
            let message = format!("{} {what} for {count} stores: give one for each, or none", files.len());
            return Err(Refused::usage(message));
        }
    }
    if images.len() > 1 && images.len() != count {
        return Err(Refused::usage(format!(
            "{} folders of pictures for {count} stores: give one for each, or one",
            images.len()
        )));
    }
    if let Some(folder) = images.iter().find(|folder| !folder.is_dir()) {
        return Err(Refused::usage(format!("--images: {} is no folder", folder.display())));
    }
    let mut names = BTreeSet::new();
    let mut openings = Vec::new();
    for (idx, path) in arguments.store.iter().enumerate() {
        let name = name_of(path);
        if !names.insert(name.clone()) || name.is_empty() {
            return Err(Refused::usage(format!("two stores have the name `{name}`: rename one file")));
        }
        openings.push(Opening {
            name,
            path: path.clone(),
            pivots: pivots.get(idx).cloned(),
            sketch: sketch.get(idx).cloned(),
            codes: codes.get(idx).cloned(),
            lists: lists.get(idx).cloned(),
            images: images.get(idx).or_else(|| images.first()).cloned(),
            cache: arguments.cache.clone(),
            cache_bytes: arguments.cache_mib.saturating_mul(1 << 20),
            alpha: arguments.alpha,
            device: arguments.device.clone(),
            image_bytes: u64::from(arguments.bounds.image_mib) << 20,
        });
    }
    Ok(openings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_named_as_its_file() {
        for (path, name) in
            [("a/food7.arrow", "food7"), ("x.signatures.arrow", "x"), ("w.jsonl", "w"), ("y", "y")]
        {
            assert_eq!(name_of(Path::new(path)), name);
        }
    }

    #[test]
    fn addresses_are_of_this_machine_unless_another_is_named() {
        for text in ["8080", ":8080", "localhost:8080", "127.0.0.1:8080"] {
            assert_eq!(parse_address(text), Ok(SocketAddr::from(([127, 0, 0, 1], 8080))), "{text}");
        }
        assert!(parse_address("[::1]:9").is_ok() && parse_address("example.org:1").is_err());
    }
}
