//! `boxwork serve` over a small store of drawn pictures, one of which has a name that a careless page would run.
//!
//! Invariant: a server ends with its test.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use super::command::ok;

/// A name that is markup.
pub const EVIL: &str = "<img src=x onerror=\"document.title='run'\">.png";

/// Drawn pictures and their store, made once for all tests of this process.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder for the pictures");
        ok(&folder, &["sample-images", "images", "--classes", "6", "--per-class", "12", "--seed", "5"]);
        let first = first_picture(&folder.join("images"));
        fs::copy(&first, first.with_file_name(EVIL)).expect("a copy under a name that is markup");
        ok(&folder, &["extract", "images", "--out", "s.arrow", "--points", "300", "--seeds", "60"]);
        folder
    })
}

/// The first picture below a folder, by name.
fn first_picture(folder: &Path) -> PathBuf {
    let mut entries: Vec<_> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    let first = entries.into_iter().next().expect("something in the folder");
    if first.is_dir() { first_picture(&first) } else { first }
}

/// A picture to bring from outside.
pub fn picture() -> PathBuf {
    let mut classes: Vec<_> = fs::read_dir(folder().join("images"))
        .expect("the classes")
        .map(|entry| entry.expect("a class").path())
        .collect();
    classes.sort();
    first_picture(classes.last().expect("a class"))
}

/// A running server.
pub struct Site {
    process: Child,
    port: u16,
    sessions: tempfile::TempDir,
    flags: Vec<String>,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Site {
    /// Starts a server that keeps its sessions in a folder of its own.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with further flags.
    pub fn start_with(flags: &[&str]) -> Self {
        let sessions = tempfile::tempdir().expect("a folder for the sessions");
        let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        let (process, port) = serve(sessions.path(), 0, &flags);
        Self { process, port, sessions, flags }
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address of its page.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Ends it at once, as a loss of power would.
    pub fn stop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Starts it again, at the same address and with its sessions.
    pub fn start_again(&mut self) {
        (self.process, self.port) = serve(self.sessions.path(), self.port, &self.flags);
    }
}

fn serve(sessions: &Path, port: u16, flags: &[String]) -> (Child, u16) {
    let mut process = Command::new(env!("CARGO_BIN_EXE_boxwork"))
        .current_dir(folder())
        .args(["serve", "--store", "s.arrow", "--images", "images", "--listen", &format!("127.0.0.1:{port}")])
        // Tests go faster than a person.
        .args(["--rate", "0"])
        .arg("--sessions")
        .arg(sessions)
        .args(flags)
        .env("NO_COLOR", "1")
        .stderr(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let output = process.stderr.take().expect("the server's messages are read");
    let mut lines = BufReader::new(output).lines();
    let mut said = Vec::new();
    let port = lines.by_ref().map_while(Result::ok).find_map(|line| {
        let port = line
            .split_once("http://127.0.0.1:")
            .and_then(|(_, rest)| rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok());
        said.push(line);
        port
    });
    std::thread::spawn(move || lines.for_each(drop));
    (process, port.unwrap_or_else(|| panic!("the server says its address: {said:?}")))
}
