//! How the page looks and reads: at 320 px and at a zoom of 200 %, in the dark, without motion, without JavaScript, and to
//! the checks of axe.

use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};

use super::browser::{Browser, ESCAPE, not_run};
use super::rounds::{begun, round};
use super::site::Site;

const COLUMNS: &str =
    "getComputedStyle(document.querySelector('.grid')).gridTemplateColumns.split(' ').length";
const OVERFLOW: &str = "document.documentElement.scrollWidth - document.documentElement.clientWidth";

#[test]
fn the_page_fits_any_width_and_does_not_jump() {
    let Some(browser) = Browser::open("widths") else { return };
    let site = Site::start();
    for (width, height, zoom, columns) in
        [(320, 640, 1.0, 2), (1280, 800, 2.0, 3), (1280, 800, 1.0, 4), (1600, 900, 1.0, 6)]
    {
        browser.size(width, height, zoom);
        browser.go(&site.address());
        browser.until("document.querySelectorAll('.grid .card img').length >= 12");
        assert_eq!(browser.value(OVERFLOW), 0, "the start at {width} x {zoom}");
        browser.click("#without");
        browser.until(&round(1));
        assert_eq!(
            [browser.value(COLUMNS), browser.value(OVERFLOW)],
            [json!(columns), json!(0)],
            "at {width} x {zoom}"
        );
        // Pictures come into space that is reserved for them.
        browser.until("[...document.querySelectorAll('.grid img')].every(({ complete, loading }) => complete || loading === 'lazy')");
        let shifts = "new Promise((done) => { new PerformanceObserver((list) => done(list.getEntries().filter(({ hadRecentInput \
                      }) => !hadRecentInput).reduce((sum, { value }) => sum + value, 0))).observe({ type: 'layout-shift', \
                      buffered: true }); requestAnimationFrame(() => requestAnimationFrame(() => done(0))); })";
        let shift = browser.awaited(shifts).as_f64().expect("a number");
        assert!(shift < 0.1, "things moved by {shift} at {width}");
        // Nothing to press is smaller than 24 px.
        let small = browser.value(
            "[...document.querySelectorAll('button, select, .bar input, nav a, label.primary')].filter((one) => { const { width, \
             height } = one.getBoundingClientRect(); return width > 0 && (width < 24 || height < 24); }).map((one) => one.outerHTML)",
        );
        assert_eq!(small, json!([]), "at {width} x {zoom}");
    }
    browser.is_clean();
}

#[test]
fn the_page_is_dark_and_still_as_the_system_or_the_person_wants() {
    let Some(browser) = Browser::open("dark") else { return };
    let site = Site::start();
    let ground = "getComputedStyle(document.documentElement).backgroundColor";
    browser.prefer("prefers-color-scheme", "light");
    browser.go(&site.address());
    browser.until("document.querySelector('.grid .card')");
    let light = browser.value(ground);
    browser.prefer("prefers-color-scheme", "dark");
    let dark = browser.until(&format!("{ground} !== {light} && {ground}"));
    // The switch: as the system, light, dark.
    browser.click("#theme");
    browser.until(&format!("{ground} === {light}"));
    browser.go(&site.address());
    browser.until(&format!("{ground} === {light}"));
    browser.prefer("prefers-color-scheme", "light");
    browser.click("#theme");
    browser.until(&format!("{ground} === {dark}"));
    browser.prefer("prefers-reduced-motion", "reduce");
    browser
        .until("getComputedStyle(document.getElementById('progress'), '::after').animationName === 'none'");
    browser.is_clean();
}

/// Where `./x test` puts axe-core.
fn axe() -> Option<String> {
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(target).join("tools/node_modules/axe-core/axe.min.js");
    let text = fs::read_to_string(&file);
    if text.is_err() {
        not_run(
            "the checks of axe",
            "axe-core; with Node and npm there, `./x test` puts it below target/tools",
        );
    }
    text.ok()
}

