//! The rounds of k-means on devices beside those on slots, with devices that fail.

use std::sync::Mutex;

use boxwork_kernels::chance::Random;
use boxwork_kernels::kmeans::{BLOCK, Options as KMeans, Rounds, k_means, start};
use boxwork_kernels::pieces::one_by_one;
use boxwork_runtime::feeding::Options;
use boxwork_runtime::feeding::faults::{Faulty, Plan as FaultPlan, has_device};
use boxwork_runtime::harness::Harness;
use boxwork_runtime::operator::{Flow, Operator};

use super::super::TRAIN_LISTS;
use super::*;

/// A stage that leaves its task where a test finds it.
struct Kept {
    stage: Option<DeviceStage<Assignment>>,
    task: Arc<Mutex<Option<Assignment>>>,
}

impl Operator for Kept {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some(stage) = &mut self.stage else { return Ok(Flow::Done) };
        let flow = stage.process(cx)?;
        if flow == Flow::Done {
            *self.task.lock().unwrap() = self.stage.take().map(DeviceStage::into_task);
        }
        Ok(flow)
    }
}

/// The numbers of rows.
#[derive(Clone, Copy)]
enum Numbers {
    /// Clusters, with copies and zeros.
    Clusters,
    /// Few whole numbers, so that many distances are equal.
    Ties,
    /// Sizes are so different that sums depend on their order.
    Wide,
    /// Too large for products in f32.
    Large,
}

#[derive(Clone, Copy)]
struct Case {
    numbers: Numbers,
    dimensions: usize,
    rows: usize,
    clusters: usize,
    chunk_bytes: usize,
    emulates: bool,
}

const USUAL: Case = Case {
    numbers: Numbers::Clusters,
    dimensions: 16,
    rows: 500,
    clusters: 9,
    chunk_bytes: 1 << 30,
    emulates: false,
};

const OPTIONS: KMeans = KMeans { iterations: 5, seed: 3, spherical: false, frozen: 0 };

fn rows(case: &Case) -> Vec<f32> {
    let (mut random, dimensions) = (Random::new(case.rows as u64), case.dimensions);
    let centres: Vec<f32> = (0..5 * dimensions).map(|_| 3.0 * random.normal_f32()).collect();
    let mut all: Vec<f32> = Vec::new();
    for row in 0..case.rows {
        match (case.numbers, row % 17) {
            (Numbers::Ties, _) => all.extend((0..dimensions).map(|_| random.below(3) as f32)),
            (Numbers::Wide, _) => all.extend((0..dimensions).map(|_| random.normal_f32().powi(9))),
            (Numbers::Large, _) => all.extend((0..dimensions).map(|_| 1e18 * random.normal_f32())),
            (_, 5) => all.extend_from_within(all.len() - dimensions..),
            (_, 9) => all.extend(vec![0.0; dimensions]),
            _ => {
                let centre = random.idx(5) * dimensions;
                all.extend((0..dimensions).map(|place| centres[centre + place] + random.normal_f32()));
            }
        }
    }
    all
}

