//! A product quantiser: one kernel makes the table of a query, from which a second one sums the distances of all codes. The
//! table never leaves the device; both are launched by one block.

use std::sync::Arc;

use boxwork_runtime::feeding::faults::has_device;
use boxwork_runtime::feeding::{
    Argument, Back, Block, DeviceError, Devices, Feed, Grid, KernelSpec, ProgramSource, Residence, SharedKey,
    Value,
};
use boxwork_runtime::plain_struct;

use super::{Random, Station, on_all_devices};

const SUBSPACES: usize = 4;
const SUB_DIMENSIONS: usize = 2;
const CODES: usize = 16;
const PARTS: usize = 4;
const PART_OBJECTS: usize = 333;
const GROUP: usize = 32;

plain_struct! {
    /// The arguments of both kernels, by value.
    struct Shape {
        /// The factor of the distances.
        factor: f64,
        sub_dimensions: u32,
        codes: u32,
        subspaces: u32,
        objects: u32,
    }
}

const TEXT: &str = "\
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
struct shape { double factor; uint sub_dimensions, codes, subspaces, objects; };
__kernel void tabulate(__global const float *query, __global const float *codebooks, struct shape shape,
                       __global float *table) {
    const uint code = get_global_id(0);
    const uint subspace = get_global_id(1);
    if (code >= shape.codes) return;
    float sum = 0.0f;
    for (uint d = 0; d < shape.sub_dimensions; ++d) {
        const float apart = query[subspace * shape.sub_dimensions + d] -
                            codebooks[(subspace * shape.codes + code) * shape.sub_dimensions + d];
        sum += apart * apart;
    }
    table[subspace * shape.codes + code] = sum;
}
__kernel void scan(__global const uchar *codes, __global const float *table, struct shape shape,
                   __global double *distances) {
    const uint object = get_global_id(0);
    if (object >= shape.objects) return;
    float sum = 0.0f;
    for (uint subspace = 0; subspace < shape.subspaces; ++subspace)
        sum += table[subspace * shape.codes + codes[object * shape.subspaces + subspace]];
    distances[object] = shape.factor * sum;
}
";

fn program() -> ProgramSource {
    const KERNELS: &[KernelSpec] = &[
        KernelSpec {
            name: "tabulate",
            arguments: &[
                ("query", Argument::Buffer),
                ("codebooks", Argument::Buffer),
                ("shape", Argument::Value(size_of::<Shape>())),
                ("table", Argument::Buffer),
            ],
        },
        KernelSpec {
            name: "scan",
            arguments: &[
                ("codes", Argument::Buffer),
                ("table", Argument::Buffer),
                ("shape", Argument::Value(size_of::<Shape>())),
                ("distances", Argument::Buffer),
            ],
        },
    ];
    ProgramSource { name: "quantiser", text: TEXT, constants: Vec::new(), kernels: KERNELS, exact: true }
}

/// A store of codes, cut into parts.
struct Store {
    codebooks: Vec<f32>,
    parts: Vec<Vec<u8>>,
}

impl Store {
    fn new() -> Self {
        let mut random = Random(2);
        let codebooks = (0..SUBSPACES * CODES * SUB_DIMENSIONS).map(|_| random.number() as f32).collect();
        let mut part = |_| (0..PART_OBJECTS * SUBSPACES).map(|_| random.below(CODES as u64) as u8).collect();
        Self { codebooks, parts: (0..PARTS).map(&mut part).collect() }
    }

    /// The distances of a part's objects, by plain code.
    fn distances(&self, query: &[f32], part: usize) -> Vec<f64> {
        let table: Vec<f32> = (0..SUBSPACES * CODES)
            .map(|at| {
                let (subspace, code) = (at / CODES, &self.codebooks[at * SUB_DIMENSIONS..]);
                let query = &query[subspace * SUB_DIMENSIONS..][..SUB_DIMENSIONS];
                query.iter().zip(code).fold(0.0, |sum, (x, y)| sum + (x - y) * (x - y))
            })
            .collect();
        let distance = |codes: &[u8]| {
            let terms =
                codes.iter().enumerate().map(|(subspace, code)| table[subspace * CODES + *code as usize]);
            0.5 * f64::from(terms.fold(0f32, |sum, term| sum + term))
        };
        self.parts[part].chunks_exact(SUBSPACES).map(distance).collect()
    }
}

/// The distances of one part's objects.
struct Scan {
    store: Arc<Store>,
    query: Vec<f32>,
    part: usize,
    /// Whether the part stays on its device.
    is_kept: bool,
    distances: Vec<f64>,
}

impl Block for Scan {
    fn size(&self) -> u64 {
        PART_OBJECTS as u64
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let Self { store, query, part, is_kept, .. } = self;
        let codes = &store.parts[*part];
        let key = |form, part| SharedKey { resource: 2, form, part };
        feed.part("codes", (key(0, *part as u64), *is_kept), codes.len(), codes.len(), |_, to| {
            to.copy_from_slice(codes);
            Ok(())
        })?;
        feed.shared("codebooks", key(1, 0), store.codebooks.len(), |to: &mut [f32]| {
            to.copy_from_slice(&store.codebooks);
            Ok(())
        })?;
        feed.write("query", query.len(), |to: &mut [f32]| {
            to.copy_from_slice(query);
            Ok(())
        })?;
        feed.output::<f32>("table", SUBSPACES * CODES)?;
        feed.output::<f64>("distances", PART_OBJECTS)?;
        let shape = Shape {
            factor: 0.5,
            sub_dimensions: SUB_DIMENSIONS as u32,
            codes: CODES as u32,
            subspaces: SUBSPACES as u32,
            objects: PART_OBJECTS as u32,
        };
        let values = [("shape", Value::of(shape))];
        feed.launch(&program(), "tabulate", Grid::covering([CODES, SUBSPACES], [GROUP, 1]), &values)?;
        feed.launch(&program(), "scan", Grid::covering([PART_OBJECTS], [GROUP]), &values)?;
        feed.read::<f64>("distances", PART_OBJECTS)
    }

    fn collect(&mut self, back: &Back<'_>) {
        self.distances = back.numbers("distances").to_vec();
    }
}

#[test]
fn a_table_is_made_and_scanned_by_two_kernels_of_one_block() {
    if !has_device("a_table_is_made_and_scanned_by_two_kernels_of_one_block") {
        return;
    }
    let store = Arc::new(Store::new());
    let queries: Vec<Vec<f32>> = (10..13)
        .map(|seed| {
            let mut random = Random(seed);
            (0..SUBSPACES * SUB_DIMENSIONS).map(|_| random.number() as f32).collect()
        })
        .collect();
    on_all_devices(|devices: &Arc<Devices>, works| {
        let mut station = Station::new(devices);
        let bytes = store.parts.iter().map(|part| part.len() as u64);
        let residence = Residence::new(devices, Arc::clone(station.blocks.allowed()), bytes);
        for query in &queries {
            for part in 0..PARTS {
                // Every second part passes through, as if there were no room for all.
                let is_kept = residence.is_kept(part) && part % 2 == 0;
                let (store, query) = (Arc::clone(&store), query.clone());
                station.submit(Scan { store, query, part, is_kept, distances: Vec::new() });
            }
            let blocks = station.take_all();
            assert_eq!(blocks.len(), PARTS);
            for (block, result) in blocks {
                let expected = store.distances(query, block.part);
                match result {
                    Ok(()) => assert_eq!(block.distances, expected, "part {}", block.part),
                    // The slots compute it.
                    Err(error) => assert!(!works && error.is_of_device(), "{error}"),
                }
            }
        }
    });
}
