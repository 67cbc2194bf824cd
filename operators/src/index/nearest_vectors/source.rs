//! The codes of a search: none, given ones, or those of a file beside the store once reading it pays.
//!
//! Reading a file of codes takes as long as they save in some dozens of queries. A search by `auto` cannot know how many will come,
//! so it reads them when that many have been asked: then it has spent at most twice the time of the better choice, whatever comes
//! later.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use boxwork_kernels::codes::{Codes, Levels};
use boxwork_runtime::operator::{BoxError, Context};
use boxwork_stores::space::Space;
use boxwork_stores::vector_codes;

/// The word for no codes.
const NO_CODES: &str = "none";
/// The word for codes beside the store.
const AUTO: &str = "auto";

/// Queries after which codes are read that nobody named. Of a million rows of 128 numbers, codes are read in 0.25 s and save
/// 2 to 4 ms a query.
const QUERIES_BEFORE: u64 = 64;

/// The codes of a search.
pub(super) enum Source {
    /// All rows are scanned.
    None,
    /// Codes that were named.
    Given(Codes),
    /// Codes beside the store.
    Beside(Beside),
}

/// The files of codes beside the store, and the codes of one of them.
pub(super) struct Beside {
    /// A file of codes that fits.
    fits: Option<PathBuf>,
    /// The reason why a file that would fit does not.
    behind: Option<String>,
    /// The queries so far.
    asked: AtomicU64,
    /// The codes once they are looked for; nothing if there are none, or if they could not be read.
    opened: OnceLock<Option<Codes>>,
}

impl Beside {
    /// The codes, if they can be read, and a note that says whether they are used.
    fn open(&self, space: &dyn Space) -> (Option<Codes>, Option<String>) {
        let Some(path) = &self.fits else {
            return (None, self.behind.as_ref().map(|reason| format!("all rows are compared: {reason}")));
        };
        match vector_codes::open(path, space) {
            Ok(codes) => {
                let note = format!("rows are bounded by `{}`, which lies beside the store", path.display());
                (Some(codes), Some(note))
            }
            Err(error) => (None, Some(format!("all rows are compared: {error}"))),
        }
    }
}

impl Source {
    /// The codes of a name: a file, levels of codes to make in memory, none or auto.
    pub(super) fn of_name(
        name: Option<&str>,
        space: &dyn Space,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, BoxError> {
        Ok(match name {
            None | Some(NO_CODES) => Self::None,
            Some(AUTO) => {
                let vector_codes::Beside { fits, behind } = vector_codes::beside(space);
                let behind = behind.first().map(ToString::to_string);
                Self::Beside(Beside { fits, behind, asked: AtomicU64::new(0), opened: OnceLock::new() })
            }
            Some(name) => Self::Given(match name.parse() {
                Ok(levels) => vector_codes::in_memory(levels, space, cancelled)?,
                Err(_) if !Path::new(name).exists() => return Err(no_codes(name)),
                Err(_) => vector_codes::open(Path::new(name), space)?,
            }),
        })
    }

    /// Whether someone named codes, which devices do without.
    pub(super) const fn is_given(&self) -> bool {
        matches!(self, Self::Given(_))
    }

    /// The codes that are there.
    pub(super) fn get(&self) -> Option<&Codes> {
        match self {
            Self::None => None,
            Self::Given(codes) => Some(codes),
            Self::Beside(beside) => beside.opened.get()?.as_ref(),
        }
    }

    /// The codes for some more queries. Those beside the store are read if it pays; if they cannot be read, a note says why and the
    /// search does without.
    ///
    /// # Errors
    /// When the request is cancelled.
    pub(super) fn for_queries(
        &self,
        queries: usize,
        space: &dyn Space,
        cx: &mut Context<'_>,
    ) -> Result<Option<&Codes>, BoxError> {
        let Self::Beside(beside) = self else { return Ok(self.get()) };
        let asked = beside.asked.fetch_add(queries as u64, Ordering::Relaxed) + queries as u64;
        if beside.opened.get().is_none() && asked >= QUERIES_BEFORE {
            let (codes, note) = cx.detached("disk", || beside.open(space))?;
            // Another request may have read them meanwhile: both have the same codes.
            if beside.opened.set(codes).is_ok() {
                note.into_iter().for_each(|note| cx.note(note));
            }
        }
        Ok(self.get())
    }
}

/// The fault of `codes` that are neither a file nor the name of levels.
fn no_codes(name: &str) -> BoxError {
    BoxError::new(format!(
        "`codes` is {name}, which is neither a file nor codes that exclude rows with certainty: give {}, {NO_CODES}, {AUTO}, or a \
         file made by `boxwork index --codes`",
        Levels::NAMES.join(", ")
    ))
}
