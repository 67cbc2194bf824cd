//! `boxwork search`: the objects most similar to each query, with `pipelines/search.yaml` (or `range.yaml`), or with an
//! index by the pipeline of a strategy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use boxwork_kernels::vector::NumberType;
use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::printable::printable_lines;
use boxwork_stores::vector_file::DIMENSIONS_MAX;
use clap::builder::PossibleValuesParser;

use super::{
    Space, check_flags, data, data_json, device, path_value, print_diagnostics, run_shipped, say, whole,
};
use crate::pipeline::Loaded;
use crate::shipped::Shipped;
use crate::terminal::{Exit, Options};
use crate::{estimate, shipped};

/// The strategies by their names: each is a pipeline.
const STRATEGIES: [(&str, Shipped); 7] = [
    ("auto", shipped::AUTO),
    ("best_first", shipped::BEST_FIRST),
    ("estimated_range", shipped::ESTIMATED_RANGE),
    ("fixed_blocks", shipped::FIXED_BLOCKS),
    ("adaptive_blocks", shipped::ADAPTIVE_BLOCKS),
    ("two_phase", shipped::TWO_PHASE),
    ("scan", shipped::SEARCH),
];

/// Finds the objects most similar to each query
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The store to search
    #[arg(long, value_name = "FILE")]
    store: PathBuf,
    /// An image, or the name of an object in the store; may be given many times
    #[arg(long = "query", value_name = "IMAGE_OR_NAME", required_unless_present = "query_file")]
    queries: Vec<String>,
    /// A file of vectors, such as queries.fvecs, or a store of them, of which each row is a query
    #[arg(long, value_name = "FILE", conflicts_with_all = ["queries", "pivots"])]
    query_file: Option<PathBuf>,
    /// The type of the numbers, for a query file that is nothing but numbers
    #[arg(long = "type", value_name = "TYPE", requires_all = ["query_file", "dimensions"], value_parser = PossibleValuesParser::new(NumberType::NAMES))]
    number_type: Option<String>,
    /// The numbers of a vector, for such a file
    #[arg(long, value_name = "N", requires = "number_type", value_parser = clap::value_parser!(u32).range(1..=DIMENSIONS_MAX as i64))]
    dimensions: Option<u32>,
    /// The store's codes, made by `boxwork index --codes`, with which most distances of vectors are skipped; or none
    /// [default: auto, codes beside the store that fit it, for 64 queries or more]
    #[arg(long, value_name = "FILE", conflicts_with = "pivots")]
    codes: Option<PathBuf>,
    /// The number of objects to find [default: 10, or all if a range is given]
    #[arg(short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    k: Option<u32>,
    /// Only objects at most this far away
    #[arg(long, value_name = "R")]
    range: Option<f64>,
    /// The store's index for this similarity and alpha, made by `boxwork index`, with which most distances are skipped
    #[arg(long, value_name = "FILE")]
    pivots: Option<PathBuf>,
    /// The bound that excludes objects, with an index [default: auto, the tightest sound one or none, by a sample; simplex with other strategies]
    #[arg(long, requires = "pivots", value_parser = ["auto", "none", "triangular", "ptolemaic", "combined", "simplex"])]
    bound: Option<String>,
    /// The order of the search, with an index [default: auto, by a cost model: best first, or a scan]
    #[arg(long, requires = "pivots", value_parser = STRATEGIES.map(|(name, _)| name))]
    strategy: Option<String>,
    /// Do not search: show the estimated work of a scan and of every bound, by a sample of the store, and the choice of auto
    #[arg(long, requires = "pivots")]
    explain: bool,
    /// The lists of a store of vectors, made by `boxwork lists`: the search looks into few of them, and may miss objects
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pivots", "p", "root", "alpha", "similarity", "ground", "insert", "delete", "replace", "matrix", "band"])]
    lists: Option<PathBuf>,
    /// Find the answer of a scan: lists only say which vectors are ranked first, and bounds by `--codes`, or all distances, prove that
    /// no other vector is nearer
    #[arg(long, requires = "lists")]
    prove: bool,
    /// The graph of a store of vectors, made by `boxwork hnsw`: the search walks through it, and may miss objects
    #[arg(long, value_name = "FILE", conflicts_with_all = ["lists", "codes", "pivots", "device", "p", "root", "alpha", "similarity", "ground", "insert", "delete", "replace", "matrix", "band"])]
    graph: Option<PathBuf>,
    /// Vectors that a walk through the graph keeps, at least `--refine` for each object to find; more find more of the answer
    #[arg(long, value_name = "N", requires = "graph", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    expansion: u32,
    /// Lists that a query looks into; more find more of the answer
    #[arg(long, value_name = "N", requires = "lists", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    probes: u32,
    /// Candidates for each object to find, by lists that hold codes [default: 10] or by a graph [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    refine: Option<u32>,
    /// Only objects whose last folder has this name, or whose names begin with it if it ends in /: of a store of vectors
    #[arg(long, value_name = "FOLDER", conflicts_with = "pivots")]
    class: Option<String>,
    /// Only objects that this file names, of a store of vectors: a text with a name on each line, or an Arrow file with a column
    /// `id`, or with a column of true and false that has a row for each id
    #[arg(long, value_name = "FILE", conflicts_with = "pivots")]
    subset: Option<PathBuf>,
    #[command(flatten)]
    space: Space,
    /// Where to compute: auto, cpu, gpu, or gpu: and the numbers of `boxwork devices`
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = device)]
    device: String,
    /// The format of the results
    #[arg(long, default_value = "table", value_parser = ["table", "json", "csv", "html"])]
    format: String,
    /// In place of results, how many of the true neighbours were found: a file with the ids of those of each row of the query file,
    /// such as truth.ivecs
    #[arg(long, value_name = "FILE", requires = "query_file", conflicts_with = "format")]
    truth: Option<PathBuf>,
    /// The file to write; - is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
    #[command(flatten)]
    options: Options,
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    if let Some(range) = arguments.range.filter(|range| *range < 0.0 && !arguments.space.is_signed()) {
        say(format_args!("error: --range: {range} is not a number of at least 0"));
        return Exit::Usage;
    }
    if arguments.refine.is_some() && arguments.lists.is_none() && arguments.graph.is_none() {
        say(format_args!("error: --refine: it is for searches by --lists or --graph: leave it out"));
        return Exit::Usage;
    }
    let is_among = arguments.class.is_some() || arguments.subset.is_some();
    if let Some(graph) = &arguments.graph {
        return by_graph(catalog, graph, arguments);
    }
    if arguments.lists.is_none() && (arguments.codes.is_some() || arguments.query_file.is_some() || is_among)
    {
        return vectors(catalog, arguments);
    }
    let queries = arguments.queries.iter().cloned().map(Value::Text).collect();
    let mut values = BTreeMap::from([
        ("store".to_owned(), path_value(&arguments.store)),
        ("queries".to_owned(), Value::List(queries)),
        ("format".to_owned(), Value::Text(arguments.format.clone())),
        ("out".to_owned(), path_value(&arguments.out)),
        ("device".to_owned(), Value::Text(arguments.device.clone())),
    ]);
    if let Some(lists) = &arguments.lists {
        return match arguments.give_lists(lists, &mut values) {
            Ok(pipeline) => search(pipeline, catalog, &values, arguments),
            Err(exit) => exit,
        };
    }
    arguments.space.give(&mut values);
    values.extend(arguments.range.map(|range| ("range".to_owned(), Value::Number(range))));
    let is_range_query = arguments.k.is_none() && arguments.range.is_some();
    if !is_range_query {
        values.insert("k".to_owned(), whole(arguments.k.unwrap_or(10)));
    }
    let pipeline = match &arguments.strategy {
        _ if arguments.pivots.is_none() && is_range_query => shipped::RANGE,
        _ if arguments.pivots.is_none() => shipped::SEARCH,
        Some(name) if is_range_query && !["auto", "scan"].contains(&name.as_str()) => {
            say(format_args!(
                "error: --strategy {name} finds the nearest objects: give -k, or leave --strategy out"
            ));
            return Exit::Usage;
        }
        Some(name) if name == "scan" => {
            if is_range_query {
                shipped::RANGE
            } else {
                shipped::SEARCH
            }
        }
        _ if is_range_query => shipped::INDEXED_RANGE,
        name => {
            let named = STRATEGIES.into_iter().find(|strategy| Some(strategy.0) == name.as_deref());
            named.map_or(shipped::AUTO, |(_, pipeline)| pipeline)
        }
    };
    if arguments.strategy.as_deref() != Some("scan") {
        values.extend(arguments.pivots.as_ref().map(|path| ("pivots".to_owned(), path_value(path))));
        values.extend(arguments.bound.as_ref().map(|bound| ("bound".to_owned(), Value::Text(bound.clone()))));
    }
    if arguments.explain {
        let by_index = if is_range_query { shipped::INDEXED_RANGE } else { shipped::AUTO };
        values.extend(arguments.pivots.as_ref().map(|path| ("pivots".to_owned(), path_value(path))));
        let loaded = by_index.load();
        return match check_flags("search", &loaded, catalog, &values) {
            Ok(()) => explain(catalog, &loaded, &values, arguments),
            Err(exit) => exit,
        };
    }
    search(pipeline, catalog, &values, arguments)
}

