//! `what=mapped`: lists whose files are mapped, beside the same lists read into memory, in the same rounds: time to open them, time of a
//! search of lists that were looked into before, and anonymous memory.
//!
//! Both sides find the same, to the bit. A search finds the nearest lists of each query and scans them; distances of what it finds are the
//! store's business, and left out.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use boxwork_kernels::panels::Shortlist;
use boxwork_kernels::vector::VectorRef;
use boxwork_stores::kinds::{Kind as _, Vectors};
use boxwork_stores::lists::{Assigned, Coding, Lists, ListsOptions, Training, write};
use boxwork_stores::object_store::{Access, Rows};
use boxwork_stores::space::Space;
use boxwork_stores::spaces::{self, DistanceOptions};
use boxwork_stores::store::Store;

use super::contest::{Bench, pieces, shared};
use super::list;
use super::support::memory::{anonymous_bytes, megabytes};
use super::support::{Arguments, Spread};
use super::world::World;

const K: usize = 10;
/// Vectors that a thread assigns at a time.
const ASSIGNED: usize = 768;
const SIDES: [Access; 2] = [Access::Read, Access::Map];

pub(super) fn run(bench: &Bench, arguments: &Arguments) {
    let space = space(&bench.world);
    for count in
        list(arguments, "lists", "1024").into_iter().filter(|count| count * 20 <= bench.world.count())
    {
        for coding in [Coding::Rows, Coding::Product, Coding::Fast, Coding::Rabitq] {
            let path = written(bench, &space, coding, count);
            compared(bench, &space, &path, &list(arguments, "probes", "1,16"));
        }
    }
}

/// Compares both sides of a file.
fn compared(bench: &Bench, space: &Arc<dyn Space>, path: &Path, probes: &[usize]) {
    let bytes = std::fs::metadata(path).map_or(0, |file| file.len());
    let open = |access| Lists::open_by(path, space, access).expect("lists");
    let opening = SIDES.map(|access| {
        let seconds = (0..5).map(|_| {
            let begun = Instant::now();
            drop(open(access));
            begun.elapsed().as_secs_f64()
        });
        Spread::of(seconds).median * 1e3
    });
    let mut memory = [0.0; 2];
    let lists = [0, 1].map(|side| {
        let before = anonymous_bytes();
        let lists = open(SIDES[side]);
        let every: Vec<u32> = (0..lists.count() as u32).collect();
        lists.bring_in(&every, &|| false).expect("sound lists");
        memory[side] = megabytes(anonymous_bytes().saturating_sub(before));
        lists
    });
    println!(
        "{:8} {:8.1} MB   opened in {:.2} ms read, {:.2} ms mapped   {:.1} MB anonymous read, {:.1} MB mapped (counted {:.1} and {:.2})",
        lists[1].quantizers().coding().name(),
        megabytes(bytes as usize),
        opening[0],
        opening[1],
        memory[0],
        memory[1],
        megabytes(lists[0].memory_bytes()),
        megabytes(lists[1].memory_bytes())
    );
    for probes in probes.iter().filter(|probes| **probes <= lists[0].count()) {
        let found = [0, 1].map(|side| searched(bench, &lists[side], *probes));
        assert!(found[0] == found[1], "both sides find the same");
        let mut seconds = [Vec::new(), Vec::new()];
        for _ in 0..bench.rounds.max(1) {
            for side in [0, 1] {
                seconds[side].push(bench.seconds(|| _ = searched(bench, &lists[side], *probes)));
            }
        }
        let [read, mapped] = seconds.map(|seconds| Spread::of(seconds).median);
        let rate = found[0].len() as f64 / mapped;
        println!("  {probes:4} probed   {rate:9.0} queries/s mapped   x read {:.3}", read / mapped);
    }
}

/// The places that each query keeps, with the bits of their scores.
fn searched(bench: &Bench, lists: &Lists, probes: usize) -> Vec<Vec<(u32, u32)>> {
    let (world, dimensions) = (&bench.world, bench.world.dimensions);
    shared(bench.threads, world.queries.len() / dimensions, |part| {
        let vectors = &world.queries[part.start * dimensions..part.end * dimensions];
        let near = lists.nearest(vectors, probes);
        let mut pairs: Vec<(u32, usize)> = near
            .iter()
            .enumerate()
            .flat_map(|(query, lists)| lists.iter().map(move |(_, list)| (*list, query)))
            .collect();
        pairs.sort_unstable();
        let mut kept: Vec<Shortlist> =
            vectors.chunks_exact(dimensions).map(|query| lists.shortlist(query, K, f64::INFINITY)).collect();
        let queries = lists.queries(vectors.to_vec());
        for group in pairs.chunk_by(|a, b| a.0 == b.0) {
            let places: Vec<usize> = group.iter().map(|(_, query)| *query).collect();
            let take = |place: &usize| std::mem::replace(&mut kept[*place], Shortlist::new(0, 0.0));
            let mut taken: Vec<Shortlist> = places.iter().map(take).collect();
            lists.scan(group[0].0, &queries, &places, None, &mut taken);
            places.into_iter().zip(taken).for_each(|(place, list)| kept[place] = list);
        }
        let of = |list: Shortlist| -> Vec<(u32, u32)> {
            list.by_score().into_iter().map(|(score, place)| (place, score.to_bits())).collect()
        };
        kept.into_iter().map(of).collect()
    })
}

/// The file of some lists of all rows.
fn written(bench: &Bench, space: &Arc<dyn Space>, coding: Coding, count: usize) -> PathBuf {
    let options = ListsOptions { lists: Some(count), iterations: 5, seed: 1, ..ListsOptions::of(coding) };
    let training = Training::new(space, options).expect("options that fit");
    let trained = training.train(&mut pieces(bench.threads)).expect("memory");
    let quantizers = trained.expect("no one cancels it");
    let (rows, dimensions) = (&bench.world.rows, bench.world.dimensions);
    let mut assigned = Assigned { ids: (0..bench.world.count() as u64).collect(), ..Assigned::default() };
    let each = shared(bench.threads, bench.world.count(), |part| {
        let rows = &rows[part.start * dimensions..part.end * dimensions];
        rows.chunks(ASSIGNED * dimensions).map(|rows| quantizers.assign(rows)).collect()
    });
    for (lists, codes) in each {
        assigned.lists.extend(lists);
        assigned.codes.extend(codes);
    }
    let path = bench.folder.join(format!("{}.lists.arrow", coding.name()));
    write(&path, space, &quantizers, &assigned, &|| false).expect("the folder can be written to");
    path
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
