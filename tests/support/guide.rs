//! Pages of Markdown as the tests of the guide read them: titles with their anchors, links, and fenced blocks.

#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of the guide's pages.
pub fn src() -> PathBuf {
    root().join("docs/guide/src")
}

/// A page.
pub struct Page {
    pub path: PathBuf,
    pub text: String,
}

/// A block between two fences.
#[derive(Clone, Debug)]
pub struct Fence {
    /// The words after the opening fence, cut at commas: the language, then marks.
    pub words: Vec<String>,
    /// The line of the opening fence, from 1.
    pub line: usize,
    /// The lines between the fences.
    pub text: String,
    /// The last line before the block that is not empty.
    pub before: String,
    /// Whether only empty lines stand between this block and the one before.
    pub follows: bool,
}

impl Fence {
    pub fn language(&self) -> &str {
        &self.words[0]
    }

    pub fn is(&self, mark: &str) -> bool {
        self.words[1..].iter().any(|word| word == mark)
    }

    /// The value of a mark `name=value`.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }
}

impl Page {
    pub fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { path: path.to_owned(), text }
    }

    /// The path from the root of the repository.
    pub fn name(&self) -> String {
        self.path.strip_prefix(root()).unwrap_or(&self.path).display().to_string()
    }

    /// The blocks, in order.
    pub fn fences(&self) -> Vec<Fence> {
        let mut fences: Vec<Fence> = Vec::new();
        let (mut before, mut is_open, mut follows) = (String::new(), false, false);
        for (nth, line) in self.text.lines().enumerate() {
            match line.strip_prefix("```") {
                Some(_) if is_open => {
                    (is_open, follows) = (false, true);
                    before.clear();
                }
                Some(info) => {
                    let words = info.split(',').map(|word| word.trim().to_owned()).collect();
                    let before = std::mem::take(&mut before);
                    fences.push(Fence { words, line: nth + 1, text: String::new(), before, follows });
                    is_open = true;
                }
                None if is_open => {
                    let fence = fences.last_mut().expect("an open block");
                    fence.text.extend([line, "\n"]);
                }
                None if !line.trim().is_empty() => (before, follows) = (line.to_owned(), false),
                None => {}
            }
        }
        assert!(!is_open, "{}: a block is not closed", self.name());
        fences
    }

    /// The lines outside of blocks with their numbers.
    fn prose(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut is_open = false;
        let lines = self.text.lines().enumerate().map(|(nth, line)| (nth + 1, line));
        lines.filter(move |(_, line)| {
            let is_fence = line.starts_with("```");
            is_open ^= is_fence;
            !is_open && !is_fence
        })
    }

    /// The anchors of the titles, as mdBook makes them.
    pub fn anchors(&self) -> BTreeSet<String> {
        let mut anchors = BTreeSet::new();
        for (_, line) in self.prose() {
            let title = line.trim_start_matches('#');
            if title.len() == line.len() || !title.starts_with(' ') {
                continue;
            }
            let keep = |c: char| match c {
                c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c.to_ascii_lowercase()),
                c if c.is_whitespace() => Some('-'),
                _ => None,
            };
            let anchor: String = title.trim().chars().filter_map(keep).collect();
            let numbered = (1..).map(|nth| format!("{anchor}-{nth}"));
            let free = std::iter::once(anchor.clone()).chain(numbered).find(|name| !anchors.contains(name));
            anchors.extend(free);
        }
        anchors
    }

    /// The targets of links with their lines; parts between backticks are code.
    pub fn links(&self) -> Vec<(usize, String)> {
        let mut links = Vec::new();
        let text: Vec<(usize, &str)> = self.prose().collect();
        for (line, text) in text {
            // A title of a link may itself be code: its backticks do not hide the target.
            for (at, _) in text.match_indices("](") {
                let target = text[at + 2..].split(')').next().unwrap_or_default();
                let is_code = text[..at].matches('`').count() % 2 == 1;
                if !is_code {
                    links.push((line, target.to_owned()));
                }
            }
        }
        links
    }
}

/// All pages below a folder.
pub fn pages(folder: &Path) -> Vec<Page> {
    let mut pages = Vec::new();
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            pages.extend(self::pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(Page::read(&path));
        }
    }
    pages
}
