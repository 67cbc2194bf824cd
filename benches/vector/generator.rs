//! `what=generator`: are generated vectors as hard to search as the sample they are made from?

use std::collections::BTreeSet;

use boxwork_kernels::CodePath;
use boxwork_kernels::distance::squared_l2;
use boxwork_kernels::kmeans::{Assigner, Options, k_means, start};
use boxwork_kernels::pieces::one_by_one;
use boxwork_kernels::product::{Bits, Codebook};
use boxwork_kernels::vector::VectorRef;
use boxwork_kernels::vector::generate::Generator;

use super::support::{Arguments, verdict};
use super::world::{SAMPLE_DIMENSIONS, SEED, sample};

/// Rows and queries, of the sample and of the generated vectors.
const ROWS: usize = 9000;
const QUERIES: usize = 500;
const NEAR: [usize; 2] = [20, 100];
const LISTS: usize = 64;
const PROBES: [usize; 6] = [1, 2, 4, 8, 16, 32];
const K: usize = 10;
const PARTS: usize = 16;
/// Recalls of ten neighbours in lists of the sample: what generated vectors are held to.
const RECALLS: [f64; 6] = [0.490, 0.669, 0.827, 0.933, 0.985, 0.999];
const RECALL_OFF: f64 = 0.06;
/// The intrinsic dimensions that count as those of the sample.
const DIMENSIONS: [f64; 2] = [14.0, 19.0];

/// Figures that describe how hard vectors are to search.
struct Hardness {
    /// Mean distances of the nearest, the tenth and the hundredth.
    near: [f64; 3],
    mean: f64,
    intrinsic: [f64; 2],
    in_lists: [f64; 6],
    by_codes: [f64; 3],
}

pub(super) fn run(arguments: &Arguments) {
    println!("question    are generated vectors as hard to search as the sample they are made from?");
    let Some(sample) = sample(arguments) else {
        println!("NOT MEASURED: there is no sample; name one by sample=FILE");
        return;
    };
    let generator = Generator::of_sample(SEED, VectorRef::U8(&sample), SAMPLE_DIMENSIONS).expect("16 rows");
    let wide: Vec<f32> = sample.iter().map(|x| f32::from(*x)).collect();
    let held_out = ROWS * SAMPLE_DIMENSIONS;
    assert!(wide.len() >= held_out + QUERIES * SAMPLE_DIMENSIONS, "a sample of {} rows", ROWS + QUERIES);
    let of_sample = Hardness::of(&wide[..held_out], &wide[held_out..][..QUERIES * SAMPLE_DIMENSIONS]);
    let made = generator.rows(0..(ROWS + QUERIES) as u64).all().widened();
    let (rows, queries) = made.split_at(held_out);
    let of_made = Hardness::of(rows, queries);
    println!("{ROWS} rows, {QUERIES} queries, recall of {K} in {LISTS} lists, codes of {PARTS} x 8 bits");
    for (name, hardness) in [("sample", &of_sample), ("generated", &of_made)] {
        let Hardness { near, mean, intrinsic, in_lists, by_codes } = hardness;
        println!("{name:12}nearest, 10th, 100th {near:.0?}, mean {mean:.0}, intrinsic {intrinsic:.1?}");
        println!("            probes {PROBES:?}: {in_lists:.3?}; R@1, 10, 100 {by_codes:.3?}");
    }
    for (near, found) in NEAR.iter().zip(of_made.intrinsic) {
        let holds = (DIMENSIONS[0]..=DIMENSIONS[1]).contains(&found);
        verdict(&format!("intrinsic dimension by {near}, from 14"), found, DIMENSIONS[1], holds);
        assert!(holds, "the intrinsic dimension {found} is not that of the sample");
    }
    for ((probes, found), wanted) in PROBES.iter().zip(of_made.in_lists).zip(RECALLS) {
        let holds = (found - wanted).abs() <= RECALL_OFF;
        verdict(&format!("recall, {probes} probes"), found, wanted, holds);
        assert!(holds, "recall {found} instead of about {wanted}");
    }
}

