//! The rates of devices, and their share of the limit that arithmetic or memory sets.
//!
//! `what=distances` (the default): signature distances; 75 x 75 centroids of 7 coordinates, Gaussian over L2, the
//! signatures on the device. Time is the kernels' own, by OpenCL's events with one block under way, and the wall
//! clock's with six, results brought back. The bench also prints the physical limit of a device that issues one
//! instruction for 32 lanes per clock in each quarter of a multiprocessor and computes only a pair's products,
//! exponential and additions. *Streaming* gathers and sends the signatures for each block. The thesis' figures 4.15 to
//! 4.17 are the published answer. Arguments: `objects=250000 centroids=75 queries=1 alpha=0.2 blocks=40 split=256x8
//! apart=no streams=no`; `split` and `apart` take lists (`split=128x8,256x4`), to compare divisions of the kernel's
//! work; `apart=4x1` uses matrix units, four bands of candidates at once, one of them with a power in four by
//! multiplication; `text=FILE` takes another text for the kernel, and `text=own,FILE rounds=3` both in turns;
//! `gatherers=4` this many threads to gather a streamed block. With at most 48 centroids, 81 are measured in the same
//! run, and the ratios are printed.
//!
//! `what=bounds`: lower and upper bounds of all objects by a pivot table on the device, and the selection of the
//! objects that remain for the k nearest. The bench also prints the rates at which the device copies and reads memory:
//! triangles and simplex must at least read their columns once. Arguments: `objects=17500000 pivots=32 k=10 rounds=21
//! held=2 bound=all`; `held` and `bound` take lists (`held=1,2,4 bound=simplex,ptolemaic`). The host needs 4 bytes for
//! each pivot and object, twice (4.5 GB at the full size); the device half of that for each kind of bound, and 8 bytes
//! per object.
//!
//! `what=search`: the shipped `search.yaml` (scan, distances, ranking) over a store on the device, as a share of the
//! rate of its kernels. Arguments: `objects=1000000 k=100 workers=16 rounds=21 folder=FOLDER`; the store takes 2.45 KB
//! per object in the folder and on the device.
//!
//! `what=extraction`: signatures of decoded pictures of 150 x 150 in memory, by the box `extract`. Arguments:
//! `objects=65536 points=2000 iterations=5 rounds=11 workers=16`.
//!
//! `what=own`: the time of a scan with queries of 20 to 160 centroids, and of a scan that also computes each object's
//! similarity to itself; the thesis' figure 4.16. Arguments: `objects=250000 centroids=75 rounds=9`.
//!
//! `what=beside`: the rate of distances on the device while boxes compute on all cores, divided by the rate without
//! them. Arguments: `objects=250000 blocks=400 workers=16 rounds=5`.
//!
//! `what=feeding`: feeding threads compared with one thread that does everything, on 1, 2 and 4 devices; the thesis'
//! figure 3.11. A block is gathered, sent, computed and brought back, and its k nearest found. Arguments:
//! `objects=50000` per block, `parts=8` different blocks, `blocks=64` for each device, `queries=64 k=100 rounds=5
//! counts=1,2,4 ways=resident,gathered,pinned`.
//!
//! `what=vectors`: the nearest of many vectors by `vector_search.yaml`, exactly, with the rows on the device, beside a matrix
//! product and a selection by PyTorch; and one query at a time. Arguments: `objects=1000000 dimensions=128 queries=10000
//! k=10,100 rounds=7 sample=FILE type=f32 peer=torch folder=FOLDER`. With `devices=2` it is also compared with two devices, of which
//! each has a replica of all rows or a share of them. Where `BOXWORK_DEVICE_MB` keeps the rows off the device, the rate at which they are sent is
//! printed.
//!
//! `what=denoise`: pictures without their noise by the box `denoise`, both phases, on a device and on slots in one run: by the kernels' own time, as if
//! pictures were on the device, and from pictures decoded in memory. Arguments: `objects=128 side=1024 colour=0 sigma=25 profile=default
//! rounds=7 workers=16 devices=2`; `colour=1` for RGB. With `devices=2` a set of pictures is also compared with two devices.
//!
//! `what=select`: the k least numbers of each of many arrays (`k_select.cl`), in both ways, as a share of the rate at which the
//! device reads memory. Arguments: `objects=10000 length=128000 k=1,10,100,1024,2048 rounds=7 peer=torch`.
//!
//! `what=kmeans`: the rounds of k-means on a device, as `train_lists` computes them, beside a matrix product and `index_add_` by
//! PyTorch. Arguments: `objects=1000000 dimensions=128 lists=4096 iterations=25 rounds=5 sample=FILE peer=torch timeline=1`.
//!
//! `what=graph`: the exact nearest neighbours of all rows on a device, by `knn_graph.yaml`, beside a matrix product and `topk` by
//! PyTorch. Arguments: `objects=1000000 dimensions=128 k=10 rounds=5 checked=100000 sample=FILE peer=torch timeline=1`; up to `checked` rows
//! are also compared with the processor's.
//!
//! `what=permutation`: the permutations of vectors by `write_permutations`, on a device and on slots in one run, with the same file; and a scan of the
//! lists of `rows` objects for one query, as a share of the rate at which the device reads memory. Arguments: `rows=20000000 objects=4000000 dimensions=128 pivots=128 length=32 rounds=5 sample=FILE timeline=1 workers=16`.
//!
//! `what=edit`: edit distances of random pairs of texts, and of texts from queries: by the kernels alone, and on the whole way from the
//! host's memory as a share of the rate of copying; and `edit_neighbours` on the device and on slots in one run. Arguments: `objects=4194304 length=32
//! queries=256 k=10 rounds=7 workers=16`. Then texts aligned with queries by costs and by scores of a matrix (`part=alignments` alone): the kernel with several
//! numbers of lanes and rows, and `alignments` beside slots: `texts=50000 length=300 queries=64 rounds=5 workers=16`. Then long pairs of random texts
//! (`part=long` alone): by the kernel, one pair and several together, and one by `edit_distances` beside slots: `long=100000,800000 pairs=1,8 rounds=7 workers=16`.
//!
//! `what=lists`: searches through lists of product codes by `vector_probe.yaml`, on a device and on slots in one run; the kernels alone, one by
//! one, and the look-ups in tables as a share of what the device's local memory gives. Arguments: `rows=1000000 dimensions=128 queries=10000
//! lists=4096 codes=product,fast parts=16 probes=32 refine=1,10 rounds=7 devices=2 sample=FILE timeline=1`.
//!
//! `what=dense`, `what=cholesky` and `what=gp`: products of matrices in f64 and f32, Cholesky factors, and fits of a Gaussian process from
//! points on the host, beside PyTorch (cuBLAS, cuSOLVER) where it finds a GPU. Arguments: `n=8192,32768 precision=f64,f32 units=auto,0,1,2
//! block=auto,1024 ahead=auto,yes,no memory=map,copy devices=2 rounds=3 peer=none`; `peer=torch,clblast` compares products with CLBlast too; `units`: 0 the device's usual arithmetic, 1 and 2 NVIDIA's
//! matrix units for f64; `ahead`: whether the next block is factored on a second queue; `devices` share a factor; `resident=4096`: the matrix stays in
//! the host's memory, and the device has so many columns at a time. `together=auto,300 workers=16` compares a device, slots and both together,
//! by measured rates or with so many thousandths of the columns for slots. `what=tune` finds the fastest `block` and `ahead` for each `n` and keeps them for the
//! device, unless `keep=no`. `what=gp` also measures the likelihood with its
//! derivatives, and predictions by `gp_predict.yaml` on the device and on slots: `samples=8192 new=200000 slots=20000 workers=16`.
//!
//! `what=seed`: one triangular solve by a launch a column, with the vector mapped, copied or left on the device at each, beside the solve by
//! tiles. Arguments: `n=32,64,96,128,512,1024,4096 rounds=3`.
//!
//! `cargo bench --bench gpu -- what=bounds device=0 objects=17500000`. Devices of class CPU (PoCL) get small sizes by
//! default. Every line checks its answer first. The binary needs an OpenCL driver and no other file; `what=help` lists
//! all this.

