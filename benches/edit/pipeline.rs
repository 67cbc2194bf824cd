//! `what=pipeline`: the pairs that a shipped pipeline compares on one worker, beside the kernel alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use boxwork::shipped::{self, Shipped};
use boxwork_kernels::CodePath;
use boxwork_kernels::chance::Random;
use boxwork_kernels::distance::Pattern;
use boxwork_kernels::interrupt::never;
use boxwork_operators::catalog;
use boxwork_runtime::operator::Resource;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::{Config, Runtime};
use boxwork_stores::kinds::{Kind as _, Texts};
use boxwork_stores::object_store::Rows;
use boxwork_stores::space::SharedSpace;
use boxwork_stores::spaces::{self, DistanceOptions};
use boxwork_stores::store::{SharedStore, Store};

use super::support::request::seconds_of;
use super::support::{Side, Spread, run_rounds, verdict};
use super::{BLOCK_TEXTS, CASES, blocks, texts};

/// The share of the kernel's rate that a pipeline is to reach.
const BAR: f64 = 0.8;
const QUERIES: usize = 256;
/// The largest distance of a pair that `edit_distances` writes: none of random texts.
const WITHIN: u32 = 3;

/// `edit_distances` of pairs within a range, and `edit_neighbours` of ten, beside the kernel.
pub(super) fn run(texts_count: usize, rounds: usize) {
    let (mut random, case) = (Random::new(5), &CASES[0]);
    let (some, asked) = (texts(&mut random, texts_count, case), texts(&mut random, QUERIES, case));
    let mut rows = Rows::new(Texts);
    for (row, text) in some.iter().enumerate() {
        rows.push(&row.to_string(), |builder| Texts::push(builder, text)).expect("a text");
    }
    let store: Arc<dyn Store> =
        Arc::new(rows.finish_without(Vec::new(), Path::new("texts"), None).expect("a store"));
    let space = spaces::open(&DistanceOptions::named("levenshtein"), Arc::clone(&store)).expect("a space");
    let runtime = Runtime::start(Config::flat(1)).expect("the system gives threads");
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("found.csv");
    let prepared = |pipeline: &Shipped, (name, value): (&str, Value)| {
        let text = |text: &str| Value::Text(text.to_owned());
        let queries = asked.iter().map(|query| text(&query.iter().collect::<String>())).collect();
        let values = [
            ("texts", text("texts")),
            ("queries", Value::List(queries)),
            ("format", text("csv")),
            ("out", text(&out.display().to_string())),
            ("device", text("cpu")),
            (name, value),
        ];
        let values: BTreeMap<String, Value> =
            values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let resources: BTreeMap<String, Resource> = BTreeMap::from([
            ("objects".to_owned(), Arc::new(SharedStore(Arc::clone(&store))) as Resource),
            ("space".to_owned(), Arc::new(SharedSpace(Arc::clone(&space))) as Resource),
        ]);
        let declaration = &pipeline.load().declaration;
        let prepared =
            Prepared::with_resources(declaration, &catalog(), &values, &runtime.environment(), resources);
        Arc::new(prepared.unwrap_or_else(|error| panic!("{error}")))
    };
    let (path, kept) = (CodePath::detect(), blocks(&some));
    let patterns: Vec<Pattern> = asked.iter().map(|query| Pattern::new(query)).collect();
    let patterns: Vec<&Pattern> = patterns.iter().collect();
    let mut found = vec![0; BLOCK_TEXTS * QUERIES];
    let mut within = || {
        let mut count = 0;
        for (block, of_block) in kept.iter().zip(some.chunks(BLOCK_TEXTS)) {
            let found = &mut found[..block.len() * QUERIES];
            block
                .distances(path, &patterns, |text| &of_block[text], found, &never)
                .expect("never interrupted");
            count += found.iter().filter(|distance| **distance <= WITHIN).count();
        }
        count
    };
    let distances = prepared(&shipped::EDIT_DISTANCES, ("within", Value::Number(f64::from(WITHIN))));
    let neighbours = prepared(&shipped::EDIT_NEIGHBOURS, ("k", Value::Integer(10)));
    seconds_of(&runtime, &distances);
    let lines = fs::read_to_string(&out).expect("the file was written").lines().count();
    assert_eq!(lines, within() + 1, "rows of pairs and a head");
    let pairs = some.len() * QUERIES;
    let mut sides = [
        Side::new("the kernel".to_owned(), || {
            let begun = Instant::now();
            within();
            begun.elapsed().as_secs_f64() / pairs as f64
        }),
        Side::new("edit_distances".to_owned(), || seconds_of(&runtime, &distances) / pairs as f64),
        Side::new("edit_neighbours".to_owned(), || seconds_of(&runtime, &neighbours) / pairs as f64),
    ];
    run_rounds(rounds, &mut sides);
    println!("\npipeline: {QUERIES} queries, {} texts of 32 letters of DNA, one worker, {path}", some.len());
    for side in &sides {
        let rate = Spread::of(side.seconds.iter().map(|seconds| 1e-6 / seconds));
        println!("{:<18} {rate:>24} 1e6 pairs/s", side.name);
    }
    for side in &sides[1..] {
        let share = side.faster_than(&sides[0]);
        println!("ratio       {} is {share} times as fast as the kernel", side.name);
        verdict(&side.name, share.median, BAR, share.median >= BAR);
    }
}