impl Arguments {
    /// Gives a search among vectors its queries: those of the command, or the rows of a file.
    fn give_rows(&self, values: &mut BTreeMap<String, Value>) {
        let queries = self.queries.iter().cloned().map(Value::Text).collect();
        values.insert("queries".to_owned(), Value::List(queries));
        values.extend(self.query_file.as_ref().map(|path| ("query_file".to_owned(), path_value(path))));
        let number_type = self.number_type.as_ref();
        values.extend(number_type.map(|numbers| ("type".to_owned(), Value::Text(numbers.clone()))));
        values.extend(self.dimensions.map(|count| ("dimensions".to_owned(), whole(count))));
        if let Some(truth) = &self.truth {
            values.insert("truth".to_owned(), path_value(truth));
            values.insert("format".to_owned(), Value::Text("recall".to_owned()));
        }
    }

    /// Gives a search through lists its values, and returns its pipeline.
    fn give_lists(&self, lists: &Path, values: &mut BTreeMap<String, Value>) -> Result<Shipped, Exit> {
        let pipeline = if self.prove { shipped::VECTOR_PROVE } else { shipped::VECTOR_PROBE };
        if self.prove {
            values.extend(self.codes.as_ref().map(|path| ("codes".to_owned(), path_value(path))));
        } else if self.codes.is_some() {
            say(format_args!(
                "error: --codes: beside lists, codes serve --prove alone: add it, or leave --codes out"
            ));
            return Err(Exit::Usage);
        }
        values.extend([
            ("lists".to_owned(), path_value(lists)),
            ("probes".to_owned(), whole(self.probes)),
            ("refine".to_owned(), whole(self.refine.unwrap_or(10))),
        ]);
        self.give_rows(values);
        self.give_limits(values);
        self.space.give(values);
        Ok(pipeline)
    }

