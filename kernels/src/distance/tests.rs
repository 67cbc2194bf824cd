//! Every distance keeps what it declares: axioms, inequalities, agreement with the reference, and its slack.

use proptest::prelude::*;

use super::*;
use crate::CodePath;
use crate::chance::Random;
use crate::lower_bound::Simplex;
use crate::sqfd::testing::Store;
use crate::sqfd::{Columns, SignatureRef};

/// A table of all distances of some objects.
struct Table {
    count: usize,
    distances: Vec<f64>,
}

impl Table {
    fn at(&self, a: usize, b: usize) -> f64 {
        self.distances[a * self.count + b]
    }
}

/// Computes all distances, and checks them against the reference and the axioms of a metric.
fn table<'a, D: Distance>(distance: &D, objects: &[D::Object<'a>], slack: Slack) -> Table {
    let (count, name) = (objects.len(), distance.properties().name);
    assert!(objects.iter().all(|object| distance.check(*object).is_ok()), "{name}");
    let mut distances = Vec::new();
    for a in objects {
        for b in objects {
            let (fast, slow) = (distance.distance(*a, *b), distance.reference(*a, *b));
            let room = 2.0 * (slack.relative * slow + slack.absolute);
            assert!(fast.is_finite() && fast >= 0.0, "{name}: {fast} is no distance");
            assert!((fast - slow).abs() <= room, "{name}: {fast} is not {slow}");
            assert_eq!(
                fast.to_bits(),
                distance.distance(*b, *a).to_bits(),
                "{name} is the same in either order"
            );
            distances.push(fast);
        }
    }
    let table = Table { count, distances };
    for a in 0..count {
        assert_eq!(table.at(a, a), 0.0, "{name}");
        for b in 0..count {
            for c in 0..count {
                let bound = slack.apart(table.at(a, c), table.at(b, c));
                assert!(bound <= table.at(a, b), "{name}: the triangle {a} {b} {c}");
            }
        }
    }
    table
}

/// Checks the inequalities that a distance declares. Returns which of the others fail.
fn inequalities(properties: Properties, table: &Table, slack: Slack) -> [bool; 2] {
    let mut fails = [false; 2];
    let largest = table.distances.iter().fold(0.0, |largest: f64, d| largest.max(*d));
    let noise = slack.noise_squared(largest).max(1e-14 * largest * largest);
    for a in 0..table.count {
        for b in a + 1..table.count {
            for c in b + 1..table.count {
                for d in c + 1..table.count {
                    let product = |p: usize, q: usize, r: usize, s: usize| table.at(p, q) * table.at(r, s);
                    let products = [product(a, b, c, d), product(a, c, b, d), product(a, d, b, c)];
                    let most = products.iter().fold(0.0, |most: f64, x| most.max(*x));
                    let excess = 2.0 * most - products.iter().sum::<f64>();
                    let holds = excess <= 4.0 * noise;
                    assert!(holds || !properties.ptolemaic, "{}: {a} {b} {c} {d}", properties.name);
                    fails[0] |= !holds;
                }
                // Three objects and a fourth: their simplex has an apex if the four-point property holds.
                let pivots = [a, b, c];
                let between: Vec<f64> = pivots.iter().flat_map(|p| pivots.map(|q| table.at(*p, q))).collect();
                let simplex = Simplex::new(&between, noise).unwrap();
                for d in 0..table.count {
                    let apex = simplex.apex(&pivots.map(|p| table.at(p, d)), noise);
                    assert!(apex.is_ok() || !properties.four_point, "{}: {a} {b} {c} {d}", properties.name);
                    fails[1] |= apex.is_err();
                }
            }
        }
    }
    if properties.hilbert {
        // All objects span one simplex, over which each object has an apex.
        let simplex = Simplex::new(&table.distances, noise).unwrap();
        for object in 0..table.count {
            let row: Vec<f64> = (0..table.count).map(|other| table.at(object, other)).collect();
            assert!(simplex.apex(&row, noise).is_ok(), "{}: object {object}", properties.name);
        }
    }
    fails
}

fn vectors(seed: u64, count: usize, dimensions: usize) -> Vec<Vec<f32>> {
    let mut random = Random::new(seed);
    let mut vectors: Vec<Vec<f32>> =
        (0..count).map(|_| (0..dimensions).map(|_| (random.unit() * 8.0 - 4.0) as f32).collect()).collect();
    // A copy, a midpoint, and a vector that differs in one number.
    vectors[1] = vectors[0].clone();
    vectors[2] = vectors[0].iter().zip(&vectors[3]).map(|(a, b)| (a + b) / 2.0).collect();
    vectors[4] = vectors[3].clone();
    vectors[4][0] += 1.0;
    vectors
}

