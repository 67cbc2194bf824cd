//! `boxwork import`: JSON lines, or a column of an Arrow file, to a store, by `pipelines/import.yaml`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use boxwork_kernels::vector::NumberType;
use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::Value;
use boxwork_stores::any_kind::KIND_NAMES;
use boxwork_stores::vector_file::{DIMENSIONS_MAX, VectorFile};
use clap::builder::PossibleValuesParser;

use super::{Replacing, path_value, run_shipped, say, whole};
use crate::shipped;
use crate::terminal::{Exit, Options};

/// Imports objects from JSON lines {"name": "...", "object": ...} or from a column of an Arrow IPC file; a line of a
/// signature is {"name": "...", "centroids": [[...], ...], "weights": [...]}. Or imports vectors from a file that ends in
/// .fvecs, .bvecs, .ivecs, .fbin, .f16bin, .u8bin, .i8bin, .ibin or .npy, or that --type and --dimensions describe
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The JSON lines, where - is standard input, the Arrow IPC file, or the file of vectors
    file: PathBuf,
    /// The store to write, such as objects.signatures.arrow
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The kind of the objects
    #[arg(long, value_name = "KIND", default_value = "signatures", value_parser = PossibleValuesParser::new(KIND_NAMES))]
    holds: String,
    /// The key or the column of the objects [default: object; for signatures the line itself, or the column signature]
    #[arg(long, value_name = "KEY")]
    column: Option<String>,
    /// The key or the column of their names
    #[arg(long, value_name = "KEY", default_value = "name")]
    name: String,
    /// The folder below which the names are pictures, which results in HTML show
    #[arg(long, value_name = "FOLDER")]
    source: Option<PathBuf>,
    /// The type of the numbers, for a file of vectors that is nothing but numbers
    #[arg(long = "type", value_name = "TYPE", requires = "dimensions", value_parser = PossibleValuesParser::new(NumberType::NAMES))]
    number_type: Option<String>,
    /// The numbers of a vector, for such a file
    #[arg(long, value_name = "N", requires = "number_type", value_parser = clap::value_parser!(u32).range(1..=DIMENSIONS_MAX as i64))]
    dimensions: Option<u32>,
    #[command(flatten)]
    replacing: Replacing,
    #[command(flatten)]
    options: Options,
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    if let Err(exit) = arguments.replacing.admit_store(&arguments.out, Some(&arguments.file)) {
        return exit;
    }
    if arguments.number_type.is_some() || VectorFile::is_named(&arguments.file) {
        return vectors(catalog, arguments);
    }
    let reader = if is_arrow(&arguments.file) { "read_column" } else { "read_jsonl" };
    let mut values = BTreeMap::from([
        ("path".to_owned(), path_value(&arguments.file)),
        ("out".to_owned(), path_value(&arguments.out)),
        ("holds".to_owned(), Value::Text(arguments.holds.clone())),
        ("reader".to_owned(), Value::Text(reader.to_owned())),
        ("name".to_owned(), Value::Text(arguments.name.clone())),
    ]);
    values.extend(arguments.source.as_ref().map(|path| ("source".to_owned(), path_value(path))));
    values.extend(arguments.column.as_ref().map(|key| ("column".to_owned(), Value::Text(key.clone()))));
    let exit = run_shipped("import", shipped::IMPORT, catalog, &values, &arguments.options).exit;
    if exit == Exit::Ok {
        say(format_args!("wrote {}", arguments.out.display()));
    }
    exit
}

/// Imports a file of vectors.
fn vectors(catalog: &Catalog, arguments: &Arguments) -> Exit {
    if arguments.source.is_some() {
        say(format_args!(
            "error: --source: rows of `{}` have numbers for names, which are no pictures: import JSON lines or an Arrow file with a \
             column of names, or leave --source out",
            arguments.file.display()
        ));
        return Exit::Usage;
    }
    let mut values = BTreeMap::from([
        ("from".to_owned(), path_value(&arguments.file)),
        ("out".to_owned(), path_value(&arguments.out)),
    ]);
    let number_type = arguments.number_type.as_ref();
    values.extend(number_type.map(|numbers| ("type".to_owned(), Value::Text(numbers.clone()))));
    values.extend(arguments.dimensions.map(|count| ("dimensions".to_owned(), whole(count))));
    let pipeline = shipped::IMPORT_VECTORS;
    let exit = run_shipped("import", pipeline, catalog, &values, &arguments.options).exit;
    if exit == Exit::Ok {
        say(format_args!("wrote {}", arguments.out.display()));
    }
    exit
}

/// Whether a file is an Arrow or a Parquet file: by its ending, or by its first bytes.
fn is_arrow(path: &Path) -> bool {
    const MAGICS: [&[u8]; 2] = [b"ARROW1", b"PAR1"];
    const ENDINGS: [&str; 5] = ["arrow", "arrows", "feather", "ipc", "parquet"];
    if path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known)) {
        return true;
    }
    // Not from a pipe, whose bytes would be lost.
    let mut first = Vec::new();
    let file = if path.is_file() { File::open(path).ok() } else { None };
    let read = file.map(|file| file.take(MAGICS[0].len() as u64).read_to_end(&mut first));
    matches!(read, Some(Ok(_))) && MAGICS.iter().any(|magic| first.starts_with(magic))
}
