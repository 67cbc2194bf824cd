//! Alignments of devices beside the definition.

use std::sync::Arc;
use std::sync::mpsc::channel;

use boxwork_kernels::chance::Random;
use boxwork_kernels::distance::{COST_MAX, EditCosts, LetterMatrix, LocalScores};
use boxwork_kernels::pieces::one_by_one;
use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};
use boxwork_runtime::feeding::{Back, Block, Blocks, Devices, Options};
use boxwork_runtime::operator::Outside;
use proptest::prelude::*;

use super::*;

/// Rows of a lane in these tests, besides those that devices take.
const ROWS: usize = 4;

struct Alignment {
    numbers: Numbers,
    texts: CodedTexts,
    queries: AlignedQueries,
    shape: Shape,
    found: Vec<i32>,
}

impl Alignment {
    fn pairs(&self) -> usize {
        self.texts.texts().len() * self.queries.queries.len()
    }
}

impl Block for Alignment {
    fn size(&self) -> u64 {
        self.pairs() as u64
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        write(feed, "letters", self.texts.letters())?;
        align_with_queries(feed, self.shape, &self.numbers, &self.texts, &self.queries)?;
        feed.read::<i32>("numbers", self.pairs())
    }

    fn collect(&mut self, back: &Back<'_>) {
        self.found = back.numbers::<i32>("numbers").to_vec();
    }
}

fn on_device(devices: &Arc<Devices>, alignment: Alignment) -> Alignment {
    let (tell, told) = channel();
    let mut blocks = Blocks::new(Arc::clone(devices), [0]);
    blocks.submit(alignment, Outside::new(move || tell.send(()).unwrap()));
    told.recv().unwrap();
    let (alignment, result) = blocks.take().unwrap();
    result.unwrap();
    alignment
}

fn devices() -> Arc<Devices> {
    let cache = Some(std::env::temp_dir().join("boxwork-test-programs"));
    Faulty::devices(Plan::default(), Options { cache, ..Options::default() }).1.unwrap()
}

/// Compares the numbers of all texts and queries; `sizes` are lanes and rows if they are given.
fn check(
    devices: &Arc<Devices>,
    numbers: &Numbers,
    sizes: Option<[usize; 2]>,
    texts: &[Vec<char>],
    asked: &[Vec<char>],
) {
    let slices: Vec<&[char]> = texts.iter().map(Vec::as_slice).collect();
    let coded = CodedTexts::new(&slices, &mut one_by_one()).unwrap();
    let queries = AlignedQueries::new(numbers, &coded, asked.iter().map(Vec::as_slice));
    let shape = match sizes {
        Some(sizes) => Shape::with(sizes, numbers, &coded, &queries),
        None => Shape::of(numbers, &coded, &queries),
    };
    let (numbers, found) = (numbers.clone(), Vec::new());
    let ran = on_device(devices, Alignment { numbers, texts: coded, queries, shape, found });
    let mut found = ran.found.iter();
    for query in asked {
        for text in ran.texts.order() {
            let text = &texts[*text as usize];
            let wanted = ran.numbers.reference(query, text);
            let found = f64::from(*found.next().unwrap());
            assert_eq!(
                found,
                wanted,
                "{} and {} letters, {shape:?}, {:?}",
                query.len(),
                text.len(),
                ran.numbers
            );
        }
    }
}

fn text(random: &mut Random, length: usize, alphabet: &[char]) -> Vec<char> {
    (0..length).map(|_| alphabet[random.idx(alphabet.len())]).collect()
}

/// A number for each pair of letters.
fn matrix(letters: &[char], mut number: impl FnMut(char, char) -> i32) -> Arc<LetterMatrix> {
    let mut text: String = letters.iter().flat_map(|letter| [*letter, ' ']).collect();
    for a in letters {
        text += &format!("\n{a}");
        letters.iter().for_each(|b| text += &format!(" {}", number(*a, *b)));
    }
    Arc::new(LetterMatrix::parse(&text).unwrap())
}

