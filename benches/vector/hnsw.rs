//! `what=hnsw`: walks through a graph of near neighbours, beside exact search by codes and rows in lists, in the same rounds.
//!
//! Each side answers all queries, together and one by one; walks are one by one by nature. A walk's candidates are ranked in f64, as
//! the rows of lists and of codes are. Recalls are shares of the exact k nearest.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use boxwork_kernels::interrupt::never;
use boxwork_kernels::vector::{VectorMeasure, VectorRef};
use boxwork_stores::hnsw::{GraphNumbers, Hnsw, HnswBuilder, HnswOptions};
use boxwork_stores::kinds::{Kind as _, Vectors};
use boxwork_stores::object_store::Rows;
use boxwork_stores::space::Space;
use boxwork_stores::spaces::{self, DistanceOptions};
use boxwork_stores::store::Store;

use super::contest::{Bench, shared};
use super::flat::{codes, searched};
use super::list;
use super::lists::{ByList, RowLists};
use super::support::{Arguments, Spread};
use super::world::{Answers, World};

const K: usize = 10;
/// Rows that a thread adds at a time.
const ROWS_AT_ONCE: usize = 64;

/// One way to answer all queries.
struct Way<'a> {
    name: String,
    recall: f64,
    answer: Box<dyn Fn() -> Answers + 'a>,
    seconds: Vec<f64>,
}

impl<'a> Way<'a> {
    fn new(truth: &Answers, name: String, answer: Box<dyn Fn() -> Answers + 'a>) -> Self {
        let found = answer();
        let rows: Vec<Vec<u32>> =
            found.iter().map(|found| found.iter().map(|(_, row)| *row).collect()).collect();
        Self { name, recall: World::recall(truth, &rows, K), answer, seconds: Vec::new() }
    }
}

pub(super) fn run(bench: &Bench, arguments: &Arguments) {
    let (world, measure) = (&bench.world, VectorMeasure::L2);
    let truth = world.exact(measure, K);
    let (codes, count) = (codes(bench, measure), world.count());
    let each = || world.queries.chunks_exact(world.dimensions);
    let most = list(arguments, "lists", "1024").into_iter().filter(|lists| lists * 20 <= count).max();
    let lists = most.map(|lists| RowLists::new(world, ByList::new(bench, lists)));
    let space = space(world);
    let graphs: Vec<(GraphNumbers, Hnsw)> = arguments
        .text("numbers")
        .unwrap_or("f32,f16,i8")
        .split(',')
        .map(|name| graph(bench, &space, name))
        .collect();
    let by_codes = |queries: &[&[f32]]| searched(bench, measure, K, &codes, queries, 0..count);
    let mut ways: Vec<Way<'_>> = Vec::new();
    ways.push(Way::new(
        &truth,
        "exact by codes, together".to_owned(),
        Box::new(|| shared(bench.threads, truth.len(), |part| by_codes(&world.each_query()[part]))),
    ));
    ways.push(Way::new(
        &truth,
        "exact by codes, one by one".to_owned(),
        Box::new(|| each().flat_map(|query| by_codes(&[query])).collect()),
    ));
    if let (Some(lists), Some(most)) = (&lists, most) {
        for probes in list(arguments, "probes", "4,16,64").into_iter().filter(|probes| *probes <= most) {
            ways.push(Way::new(
                &truth,
                format!("{most} lists, {probes} probed, together"),
                Box::new(move || {
                    shared(bench.threads, world.each_query().len(), |part| {
                        let queries =
                            &world.queries[part.start * world.dimensions..part.end * world.dimensions];
                        lists.searched(bench, queries, probes, K)
                    })
                }),
            ));
            ways.push(Way::new(
                &truth,
                format!("{most} lists, {probes} probed, one by one"),
                Box::new(move || {
                    shared(bench.threads, world.each_query().len(), |part| {
                        let queries = world.each_query()[part].to_vec();
                        queries
                            .into_iter()
                            .flat_map(|query| lists.searched(bench, query, probes, K))
                            .collect()
                    })
                }),
            ));
        }
    }
    for (numbers, graph) in &graphs {
        for expansion in list(arguments, "expansions", "16,32,64,128,256") {
            ways.push(Way::new(
                &truth,
                format!("graph of {}, expansion {expansion}", numbers.name()),
                Box::new(move || {
                    shared(bench.threads, world.each_query().len(), |part| {
                        let walk = |query: &[f32]| walked(world, graph, query, expansion);
                        world.each_query()[part].iter().map(|query| walk(query)).collect()
                    })
                }),
            ));
        }
    }
    report(bench, &mut ways, truth.len());
}

