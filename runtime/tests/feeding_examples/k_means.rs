//! Rounds of k-means: the points lie on a device, and so do the centroids between the rounds. All rounds are submitted
//! at once; each block runs after the blocks that it depends on.

use std::sync::Arc;

use boxwork_runtime::feeding::faults::has_device;
use boxwork_runtime::feeding::{
    Access, Argument, Back, Block, DeviceError, Devices, Feed, Grid, KernelSpec, ProgramSource, Resident,
    SharedKey, Value,
};

use super::{Random, Station, on_all_devices};

const DIMENSIONS: usize = 3;
const CLUSTERS: usize = 5;
const PARTS: usize = 3;
const PART_POINTS: usize = 200;
const ROUNDS: usize = 4;
const GROUP: usize = 16;

const TEXT: &str = "\
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
// The nearest centroid of each point; of equal ones the first.
__kernel void assign(__global const double *points, uint count, __global const double *centroids,
                     __global uint *nearest) {
    const uint point = get_global_id(0);
    if (point >= count) return;
    double least = INFINITY;
    for (uint cluster = 0; cluster < CLUSTERS; ++cluster) {
        double distance = 0.0;
        for (uint d = 0; d < DIMENSIONS; ++d) {
            const double apart = points[point * DIMENSIONS + d] - centroids[cluster * DIMENSIONS + d];
            distance += apart * apart;
        }
        if (distance < least) {
            least = distance;
            nearest[point] = cluster;
        }
    }
}
// A work item for each coordinate of each cluster: it adds the points in their order, so the sums are those of plain code.
__kernel void add(__global const double *points, uint count, __global const uint *nearest, __global double *sums) {
    const uint cluster = get_global_id(0);
    const uint d = get_global_id(1);
    for (uint point = 0; point < count; ++point) {
        if (nearest[point] == cluster) {
            sums[cluster * (DIMENSIONS + 1) + d] += d < DIMENSIONS ? points[point * DIMENSIONS + d] : 1.0;
        }
    }
}
__kernel void update(__global double *sums, __global double *centroids) {
    const uint cluster = get_global_id(0);
    __global double *own = sums + cluster * (DIMENSIONS + 1);
    const double count = own[DIMENSIONS];
    for (uint d = 0; d < DIMENSIONS; ++d) {
        if (count > 0.0) centroids[cluster * DIMENSIONS + d] = own[d] / count;
        own[d] = 0.0;
    }
    own[DIMENSIONS] = 0.0;
}
";

fn program() -> ProgramSource {
    const KERNELS: &[KernelSpec] = &[
        KernelSpec {
            name: "assign",
            arguments: &[
                ("points", Argument::Buffer),
                ("count", Argument::Value(4)),
                ("centroids", Argument::Buffer),
                ("nearest", Argument::Buffer),
            ],
        },
        KernelSpec {
            name: "add",
            arguments: &[
                ("points", Argument::Buffer),
                ("count", Argument::Value(4)),
                ("nearest", Argument::Buffer),
                ("sums", Argument::Buffer),
            ],
        },
        KernelSpec {
            name: "update",
            arguments: &[("sums", Argument::Buffer), ("centroids", Argument::Buffer)],
        },
    ];
    let constants = vec![("DIMENSIONS", DIMENSIONS.to_string()), ("CLUSTERS", CLUSTERS.to_string())];
    ProgramSource { name: "k_means", text: TEXT, constants, kernels: KERNELS, exact: true }
}

/// The data on the device.
#[derive(Clone)]
struct State {
    centroids: Resident<f64>,
    sums: Resident<f64>,
}

enum Step {
    /// Sends the first centroids, and no sums.
    Begin(Vec<f64>),
    /// Adds the points of a part to the sums of their nearest centroids: two kernels.
    Add(usize, Arc<Vec<f64>>),
    /// Makes the next centroids, and no sums.
    Update,
    /// Reads the centroids back.
    End(Vec<f64>),
}

struct Rounds {
    state: State,
    step: Step,
}

impl Block for Rounds {
    fn size(&self) -> u64 {
        1
    }

