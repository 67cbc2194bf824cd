//! The files below a folder that `list_files` does not list: pictures that cannot be read, and other files.
//!
//! Invariant: every file that is not listed is counted once, so that none is passed over in silence.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use boxwork_runtime::operator::Problem;

/// The endings of pictures that `decode` cannot read, and those that it reads only if a path names the file.
const PICTURES: [&str; 54] = [
    "3fr", "ari", "arw", "avif", "avifs", "cr2", "cr3", "crw", "cur", "dcr", "dds", "dng", "eps", "erf",
    "exr", "fff", "hdr", "heic", "heics", "heif", "heifs", "hif", "icns", "ico", "iiq", "j2k", "jp2", "jpf",
    "jpx", "jxl", "jxr", "kdc", "mef", "mos", "mrw", "nef", "nrw", "orf", "pbm", "pcx", "pef", "pgm", "pnm",
    "ppm", "psd", "qoi", "raf", "raw", "rw2", "sr2", "srw", "svg", "tga", "x3f",
];

/// The most endings of other files that a note names.
const ENDINGS_NAMED: usize = 8;

/// Bytes of a file without ending that tell whether it is text.
const TEXT_BYTES: u64 = 512;

/// The files passed over.
#[derive(Default)]
pub(super) struct PassedOver {
    /// The pictures that cannot be read, by their ending; an empty one for files without ending.
    pictures: BTreeMap<String, Unread>,
    /// The other files, by a few words.
    others: BTreeMap<String, u64>,
}

/// Pictures of one ending.
struct Unread {
    count: u64,
    /// The first by name, so that a message does not depend on the disk's order.
    first: PathBuf,
}

impl PassedOver {
    /// Counts a file or folder whose name begins with a dot.
    pub(super) fn hidden(&mut self) {
        self.other("hidden");
    }

    /// Counts an entry that is neither a file nor a folder, such as a pipe or a link to nothing.
    pub(super) fn special(&mut self) {
        self.other("not a file");
    }

    /// Counts a file that was not listed for its ending. `chosen` says that the user has named the endings that
    /// count; all others are then left alone on purpose.
    pub(super) fn file(&mut self, path: &Path, chosen: bool) {
        let ending =
            path.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default();
        let is_picture = match ending.as_str() {
            "" => !is_text(path),
            ending => PICTURES.contains(&ending),
        };
        if chosen || !is_picture {
            return self.other(if ending.is_empty() { "without an ending" } else { &ending });
        }
        let unread =
            self.pictures.entry(ending).or_insert_with(|| Unread { count: 0, first: path.to_owned() });
        unread.count += 1;
        if path < unread.first {
            path.clone_into(&mut unread.first);
        }
    }

    fn other(&mut self, words: &str) {
        match self.others.get_mut(words) {
            Some(count) => *count += 1,
            None => drop(self.others.insert(words.to_owned(), 1)),
        }
    }

    /// A problem for each ending of pictures that cannot be read.
    pub(super) fn problems(&self) -> impl Iterator<Item = Problem> + '_ {
        self.pictures.iter().map(|(ending, unread)| {
            let first = unread.first.display();
            let more = match unread.count - 1 {
                0 => String::new(),
                1 => " and 1 more file".to_owned(),
                more => format!(" and {more} more files"),
            };
            let (subject, message) = if ending.is_empty() {
                let message =
                    "without an ending, files of a folder are not read: give them one, such as .jpg";
                (format!("{first}{more} without an ending"), message.to_owned())
            } else {
                let message = format!("{ending} files are not read: convert them to JPEG or PNG");
                (format!("{first}{more} that end in {ending}"), message)
            };
            // One file needs no word on its ending.
            let subject = if unread.count == 1 { first.to_string() } else { subject };
            Problem { subject, message, items: unread.count }
        })
    }

    /// A sentence on the other files; nothing if there is none.
    pub(super) fn note(&self) -> Option<String> {
        let total: u64 = self.others.values().sum();
        if total == 0 {
            return None;
        }
        let mut others: Vec<(&str, u64)> =
            self.others.iter().map(|(words, count)| (words.as_str(), *count)).collect();
        others.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let named = &others[..others.len().min(ENDINGS_NAMED)];
        let mut listed: Vec<String> = named.iter().map(|(words, count)| format!("{count} {words}")).collect();
        let rest = total - named.iter().map(|(_, count)| count).sum::<u64>();
        if rest > 0 {
            listed.push(format!("{rest} of other endings"));
        }
        let plural = if total == 1 { "" } else { "s" };
        Some(format!("passed over {total} other file{plural}: {}", listed.join(", ")))
    }
}

/// Whether a file begins with text, or cannot be read at all.
fn is_text(path: &Path) -> bool {
    let mut first = Vec::new();
    let read = File::open(path).and_then(|file| file.take(TEXT_BYTES).read_to_end(&mut first));
    let is_utf8 = match std::str::from_utf8(&first) {
        Ok(_) => true,
        // The last character may be cut.
        Err(error) => error.error_len().is_none(),
    };
    read.is_err() || (is_utf8 && !first.contains(&0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(names: &[&str], chosen: bool) -> (Vec<(String, u64)>, Option<String>) {
        let mut passed = PassedOver::default();
        names.iter().for_each(|name| passed.file(Path::new(name), chosen));
        let problems = passed.problems().map(|problem| (problem.subject, problem.items)).collect();
        (problems, passed.note())
    }

    #[test]
    fn pictures_are_counted_by_ending_and_all_else_together() {
        let (problems, note) =
            counted(&["b.HEIC", "c.heic", "a.heic", "x.CR2", "d.txt", "e.TXT", "f.json"], false);
        let expected = [("x.CR2".to_owned(), 1), ("a.heic and 2 more files that end in heic".to_owned(), 3)];
        assert_eq!(problems, expected);
        assert_eq!(note.as_deref(), Some("passed over 3 other files: 2 txt, 1 json"));
    }

    #[test]
    fn endings_that_the_user_left_out_are_no_problem() {
        let (problems, note) = counted(&["a.heic"], true);
        assert!(problems.is_empty());
        assert_eq!(note.as_deref(), Some("passed over 1 other file: 1 heic"));
    }

    #[test]
    fn a_note_names_the_most_frequent_endings() {
        let names: Vec<String> =
            (0..20).flat_map(|ending| vec![format!("a.e{ending:02}"); 21 - ending]).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (_, note) = counted(&names, false);
        let note = note.unwrap();
        assert!(
            note.contains(": 21 e00, 20 e01, ") && note.ends_with("14 e07, 90 of other endings"),
            "{note}"
        );
    }

    #[test]
    fn a_file_without_ending_is_a_picture_unless_it_is_text() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str, content: &[u8]| {
            std::fs::write(folder.path().join(name), content).unwrap();
            folder.path().join(name)
        };
        assert!(is_text(&at("README", "K\u{fc}che".as_bytes())) && is_text(&at("empty", b"")));
        let long = format!("{}\u{fc}", "x".repeat(TEXT_BYTES as usize - 1));
        assert!(is_text(&at("long", long.as_bytes())));
        let photo = at("photo", b"\xff\xd8\xff\xe0\0\x10JFIF");
        assert!(!is_text(&photo) && !is_text(&at("zeros", &[0; 9])));
        let mut passed = PassedOver::default();
        passed.file(&photo, false);
        let problem = passed.problems().next().unwrap();
        assert!(problem.subject.ends_with("photo") && problem.message.contains("without an ending"));
    }
}
