//! Sets of objects that are hard for an index, and the comparison of its answers with a scan.

use std::cell::Cell;

use super::objects::DISTANCES_PER_QUESTION;
use super::{Answer, IndexedObjects, MetricIndex, MetricIndexError, Search};
use crate::chance::Random;
use crate::distance::{Distance, Levenshtein, Lp, Root, Slack};
use crate::interrupt::Interrupted;

/// Compares the answers of an index with those of a scan, on every set of objects.
pub(super) fn check<I: MetricIndex>(build: impl Fn(&IndexedObjects<'_>) -> Result<I, MetricIndexError>) {
    for lp in [Lp::L1, Lp::L2, Lp::LINF] {
        check_vectors(lp, &build);
    }
    check_vectors(Root(Lp::L1), &build);
    check_texts(&build);
}

/// As [`check`], with distances that have the four-point property.
pub(super) fn check_supermetric<I: MetricIndex>(
    build: impl Fn(&IndexedObjects<'_>) -> Result<I, MetricIndexError>,
) {
    check_vectors(Lp::L2, &build);
    check_vectors(Root(Lp::LINF), &build);
}

/// Lends clustered vectors at their L2 distances.
pub(super) fn clustered(f: impl FnOnce(&IndexedObjects<'_>)) {
    let vectors = clusters(90, 4, 1e-2, 3);
    let between = |a: u32, b: u32| Lp::L2.distance(&vectors[a as usize], &vectors[b as usize]);
    f(&IndexedObjects::new(vectors.len(), &between).unwrap());
}

fn random(count: usize, dimensions: usize, seed: u64) -> Vec<Vec<f32>> {
    let mut random = Random::new(seed);
    (0..count).map(|_| (0..dimensions).map(|_| random.unit() as f32).collect()).collect()
}

fn clusters(count: usize, dimensions: usize, width: f32, seed: u64) -> Vec<Vec<f32>> {
    let centres = random(6, dimensions, seed);
    let moves = random(count, dimensions, seed + 1);
    let moved = |(idx, moves): (usize, &Vec<f32>)| {
        centres[idx % 6].iter().zip(moves).map(|(centre, by)| centre + width * by).collect()
    };
    moves.iter().enumerate().map(moved).collect()
}

/// The sets of vectors with their descriptions.
fn sets() -> Vec<(&'static str, Vec<Vec<f32>>)> {
    let line =
        |step: f32, count: u32| (0..count).map(|i| vec![i as f32 * step, 1.0, -2.0]).collect::<Vec<_>>();
    let one_hot = |i: usize| (0..40).map(|j| f32::from(u8::from(i == j))).collect();
    vec![
        ("random", random(120, 3, 1)),
        ("of many dimensions", random(60, 40, 2)),
        ("clustered", clusters(120, 4, 1e-2, 3)),
        ("within rounding of each other", clusters(60, 3, 1e-7, 4)),
        ("each many times", (0..90).map(|i| random(7, 3, 5)[i % 7].clone()).collect()),
        ("one again and again", vec![vec![0.3, 0.1]; 50]),
        ("on a line", line(0.25, 70)),
        ("on a line, at distances that rounding makes unequal", line(0.1, 70)),
        ("all at one distance", (0..40).map(one_hot).collect()),
        ("one alone", vec![vec![1.0, 2.0]]),
        ("two", vec![vec![1.0, 2.0], vec![1.5, 2.0]]),
        ("huge", random(40, 3, 6).iter().map(|v| v.iter().map(|x| x * 1e30).collect()).collect()),
        ("tiny", random(40, 3, 7).iter().map(|v| v.iter().map(|x| x * 1e-30).collect()).collect()),
    ]
}

fn check_vectors<D, I>(distance: D, build: &impl Fn(&IndexedObjects<'_>) -> Result<I, MetricIndexError>)
where
    D: for<'a> Distance<Object<'a> = &'a [f32]>,
    I: MetricIndex,
{
    for (what, vectors) in sets() {
        let of = |a: &[f32], b: &[f32]| distance.distance(a, b);
        let between = |a: u32, b: u32| of(&vectors[a as usize], &vectors[b as usize]);
        let objects = || IndexedObjects::new(vectors.len(), &between).unwrap();
        let index = build(&objects()).unwrap();
        check_interrupts(what, &objects, build);
        let slack = distance.slack(vectors[0].len(), 0.0);
        let (first, last) = (&vectors[0], &vectors[vectors.len() - 1]);
        let middle: Vec<f32> = first.iter().zip(last).map(|(a, b)| (a + b) / 2.0).collect();
        let far: Vec<f32> = first.iter().map(|x| 3.0 * x + 1.0).collect();
        for query in [first.clone(), last.clone(), vectors[vectors.len() / 3].clone(), middle, far] {
            let distances: Vec<f64> = vectors.iter().map(|vector| of(&query, vector)).collect();
            compare(&format!("{} {what}", distance.properties().name), &index, &distances, slack);
        }
    }
}

fn check_texts<I: MetricIndex>(build: &impl Fn(&IndexedObjects<'_>) -> Result<I, MetricIndexError>) {
    let mut random = Random::new(9);
    let text = |length: usize, random: &mut Random| -> Vec<char> {
        (0..length).map(|_| ['a', 'b', 'c'][(random.unit() * 3.0) as usize]).collect()
    };
    let texts: Vec<Vec<char>> = (0..100).map(|i| text(i % 9, &mut random)).collect();
    let between = |a: u32, b: u32| Levenshtein.distance(&texts[a as usize], &texts[b as usize]);
    let index = build(&IndexedObjects::new(texts.len(), &between).unwrap()).unwrap();
    for length in [0, 3, 8, 20] {
        let query = text(length, &mut random);
        let distances: Vec<f64> = texts.iter().map(|text| Levenshtein.distance(&query, text)).collect();
        compare("texts", &index, &distances, Slack::EXACT);
    }
}

/// Interrupts the making of an index at several moments. It must end there and compute nothing more.
fn check_interrupts<'a, I: MetricIndex>(
    what: &str,
    objects: &dyn Fn() -> IndexedObjects<'a>,
    build: &impl Fn(&IndexedObjects<'_>) -> Result<I, MetricIndexError>,
) {
    let stop_at = |limit: u64| {
        let asked = Cell::new(0);
        let interrupt = || {
            asked.set(asked.get() + 1);
            asked.get() >= limit
        };
        let objects = objects().until(&interrupt);
        let made = build(&objects).map(drop);
        (made, asked.get(), objects.computed())
    };
    let (made, questions, computed) = stop_at(u64::MAX);
    let is_often = questions >= computed.div_ceil(DISTANCES_PER_QUESTION);
    assert!(made.is_ok() && is_often, "{what}: {questions} questions, {computed} distances");
    for limit in [1, questions / 2, questions] {
        if (1..=questions).contains(&limit) {
            let (made, asked, computed) = stop_at(limit);
            assert_eq!((made, asked), (Err(Interrupted.into()), limit), "{what}");
            let most = (limit - 1) * DISTANCES_PER_QUESTION;
            assert!(computed <= most, "{what}: {computed} distances at question {limit}");
        }
    }
}

/// Searches for the nearest objects, for all objects within ranges, and for both.
fn compare(what: &str, index: &dyn MetricIndex, distances: &[f64], slack: Slack) {
    let count = distances.len();
    assert_eq!(index.objects(), count);
    let mut ranked: Vec<(f64, u32)> = distances.iter().copied().zip(0..).collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let at = |place: usize| ranked[place.min(count - 1)].0;
    let ks = [1, 2, 10, count, count + 5, usize::MAX];
    let ranges = [0.0, at(0), at(5), at(count / 2), at(count), f64::INFINITY];
    for k in ks {
        for range in ranges {
            let mut asked = vec![false; count];
            let mut distance = |object: u32| {
                assert!(!asked[object as usize], "{what}: object {object} is computed twice");
                asked[object as usize] = true;
                distances[object as usize]
            };
            let mut search = Search::new(k, range, slack, &mut distance);
            index.answer(&mut search).unwrap();
            let Answer { objects, computed } = search.finish();
            let wanted: Vec<(f64, u32)> =
                ranked.iter().copied().filter(|found| found.0 <= range).take(k).collect();
            assert_eq!(objects, wanted, "{what}, k = {k}, range = {range}");
            assert_eq!(computed as usize, asked.iter().filter(|asked| **asked).count());
        }
    }
    let mut distance = |object: u32| distances[object as usize];
    let mut search = Search::new(count, f64::INFINITY, slack, &mut distance).until(&|| true);
    assert_eq!(index.answer(&mut search), Err(Interrupted.into()), "{what}");
    assert_eq!(search.finish().computed, 0);
    for wrong in [f64::NAN, f64::INFINITY, -1.0] {
        let mut distance = |_: u32| wrong;
        let mut search = Search::new(1, f64::INFINITY, slack, &mut distance);
        assert!(matches!(index.answer(&mut search), Err(MetricIndexError::NotADistance { .. })), "{what}");
    }
}