fn check_lp(lp: Lp, dimensions: usize, seed: u64) -> [bool; 2] {
    let vectors = vectors(seed, 12, dimensions);
    let objects: Vec<&[f32]> = vectors.iter().map(Vec::as_slice).collect();
    let slack = lp.slack(dimensions, 0.0);
    let fails = inequalities(lp.properties(), &table(&lp, &objects, slack), slack);
    let root = Root(lp);
    let slack = root.slack(dimensions, 0.0);
    inequalities(root.properties(), &table(&root, &objects, slack), slack);
    fails
}

#[test]
fn lp_distances() {
    let exponents = [1.0, 1.5, 2.0, 3.0, 7.25, f64::INFINITY];
    for (idx, p) in exponents.into_iter().enumerate() {
        let lp = Lp::new(p).unwrap();
        let fails = [1, 2, 3, 16, 17, 33, 100].map(|dimensions| check_lp(lp, dimensions, idx as u64 + 1));
        // An undeclared inequality fails somewhere, so declaring it would have been wrong.
        if p != 2.0 {
            assert!(fails.iter().any(|fails| fails[0]) && fails.iter().any(|fails| fails[1]), "p = {p}");
        }
    }
    for p in [0.99, 0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
        assert!(matches!(Lp::new(p), Err(DistanceError::Exponent(_))));
    }
    for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let found = Lp::L2.check(&[1.0, wrong]).unwrap_err();
        assert!(matches!(found, DistanceError::NotFinite { place: 1, .. }), "{found}");
    }
}

#[test]
fn lp_of_huge_and_tiny_numbers() {
    for p in [1.0, 1.5, 2.0, 90.0, f64::INFINITY] {
        let lp = Lp::new(p).unwrap();
        for scale in [1e-44_f32, 1e-30, 1.0, 1e38] {
            let (a, b) = ([scale, 0.0, 0.0], [0.0, 0.0, 0.0]);
            let (found, wanted) = (lp.distance(&a, &b), f64::from(scale));
            assert!((found - wanted).abs() <= 1e-12 * wanted, "p = {p}: {found} is not {wanted}");
        }
    }
}

/// Signatures whose weights sum to 1.
fn signatures(seed: u64, spread: f64) -> Store {
    let mut random = Random::new(seed);
    // Every other store has single points, whose distances are ground distances.
    let most = if seed.is_multiple_of(2) { 1.0 } else { 9.0 };
    let sizes: Vec<usize> = (0..10).map(|_| 1 + (random.unit() * most) as usize).collect();
    Store::random(seed, 3, &sizes, spread)
}

fn check_signatures<D>(distance: D, seed: u64, spread: f64, extent: f64) -> [bool; 2]
where
    D: for<'a> Distance<Object<'a> = SignatureRef<'a>>,
{
    signatures(seed, spread).with(|columns| {
        let objects: Vec<SignatureRef<'_>> = (0..columns.rows()).map(|row| columns.signature(row)).collect();
        let slack = distance.slack(3, extent);
        inequalities(distance.properties(), &table(&distance, &objects, slack), slack)
    })
}

#[test]
fn hausdorff_and_emd_over_every_ground() {
    let mut fails = [[false; 2]; 2];
    for seed in 1..6 {
        for p in [1.0, 2.0, 3.0, f64::INFINITY] {
            let ground = Lp::new(p).unwrap();
            for (spread, extent) in [(2.0, 40.0), (1e-4, 1e-2), (1e3, 1e5)] {
                let found = [
                    check_signatures(Hausdorff::new(ground), seed, spread, extent),
                    check_signatures(Emd::new(ground), seed, spread, extent),
                ];
                for (fails, found) in fails.iter_mut().zip(found) {
                    fails.iter_mut().zip(found).for_each(|(fails, found)| *fails |= found);
                }
                check_signatures(Root(Hausdorff::new(ground)), seed, spread, extent);
                check_signatures(Root(Emd::new(ground)), seed, spread, extent);
            }
        }
    }
    assert_eq!(fails, [[true; 2]; 2], "what is not declared does fail");
}