impl Hardness {
    fn of(rows: &[f32], queries: &[f32]) -> Self {
        let dimensions = SAMPLE_DIMENSIONS;
        let row = |row: u32| &rows[row as usize * dimensions..][..dimensions];
        let count = rows.len() / dimensions;
        let (mut near, mut mean, mut intrinsic) = ([0.0; 3], 0.0, [0.0; 2]);
        let mut truth = Vec::new();
        let queries: Vec<&[f32]> = queries.chunks_exact(dimensions).collect();
        for query in &queries {
            let mut all: Vec<(f64, u32)> =
                (0..count as u32).map(|other| (squared_l2(query, row(other)).sqrt(), other)).collect();
            mean += all.iter().map(|(distance, _)| distance).sum::<f64>() / count as f64;
            all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            near.iter_mut().zip([0, 9, 99]).for_each(|(sum, place)| *sum += all[place].0);
            // The maximum-likelihood estimate of Levina and Bickel (2004), averaged over the queries.
            for (sum, near) in intrinsic.iter_mut().zip(NEAR) {
                let radius = all[near - 1].0;
                let logs = all[..near - 1].iter().map(|(distance, _)| (radius / distance.max(1e-9)).ln());
                *sum += (near - 1) as f64 / logs.sum::<f64>();
            }
            truth.push(all[..K].iter().map(|(_, other)| *other).collect::<Vec<u32>>());
        }
        let each = queries.len() as f64;
        Self {
            near: near.map(|sum| sum / each),
            mean: mean / each,
            intrinsic: intrinsic.map(|sum| sum / each),
            in_lists: in_lists(rows, &queries, &truth),
            by_codes: by_codes(rows, &queries, &truth),
        }
    }
}

/// The recall of the true neighbours among the rows of the nearest lists.
fn in_lists(rows: &[f32], queries: &[&[f32]], truth: &[Vec<u32>]) -> [f64; 6] {
    let (dimensions, path) = (SAMPLE_DIMENSIONS, CodePath::detect());
    let first = start((rows.len() / dimensions) as u64, LISTS, 1).into_iter();
    let first = first.flat_map(|row| rows[row as usize * dimensions..][..dimensions].to_vec()).collect();
    let options = Options { iterations: 25, seed: 1, spherical: false, frozen: 0 };
    let found = k_means(rows, dimensions, first, options, path, &mut one_by_one());
    let centroids = found.expect("memory").expect("no one cancels it").centroids;
    let of_row = Assigner::new(&centroids, dimensions, None).assign(path, rows);
    PROBES.map(|probes| {
        let mut hits = 0;
        for (query, truth) in queries.iter().zip(truth) {
            let mut nearest: Vec<(f64, u32)> = centroids
                .chunks_exact(dimensions)
                .zip(0..)
                .map(|(centroid, list)| (squared_l2(query, centroid), list))
                .collect();
            nearest.sort_by(|a, b| a.0.total_cmp(&b.0));
            let probed: BTreeSet<u32> = nearest[..probes].iter().map(|(_, list)| *list).collect();
            hits += truth.iter().filter(|row| probed.contains(&of_row[**row as usize].0)).count();
        }
        hits as f64 / (K * queries.len()) as f64
    })
}

/// The share of queries whose nearest row is among the 1, 10 and 100 of the nearest codes.
fn by_codes(rows: &[f32], queries: &[&[f32]], truth: &[Vec<u32>]) -> [f64; 3] {
    let (dimensions, path) = (SAMPLE_DIMENSIONS, CodePath::detect());
    let found = Codebook::train(rows, dimensions, PARTS, Bits::Eight, 1, path, &mut one_by_one());
    let codebook = found.expect("memory").expect("no one cancels it");
    let codes = codebook.encoder().encode(path, rows);
    let mut hits = [0; 3];
    let mut tables = vec![0.0; codebook.tables_len()];
    for (query, truth) in queries.iter().zip(truth) {
        codebook.tables(path, query, &mut tables);
        let sum = |code: &[u8]| -> f32 {
            code.iter().enumerate().map(|(part, centroid)| tables[part * 256 + usize::from(*centroid)]).sum()
        };
        let sums: Vec<f32> = codes.chunks_exact(PARTS).map(sum).collect();
        let own = (sums[truth[0] as usize], truth[0]);
        let before = sums.iter().zip(0..).filter(|(sum, row)| (**sum, *row) < own).count();
        hits.iter_mut().zip([1, 10, 100]).for_each(|(hits, r)| *hits += usize::from(before < r));
    }
    hits.map(|hits| hits as f64 / queries.len() as f64)
}
