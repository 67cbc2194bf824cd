//! Exact and approximate search among vectors, and what it needs, on processors: how fast beside Faiss, and beside the limit?
//!
//! Both sides have the same rows, queries, centroids and codebooks, on as many threads. Their answers are compared before any is
//! timed: exact ones with a scan in f64 (numbers of rows up to ties), approximate ones by their recall. Then they are timed in
//! turns; a ratio is the peer's time by ours, above 1 where ours is faster. On one thread the time is processor time, on several
//! it is wall time.
//!
//! Rows are generated: like the sample of bytes that `sample=` names or that lies beside the tree, else a mixture, whose rates mean
//! less and whose recalls mean nothing.
//!
//! The peer is a Python with Faiss and NumPy (`pip install faiss-cpu`), named by BOXWORK_PYTHON. The binary needs no other file.

mod support;

#[path = "vector/world.rs"]
mod world;
#[path = "vector/contest.rs"]
mod contest;
#[path = "vector/flat.rs"]
mod flat;
#[path = "vector/levels.rs"]
mod levels;
#[path = "vector/kmeans.rs"]
mod kmeans;
#[path = "vector/lists.rs"]
mod lists;
#[path = "vector/mapped.rs"]
mod mapped;
#[path = "vector/product.rs"]
mod product;
#[path = "vector/graph.rs"]
mod graph;
#[cfg(feature = "graph")]
#[path = "vector/hnsw.rs"]
mod hnsw;
#[path = "vector/generator.rs"]
mod generator;
#[path = "vector/shares.rs"]
mod shares;

use contest::Bench;
use support::{Arguments, print_machine};

const HELP: &str = "\
what=generator  vectors made for measurements: are they as hard to search as the sample they are made from?
what=shares     rows that the bounds of each level of codes leave of the sample
what=flat       1,000 queries by all f32 distances, and by codes: k=10,100
what=single     one query at a time, by codes: singles=100
what=levels     levels of codes in turns, for single queries and a block of them: codes=planes,pca singles=100
what=u8         rows of bytes
what=kmeans     clusters of all rows: clusters=4096 iterations=25
what=lists      rows in lists: lists=1024,4096 probes=1,2,4,8,16,32,64
what=mapped     lists in mapped files beside lists in memory: lists=1024 probes=1,16
what=product    codes of 8 bits: all of them, and those of lists: probes=8,32
what=fastscan   codes of 4 bits, likewise, ranked by their rows
what=graph      the neighbours of each row: graph_rows=100000
what=hnsw       walks through a graph (HNSW) beside codes and lists, in builds with the feature graph: expansions=16,32,64,128,256
what=encode     rows to codes, rows to the nearest of clusters=4096
several, parted by commas; the default is all but levels, hnsw and mapped.
rows=100000 queries=1000 dimensions=128 sample=FILE rounds=7 threads=1 peer=faiss results=FILE folder=FOLDER
path=avx2       instructions of both sides at most: portable, avx2, avxvnni or avx512";

const ALL: &str = "generator,shares,flat,single,u8,kmeans,lists,product,fastscan,graph,encode";

fn main() {
    let names = [
        "what",
        "rows",
        "queries",
        "dimensions",
        "sample",
        "rounds",
        "threads",
        "peer",
        "results",
        "folder",
        "k",
        "singles",
        "codes",
        "clusters",
        "iterations",
        "lists",
        "probes",
        "graph_rows",
        "expansions",
        "numbers",
        "path",
    ];
    let arguments = Arguments::read(&names);
    let what = arguments.text("what").unwrap_or(ALL).to_owned();
    if what == "help" {
        println!("{HELP}");
        return;
    }
    println!(
        "question    how fast are search among vectors and its parts, beside Faiss and beside the limit?"
    );
    print_machine();
    let mut bench = None;
    for what in what.split(',') {
        println!();
        if what == "generator" {
            generator::run(&arguments);
            continue;
        }
        if what == "shares" {
            shares::run(&arguments);
            continue;
        }
        let bench = bench.get_or_insert_with(|| Bench::new(&arguments));
        match what {
            "flat" => flat::flat(bench, &arguments),
            "single" => flat::single(bench, &arguments),
            "levels" => levels::run(bench, &arguments),
            "u8" => flat::bytes(bench),
            "kmeans" => kmeans::run(bench, &arguments),
            "lists" => lists::of_rows(bench, &arguments),
            "mapped" => mapped::run(bench, &arguments),
            "product" => product::product(bench, &arguments),
            "fastscan" => product::fast(bench, &arguments),
            "graph" => graph::run(bench, &arguments),
            #[cfg(feature = "graph")]
            "hnsw" => hnsw::run(bench, &arguments),
            #[cfg(not(feature = "graph"))]
            "hnsw" => {
                println!("what=hnsw   NOT MEASURED: cargo bench --features graph --bench vector -- what=hnsw")
            }
            "encode" => product::encode(bench, &arguments),
            other => {
                eprintln!("what={other} is no question of this bench: what=help lists them");
                std::process::exit(2);
            }
        }
    }
    if let Some(bench) = bench {
        bench.finish(&arguments);
    }
}

/// The numbers of a list.
fn list(arguments: &Arguments, name: &str, default: &str) -> Vec<usize> {
    let text = arguments.text(name).unwrap_or(default);
    text.split(',').map(|number| number.parse().unwrap_or_else(|_| panic!("{name}={text}"))).collect()
}