#[test]
fn emd_by_hand_and_what_it_refuses() {
    let emd = Emd::new(Lp::L2);
    let of = |x: &[f32], weights: &[f32], f: &mut dyn FnMut(SignatureRef<'_>)| {
        let columns = [x];
        f(Columns::new(&columns, weights).signature(0, weights.len()));
    };
    let between = |a: (&[f32], &[f32]), b: (&[f32], &[f32])| {
        let mut found = 0.0;
        of(a.0, a.1, &mut |a| of(b.0, b.1, &mut |b| found = emd.distance(a, b)));
        found
    };
    // On a line, the distance is the area between the cumulative weights.
    let found = between((&[0.0, 1.0], &[0.5, 0.5]), (&[0.0, 3.0], &[0.25, 0.75]));
    assert!((found - (0.25 + 2.0 * 0.75)).abs() < 1e-9, "{found}");
    let found = between((&[2.0], &[1.0]), (&[-1.0, 5.0, 2.0], &[0.25, 0.25, 0.5]));
    assert!((found - 1.5).abs() < 1e-9, "{found}");
    for (weights, wrong) in
        [(&[0.5, 0.4], "sum to"), (&[1.5, -0.5], "weight 1"), (&[f32::NAN, 1.0], "weight 0")]
    {
        of(&[0.0, 1.0], weights, &mut |signature| {
            let error = emd.check(signature).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        });
    }
    of(&[f32::NAN], &[1.0], &mut |signature| assert!(emd.check(signature).is_err()));
    of(&[], &[], &mut |signature| assert_eq!(emd.check(signature), Err(DistanceError::Empty)));
    of(&[], &[], &mut |signature| assert!(Hausdorff::new(Lp::L1).check(signature).is_err()));
}

#[test]
fn emd_on_a_line_is_the_area_between_the_sums() {
    // With the numbers of centroids of real signatures, and more.
    for (seed, sizes) in [(1, [80, 75]), (2, [230, 1]), (3, [200, 230]), (4, [1, 1]), (5, [33, 120])] {
        let store = Store::random(seed, 1, &sizes, 2.0);
        store.with(|columns| {
            let (a, b) = (columns.signature(0), columns.signature(1));
            let mut steps: Vec<(f64, f64)> = Vec::new();
            for (signature, sign) in [(a, 1.0), (b, -1.0)] {
                let sum: f64 = signature.weights().iter().map(|weight| f64::from(*weight)).sum();
                let centroids = signature.coordinate(0).iter().zip(signature.weights());
                steps.extend(centroids.map(|(x, weight)| (f64::from(*x), sign * f64::from(*weight) / sum)));
            }
            steps.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (mut sum, mut area) = (0.0_f64, 0.0);
            for pair in steps.windows(2) {
                sum += pair[0].1;
                area += sum.abs() * (pair[1].0 - pair[0].0);
            }
            for lp in [Lp::L1, Lp::L2, Lp::LINF] {
                let found = Emd::new(lp).distance(a, b);
                assert!((found - area).abs() <= 1e-9 * (1.0 + area), "seed {seed}: {found} is not {area}");
            }
        });
    }
}

fn letters(text: &str) -> Vec<char> {
    text.chars().collect()
}

