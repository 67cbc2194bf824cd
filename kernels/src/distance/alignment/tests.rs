//! Every path and every kind of number against the table of the definition.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::CodePath;
use crate::chance::Random;
use crate::distance::{Distance, Levenshtein};
use crate::interrupt::never;

fn texts(random: &mut Random, count: usize, longest: usize, alphabet: &[char]) -> Vec<Vec<char>> {
    let mut text = || {
        let length = random.idx(longest + 1);
        (0..length).map(|_| alphabet[random.idx(alphabet.len())]).collect()
    };
    (0..count).map(|_| text()).collect()
}

/// Compares a text with others on every path, all at once and one by one.
fn check(costs: &EditCosts, from: &[char], others: &[Vec<char>]) {
    let others: Vec<&[char]> = others.iter().map(Vec::as_slice).collect();
    let expected: Vec<f64> = others.iter().map(|to| costs.reference(from, to)).collect();
    for path in CodePath::available() {
        let mut found = vec![f64::NAN; others.len()];
        costs.to_each(path, from, &others, &mut found, &never).unwrap();
        assert_eq!(found, expected, "{path}, at once, {costs:?}");
        for (other, expected) in others.iter().zip(&expected) {
            let mut found = [f64::NAN];
            costs.to_each(path, from, &[other], &mut found, &never).unwrap();
            assert_eq!(found, [*expected], "{path}, {} and {} letters, {costs:?}", from.len(), other.len());
        }
        let stopped = costs.to_each(path, from, &others, &mut found, &|| true);
        assert_eq!(stopped.is_err(), !others.is_empty(), "an interruption is obeyed");
    }
}

