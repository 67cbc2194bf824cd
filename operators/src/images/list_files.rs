//! `list_files`: lists the image files below some folders, in an order that does not depend on the disk.
//!
//! Invariants: files are in the order of the paths given, and byte-wise by name within each; no two files have equal
//! names; each folder is entered once, so a link that points back ends the walk there.

mod passed_over;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec, Out, Problem, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use self::passed_over::PassedOver;
use crate::columns;

/// Rows of an envelope: a reader's output for one envelope is kept until its turn, and photographs are large.
const FILES_PER_ENVELOPE: usize = 16;

/// The extensions by default.
const EXTENSIONS: [&str; 12] =
    ["jpg", "jpeg", "jpe", "jfif", "png", "apng", "bmp", "dib", "gif", "tif", "tiff", "webp"];

const FILES: Out = Out::new(0, "files", columns::files, "the files found, by name");

/// Lists image files.
///
/// A name is the file's path below the given folder, with `/` between its parts. A file directly in that folder gets
/// the folder's own name before it (`photos/cats` gives `cats/001.jpg`), so that the last folder of a name is always
/// the object's class. A path that is a file is taken whatever its extension.
///
/// Pictures of kinds that cannot be read (HEIC, AVIF, raw formats and others) are reported by their extension, and so are
/// files without extension that are not text. Other files, and files and folders whose names begin with a dot, are
/// counted in a note.
///
/// # Inputs
/// None.
///
/// # Outputs
/// `files`: path and name, 16 files per envelope.
///
/// # Parameters
/// `paths`: folders, searched with all subfolders, or files. `extensions`: the endings of names that count as images,
/// in upper or lower case.
pub static LIST_FILES: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "paths",
            ParameterType::List(&ParameterType::Path),
            Default::Required,
            "folders to search with all subfolders, or single files",
        ),
        Parameter::new(
            "extensions",
            ParameterType::List(&ParameterType::Text),
            Default::EmptyList,
            "the endings of files that count; by default jpg, jpeg, jpe, jfif, png, apng, bmp, dib, gif, tif, tiff, webp",
        ),
    ],
    outputs: &[FILES],
    example: "files: {kind: list_files, paths: [photos]}",
    ..OperatorSpec::new(
        "list_files",
        "Lists the image files below folders, in a fixed order.",
        Kind::Stateful,
        make,
    )
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let mut extensions: Vec<String> = bind
        .texts("extensions")
        .iter()
        .map(|extension| extension.trim_start_matches('.').to_ascii_lowercase())
        .collect();
    let mut chosen = true;
    if extensions.is_empty() {
        chosen = false;
        extensions = EXTENSIONS.iter().map(|extension| (*extension).to_owned()).collect();
    }
    let paths: Vec<PathBuf> = bind.texts("paths").into_iter().map(PathBuf::from).collect();
    if paths.is_empty() {
        return Err(BoxError::new("`paths` is empty: give at least one folder of images"));
    }
    Ok(Box::new(ListFiles {
        paths,
        extensions: Extensions { names: extensions, chosen },
        found: None,
        sent: 0,
    }))
}

/// The endings of names that count as images.
struct Extensions {
    names: Vec<String>,
    /// Whether the user has named them.
    chosen: bool,
}

struct ListFiles {
    paths: Vec<PathBuf>,
    extensions: Extensions,
    found: Option<Vec<Found>>,
    sent: usize,
}

impl Operator for ListFiles {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let found = match &self.found {
            Some(found) => found,
            None => {
                let listed = cx.detached("disk", || list(&self.paths, &self.extensions))??;
                for problem in listed.problems {
                    cx.report_all(problem);
                }
                if let Some(note) = listed.passed_over.note() {
                    cx.note(note);
                }
                self.found.insert(listed.files)
            }
        };
        let total = found.len() as u64;
        while self.sent < found.len() && cx.has_room(FILES) {
            let upto = found.len().min(self.sent + FILES_PER_ENVELOPE);
            let pushed = cx.push(FILES, envelope(&found[self.sent..upto])?)?;
            self.sent = upto;
            cx.progress(self.sent as u64, total);
            if pushed == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(if self.sent == found.len() { Flow::Done } else { Flow::Wait })
    }
}

