//! The markup of a page of results: its head, the settings of the search, a table of contents, and a figure an object.
//!
//! Invariant: no text from outside is taken for markup.

use std::path::Path;

use crate::resources::class_of;
use crate::results::sink::{Answer, Hit, exact_text};
use boxwork_stores::store::Store;

/// Names of a store that are compared to find out whether it has classes.
const NAMES_COMPARED: u64 = 256;

/// A picture as base64, and the address of its file.
#[derive(Clone)]
pub(crate) struct Picture {
    pub(crate) jpeg: String,
    pub(crate) address: String,
}

/// The start of the page: its title, and the settings by name.
pub(crate) fn head(title: &str, settings: &[(&str, String)]) -> String {
    let (title, style) = (escaped(title), include_str!("page.css"));
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"Boxwork {}\">\n\
         <title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n<header>\n<h1>{title}</h1>\n<dl>\n",
        env!("CARGO_PKG_VERSION")
    );
    for (name, value) in settings {
        text.push_str(&format!("<div><dt>{name}</dt><dd>{}</dd></div>\n", breakable(value)));
    }
    text + "</dl>\n</header>\n"
}

/// The table of contents of a request's answers; `part` is the request's place in its run.
pub(super) fn contents(answers: &[Answer], part: usize) -> String {
    let entry = |(idx, answer): (usize, &Answer)| {
        format!("<li><a href=\"#{}\">{}</a></li>\n", anchor(part, idx), breakable(&answer.query))
    };
    let entries: String = answers.iter().enumerate().map(entry).collect();
    format!("<nav aria-label=\"Queries\">\n<ul>\n{entries}</ul>\n</nav>\n")
}

fn anchor(part: usize, idx: usize) -> String {
    format!("query-{part}-{idx}")
}

/// The start of an answer, up to its list of objects; `at` is the place of the request and of the query in it.
pub(super) fn opening(
    answer: &Answer,
    at: (usize, usize),
    has_classes: bool,
    picture: Option<&Picture>,
) -> String {
    let others = answer.hits.iter().filter(|hit| hit.name != answer.query);
    let (mut right, mut count) = (0, 0);
    for hit in others {
        count += 1;
        right += usize::from(is_right(answer, hit));
    }
    let summary = match class_of(&answer.query) {
        _ if answer.hits.is_empty() => "Nothing found.".to_owned(),
        Some(class) if has_classes => {
            format!("{right} of {count} other images are of its class, {}.", escaped(class))
        }
        _ if count == 1 => "1 other image.".to_owned(),
        _ => format!("{count} other images."),
    };
    let (id, name, picture) = (anchor(at.0, at.1), breakable(&answer.query), tile(picture, &answer.query));
    format!(
        "<section id=\"{id}\">\n<h2>{name}</h2>\n<p class=\"summary\">{summary}</p>\n<div class=\"answer\">\n\
         <div class=\"query\"><figure><div class=\"picture\">{picture}</div><figcaption><b>Query</b></figcaption>\
         </figure></div>\n<ol>\n"
    )
}

/// The end of an answer.
pub(super) const CLOSING: &str = "</ol>\n</div>\n</section>\n";

/// The end of the page.
pub(crate) const FOOT: &str = "</main>\n</body>\n</html>\n";

/// An object of an answer.
pub(super) fn item(answer: &Answer, hit: &Hit, has_classes: bool, picture: Option<&Picture>) -> String {
    let (class, mark) = if hit.name == answer.query {
        ("", "<span class=\"mark\">itself</span>")
    } else if has_classes && is_right(answer, hit) {
        (" class=\"right\"", "<span class=\"mark\" title=\"same class as the query\">\u{2713}</span>")
    } else {
        ("", "")
    };
    let (rank, name, picture) = (hit.rank, breakable(&hit.name), tile(picture, &hit.name));
    let (exact, distance) = (exact_text(hit.distance), hit.distance);
    format!(
        "<li{class}><figure><div class=\"picture\">{picture}{mark}</div><figcaption><b>{rank}</b>\
         <span class=\"distance\" title=\"{exact}\">{distance:.4}</span><span class=\"name\">{name}</span>\
         </figcaption></figure></li>\n"
    )
}

/// The picture, which leads to its file.
pub(crate) fn tile(picture: Option<&Picture>, name: &str) -> String {
    let Some(Picture { jpeg, address }) = picture else {
        return "<span class=\"missing\">no picture</span>".to_owned();
    };
    format!(
        "<a href=\"{}\"><img src=\"data:image/jpeg;base64,{jpeg}\" alt=\"{}\" loading=\"lazy\"></a>",
        escaped(address),
        escaped(name)
    )
}

fn is_right(answer: &Answer, hit: &Hit) -> bool {
    class_of(&answer.query).is_some_and(|class| class_of(&hit.name) == Some(class))
}

/// Whether the objects of a store are of several classes, by names at equal distances: all objects of a folder without
/// folders in it have one class, which says nothing. Reads names.
pub(super) fn has_classes(store: &dyn Store) -> bool {
    let (objects, mut first) = (store.objects_count(), None);
    let compared = objects.min(NAMES_COMPARED);
    (0..compared).any(|idx| {
        let nth = if compared > 1 { (objects - 1) * idx / (compared - 1) } else { 0 };
        let Ok(name) = store.name(store.nth(nth)) else { return false };
        let class = class_of(&name).map(str::to_owned);
        *first.get_or_insert_with(|| class.clone()) != class
    })
}

/// The address of a file for a link. A relative path is that of the working directory.
pub(super) fn address_of(path: &Path) -> String {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let mut address = "file://".to_owned();
    for byte in whole.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => address.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => address.push(char::from(*byte)),
            byte => address.push_str(&format!("%{byte:02X}")),
        }
    }
    address
}

/// Text that a line breaks after a separator rather than anywhere; a file's ending stays with its name.
pub(crate) fn breakable(text: &str) -> String {
    let parts = text.split_inclusive(['/', '_', '-']).map(escaped);
    parts.collect::<Vec<_>>().join("<wbr>")
}

pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use boxwork_stores::signature_store::StoreInfo;
    use boxwork_stores::testing;

    #[test]
    fn names_break_at_separators_and_keep_their_ending() {
        assert_eq!(breakable("2019/IMG_1.jpg"), "2019/<wbr>IMG_<wbr>1.jpg");
        assert_eq!(breakable("a<b>-c"), "a&lt;b&gt;-<wbr>c");
        assert_eq!(breakable("šátek.png"), "šátek.png");
    }

    #[test]
    fn addresses_have_no_character_that_ends_them() {
        assert_eq!(address_of(Path::new("/a b/50%#\"é.jpg")), "file:///a%20b/50%25%23%22%C3%A9.jpg");
        let relative = address_of(Path::new("x.jpg"));
        assert!(relative.starts_with("file:///") && relative.ends_with("/x.jpg"), "{relative}");
    }

    #[test]
    fn only_folders_that_differ_are_classes() {
        let folder = tempfile::tempdir().unwrap();
        let store = |names: &[(&str, u64)]| testing::store_of(folder.path(), names, &StoreInfo::default());
        assert!(has_classes(&*store(&[("a/1", 1), ("a/2", 2), ("b/1", 3)])));
        assert!(!has_classes(&*store(&[("a/1", 1), ("a/2", 2)])));
        assert!(!has_classes(&*store(&[("1", 1), ("2", 2)])));
        assert!(!has_classes(&*store(&[("a/1", 1)])));
    }
}