/// Times all ways in turns, and prints their rates beside those of the exact ones.
fn report(bench: &Bench, ways: &mut [Way<'_>], queries: usize) {
    for _ in 0..bench.rounds.max(1) {
        for way in &mut *ways {
            let seconds = bench.seconds(|| _ = (way.answer)());
            way.seconds.push(seconds);
        }
    }
    let rate = |way: &Way<'_>| queries as f64 / Spread::of(way.seconds.iter().copied()).median;
    let exact = [rate(&ways[0]), rate(&ways[1])];
    println!(
        "way                                    recall {K}@{K}      queries/s   x codes together   x one by one"
    );
    for way in ways {
        let own = rate(way);
        println!(
            "{:38} {:12.4} {own:14.0} {:18.2} {:14.2}",
            way.name,
            way.recall,
            own / exact[0],
            own / exact[1]
        );
    }
}

/// The k nearest of the 2 k candidates of a walk.
fn walked(world: &World, graph: &Hnsw, query: &[f32], expansion: usize) -> Vec<(f64, u32)> {
    let found = graph.nearest(query, (expansion, 2 * K), None).expect("as many threads as were named");
    let rows: Vec<u32> = found.into_iter().map(|id| id as u32).collect();
    world.nearest_of(query, &rows, K).into_iter().map(|(square, row)| (square.sqrt(), row)).collect()
}

/// The rows as a store in memory.
fn space(world: &World) -> Arc<dyn Space> {
    let mut rows = Rows::new(Vectors::new(world.dimensions));
    for (row, vector) in world.rows.chunks_exact(world.dimensions).enumerate() {
        let push = |builder: &mut _| Vectors::push(builder, VectorRef::F32(vector));
        rows.push(&row.to_string(), push).and_then(|()| rows.keep()).expect("memory for the rows");
    }
    let store: Arc<dyn Store> = Arc::new(rows.finish(Path::new("rows"), None).expect("a store"));
    spaces::open(&DistanceOptions::named("l2"), store).expect("vectors have l2")
}

/// The graph of all rows, built on the threads of the bench, written and read.
fn graph(bench: &Bench, space: &Arc<dyn Space>, name: &str) -> (GraphNumbers, Hnsw) {
    let numbers = GraphNumbers::named(name).unwrap_or_else(|| panic!("numbers={name}"));
    let options = HnswOptions { connectivity: 16, expansion: 128, numbers };
    let path = bench.folder.join(format!("{name}.hnsw.arrow"));
    let begun = Instant::now();
    let builder = HnswBuilder::new(&path, space, options, bench.threads, &never).expect("a graph");
    let ids: Vec<u64> = (0..space.store().ids_count()).collect();
    let pieces: Vec<&[u64]> = ids.chunks(ROWS_AT_ONCE).collect();
    super::contest::pieces(bench.threads)(pieces.len(), &|piece| {
        builder.add(&path, pieces[piece], &never).expect("room for it");
    });
    let seconds = begun.elapsed().as_secs_f64();
    builder.write(&path, &never).expect("a disk");
    let bytes = std::fs::metadata(&path).map_or(0, |file| file.len());
    let begun = Instant::now();
    let graph = Hnsw::open(&path, space, bench.threads).expect("a graph");
    println!(
        "graph       {name}: built in {seconds:.1} s on {} threads, {:.1} MB, read in {:.2} s",
        bench.threads,
        bytes as f64 / 1e6,
        begun.elapsed().as_secs_f64()
    );
    (numbers, graph)
}