/// The path and the name of every image file below a folder, in the order and with the names of the box.
///
/// # Errors
/// When the folder cannot be listed, or holds no image.
pub fn list_images(folder: &Path) -> Result<Vec<(PathBuf, String)>, BoxError> {
    let names = EXTENSIONS.iter().map(|extension| (*extension).to_owned()).collect();
    let listed = list(&[folder.to_owned()], &Extensions { names, chosen: false })?;
    Ok(listed.files.into_iter().map(|file| (PathBuf::from(file.path), file.name)).collect())
}

fn envelope(files: &[Found]) -> Result<Envelope, BoxError> {
    let paths = StringArray::from_iter_values(files.iter().map(|file| &file.path));
    let names = StringArray::from_iter_values(files.iter().map(|file| &file.name));
    let columns: [(&str, ArrayRef); 2] = [("path", Arc::new(paths)), ("name", Arc::new(names))];
    Ok(Envelope::from_columns(columns)?)
}

struct Found {
    path: String,
    name: String,
}

#[derive(Default)]
struct Listed {
    files: Vec<Found>,
    problems: Vec<Problem>,
    passed_over: PassedOver,
}

/// Lists all paths; the files of each by name.
fn list(paths: &[PathBuf], extensions: &Extensions) -> Result<Listed, BoxError> {
    let mut listed = Listed::default();
    let mut folders_seen = HashSet::new();
    for path in paths {
        let metadata = fs::metadata(path).map_err(|error| {
            BoxError::new(format!("`{}` cannot be listed: {error}; check the path", path.display()))
        })?;
        let before = listed.files.len();
        if metadata.is_file() {
            listed.add(path, prefixed(path, Path::new(path.file_name().unwrap_or_default())));
            continue;
        }
        let mut walk = Walk { root: path, extensions, folders_seen: &mut folders_seen, listed: &mut listed };
        let entered = walk.folder(path);
        if entered && listed.files.len() == before {
            return Err(listed.no_image(path, extensions));
        }
        listed.files[before..].sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
    }
    listed.problems.extend(listed.passed_over.problems());
    let files = std::mem::take(&mut listed.files);
    let mut places: HashMap<String, String> = HashMap::with_capacity(files.len());
    for file in files {
        match places.insert(file.name.clone(), file.path.clone()) {
            None => listed.files.push(file),
            Some(first) if is_same(&first, &file.path) => {}
            Some(first) => {
                return Err(BoxError::new(format!(
                    "`{first}` and `{}` would both be named `{}`: give the folder that holds both instead",
                    file.path, file.name
                )));
            }
        }
    }
    Ok(listed)
}

fn is_same(a: &str, b: &str) -> bool {
    a == b || matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

/// The file's name with its folder's before it.
fn prefixed(path: &Path, below: &Path) -> PathBuf {
    // The folder may be given as `.`: only the disk knows its name.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf());
    Path::new(folder.file_name().unwrap_or_default()).join(below)
}

impl Listed {
    fn add(&mut self, path: &Path, name: PathBuf) {
        match (path.to_str(), name.to_str()) {
            (Some(path), Some(name)) => {
                let name = if cfg!(windows) { name.replace('\\', "/") } else { name.to_owned() };
                self.files.push(Found { path: path.to_owned(), name });
            }
            _ => self.problem(path, "its name is not valid UTF-8: rename it"),
        }
    }

    fn problem(&mut self, path: &Path, message: impl ToString) {
        let (subject, message) = (path.display().to_string(), message.to_string());
        self.problems.push(Problem { subject, message, items: 1 });
    }

    fn no_image(&self, path: &Path, extensions: &Extensions) -> BoxError {
        let (folder, endings) = (path.display(), extensions.names.join(", "));
        let unread: Vec<String> = self
            .passed_over
            .problems()
            .filter(|problem| Path::new(&problem.subject).starts_with(path))
            .map(|problem| format!("; {}: {}", problem.subject, problem.message))
            .collect();
        BoxError::new(format!(
            "no image lies in `{folder}` or below it: looked for files that end in {endings}{}",
            unread.concat()
        ))
    }
}

struct Walk<'a> {
    root: &'a Path,
    extensions: &'a Extensions,
    folders_seen: &'a mut HashSet<PathBuf>,
    listed: &'a mut Listed,
}

