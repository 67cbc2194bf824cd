//! Edit distances of devices beside the definition.

use std::sync::Arc;
use std::sync::mpsc::channel;

use boxwork_kernels::chance::Random;
use boxwork_kernels::distance::{Distance, Levenshtein};
use boxwork_kernels::pieces::one_by_one;
use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};
use boxwork_runtime::feeding::{Back, Block, Blocks, Devices, Options};
use boxwork_runtime::operator::Outside;
use proptest::prelude::*;

use super::*;

/// The texts that a device compares.
enum Compared {
    Queries { texts: Arc<TextPlanes>, queries: CodedQueries, limits: Option<(Vec<i32>, usize)> },
    Pairs(PairPlanes),
}

struct Comparison {
    compared: Compared,
    shape: Shape,
    distances: Vec<u32>,
    count: usize,
    entries: Vec<[u32; 2]>,
}

impl Comparison {
    fn new(compared: Compared, shape: Shape) -> Self {
        Self { compared, shape, distances: Vec::new(), count: 0, entries: Vec::new() }
    }

    fn positions(&self) -> usize {
        match &self.compared {
            Compared::Queries { texts, queries, .. } => texts.positions() * queries.queries.len(),
            Compared::Pairs(pairs) => pairs.positions(),
        }
    }
}

fn send(feed: &mut Feed<'_>, words: usize, copy: impl FnOnce(&mut [u32])) -> Result<(), DeviceError> {
    feed.write("planes", words.max(1), |to: &mut [u32]| {
        copy(&mut to[..words]);
        Ok(())
    })
}

impl Block for Comparison {
    fn size(&self) -> u64 {
        self.positions() as u64
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        match &self.compared {
            Compared::Queries { texts, queries, limits } => {
                send(feed, texts.words(), |to| texts.copy_to(to))?;
                let of_device =
                    limits.as_ref().map(|(limits, capacity)| Limits { limits, capacity: *capacity });
                compare_with_queries(feed, self.shape, texts, queries, of_device)?;
                if let Some((_, capacity)) = limits {
                    feed.read::<u32>("counts", 1)?;
                    return feed.read::<[u32; 2]>("entries", *capacity);
                }
            }
            Compared::Pairs(pairs) => {
                send(feed, pairs.words(), |to| pairs.copy_to(to))?;
                compare_pairs(feed, self.shape, pairs)?;
            }
        }
        feed.read::<u8>("distances", self.positions() * self.shape.distance_bytes())
    }

    fn collect(&mut self, back: &Back<'_>) {
        if self.shape.is_listed() {
            self.count = back.numbers::<u32>("counts")[0] as usize;
            self.entries = back.numbers::<[u32; 2]>("entries").to_vec();
            return;
        }
        let bytes = back.numbers::<u8>("distances");
        self.distances = match self.shape.distance_bytes() {
            1 => bytes.iter().map(|byte| u32::from(*byte)).collect(),
            _ => bytes.as_chunks().0.iter().map(|two| u32::from(u16::from_le_bytes(*two))).collect(),
        };
    }
}

fn on_device(devices: &Arc<Devices>, comparison: Comparison) -> Comparison {
    let (tell, told) = channel();
    let mut blocks = Blocks::new(Arc::clone(devices), [0]);
    blocks.submit(comparison, Outside::new(move || tell.send(()).unwrap()));
    told.recv().unwrap();
    let (comparison, result) = blocks.take().unwrap();
    result.unwrap();
    comparison
}

fn devices() -> Arc<Devices> {
    let cache = Some(std::env::temp_dir().join("boxwork-test-programs"));
    Faulty::devices(Plan::default(), Options { cache, ..Options::default() }).1.unwrap()
}

fn reference(a: &[char], b: &[char]) -> u32 {
    Levenshtein.reference(a, b) as u32
}

/// Compares texts with queries in both ways.
fn check(devices: &Arc<Devices>, texts: &[Vec<char>], queries: &[Vec<char>], limit: i32) {
    let letters: Vec<&[char]> = texts.iter().map(Vec::as_slice).collect();
    let lengths: Vec<usize> = queries.iter().map(Vec::len).collect();
    let wanted: Vec<Vec<u32>> =
        queries.iter().map(|query| texts.iter().map(|text| reference(query, text)).collect()).collect();
    let run = |limits: Option<(Vec<i32>, usize)>| {
        let texts = Arc::new(TextPlanes::new(&letters, &mut one_by_one()).unwrap());
        let shape = Shape::of_queries(&texts, &lengths, limits.is_some());
        let queries = CodedQueries::new(&texts, queries.iter().map(Vec::as_slice));
        let ran = on_device(devices, Comparison::new(Compared::Queries { texts, queries, limits }, shape));
        let Compared::Queries { texts, .. } = &ran.compared else { unreachable!() };
        (texts.order().to_vec(), texts.positions(), ran)
    };
    let (order, positions, ran) = run(None);
    for (query, wanted) in wanted.iter().enumerate() {
        let found = &ran.distances[query * positions..];
        for (text, found) in order.iter().zip(found) {
            let text = *text as usize;
            assert_eq!(*found, wanted[text], "{:?} and {:?}", queries[query], texts[text]);
        }
    }
    let max =
        Shape::of_queries(&TextPlanes::new(&letters, &mut one_by_one()).unwrap(), &lengths, true).limit_max();
    let limits: Vec<i32> = (0..queries.len() as i32)
        .map(|query| (limit + query).min(max) * (1 - query % 3 / 2) - query % 3 / 2)
        .collect();
    let all = positions * queries.len();
    let (order, _, ran) = run(Some((limits.clone(), all)));
    assert!(ran.count <= all);
    let mut found: Vec<(usize, u32, u32)> = ran.entries[..ran.count]
        .iter()
        .filter(|[query, _]| *query != u32::MAX)
        .map(|[query, entry]| {
            let position = entry >> edits::DISTANCE_BITS;
            (*query as usize, order[position as usize], entry & ((1 << edits::DISTANCE_BITS) - 1))
        })
        .collect();
    found.sort_unstable();
    let mut expected = Vec::new();
    for (query, wanted) in wanted.iter().enumerate() {
        let within =
            wanted.iter().zip(0..).filter(|(distance, _)| i64::from(**distance) <= i64::from(limits[query]));
        expected.extend(within.map(|(distance, text)| (query, text, *distance)));
    }
    assert!(found == expected, "limits {limits:?}");
    // Without room for all there is their number.
    if ran.count > 1 {
        let (.., short) = run(Some((limits, 1)));
        assert_eq!((short.count, short.entries.len()), (ran.count, 1));
    }
}

