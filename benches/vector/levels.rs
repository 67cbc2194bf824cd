//! `what=levels`: levels of codes against each other and against a scan of the rows, for single queries and blocks of them.

use boxwork_kernels::codes::Levels;
use boxwork_kernels::vector::VectorMeasure;

use super::contest::{Bench, shared};
use super::flat::{codes_of, searched};
use super::support::{Arguments, Side, run_rounds};

const K: usize = 10;
const MEASURE: VectorMeasure = VectorMeasure::L2;

pub(super) fn run(bench: &Bench, arguments: &Arguments) {
    let world = &bench.world;
    let names = arguments.text("codes").unwrap_or("planes,pca").split(',');
    let levels: Vec<Levels> =
        names.map(|name| name.parse().unwrap_or_else(|error| panic!("codes={name}: {error}"))).collect();
    let all: Vec<_> = levels.iter().map(|levels| (*levels, codes_of(bench, MEASURE, *levels))).collect();
    let queries = world.each_query();
    let singles = &queries[..queries.len().min(arguments.get("singles", 100)).max(1)];
    let count = world.count();
    let wanted = world.exact(MEASURE, K);
    for (what, is_single, queries) in [("one by one", true, singles), ("in a block", false, &queries[..])] {
        println!("{} queries of {count} rows, k {K}, {what}", queries.len());
        let at_once = if is_single { 1 } else { queries.len() };
        let by_rows = || {
            let each = queries.chunks(at_once).flat_map(|queries| {
                shared(bench.threads, queries.len(), |part| {
                    world.flat(bench.path, MEASURE, K, &queries[part])
                })
            });
            each.collect::<Vec<_>>()
        };
        let by_codes = |codes| {
            let each = queries.chunks(at_once).flat_map(|queries| match is_single {
                true => searched(bench, MEASURE, K, codes, queries, 0..count),
                false => shared(bench.threads, queries.len(), |part| {
                    searched(bench, MEASURE, K, codes, &queries[part], 0..count)
                }),
            });
            each.collect::<Vec<_>>()
        };
        assert_eq!(by_rows(), wanted[..queries.len()]);
        let mut sides: Vec<Side<'_>> = Vec::new();
        for (levels, codes) in &all {
            assert_eq!(by_codes(codes), wanted[..queries.len()], "{} and rows find the same", levels.name());
            let by_codes = &by_codes;
            sides.push(Side::new(levels.name(), move || bench.seconds(|| drop(by_codes(codes)))));
        }
        sides.push(Side::new("rows", || bench.seconds(|| drop(by_rows()))));
        run_rounds(bench.rounds, &mut sides);
        let bytes = all.iter().map(|(_, codes)| 4 * codes.encoder().words()).chain([4 * world.dimensions]);
        for (side, bytes) in sides.iter().zip(bytes) {
            let (seconds, times) = (side.spread(), side.faster_than(&sides[0]));
            println!(
                "{:10} {bytes:5} bytes a row {seconds:.4} s, {times:.2} x as fast as {}",
                side.name, sides[0].name
            );
        }
    }
}
