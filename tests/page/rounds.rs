//! What a person does: bring a picture, like and dislike, get the next round, undo; by pointer and by keys alone.

use serde_json::json;

use super::browser::{Browser, DOWN, ENTER, ESCAPE, LEFT, RIGHT, TAB};
use super::site::{EVIL, Site, picture};

/// Whether a round with this number is on the page, and its pictures too.
pub fn round(number: u32) -> String {
    format!(
        "document.querySelector('h1')?.textContent === 'Round {number}' && document.querySelectorAll('.grid \
         .card').length === 12 && document.getElementById('view').getAttribute('aria-busy') !== 'true'"
    )
}

/// The names of the pictures in the grid.
const NAMES: &str =
    "[...document.querySelectorAll('.grid .picture')].map((button) => button.title).join('|')";

/// The relevance that the n-th picture shows.
fn relevance(nth: usize) -> String {
    format!("document.querySelectorAll('.grid .card')[{nth}].dataset.relevance")
}

fn card(nth: usize) -> String {
    format!(".grid .card:nth-child({}) .picture", nth + 1)
}

/// Opens the page and begins a session without a picture.
pub fn begun(browser: &Browser, address: &str) {
    browser.go(address);
    browser.until("document.querySelectorAll('.grid .card img').length >= 12");
    browser.click("#without");
    browser.until(&round(1));
}

#[test]
fn an_uploaded_picture_leads_to_rounds_and_undo_leads_back() {
    let Some(browser) = Browser::open("rounds after an upload") else { return };
    let site = Site::start();
    browser.go(&site.address());
    browser.until("document.querySelector('#file')");
    browser.choose("#file", &picture());
    browser.until(&round(1));
    let first = browser.value(NAMES);
    browser.click(&card(0));
    browser.shift_click(&card(1));
    browser.click(".grid .card:nth-child(3) [data-act=dislike]");
    assert_eq!(browser.value(&relevance(0)), "1");
    assert_eq!([browser.value(&relevance(1)), browser.value(&relevance(2))], ["0", "0"]);
    // The same mark again is taken back.
    browser.click(".grid .card:nth-child(3) [data-act=dislike]");
    assert_eq!(browser.value(&relevance(2)), "");
    assert_eq!(browser.value("document.querySelectorAll('[data-tray=kept] li').length"), 1);
    browser.click("#next");
    browser.until(&round(2));
    let second = browser.value(NAMES);
    assert_ne!(first, second);
    browser.until("document.getElementById('live').textContent.startsWith('Round 2, 12 new images')");
    let counts = "document.querySelector('.history li').textContent";
    assert_eq!(browser.value(counts), "Round 11 liked, 1 disliked");

    browser.click("#undo");
    browser.until(&round(1));
    assert_eq!(browser.value(NAMES), first);
    // The marks of the undone round are there, to be changed.
    assert_eq!([browser.value(&relevance(0)), browser.value(&relevance(1))], ["1", "0"]);
    browser.click("#redo");
    browser.until(&round(2));
    assert_eq!(browser.value(NAMES), second);
    browser.is_clean();
}

#[test]
fn a_picture_can_be_dropped_and_pasted() {
    let Some(browser) = Browser::open("drop and paste") else { return };
    let site = Site::start();
    for event in ["drop", "paste"] {
        browser.go(&site.address());
        browser.until("document.querySelectorAll('.grid .card img').length >= 12");
        browser.until("[...document.querySelectorAll('.card img')].some((image) => image.naturalWidth > 0)");
        let sent = browser.awaited(&format!(
            "(async () => {{ const blob = await (await fetch([...document.querySelectorAll('.card img')].find((image) => image.naturalWidth > 0).currentSrc)).blob(); const \
             data = new DataTransfer(); data.items.add(new File([blob], 'mine.jpg', {{ type: blob.type }})); const isDrop \
             = '{event}' === 'drop'; document.body.dispatchEvent(isDrop ? new DragEvent('drop', {{ dataTransfer: data, \
             bubbles: true, cancelable: true }}) : new ClipboardEvent('paste', {{ clipboardData: data, bubbles: true }})); \
             return 'sent'; }})()"
        ));
        assert_eq!(sent, "sent");
        browser.until(&round(1));
        assert_eq!(browser.value("document.querySelector('.query img').alt"), "mine.jpg");
    }
    browser.is_clean();
}

#[test]
fn a_file_that_is_no_picture_is_refused_with_words() {
    let Some(browser) = Browser::open("refused files") else { return };
    let site = Site::start();
    let folder = super::command::folder();
    browser.go(&site.address());
    browser.until("document.querySelector('#file')");
    for (name, said) in [("a.txt", "is no picture"), ("broken.png", ""), ("empty.png", "is empty")] {
        let bytes: &[u8] = if name == "empty.png" { b"" } else { b"\x89PNG\r\n\x1a\nno more" };
        std::fs::write(folder.path().join(name), bytes).expect("the file is written");
        browser.choose("#file", &folder.path().join(name));
        browser
            .until(&format!("document.querySelector('[role=alert]')?.textContent.includes({})", json!(said)));
        browser.click(".toast .round-button");
    }
    assert_eq!(browser.value("document.querySelectorAll('.toast').length"), 0);
    assert_eq!(browser.value("document.querySelector('h1').textContent"), "Find pictures by liking pictures");
    browser.is_clean();
}

