//! Debian's Chromium, without a window, as a person would use it: real clicks and keys, and waiting for what is to be seen.
//!
//! Invariants: nothing sleeps for a fixed time, and every wait is bounded; a browser ends with its test.

use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use serde_json::{Value as Json, json};

use super::driver::Driver;

/// Names of the browser and of its driver on the systems that have them.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const DRIVERS: [&str; 2] = ["chromedriver", "chromium.chromedriver"];

/// Without a window there is a mouse only if one says so.
const MOUSE: &str =
    "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4";

/// The longest wait for something to be seen.
const WAIT_MS_MAX: u32 = 30_000;

/// Keys that are not letters (WebDriver, section 17.4.2).
pub const ENTER: char = '\u{e007}';
pub const TAB: char = '\u{e004}';
pub const SHIFT: char = '\u{e008}';
pub const ESCAPE: char = '\u{e00c}';
pub const LEFT: char = '\u{e012}';
pub const RIGHT: char = '\u{e014}';
pub const DOWN: char = '\u{e015}';

/// The path of a program that the system has.
fn on_path(names: &[&str]) -> Option<String> {
    let folders: Vec<_> = env::split_paths(&env::var_os("PATH")?).collect();
    let mut files = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    files.find(|file| file.is_file()).map(|file| file.display().to_string())
}

/// Whether a missing program is a failure: in continuous integration it is.
fn is_required() -> bool {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    is("CI", "true") || is("BOXWORK_REQUIRE_BROWSER", "1")
}

/// Says that a test was not run for want of something, and fails where it must run.
pub fn not_run(test: &str, reason: &str) {
    assert!(!is_required(), "{test} needs what is missing: {reason}");
    // Directly to standard error: the test harness hides the output of a test that passes.
    let _ = writeln!(std::io::stderr(), "NOT TESTED: {test}: {reason}");
}

