//! `what=click`: from a click on Next to twelve painted pictures, in Chromium.

use super::browser::Browser;
use super::support::{Arguments, Spread, verdict};
use super::world::World;

/// Whether a round is on the page with all of its pictures.
fn painted(round: usize) -> String {
    format!(
        "(() => {{ const images = [...document.querySelectorAll('.grid .card img')]; return \
         document.querySelector('h1')?.textContent === 'Round {round}' && images.length === 12 && \
         images.every((image) => image.complete && image.naturalWidth > 0); }})()"
    )
}

pub fn run(world: &World, arguments: &Arguments) {
    println!("question    how long is it from a click on Next to twelve painted pictures?");
    let Some(browser) = Browser::open("the click on Next") else { return };
    browser.go(&format!("http://{}/", world.at()));
    browser.until("document.querySelector('#without')");
    browser.click("#without");
    browser.until(&painted(1));
    let rounds: usize = arguments.get("rounds", 15);
    let times = (2..rounds + 2).map(|round| {
        browser.run("document.querySelector('.grid .card .picture').click();");
        // The second frame after the last picture begins when the first one was painted.
        let measured = browser.awaited(&format!(
            "new Promise((done) => {{ const begun = performance.now(); document.querySelector('#next').click(); const \
             look = () => {{ if ({}) requestAnimationFrame(() => requestAnimationFrame(() => \
             done(performance.now() - begun))); else setTimeout(look, 2); }}; look(); }})",
            painted(round)
        ));
        measured.as_f64().unwrap_or_else(|| panic!("{measured}"))
    });
    let times: Vec<f64> = times.collect();
    let spread = Spread::of(times.iter().copied());
    let worst = times.iter().copied().fold(0.0, f64::max);
    println!("click to painted: {spread:.0} ms in the middle half, {worst:.0} ms at most, {rounds} rounds");
    verdict("click on Next to twelve pictures, ms, p50", spread.median, 250.0, spread.median <= 250.0);
}