/// Costs of some of the letters.
fn matrix(random: &mut Random, letters: &[char]) -> Arc<LetterMatrix> {
    let mut text: String = letters.iter().flat_map(|letter| [*letter, ' ']).collect();
    for a in letters {
        text += &format!("\n{a}");
        for b in letters {
            text += &format!(" {}", if a == b { 0 } else { 1 + random.idx(9) });
        }
    }
    Arc::new(LetterMatrix::parse(&text).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn edits_have_the_costs_of_the_definition(
        seed in any::<u64>(),
        [insert, delete, replace] in [1u32..9, 1u32..9, 1u32..20],
        // Numbers of 32 bits too.
        factor in prop_oneof![Just(1u32), Just(3000)],
        letters in 1usize..30,
        longest in 0usize..200,
        count in 0usize..40,
        has_matrix in any::<bool>(),
    ) {
        let mut random = Random::new(seed);
        // Some letters take more than 16 bits.
        let alphabet: Vec<char> = ('\u{fff8}'..).take(letters).collect();
        let mut costs = EditCosts::new(insert * factor, delete * factor, replace * factor).unwrap();
        if has_matrix {
            let known = alphabet[..letters.div_ceil(2)].to_vec();
            costs = costs.with_matrix(matrix(&mut random, &known)).unwrap();
        }
        let others = texts(&mut random, count, longest, &alphabet);
        let from = texts(&mut random, 1, longest, &alphabet[..letters.saturating_sub(3).max(1)]);
        check(&costs, &from[0], &others);
    }
}

#[test]
fn costs_of_one_are_the_levenshtein_distance() {
    let mut random = Random::new(3);
    let dna: Vec<char> = "ACGT".chars().collect();
    let edit = Edit::new(EditCosts::new(1, 1, 1).unwrap()).unwrap();
    for longest in [1, 7, 64, 300, 1500] {
        let some = texts(&mut random, 4, longest, &dna);
        for (a, b) in some.iter().zip(&some[1..]) {
            assert_eq!(edit.distance(a, b), Levenshtein.distance(a, b));
        }
    }
    // As many rows as a stripe has on each path, one less and one more, and texts much shorter than others.
    for rows in [1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 257] {
        let mut text = |count: usize| (0..count).map(|_| dna[random.idx(4)]).collect::<Vec<char>>();
        let others: Vec<Vec<char>> =
            [0, 1, 2, 3, 4, 5, 14, 15, 16, 17, 40].iter().map(|count| text(*count)).collect();
        check(&EditCosts::new(2, 3, 4).unwrap(), &text(rows), &others);
    }
}

#[test]
fn long_pairs_have_the_costs_of_the_definition() {
    let mut random = Random::new(11);
    // Rows as a profile's blocks have them on each path, one less and one more; one letter to more than a profile takes.
    for (rows, columns, letters) in [
        (255, 300, 4),
        (256, 1, 1),
        (257, 64, 3),
        (511, 900, 4),
        (1023, 40, 4),
        (1024, 700, 128),
        (1025, 700, 129),
        (2047, 500, 20),
        (2048, 500, 20),
        (2049, 500, 4),
        (2303, 33, 4),
        (4097, 260, 2),
    ] {
        let alphabet: Vec<char> = ('\u{ffe0}'..).take(letters).collect();
        let mut text =
            |count: usize| (0..count).map(|_| alphabet[random.idx(letters)]).collect::<Vec<char>>();
        let (from, other) = (text(rows), text(columns));
        // A text that is similar, so that gains are large.
        let similar: Vec<char> =
            from.iter().copied().skip(3).step_by(2).chain(other.iter().copied()).collect();
        for factor in [1, 2000] {
            let costs = EditCosts::new(2 * factor, 3 * factor, 4 * factor).unwrap();
            check(&costs, &from, &[other.clone(), similar.clone()]);
            let known = &alphabet[..letters.min(30).div_ceil(2)];
            let with_matrix = costs.with_matrix(matrix(&mut Random::new(5), known)).unwrap();
            check(&with_matrix, &from, &[other.clone(), similar.clone()]);
        }
    }
}

#[test]
fn numbers_of_16_bits_are_left_in_time() {
    // The largest number is just below and just above what 16 bits hold.
    for letters in [5457, 5458, 5459, 5462] {
        let (a, b) = (vec!['a'; letters], vec!['b'; letters]);
        let edit = Edit::new(EditCosts::new(6, 6, 12).unwrap()).unwrap();
        assert_eq!(edit.distance(&a, &b), 12.0 * letters as f64);
        assert_eq!(edit.distance(&a, &[]), 6.0 * letters as f64);
        // The largest gain is that of equal texts.
        assert_eq!(edit.distance(&a, &a), 0.0);
        assert_eq!(edit.distance(&b, &[&a[..], &['b']].concat()), 12.0 * letters as f64 - 6.0);
    }
}

#[test]
fn bad_costs_are_refused_with_their_name() {
    assert!(EditCosts::new(1, 0, 1).unwrap_err().to_string().contains("`delete` costs 0"));
    assert!(EditCosts::new(1, 1, 65_536).unwrap_err().to_string().contains("65535"));
    let costs = EditCosts::new(1, 2, 2).unwrap();
    let error = Edit::new(costs).unwrap_err().to_string();
    assert!(error.contains("`insert` costs 1 and `delete` 2"), "{error}");
    let with = |text: &str| {
        let matrix = Arc::new(LetterMatrix::parse(text).unwrap());
        EditCosts::new(2, 2, 2).unwrap().with_matrix(matrix)
    };
    for text in ["a b\na 0 0\nb 1 0", "a b\na 0 -1\nb 1 0", "a b\na 0 1\nb 1 3"] {
        assert!(matches!(with(text), Err(CostError::Replace { .. })), "{text}");
    }
    let directed = with("a b\na 0 1\nb 3 0").unwrap();
    assert!(Edit::new(directed).unwrap_err().to_string().contains("replacing `a` by `b`"));
}

#[test]
fn numbers_of_32_bits_are_left_in_time() {
    let edit = Edit::new(EditCosts::new(COST_MAX, COST_MAX, 1).unwrap()).unwrap();
    for letters in [16_380, 16_382, 16_384, 40_000] {
        assert_eq!(edit.distance(&vec!['a'; letters], &['a']), f64::from(COST_MAX) * (letters - 1) as f64);
    }
    for letters in [8190, 8191, 8192, 8193, 8194] {
        let text: Vec<char> = (0..letters).map(|place| if place % 7 == 3 { 'b' } else { 'a' }).collect();
        assert_eq!(edit.distance(&text, &text[1..]), f64::from(COST_MAX), "{letters}");
    }
    let local = LocalScores::new(COST_MAX, 1, 1, 1).unwrap();
    for letters in [20, 400, 17_000] {
        let (text, mut found) = (vec!['a'; letters], [0.0]);
        let long: Vec<char> = text.iter().copied().chain(['b'; 3]).collect();
        local.to_each(CodePath::detect(), &text[..letters.min(400)], &[&long], &mut found, &never).unwrap();
        assert_eq!(found, [f64::from(COST_MAX) * letters.min(400) as f64]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn local_scores_are_those_of_the_definition(
        seed in any::<u64>(),
        [equal, replace, insert, delete] in [1u32..9, 1u32..9, 1u32..9, 1u32..9],
        factor in prop_oneof![Just(1u32), Just(3000)],
        letters in 1usize..12,
        longest in 0usize..200,
        count in 0usize..40,
        has_matrix in any::<bool>(),
    ) {
        let mut random = Random::new(seed);
        let alphabet: Vec<char> = ('\u{fffc}'..).take(letters).collect();
        let [equal, replace, insert, delete] = [equal, replace, insert, delete].map(|cost| cost * factor);
        let mut scores = LocalScores::new(equal, replace, insert, delete).unwrap();
        if has_matrix {
            let mut text: String = alphabet.iter().take(3).flat_map(|letter| [*letter, ' ']).collect();
            for letter in alphabet.iter().take(3) {
                text += &format!("\n{letter}");
                (0..letters.min(3)).for_each(|_| text += &format!(" {}", random.idx(30) as i32 - 18));
            }
            scores = scores.with_matrix(Arc::new(LetterMatrix::parse(&text).unwrap()));
        }
        let others = texts(&mut random, count, longest, &alphabet);
        let from = &texts(&mut random, 1, longest, &alphabet)[0];
        let others: Vec<&[char]> = others.iter().map(Vec::as_slice).collect();
        let expected: Vec<f64> = others.iter().map(|to| scores.reference(from, to)).collect();
        for path in CodePath::available() {
            let mut found = vec![f64::NAN; others.len()];
            scores.to_each(path, from, &others, &mut found, &never).unwrap();
            assert_eq!(found, expected, "{path}, {scores:?}");
            for (other, expected) in others.iter().zip(&expected) {
                let mut found = [f64::NAN];
                scores.to_each(path, from, &[other], &mut found, &never).unwrap();
                assert_eq!(found, [*expected], "{path}, one by one, {scores:?}");
            }
        }
    }

    #[test]
    fn warped_series_have_the_distance_of_the_definition(
        seed in any::<u64>(),
        rows in 0usize..300,
        longest in 0usize..300,
        count in 0usize..20,
        band in prop_oneof![Just(None), (0usize..40).prop_map(Some)],
    ) {
        let mut random = Random::new(seed);
        let mut series = |length: usize| -> Vec<f32> {
            (0..length).map(|_| random.below(2001) as f32 / 7.0 - 140.0).collect()
        };
        let from = series(rows);
        // Most are as long as the first one: others have no distance within a band.
        let others: Vec<Vec<f32>> =
            (0..count).map(|place| series(if place % 3 == 0 { longest } else { rows })).collect();
        let others: Vec<&[f32]> = others.iter().map(Vec::as_slice).collect();
        let dtw = Dtw::new(band);
        let mut bits = Vec::new();
        for path in CodePath::available() {
            let mut found = vec![f64::NAN; others.len()];
            dtw.to_each(path, &from, &others, &mut found, &never).unwrap();
            for (other, found) in others.iter().zip(&found) {
                let (exact, mut alone) = (dtw.reference(&from, other), [f64::NAN; 2]);
                let error = dtw.slack(rows.max(longest), 0.0).relative * exact;
                assert!(*found == exact || (found - exact).abs() <= error, "{path}: {found} is not {exact}");
                dtw.to_each(path, &from, &[other], &mut alone[..1], &never).unwrap();
                dtw.to_each(path, other, &[&from], &mut alone[1..], &never).unwrap();
                assert_eq!(alone.map(f64::to_bits), [found.to_bits(); 2], "{path}, one by one, either order");
            }
            bits.push(found.iter().map(|found| found.to_bits()).collect::<Vec<_>>());
        }
        assert!(bits.iter().all(|found| *found == bits[0]), "the same bits on every path");
    }
}

#[test]
fn series_without_distances_are_refused_with_their_place() {
    let dtw = Dtw::new(None);
    assert_eq!(dtw.distance(&[1.0, 2.0, 3.0, 3.0], &[1.0, 1.0, 2.0, 3.0]), 0.0);
    assert_eq!(Dtw::new(Some(0)).distance(&[1.0, 2.0, 3.0, 3.0], &[1.0, 1.0, 2.0, 3.0]), 2.0);
    let fault = |series: &[f32]| dtw.check(series).unwrap_err().to_string();
    assert!(fault(&[0.0, f32::NAN]).starts_with("number 1 is NaN"));
    assert!(fault(&[0.0, 1.0, f32::MAX]).starts_with("number 2 is 3402"));
    let most = f32::MAX / 4.0 / 5.0;
    assert!(dtw.check(&[most, -most, most, -most]).is_ok());
    assert!(dtw.distance(&[most, -most, most, -most], &[-most, most, -most, most]).is_finite());
}
