//! `devices=N`: the same request on one device and on several, in turns.

use std::sync::Arc;
use std::time::Instant;

use boxwork_runtime::feeding::Devices;

use super::support::{Arguments, Spread, verdict};

/// The devices from `device` on, as the parameter `device` of a box names them, if several are asked for.
pub(super) fn places(
    arguments: &Arguments,
    devices: &Arc<Devices>,
    device: usize,
) -> Option<(usize, String)> {
    let count: usize = arguments.get("devices", 1);
    if count < 2 {
        return None;
    }
    let gpus = devices.gpus();
    let chosen: Vec<String> =
        gpus.iter().filter(|gpu| **gpu >= device).take(count).map(usize::to_string).collect();
    assert_eq!(chosen.len(), count, "devices={count}: there are {} GPUs", gpus.len());
    Some((count, format!("gpu:{}", chosen.join(","))))
}

/// Compares a request on one device with the same on several, in turns; `wanted` is the ratio for two and for four.
pub(super) fn compare(
    what: &str,
    (count, rounds): (usize, usize),
    wanted: [f64; 2],
    on_one: impl Fn(),
    on_all: impl Fn(),
) {
    let timed = |run: &dyn Fn()| {
        let begun = Instant::now();
        run();
        begun.elapsed().as_secs_f64()
    };
    // The first run brings the rows to each device.
    on_all();
    let (mut seconds, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let of_one = timed(&on_one);
        let of_all = timed(&on_all);
        seconds.push(of_all);
        ratios.push(of_one / of_all);
    }
    let (seconds, ratio) = (Spread::of(seconds), Spread::of(ratios));
    println!("{count} devices   {what}: {:.1} ms, {ratio:.2} times as fast as one", 1e3 * seconds.median);
    let wanted = wanted[usize::from(count > 2)];
    verdict(&format!("{what}, {count} devices over one"), ratio.median, wanted, ratio.median >= wanted);
}