impl Walk<'_> {
    /// Lists a folder; returns false if it was listed before.
    fn folder(&mut self, folder: &Path) -> bool {
        // An explicit stack: a deep tree must not overflow the thread's.
        let mut waiting = vec![folder.to_path_buf()];
        let mut is_new = false;
        while let Some(folder) = waiting.pop() {
            match fs::canonicalize(&folder) {
                Ok(real) => {
                    if !self.folders_seen.insert(real) {
                        continue;
                    }
                    is_new = true;
                }
                Err(error) => {
                    self.listed.problem(&folder, format!("the folder cannot be entered: {error}"));
                    continue;
                }
            }
            let mut folders = Vec::new();
            if let Err(error) = self.entries(&folder, &mut folders) {
                self.listed.problem(&folder, format!("the folder cannot be read: {error}"));
            }
            // The choice between two links to one folder must not depend on the disk's order.
            folders.sort_by(|a, b| b.as_os_str().cmp(a.as_os_str()));
            waiting.append(&mut folders);
        }
        is_new
    }

    fn entries(&mut self, folder: &Path, folders: &mut Vec<PathBuf>) -> std::io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            if hidden {
                self.listed.passed_over.hidden();
                continue;
            }
            // `metadata` follows links, as a user expects.
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_dir() => folders.push(path),
                Ok(metadata) if metadata.is_file() && self.counts(&path) => {
                    let below = path.strip_prefix(self.root).unwrap_or(&path);
                    let direct = below.components().count() == 1;
                    let name = if direct { prefixed(&path, below) } else { below.to_path_buf() };
                    self.listed.add(&path, name);
                }
                Ok(metadata) if metadata.is_file() => {
                    self.listed.passed_over.file(&path, self.extensions.chosen);
                }
                Ok(_) if self.counts(&path) => self.listed.problem(&path, "it is not a file"),
                Err(error) if self.counts(&path) => self.listed.problem(&path, error),
                // A pipe, a socket, a link to nothing: of no picture's ending.
                Ok(_) | Err(_) => self.listed.passed_over.special(),
            }
        }
        Ok(())
    }

    fn counts(&self, path: &Path) -> bool {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        self.extensions.names.iter().any(|extension| extension.eq_ignore_ascii_case(ending))
    }
}

#[cfg(test)]
mod tests {
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::parameter::Value;

    use super::*;

