//! `boxwork new`: the crate of an operator of one's own, from the example in the source tree.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use boxwork_runtime::operator::Catalog;

use super::talk;
use crate::terminal::{Exit, say};

/// Makes the crate of an operator of your own
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Makes a folder with an operator, its test, a pipeline that uses it, and a command that knows it
    Operator {
        /// The name of the folder and of the operator: letters, digits, `-` and `_`
        name: String,
        /// A checkout of Boxwork to build with
        #[arg(long, value_name = "FOLDER", conflicts_with = "git")]
        path: Option<PathBuf>,
        /// A git repository of Boxwork to build with [default: the repository of this command]
        #[arg(long, value_name = "URL")]
        git: Option<String>,
    },
}

/// The files of the example: paths in the new folder, and texts.
const FILES: [(&str, &str); 6] = [
    ("Cargo.toml", include_str!("../../../examples/new-operator/Cargo.toml")),
    ("README.md", include_str!("../../../examples/new-operator/README.md")),
    ("pipeline.yaml", include_str!("../../../examples/new-operator/pipeline.yaml")),
    ("words.jsonl", include_str!("../../../examples/new-operator/words.jsonl")),
    ("src/lib.rs", include_str!("../../../examples/new-operator/src/lib.rs")),
    ("src/main.rs", include_str!("../../../examples/new-operator/src/main.rs")),
];

/// The new folder is a workspace of its own, also within another one. The example is a member of Boxwork's.
const WORKSPACE: &str =
    "\n# This folder is a workspace of its own, even if it lies within another one.\n[workspace]\n";

/// Names that cargo or the language refuses, crates that the new one uses, and names of its own text.
const RESERVED: [&str; 78] = [
    "abstract",
    "alloc",
    "arguments",
    "as",
    "async",
    "await",
    "become",
    "bind",
    "box",
    "box_error",
    "boxwork",
    "boxwork_runtime",
    "break",
    "build",
    "column",
    "const",
    "context",
    "continue",
    "core",
    "crate",
    "data_type",
    "deps",
    "descriptor",
    "do",
    "dyn",
    "else",
    "enum",
    "examples",
    "extern",
    "false",
    "final",
    "flow",
    "fn",
    "for",
    "gen",
    "harness",
    "if",
    "impl",
    "in",
    "incremental",
    "kept",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "operator",
    "operator_spec",
    "override",
    "parameter",
    "parameter_default",
    "parameter_type",
    "priv",
    "proc_macro",
    "pub",
    "ref",
    "results",
    "return",
    "self",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    let What::Operator { name, path, git } = &arguments.what;
    let made = check_name(catalog, name).and_then(|()| Source::new(path.as_deref(), git.as_deref()));
    let files = match made {
        Ok(source) => files(name, &source),
        Err(message) => {
            say(format_args!("error: {message}"));
            return Exit::Usage;
        }
    };
    if let Err(error) = write(Path::new(name), &files) {
        if error.kind() == io::ErrorKind::AlreadyExists {
            say(format_args!("error: `{name}` is there already: give another name"));
            return Exit::Usage;
        }
        say(format_args!("error: {name}: {error}"));
        return Exit::Failed;
    }
    talk(&format!(
        "wrote {name}: the operator is in {name}/src/lib.rs\n\n    cd {name}\n    cargo test\n    cargo run --features \
         command -- run pipeline.yaml --set queries=bitten\n"
    ));
    Exit::Ok
}

/// Whether a crate and an operator may have this name.
fn check_name(catalog: &Catalog, name: &str) -> Result<(), String> {
    let kind = name.replace('-', "_");
    let is_word = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_');
    if !is_word {
        return Err(format!(
            "`{name}` cannot be the name of a crate: it begins with a letter from a to z, and only these, digits, `-` \
             and `_` follow"
        ));
    }
    if RESERVED.contains(&kind.as_str()) {
        return Err(format!(
            "`{name}` cannot be the name of a crate: the language, cargo or the new crate's own text uses it"
        ));
    }
    match catalog.operator(&kind) {
        Some(_) => Err(format!("there is an operator `{kind}` already; give yours another name")),
        None => Ok(()),
    }
}

/// The source of Boxwork in the new crate's manifest.
enum Source {
    /// A checkout, by its absolute path.
    Path(String),
    /// A repository.
    Git(String),
}

