//! The record of a store's changes: the file under the store's name once the store has changed.
//!
//! ```text
//! boxwork changes 1
//! base 4000 1f3a9c-9c2e01bd photos.signatures.arrow.part-0       objects, fingerprint, file beside this one
//! added 12 5a08-01234567 photos.signatures.arrow.part-1
//! removed 3 2e-89abcdef photos.signatures.arrow.part-2
//! crc32 76543210                                                 of all lines above
//! ```
//!
//! The parts are written once, and the record is replaced as a whole: this renaming is the change. Each line holds the
//! part's fingerprint, so that a file of another store with that name is refused.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::StoreError;

/// The first bytes of a record, before its version.
pub(super) const MAGIC: &str = "boxwork changes ";
/// The version of the layout; other versions are refused.
const VERSION: &str = "1";
pub(super) use crate::store_error::CHANGES_MAX;
/// The most bytes of a record: a name has at most 255, and the rest of a line fewer.
pub(super) const BYTES_MAX: u64 = (CHANGES_MAX as u64 + 4) * 512;

/// The parts of a changed store, in the order of the changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    lines: Vec<Line>,
}

/// A part of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) kind: PartKind,
    /// Objects added or removed.
    pub(super) count: u64,
    pub(super) fingerprint: String,
    /// A name in the folder of the store.
    pub(super) file: String,
}

/// The effect of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartKind {
    /// The store file to which all changes apply.
    Base,
    /// A store file of more objects, with the next ids.
    Added,
    /// Ids of removed objects.
    Removed,
}

impl PartKind {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Base, "base"), (Self::Added, "added"), (Self::Removed, "removed")];

    fn word(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

impl Line {
    /// Appends the line in the format of a record.
    pub(super) fn write(&self, text: &mut String) {
        let Self { kind, count, fingerprint, file } = self;
        writeln!(text, "{} {count} {fingerprint} {file}", kind.word()).expect("a string takes any text");
    }
}

impl Manifest {
    /// A record of a store file without changes.
    pub(super) fn new(count: u64, fingerprint: &str, file: String) -> Self {
        let fingerprint = fingerprint.to_owned();
        Self { lines: vec![Line { kind: PartKind::Base, count, fingerprint, file }] }
    }

    /// Adds a change.
    pub(super) fn push(&mut self, line: Line) {
        self.lines.push(line);
    }

    /// The parts: the base, then the changes.
    pub(super) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The fingerprints of the store from the base on, each with its number of ids.
    ///
    /// Each depends on all lines before it, so equal fingerprints mean equal content.
    pub(super) fn history(&self) -> Vec<(String, u64)> {
        debug_assert!(self.lines[0].kind == PartKind::Base, "the base comes first");
        let base = &self.lines[0].fingerprint;
        let (mut hasher, mut ids) = (crc32fast::Hasher::new(), 0);
        let mut history = Vec::with_capacity(self.lines.len());
        for (place, Line { kind, count, fingerprint, .. }) in self.lines.iter().enumerate() {
            hasher.update(format!("{} {count} {fingerprint}\n", kind.word()).as_bytes());
            ids += if *kind == PartKind::Removed { 0 } else { *count };
            let checksum = hasher.clone().finalize();
            history.push(match place {
                0 => (base.clone(), ids),
                _ => (format!("{base}+{place}-{checksum:08x}"), ids),
            });
        }
        history
    }

    /// The text of the file.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{MAGIC}{VERSION}\n");
        self.lines.iter().for_each(|line| line.write(&mut text));
        let checksum = crc32fast::hash(text.as_bytes());
        writeln!(text, "crc32 {checksum:08x}").expect("a string takes any text");
        text
    }

    /// Reads a record. Returns `None` for any other file, and leaves it at its beginning.
    pub(super) fn of_file(path: &Path, mut file: &File) -> Result<Option<Self>, StoreError> {
        let io = |source| StoreError::Io { path: path.to_owned(), action: "read", source };
        let mut bytes = Vec::new();
        file.take(MAGIC.len() as u64).read_to_end(&mut bytes).map_err(io)?;
        if bytes != MAGIC.as_bytes() {
            file.seek(SeekFrom::Start(0)).map_err(io)?;
            return Ok(None);
        }
        file.take(BYTES_MAX).read_to_end(&mut bytes).map_err(io)?;
        Self::parse(path, &bytes).map(Some)
    }

    /// Parses the text of [`Manifest::text`].
    pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Self, StoreError> {
        let damaged = |place: &str, reason: &str| StoreError::Damaged {
            path: path.to_owned(),
            place: place.to_owned(),
            reason: reason.to_owned(),
        };
        let no_text = || damaged("its record of changes", "it is not text");
        let text = std::str::from_utf8(bytes).map_err(|_| no_text())?;
        let version = text.strip_prefix(MAGIC).and_then(|rest| rest.split('\n').next()).unwrap_or_default();
        if version != VERSION {
            return Err(StoreError::Version { path: path.to_owned(), found: version.to_owned() });
        }
        // The last line covers all lines before it; a truncated record ends with another line, or none.
        let cut = || StoreError::Truncated { path: path.to_owned() };
        let without_end = text.strip_suffix('\n').ok_or_else(cut)?;
        let (_, last) = without_end.rsplit_once('\n').ok_or_else(cut)?;
        let wanted = last.strip_prefix("crc32 ").ok_or_else(cut)?;
        let covered = &text[..text.len() - last.len() - 1];
        if format!("{:08x}", crc32fast::hash(covered.as_bytes())) != wanted {
            return Err(damaged("its record of changes", "the checksum differs from the one written"));
        }
        let lines: Option<Vec<Line>> = covered.lines().skip(1).map(read_line).collect();
        let unclear = || damaged("its record of changes", "a line does not describe a part");
        let lines = lines.ok_or_else(unclear)?;
        let is_base = |line: &Line| line.kind == PartKind::Base;
        if lines.len() > CHANGES_MAX + 1
            || !lines.first().is_some_and(is_base)
            || lines.iter().skip(1).any(is_base)
        {
            return Err(unclear());
        }
        // So that no later sum of counts overflows.
        let total = lines.iter().try_fold(0u64, |total, line| total.checked_add(line.count));
        total.filter(|total| *total <= i64::MAX as u64).ok_or_else(unclear)?;
        Ok(Self { lines })
    }
}

