//! `what=select`: the k least numbers of each of many arrays on a device, as a share of the rate at which it reads memory.

use std::sync::Arc;

use boxwork_kernels::k_select::{K_MAX, Way, k_least};
use boxwork_operators::device_kernels::{Arrays, select_program};
use boxwork_runtime::feeding::{
    Argument, Back, Block, DeviceClass, DeviceError, Devices, Feed, Grid, KernelSpec, ProgramSource, Value,
};

use super::bounds::run_block;
use super::memory;
use super::support::peer::Peer;
use super::support::{Arguments, Spread, verdict};

const KS: [usize; 5] = [1, 10, 100, 1024, 2048];
/// The share of the rate of reading that is asked for, by k.
const SHARES: [f64; 5] = [0.85, 0.8, 0.75, 0.5, 0.4];
/// Selections of a block that is timed.
const REPEATS: usize = 5;
/// The largest k for which warps are tried: beyond, their registers do not suffice.
const OF_WARPS_MAX: usize = 512;

/// Numbers without order, which the device makes itself.
const FILL_TEXT: &str = "\
uint mixed(uint x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}
__kernel void fill(__global float *values) {
    const ulong i = get_global_id(0);
    values[i] = (float)(mixed((uint)i) >> 8) * 5.9604644775390625e-8f;
}
";

static FILL: [KernelSpec; 1] = [KernelSpec { name: "fill", arguments: &[("values", Argument::Buffer)] }];

/// The number at a place, as `fill` makes it.
fn value(place: usize) -> f32 {
    let mut x = place as u32;
    x ^= x >> 16;
    x = x.wrapping_mul(0x7feb_352d);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846c_a68b);
    ((x ^ x >> 16) >> 8) as f32 * 0.5f32.powi(24)
}

/// Arrays that the device fills, and from which it selects so many times.
struct Selection {
    way: Way,
    k: usize,
    arrays: usize,
    length: usize,
    times: usize,
    least: Vec<f32>,
    places: Vec<u32>,
}

impl Block for Selection {
    fn size(&self) -> u64 {
        self.arrays as u64
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let of_fill = ProgramSource {
            name: "fill",
            text: FILL_TEXT,
            constants: Vec::new(),
            kernels: &FILL,
            exact: false,
        };
        let (count, found) = (self.arrays * self.length, self.arrays * self.k);
        feed.output::<f32>("values", count.next_multiple_of(256))?;
        feed.output::<f32>("least", found)?;
        feed.output::<u32>("least_places", found)?;
        feed.launch(&of_fill, "fill", Grid::covering([count], [256]), &[])?;
        let number = |value: usize| Value::of(value as u32);
        let values =
            [("numbers", number(self.length)), ("stride", number(self.length)), ("k", number(self.k))];
        let program = select_program(self.way, self.k, Arrays::Values);
        for _ in 0..self.times {
            feed.launch(&program, "k_least", Grid::of([self.arrays], [self.way.items()]), &values)?;
        }
        feed.read::<f32>("least", found)?;
        feed.read::<u32>("least_places", found)
    }

    fn collect(&mut self, back: &Back<'_>) {
        self.least = back.numbers("least").to_vec();
        self.places = back.numbers("least_places").to_vec();
    }
}

pub(super) fn run(arguments: &Arguments, devices: &Arc<Devices>, device: usize) {
    let is_gpu = devices.list()[device].info().class == DeviceClass::Gpu;
    let (arrays, length) = if is_gpu { (10_000, 128_000) } else { (100, 10_000) };
    let (arrays, length) = (arguments.get("objects", arrays), arguments.get("length", length));
    let rounds = arguments.get("rounds", 7);
    let ks: Vec<usize> = arguments.text("k").map_or_else(
        || KS.to_vec(),
        |text| text.split(',').map(|k| k.parse().expect("k is a number")).collect(),
    );
    assert!(ks.iter().all(|k| (1..=K_MAX.min(length)).contains(k)), "k is from 1 to {K_MAX}");
    println!("question    at which share of the rate of reading are the k least of each array found?");
    println!("arrays      {arrays} of {length} numbers, uniform");
    let bytes = 4 * arrays * length;
    let limit = memory::rates(devices, device, bytes, rounds).read;
    let mut peer = (arguments.text("peer") == Some("torch")).then(|| {
        let folder = tempfile::tempdir().expect("a folder");
        // The peer loads rows and queries first: one of each.
        for name in ["rows.f32", "queries.f32"] {
            std::fs::write(folder.path().join(name), 1f32.to_le_bytes())
                .expect("the folder can be written to");
        }
        Peer::torch(&[&folder.path().display().to_string(), "1"])
    });
    for k in ks {
        let usual = Way::of(k, arrays);
        let ways = [Way::Warps, Way::Digits];
        for way in ways.into_iter().filter(|way| *way == Way::Digits || k <= OF_WARPS_MAX) {
            let selection =
                |times| Selection { way, k, arrays, length, times, least: Vec::new(), places: Vec::new() };
            check(&run_block(devices, device, selection(1)).0);
            let (mut rates, mut ratios) = (Vec::new(), Vec::new());
            for _ in 0..rounds {
                let filled = run_block(devices, device, selection(0)).1;
                let all = run_block(devices, device, selection(REPEATS)).1;
                let seconds = (all - filled).max(1e-9) / REPEATS as f64;
                rates.push(bytes as f64 / seconds / 1e9);
                if let Some(Some(peer)) = &mut peer {
                    ratios.push(peer.seconds(&format!("topk {arrays} {length} {k}")) / seconds);
                }
            }
            let rate = Spread::of(rates);
            let share = rate.median / limit;
            let is_usual = if way == usual { ", the usual way" } else { "" };
            println!(
                "select      k {k}, {way:?}{is_usual}: {rate:.0} GB/s, {share:.2} of the rate of reading"
            );
            if way == usual {
                tell(k, share, ratios);
            }
        }
    }
}

/// The verdicts on one k.
fn tell(k: usize, share: f64, ratios: Vec<f64>) {
    if let Some(place) = KS.iter().position(|of| *of == k) {
        verdict(
            &format!("k {k}, share of the rate of reading"),
            share,
            SHARES[place],
            share >= SHARES[place],
        );
    }
    if !ratios.is_empty() {
        let ratio = Spread::of(ratios);
        println!("ratio       k {k}: {ratio:.2} times as fast as topk by PyTorch");
        verdict(&format!("k {k}, over topk by PyTorch"), ratio.median, 2.0, ratio.median >= 2.0);
    }
}

/// Compares the answer for some arrays with the reference.
fn check(selection: &Selection) {
    let (k, length) = (selection.k, selection.length);
    for array in [0, selection.arrays / 2, selection.arrays - 1] {
        let numbers: Vec<f32> = (array * length..(array + 1) * length).map(value).collect();
        let of_array = array * k..(array + 1) * k;
        let found = selection.least[of_array.clone()].iter().zip(&selection.places[of_array]);
        let found: Vec<(f32, u32)> = found.map(|(value, place)| (*value, *place)).collect();
        assert!(found == k_least(&numbers, k), "k {k}, array {array}: the device finds others");
    }
}
