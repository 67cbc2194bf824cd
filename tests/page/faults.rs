//! What goes wrong around the page: the server stops, is slow, is busy, refuses; the page keeps what a person did.

use serde_json::json;

use super::browser::Browser;
use super::proxy::Proxy;
use super::rounds::{begun, round};
use super::site::Site;

/// The pictures with a mark in the grid.
const MARKED: &str = "document.querySelectorAll('.grid .card:not([data-relevance=\"\"])').length";

#[test]
fn a_server_that_stops_in_a_round_costs_no_mark() {
    let Some(browser) = Browser::open("a server that stops") else { return };
    let mut site = Site::start();
    begun(&browser, &site.address());
    browser.click(".grid .card:nth-child(1) .picture");
    browser.click("#next");
    browser.until(&round(2));
    browser.click(".grid .card:nth-child(3) .picture");
    browser.shift_click(".grid .card:nth-child(4) .picture");
    site.stop();
    browser.click("#next");
    browser.until("document.querySelector('[role=alert]')?.textContent.includes('cannot be reached')");
    assert_eq!(browser.value("document.querySelector('h1').textContent"), "Round 2");
    assert_eq!(browser.value(MARKED), 2);
    site.start_again();
    browser.click("[role=alert] .toast-actions button");
    browser.until(&round(3));
    assert_eq!(browser.value("document.querySelectorAll('[data-tray=kept] li').length"), 2);
    browser.is_clean();
}

#[test]
fn a_slow_server_is_seen_to_work() {
    let Some(browser) = Browser::open("a slow server") else { return };
    let site = Site::start();
    let proxy = Proxy::start(site.port());
    begun(&browser, &proxy.address());
    let is_busy = "!document.getElementById('progress').hidden";
    assert_eq!(browser.value(is_busy), false);
    browser.click(".grid .card:nth-child(1) .picture");
    let release = proxy.hold();
    browser.click("#next");
    browser.until(is_busy);
    // A second press does nothing while the first one is on its way; a mark made meanwhile is for the next round.
    browser.keys(&['n']);
    browser.click(".grid .card:nth-child(2) .picture");
    release.send(()).expect("the request waits");
    browser.until(&round(2));
    browser.until(&format!("!({is_busy})"));
    assert_eq!(browser.value("document.querySelectorAll('[data-tray=kept] li').length"), 2);
    browser.click("#next");
    browser.until(&round(3));
    browser.is_clean();
}

#[test]
fn a_busy_server_is_waited_for_and_a_fault_is_told() {
    let Some(browser) = Browser::open("a busy server") else { return };
    let site = Site::start();
    let proxy = Proxy::start(site.port());
    begun(&browser, &proxy.address());
    for status in [503, 429] {
        let number = if status == 503 { 2 } else { 3 };
        proxy.refuse(status);
        browser.click(".grid .card:nth-child(1) .picture");
        browser.click("#next");
        browser.until("document.querySelector('[data-kind=wait]')?.textContent.includes('Trying again')");
        browser.until(&round(number));
        assert_eq!(browser.value("document.querySelectorAll('.toast').length"), 0);
    }
    proxy.refuse(500);
    browser.click(".grid .card:nth-child(1) .picture");
    browser.click("#next");
    browser.until("document.querySelector('[role=alert]')?.textContent.includes('A test wants this.')");
    assert_eq!(
        [browser.value(MARKED), browser.value("document.querySelector('h1').textContent")],
        [json!(1), json!("Round 3")]
    );
    assert!(proxy.is_idle());
    browser.click("[role=alert] .toast-actions button");
    browser.until(&round(4));
    browser.is_clean();
}

#[test]
fn offline_the_page_waits_for_the_connection() {
    let Some(browser) = Browser::open("offline") else { return };
    let site = Site::start();
    begun(&browser, &site.address());
    let network = |offline: bool| {
        let rest =
            json!({ "offline": offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1 });
        browser.tools("Network.enable", &json!({}));
        browser.tools("Network.emulateNetworkConditions", &rest);
    };
    network(true);
    browser.click(".grid .card:nth-child(1) .picture");
    browser.click("#next");
    browser
        .until("document.querySelector('[data-kind=wait]')?.textContent.includes('There is no connection')");
    assert_eq!(browser.value("document.querySelector('h1').textContent"), "Round 1");
    network(false);
    browser.until(&round(2));
    assert_eq!(browser.value("document.querySelectorAll('.toast').length"), 0);
    browser.is_clean();
}

#[test]
fn a_server_with_a_token_is_asked_with_it() {
    let Some(browser) = Browser::open("a token") else { return };
    let folder = super::command::folder();
    let file = folder.path().join("token");
    std::fs::write(&file, "a-token-of-this-test-0123456789\n").expect("the token is written");
    let site = Site::start_with(&["--token-file", &file.display().to_string()]);
    browser.go(&site.address());
    for token in ["wrong", "a-token-of-this-test-0123456789"] {
        browser.until("document.querySelector('dialog[open] #token')");
        browser.run(&format!("document.getElementById('token').value = '{token}'"));
        browser.click("dialog .primary");
    }
    // Pictures come by requests that carry the token.
    browser.until("[...document.querySelectorAll('.grid img')].filter(({ naturalWidth }) => naturalWidth > 0).length >= 12");
    browser.click("#without");
    browser.until(&round(1));
    // It stays in this tab, and in no address.
    assert_eq!(browser.value("localStorage.getItem('boxwork.token')"), json!(null));
    browser.is_clean();
}

#[test]
fn the_policy_of_the_page_is_kept_and_works() {
    let Some(browser) = Browser::open("the policy") else { return };
    let site = Site::start();
    begun(&browser, &site.address());
    browser.is_clean();
    // A script in the markup would be reported: the silence above is no accident.
    browser.run(
        "const script = document.createElement('script'); script.textContent = 'document.title = \"run\"'; \
                 document.body.append(script);",
    );
    assert_ne!(browser.value("document.title"), "run");
    let log = browser.log();
    assert!(log.iter().any(|line| line.contains("Content Security Policy")), "{log:?}");
}
