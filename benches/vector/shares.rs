//! `what=shares`: how many rows certain bounds leave, by levels of codes, on the sample's own rows and queries.

use std::fs;
use std::path::PathBuf;

use boxwork_kernels::CodePath;
use boxwork_kernels::codes::{CodeNearest, CodeQueries, Codes, Encoder, Levels};
use boxwork_kernels::pieces::one_by_one;
use boxwork_kernels::vector::VectorMeasure;

use super::support::Arguments;
use super::world::{SAMPLE_DIMENSIONS, sample};

const K: usize = 10;
const QUERIES: &str = "query_100x128.u8";

pub(super) fn run(arguments: &Arguments) {
    let Some(rows) = sample(arguments) else {
        println!("shares      NOT MEASURED: no sample=FILE");
        return;
    };
    let beside = arguments.text("sample").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data/vectors/bigann10k")),
        |path| PathBuf::from(path).parent().map(PathBuf::from).unwrap_or_default(),
    );
    let path = beside.join(QUERIES);
    let queries = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let widened = |bytes: &[u8]| -> Vec<f32> { bytes.iter().map(|x| f32::from(*x)).collect() };
    let (rows, queries) = (widened(&rows), widened(&queries));
    let queries: Vec<&[f32]> = queries.chunks_exact(SAMPLE_DIMENSIONS).collect();
    let (measure, count) = (VectorMeasure::L2, rows.len() / SAMPLE_DIMENSIONS);
    let mut sums = [0.0; SAMPLE_DIMENSIONS];
    for row in rows.chunks_exact(SAMPLE_DIMENSIONS) {
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x));
    }
    let centre: Vec<f32> = sums.iter().map(|sum| (sum / count as f64) as f32).collect();
    let kth: Vec<f64> = queries.iter().map(|query| kth_of(&rows, query)).collect();
    println!("queries     {} of {}, k {K}", queries.len(), path.display());
    println!("levels      bytes a row   left by upper bounds   left by the k-th distance");
    for levels in Levels::ALL {
        let trained =
            Encoder::trained(measure, levels, centre.clone(), &rows, CodePath::detect(), &mut one_by_one());
        let encoder = trained.expect("memory for the training").expect("nothing cancels it");
        let (mut codes, mut words) = (Codes::new(encoder.clone(), count), Vec::new());
        encoder.encode(CodePath::detect(), &rows, &mut words);
        words.chunks_exact(encoder.words()).for_each(|row| codes.push(row.iter().copied()));
        let mut found = vec![CodeNearest::new(K, f64::INFINITY); queries.len()];
        CodeQueries::new(CodePath::detect(), &codes, &queries).scan(&codes, 0..count, None, &mut found);
        let (mut left, mut best) = (0, 0);
        for (found, kth) in found.into_iter().zip(&kth) {
            let rows = found.finish();
            left += rows.len();
            best += rows.iter().filter(|(lower, _)| lower <= kth).count();
        }
        let share = |rows: usize| 100.0 * rows as f64 / (count * queries.len()) as f64;
        println!(
            "{:11} {:11} {:20.3} % {:25.3} %",
            levels.name(),
            4 * encoder.words(),
            share(left),
            share(best)
        );
    }
}

/// The k-th distance of a query.
fn kth_of(rows: &[f32], query: &[f32]) -> f64 {
    let each = rows.chunks_exact(SAMPLE_DIMENSIONS).map(|row| VectorMeasure::L2.between(query, row));
    let mut distances: Vec<f64> = each.collect();
    *distances.select_nth_unstable_by(K - 1, f64::total_cmp).1
}
