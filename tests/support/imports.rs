//! Imports follow the order of `mod` lines: a module uses only modules that are declared before it, and its own children.
//!
//! Every `crate::`, `super::` and `self::` path counts, and every `use` of a module's own children; a name that a module
//! re-exports counts as its target. All modules may use items of the file above them (for example `super::Error`). Tests
//! are not checked. An order without upward imports has no circles, so this check suffices.
//!
//! A crate adopts it with a file `tests/imports.rs`; the path is right for a crate in a folder of the workspace's root:
//!
//! ```text
//! #[path = "../../tests/support/imports.rs"]
//! mod imports;
//!
//! #[test]
//! fn imports_follow_lib_rs() {
//!     imports::check(env!("CARGO_MANIFEST_DIR"), "src/lib.rs", &[]);
//! }
//! ```

mod tokens;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use tokens::{Token, end_of, end_of_item, tokens};

/// A module: its file, its children in order, the targets of its names, and its uses with their lines.
#[derive(Default)]
struct Module {
    file: PathBuf,
    children: Vec<String>,
    names: BTreeMap<String, Vec<String>>,
    uses: Vec<(usize, Vec<String>)>,
}

type Modules = BTreeMap<Vec<String>, Module>;

/// An import that points up.
pub struct Upward {
    /// The file, from the crate's folder.
    file: PathBuf,
    line: usize,
    /// The path that the import writes.
    used: String,
    /// The module into which the path leads, and the module above it that contains the import.
    other: String,
    own: String,
    /// The file that declares both.
    above: PathBuf,
}

impl fmt::Display for Upward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, used, other, own, above } = self;
        let (file, above) = (file.display(), above.display());
        write!(f, "{file}:{line}: `{used}` is of `{other}`, below `{own}` in {above}")
    }
}

/// Fails unless every import of a crate points down; names each upward import with its place and the two modules.
///
/// `exceptions` are known upward imports: a file, and the module below it that it imports. The list can only shrink: an
/// exception that no import needs fails too.
pub fn check(folder: &str, root: &str, exceptions: &[(&str, &str)]) {
    let is_known = |upward: &Upward, (file, module): &(&str, &str)| {
        upward.file == Path::new(file) && upward.other == *module
    };
    let upward = upward(Path::new(folder), root);
    let new: Vec<String> = upward
        .iter()
        .filter(|upward| !exceptions.iter().any(|exception| is_known(upward, exception)))
        .map(Upward::to_string)
        .collect();
    assert!(new.is_empty(), "{} imports point up:\n{}", new.len(), new.join("\n"));
    let is_stale = |exception: &&(&str, &str)| !upward.iter().any(|upward| is_known(upward, exception));
    let stale: Vec<_> = exceptions.iter().filter(is_stale).collect();
    assert!(stale.is_empty(), "no import needs these exceptions any more, remove them: {stale:?}");
}

/// The imports of a crate that point up.
pub fn upward(folder: &Path, root: &str) -> Vec<Upward> {
    let mut modules = Modules::new();
    read(&folder.join(root), Vec::new(), &mut modules);
    let within = |path: &Path| path.strip_prefix(folder).unwrap_or(path).to_owned();
    let mut found: Vec<Upward> = Vec::new();
    for (from, module) in &modules {
        for (line, used) in &module.uses {
            let to = resolve(&modules, used, 0);
            let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            let (Some(own), Some(other)) = (from.get(common), to.get(common)) else { continue };
            let above = &modules[&from[..common]];
            let place = |name: &String| above.children.iter().position(|child| child == name);
            if place(other) > place(own) {
                found.push(Upward {
                    file: within(&module.file),
                    line: *line,
                    used: used.join("::"),
                    other: other.clone(),
                    own: own.clone(),
                    above: within(&above.file),
                });
            }
        }
    }
    found.dedup_by(|a, b| a.to_string() == b.to_string());
    found
}

/// The module into which a path leads, after resolving re-exported names.
fn resolve(modules: &Modules, path: &[String], depth: usize) -> Vec<String> {
    let length = (0..=path.len()).rev().find(|length| modules.contains_key(&path[..*length])).unwrap_or(0);
    match path.get(length).and_then(|name| modules[&path[..length]].names.get(name)) {
        Some(means) if depth < 8 && means != path => resolve(modules, means, depth + 1),
        _ => path[..length].to_vec(),
    }
}