#[test]
fn a_search_can_become_a_session() {
    let Some(browser) = Browser::open("search") else { return };
    let site = Site::start();
    browser.go(&site.address());
    browser.until("document.querySelector('#file')");
    browser.click(".modes label:last-child");
    browser.choose("#file", &picture());
    browser.until("document.querySelectorAll('.results .card').length === 48");
    let distances = "[...document.querySelectorAll('.note')].map((note) => Number(note.textContent))";
    let is_sorted = format!("(({distances})).every((one, idx, all) => idx === 0 || all[idx - 1] <= one)");
    assert_eq!(browser.value(&is_sorted), true);
    browser.click(&card(0));
    browser.shift_click(&card(47));
    browser.click("#next");
    browser.until(&round(1));
    // What was marked before the session counts in it.
    assert_eq!(browser.value("document.querySelectorAll('[data-tray=kept] li').length"), 1);
    assert_eq!(browser.value("document.querySelectorAll('[data-tray=disliked] li').length"), 1);
    browser.click("#next");
    browser.until(&round(2));
    // One picture more begins a session of its own.
    let address = browser.value("location.hash");
    browser.click(".grid .card:nth-child(2) [data-act=similar]");
    browser.until(&format!("location.hash !== {address} && {}", round(1)));
    browser.is_clean();
}

#[test]
fn all_can_be_done_by_keys() {
    let Some(browser) = Browser::open("keys") else { return };
    let site = Site::start();
    browser.go(&site.address());
    browser.until("document.querySelectorAll('.grid .card img').length >= 12");
    let mut presses = 0;
    while browser.value("document.activeElement.id") != "without" {
        browser.keys(&[TAB]);
        presses += 1;
        assert!(presses < 20, "Tab reaches the button");
    }
    browser.keys(&[ENTER]);
    browser.until(&round(1));
    let focused = "[...document.querySelectorAll('.grid .card')].findIndex((card) => \
                   card.contains(document.activeElement))";
    assert_eq!(browser.value(focused), 0);
    browser.keys(&['l', RIGHT, 'd', RIGHT, '2', DOWN, '3', LEFT, '1']);
    let columns = browser
        .value("getComputedStyle(document.querySelector('.grid')).gridTemplateColumns.split(' ').length");
    let columns = columns.as_u64().expect("a number") as usize;
    let shown: Vec<_> = [0, 1, 2, 2 + columns, 1 + columns].map(|nth| browser.value(&relevance(nth))).into();
    assert_eq!(shown, ["1", "0", "0.5", "0.75", "0.25"]);
    // The last one is undone and done again; Enter and Shift-Enter are like a click.
    browser.keys(&['u']);
    assert_eq!(browser.value(&relevance(1 + columns)), "");
    browser.keys(&['r', RIGHT, RIGHT, ENTER]);
    assert_eq!(
        [browser.value(&relevance(1 + columns)), browser.value(&relevance(3 + columns))],
        ["0.25", "1"]
    );
    browser.shift(ENTER);
    assert_eq!(browser.value(&relevance(3 + columns)), "0");
    browser.keys(&['w']);
    browser.until("document.querySelector('dialog[open] .estimate')");
    browser.keys(&[ESCAPE]);
    browser.until("!document.querySelector('dialog')");
    assert_eq!(browser.value(focused), 3 + columns);
    browser.keys(&['n']);
    browser.until(&round(2));
    assert_eq!(browser.value(focused), 0);
    // With nothing marked, undo takes the round back.
    browser.keys(&['u']);
    browser.until(&round(1));
    browser.keys(&['r']);
    browser.until(&round(2));
    assert_eq!(browser.value(focused), 0);
    browser.shift('?');
    browser.until("document.querySelector('dialog[open] .keys')");
    // Letters outside the grid can be turned off.
    browser.click("#keys");
    browser.keys(&[ESCAPE]);
    browser.until("!document.querySelector('dialog')");
    browser.keys(&['n', 'l']);
    assert_eq!(
        [browser.value(&relevance(0)), browser.value("document.querySelector('h1').textContent")],
        ["1", "Round 2"]
    );
    browser.is_clean();
}

#[test]
fn two_tabs_of_one_session_go_on_together() {
    let Some(browser) = Browser::open("two tabs") else { return };
    let site = Site::start();
    begun(&browser, &site.address());
    let address = browser.value("location.href");
    let [first, second] = browser.second_tab();
    browser.turn_to(&second);
    browser.go(address.as_str().expect("an address"));
    browser.until(&round(1));
    browser.click(&card(0));
    browser.click("#next");
    browser.until(&round(2));

    browser.turn_to(&first);
    browser.click(&card(5));
    let marked = browser.value("document.querySelectorAll('.grid .picture')[5].title");
    browser.click("#next");
    // The server refuses a round that is over; the page goes to the present one and keeps the mark.
    browser.until(&round(2));
    browser.until("document.querySelector('.toast')?.textContent.includes('went on elsewhere')");
    assert_eq!(browser.value("document.querySelectorAll('[data-tray=kept] li').length"), 2);
    browser.click("#next");
    browser.until(&round(3));
    let kept =
        "[...document.querySelectorAll('[data-tray=kept] button')].map((button) => button.title).join('|')";
    assert!(browser.value(kept).as_str().is_some_and(|kept| kept.contains(marked.as_str().expect("a name"))));
    browser.is_clean();
}

