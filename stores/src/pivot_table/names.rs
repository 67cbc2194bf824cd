//! The names of the files beside an index.

use std::fs;
use std::path::{Path, PathBuf};

use super::reader::IndexFile;
use super::{PivotTable, layout};

/// Removes the following files of an index that was replaced.
pub(super) fn remove_parts(path: &Path) {
    let parts = (1..).map(|part| part_path(path, part)).take_while(|part| part.exists());
    for part in parts.collect::<Vec<_>>() {
        if is_part(&part) {
            let _ = fs::remove_file(part);
        }
    }
}

/// The next file to follow the last one of a table. It may replace a part that follows no file any more, but never a
/// foreign file.
pub(super) fn next_part(table: &PivotTable) -> PathBuf {
    let mut parts = (table.last.part + 1..).map(|part| part_path(&table.path, part));
    let is_free = |path: &PathBuf| path.symlink_metadata().is_err() || is_part(path);
    parts.find(is_free).expect("numbers do not end")
}

fn is_part(path: &Path) -> bool {
    IndexFile::open(path, layout::PART_FORMAT).is_ok()
}

/// The following file with this number.
pub(super) fn part_path(index: &Path, part: u64) -> PathBuf {
    let mut path = index.as_os_str().to_owned();
    path.push(format!(".part-{part}"));
    path.into()
}

/// The file that will replace an index.
pub(super) fn next_path(index: &Path) -> PathBuf {
    let mut path = index.as_os_str().to_owned();
    path.push(".next");
    path.into()
}