/// Clusters on devices and on slots; returns the driver's calls.
fn check(case: &Case, faults: FaultPlan) -> u64 {
    let Case { dimensions, clusters, .. } = *case;
    let rows = Arc::new(rows(case));
    let chosen: Vec<f32> = start(case.rows as u64, clusters, 3)
        .into_iter()
        .flat_map(|row| rows[row as usize * dimensions..][..dimensions].to_vec())
        .collect();
    let path = CodePath::detect();
    let expected = k_means(&rows, dimensions, chosen.clone(), OPTIONS, path, &mut one_by_one());
    let expected = expected.unwrap().unwrap();
    let cache = Some(std::env::temp_dir().join("boxwork-test-programs"));
    let (is_sound, is_lost) = (faults.call == 0, faults.for_good);
    let (driver, devices) = Faulty::devices(faults, Options { cache, ..Options::default() });
    let Ok(devices) = devices else { return driver.calls() };
    let allowed: Arc<[usize]> = (0..devices.list().len()).collect();
    let rounds = Rounds::new(&rows, dimensions, chosen, OPTIONS).unwrap();
    let clustering = Clustering { sample: Arc::clone(&rows), rows, rounds };
    let sized = Sized { chunk_bytes: case.chunk_bytes, emulates: case.emulates };
    let stage = stage(clustering, (dimensions, 5, 2), sized, (Arc::clone(&devices), allowed));
    let task = Arc::new(Mutex::new(None));
    let kept = Kept { stage: Some(stage), task: Arc::clone(&task) };
    let mut harness = Harness::of(&TRAIN_LISTS, Box::new(kept));
    harness.room(100);
    while !harness.is_done() {
        harness.run().unwrap();
    }
    drop(harness);
    let task = task.lock().unwrap().take().expect("the stage has ended");
    let (undecided, rounds, has_means) = (task.undecided, task.clustering.rounds.count(), task.has_means);
    assert_eq!(has_means, task.chunks.len() == 1, "one device that has all rows computes the means");
    let found = task.into_clustering().rounds.into_clustering();
    assert_eq!(
        found.centroids, expected.centroids,
        "{dimensions} dimensions, {} rows, {clusters}",
        case.rows
    );
    assert_eq!((found.is_settled, found.splits), (expected.is_settled, expected.splits));
    let size: u64 = devices.statistics().iter().map(|of_device| of_device.size).sum();
    if is_sound {
        let all = rounds * case.rows;
        let means = if has_means { (rounds - usize::from(found.is_settled)) * case.rows } else { 0 };
        let on_devices = if matches!(case.numbers, Numbers::Large) { 0 } else { all * clusters + means };
        assert_eq!((size, devices.take_warnings()), (on_devices as u64, Vec::new()), "all on devices");
        // Copies and zeros that are centroids have equal distances, others almost never.
        let most = if matches!(case.numbers, Numbers::Clusters) { all / 2 } else { all };
        assert!(undecided <= most, "{undecided} of {all} rows are not decided");
    }
    drop(devices);
    assert!(is_lost || driver.left().is_empty(), "{:?} are left", driver.left());
    driver.calls()
}

#[test]
fn centroids_of_devices_have_the_bits_of_slots() {
    if !has_device("centroids_of_devices_have_the_bits_of_slots") {
        return;
    }
    let sound = |case: &Case| check(case, FaultPlan { appears_as: 1, ..FaultPlan::default() });
    for dimensions in [1, 3, 17, 128, 129] {
        sound(&Case { dimensions, ..USUAL });
        sound(&Case { dimensions, numbers: Numbers::Ties, ..USUAL });
    }
    for (rows, clusters) in [(1, 1), (127, 2), (129, 128), (300, 129), (700, 300)] {
        sound(&Case { rows, clusters, ..USUAL });
        // Several chunks.
        sound(&Case { rows, clusters, chunk_bytes: 130 * 136, ..USUAL });
    }
    // Several blocks of rows, whose sums join in their order.
    sound(&Case { numbers: Numbers::Wide, rows: 2 * BLOCK + 77, dimensions: 2, clusters: 3, ..USUAL });
    sound(&Case { numbers: Numbers::Large, ..USUAL });
    // Of several devices one has all rows, if it can; otherwise each has a part.
    for chunk_bytes in [1 << 30, 130 * 136] {
        let case = Case { rows: 300, chunk_bytes, ..USUAL };
        check(&case, FaultPlan { appears_as: 3, ..FaultPlan::default() });
    }
    // Matrix units, as devices without them compute.
    let halves = Case { emulates: true, rows: 150, ..USUAL };
    for (dimensions, clusters) in [(16, 9), (33, 131), (65, 64), (130, 33), (260, 9)] {
        sound(&Case { dimensions, clusters, ..halves });
    }
    sound(&Case { numbers: Numbers::Ties, chunk_bytes: 100 * 136, ..halves });
}

#[test]
fn devices_that_fail_change_no_centroid() {
    if !has_device("devices_that_fail_change_no_centroid") {
        return;
    }
    // Two devices with a chunk each, and one with all rows, which computes means too.
    for (chunk_bytes, appears_as) in [(130 * 136, 2), (1 << 30, 1)] {
        let case = Case { rows: 300, chunk_bytes, ..USUAL };
        let calls = check(&case, FaultPlan { appears_as, ..FaultPlan::default() });
        for call in (1..calls).step_by(13) {
            for for_good in [false, true] {
                check(&case, FaultPlan { call, for_good, appears_as, ..FaultPlan::default() });
            }
        }
    }
}
