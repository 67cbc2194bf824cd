//! The file of codes that lies beside a store and fits it, for searches that are not told of one.

use std::fs;
use std::path::{Path, PathBuf};

use boxwork_kernels::codes::Levels;

use super::super::object_store::real_path;
use super::reader::fitting;
use super::{CodesError, vectors_of};
use crate::space::Space;

/// The end of the names of files that are looked at.
const ENDING: &str = ".codes.arrow";

/// The files of codes beside a store.
#[derive(Debug, Default)]
pub struct Beside {
    /// The file that fits the store's content and the measure. Of several, the one whose levels come first in [`Levels::NAMES`].
    pub fits: Option<PathBuf>,
    /// The reasons why files of this store and this measure do not fit: they lack the vectors added since.
    pub behind: Vec<CodesError>,
}

/// Looks for codes in the folder of a space's store: files whose names end in `.codes.arrow`. Only their heads and tails are read.
///
/// Files of other stores and measures, damaged ones and a folder that cannot be read are passed over: nobody asked for them.
#[must_use]
pub fn beside(space: &dyn Space) -> Beside {
    let mut found = Beside::default();
    let Ok((store, _)) = vectors_of(space) else { return found };
    let store_path = real_path(store.path());
    let folder = store_path.parent().unwrap_or(Path::new(""));
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(entries) = fs::read_dir(listed) else { return found };
    let is_codes =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(ENDING));
    let mut paths: Vec<PathBuf> =
        entries.flatten().map(|entry| folder.join(entry.file_name())).filter(is_codes).collect();
    paths.sort();
    let mut best: Option<(usize, PathBuf)> = None;
    for path in paths {
        match fitting(&path, space) {
            Ok(levels) => {
                let rank = rank_of(levels);
                if best.as_ref().is_none_or(|(best, _)| rank < *best) {
                    best = Some((rank, path));
                }
            }
            Err(error @ CodesError::Behind { .. }) => found.behind.push(error),
            Err(_) => (),
        }
    }
    found.fits = best.map(|(_, path)| path);
    found
}

fn rank_of(levels: Levels) -> usize {
    Levels::NAMES.iter().position(|name| *name == levels.name()).unwrap_or(Levels::NAMES.len())
}