    /// Gives a search among vectors the number of objects, the range, and the objects among which it searches.
    fn give_limits(&self, values: &mut BTreeMap<String, Value>) {
        // A range without a number is for all objects within it.
        let usual = if self.range.is_some() { u32::MAX } else { 10 };
        values.insert("k".to_owned(), whole(self.k.unwrap_or(usual)));
        values.extend(self.range.map(|range| ("range".to_owned(), Value::Number(range))));
        values.extend(self.class.as_ref().map(|class| ("class".to_owned(), Value::Text(class.clone()))));
        values.extend(self.subset.as_ref().map(|path| ("subset".to_owned(), path_value(path))));
    }
}

/// Searches among vectors by a graph of near neighbours.
fn by_graph(catalog: &Catalog, graph: &Path, arguments: &Arguments) -> Exit {
    let mut values = BTreeMap::from([
        ("store".to_owned(), path_value(&arguments.store)),
        ("graph".to_owned(), path_value(graph)),
        ("expansion".to_owned(), whole(arguments.expansion)),
        ("format".to_owned(), Value::Text(arguments.format.clone())),
        ("out".to_owned(), path_value(&arguments.out)),
    ]);
    values.extend(arguments.refine.map(|refine| ("refine".to_owned(), whole(refine))));
    arguments.give_rows(&mut values);
    arguments.give_limits(&mut values);
    if arguments.k.is_none() && arguments.range.is_some() {
        // A walk has no range: those within it are some of the vectors that it keeps.
        values.insert("k".to_owned(), whole(arguments.expansion));
    }
    arguments.space.give(&mut values);
    search(shipped::GRAPH_SEARCH, catalog, &values, arguments)
}

/// Runs a pipeline of a search.
fn search(
    pipeline: Shipped,
    catalog: &Catalog,
    values: &BTreeMap<String, Value>,
    arguments: &Arguments,
) -> Exit {
    let exit = run_shipped("search", pipeline, catalog, values, &arguments.options).exit;
    if exit == Exit::Ok && arguments.out.as_os_str() != "-" {
        say(format_args!("wrote {}", arguments.out.display()));
    }
    exit
}

/// Searches a store of vectors for a block of queries, by its codes if there are any.
fn vectors(catalog: &Catalog, arguments: &Arguments) -> Exit {
    let mut values = BTreeMap::from([
        ("store".to_owned(), path_value(&arguments.store)),
        ("format".to_owned(), Value::Text(arguments.format.clone())),
        ("out".to_owned(), path_value(&arguments.out)),
        ("device".to_owned(), Value::Text(arguments.device.clone())),
    ]);
    arguments.give_rows(&mut values);
    arguments.give_limits(&mut values);
    arguments.space.give(&mut values);
    values.extend(arguments.codes.as_ref().map(|path| ("codes".to_owned(), path_value(path))));
    let exit = run_shipped("search", shipped::VECTOR_SEARCH, catalog, &values, &arguments.options).exit;
    if exit == Exit::Ok && arguments.out.as_os_str() != "-" {
        say(format_args!("wrote {}", arguments.out.display()));
    }
    exit
}

/// Shows the estimate with which a search would begin.
fn explain(
    catalog: &Catalog,
    loaded: &Loaded,
    given: &BTreeMap<String, Value>,
    arguments: &Arguments,
) -> Exit {
    let mut values = loaded.declaration.defaults();
    values.extend(given.iter().map(|(name, value)| (name.clone(), value.clone())));
    let (plan, diagnostics) = loaded.check(catalog, &values);
    print_diagnostics(&diagnostics);
    let Some(plan) = plan else { return Exit::Usage };
    let workers = arguments.options.topology().slots_count();
    match estimate::estimate(&plan, &values, workers, &arguments.options.devices) {
        Ok(Some(estimate)) if arguments.format == "json" => data_json(&estimate::json_of(&estimate)),
        Ok(Some(estimate)) => data(&printable_lines(&estimate::text_of(&estimate))),
        Ok(None) => {
            say(format_args!("error: there is nothing to estimate"));
            Exit::Failed
        }
        Err(error) => {
            say(format_args!("error: {error}"));
            Exit::Failed
        }
    }
}