mod support;

#[path = "gpu/distances.rs"]
mod distances;

#[path = "gpu/bounds.rs"]
mod bounds;

#[path = "gpu/beside.rs"]
mod beside;

#[path = "gpu/own.rs"]
mod own;

#[path = "gpu/feeding.rs"]
mod feeding;

#[path = "gpu/search.rs"]
mod search;

#[path = "gpu/extraction.rs"]
mod extraction;

#[path = "gpu/memory.rs"]
mod memory;

#[path = "gpu/vectors.rs"]
mod vectors;

#[path = "gpu/clusters.rs"]
mod clusters;

#[path = "gpu/permutations.rs"]
mod permutations;

#[path = "gpu/alignments.rs"]
mod alignments;

#[path = "gpu/edit_long.rs"]
mod edit_long;

#[path = "gpu/edit.rs"]
mod edit;

#[path = "gpu/denoise.rs"]
mod denoise;

#[path = "gpu/select.rs"]
mod select;

#[path = "gpu/lists.rs"]
mod lists;

#[path = "gpu/several.rs"]
mod several;

#[path = "gpu/dense.rs"]
mod dense;

#[path = "gpu/together.rs"]
mod together;

#[path = "gpu/gp.rs"]
mod gp;

#[path = "gpu/seed.rs"]
mod seed;

