//! Rounds whose bounds come from sketches.

use boxwork_kernels::gaussian_process::pass::{Pass, PassMark};
use boxwork_stores::sketch::Sketch;

use super::*;
use crate::feedback::marks::Fitted;

/// Pivots of sketches that are made of an index.
const PIVOTS: [u64; 5] = [1, 12, 33, 62, 69];

/// A kernel over so many signatures, without some of them, and its sketches by features.
fn sketched(folder: &Path, objects: usize, removed: std::ops::Range<u64>) -> (Arc<GpKernel>, Arc<Sketch>) {
    sketched_by(false, folder, objects, removed)
}

/// As [`sketched`], or by pivots.
fn sketched_by(
    by_pivots: bool,
    folder: &Path,
    objects: usize,
    removed: std::ops::Range<u64>,
) -> (Arc<GpKernel>, Arc<Sketch>) {
    let store = testing::store(folder, objects);
    let store = if removed.is_empty() { store } else { testing::without(&store, removed) };
    let space = testing::any_space(&testing::space(store));
    let path = folder.join("test.sketch.arrow");
    match by_pivots {
        false => testing::write_sketch(&space, &path).unwrap(),
        true => testing::write_sketch_of_pivots(&space, &PIVOTS, &path).unwrap(),
    };
    let sketch = Arc::new(Sketch::open(&path, &space).unwrap());
    let covariance = Covariance::new(Form::InverseMultiquadric, 0.4);
    let mut kernel = GpKernel::new(space, covariance, Arc::default());
    kernel.sketch = Some(Arc::clone(&sketch));
    (Arc::new(kernel), sketch)
}

/// The marks of a model with their sketches.
fn pass_marks(model: &Fitted, sketch: &Sketch) -> Vec<PassMark> {
    let weights = model.marks.iter().zip(&model.weights);
    weights
        .map(|(mark, weight)| PassMark { sketch: sketch.at(mark.id), weight: *weight, noise: mark.noise })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_objects_of_the_largest_bounds_leave(
        marks in prop::collection::btree_map(0u64..70, 0u8..=4, 1..10),
        shown in prop::collection::vec(0u64..70, 0..12),
        explore in prop::sample::select(vec![0.0, 0.25, 1.0, 2.0]),
        size in prop::sample::select(vec![1i64, 7, 40, 256]),
        by_pivots in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (kernel, sketch) = sketched_by(by_pivots, folder.path(), 90, 70..80);
        let marks: Vec<(u64, f64)> = marks.into_iter().map(|(id, score)| (id, f64::from(score) / 4.0)).collect();
        let seen = shown.iter().map(|id| format!("#{id}")).collect();
        let round = Round { seen, size, explore, ..Round::marked(&kernel, &marks) };
        let (_, model) = round.fitted().unwrap();
        // Twice: the second time from columns that are kept.
        let found: Vec<Vec<Envelope>> = (0..2).map(|_| round.scanned(&model).unwrap()).collect();
        let model = Fitted::of_envelopes(&model).unwrap();
        let pass = Pass::new(kernel.covariance, model.explore(explore), &pass_marks(&model, &sketch));
        let hidden: BTreeSet<u64> = marks.iter().map(|mark| mark.0).chain(shown).chain(70..80).collect();
        let mut expected: Vec<(f64, f64, u64)> = (0..90)
            .filter(|id| !hidden.contains(id))
            .map(|id| (pass.upper(&sketch.at(id)), id))
            .map(|(bound, id)| (bound.upper, bound.mean, id))
            .collect();
        expected.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.2.cmp(&b.2)));
        expected.truncate(size as usize);
        for found in found {
            prop_assert_eq!(found.len(), 1);
            let (uppers, means) = (found[0].f64s("upper").unwrap(), found[0].f64s("mean").unwrap());
            let ids = found[0].u64s("id").unwrap();
            let found: Vec<(f64, f64, u64)> =
                (0..ids.len()).map(|row| (uppers[row], means[row], ids[row])).collect();
            prop_assert_eq!(&found, &expected);
        }
        // No bound is below the score of the model that has the sketches' distances.
        let marks = pass_marks(&model, &sketch);
        let distance = |a: &[u16], b: &[u16]| {
            let number = |bits: &u16| f64::from(boxwork_kernels::sketch::coordinate(*bits));
            a.iter().zip(b).map(|(a, b)| (number(a) - number(b)).powi(2)).sum::<f64>().sqrt()
        };
        let mut of_sketches = Model::new();
        for (nth, mark) in marks.iter().enumerate() {
            let left = marks[..nth].iter().map(|other| kernel.covariance.of(distance(&mark.sketch, &other.sketch)));
            of_sketches.push(&left.collect::<Vec<_>>(), model.marks[nth].relevance, mark.noise);
        }
        for (upper, mean, id) in expected {
            let k: Vec<f64> =
                marks.iter().map(|mark| kernel.covariance.of(distance(&sketch.at(id), &mark.sketch))).collect();
            let score = mean + model.explore(explore) * of_sketches.variance(&k).sqrt();
            prop_assert!(score <= upper + 1e-9, "{} is above {}", score, upper);
        }
    }
}