/// Costs and scores of random numbers up to `most`, with numbers of their own for some of the letters.
fn both(random: &mut Random, most: u32, letters: &[char]) -> [Numbers; 2] {
    let [insert, delete, replace, equal] = [(); 4].map(|()| 1 + random.idx(most as usize) as u32);
    let mut costs = EditCosts::new(insert, delete, replace).unwrap();
    let mut scores = LocalScores::new(equal, replace, insert, delete).unwrap();
    if !letters.is_empty() {
        let most = most as usize;
        let of_costs =
            matrix(letters, |a, b| if a == b { 0 } else { 1 + random.idx(most.min(65_000)) as i32 });
        costs = costs.with_matrix(of_costs).unwrap();
        scores = scores.with_matrix(matrix(letters, |_, _| random.idx(most) as i32 - most as i32 * 2 / 3));
    }
    [Numbers::Edit(costs), Numbers::Local(scores)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn alignments_of_devices_are_those_of_the_definition(
        seed in any::<u64>(),
        lanes in prop::sample::select(vec![1usize, 4, 32]),
        longest in 0usize..90,
        letters in prop::sample::select(vec![2usize, 20]),
        has_matrix in any::<bool>(),
    ) {
        if has_device("alignments_of_devices_are_those_of_the_definition") {
            let (devices, mut random) = (devices(), Random::new(seed));
            let alphabet: Vec<char> = ('A'..).take(letters).collect();
            let some = |count: usize, random: &mut Random| -> Vec<Vec<char>> {
                (0..count)
                    .map(|_| {
                        let length = random.idx(longest + 1);
                        text(random, length, &alphabet)
                    })
                    .collect()
            };
            let (texts, mut asked) = (some(40, &mut random), some(3, &mut random));
            asked.push("a letter of no text: \u{1f600}".chars().collect());
            let known = if has_matrix { &alphabet[..letters - 1] } else { &[] };
            for numbers in both(&mut random, 40, known) {
                check(&devices, &numbers, Some([lanes, ROWS]), &texts, &asked);
            }
        }
    }
}

#[test]
fn every_length_has_its_stripes() {
    if !has_device("every_length_has_its_stripes") {
        return;
    }
    let (devices, mut random) = (devices(), Random::new(12));
    let alphabet: Vec<char> = "ACDEFGHIKLMNPQRSTVWY".chars().collect();
    for (lanes, rows) in [(1, 4), (2, 4), (8, 4), (32, 4), (4, 8), (4, 16)] {
        let height = lanes * rows;
        let lengths = [0, 1, height - 1, height, height + 1, 3 * height, 3 * height + 2];
        let asked: Vec<Vec<char>> =
            lengths.iter().map(|length| text(&mut random, *length, &alphabet)).collect();
        // Texts of all lengths in one group, and more than a group's.
        let texts: Vec<Vec<char>> =
            (0..140).map(|place| text(&mut random, place % 7 * 6, &alphabet)).collect();
        let known = if lanes % 3 == 1 { &[] } else { &alphabet[..] };
        for numbers in both(&mut random, 9, known) {
            check(&devices, &numbers, Some([lanes, rows]), &texts, &asked);
        }
    }
    let [edit, local] = both(&mut random, 9, &alphabet);
    // Texts much longer than queries, and queries than texts; nothing but empty texts.
    for (query, length) in [(5, 1500), (1500, 5), (3, 0), (0, 0)] {
        let texts = vec![text(&mut random, length, &alphabet); 3];
        let asked = [text(&mut random, query, &alphabet)];
        check(&devices, &edit, None, &texts, &asked);
        check(&devices, &local, None, &texts, &asked);
    }
}

#[test]
fn alphabets_and_costs_of_every_size_have_their_numbers() {
    if !has_device("alphabets_and_costs_of_every_size_have_their_numbers") {
        return;
    }
    let (devices, mut random) = (devices(), Random::new(13));
    for (letters, most) in [(1, 9), (7, 9), (8, 70), (60, COST_MAX), (300, 9), (511, 9), (512, COST_MAX)] {
        let alphabet: Vec<char> = ('\u{100}'..).take(letters).collect();
        let texts: Vec<Vec<char>> = alphabet.chunks(9).map(<[char]>::to_vec).collect();
        let mut asked: Vec<Vec<char>> = [3, 60].map(|length| text(&mut random, length, &alphabet)).into();
        asked.push("neither of texts nor of matrices".chars().collect());
        for known in [&[][..], &alphabet[letters / 2..letters.min(letters / 2 + 256)]] {
            for numbers in both(&mut random, most, known) {
                check(&devices, &numbers, None, &texts, &asked);
                check(&devices, &numbers, Some([32, ROWS]), &texts[..1], &asked);
            }
        }
    }
    // The largest numbers, just within the bound.
    let long: Vec<char> = vec!['a'; 1000];
    let costs = Numbers::Edit(EditCosts::new(COST_MAX, COST_MAX, COST_MAX).unwrap());
    assert!(costs.fit(1, 16_380) && !costs.fit(1, 16_382));
    check(&devices, &costs, None, &[vec!['b'; 16_380], long.clone(), Vec::new()], &[vec!['a'], vec!['c']]);
    check(&devices, &costs, None, &[vec!['b'], Vec::new()], &[vec!['a'; 16_380]]);
    let scores = Numbers::Local(LocalScores::new(COST_MAX, 1, 1, 1).unwrap());
    check(&devices, &scores, None, &[long.clone(), vec!['b'; 9]], std::slice::from_ref(&long));
    // No score is positive.
    let none = LocalScores::new(1, 1, 1, 1).unwrap().with_matrix(matrix(&['a', 'b'], |_, _| -1));
    check(&devices, &Numbers::Local(none), None, &[vec!['a'; 40], vec!['b'; 7]], &[long]);
}