/// Reads a module's file, and the files of its children.
fn read(file: &Path, name: Vec<String>, modules: &mut Modules) {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let is_root = name.is_empty() || file.ends_with("mod.rs");
    let folder = if is_root { file.with_file_name("") } else { file.with_extension("") };
    let tokens = tokens(&text);
    read_items(&tokens, 0..tokens.len(), &name, (file, &folder), modules);
}

/// Reads the items of a module: those of a whole file, or between two braces of it.
fn read_items(
    tokens: &[Token<'_>],
    range: Range<usize>,
    name: &Vec<String>,
    (file, folder): (&Path, &Path),
    modules: &mut Modules,
) {
    modules.entry(name.clone()).or_default().file = file.to_owned();
    let word = |at: usize| tokens.get(at).map_or("", |token| token.1);
    let (mut at, mut uses) = (range.start, Vec::new());
    while at < range.end {
        match (word(at), word(at + 1)) {
            ("#", "[") => {
                let attribute = at + 1..end_of(tokens, at + 1);
                let has = |wanted: &str| tokens[attribute.clone()].iter().any(|token| token.1 == wanted);
                at = attribute.end;
                if has("cfg") && has("test") && !has("not") {
                    at = end_of_item(tokens, at);
                }
            }
            ("mod", child) if matches!(word(at + 2), ";" | "{") => {
                let path = [name.as_slice(), &[child.to_owned()]].concat();
                modules.entry(name.clone()).or_default().children.push(child.to_owned());
                let end = if word(at + 2) == "{" { end_of(tokens, at + 2) } else { at + 3 };
                if word(at + 2) == "{" {
                    read_items(tokens, at + 3..end - 1, &path, (file, &folder.join(child)), modules);
                } else {
                    let beside = folder.join(format!("{child}.rs"));
                    read(
                        &if beside.exists() { beside } else { folder.join(child).join("mod.rs") },
                        path,
                        modules,
                    );
                }
                at = end;
            }
            ("use", _) => at = read_path(tokens, at + 1, &[], true, &mut uses),
            ("crate" | "super" | "self", "::") => at = read_path(tokens, at, &[], false, &mut uses),
            _ => at += 1,
        }
    }
    for (line, is_use, alias, path) in uses {
        let module = modules.entry(name.clone()).or_default();
        let ups = path.iter().take_while(|word| *word == "super").count();
        let rest = path[ups..].to_vec();
        let full = match path[0].as_str() {
            "crate" => path[1..].to_vec(),
            "self" => [name.as_slice(), &path[1..]].concat(),
            "super" => [&name[..name.len() - ups], &rest].concat(),
            child if module.children.iter().any(|own| own == child) => [name.as_slice(), &path].concat(),
            _ => continue,
        };
        if is_use {
            module.names.insert(alias, full.clone());
        }
        module.uses.push((line, full));
    }
}

/// A path as written: its line, whether a `use` contains it, and the name that the `use` gives it.
type Written = (usize, bool, String, Vec<String>);

/// Reads a path, or the tree of paths of a `use`; returns the place behind it.
fn read_path(
    tokens: &[Token<'_>],
    from: usize,
    head: &[String],
    is_use: bool,
    to: &mut Vec<Written>,
) -> usize {
    let (mut path, mut at) = (head.to_vec(), from);
    let word = |at: usize| tokens.get(at).map_or("", |token| token.1);
    loop {
        if word(at) == "{" && is_use {
            let end = end_of(tokens, at);
            at += 1;
            while at + 1 < end {
                at = read_path(tokens, at, &path, true, to);
                // The comma.
                at += usize::from(at + 1 < end);
            }
            return end;
        }
        // `self` at the end of a tree is the module itself.
        if word(at) != "self" || path.is_empty() {
            path.push(word(at).to_owned());
        }
        at += 1;
        let continues = word(at) == "::"
            && (is_use || word(at + 1).starts_with(|x: char| x.is_alphanumeric() || x == '_'));
        if !continues {
            let alias = if word(at) == "as" { word(at + 1) } else { path.last().map_or("", |last| last) };
            to.push((tokens[from].0, is_use, alias.to_owned(), path));
            return if is_use && word(at) == "as" { at + 2 } else { at };
        }
        at += 1;
    }
}