#[test]
fn a_choice_among_all_candidates_is_that_of_exact_distances() {
    let folder = tempfile::tempdir().unwrap();
    let (kernel, _) = sketched(folder.path(), 90, 0..0);
    choice_is_exact(&kernel);
    let folder = tempfile::tempdir().unwrap();
    let (kernel, _) = sketched_by(true, folder.path(), 90, 0..0);
    choice_is_exact(&kernel);
}

fn choice_is_exact(kernel: &Arc<GpKernel>) {
    let marks = [(3, 1.0), (10, 0.0), (61, 0.75)];
    check(
        kernel,
        &marks,
        &[5, 6],
        &Round { seen: vec!["#5".to_owned(), "#6".to_owned()], ..Round::marked(kernel, &marks) },
    );
    // Among fewer candidates it has the means of exact distances too.
    let few = Round { size: 20, batch: 5, ..Round::marked(kernel, &marks) }.run().unwrap();
    let all = Round { batch: 80, ..Round::marked(kernel, &marks) }.run().unwrap();
    for row in few {
        let same = all.iter().find(|other| other.0 == row.0).unwrap();
        assert_eq!((row.1, row.2, row.4), (same.1, same.2, same.4));
    }
}

#[test]
fn without_marks_candidates_come_by_chance_and_may_all_be_shown() {
    let folder = tempfile::tempdir().unwrap();
    let (kernel, _) = sketched(folder.path(), 90, 20..50);
    let seen: Vec<String> = (0..10).map(|id| format!("#{id}")).collect();
    let of = |seed: i64| {
        let round = Round { seed, size: 15, unmarked: "ignore", seen: seen.clone(), ..Round::of(&kernel) };
        let found = round.scanned(&round.fitted().unwrap().1).unwrap();
        assert_eq!(found.len(), 1);
        found[0].u64s("id").unwrap().to_vec()
    };
    let all: BTreeSet<u64> = (0..20).flat_map(of).collect();
    assert_eq!(all, (10..20).chain(50..90).collect());
    assert!((0..20).all(|seed| of(seed).len() == 15 && of(seed) == of(seed)));
    assert_ne!(of(1), of(2));
    let round = Round { unmarked: "ignore", seen: seen.clone(), size: 256, batch: 100, ..Round::of(&kernel) };
    assert_eq!(
        round.ids().into_iter().collect::<BTreeSet<u64>>(),
        all,
        "a short round has all that may be shown"
    );
}

#[test]
fn classes_and_foreign_marks_are_heard() {
    classes_and_foreign_marks(false);
    classes_and_foreign_marks(true);
}

fn classes_and_foreign_marks(by_pivots: bool) {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<(String, u64)> =
        (0..60).map(|nth| (format!("{}/{nth}", ["cats", "dogs"][nth % 2]), nth as u64 + 1)).collect();
    let names: Vec<(&str, u64)> = names.iter().map(|(name, seed)| (name.as_str(), *seed)).collect();
    let store =
        testing::store_of(folder.path(), &names, &boxwork_stores::signature_store::StoreInfo::default());
    let space = testing::any_space(&testing::space(store));
    let path = folder.path().join("test.sketch.arrow");
    match by_pivots {
        false => testing::write_sketch(&space, &path).unwrap(),
        true => testing::write_sketch_of_pivots(&space, &PIVOTS[..3], &path).unwrap(),
    };
    let sketch = Arc::new(Sketch::open(&path, &space).unwrap());
    let mut kernel = GpKernel::new(space, Covariance::new(Form::Gaussian, 0.4), Arc::default());
    kernel.sketch = Some(Arc::clone(&sketch));
    let kernel = Arc::new(kernel);
    let with_class = |class| Round { class, batch: 60, ..Round::marked(&kernel, &[(4, 1.0)]) };
    assert_eq!(with_class(Some("dogs")).ids().len(), 30);
    assert!(with_class(Some("dogs")).ids().iter().all(|id| id % 2 == 1));
    assert_eq!(with_class(Some("owls")).ids(), [0u64; 0]);
    // An object that is not in the store is sketched as those of the store are: an equal one has its bound.
    let (marks, model) = with_class(None).fitted().unwrap();
    let mut foreign = super::super::marks::of_envelopes(&model).unwrap();
    assert_eq!(foreign.len(), marks.len());
    foreign[0].id = foreign_id(0);
    let mut fitted = Model::new();
    fitted.push(&[], 1.0, MARK_NOISE);
    let marks = [super::super::marks::envelope(&foreign).unwrap().unwrap()];
    let envelope = Fitted::envelope(&marks, &fitted).unwrap().unwrap();
    let round = Round { size: 9, ..with_class(None) };
    let own = round.scanned(&model).unwrap();
    let foreign = round.scanned(&[envelope]).unwrap();
    // The mark's own object is a candidate then, the nearest one.
    assert_eq!(foreign[0].u64s("id").unwrap()[0], 4);
    assert_eq!(foreign[0].u64s("id").unwrap()[1..], own[0].u64s("id").unwrap()[..8]);
    assert_eq!(foreign[0].f64s("upper").unwrap()[1..], own[0].f64s("upper").unwrap()[..8]);
}
