//! The k least numbers on a device beside the reference.

use std::sync::Arc;
use std::sync::mpsc::channel;

use boxwork_kernels::chance::Random;
use boxwork_kernels::k_select::{K_MAX, k_least};
use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};
use boxwork_runtime::feeding::{Back, Block, Blocks, DeviceError, Devices, Feed, Grid, Options, Value};
use boxwork_runtime::operator::Outside;

use super::*;

/// Some arrays of one length, and their least numbers once a device has found them.
struct Selection {
    way: Way,
    k: usize,
    values: Vec<f32>,
    length: usize,
    arrays: usize,
    least: Vec<f32>,
    places: Vec<u32>,
}

impl Block for Selection {
    fn size(&self) -> u64 {
        self.values.len() as u64
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let program = select_program(self.way, self.k, Arrays::Values);
        // A buffer has at least a number.
        feed.write("values", self.values.len().max(1), |to: &mut [f32]| {
            to[..self.values.len()].copy_from_slice(&self.values);
            Ok(())
        })?;
        let found = self.arrays * self.k;
        feed.output::<f32>("least", found)?;
        feed.output::<u32>("least_places", found)?;
        let number = |value: usize| Value::of(value as u32);
        let values =
            [("numbers", number(self.length)), ("stride", number(self.length)), ("k", number(self.k))];
        feed.launch(&program, "k_least", Grid::of([self.arrays], [self.way.items()]), &values)?;
        feed.read::<f32>("least", found)?;
        feed.read::<u32>("least_places", found)
    }

    fn collect(&mut self, back: &Back<'_>) {
        self.least = back.numbers("least").to_vec();
        self.places = back.numbers("least_places").to_vec();
    }
}

fn on_device(devices: &Arc<Devices>, selection: Selection) -> Selection {
    let (tell, told) = channel();
    let mut blocks = Blocks::new(Arc::clone(devices), [0]);
    blocks.submit(selection, Outside::new(move || tell.send(()).unwrap()));
    told.recv().unwrap();
    let (selection, result) = blocks.take().unwrap();
    result.unwrap();
    selection
}

/// Numbers with many ties, some infinite, some none.
fn numbers(random: &mut Random, count: usize, kind: usize) -> Vec<f32> {
    (0..count)
        .map(|place| match (kind, random.below(16)) {
            (0, _) => random.normal_f32(),
            (1, 0) => f32::INFINITY,
            (1, 1) => f32::NEG_INFINITY,
            (1, 2) => f32::NAN,
            (1, 3) => -0.0,
            (1, _) => random.below(8) as f32 - 3.0,
            // Each is less than those before, so that every one is listed.
            (2, _) => -(place as f32),
            _ => 7.0,
        })
        .collect()
}

#[test]
fn the_k_least_of_a_device_are_those_of_the_reference() {
    if !has_device("the_k_least_of_a_device_are_those_of_the_reference") {
        return;
    }
    let cache = Some(std::env::temp_dir().join("boxwork-test-programs"));
    let (driver, devices) = Faulty::devices(Plan::default(), Options { cache, ..Options::default() });
    let devices = devices.unwrap();
    let mut random = Random::new(23);
    let mut check = |way: Way, k: usize, length: usize, arrays: usize| {
        for kind in 0..4 {
            let values = numbers(&mut random, arrays * length, kind);
            let (least, places) = (Vec::new(), Vec::new());
            let found = on_device(&devices, Selection { way, k, values, length, arrays, least, places });
            for array in 0..arrays {
                let wanted = k_least(&found.values[array * length..(array + 1) * length], k);
                let of_array = array * k..(array + 1) * k;
                let least = found.least[of_array.clone()].iter().copied();
                let found: Vec<(f32, u32)> = least.zip(found.places[of_array].iter().copied()).collect();
                assert!(found == wanted, "{way:?}, k {k}, {length} numbers, kind {kind}: {found:?}");
            }
        }
    };
    let lengths = [0, 1, 31, 32, 33, 500, 5000];
    for k in [1, 2, 31, 100, 255, 256, 257, 1000, 1024, 1025, K_MAX - 1, K_MAX] {
        lengths.iter().for_each(|length| check(Way::Digits, k, *length, 2));
    }
    let sizes: Vec<(usize, usize)> = {
        let mut random = Random::new(24);
        (0..40).map(|_| (1 + random.idx(K_MAX), random.idx(5001))).collect()
    };
    sizes.iter().for_each(|(k, length)| check(Way::Digits, *k, *length, 1));
    // A queue of each length, and numbers of registers that are no powers of two. Few, as PoCL compiles these for half a minute.
    for k in [1, 31, 32] {
        lengths.iter().for_each(|length| check(Way::Warps, k, *length, 3));
    }
    // The first and the last k of each length of a queue.
    for k in [33, 90, 128, 129, 160, 256, 300] {
        check(Way::Warps, k, 3000, 2);
        let mut random = Random::new(k as u64);
        check(Way::Warps, k, random.idx(5001), 2);
    }
    drop(devices);
    assert!(driver.left().is_empty(), "{:?} are left", driver.left());
}
