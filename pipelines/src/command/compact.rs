//! `boxwork compact`: writes a changed store as one file again, with its indexes.

use std::path::PathBuf;

use boxwork_runtime::operator::Cancellation;
use boxwork_stores::any_kind;
use boxwork_stores::pivot_table::in_threads_until;
use boxwork_stores::upkeep::{self, UpkeepError};

use super::{Replacing, say};
use crate::terminal::{ACCESS, Exit, Options, Stop};

/// Writes a changed store as one file again, without removed objects; objects are numbered anew
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The store
    #[arg(long, value_name = "FILE")]
    store: PathBuf,
    /// An index of the store to keep in step; may be given many times
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    pivots: Vec<PathBuf>,
    /// A sketch of the store to keep in step; may be given many times
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    sketch: Vec<PathBuf>,
    /// Codes of the vectors of the store to keep in step; may be given many times
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    codes: Vec<PathBuf>,
    /// Lists of the vectors of the store to keep in step; may be given many times
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    lists: Vec<PathBuf>,
    /// Permutations of the store to keep in step; may be given many times
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    permutations: Vec<PathBuf>,
    /// Another file to write; then the store does not change
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    replacing: Replacing,
    #[command(flatten)]
    options: Options,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Exit {
    if let Some(Err(exit)) = arguments.out.as_deref().map(|out| arguments.replacing.admit_store(out, None)) {
        return exit;
    }
    let stop = Stop::listen(Some(&arguments.options));
    let cancellation = stop.cancellation();
    let done = match &arguments.out {
        Some(out) => any_kind::open_by(&arguments.store, ACCESS, None)
            .and_then(|store| any_kind::copy(&store, out, &|| cancellation.is_cancelled()))
            .map(|objects| {
                let objects = super::objects(objects);
                say(format_args!("wrote {} with {objects}", out.display()));
                Exit::Ok
            })
            .map_err(UpkeepError::from),
        None => in_place(arguments, &cancellation),
    };
    done.unwrap_or_else(|error| {
        if error.is_cancelled() {
            return stop.report();
        }
        say(format_args!("error: {error}"));
        Exit::Failed
    })
}

fn in_place(arguments: &Arguments, cancellation: &Cancellation) -> Result<Exit, UpkeepError> {
    let cancelled = || cancellation.is_cancelled();
    let slots = arguments.options.topology().slots_count();
    let kept = [
        &arguments.pivots[..],
        &arguments.sketch,
        &arguments.codes,
        &arguments.lists,
        &arguments.permutations,
    ]
    .concat();
    let side_by_side = &mut in_threads_until(slots, &cancelled);
    let compacted = upkeep::compact(&arguments.store, &kept, ACCESS, side_by_side, &cancelled)?;
    say(format_args!(
        "{}; {} forgotten",
        super::state_of(&arguments.store),
        super::objects(compacted.forgotten)
    ));
    for index in &compacted.remade {
        say(format_args!("a pivot of {} was removed: it was made again", index.display()));
    }
    Ok(Exit::Ok)
}