impl Source {
    fn new(path: Option<&Path>, git: Option<&str>) -> Result<Self, String> {
        let Some(path) = path else {
            return Ok(Self::Git(git.unwrap_or(env!("CARGO_PKG_REPOSITORY")).to_owned()));
        };
        let shown = path.display();
        let absolute = fs::canonicalize(path).map_err(|error| format!("{shown}: {error}"))?;
        if !absolute.join("runtime/Cargo.toml").is_file() {
            return Err(format!("{shown} is no checkout of Boxwork: it has no runtime/Cargo.toml"));
        }
        let text = absolute.to_str().ok_or_else(|| format!("{shown} is not UTF-8, as a manifest is"))?;
        Ok(Self::Path(text.to_owned()))
    }

    /// The source of the crate in a folder of Boxwork, as `path = "..."` or `git = "..."`.
    fn of(&self, folder: &str) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        match self {
            Self::Git(url) => format!("git = {}", quoted(url)),
            Self::Path(path) if folder.is_empty() => format!("path = {}", quoted(path)),
            Self::Path(path) => format!("path = {}", quoted(&format!("{path}/{folder}"))),
        }
    }
}

/// The example's files with another name and another source of Boxwork.
fn files(name: &str, source: &Source) -> Vec<(&'static str, String)> {
    let kind = name.replace('-', "_");
    let camel: String = kind
        .split('_')
        .map(|word| {
            let (first, rest) = word.split_at(word.len().min(1));
            first.to_uppercase() + rest
        })
        .collect();
    // Placeholders that no name contains come first: a name or a path may contain a form of the example's name.
    let forms = [
        ("path = \"../../runtime\"", "\u{1}", source.of("runtime")),
        ("path = \"../..\"", "\u{2}", source.of("")),
        ("new-operator", "\u{3}", name.to_owned()),
        ("new_operator", "\u{4}", kind.clone()),
        ("NewOperator", "\u{5}", camel),
        ("NEW_OPERATOR", "\u{6}", kind.to_uppercase()),
    ];
    let named = |text: &str| {
        let marked = forms.iter().fold(text.to_owned(), |text, (form, mark, _)| text.replace(form, mark));
        forms.iter().fold(marked, |text, (_, mark, new)| text.replace(mark, new))
    };
    let mut files: Vec<_> = FILES.iter().map(|(file, text)| (*file, named(text))).collect();
    files[0].1 += WORKSPACE;
    files.push((".gitignore", "/target\n".to_owned()));
    files
}

/// Writes the files into a new folder.
fn write(folder: &Path, files: &[(&str, String)]) -> io::Result<()> {
    fs::create_dir(folder)?;
    fs::create_dir(folder.join("src"))?;
    for (file, text) in files {
        File::create_new(folder.join(file))?.write_all(text.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(files: &[(&'static str, String)], wanted: &str) -> String {
        files.iter().find(|(file, _)| *file == wanted).expect("a file").1.clone()
    }

    #[test]
    fn names_are_put_in_their_forms() {
        let files = files("keep-2_near", &Source::Git("https://example.org/b".to_owned()));
        let operator = text(&files, "src/lib.rs");
        assert!(operator.contains("pub static KEEP_2_NEAR: OperatorSpec"), "{operator}");
        assert!(
            operator.contains("struct Keep2Near {") && operator.contains("(\"keep_2_near\", "),
            "{operator}"
        );
        assert!(text(&files, "src/main.rs").contains("keep_2_near::KEEP_2_NEAR"));
        assert!(text(&files, "pipeline.yaml").contains("{kind: keep_2_near, "));
        let manifest = text(&files, "Cargo.toml");
        assert!(manifest.contains("boxwork = { git = \"https://example.org/b\", default"), "{manifest}");
        assert!(manifest.contains("name = \"keep-2_near\"") && !manifest.contains("../"), "{manifest}");
        assert!(files.iter().all(|(_, text)| !text.to_lowercase().contains("new_operator")));
    }

    #[test]
    fn the_example_is_what_the_command_makes() {
        let made = files("new-operator", &Source::Path("../..".to_owned()));
        for (file, example) in FILES {
            let expected =
                if file == "Cargo.toml" { format!("{example}{WORKSPACE}") } else { example.to_owned() };
            assert_eq!(text(&made, file), expected, "{file}");
        }
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        let catalog = boxwork_operators::catalog();
        for name in
            ["", "Near", "9near", "-near", "a b", "a/b", "..", "fn", "test", "top_k", "top-k", "größe"]
        {
            assert!(check_name(&catalog, name).is_err(), "{name}");
        }
        assert_eq!(check_name(&catalog, "near-2_x"), Ok(()));
    }
}