/// The lines of a text that name a part; others are ignored.
pub(super) fn lines_in(text: &str) -> Vec<Line> {
    text.lines().filter_map(read_line).collect()
}

/// The file names in a record, sound or damaged; `None` for a text that is no record of this version, since another
/// version may name files differently.
pub(super) fn names_in(text: &str) -> Option<impl Iterator<Item = &str>> {
    let (version, lines) = text.strip_prefix(MAGIC)?.split_once('\n')?;
    (version == VERSION).then(|| lines.lines().filter_map(|line| line.splitn(4, ' ').nth(3)))
}

fn read_line(line: &str) -> Option<Line> {
    let mut words = line.splitn(4, ' ');
    let word = words.next()?;
    let (kind, _) = PartKind::ALL.into_iter().find(|(_, known)| *known == word)?;
    let count = words.next()?.parse().ok().filter(|count| *count > 0)?;
    let (fingerprint, file) = (words.next()?.to_owned(), words.next()?.to_owned());
    is_beside(&file).then_some(Line { kind, count, fingerprint, file })
}

/// Whether a name is that of a file in the store's folder, on one line.
pub(super) fn is_beside(name: &str) -> bool {
    Path::new(name).file_name().is_some_and(|last| last == name) && !name.contains(['\n', '\r'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let mut manifest = Manifest::new(40, "1f3a-9c2e01bd", "a b.arrow.part-0".to_owned());
        for (kind, count) in [(PartKind::Added, 2), (PartKind::Removed, 41)] {
            let (fingerprint, file) = (format!("{count}-00000000"), format!("a b.arrow.part-{count}"));
            manifest.push(Line { kind, count, fingerprint, file });
        }
        manifest
    }

    #[test]
    fn reads_back_what_it_wrote() {
        let manifest = manifest();
        let text = manifest.text();
        assert_eq!(Manifest::parse(Path::new("s"), text.as_bytes()).unwrap(), manifest);
        let history = manifest.history();
        assert_eq!(history[0], ("1f3a-9c2e01bd".to_owned(), 40));
        assert_eq!(history.iter().map(|(_, ids)| *ids).collect::<Vec<_>>(), [40, 42, 42]);
        assert!(history[2].0.starts_with("1f3a-9c2e01bd+2-"), "{history:?}");
        assert_ne!(history[1].0, history[2].0);
    }

    #[test]
    fn every_byte_counts() {
        let sound = manifest().text().into_bytes();
        for place in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[place] ^= 1;
            assert!(Manifest::parse(Path::new("s"), &bytes).is_err(), "byte {place} went unnoticed");
            assert!(Manifest::parse(Path::new("s"), &sound[..place]).is_err(), "{place} bytes pass");
        }
    }

    #[test]
    fn lines_of_nonsense_are_refused() {
        let refused = |lines: &str| {
            let text = format!("boxwork changes 1\n{lines}");
            let text = format!("{text}crc32 {:08x}\n", crc32fast::hash(text.as_bytes()));
            Manifest::parse(Path::new("s"), text.as_bytes()).unwrap_err().to_string()
        };
        for lines in [
            "",
            "added 1 a f\n",
            "base 0 a f\n",
            "base -1 a f\n",
            "base 1 a ../f\n",
            "base 1 a /f\n",
            "base 1 a ..\n",
            "base 1 a\n",
            "base 1 a f\nbase 1 a g\n",
            "base 1 a f\nmoved 1 a g\n",
            "base 9223372036854775807 a f\nadded 1 a g\n",
        ] {
            let error = refused(lines);
            assert!(error.contains("damaged in its record of changes"), "{lines}: {error}");
        }
        let many = "base 1 a f\n".to_owned() + &"added 1 a g\n".repeat(CHANGES_MAX + 1);
        assert!(refused(&many).contains("damaged"));
        let version = Manifest::parse(Path::new("s"), b"boxwork changes 2\nbase").unwrap_err();
        assert!(matches!(version, StoreError::Version { found, .. } if found == "2"));
    }
}
