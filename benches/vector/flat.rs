//! `what=flat`, `what=single` and `what=u8`: exact search by all distances, by codes, and among bytes.

use boxwork_kernels::CodePath;
use boxwork_kernels::codes::{CodeNearest, CodeQueries, Codes, Encoder, GROUP, Levels};
use boxwork_kernels::pieces::one_by_one;
use boxwork_kernels::product::SAMPLE_MAX;
use boxwork_kernels::vector::{ByteQueries, Nearest, NumberType, VectorMeasure, VectorRef};

use super::contest::{Bench, Limit, Other, Work, has_vnni, shared};
use super::list;
use super::support::Arguments;
use super::world::{Answers, World};

/// Bytes that a row's first plane has beside its numbers: three numbers of f32.
const TRIPLE_BYTES: usize = 12;

/// Rows that are coded at a time.
const ROWS_AT_ONCE: usize = 4096;

pub(super) fn flat(bench: &Bench, arguments: &Arguments) {
    let world = &bench.world;
    let (queries, count, dimensions) = (world.each_query(), world.count(), world.dimensions);
    let products = queries.len() as f64 * count as f64 * dimensions as f64;
    for (measure, kind, name) in
        [(VectorMeasure::L2, "l2", "IndexFlatL2"), (VectorMeasure::InnerProduct, "ip", "IndexFlatIP")]
    {
        bench.ask(&format!("index {kind}"));
        let codes = codes(bench, measure);
        for k in list(arguments, "k", "10,100") {
            let wanted = world.exact(measure, k);
            let question = format!("search {kind} {k} 0 {0} {0}", queries.len());
            if let Some(found) = bench.found(&question, k) {
                world.assert_same(name, measure, &wanted, &found);
            }
            let by_rows = || {
                shared(bench.threads, queries.len(), |part| {
                    world.flat(bench.path, measure, k, &queries[part])
                })
            };
            assert_eq!(by_rows(), wanted);
            let work = |row, name, limit| Work { row, name, limit, note: String::new() };
            let other = |bar| Other { name, question: question.clone(), bar };
            let of_rows = work("1", format!("{} k {k}, rows", measure.name()), Limit::MultiplyAdds(products));
            bench.contest(&of_rows, &[other(2.0)], &mut || _ = by_rows());
            let by_codes = || {
                shared(bench.threads, queries.len(), |part| {
                    searched(bench, measure, k, &codes, &queries[part], 0..count)
                })
            };
            assert_eq!(by_codes(), wanted, "codes and rows find the same");
            let of_codes =
                work("2", format!("{} k {k}, codes", measure.name()), Limit::ByteProducts(products));
            // With vectors of 256 bits the bar is that of AVX2.
            let bar = if bench.path == CodePath::Avx512 && has_vnni(bench.path) { 6.0 } else { 3.0 };
            bench.contest(&of_codes, &[other(bar)], &mut || _ = by_codes());
        }
        bench.ask("forget");
    }
}

pub(super) fn single(bench: &Bench, arguments: &Arguments) {
    const K: usize = 10;
    let (world, measure) = (&bench.world, VectorMeasure::L2);
    let singles: usize = arguments.get("singles", 100);
    let mut queries = world.each_query();
    queries.truncate(singles.max(1));
    let (count, dimensions) = (world.count(), world.dimensions);
    let codes = codes(bench, measure);
    let mut wanted = world.exact(measure, K);
    wanted.truncate(queries.len());
    let mut others = Vec::new();
    for (kind, made, name, bar) in [
        ("l2", "index l2", "IndexFlatL2, n = 1", 5.0),
        ("panorama", "index panorama 8", "IndexFlatL2Panorama(128, 8)", 1.5),
    ] {
        bench.ask(made);
        let question = format!("search {kind} {K} 0 {} 1", queries.len());
        if let Some(found) = bench.found(&question, K) {
            world.assert_same(name, measure, &wanted, &found);
        }
        others.push(Other { name, question, bar });
    }
    let one_by_one = || -> Answers {
        let each = queries.iter().map(|query| searched(bench, measure, K, &codes, &[query], 0..count));
        each.flatten().collect()
    };
    assert_eq!(one_by_one(), wanted, "codes and rows find the same");
    let bytes = (dimensions.div_ceil(8) * 4 + TRIPLE_BYTES) as f64 * count as f64 * queries.len() as f64;
    let name = format!("one query, k {K}, codes");
    let work =
        Work { row: "3", name, limit: Limit::Bytes(bytes), note: format!("{} queries", queries.len()) };
    bench.contest(&work, &others, &mut || _ = one_by_one());
    bench.ask("forget");
}

