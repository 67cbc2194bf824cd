//! A client of WebDriver (W3C Recommendation, 2018): JSON over loopback to the driver of a browser.
//!
//! Invariants: each call ends within [`CALL_S_MAX`]; what the driver says against a call is a panic with its words.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::{Value as Json, json};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

/// Longer than any script that the driver runs for us.
const CALL_S_MAX: u64 = 60;

/// The member of an answer that is an element (section 11).
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A connection to a driver, and a session of it once there is one.
pub struct Driver {
    runtime: Runtime,
    address: SocketAddr,
    session: String,
}

impl Driver {
    /// Opens a browser with these capabilities.
    pub fn open(port: u16, capabilities: &Json) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime for the driver's calls");
        let mut driver = Self { runtime, address: ([127, 0, 0, 1], port).into(), session: String::new() };
        let opened = driver.call(Method::POST, "/session", Some(capabilities));
        driver.session = opened["sessionId"].as_str().expect("a session has a name").to_owned();
        driver
    }

    /// A call of the session, such as `/url`.
    pub fn post(&self, path: &str, body: &Json) -> Json {
        self.call(Method::POST, &format!("/session/{}{path}", self.session), Some(body))
    }

    /// Reads something of the session.
    pub fn get(&self, path: &str) -> Json {
        self.call(Method::GET, &format!("/session/{}{path}", self.session), None)
    }

    /// The handle of the first element that a selector finds.
    pub fn find(&self, css: &str) -> String {
        let found = self.post("/element", &json!({ "using": "css selector", "value": css }));
        found[ELEMENT].as_str().expect("an element has a handle").to_owned()
    }

    /// An element as a value in a script or an action.
    pub fn element(handle: &str) -> Json {
        json!({ ELEMENT: handle })
    }

    /// Ends the session; the browser closes.
    pub fn close(&self) {
        let path = format!("/session/{}", self.session);
        let _ = self.runtime.block_on(self.send(Method::DELETE, &path, String::new()));
    }

    fn call(&self, method: Method, path: &str, body: Option<&Json>) -> Json {
        let body = body.map(Json::to_string).unwrap_or_default();
        let sent = self.send(method, path, body);
        let answer = self.runtime.block_on(async {
            let answer = tokio::time::timeout(Duration::from_secs(CALL_S_MAX), sent).await;
            answer.expect("the driver answers in time")
        });
        let (is_good, mut answer) = answer.unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(is_good, "{path}: {}", answer["value"]["message"].as_str().unwrap_or("no reason given"));
        answer["value"].take()
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<(bool, Json), Box<dyn std::error::Error>> {
        let stream = TcpStream::connect(self.address).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let request = Request::builder().method(method).uri(path);
        let request =
            request.header("host", self.address.to_string()).header("content-type", "application/json");
        let answer = sender.send_request(request.body(Full::new(Bytes::from(body)))?).await?;
        let is_good = answer.status().is_success();
        let bytes = answer.into_body().collect().await?.to_bytes();
        connection.abort();
        Ok((is_good, serde_json::from_slice(&bytes)?))
    }
}