#[test]
fn settings_and_results_of_a_session() {
    let Some(browser) = Browser::open("settings") else { return };
    let site = Site::start();
    begun(&browser, &site.address());
    browser.run("window.saved = []; const make = URL.createObjectURL; URL.createObjectURL = (blob) => { blob.text().then((text) \
                 => saved.push(text)); return make.call(URL, blob); };");
    browser.click(&card(2));
    let name = browser.value("document.querySelectorAll('.grid .picture')[2].title");
    let name = name.as_str().expect("a name");
    browser.click(".share .tool:nth-child(1)");
    browser.click(".share .tool:nth-child(2)");
    let saved = browser.until("window.saved.length === 2 && window.saved");
    let csv = saved[0].as_str().expect("a text");
    assert!(
        csv.starts_with("id,name,class,relevance\r\n")
            && csv.contains(name.split('"').next().expect("a part"))
    );
    let liked: serde_json::Value =
        serde_json::from_str(saved[1].as_str().expect("a text")).expect("it is JSON");
    assert_eq!([&liked["liked"][0]["name"], &liked["liked"][0]["relevance"]], [&json!(name), &json!(1)]);

    // The slider and the filter are the session's, so they outlast the page.
    browser.run("const range = document.getElementById('explore'); range.value = '0.75'; range.dispatchEvent(new Event('change'));");
    browser.until("document.getElementById('next').getAttribute('aria-disabled') === 'false'");
    let class = browser.value("document.querySelector('#only option:nth-child(2)').value");
    browser.run("const only = document.getElementById('only'); only.selectedIndex = 1; only.dispatchEvent(new Event('change'));");
    browser.until("document.getElementById('next').getAttribute('aria-disabled') === 'false'");
    browser.click("#next");
    browser.until("document.querySelector('h1').textContent === 'Round 2'");
    let address = browser.value("location.href");
    browser.go("about:blank");
    browser.go(address.as_str().expect("an address"));
    browser.until("document.querySelector('h1')?.textContent === 'Round 2'");
    assert_eq!(browser.value("document.getElementById('explore').value"), "0.75");
    assert_eq!(browser.value("document.getElementById('only').value"), class);
    // A round from before, the ranking, and the start with this session in its list.
    browser.click(".history a");
    browser.until("document.querySelector('h1').textContent === 'Round 1'");
    browser.click(".tabs a:last-child");
    let of_class = browser.awaited(&format!(
        "(async () => {{ const store = (await (await fetch('/v1/stores')).json()).stores[0]; return store.classes.find(({{ name }}) \
         => name === {class}).objects; }})()"
    ));
    browser.until(&format!("document.querySelectorAll('.grid .note').length === {of_class}"));
    browser.click(".brand");
    browser.until("document.querySelector('.recent a')");
    browser.click(".recent a");
    browser.until("document.querySelector('h1').textContent === 'Round 2'");
    browser.is_clean();
}

#[test]
fn a_name_that_is_markup_is_text() {
    let Some(browser) = Browser::open("a name that is markup") else { return };
    let site = Site::start();
    browser.go(&site.address());
    browser.until("document.querySelectorAll('.grid .card img').length >= 12");
    let find = format!(
        "[...document.querySelectorAll('.grid .picture')].find((button) => button.title.endsWith({}))",
        json!(EVIL)
    );
    let class = browser.awaited(&format!(
        "(async () => {{ const store = (await (await fetch('/v1/stores')).json()).stores[0].name; const found = await (await \
         fetch(`/v1/stores/${{store}}/objects?limit=500`)).json(); return found.objects.find(({{ name }}) => \
         name.endsWith({})).class; }})()",
        json!(EVIL)
    ));
    browser.run(&format!("const select = document.getElementById('class'); select.value = {class}; select.dispatchEvent(new Event('change'));"));
    // Twelve drawn pictures of the class and the copy.
    browser.until("document.querySelectorAll('.grid .card').length === 13");
    browser.until(&find);
    browser.run(&format!("({find}).focus()"));
    browser.keys(&['l', 'w']);
    browser.until(&format!("document.querySelector('dialog h2')?.textContent.endsWith({})", json!(EVIL)));
    browser.keys(&[ESCAPE, 'n']);
    browser.until("document.querySelector('.session [data-tray=kept] li')");
    let made = browser.value("document.querySelectorAll('img[src=x], img[onerror]').length");
    assert_eq!([made, browser.value("document.title")], [json!(0), json!("Rounds, Boxwork")]);
    browser.is_clean();
}