pub(super) fn bytes(bench: &Bench) {
    const K: usize = 10;
    let (world, measure) = (&bench.world, VectorMeasure::L2);
    let as_floats: Vec<f32> = world.bytes.iter().map(|x| f32::from(*x)).collect();
    if as_floats != world.rows {
        println!("peer        NOT MEASURED for bytes: rows of a mixture are none");
        return;
    }
    let (queries, count, dimensions) = (world.each_query(), world.count(), world.dimensions);
    let wanted = world.exact(measure, K);
    let mut others = Vec::new();
    for (kind, name, bar) in [("sq8", "QT_8bit_direct", 4.0), ("l2", "IndexFlatL2 on f32", 8.0)] {
        bench.ask(&format!("index {kind}"));
        let question = format!("search {kind} {K} 0 {0} {0}", queries.len());
        if let Some(found) = bench.found(&question, K) {
            world.assert_same(name, measure, &wanted, &found);
        }
        others.push(Other { name, question, bar });
    }
    let search = || {
        shared(bench.threads, queries.len(), |part| {
            let queries = &queries[part];
            let packed = ByteQueries::new(bench.path, measure, NumberType::U8, dimensions, queries)
                .expect("queries of bytes");
            let mut nearest = vec![Nearest::new(K, f64::INFINITY); queries.len()];
            packed.scan(VectorRef::U8(&world.bytes), 0, None, &mut nearest);
            let each = queries.iter().zip(nearest);
            each.map(|(query, nearest)| world.ranked(measure, query, K, nearest.finish(), false)).collect()
        })
    };
    assert_eq!(search(), wanted, "bytes and numbers find the same");
    let products = queries.len() as f64 * count as f64 * dimensions as f64;
    let limit = Limit::ByteProducts(products);
    let work = Work { row: "4", name: format!("bytes, k {K}"), limit, note: String::new() };
    bench.contest(&work, &others, &mut || _ = search());
    bench.ask("forget");
}

/// The codes of all rows, in two planes.
pub(super) fn codes(bench: &Bench, measure: VectorMeasure) -> Codes {
    codes_of(bench, measure, Levels::Planes)
}

/// The codes of all rows, trained on 65,536 of them.
pub(super) fn codes_of(bench: &Bench, measure: VectorMeasure, levels: Levels) -> Codes {
    let World { dimensions, rows, .. } = &bench.world;
    let mut sums = vec![0.0f64; *dimensions];
    for row in rows.chunks_exact(*dimensions) {
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x));
    }
    let count = bench.world.count();
    let centre = sums.into_iter().map(|sum| (sum / count as f64) as f32).collect();
    let apart = count.div_ceil(SAMPLE_MAX).max(1);
    let sample: Vec<f32> = rows.chunks_exact(*dimensions).step_by(apart).flatten().copied().collect();
    let trained = Encoder::trained(measure, levels, centre, &sample, bench.path, &mut one_by_one());
    let encoder = trained.expect("memory for the training").expect("nothing cancels it");
    let mut codes = Codes::new(encoder.clone(), count);
    let mut words = Vec::new();
    for rows in rows.chunks(ROWS_AT_ONCE * dimensions) {
        words.clear();
        encoder.encode(bench.path, rows, &mut words);
        words.chunks_exact(encoder.words()).for_each(|row| codes.push(row.iter().copied()));
    }
    codes
}

/// The k nearest of some queries, by the codes of some rows.
pub(super) fn searched(
    bench: &Bench,
    measure: VectorMeasure,
    k: usize,
    codes: &Codes,
    queries: &[&[f32]],
    rows: std::ops::Range<usize>,
) -> Answers {
    let packed = CodeQueries::new(bench.path, codes, queries);
    let new = || vec![CodeNearest::new(k, f64::INFINITY); queries.len()];
    let mut found = new();
    if queries.len() > 1 || bench.threads == 1 {
        packed.scan(codes, rows, None, &mut found);
    } else {
        // One query is shared by its rows.
        let groups = rows.len().div_ceil(GROUP);
        for part in shared(bench.threads, groups, |part| {
            let mut found = new();
            let upto = (rows.start + part.end * GROUP).min(rows.end);
            packed.scan(codes, rows.start + part.start * GROUP..upto, None, &mut found);
            vec![found]
        }) {
            found.iter_mut().zip(part).for_each(|(all, part)| all.join(part));
        }
    }
    let each = queries.iter().zip(found);
    each.map(|(query, found)| bench.world.ranked(measure, query, k, found.finish(), true)).collect()
}
