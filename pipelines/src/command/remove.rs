//! `boxwork remove`: removes objects from a store.

use std::fs;
use std::path::{Path, PathBuf};

use boxwork_runtime::operator::Cancellation;
use boxwork_stores::any_kind;
use boxwork_stores::store_error::StoreError;

use super::say;
use crate::terminal::{Exit, Stop};

/// The most names that a message lists.
const NAMES_LISTED: usize = 5;

/// Removes objects from a store without making it again
///
/// Indexes stay in step. The bytes of removed objects stay on disk until `boxwork compact`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Names of objects, as searches print them
    #[arg(value_name = "NAME", required_unless_present = "names")]
    objects: Vec<String>,
    /// The store
    #[arg(long, value_name = "FILE")]
    store: PathBuf,
    /// A file with more names, one per line
    #[arg(long, value_name = "FILE")]
    names: Option<PathBuf>,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Exit {
    let stop = Stop::listen(None);
    let mut names = arguments.objects.clone();
    if let Some(path) = &arguments.names {
        match fs::read_to_string(path) {
            Ok(text) => names.extend(text.lines().filter(|line| !line.is_empty()).map(str::to_owned)),
            Err(error) => {
                say(format_args!("error: cannot read the names in `{}`: {error}", path.display()));
                return Exit::Failed;
            }
        }
    }
    match remove(&arguments.store, &names, &stop.cancellation()) {
        Ok(Ok(count)) => {
            let state = super::state_of(&arguments.store);
            say(format_args!("removed {count} object{}; {state}", if count == 1 { "" } else { "s" }));
            Exit::Ok
        }
        Ok(Err(missing)) => {
            let listed = missing.iter().take(NAMES_LISTED).map(|name| format!("`{name}`"));
            let listed = listed.collect::<Vec<_>>().join(", ");
            let more = match missing.len().saturating_sub(NAMES_LISTED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            say(format_args!(
                "error: `{}` has no object named {listed}{more}; nothing was removed",
                arguments.store.display()
            ));
            Exit::Failed
        }
        Err(StoreError::Cancelled { .. } | StoreError::Interrupted(_)) => stop.report(),
        Err(error) => {
            say(format_args!("error: {error}"));
            Exit::Failed
        }
    }
}

/// The number of objects removed, or the names that no object has. A cancelled removal leaves the store unchanged.
fn remove(
    store: &Path,
    names: &[String],
    cancellation: &Cancellation,
) -> Result<Result<u64, Vec<String>>, StoreError> {
    let go_on = || cancellation.check().map_err(|_| StoreError::Cancelled { path: store.to_owned() });
    // The first search reads all names.
    let cancelled = || cancellation.is_cancelled();
    let mut change = any_kind::change(store)?;
    let mut missing = Vec::new();
    for name in names {
        go_on()?;
        match change.store().find_until(name, &cancelled)? {
            Some(id) => drop(change.remove(id)?),
            None => missing.push(name.clone()),
        }
    }
    if !missing.is_empty() {
        return Ok(Err(missing));
    }
    let pending = change.write()?;
    go_on()?;
    pending.commit().map(|(_, removed)| Ok(removed))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use boxwork_kernels::sqfd::Columns;
    use boxwork_stores::signature_store::{SignatureStore, StoreInfo, StoreWriter};

    use super::*;

    #[test]
    fn a_removal_that_hears_ctrl_c_leaves_the_store_and_its_folder_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.arrow");
        let mut writer = StoreWriter::create(&path, &["x"], &StoreInfo::default()).unwrap();
        let names = ["a", "b", "c"].map(str::to_owned);
        for name in &names {
            writer.push(name, Columns::new(&[&[0.5]], &[1.0]).signature(0, 1), 0, 0).unwrap();
        }
        writer.finish().unwrap();
        let files = || -> BTreeSet<_> {
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect()
        };
        let before = files();
        let cancellation = Cancellation::new();
        cancellation.cancel();
        let error = remove(&path, &names[..2], &cancellation).unwrap_err();
        assert!(matches!(error, StoreError::Cancelled { .. }), "{error}");
        assert_eq!(files(), before);
        assert_eq!(SignatureStore::open(&path).unwrap().objects(), 3);
        assert_eq!(remove(&path, &names[..2], &Cancellation::new()).unwrap(), Ok(2));
    }
}
