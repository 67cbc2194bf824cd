//! The words and signs of a Rust text, as far as paths need them.

/// A word or sign with its line.
pub type Token<'a> = (usize, &'a str);

/// The place behind the bracket that closes this one.
pub fn end_of(tokens: &[Token<'_>], from: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        depth +=
            i32::from(matches!(token.1, "(" | "[" | "{")) - i32::from(matches!(token.1, ")" | "]" | "}"));
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// The place behind an item: its semicolon or its braces.
pub fn end_of_item(tokens: &[Token<'_>], mut at: usize) -> usize {
    while let Some(token) = tokens.get(at) {
        match token.1 {
            ";" => return at + 1,
            "{" => return end_of(tokens, at),
            "(" | "[" => at = end_of(tokens, at),
            _ => at += 1,
        }
    }
    at
}

/// Words and signs without comments, texts and lifetimes; `::` is one sign.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let (mut found, mut line, mut rest) = (Vec::new(), 1, text);
    while let Some(first) = rest.chars().next() {
        let is_word = |x: char| x.is_alphanumeric() || x == '_';
        let hashes = rest.strip_prefix('r').map_or(0, |raw| raw.len() - raw.trim_start_matches('#').len());
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if first == 'r' && rest[1 + hashes..].starts_with('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            rest[2 + hashes..].find(&close).map_or(rest.len(), |end| 2 + hashes + end + close.len())
        } else if first == '"'
            || (first == '\'' && (rest[1..].starts_with('\\') || rest.chars().nth(2) == Some('\'')))
        {
            let mut is_escaped = true;
            let end = rest.char_indices().find(|(_, x)| {
                let closes = *x == first && !is_escaped;
                is_escaped = *x == '\\' && !is_escaped;
                closes
            });
            end.map_or(rest.len(), |(end, _)| end + 1)
        } else if is_word(first) {
            rest.find(|x| !is_word(x)).unwrap_or(rest.len())
        } else {
            if rest.starts_with("::") { 2 } else { first.len_utf8() }
        };
        let token = &rest[..length];
        if is_word(first) && !token.contains('"')
            || token == "::"
            || "#[](){};,<".contains(first) && length == 1
        {
            found.push((line, token));
        }
        line += token.matches('\n').count();
        rest = &rest[length..];
    }
    found
}
