//! `--append` of `boxwork index`, `boxwork sketch` and `boxwork lists`: a file about a store's objects covers those added since.

use std::path::Path;

use boxwork_stores::pivot_table::in_threads_until;
use boxwork_stores::upkeep;

use super::{objects, say};
use crate::terminal::{self, Exit, Options, Stop};

/// Brings a file about a store's objects up to it, and says how many objects that took.
pub(super) fn bring_up(store: &Path, file: &Path, options: &Options) -> Exit {
    let stop = Stop::listen(Some(options));
    let cancellation = stop.cancellation();
    let (slots, cancelled) = (options.topology().slots_count(), || cancellation.is_cancelled());
    match upkeep::bring_up(store, file, terminal::ACCESS, &mut in_threads_until(slots, &cancelled)) {
        Ok(0) => say(format_args!("{} covers all objects of {}", file.display(), store.display())),
        Ok(count) => say(format_args!("{} covers {} more", file.display(), objects(count))),
        Err(error) if error.is_cancelled() => return stop.report(),
        Err(error) => {
            say(format_args!("error: {error}"));
            return Exit::Failed;
        }
    }
    Exit::Ok
}
