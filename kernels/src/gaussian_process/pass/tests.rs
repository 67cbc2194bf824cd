//! The f32 pass against the one in f64, on all paths; and shortlists against those of all objects.

use proptest::prelude::*;

use super::*;
use crate::CodePath;
use crate::chance::Random;
use half::f16;

/// Sketches of about norm 1/2, in tiles; some of them equal.
fn tiles(seed: u64, objects: usize) -> Vec<u16> {
    let mut random = Random::mixed(seed);
    let mut tiles = vec![0; objects.div_ceil(TILE) * TILE_NUMBERS];
    for object in 0..objects {
        let sketch = match object % 7 {
            6 => at(&tiles, object / 2),
            _ => {
                std::array::from_fn(|number| f16::from_f64(random.normal() / (4.0 + number as f64)).to_bits())
            }
        };
        place(&mut tiles, object, &sketch);
    }
    tiles
}

fn marks(seed: u64, tiles: &[u16], count: usize) -> Vec<PassMark> {
    let mut random = Random::mixed(!seed);
    let objects = tiles.len() / COORDINATES;
    (0..count)
        .map(|_| PassMark {
            sketch: at(tiles, random.idx(objects)),
            weight: random.normal(),
            noise: if random.unit() < 0.3 { 1.0 } else { 0.1 },
        })
        .collect()
}

fn norm_max(tiles: &[u16]) -> f64 {
    let norm = |object| at(tiles, object).map(|bits| f64::from(coordinate(bits)).powi(2)).iter().sum::<f64>();
    (0..tiles.len() / COORDINATES).map(norm).fold(0.0, f64::max).sqrt()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn fast_bounds_are_within_their_declared_error_and_give_the_same_shortlist(
        seed in 0u64..1000,
        objects in 1usize..200,
        count in 0usize..30,
        form in prop::sample::select(Form::ALL.to_vec()),
        length in prop::sample::select(vec![0.02, 0.3, 0.5, 4.0]),
        explore in prop::sample::select(vec![0.0, 0.25, 2.0]),
        size in 0usize..40,
    ) {
        let tiles = tiles(seed, objects);
        let marks = marks(seed, &tiles, count);
        let pass = Pass::new(Covariance::new(form, length), explore, &marks);
        let exact: Vec<Upper> = (0..objects).map(|object| pass.upper(&at(&tiles, object))).collect();
        let mut expected: Vec<(u64, Upper)> = (0..).zip(exact.iter().copied()).collect();
        expected.sort_by(|a, b| b.1.upper.total_cmp(&a.1.upper).then(a.0.cmp(&b.0)));
        expected.truncate(size);
        let (error, columns_error) = (pass.error(norm_max(&tiles)), pass.error_of_columns(norm_max(&tiles)));
        for path in CodePath::available() {
            let fast = FastPass::new(&pass, path);
            let padded = tiles.len() / COORDINATES;
            let mut uppers = vec![f32::NAN; padded];
            let mut means = uppers.clone();
            fast.uppers(&tiles, &mut means, &mut uppers);
            let mut columns = vec![vec![7; padded]; count];
            let mut slices: Vec<&mut [u16]> = columns.iter_mut().map(Vec::as_mut_slice).collect();
            fast.columns(&tiles, &mut slices);
            let columns: Vec<Column<'_>> = columns
                .iter()
                .zip(&marks)
                .map(|(covariances, mark)| Column { covariances, weight: mark.weight, noise: mark.noise })
                .collect();
            let mut folded = vec![f32::NAN; padded];
            let mut folded_means = folded.clone();
            FastPass::fold(path, &columns, explore, &mut folded_means, &mut folded);
            let sides = [(&uppers, &means, error), (&folded, &folded_means, columns_error)];
            for (uppers, means, error) in sides {
                for (object, (upper, exact)) in uppers.iter().zip(&exact).enumerate() {
                    let off = (f64::from(*upper) - exact.upper).abs();
                    prop_assert!(off <= error, "{path}, object {object}: off by {off:e}, declared {error:e}");
                    let off = (f64::from(means[object]) - exact.mean).abs();
                    prop_assert!(off <= error, "{path}, mean {object}: off by {off:e}, declared {error:e}");
                }
                let mut list = Shortlist::new(size, error);
                let mut other = list.clone();
                for (object, upper) in uppers[..objects].iter().enumerate() {
                    if object % 3 == 0 { &mut list } else { &mut other }.offer(object as u64, *upper);
                }
                list.merge(other);
                prop_assert_eq!(list.ranked(|id| exact[id as usize]), expected.clone(), "{}", path);
            }
        }
    }

    #[test]
    fn the_bound_is_above_the_score_of_every_object(
        seed in 0u64..1000,
        count in 1usize..20,
        explore in 0.0f64..2.0,
    ) {
        let tiles = tiles(seed, 64);
        let mut marks = marks(seed, &tiles, count);
        let covariance = Covariance::new(Form::InverseMultiquadric, 0.4);
        let between = |a: &[u16; COORDINATES], b: &[u16; COORDINATES]| {
            let differences = a.iter().zip(b).map(|(a, b)| f64::from(coordinate(*a)) - f64::from(coordinate(*b)));
            covariance.of(differences.fold(0.0, |sum, x| sum + x * x).sqrt())
        };
        let mut model = super::super::Model::new();
        for idx in 0..count {
            let earlier: Vec<f64> =
                marks[..idx].iter().map(|other| between(&other.sketch, &marks[idx].sketch)).collect();
            model.push(&earlier, (idx % 2) as f64, marks[idx].noise);
        }
        for (mark, weight) in marks.iter_mut().zip(model.weights()) {
            mark.weight = weight;
        }
        let pass = Pass::new(covariance, explore, &marks);
        for object in 0..64 {
            let sketch = at(&tiles, object);
            let row: Vec<f64> = marks.iter().map(|mark| between(&mark.sketch, &sketch)).collect();
            let mean: f64 = row.iter().zip(&marks).map(|(k, mark)| k * mark.weight).sum();
            let score = mean + explore * model.variance(&row).sqrt();
            prop_assert!(pass.upper(&sketch).upper >= score - 1e-12, "object {object}");
        }
    }
}

