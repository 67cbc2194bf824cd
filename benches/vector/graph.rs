//! `what=graph`: the nearest neighbours of every row, exact.

use boxwork_kernels::neighbours::graph;
use boxwork_kernels::vector::VectorMeasure;

use super::contest::{Bench, Limit, Other, Work, pieces, shared};
use super::flat::{codes, searched};
use super::support::Arguments;

/// Neighbours of a row.
const K: usize = 10;
/// Rows whose neighbours are looked for in plain loops.
const CHECKED: usize = 20;
/// Rows that are asked for together, by codes.
const TOGETHER: usize = 1024;

pub(super) fn run(bench: &Bench, arguments: &Arguments) {
    let (world, measure) = (&bench.world, VectorMeasure::L2);
    let most = arguments.get("graph_rows", 100_000);
    if world.count() > most {
        println!(
            "graph       NOT MEASURED for {} rows: allow them by graph_rows=, or ask for rows={most}",
            world.count()
        );
        return;
    }
    let (count, dimensions) = (world.count(), world.dimensions);
    let by_rows = || {
        let found = graph(&world.rows, dimensions, K, bench.path, &mut pieces(bench.threads));
        found.expect("memory").expect("no one cancels it")
    };
    let found = by_rows();
    for row in (0..count).step_by((count / CHECKED).max(1)) {
        let others = (0..count as u32).filter(|other| *other as usize != row);
        let own = world.row(row as u32);
        let mut wanted: Vec<(f64, u32)> =
            others.map(|other| (measure.between(own, world.row(other)), other)).collect();
        wanted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        wanted.truncate(K);
        let own: Vec<(f64, u32)> = found.of(row).map(|(other, distance)| (distance, other)).collect();
        assert_eq!(own, wanted, "the neighbours of row {row}");
    }
    bench.ask("index l2");
    let question = format!("graph {K}");
    if let Some(peers) = bench.found(&question, K + 1) {
        let tolerance = world.tolerance();
        for (row, peers) in peers.iter().enumerate() {
            let own = world.row(row as u32);
            let square = |other: i64| world.squared(own, u32::try_from(other).expect("a row"));
            let mut theirs: Vec<f64> = peers.iter().map(|other| square(*other)).collect();
            theirs.sort_by(f64::total_cmp);
            // The row itself, or a copy of it, is the nearest.
            for ((_, distance), square) in found.of(row).zip(&theirs[1..]) {
                assert!(
                    (distance * distance - square).abs() <= tolerance,
                    "{distance} and {square} of row {row}"
                );
            }
        }
    }
    let products = count as f64 * count as f64 * dimensions as f64;
    let note = String::new();
    let work = Work {
        row: "10",
        name: format!("graph of {count}, k {K}, rows"),
        // Each distance serves both rows.
        limit: Limit::MultiplyAdds(products / 2.0),
        note,
    };
    let other = |bar| Other { name: "IndexFlatL2.search(rows, 11)", question: question.clone(), bar };
    bench.contest(&work, &[other(2.0)], &mut || _ = by_rows());
    let codes = codes(bench, measure);
    let by_codes = || {
        shared(bench.threads, count, |part| {
            let mut all = Vec::with_capacity(part.len());
            for first in part.clone().step_by(TOGETHER) {
                let queries: Vec<&[f32]> =
                    (first..part.end.min(first + TOGETHER)).map(|row| world.row(row as u32)).collect();
                for (row, found) in (first..).zip(searched(bench, measure, K + 1, &codes, &queries, 0..count))
                {
                    let others = found.into_iter().filter(|(_, other)| *other as usize != row);
                    all.push(others.take(K).collect::<Vec<_>>());
                }
            }
            all
        })
    };
    for (row, by_codes) in by_codes().into_iter().enumerate() {
        let by_rows: Vec<(f64, u32)> = found.of(row).map(|(other, distance)| (distance, other)).collect();
        assert_eq!(by_codes, by_rows, "codes and rows find the same neighbours of row {row}");
    }
    let name = format!("graph of {count}, k {K}, codes");
    let work = Work { row: "10", name, limit: Limit::ByteProducts(products), note: String::new() };
    bench.contest(&work, &[other(8.0)], &mut || _ = by_codes());
    bench.ask("forget");
}
