//! Edit distances with costs that are not 1, scores and warped series, beside the plain loop over rows.

use boxwork_kernels::CodePath;
use boxwork_kernels::chance::Random;
use boxwork_kernels::distance::{Distance, Dtw, EditCosts, LetterMatrix, LocalScores};
use boxwork_kernels::interrupt::never;

use super::support::{Side, Spread, run_rounds, verdict};

/// Times the rate of the plain loop that are aimed at, by edits in numbers of 16 bits.
const BAR: f64 = 20.0;
const INSERT: u32 = 3;
const DELETE: u32 = 3;
const REPLACE: u32 = 4;

fn texts(random: &mut Random, count: usize, length: usize) -> Vec<Vec<char>> {
    let mut text = || (0..length).map(|_| ['A', 'C', 'G', 'T'][random.idx(4)]).collect();
    (0..count).map(|_| text()).collect()
}

/// The recurrence row by row, one cell after the other.
fn plain(row: &mut Vec<u32>, from: &[char], to: &[char]) -> u32 {
    row.clear();
    row.extend((0..=to.len()).map(|column| column as u32 * INSERT));
    for (place, x) in from.iter().enumerate() {
        let mut corner = row[0];
        row[0] = (place as u32 + 1) * DELETE;
        for (column, y) in to.iter().enumerate() {
            let replaced = corner + if x == y { 0 } else { REPLACE };
            corner = row[column + 1];
            row[column + 1] = replaced.min(row[column] + INSERT).min(corner + DELETE);
        }
    }
    row[to.len()]
}

/// A text and others, by each side; the answers are compared before any is timed.
fn run_case(name: &str, path: CodePath, (rows, columns, count): (usize, usize, usize), rounds: usize) {
    let mut random = Random::new(7);
    let (from, others) = (&texts(&mut random, 1, rows)[0], texts(&mut random, count, columns));
    let others: Vec<&[char]> = others.iter().map(Vec::as_slice).collect();
    let cells = rows * columns * count;
    let costs = EditCosts::new(INSERT, DELETE, REPLACE).expect("costs");
    let matrix = "A C G T\nA 0 4 2 4\nC 4 0 4 2\nG 2 4 0 4\nT 4 2 4 0";
    let matrix = std::sync::Arc::new(LetterMatrix::parse(matrix).expect("a matrix"));
    let by_matrix = costs.clone().with_matrix(std::sync::Arc::clone(&matrix)).expect("costs");
    let local = LocalScores::new(2, 1, 2, 2).expect("scores");
    let dtw = Dtw::new(None);
    let number = |letter: &char| *letter as u32 as f32;
    let series: Vec<Vec<f32>> = others.iter().map(|text| text.iter().map(number).collect()).collect();
    let series: Vec<&[f32]> = series.iter().map(Vec::as_slice).collect();
    let of_from: Vec<f32> = from.iter().map(number).collect();
    let mut row = Vec::new();
    let expected: Vec<f64> = others.iter().map(|to| f64::from(plain(&mut row, from, to))).collect();
    let mut found = vec![f64::NAN; count];
    costs.to_each(path, from, &others, &mut found, &never).expect("never interrupted");
    assert_eq!(found, expected, "{name}");
    by_matrix.to_each(path, from, &others, &mut found, &never).expect("never interrupted");
    assert_eq!(found[0], by_matrix.reference(from, others[0]), "{name}, by a matrix");
    local.to_each(path, from, &others, &mut found, &never).expect("never interrupted");
    assert_eq!(found[0], local.reference(from, others[0]), "{name}, local");
    dtw.to_each(path, &of_from, &series, &mut found, &never).expect("never interrupted");
    // Differences of letters are whole numbers, so their sums in f32 are exact.
    assert_eq!(found[0], dtw.reference(&of_from, series[0]), "{name}, dtw");
    let [mut edit, mut with_matrix, mut scores, mut warped] = [const { Vec::new() }; 4];
    for out in [&mut edit, &mut with_matrix, &mut scores, &mut warped] {
        out.resize(count, 0.0);
    }
    let (mut sum, cells) = (0_u64, cells as f64);
    let per_cell = cells as usize;
    let mut sides = [
        Side::on_this_core("edit", per_cell, || {
            costs.to_each(path, from, &others, &mut edit, &never).expect("never interrupted");
        }),
        Side::on_this_core("edit, matrix", per_cell, || {
            by_matrix.to_each(path, from, &others, &mut with_matrix, &never).expect("never interrupted");
        }),
        Side::on_this_core("local score", per_cell, || {
            local.to_each(path, from, &others, &mut scores, &never).expect("never interrupted");
        }),
        Side::on_this_core("dtw, f32", per_cell, || {
            dtw.to_each(path, &of_from, &series, &mut warped, &never).expect("never interrupted");
        }),
        Side::on_this_core("edit, row by row", per_cell, || {
            sum += others.iter().map(|to| u64::from(plain(&mut row, from, to))).sum::<u64>();
        }),
    ];
    run_rounds(rounds, &mut sides);
    println!("\n{name}: {rows} letters, {count} texts of {columns}, {path}");
    let plain = &sides[4];
    for side in &sides {
        let rate = Spread::of(side.seconds.iter().map(|seconds| 1e-9 / seconds));
        println!("{:<18} {rate:>24} 1e9 cells/s, {} times row by row", side.name, side.faster_than(plain));
    }
    let ratio = sides[0].faster_than(plain).median;
    verdict(name, ratio, BAR, ratio >= BAR);
}

/// Texts abreast and a long pair, with AVX2 and with all instructions of the machine.
pub fn run(rounds: usize) {
    let mut paths = vec![CodePath::Avx2, CodePath::detect()];
    paths.retain(|path| path.is_available());
    paths.dedup();
    for path in paths {
        run_case("abreast", path, (128, 128, 2048), rounds);
        run_case("long pair", path, (8192, 8192, 1), rounds);
    }
    println!("\nThe bar is for edits, whose numbers have 16 bits on each path.");
}