fn check_pairs(devices: &Arc<Devices>, pairs: &[[Vec<char>; 2]]) {
    let letters: Vec<[&[char]; 2]> = pairs.iter().map(|[a, b]| [a.as_slice(), b.as_slice()]).collect();
    let planes = PairPlanes::new(&letters, &mut one_by_one()).unwrap();
    let shape = Shape::of_pairs(&planes);
    let ran = on_device(devices, Comparison::new(Compared::Pairs(planes), shape));
    let Compared::Pairs(planes) = &ran.compared else { unreachable!() };
    assert_eq!(planes.order().len() + planes.rest().len(), pairs.len());
    for (pair, found) in planes.order().iter().zip(&ran.distances) {
        let [a, b] = &pairs[*pair as usize];
        assert_eq!(*found, reference(a, b), "{a:?} and {b:?}");
    }
}

fn texts(random: &mut Random, count: usize, lengths: [usize; 2], letters: usize) -> Vec<Vec<char>> {
    let alphabet: Vec<char> = ('A'..).take(letters).collect();
    let mut text = || {
        let length = lengths[0] + random.idx(lengths[1] - lengths[0] + 1);
        (0..length).map(|_| alphabet[random.idx(letters)]).collect()
    };
    (0..count).map(|_| text()).collect()
}

fn pairs(random: &mut Random, count: usize, lengths: [usize; 2], letters: usize) -> Vec<[Vec<char>; 2]> {
    let first = texts(random, count, lengths, letters);
    first.into_iter().zip(texts(random, count, lengths, letters)).map(|(a, b)| [a, b]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn distances_of_devices_are_those_of_the_definition(
        seed in any::<u64>(),
        longest in 0usize..=300,
        letters in prop::sample::select(vec![1usize, 4, 26, 200]),
    ) {
        if has_device("distances_of_devices_are_those_of_the_definition") {
            let (devices, mut random) = (devices(), Random::new(seed));
            let some = texts(&mut random, 60, [0, longest], letters);
            let mut asked = texts(&mut random, 3, [0, longest], letters);
            asked.push("a letter of no text: \u{1f600}".chars().collect());
            check(&devices, &some, &asked, longest as i32 / 2);
            check_pairs(&devices, &pairs(&mut random, 80, [0, longest], letters));
        }
    }
}

#[test]
fn every_size_of_texts_and_alphabets_has_its_distances() {
    if !has_device("every_size_of_texts_and_alphabets_has_its_distances") {
        return;
    }
    let (devices, mut random) = (devices(), Random::new(11));
    let dna = |random: &mut Random, count, lengths| texts(random, count, lengths, 4);
    // One strip, several with columns in local and in global memory; whole strips and not.
    for (query, text) in [(32, 32), (64, 64), (65, 300), (8, 255), (300, 3), (1024, 40), (7, 1024)] {
        let some = dna(&mut random, 40, [text, text]);
        check(&devices, &some, &dna(&mut random, 2, [query, query]), 30);
    }
    // More than a bundle, of which the last is not full; and empty texts and queries.
    let mut many = dna(&mut random, 2100, [0, 9]);
    many.push(Vec::new());
    let mut asked = dna(&mut random, 5, [0, 12]);
    asked.push(Vec::new());
    check(&devices, &many, &asked, 2);
    check(&devices, &vec![Vec::new(); 40], &asked, 2);
    for letters in [2, 8, 9, 65, 512] {
        check(
            &devices,
            &texts(&mut random, 30, [0, 40], letters),
            &texts(&mut random, 2, [9, 40], letters),
            20,
        );
    }
    for (lengths, letters) in [([32, 32], 4), ([16, 48], 4), ([20, 20], 26), ([300, 300], 4), ([0, 30], 300)]
    {
        check_pairs(&devices, &pairs(&mut random, 70, lengths, letters));
    }
    let whole = pairs(&mut random, 2048, [32, 32], 4);
    check_pairs(&devices, &whole);
    check_pairs(&devices, &pairs(&mut random, 3, [1020, 1024], 4));
    check_pairs(&devices, &[[Vec::new(), Vec::new()]]);
}
