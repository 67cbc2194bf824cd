//! A `boxwork serve` of the test's own, and a client of it.
#![allow(dead_code, reason = "each test file uses its part")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::OnceLock;

use serde_json::Value as Json;
use tempfile::TempDir;

use super::command::ok;
use super::http::{Answer, asked};

/// Drawn pictures of three classes in `photos`, this many of each, and their store `photos.arrow`; made once.
pub fn photos(per_class: usize) -> &'static Path {
    static DATA: OnceLock<(usize, TempDir)> = OnceLock::new();
    let make = || {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        ok(at, &["sample-images", "photos", "--classes", "3", "--per-class", &per_class.to_string()]);
        ok(at, &["extract", "photos", "--out", "photos.arrow"]);
        (per_class, folder)
    };
    let (made, folder) = DATA.get_or_init(make);
    assert_eq!(*made, per_class, "all tests of a file share the pictures");
    folder.path()
}

/// A running server; it is killed when it is dropped.
pub struct Served {
    pub child: Child,
    said: BufReader<ChildStderr>,
    pub address: SocketAddr,
}

impl Served {
    /// Starts `boxwork serve` in a folder on a free port, without limits of rate.
    pub fn start(folder: &Path, arguments: &[&str]) -> Self {
        Self::of(Command::new(env!("CARGO_BIN_EXE_boxwork")).arg("serve"), folder, arguments)
    }

    /// As [`Served::start`], by a command of the caller's.
    pub fn of(command: &mut Command, folder: &Path, arguments: &[&str]) -> Self {
        command
            .current_dir(folder)
            .args(["--rate", "0", "--picture-rate", "0"])
            .args(arguments)
            .env("NO_COLOR", "1")
            .stderr(Stdio::piped());
        for (option, value) in [("--listen", "0"), ("--workers", "2")] {
            if !arguments.contains(&option) {
                command.args([option, value]);
            }
        }
        // Dropping a `Served` ends the process and waits for it.
        #[expect(clippy::zombie_processes, reason = "each way out of the loop waits, here or in `drop`")]
        let mut child = command.spawn().expect("the command starts");
        let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut heard = String::new();
        loop {
            let mut line = String::new();
            if said.read_line(&mut line).expect("a line") == 0 {
                panic!("the server ended: {:?}, {heard}", child.wait());
            }
            if let Some(rest) = line.trim().strip_prefix("serving http://") {
                let address = rest.split('/').next().expect("an address").parse().expect("an address");
                return Self { child, said, address };
            }
            heard.push_str(&line);
        }
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], None)
    }

    pub fn post(&self, path: &str, body: &Json) -> Answer {
        let body = body.to_string();
        self.send("POST", path, &["Content-Type: application/json"], Some(body.as_bytes()))
    }

    pub fn send(&self, method: &str, path: &str, headers: &[&str], body: Option<&[u8]>) -> Answer {
        asked(self.address, method, path, headers, body).expect("an answer")
    }

    /// Sends a signal, and waits until the process ends. Returns its status, and what it has said.
    #[cfg(unix)]
    pub fn end_by(&mut self, signal: &str) -> (ExitStatus, String) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("kill").success());
        let mut said = String::new();
        self.said.read_to_string(&mut said).expect("text");
        (self.child.wait().expect("it ends"), said)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
