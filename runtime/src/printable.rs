//! Text that others wrote, made fit for a terminal.
//!
//! Invariant: no control character of a name, a file or a message reaches a terminal, and none that turns the direction
//! of text, so that no input can colour the terminal, move its cursor or pose as another text.

/// Whether a character could control a terminal, or turn the direction of text.
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A name, or a text of one line: each character that [`steers`] is replaced.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if steers(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// A text of several lines: as [`printable`], but line breaks stay, and a tab becomes a space.
pub fn printable_lines(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' => c,
        '\t' => ' ',
        c if steers(c) => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_replaced() {
        assert_eq!(
            printable("a\u{1b}[31mb\nc\td\u{7f}\u{9b}"),
            "a\u{fffd}[31mb\u{fffd}c\u{fffd}d\u{fffd}\u{fffd}"
        );
        assert_eq!(
            printable("evil\u{202e}gpj.exe\u{2066}\u{200f}\u{61c}\u{2028}"),
            "evil\u{fffd}gpj.exe\u{fffd}\u{fffd}\u{fffd}\u{fffd}"
        );
        assert_eq!(printable("K\u{fc}che \u{1f408} \u{5d0}"), "K\u{fc}che \u{1f408} \u{5d0}");
        assert_eq!(printable_lines("a\n\tb\r\u{1b}"), "a\n b\u{fffd}\u{fffd}");
    }
}