use std::sync::Arc;

use boxwork_runtime::Config;
use boxwork_runtime::feeding::{Devices, LazyDevices};
use support::request::seconds_of;
use support::{Arguments, print_machine};

/// The arguments of all questions, by question.
const OF_DISTANCES: [&str; 11] = [
    "what",
    "device",
    "objects",
    "centroids",
    "queries",
    "alpha",
    "blocks",
    "split",
    "apart",
    "text",
    "gatherers",
];
const OF_OTHERS: [&str; 46] = [
    "part",
    "texts",
    "long",
    "pairs",
    "n",
    "side",
    "colour",
    "sigma",
    "profile",
    "precision",
    "units",
    "block",
    "memory",
    "rows",
    "codes",
    "probes",
    "refine",
    "devices",
    "timeline",
    "length",
    "dimensions",
    "sample",
    "type",
    "peer",
    "points",
    "iterations",
    "lists",
    "checked",
    "streams",
    "pivots",
    "k",
    "rounds",
    "held",
    "bound",
    "workers",
    "folder",
    "parts",
    "counts",
    "ways",
    "resident",
    "csv",
    "ahead",
    "samples",
    "new",
    "slots",
    "together",
];

/// The text of `what=help`.
const HELP: &str = "\
what=distances  signature distances a second (as without `what`)
                objects=250000 centroids=75 queries=1 alpha=0.2 blocks=40 split=256x8,... apart=no,yes,2x0,2x0a
                streams=no; centroids=23 (48 at most) also measures 81 and prints the ratio
                needs 32 bytes a centroid on the host and on the device
what=bounds     bounds of all objects by a pivot table, and the selection of what is left
                objects=17500000 pivots=32 k=10 rounds=21 held=2,... bound=all|triangular,ptolemaic,combined,simplex
                needs 8 bytes for each pivot and object on the host, and on the device for all bounds
what=search     search.yaml over a store that lies on the device, as a share of its kernels' rate
                objects=1000000 k=100 workers=CORES rounds=21 folder=TEMPORARY
                needs 2.45 KB an object in the folder and on the device
what=own        what it saves that objects' similarities to themselves are known
                objects=250000 centroids=75 rounds=9
what=beside     the device's rate while boxes compute on all cores, over that while none does
                objects=250000 blocks=400 workers=CORES rounds=5
what=feeding    feeding threads against one thread that does everything, on several devices
                objects=50000 parts=8 blocks=64 queries=64 k=100 rounds=5 counts=1,2,4 ways=resident,gathered,pinned
                needs 2.4 KB an object and part on the host, twice where it is pinned, and on the device
what=vectors    the nearest vectors, exactly, beside PyTorch; and one query at a time
                objects=1000000 dimensions=128 queries=10000 k=10,100 rounds=7 sample=FILE type=f32|u8 peer=torch timeline=1
                devices=2 compares with two devices; BOXWORK_DEVICE_MB=4000 lets rows pass through the device
what=kmeans     the rounds of k-means, with the processor's bits, beside PyTorch
                objects=1000000 dimensions=128 lists=4096 iterations=25 rounds=5 sample=FILE peer=torch timeline=1 devices=2
what=graph      the exact nearest neighbours of all rows, beside PyTorch
                objects=1000000 dimensions=128 k=10 rounds=5 checked=100000 sample=FILE peer=torch timeline=1 devices=2
what=lists      searches through lists of product codes, beside slots; each kernel alone, and its share of the limit
                rows=1000000 dimensions=128 queries=10000 lists=4096 codes=product,fast parts=16 probes=32 refine=1,10 rounds=7
                sample=FILE devices=2 timeline=1
what=permutation  the permutations of vectors, with the processor's bits, beside slots; and scans of lists on the device
                rows=20000000 objects=4000000 dimensions=128 pivots=128 length=32 rounds=5 sample=FILE workers=CORES timeline=1
what=edit       edit distances of random pairs and of texts from queries, and edit_neighbours beside slots
                objects=4194304 length=32 queries=256 k=10 rounds=7 workers=CORES part=short
                texts aligned with queries: texts=50000 length=300 queries=64 rounds=5 workers=CORES part=alignments
                long pairs: long=100000,800000 pairs=1,8 rounds=7 workers=CORES part=long
