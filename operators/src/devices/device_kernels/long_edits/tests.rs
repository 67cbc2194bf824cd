//! Distances of long pairs by devices beside the definition, with tiles of all sizes.

use boxwork_kernels::chance::Random;
use boxwork_kernels::distance::{Distance, Levenshtein, Long, Pattern, TILED_LETTERS_MIN};
use boxwork_runtime::feeding::Options;
use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};
use proptest::prelude::*;

use super::*;

fn options() -> Options {
    let cache = Some(std::env::temp_dir().join("boxwork-test-programs"));
    Options { cache, ..Options::default() }
}

fn devices() -> Arc<Devices> {
    Faulty::devices(Plan::default(), options()).1.unwrap()
}

fn text(random: &mut Random, count: usize, letters: usize) -> Vec<u16> {
    (0..count).map(|_| random.idx(letters) as u16).collect()
}

fn reference(a: &[u16], b: &[u16]) -> usize {
    let letters = |text: &[u16]| -> Vec<char> {
        text.iter().map(|letter| char::from_u32(0x400 + u32::from(*letter)).unwrap()).collect()
    };
    Levenshtein.reference(&letters(a), &letters(b)) as usize
}

fn pairs_of(shape: Shape, texts: &[[Vec<u16>; 2]]) -> LongPairs {
    let mut pairs = LongPairs::new(shape);
    texts.iter().for_each(|[a, b]| pairs.add([a, b]));
    pairs
}

/// Compares the distances of some pairs together with the definition.
fn check(devices: &Arc<Devices>, shape: Shape, texts: &[[Vec<u16>; 2]]) {
    let expected: Vec<usize> = texts.iter().map(|[a, b]| reference(a, b)).collect();
    let found = compare_long_pairs(devices, 0, &pairs_of(shape, texts), &|| false);
    assert_eq!(found.map(|found| found.0), Ok(expected), "{shape:?}");
}

/// Bits of so many letters, and of one that no other text has.
fn bits(letters: usize) -> usize {
    (letters + 1).next_power_of_two().ilog2() as usize
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn tiles_of_devices_give_the_distances_of_the_definition(
        seed in any::<u64>(),
        rows in 1usize..700,
        columns in 1usize..400,
        letters in prop::sample::select(vec![1usize, 2, 4, 26, 300]),
        // Few shapes, so that few programs are compiled.
        sizes in prop::sample::select(vec![[4usize, 2, 32], [8, 8, 64], [6, 1, 32]]),
    ) {
        if has_device("tiles_of_devices_give_the_distances_of_the_definition") {
            let (devices, mut random) = (devices(), Random::new(seed));
            let shape = Shape::of_tiles(sizes, bits(letters));
            let a = text(&mut random, rows, letters);
            let texts = [
                [a.clone(), text(&mut random, columns, letters + 1)],
                [text(&mut random, columns / 2 + 1, letters), a.clone()],
                // Similar texts, equal ones, and short ones.
                [a[..rows - rows / 9].to_vec(), a[rows / 7..].to_vec()],
                [a.clone(), a],
                [text(&mut random, 1, letters), text(&mut random, 3, letters)],
            ];
            check(&devices, shape, &texts);
        }
    }
}

#[test]
fn lengths_around_words_and_tiles_of_devices() {
    if !has_device("lengths_around_words_and_tiles_of_devices") {
        return;
    }
    let (devices, mut random) = (devices(), Random::new(5));
    // 128 rows and 32 steps.
    let shape = Shape::of_tiles([4, 2, 32], 3);
    let lengths = [1, 31, 32, 33, 127, 128, 129, 255, 257];
    let mut texts = Vec::new();
    for rows in lengths {
        for columns in lengths {
            texts.push([text(&mut random, rows, 4), text(&mut random, columns, 5)]);
        }
    }
    check(&devices, shape, &texts);
    // The usual tiles, some of them not whole, in both directions.
    let shape = Shape::new(bits(4));
    for (rows, columns) in [(4096, 1100), (4097, 1024), (900, 9000), (8300, 4200)] {
        check(&devices, shape, &[[text(&mut random, rows, 4), text(&mut random, columns, 4)]]);
    }
    let [a, b] = [(); 2].map(|()| text(&mut random, 2500, 1000));
    check(&devices, Shape::new(bits(1000)), &[[a.clone(), b.clone()], [a.clone(), a[3..].to_vec()]]);
}

#[test]
fn letters_of_any_text_have_numbers() {
    if !has_device("letters_of_any_text_have_numbers") {
        return;
    }
    let (devices, mut random) = (devices(), Random::new(6));
    let alphabet = ['a', '\u{e9}', '\u{8a9e}', '\u{1f600}', '\u{10ffff}'];
    let mut text = |count: usize, letters: usize| -> Vec<char> {
        (0..count).map(|_| alphabet[random.idx(letters)]).collect()
    };
    // The query lacks the last letters.
    let (a, b) = (text(TILED_LETTERS_MIN + 1, 3), text(TILED_LETTERS_MIN + 300, 5));
    let Long::Tiles(tiles) = Pattern::new(&a).long(&b) else { panic!("they are not similar") };
    let (numbers, bits) = tiles.letters();
    assert!(tiles.is_wide() && tiles.cells() == (a.len() * b.len()) as u64);
    let mut pairs = LongPairs::new(Shape::new(bits));
    pairs.add(numbers);
    let found = compare_long_pairs(&devices, 0, &pairs, &|| false).map(|found| found.0);
    assert_eq!(found, Ok(vec![Levenshtein.distance(&a, &b) as usize]));
}

#[test]
fn devices_that_fail_give_no_distances_and_keep_nothing() {
    if !has_device("devices_that_fail_give_no_distances_and_keep_nothing") {
        return;
    }
    let mut random = Random::new(7);
    let texts = [[text(&mut random, 300, 4), text(&mut random, 200, 4)]];
    let pairs = pairs_of(Shape::of_tiles([4, 2, 32], 3), &texts);
    let expected = vec![reference(&texts[0][0], &texts[0][1])];
    let run = |plan: Plan, options: Options| {
        let (driver, devices) = Faulty::devices(plan, options);
        let found = devices.map(|devices| compare_long_pairs(&devices, 0, &pairs, &|| false));
        (driver, found)
    };
    let (driver, found) = run(Plan::default(), options());
    assert_eq!(found.unwrap().map(|found| found.0), Ok(expected.clone()));
    for call in (1..driver.calls()).step_by(7) {
        for for_good in [false, true] {
            let (_, found) = run(Plan { call, for_good, ..Plan::default() }, options());
            match found {
                Ok(Ok((found, _))) => assert_eq!(found, expected, "call {call}"),
                Ok(Err(Uncompared::Device(_))) | Err(_) => {}
                Ok(Err(Uncompared::Cancelled)) => panic!("nobody has cancelled"),
            }
        }
    }
    let (_, found) = run(Plan::default(), Options { memory_bytes: Some(100), ..options() });
    assert!(matches!(found.unwrap(), Err(Uncompared::Device(DeviceError::Memory { .. }))));
    let cancelled = compare_long_pairs(&devices(), 0, &pairs, &|| true).map(|found| found.0);
    assert_eq!(cancelled, Err(Uncompared::Cancelled));
}