    fn residents(&self) -> Vec<Access> {
        let State { centroids, sums } = &self.state;
        match &self.step {
            Step::Begin(_) | Step::Update => vec![centroids.writes(), sums.writes()],
            Step::Add(..) => vec![centroids.reads(), sums.writes()],
            Step::End(_) => vec![centroids.reads()],
        }
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let State { centroids, sums } = &self.state;
        match &self.step {
            Step::Begin(first) => {
                feed.write_resident("centroids", centroids, |to| {
                    to.copy_from_slice(first);
                    Ok(())
                })?;
                feed.write_resident("sums", sums, |to| {
                    to.fill(0.0);
                    Ok(())
                })
            }
            Step::Add(part, points) => {
                let key = SharedKey { resource: 1, form: 0, part: *part as u64 };
                feed.shared("points", key, points.len(), |to: &mut [f64]| {
                    to.copy_from_slice(points);
                    Ok(())
                })?;
                feed.resident("centroids", centroids)?;
                feed.resident("sums", sums)?;
                feed.output::<u32>("nearest", PART_POINTS)?;
                let count = [("count", Value::of(PART_POINTS as u32))];
                feed.launch(&program(), "assign", Grid::covering([PART_POINTS], [GROUP]), &count)?;
                feed.launch(&program(), "add", Grid::of([CLUSTERS, 1], [1, DIMENSIONS + 1]), &count)
            }
            Step::Update => {
                feed.resident("centroids", centroids)?;
                feed.resident("sums", sums)?;
                feed.launch(&program(), "update", Grid::of([CLUSTERS], [1]), &[])
            }
            Step::End(_) => {
                feed.resident("centroids", centroids)?;
                feed.read::<f64>("centroids", centroids.len())
            }
        }
    }

    fn collect(&mut self, back: &Back<'_>) {
        if let Step::End(centroids) = &mut self.step {
            *centroids = back.numbers("centroids").to_vec();
        }
    }
}

fn points() -> Vec<Arc<Vec<f64>>> {
    let mut random = Random(1);
    let part = |_| Arc::new((0..PART_POINTS * DIMENSIONS).map(|_| random.number()).collect());
    (0..PARTS).map(part).collect()
}

/// The first points.
fn begin(points: &[Arc<Vec<f64>>]) -> Vec<f64> {
    points[0][..CLUSTERS * DIMENSIONS].to_vec()
}

/// The centroids by plain code.
fn k_means(points: &[Arc<Vec<f64>>]) -> Vec<f64> {
    let mut centroids = begin(points);
    for _ in 0..ROUNDS {
        let mut sums = [0.0; CLUSTERS * (DIMENSIONS + 1)];
        for point in points.iter().flat_map(|part| part.chunks_exact(DIMENSIONS)) {
            let distance = |cluster: &usize| {
                let centroid = &centroids[cluster * DIMENSIONS..][..DIMENSIONS];
                point.iter().zip(centroid).map(|(x, c)| (x - c) * (x - c)).sum::<f64>()
            };
            let nearest =
                (0..CLUSTERS).min_by(|a, b| distance(a).total_cmp(&distance(b))).expect("there are clusters");
            let own = &mut sums[nearest * (DIMENSIONS + 1)..];
            own.iter_mut().zip(point.iter().chain([&1.0])).for_each(|(sum, x)| *sum += x);
        }
        for (centroid, sum) in centroids.chunks_exact_mut(DIMENSIONS).zip(sums.chunks_exact(DIMENSIONS + 1)) {
            let count = sum[DIMENSIONS];
            if count > 0.0 {
                centroid.iter_mut().zip(sum).for_each(|(x, sum)| *x = sum / count);
            }
        }
    }
    centroids
}

/// All rounds on one device; an error if the device failed.
fn on_device(
    station: &mut Station<Rounds>,
    device: usize,
    points: &[Arc<Vec<f64>>],
) -> Result<Vec<f64>, DeviceError> {
    let state = State {
        centroids: station.blocks.resident(device, CLUSTERS * DIMENSIONS),
        sums: station.blocks.resident(device, CLUSTERS * (DIMENSIONS + 1)),
    };
    let mut submit = |step| station.submit(Rounds { state: state.clone(), step });
    submit(Step::Begin(begin(points)));
    for _ in 0..ROUNDS {
        points.iter().enumerate().for_each(|(part, points)| submit(Step::Add(part, Arc::clone(points))));
        submit(Step::Update);
    }
    submit(Step::End(Vec::new()));
    let mut found = Err(DeviceError::NoneLeft);
    for (block, result) in station.take_all() {
        match (block.step, result) {
            (Step::End(centroids), Ok(())) => found = Ok(centroids),
            (Step::End(_), Err(error)) => found = Err(error),
            _ => {}
        }
    }
    assert!(found.is_err() || !state.centroids.is_lost());
    found
}

#[test]
fn rounds_of_k_means_keep_their_centroids_on_a_device() {
    if !has_device("rounds_of_k_means_keep_their_centroids_on_a_device") {
        return;
    }
    let points = points();
    let expected = k_means(&points);
    on_all_devices(|devices: &Arc<Devices>, works| {
        let mut station = Station::new(devices);
        // As in a box: if a device fails, it begins again on another one, and at last on the slots.
        let mut found = None;
        for _ in 0..3 {
            let Some(device) = station.blocks.roomiest() else { break };
            match on_device(&mut station, device, &points) {
                Ok(centroids) => {
                    found = Some(centroids);
                    break;
                }
                Err(error) => assert!(error.is_of_device(), "{error}"),
            }
        }
        assert!(found.is_some() || !works, "no device has given an answer");
        assert_eq!(found.unwrap_or_else(|| k_means(&points)), expected);
    });
}
