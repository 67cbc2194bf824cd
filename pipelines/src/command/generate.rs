//! `boxwork generate vectors`: vectors for measurements, by `pipelines/generate_vectors.yaml`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use boxwork_kernels::vector::NumberType;
use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::Value;
use boxwork_stores::vector_file::DIMENSIONS_MAX;
use clap::builder::PossibleValuesParser;

use super::{Replacing, path_value, run_shipped, say, whole};
use crate::shipped;
use crate::terminal::{Exit, Options};

/// Rows of a store at most.
const ROWS_MAX: i64 = 1 << 48;

/// Makes objects for measurements
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Makes vectors that are as hard to search as those of a sample; a row depends on its number and the seed alone
    Vectors(Vectors),
}

#[derive(Debug, clap::Args)]
struct Vectors {
    /// A file of vectors, which are the sample; or deep (96 dimensions) or embedding (768), only of such a shape
    #[arg(long, value_name = "SAMPLE")]
    like: String,
    /// The type of the numbers, for a sample that is nothing but numbers
    #[arg(long = "type", value_name = "TYPE", requires = "dimensions", value_parser = PossibleValuesParser::new(NumberType::NAMES))]
    number_type: Option<String>,
    /// The numbers of a vector, for such a sample
    #[arg(long, value_name = "N", requires = "number_type", value_parser = clap::value_parser!(u32).range(1..=DIMENSIONS_MAX as i64))]
    dimensions: Option<u32>,
    /// The number of vectors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=ROWS_MAX))]
    rows: i64,
    /// The number of the first vector
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..=ROWS_MAX))]
    first: i64,
    /// The seed of all random numbers
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// The store to write, such as m.vectors.arrow
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    replacing: Replacing,
    #[command(flatten)]
    options: Options,
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    let What::Vectors(arguments) = &arguments.what;
    if let Err(exit) = arguments.replacing.admit_store(&arguments.out, None) {
        return exit;
    }
    let mut values = BTreeMap::from([
        ("like".to_owned(), Value::Text(arguments.like.clone())),
        ("out".to_owned(), path_value(&arguments.out)),
        ("rows".to_owned(), Value::Integer(arguments.rows)),
        ("first".to_owned(), Value::Integer(arguments.first)),
        ("seed".to_owned(), whole(arguments.seed)),
    ]);
    let number_type = arguments.number_type.as_ref();
    values.extend(number_type.map(|numbers| ("type".to_owned(), Value::Text(numbers.clone()))));
    values.extend(arguments.dimensions.map(|count| ("dimensions".to_owned(), whole(count))));
    let pipeline = shipped::GENERATE_VECTORS;
    let exit = run_shipped("generate", pipeline, catalog, &values, &arguments.options).exit;
    if exit == Exit::Ok {
        say(format_args!("wrote {}", arguments.out.display()));
    }
    exit
}