/// A browser with one page open.
pub struct Browser {
    driver: Driver,
    process: Child,
    _profile: tempfile::TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.driver.close();
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Browser {
    /// Opens a browser; none where it is missing and may be.
    pub fn open(test: &str) -> Option<Self> {
        let (Some(browser), Some(program)) = (on_path(&BROWSERS), on_path(&DRIVERS)) else {
            let packages = "apt-get install -y --no-install-recommends chromium chromium-driver";
            not_run(test, &format!("Chromium and its driver; as root, type: {packages}"));
            return None;
        };
        let mut process = Command::new(program)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the driver starts");
        let port = port_of(&mut process);
        let profile = tempfile::tempdir().expect("a folder for the profile");
        // The sandbox needs rights that containers do not have, and all that is shown comes from this test.
        let folder = format!("--user-data-dir={}", profile.path().display());
        let arguments =
            ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", MOUSE, &folder];
        let capabilities = json!({ "capabilities": { "alwaysMatch": {
            "goog:loggingPrefs": { "browser": "ALL" },
            "goog:chromeOptions": { "binary": browser, "args": arguments },
            "timeouts": { "script": WAIT_MS_MAX + 5_000, "pageLoad": WAIT_MS_MAX },
        } } });
        let browser = Self { driver: Driver::open(port, &capabilities), process, _profile: profile };
        browser.size(1280, 800, 1.0);
        Some(browser)
    }

    /// Goes to an address.
    pub fn go(&self, address: &str) {
        self.driver.post("/url", &json!({ "url": address }));
    }

    /// The value of an expression in the page.
    pub fn value(&self, expression: &str) -> Json {
        self.driver.post("/execute/sync", &json!({ "script": format!("return ({expression});"), "args": [] }))
    }

    /// Runs statements in the page.
    pub fn run(&self, statements: &str) {
        self.driver.post("/execute/sync", &json!({ "script": statements, "args": [] }));
    }

    /// The value that a promise comes to.
    pub fn awaited(&self, promise: &str) -> Json {
        let script = format!(
            "const done = arguments[0]; ({promise}).then(done, (fault) => done(`fault: ${{fault}}`));"
        );
        self.driver.post("/execute/async", &json!({ "script": script, "args": [] }))
    }

    /// Waits until an expression in the page is true, and returns its value.
    ///
    /// # Panics
    /// When it stays false.
    pub fn until(&self, expression: &str) -> Json {
        let script = format!(
            "const done = arguments[0], end = Date.now() + {WAIT_MS_MAX}; const look = () => {{ let is; try {{ is = \
             ({expression}); }} catch {{ is = false; }} if (is) done(is); else if (Date.now() > end) done(null); else \
             setTimeout(look, 10); }}; look();"
        );
        let value = self.driver.post("/execute/async", &json!({ "script": script, "args": [] }));
        assert!(!value.is_null(), "it stays false: {expression}\nthe page: {}", self.text());
        value
    }

    /// What the page says at present, for the message of a failure.
    fn text(&self) -> String {
        let text = self.value("location.href + '\\n' + document.body.innerText").to_string();
        format!("{text}\nits log: {:?}", self.log())
    }

    /// Clicks the middle of an element.
    pub fn click(&self, css: &str) {
        self.click_with(css, None);
    }

    /// Clicks with Shift held.
    pub fn shift_click(&self, css: &str) {
        self.click_with(css, Some(SHIFT));
    }

    fn click_with(&self, css: &str, held: Option<char>) {
        let handle = self.driver.find(css);
        let scroll = "arguments[0].scrollIntoView({ block: 'center' });";
        self.driver.post("/execute/sync", &json!({ "script": scroll, "args": [Driver::element(&handle)] }));
        let pause = json!({ "type": "pause" });
        let key =
            |kind: &str| held.map_or(pause.clone(), |key| json!({ "type": kind, "value": key.to_string() }));
        let keys = [key("keyDown"), pause.clone(), pause.clone(), pause.clone(), key("keyUp")];
        let pointer = [
            pause.clone(),
            json!({ "type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": Driver::element(&handle) }),
            json!({ "type": "pointerDown", "button": 0 }),
            json!({ "type": "pointerUp", "button": 0 }),
            pause,
        ];
        self.driver.post(
            "/actions",
            &json!({ "actions": [
            { "type": "key", "id": "keys", "actions": keys },
            { "type": "pointer", "id": "mouse", "actions": pointer },
        ] }),
        );
    }

    /// Presses keys one after the other.
    pub fn keys(&self, keys: &[char]) {
        let press =
            |key: &char| ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key.to_string() }));
        let actions: Vec<Json> = keys.iter().flat_map(press).collect();
        self.driver
            .post("/actions", &json!({ "actions": [{ "type": "key", "id": "keys", "actions": actions }] }));
    }

    /// Presses a key with Shift held.
    pub fn shift(&self, key: char) {
        let event = |kind: &str, key: char| json!({ "type": kind, "value": key.to_string() });
        let actions =
            [event("keyDown", SHIFT), event("keyDown", key), event("keyUp", key), event("keyUp", SHIFT)];
        self.driver
            .post("/actions", &json!({ "actions": [{ "type": "key", "id": "keys", "actions": actions }] }));
    }

    /// Chooses a file in a field for files.
    pub fn choose(&self, css: &str, file: &std::path::Path) {
        let handle = self.driver.find(css);
        self.driver.post(&format!("/element/{handle}/value"), &json!({ "text": file.display().to_string() }));
    }

    /// Sets the window's inner size in CSS pixels; a zoom of 2 is half as many pixels at twice the density.
    pub fn size(&self, width: u32, height: u32, zoom: f64) {
        let metrics = json!({ "width": (f64::from(width) / zoom) as u32, "height": (f64::from(height) / zoom) as u32,
            "deviceScaleFactor": zoom, "mobile": false });
        self.tools("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// Sets what the system prefers, such as `prefers-color-scheme: dark`.
    pub fn prefer(&self, feature: &str, value: &str) {
        let features = json!({ "features": [{ "name": feature, "value": value }] });
        self.tools("Emulation.setEmulatedMedia", &features);
    }

    /// A command of the browser's own tools.
    pub fn tools(&self, command: &str, parameters: &Json) -> Json {
        self.driver.post("/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    /// Opens a second tab and returns the names of both.
    pub fn second_tab(&self) -> [String; 2] {
        let first = self.driver.get("/window");
        let second = self.driver.post("/window/new", &json!({ "type": "tab" }));
        let name = |value: &Json| value.as_str().expect("a tab has a name").to_owned();
        [name(&first), name(&second["handle"])]
    }

    /// Turns to a tab.
    pub fn turn_to(&self, tab: &str) {
        self.driver.post("/window", &json!({ "handle": tab }));
    }

    /// What the browser has logged since the last call: faults of scripts, blocked resources, failed requests.
    pub fn log(&self) -> Vec<String> {
        let log = self.driver.post("/se/log", &json!({ "type": "browser" }));
        let lines = log.as_array().expect("the log is a list");
        lines.iter().map(|line| format!("{} {}", line["source"], line["message"])).collect()
    }

    /// Checks that the page broke no rule of its policy and no script failed. Requests may have failed.
    pub fn is_clean(&self) {
        let mut lines = self.log();
        lines.retain(|line| !line.starts_with("\"network\""));
        assert!(lines.is_empty(), "{lines:#?}");
    }
}

/// The port that a driver says it listens on.
fn port_of(process: &mut Child) -> u16 {
    let output = process.stdout.take().expect("the driver's output is read");
    let mut lines = BufReader::new(output).lines();
    let port = lines
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| line.strip_suffix('.')?.rsplit_once("successfully on port ")?.1.parse().ok());
    // The rest is read away, or the driver would wait for a reader.
    std::thread::spawn(move || lines.for_each(drop));
    port.expect("the driver says its port")
}