/// Checks what is on the page now.
fn check(browser: &Browser, axe: &str, screen: &str) {
    // Colours are judged when they have come to rest.
    browser.until("document.getAnimations().length === 0");
    browser.run(axe);
    let found = browser.awaited(
        "axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }).then(({ passes, \
         violations }) => ({ passes: passes.length, violations: violations.map(({ id, nodes }) => `${id}: \
         ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join()}`) }))",
    );
    assert!(found["passes"].as_u64().is_some_and(|passes| passes > 10), "axe looked at {screen}: {found}");
    assert_eq!(found["violations"], json!([]), "{screen}");
}

#[test]
fn axe_finds_nothing_on_any_screen() {
    let Some(axe) = axe() else { return };
    let Some(browser) = Browser::open("the checks of axe") else { return };
    let site = Site::start();
    for (scheme, width) in [("light", 1280), ("dark", 320)] {
        browser.prefer("prefers-color-scheme", scheme);
        browser.size(width, 800, 1.0);
        begun(&browser, &site.address());
        browser.go(&site.address());
        browser.until("document.querySelectorAll('.grid .card img').length >= 12 && document.querySelector('.recent a')");
        check(&browser, &axe, &format!("start, {scheme}"));
        browser.click("#without");
        browser.until(&round(1));
        browser.click(".grid .card:nth-child(1) .picture");
        browser.shift_click(".grid .card:nth-child(2) .picture");
        browser.keys(&['2']);
        check(&browser, &axe, &format!("grid, {scheme}"));
        browser.keys(&['w']);
        browser.until("document.querySelector('dialog[open] .estimate')");
        check(&browser, &axe, &format!("why, {scheme}"));
        browser.keys(&[ESCAPE]);
        browser.until("!document.querySelector('dialog')");
        browser.click("#help");
        browser.until("document.querySelector('dialog[open] .keys')");
        check(&browser, &axe, &format!("help, {scheme}"));
        browser.keys(&[ESCAPE]);
        browser.until("!document.querySelector('dialog')");
        browser.click(".tabs a:last-child");
        browser.until("document.querySelectorAll('.grid .note').length === 48");
        check(&browser, &axe, &format!("best so far, {scheme}"));
        browser.go(&format!("{}#session=none", site.address()));
        browser.until("document.querySelector('h1').textContent === 'This session is not there'");
        check(&browser, &axe, &format!("no session, {scheme}"));
        browser.go(&site.address());
        browser.until("document.querySelectorAll('.grid .card img').length >= 12");
        browser.choose("#file", &Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
        browser.until("document.querySelector('[role=alert]')");
        check(&browser, &axe, &format!("error, {scheme}"));
    }
    // The checks see what is wrong: dark text on a dark ground.
    browser.run("document.querySelector('h1').style.color = '#333'");
    browser.run(&axe);
    let found: Json = browser.awaited("axe.run().then(({ violations }) => violations.map(({ id }) => id))");
    assert!(found.as_array().is_some_and(|found| found.contains(&json!("color-contrast"))), "{found}");
}

#[test]
fn without_javascript_there_is_a_search() {
    let Some(browser) = Browser::open("no JavaScript") else { return };
    let site = Site::start();
    browser.tools("Emulation.setScriptExecutionDisabled", &json!({ "value": true }));
    browser.go(&site.address());
    // Nothing can be waited for without scripts, and nothing has to be: a page is complete when its load ends.
    let follow = |link: &str| {
        let address = browser.value(&format!("document.querySelector('{link}').href"));
        browser.go(address.as_str().expect("an address"));
    };
    follow("noscript a");
    assert_eq!(browser.value("document.querySelectorAll('form [name=name]').length"), 1);
    follow("ol a");
    let found = browser.value("document.querySelectorAll('ol li').length").as_u64();
    assert!(found.is_some_and(|found| found > 1), "{found:?}");
    browser.is_clean();
}
