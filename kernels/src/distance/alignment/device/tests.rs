//! The kernel's stripes, step by step on the host, against the table of the definition.

use std::sync::Arc;

use super::*;
use crate::chance::Random;
use crate::distance::LetterMatrix;
use crate::pieces::one_by_one;

/// A pair of texts as a group computes it: all its lanes at each step.
struct Stripes<'a> {
    sizes: [usize; 2],
    constants: [i32; 4],
    far: i32,
    queries: &'a AlignedQueries,
    query: &'a [u16],
    text: &'a [u16],
    /// The letters of the longest text of the group.
    longest: usize,
}

impl Stripes<'_> {
    fn is_score(&self) -> bool {
        self.far < 0
    }

    fn left(&self, row: usize) -> i32 {
        if self.is_score() { 0 } else { row.min(self.query.len()) as i32 * self.constants[1] }
    }

    fn top(&self, column: usize) -> i32 {
        if self.is_score() { 0 } else { (column as i32 + 1) * self.constants[0] }
    }

    fn cost(&self, row: usize, column: Option<usize>) -> i32 {
        let [text_padding, query_padding] = self.queries.padding;
        let letter = column.map_or(text_padding, |column| u32::from(self.text[column]));
        let of_row = self.query.get(row).map_or(query_padding, |letter| u32::from(*letter));
        let [.., equal, replace] = self.constants;
        match self.queries.columns {
            0 if letter == of_row => equal,
            0 => column.map_or(self.far, |_| replace),
            columns => self.queries.table[of_row as usize * columns + letter as usize],
        }
    }

    fn cell(&self, [diagonal, up, left]: [i32; 3], cost: i32) -> i32 {
        let [insert, delete, ..] = self.constants;
        match self.is_score() {
            true => (diagonal + cost).max(0).max(left - insert).max(up - delete),
            false => (diagonal + cost).min(left + insert).min(up + delete),
        }
    }

    fn number(&self) -> i32 {
        let ([lanes, rows], length) = (self.sizes, self.query.len());
        if length == 0 {
            return if self.is_score() { 0 } else { self.text.len() as i32 * self.constants[0] };
        }
        let (mut border, mut found) = (vec![0; self.longest], self.left(length));
        let stripes = length.div_ceil(lanes * rows);
        for stripe in 0..stripes {
            let first = |lane: usize| (stripe * lanes + lane) * rows;
            let mut left: Vec<Vec<i32>> =
                (0..lanes).map(|lane| (1..=rows).map(|row| self.left(first(lane) + row)).collect()).collect();
            let mut corners: Vec<i32> = (0..lanes).map(|lane| self.left(first(lane))).collect();
            let mut bottoms: Vec<i32> = left.iter().map(|left| left[rows - 1]).collect();
            for step in 0..self.longest + lanes - 1 {
                let before = bottoms.clone();
                for lane in 0..lanes {
                    let column = step.checked_sub(lane);
                    let inside = column.filter(|column| *column < self.text.len());
                    let mut up = match lane {
                        0 if stripe == 0 => self.top(step),
                        0 => border.get(step).copied().unwrap_or(0),
                        _ => before[lane - 1],
                    };
                    let mut diagonal = std::mem::replace(&mut corners[lane], up);
                    for (row, left) in left[lane].iter_mut().enumerate() {
                        let cost = self.cost(first(lane) + row, inside);
                        let cell = self.cell([diagonal, up, *left], cost);
                        if self.is_score() {
                            found = found.max(cell);
                        }
                        (diagonal, *left, up) = (*left, cell, cell);
                    }
                    bottoms[lane] = up;
                    if let Some(column) = column.filter(|column| *column < self.longest) {
                        if lane == lanes - 1 {
                            border[column] = up;
                        }
                        let is_last = stripe + 1 == stripes && column + 1 == self.text.len();
                        if let Some(row) = (length - 1).checked_sub(first(lane)).filter(|row| *row < rows)
                            && is_last
                            && !self.is_score()
                        {
                            found = left[lane][row];
                        }
                    }
                }
            }
        }
        found
    }
}

fn texts(random: &mut Random, count: usize, longest: usize, alphabet: &[char]) -> Vec<Vec<char>> {
    let mut text = || {
        let length = random.idx(longest + 1);
        (0..length).map(|_| alphabet[random.idx(alphabet.len())]).collect()
    };
    (0..count).map(|_| text()).collect()
}