    fn folder_of(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"x").unwrap();
        }
        folder
    }

    fn paths(paths: &[&Path]) -> (&'static str, Value) {
        let values = paths.iter().map(|path| Value::Text(path.to_str().unwrap().to_owned()));
        ("paths", Value::List(values.collect()))
    }

    fn names(harness: &mut Harness) -> Vec<String> {
        let envelopes = harness.taken(FILES);
        envelopes
            .iter()
            .flat_map(|envelope| envelope.texts("name").unwrap().iter().map(|name| name.unwrap().to_owned()))
            .collect()
    }

    fn check(given: &[&Path], expected: &[&str]) -> Harness {
        let mut harness = Harness::new(&LIST_FILES, [paths(given)]).unwrap();
        harness.run().unwrap();
        assert!(harness.is_done());
        assert_eq!(names(&mut harness), expected);
        harness
    }

    fn check_error(given: &[&Path], words: &[&str]) {
        let error = Harness::new(&LIST_FILES, [paths(given)]).unwrap().run().unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }

    #[test]
    fn lists_by_name_and_passes_over_what_is_no_image() {
        let folder =
            folder_of(&["b/2.jpg", "b/10.jpg", "a/1.PNG", "a/notes.txt", "a/.hidden.jpg", ".git/x.png"]);
        let harness = check(&[folder.path()], &["a/1.PNG", "b/10.jpg", "b/2.jpg"]);
        assert_eq!(harness.progress(), (3, 3));
        assert_eq!(harness.detached(), ["disk"]);
        assert_eq!((harness.problems().len(), harness.notes().len()), (0, 1));
        assert_eq!(harness.notes()[0], "passed over 3 other files: 2 hidden, 1 txt");
    }

    #[test]
    fn pictures_that_cannot_be_read_are_reported() {
        let folder = folder_of(&["a/1.jpg", "a/2.HEIC", "b/3.heic", "b/4.nef"]);
        let harness = check(&[folder.path()], &["a/1.jpg"]);
        let told: Vec<_> =
            harness.problems().iter().map(|problem| (&problem.subject, problem.items)).collect();
        let heic = format!("{} and 1 more file that end in heic", folder.path().join("a/2.HEIC").display());
        let nef = folder.path().join("b/4.nef").display().to_string();
        assert_eq!(told, [(&heic, 2), (&nef, 1)]);
        assert!(harness.problems()[0].message.contains("convert them"), "{:?}", harness.problems());
        check_error(&[&folder.path().join("b")], &["no image", "4.nef: nef files are not read"]);
    }

    #[test]
    fn a_file_directly_in_the_folder_keeps_the_folders_name() {
        let folder = folder_of(&["cats/001.jpg", "dogs/001.jpg"]);
        check(&[&folder.path().join("cats")], &["cats/001.jpg"]);
        check(&[&folder.path().join("cats/001.jpg")], &["cats/001.jpg"]);
        check(
            &[&folder.path().join("dogs"), &folder.path().join("cats/")],
            &["dogs/001.jpg", "cats/001.jpg"],
        );
    }

    #[test]
    fn a_folder_given_twice_is_listed_once() {
        let folder = folder_of(&["cats/001.jpg", "cats/002.jpg"]);
        check(
            &[folder.path(), &folder.path().join("cats"), &folder.path().join("cats/001.jpg")],
            &["cats/001.jpg", "cats/002.jpg"],
        );
    }

    #[test]
    fn two_files_of_one_name_are_refused() {
        let folder = folder_of(&["x/cats/001.jpg", "y/cats/001.jpg"]);
        check_error(&[&folder.path().join("x"), &folder.path().join("y")], &["`cats/001.jpg`", "holds both"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_points_back_ends_the_walk() {
        let folder = folder_of(&["a/1.jpg", "b/2.jpg"]);
        std::os::unix::fs::symlink(folder.path(), folder.path().join("a/back")).unwrap();
        std::os::unix::fs::symlink("gone", folder.path().join("a/gone.jpg")).unwrap();
        let harness = check(&[folder.path()], &["a/1.jpg", "b/2.jpg"]);
        assert_eq!(harness.problems().len(), 1);
        assert!(harness.problems()[0].subject.ends_with("gone.jpg"));
    }

    #[test]
    fn nothing_to_list_is_an_error_that_says_what_was_looked_for() {
        let folder = folder_of(&["a/notes.txt"]);
        check_error(&[folder.path()], &["no image", "jpg, jpeg, jpe, jfif, png"]);
        check_error(&[&folder.path().join("b")], &["`", "/b` cannot be listed", "check the path"]);
        assert!(Harness::new(&LIST_FILES, [("paths", Value::List(vec![]))]).is_err());
    }

    #[test]
    fn waits_for_room_between_envelopes() {
        let files: Vec<String> = (0..150).map(|idx| format!("a/{idx:03}.jpg")).collect();
        let folder = folder_of(&files.iter().map(String::as_str).collect::<Vec<_>>());
        let mut harness = Harness::new(&LIST_FILES, [paths(&[folder.path()])]).unwrap();
        harness.room(1);
        let mut found = Vec::new();
        while !harness.is_done() {
            harness.run().unwrap();
            found.extend(names(&mut harness));
        }
        assert_eq!(found, files);
        assert_eq!(harness.firings, 10);
    }
}
