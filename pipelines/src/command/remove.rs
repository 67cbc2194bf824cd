//! `boxwork remove`: objects that leave a store.

use std::fs;
use std::path::PathBuf;

use boxwork_stores::signature_store::{StoreChange, StoreError};

use super::talk;
use crate::run::Exit;

/// Names that a message lists before it only counts.
const NAMES_LISTED: usize = 5;

/// Removes objects from a store without making it again
///
/// Indexes stay in step. The bytes of what was removed stay on disk until `boxwork compact`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Names of objects, as searches tell them
    #[arg(value_name = "NAME", required_unless_present = "names")]
    objects: Vec<String>,
    /// The store
    #[arg(long, value_name = "FILE")]
    store: PathBuf,
    /// A file of more names, one a line
    #[arg(long, value_name = "FILE")]
    names: Option<PathBuf>,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Exit {
    let mut names = arguments.objects.clone();
    if let Some(path) = &arguments.names {
        match fs::read_to_string(path) {
            Ok(text) => names.extend(text.lines().filter(|line| !line.is_empty()).map(str::to_owned)),
            Err(error) => {
                talk(&format!("error: cannot read the names in `{}`: {error}\n", path.display()));
                return Exit::Failed;
            }
        }
    }
    match remove(arguments, &names) {
        Ok(Ok(count)) => {
            let state = super::state_of(&arguments.store);
            talk(&format!("removed {count} object{}; {state}\n", if count == 1 { "" } else { "s" }));
            Exit::Ok
        }
        Ok(Err(missing)) => {
            let listed = missing.iter().take(NAMES_LISTED).map(|name| format!("`{name}`"));
            let listed = listed.collect::<Vec<_>>().join(", ");
            let more = match missing.len().saturating_sub(NAMES_LISTED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            talk(&format!(
                "error: `{}` has no object named {listed}{more}; nothing was removed\n",
                arguments.store.display()
            ));
            Exit::Failed
        }
        Err(error) => {
            talk(&format!("error: {error}\n"));
            Exit::Failed
        }
    }
}

/// The number of objects removed, or the names that are nobody's.
fn remove(arguments: &Arguments, names: &[String]) -> Result<Result<u64, Vec<String>>, StoreError> {
    let mut change = StoreChange::begin(&arguments.store)?;
    let mut missing = Vec::new();
    for name in names {
        match change.store().find(name)? {
            Some(id) => drop(change.remove(id)?),
            None => missing.push(name.clone()),
        }
    }
    if !missing.is_empty() {
        return Ok(Err(missing));
    }
    change.write()?.commit().map(|(_, removed)| Ok(removed))
}
