//! A `boxwork serve` of the test's own, and a client of it.
#![allow(dead_code, reason = "each test file uses its part")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value as Json;

/// The longest wait for an answer: a test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server; it is killed when it is dropped.
pub struct Served {
    pub child: Child,
    said: BufReader<ChildStderr>,
    pub address: SocketAddr,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The name of the problem.
    pub fn problem(&self) -> String {
        self.json()["type"]
            .as_str()
            .and_then(|kind| kind.strip_prefix("/problems/"))
            .expect("a problem")
            .to_owned()
    }
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
        request(self.address, method, path, headers, body).expect("an answer")
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

/// One request on a connection of its own; nothing if the server goes meanwhile.
pub fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[&str],
    body: Option<&[u8]>,
) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let has_host = headers.iter().any(|header| header.to_ascii_lowercase().starts_with("host:"));
    let host = if has_host { "" } else { "Host: localhost\r\n" };
    let more: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.map_or_else(String::new, |body| format!("Content-Length: {}\r\n", body.len()));
    let head = format!("{method} {path} HTTP/1.1\r\n{host}{more}{length}Connection: close\r\n\r\n");
    // A server that refuses early may close before all is sent.
    let _ = stream.write_all(&[head.as_bytes(), body.unwrap_or_default()].concat());
    let mut all = Vec::new();
    // A reset after the answer is its end.
    let _ = stream.read_to_end(&mut all);
    let at = all.windows(4).position(|end| end == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&all[..at]).into_owned();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, head, body: all[at + 4..].to_vec() })
}
