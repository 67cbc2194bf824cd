//! The names of the files beside a packed file.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Format, Last};

/// Removes the following files of a file that was replaced.
pub(crate) fn remove_parts(path: &Path, format: Format) {
    let parts = (1..).map(|part| part_path(path, part)).take_while(|part| part.exists());
    for part in parts.collect::<Vec<_>>() {
        if is_part(&part, format) {
            let _ = fs::remove_file(part);
        }
    }
}

/// The next file to follow the last one of the chain that begins with `whole`. It may replace a part that follows no file
/// any more, but never a foreign file.
pub(crate) fn next_part(whole: &Path, last: &Last, format: Format) -> PathBuf {
    let mut parts = (last.part + 1..).map(|part| part_path(whole, part));
    let is_free = |path: &PathBuf| path.symlink_metadata().is_err() || is_part(path, format);
    parts.find(is_free).expect("numbers do not end")
}

fn is_part(path: &Path, format: Format) -> bool {
    format.open_part(path).is_ok()
}

/// The following file with this number.
pub(super) fn part_path(whole: &Path, part: u64) -> PathBuf {
    let mut path = whole.as_os_str().to_owned();
    path.push(format!(".part-{part}"));
    path.into()
}

/// The file that will replace a file.
pub(crate) fn next_path(whole: &Path) -> PathBuf {
    let mut path = whole.as_os_str().to_owned();
    path.push(".next");
    path.into()
}