what=denoise    pictures without their noise, on a device and on slots
                objects=128 side=1024 colour=0|1 sigma=25 profile=default rounds=7 workers=CORES devices=2
what=select     the k least numbers of each of many arrays, as a share of the rate of reading, beside PyTorch
                objects=10000 length=128000 k=1,10,100,1024,2048 rounds=7 peer=torch
what=dense      products of matrices, beside PyTorch
what=cholesky   Cholesky factors, and the fill of a matrix of covariances
                together=auto,300 workers=CORES: by a device, by slots, and by both, with so many thousandths of the columns for slots
what=tune       the fastest blocks of columns of a factor, kept for the device
what=gp         fits of a Gaussian process from points on the host, likelihoods with derivatives, predictions
                n=8192,32768 precision=f64,f32 units=auto,0,1,2 block=auto,1024 ahead=auto,yes,no memory=map,copy devices=2 rounds=3
                resident=4096 keep=no peer=torch,clblast|none; gp: samples=8192 new=200000 slots=20000 workers=CORES
                needs 4 n^2 bytes on the device in f64 (dense: 24 n^2), and a few rows of tiles on the host
what=seed       one triangular solve by a launch a column, as the study of the beginning did, beside tiles
                n=32,64,96,128,512,1024,4096 rounds=3
all             csv=FILE to append what figures are drawn of by benches/gpu/figures
                device=NUMBER, of those that `boxwork devices` lists
Needs an OpenCL loader (libOpenCL.so.1) and a driver; and no other file. BOXWORK_CACHE names the folder for compiled
programs, BOXWORK_DEVICE_SECONDS how long a block may take. A device of class CPU (PoCL) gets small sizes.";

/// The configuration of a runtime whose boxes compute on these devices.
fn config(workers: usize, devices: &Arc<Devices>) -> Config {
    Config { devices: Arc::new(Arc::clone(devices).into()), ..Config::flat(workers) }
}

fn main() {
    let arguments = Arguments::read(&[&OF_DISTANCES[..], &OF_OTHERS].concat());
    if arguments.text("what") == Some("help") {
        println!("{HELP}");
        return;
    }
    let devices = LazyDevices::of_environment().open().unwrap_or_else(|reason| {
        eprintln!("{reason}");
        std::process::exit(1);
    });
    let device = arguments.get("device", devices.gpus().first().copied().unwrap_or(0));
    let Some(found) = devices.list().get(device) else {
        eprintln!("there is no device={device}: there are {}, counted from 0", devices.list().len());
        std::process::exit(2);
    };
    print_machine();
    let info = found.info();
    println!("device      {info}; driver {}, {}", info.driver, info.version);
    match arguments.text("what").unwrap_or("distances") {
        "distances" => distances::run(&arguments, &devices, device),
        "bounds" => bounds::run(&arguments, &devices, device),
        "search" => search::run(&arguments, &devices, device),
        "extraction" => extraction::run(&arguments, &devices, device),
        "own" => own::run(&arguments, &devices, device),
        "beside" => beside::run(&arguments, &devices, device),
        "feeding" => feeding::run(&arguments, &devices),
        "vectors" => vectors::run(&arguments, &devices, device),
        "kmeans" => clusters::run_kmeans(&arguments, &devices, device),
        "graph" => clusters::run_graph(&arguments, &devices, device),
        "permutation" => permutations::run(&arguments, &devices, device),
        "edit" => {
            let is_asked = |part: &str| arguments.text("part").is_none_or(|asked| asked == part);
            if is_asked("short") {
                edit::run(&arguments, &devices, device);
            }
            if is_asked("alignments") {
                alignments::run(&arguments, &devices, device);
            }
            if is_asked("long") {
                edit_long::run(&arguments, &devices, device);
            }
        }
        "denoise" => denoise::run(&arguments, &devices, device),
        "select" => select::run(&arguments, &devices, device),
        "lists" => lists::run(&arguments, &devices, device),
        "dense" => dense::run_dense(&arguments, &devices, device),
        "cholesky" if arguments.text("together").is_some() => together::run(&arguments, &devices, device),
        "cholesky" => dense::run_cholesky(&arguments, &devices, device),
        "tune" => dense::run_tune(&arguments, &devices, device),
        "gp" => gp::run(&arguments, &devices, device),
        "seed" => seed::run(&arguments, &devices, device),
        other => {
            eprintln!("what={other} is no question of this bench: what=help lists them");
            std::process::exit(2);
        }
    }
    for warning in devices.take_warnings() {
        println!("warning     {warning}");
    }
}