#[test]
fn a_length_too_small_for_f32_declares_an_infinite_error_and_the_shortlist_is_right_all_the_same() {
    let tiles = tiles(1, 50);
    let marks = marks(1, &tiles, 5);
    let pass = Pass::new(Covariance::new(Form::Gaussian, 1e-25), 0.25, &marks);
    let error = pass.error(norm_max(&tiles));
    assert!(error.is_infinite() && pass.error_of_columns(1.0).is_infinite());
    let mut uppers = vec![0.0; 64];
    FastPass::new(&pass, CodePath::detect()).uppers(&tiles, &mut [0.0; 64], &mut uppers);
    let mut list = Shortlist::new(3, error);
    uppers[..50].iter().enumerate().for_each(|(object, upper)| list.offer(object as u64, *upper));
    assert_eq!(list.clone().candidates().len(), 50);
    assert_eq!(list.ranked(|id| pass.upper(&at(&tiles, id as usize))).len(), 3);
}

#[test]
fn long_lists_are_cut_as_they_come() {
    let mut list = Shortlist::new(10, 1e-3);
    for id in 0..100_000u64 {
        list.offer(id, (crate::chance::mix(id) >> 40) as f32 / (1u64 << 24) as f32);
    }
    assert!(list.len() <= 4 * 256 && list.least() > 0.9);
    let candidates = list.candidates();
    assert!((10..400).contains(&candidates.len()) && candidates.is_sorted(), "{}", candidates.len());
    // All within the margin: nothing can be dropped, and a cut at each offer would take minutes here.
    let mut list = Shortlist::new(10, 0.5);
    (0..1 << 20).for_each(|id| list.offer(id, 1.0 - (id % 100) as f32 / 1e3));
    assert_eq!(list.candidates().len(), 1 << 20);
}
