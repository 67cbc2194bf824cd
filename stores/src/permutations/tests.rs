//! Permutations on disk: what they hold, and which files are refused.

use std::fs;

use boxwork_kernels::chance::Random;
use boxwork_kernels::interrupt::never;
use boxwork_kernels::permutation::Measure;

use super::*;
use crate::testing;

/// A space of so many signatures of which some are removed, and its permutations.
fn written(folder: &Path, objects: usize) -> (Arc<dyn Space>, PathBuf) {
    let store = testing::store(folder, objects);
    let space = testing::any_space(&testing::space(testing::without(&store, [3, 41].into_iter())));
    let path = folder.join("test.permutations.arrow");
    let maker = PermutationMaker::choose(&space, 20, 7, 5, &never).unwrap();
    let mut writer = PermutationWriter::create(&path, &maker).unwrap();
    assert!(writer.is_empty());
    let ids: Vec<u64> = space.store().among(0..objects as u64).collect();
    for ids in ids.chunks(100) {
        space.store().bring_in(ids).unwrap();
        let mut lists = Vec::new();
        maker.append(ids, &mut lists, &never).unwrap();
        writer.push(&lists).unwrap();
    }
    assert_eq!(writer.finish().unwrap(), objects as u64);
    (space, path)
}

#[test]
fn lists_are_the_pivots_by_exact_distance() {
    let folder = tempfile::tempdir().unwrap();
    let (space, path) = written(folder.path(), 4500);
    let permutations = Permutations::open(&path, &space, Layout::Scan, &never).unwrap();
    let inverted = Permutations::open(&path, &space, Layout::Inverted, &never).unwrap();
    assert_eq!((permutations.layout(), inverted.layout()), (Layout::Scan, Layout::Inverted));
    let maker = permutations.maker();
    assert_eq!((maker.pivots().len(), maker.length(), permutations.path()), (20, 7, &*path));
    for id in space.store().among(0..4500).step_by(97).chain([0, 4095, 4096, 4499]) {
        let pairs: Vec<[u64; 2]> = maker.pivots().iter().map(|pivot| [*pivot, id]).collect();
        let mut distances = vec![0.0; pairs.len()];
        space.between(&pairs, &mut distances).unwrap();
        let mut expected: Vec<u16> = (0..20).collect();
        expected.sort_by(|a, b| distances[usize::from(*a)].total_cmp(&distances[usize::from(*b)]));
        assert_eq!(permutations.list(id), expected[..7], "object {id}");
        assert_eq!(inverted.list(id), expected[..7], "object {id}");
    }
    // An object's own list is the most similar one, and removed objects are no candidates.
    let object = space.store().objects(&[1000]).unwrap();
    let query = Arc::clone(&space).prepare(&object, 0).unwrap();
    for measure in [Measure::Footrule, Measure::Rho] {
        let found = permutations.candidates(&*query, measure.into(), 4500, &never).unwrap();
        assert_eq!(inverted.candidates(&*query, measure.into(), 4500, &never).unwrap(), found);
        assert!(found.len() == 4498 && !found.contains(&3) && !found.contains(&41));
        assert_eq!(permutations.list(found[0]), permutations.list(1000));
    }
    assert_eq!(maker.duplicates(&never).unwrap(), 0);
}

#[test]
fn batches_of_columns_are_those_of_lists() {
    let folder = tempfile::tempdir().unwrap();
    let objects = 3 * PermutationBatch::IDS + 77;
    let store = testing::store(folder.path(), objects as usize);
    // The second batch has no object, and the others begin or end without one.
    let removed = (4095..8193).chain([0, 12_287, objects - 1]);
    let space = testing::any_space(&testing::space(testing::without(&store, removed)));
    let store = space.store();
    let maker = PermutationMaker::choose(&space, 9, 5, 2, &never).unwrap();
    assert_eq!(maker.pivots(), PermutationMaker::pick(&space, 9, 5, 2).unwrap());
    let firsts: Vec<u64> = (0..4).map(|batch| batch * PermutationBatch::IDS).collect();
    let lists_of = |first: &u64| {
        let ids = *first..objects.min(first + PermutationBatch::IDS);
        let (ids, mut lists): (Vec<u64>, _) = (store.among(ids).collect(), Vec::new());
        store.bring_in(&ids).unwrap();
        maker.append(&ids, &mut lists, &never).unwrap();
        lists
    };
    let lists: Vec<Vec<u16>> = firsts.iter().map(lists_of).collect();
    // `columns` says which batches come as columns; the others come as lists.
    let file = |columns: [bool; 4]| {
        let path = folder.path().join("test.permutations.arrow");
        let mut writer = PermutationWriter::create(&path, &maker).unwrap();
        for ((first, lists), is_columns) in firsts.iter().zip(&lists).zip(columns) {
            let pieces: Vec<Vec<u16>> = lists.chunks(5 * 1000).map(<[u16]>::to_vec).collect();
            match is_columns {
                _ if lists.is_empty() => {}
                true => writer.push_batch(PermutationBatch::new(&**store, *first, &pieces, 5)).unwrap(),
                false => writer.push(lists).unwrap(),
            }
        }
        assert_eq!(writer.finish().unwrap(), objects);
        fs::read(path).unwrap()
    };
    let expected = file([false; 4]);
    for columns in [[true; 4], [true, false, false, true], [false, true, true, false]] {
        assert!(file(columns) == expected, "{columns:?}");
    }
}

#[test]
fn impossible_lists_and_missing_objects_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let space = testing::any_space(&testing::space(testing::store(folder.path(), 50)));
    let choose = |pivots, length| PermutationMaker::choose(&space, pivots, length, 1, &never);
    assert!(choose(51, 5).unwrap_err().to_string().contains("at most 50 pivots"));
    assert!(choose(5, 6).unwrap_err().to_string().contains("from 1 to 5"));
    assert!(PermutationMaker::choose(&space, 5, 5, 1, &|| true).is_err());
    let maker = choose(5, 5).unwrap();
    let path = folder.path().join("few.permutations.arrow");
    let mut writer = PermutationWriter::create(&path, &maker).unwrap();
    writer.push(&[0, 1, 2, 3, 4]).unwrap();
    assert!(writer.finish().unwrap_err().to_string().contains("1 of 50"));
    assert!(!path.exists());
}

#[test]
fn damaged_files_are_refused_or_read_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let (space, path) = written(folder.path(), 300);
    let whole = fs::read(&path).unwrap();
    let all =
        |permutations: Permutations| -> Vec<Vec<u16>> { (0..300).map(|id| permutations.list(id)).collect() };
    let expected = all(Permutations::open(&path, &space, Layout::Scan, &never).unwrap());
    let mut random = Random::new(7);
    for round in 0..400 {
        let mut bytes = whole.clone();
        match round % 4 {
            0 => bytes.truncate(random.idx(whole.len())),
            1 => drop(bytes.remove(random.idx(whole.len()))),
            2 => bytes.insert(random.idx(whole.len()), random.below(256) as u8),
            _ => {
                let place = random.idx(whole.len());
                bytes[place] ^= 1 << random.below(8);
            }
        }
        fs::write(&path, &bytes).unwrap();
        let layout = if round % 8 < 4 { Layout::Scan } else { Layout::Inverted };
        match Permutations::open(&path, &space, layout, &never) {
            Err(error) => assert!(error.to_string().contains("test.permutations.arrow"), "{error}"),
            Ok(found) => assert_eq!(all(found), expected, "damage went unnoticed in round {round}"),
        }
    }
}