/// The numbers of texts from queries, by queries and texts.
fn check(numbers: &Numbers, sizes: [usize; 2], queries: &[Vec<char>], texts: &[Vec<char>]) {
    let slices: Vec<&[char]> = texts.iter().map(Vec::as_slice).collect();
    let coded = CodedTexts::new(&slices, &mut one_by_one()).unwrap();
    let asked = AlignedQueries::new(numbers, &coded, queries.iter().map(Vec::as_slice));
    let shape = Shape::with(sizes, numbers, &coded, &asked);
    assert_eq!(shape.sizes(), sizes);
    let slice =
        |letters: &'_ [u16], [first, length]: [u32; 2]| letters[first as usize..][..length as usize].to_vec();
    for (place, query) in asked.queries.iter().enumerate() {
        for (position, text) in coded.texts().iter().enumerate() {
            let stripes = Stripes {
                sizes,
                constants: numbers.constants(),
                far: numbers.far(),
                queries: &asked,
                query: &slice(&asked.letters, *query),
                text: &slice(coded.letters(), *text),
                longest: coded.longest(),
            };
            let (query, text) = (&queries[place], &texts[coded.order()[position] as usize]);
            let wanted = numbers.reference(query, text);
            assert_eq!(f64::from(stripes.number()), wanted, "{query:?} and {text:?}, {numbers:?}");
        }
    }
}

#[test]
fn stripes_have_the_numbers_of_the_definition() {
    let mut random = Random::new(31);
    let alphabet: Vec<char> = ('\u{fff8}'..).take(9).collect();
    let cost = |random: &mut Random| 1 + random.idx(20) as u32;
    for (sizes, factor) in [([1, 8], 1), ([2, 4], 1), ([4, 8], 3000), ([8, 4], 1), ([32, 8], 1)] {
        for known in [0, 3, 9] {
            let [insert, delete, replace, equal] = [(); 4].map(|()| cost(&mut random) * factor);
            let (mut costs, mut scores) = (
                EditCosts::new(insert, delete, replace).unwrap(),
                LocalScores::new(equal, replace, insert, delete).unwrap(),
            );
            if known > 0 {
                let header: String = alphabet[..known].iter().flat_map(|letter| [*letter, ' ']).collect();
                let mut of_costs = header.clone();
                let mut of_scores = header;
                for a in &alphabet[..known] {
                    of_costs += &format!("\n{a}");
                    of_scores += &format!("\n{a}");
                    for b in &alphabet[..known] {
                        of_costs += &format!(" {}", if a == b { 0 } else { 1 + random.idx(30) });
                        of_scores += &format!(" {}", random.idx(30) as i32 - 20);
                    }
                }
                let parsed = |text: &str| Arc::new(LetterMatrix::parse(text).unwrap());
                costs = costs.with_matrix(parsed(&of_costs)).unwrap();
                scores = scores.with_matrix(parsed(&of_scores));
            }
            let height = sizes[0] * sizes[1];
            let all = texts(&mut random, 12, 40, &alphabet[2..]);
            let mut asked = texts(&mut random, 2, 3 * height.min(60), &alphabet[..8]);
            asked.extend(
                [0, 1, height - 1, height, height + 1]
                    .map(|length| (0..length).map(|_| alphabet[random.idx(9)]).collect::<Vec<char>>()),
            );
            // Letters that neither the texts nor a matrix have.
            asked.push("xyzx".chars().collect());
            check(&Numbers::Edit(costs), sizes, &asked, &all);
            check(&Numbers::Local(scores), sizes, &asked, &all);
        }
    }
}

#[test]
fn numbers_that_may_not_fit_are_for_slots() {
    let costs = |most| Numbers::Edit(EditCosts::new(most, 1, 1).unwrap());
    assert!(costs(1).fit(LETTERS_MAX, LETTERS_MAX) && !costs(1).fit(1, LETTERS_MAX + 1));
    let most = crate::distance::COST_MAX;
    assert!(costs(most).fit(8191, 8191) && !costs(most).fit(8191, 8192));
    let scores = Numbers::Local(LocalScores::new(most, 1, 1, 1).unwrap());
    assert!(scores.fit(300, LETTERS_MAX) && !scores.fit(LETTERS_MAX, LETTERS_MAX));
}

#[test]
fn lanes_fit_the_lengths_and_the_pairs() {
    let text = |length: usize| vec!['a'; length];
    let numbers = Numbers::Edit(EditCosts::new(1, 2, 3).unwrap());
    let sizes = |query: usize, count: usize, length: usize| {
        let all = vec![text(length); count];
        let slices: Vec<&[char]> = all.iter().map(Vec::as_slice).collect();
        let texts = CodedTexts::new(&slices, &mut one_by_one()).unwrap();
        let queries = AlignedQueries::new(&numbers, &texts, [&*text(query)]);
        Shape::of(&numbers, &texts, &queries).sizes()
    };
    assert_eq!(sizes(8, 1 << 17, 12), [1, 8]);
    assert_eq!(sizes(30, 1 << 16, 30), [2, 16]);
    // The fastest on an H200.
    assert_eq!(sizes(60, 1 << 17, 60), [4, 16]);
    assert_eq!(sizes(300, 20, 300), [LANES_MAX, 16]);
}
