//! Two texts as pages of a run's figures, which another program may have sent: refused, or shown, and then nothing on them
//! steers the terminal.
#![no_main]

use boxwork::top::{Reading, table};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (before, after) = text.split_once("\n---\n").unwrap_or(("", text));
    let before = shown(Reading::new(before)).unwrap_or_default();
    let Some(after) = shown(Reading::new(after)) else { return };
    for change in [table(&before, &after), table(&after, &before), table(&after, &after)] {
        assert!(!change.is_empty() && !change.contains(|c: char| c.is_control() && c != '\n'));
    }
});

fn shown(reading: Result<Reading, String>) -> Option<Reading> {
    reading.map_err(|line| assert!(!line.contains(char::is_control), "{line:?}")).ok()
}
