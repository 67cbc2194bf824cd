//! A text as a matrix of letters, and numbers as costs: refused with a line or a name, or the distances by them are those of the
//! definition, on the fast path too.
#![no_main]

use std::sync::Arc;

use arbitrary::Arbitrary;
use boxwork_kernels::CodePath;
use boxwork_kernels::distance::{COST_MAX, EditCosts, LetterMatrix, MATRIX_LETTERS_MAX};
use libfuzzer_sys::fuzz_target;

/// Letters of a text at most: the definition fills a table.
const LETTERS_MAX: usize = 100;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    costs: [u32; 3],
    from: &'a str,
    to: &'a str,
    matrix: &'a str,
}

/// The least cost by the table of the definition.
fn by_definition(costs: &EditCosts, from: &[char], to: &[char]) -> f64 {
    let [insert, delete, replace] = costs.numbers().map(f64::from);
    let replaced = |a: char, b: char| {
        let of_matrix = costs.matrix().and_then(|matrix| matrix.number(a, b));
        if a == b { 0.0 } else { of_matrix.map_or(replace, f64::from) }
    };
    let mut row: Vec<f64> = (0..=to.len()).map(|place| place as f64 * insert).collect();
    for letter in from {
        let mut corner = row[0];
        row[0] += delete;
        for (place, other) in to.iter().enumerate() {
            let best =
                (corner + replaced(*letter, *other)).min(row[place] + insert).min(row[place + 1] + delete);
            corner = std::mem::replace(&mut row[place + 1], best);
        }
    }
    row[to.len()]
}

fuzz_target!(|input: Input<'_>| {
    let matrix = match LetterMatrix::parse(input.matrix) {
        Err(fault) => {
            assert!((1..=input.matrix.lines().count().max(1)).contains(&fault.line), "{fault}");
            None
        }
        Ok(matrix) => {
            assert!(matrix.letters().len() <= MATRIX_LETTERS_MAX);
            assert!(matrix.pairs().all(|(a, b, number)| matrix.number(a, b) == Some(number)));
            Some(Arc::new(matrix))
        }
    };
    let [insert, delete, replace] = input.costs;
    let Ok(costs) = EditCosts::new(insert, delete, replace) else {
        assert!(input.costs.iter().any(|cost| *cost == 0 || *cost > COST_MAX), "sound costs were refused");
        return;
    };
    let costs = match matrix {
        None => costs,
        Some(matrix) => match costs.with_matrix(matrix) {
            Ok(costs) => costs,
            Err(_) => return,
        },
    };
    let letters = |text: &str| text.chars().take(LETTERS_MAX).collect::<Vec<char>>();
    let (from, to) = (letters(input.from), letters(input.to));
    let expected = by_definition(&costs, &from, &to);
    // Many texts at once and one alone take different ways.
    for texts in [vec![&to[..]], vec![&to[..]; 70]] {
        for path in CodePath::available() {
            let mut found = vec![-1.0; texts.len()];
            costs.to_each(path, &from, &texts, &mut found, &|| false).expect("nobody interrupts");
            assert!(found.iter().all(|found| *found == expected), "{path}: {found:?}, not {expected}");
        }
    }
});
