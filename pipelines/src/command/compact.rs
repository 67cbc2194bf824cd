//! `boxwork compact`: a changed store in one file again, its indexes with it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::Value;
use boxwork_stores::pivot_table::{IndexError, PivotTable};
use boxwork_stores::signature_store::{self, SignatureStore};
use boxwork_stores::upkeep;

use super::{path_value, talk};
use crate::run::{Exit, Options};
use crate::{run, shipped};

/// Writes a changed store as one file again, without what was removed; objects are numbered anew
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The store
    #[arg(long, value_name = "FILE")]
    store: PathBuf,
    /// An index of the store, which is kept in step; may be given many times
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    pivots: Vec<PathBuf>,
    /// Another file to write, in which case the store stays as it is
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    let done = match &arguments.out {
        Some(out) => SignatureStore::open(&arguments.store)
            .and_then(|store| signature_store::copy(&store, out))
            .map(|objects| {
                let objects = super::objects(objects);
                talk(&format!("wrote {} with {objects}\n", out.display()));
                Exit::Ok
            })
            .map_err(IndexError::from),
        None => in_place(catalog, arguments),
    };
    done.unwrap_or_else(|error| {
        talk(&format!("error: {error}\n"));
        Exit::Failed
    })
}

fn in_place(catalog: &Catalog, arguments: &Arguments) -> Result<Exit, IndexError> {
    // What a lost index is made again by.
    let measures = arguments.pivots.iter().map(|index| PivotTable::measure_of(index));
    let measures = measures.collect::<Result<Vec<_>, _>>()?;
    let compacted = upkeep::compact(&arguments.store, &arguments.pivots)?;
    talk(&format!(
        "{}; {} forgotten\n",
        super::state_of(&arguments.store),
        super::objects(compacted.forgotten)
    ));
    for (index, pivots) in &compacted.lost {
        talk(&format!("a pivot of {} was removed: it is made again\n", index.display()));
        let place = arguments.pivots.iter().position(|path| path == index);
        let Some(measure) = place.map(|place| measures[place]) else { continue };
        let pivots = (*pivots as u64).min(compacted.objects) as i64;
        let values = BTreeMap::from([
            ("store".to_owned(), path_value(&arguments.store)),
            ("out".to_owned(), path_value(index)),
            ("count".to_owned(), Value::Integer(pivots)),
            ("similarity".to_owned(), Value::Text(measure.similarity().to_string())),
            ("ground".to_owned(), Value::Text(measure.ground().to_string())),
            ("alpha".to_owned(), Value::Number(measure.alpha())),
        ]);
        let exit = run::run(&shipped::INDEX.load(), catalog, &values, &arguments.options);
        if exit != Exit::Ok {
            return Ok(exit);
        }
    }
    Ok(Exit::Ok)
}