#[test]
fn levenshtein_by_hand() {
    let check = |a: &str, b: &str, wanted: f64| {
        assert_eq!(Levenshtein.distance(&letters(a), &letters(b)), wanted, "{a} {b}");
    };
    check("", "", 0.0);
    check("", "abc", 3.0);
    check("kitten", "sitting", 3.0);
    check("Saturday", "Sunday", 3.0);
    check("naïve", "naive", 1.0);
    check("日本語", "日本", 1.0);
    let long = "ab".repeat(200);
    check(&long, &long[1..], 1.0);
    check(&long, &"ba".repeat(200), 2.0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn levenshtein_of_texts(
        texts in prop::collection::vec("[abcé日]{0,150}", 5..8),
        limit in 0usize..120,
    ) {
        let texts: Vec<Vec<char>> = texts.iter().map(|text| letters(text)).collect();
        let objects: Vec<&[char]> = texts.iter().map(Vec::as_slice).collect();
        let table = table(&Levenshtein, &objects, Slack::EXACT);
        let root = Root(Levenshtein);
        let slack = root.slack(0, 0.0);
        inequalities(root.properties(), &self::table(&root, &objects, slack), slack);
        for (a, text) in texts.iter().enumerate() {
            let pattern = Pattern::new(text);
            for (b, other) in texts.iter().enumerate() {
                let distance = table.at(a, b) as usize;
                prop_assert_eq!(pattern.distance(other), distance);
                let within = pattern.within(other, limit);
                prop_assert_eq!(within, Some(distance).filter(|distance| *distance <= limit));
            }
        }
    }

    #[test]
    fn jaccard_of_sets(
        sets in prop::collection::vec(prop::collection::btree_set(0u32..60, 0..40), 6..9),
        more in prop::collection::btree_set(any::<u32>(), 1500),
    ) {
        let mut sets: Vec<Vec<u32>> = sets.into_iter().map(|set| set.into_iter().collect()).collect();
        sets.push(more.into_iter().collect());
        let some = sets[sets.len() - 1].iter().step_by(300).copied().collect();
        sets.push(some);
        let objects: Vec<&[u32]> = sets.iter().map(Vec::as_slice).collect();
        let slack = Jaccard.slack(0, 0.0);
        inequalities(Jaccard.properties(), &table(&Jaccard, &objects, slack), slack);
        let root = Root(Jaccard);
        let slack = root.slack(0, 0.0);
        inequalities(root.properties(), &table(&root, &objects, slack), slack);
    }
}

#[test]
fn sets_that_are_none_are_refused() {
    assert_eq!(Jaccard.check(&[1, 2, 2]), Err(DistanceError::NotASet { place: 2 }));
    assert_eq!(Jaccard.check(&[3, 1]), Err(DistanceError::NotASet { place: 1 }));
    assert_eq!(Jaccard.distance(&[], &[]), 0.0);
    // Four sets that violate Ptolemy's inequality and the four-point property.
    let sets: [&[u32]; 4] = [&[1, 2], &[1, 3], &[1], &[1, 2, 3]];
    let slack = Jaccard.slack(0, 0.0);
    assert_eq!(inequalities(Jaccard.properties(), &table(&Jaccard, &sets, slack), slack), [true, true]);
}

#[test]
fn what_would_take_too_much_to_compare_is_refused() {
    let column = vec![0.5; 8193];
    let weights = vec![1.0 / 8193.0; 8193];
    let columns: [&[f32]; 1] = [&column];
    let columns = Columns::new(&columns, &weights);
    let refused = Emd::new(Lp::L2).check(columns.signature(0, 8193));
    assert_eq!(refused, Err(DistanceError::TooManyCentroids { centroids: 8193, most: 8192 }));
    let letters: Vec<char> = (0..).filter_map(char::from_u32).take(70_000).collect();
    let refused = Levenshtein.check(&letters).unwrap_err().to_string();
    assert!(refused.contains("70000 letters, 70000 of them different, and takes 584 MiB"), "{refused}");
    assert_eq!(Levenshtein.check(&letters[..60_000]), Ok(()));
    assert_eq!(Levenshtein.check(&['a'; 200_000]), Ok(()));
}

#[test]
fn bounds_are_allowed_where_they_are_sound() {
    let allowed = |properties: Properties| Bound::ALL.map(|bound| properties.allow(bound).is_ok());
    assert_eq!(allowed(Lp::L2.properties()), [true; 4]);
    assert_eq!(allowed(Lp::L1.properties()), [true, false, false, false]);
    assert_eq!(allowed(Root(Lp::L1).properties()), [true; 4]);
    assert_eq!(allowed(Root(Levenshtein).properties()), [true, true, true, false]);
    let unsound = Levenshtein.properties().allow(Bound::Ptolemaic).unwrap_err().to_string();
    assert!(
        unsound.contains("does not obey Ptolemy's inequality") && unsound.contains("use triangular"),
        "{unsound}"
    );
    let unsound = Root(Levenshtein).properties().allow(Bound::Simplex).unwrap_err().to_string();
    assert!(unsound.contains("no Hilbert distance") && unsound.contains("use combined"), "{unsound}");
}

#[test]
fn squares_have_the_same_bits_on_every_path() {
    let mut random = Random::mixed(12);
    for dimensions in [1, 15, 16, 17, 128, 130] {
        let rows: Vec<f32> = (0..40 * dimensions).map(|_| random.normal_f32()).collect();
        let query = &rows[3 * dimensions..4 * dimensions];
        let numbers: Vec<u32> = (0..40).rev().chain([7, 7, 3]).collect();
        let row = |number: u32| &rows[number as usize * dimensions..][..dimensions];
        let expected: Vec<f64> = numbers.iter().map(|number| squared_l2(query, row(*number))).collect();
        for path in CodePath::available() {
            let one_by_one: Vec<f64> =
                numbers.iter().map(|number| squared_l2_on(path, query, row(*number))).collect();
            let mut together = Vec::new();
            squared_l2_of(path, query, &rows, &numbers, &mut together);
            assert_eq!((&one_by_one, &together), (&expected, &expected), "{path}");
            let each: Vec<&[f32]> = numbers.iter().map(|number| row(*number)).collect();
            for count in [0, 1, 6, 7, each.len()] {
                let mut distances = vec![f64::NAN; count];
                l2_of_each(path, query, &each[..count], &mut distances);
                let plain = each[..count].iter().map(|row| Lp::L2.distance(query, row));
                assert_eq!(distances, plain.collect::<Vec<_>>(), "{path}, {count} rows");
            }
        }
    }
}
