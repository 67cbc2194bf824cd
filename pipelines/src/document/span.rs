//! Places in a text: byte offsets, and lines and columns for users.

/// A piece of a text, by byte offsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

impl Span {
    /// From one byte up to another.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end: end.max(start) }
    }

    /// The smallest span that contains both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// The text at this place; `None` if the span does not fit the text.
    pub fn of(self, text: &str) -> Option<&str> {
        text.get(self.start..self.end)
    }

    /// This span, with both ends moved to character boundaries within a text.
    #[must_use]
    pub fn within(self, text: &str) -> Self {
        let floor = |at: usize| text.floor_char_boundary(at.min(text.len()));
        Self::new(floor(self.start), floor(self.end))
    }
}

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Marked<T> {
    /// The value.
    pub value: T,
    /// The place.
    pub span: Span,
}

impl<T> Marked<T> {
    /// A value at a place.
    pub fn new(value: T, span: Span) -> Self {
        Self { value, span }
    }
}

/// The line and column of a byte, both from 1; columns count characters.
pub fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(at.min(text.len()))];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    (line, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        assert_eq!(line_and_column("a\nbäß", 2), (2, 1));
        assert_eq!(line_and_column("a\nbäß", 5), (2, 3));
        assert_eq!(line_and_column("a\n", 99), (2, 1));
        assert_eq!(Span::new(4, 9).within("a\nbäß"), Span::new(3, 7));
    }
}
