//! Two texts as pages of a run's figures, which another program may have sent: refused, or shown, and then nothing on them
//! steers the terminal.
#![no_main]

use boxwork::top::{Figures, Reading, text};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|page: &str| {
    let (before, after) = page.split_once("\n---\n").unwrap_or(("", page));
    let before = shown(Reading::new(before)).unwrap_or_default();
    let Some(after) = shown(Reading::new(after)) else { return };
    for (before, after) in [(&before, &after), (&after, &before), (&after, &after)] {
        for width in [20, 80, 300] {
            let change = text(&Figures::between(before, after), width);
            assert!(!change.is_empty() && !change.contains(|c: char| c.is_control() && c != '\n'));
        }
    }
});

fn shown(reading: Result<Reading, String>) -> Option<Reading> {
    reading.map_err(|line| assert!(!line.contains(char::is_control), "{line:?}")).ok()
}
