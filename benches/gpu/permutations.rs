//! `what=permutation`: the permutations of a store of vectors, on a device and on slots in one run, by `write_permutations`.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use boxwork::pipeline;
use boxwork_runtime::feeding::Devices;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;

use super::clusters::World;
use super::support::{Arguments, Spread, verdict};

const INDEX: &str = "boxwork: 1
parameters:
  pivots: {type: integer}
  length: {type: integer}
  device: {type: text}
  out: {type: path}
resources:
  vectors: {kind: store, path: rows}
  space: {kind: space, store: vectors, distance: l2}
boxes:
  file: {kind: write_permutations, space: space, pivots: \"${pivots}\", length: \"${length}\", device: \"${device}\", out: \"${out}\"}
";

/// Vectors a second with 128 pivots that an H100 is to reach.
const BAR: f64 = 1e8;

pub(super) fn run(arguments: &Arguments, devices: &Arc<Devices>, device: usize) {
    println!(
        "question    how fast are permutations of vectors made on a device, with the bits of the processor?"
    );
    let world = World::new(arguments, devices, device, [20_000, 4_000_000]);
    let (pivots, length): (i64, i64) = (arguments.get("pivots", 128), arguments.get("length", 32));
    let declaration = pipeline::load_text("permutations", INDEX).unwrap_or_else(|flaws| panic!("{flaws:?}"));
    let out = world.folder().join("permutations");
    let prepared = |device: &str| {
        let text = |text: &str| Value::Text(text.to_owned());
        let values = BTreeMap::from([
            ("pivots".to_owned(), Value::Integer(pivots)),
            ("length".to_owned(), Value::Integer(length)),
            ("device".to_owned(), text(device)),
            ("out".to_owned(), text(&out.display().to_string())),
        ]);
        world.prepared(&declaration.declaration, values)
    };
    let index = |prepared: &Arc<Prepared>| {
        let request = world.runtime.submit(prepared, &Submission::default());
        let request = request.unwrap_or_else(|error| panic!("{error}"));
        request.wait().result.unwrap_or_else(|error| panic!("{error}"));
    };
    let (on_device, on_slots) = (prepared(&format!("gpu:{device}")), prepared("cpu"));
    index(&on_device);
    let found = fs::read(&out).expect("the file was written");
    index(&on_slots);
    assert!(found == fs::read(&out).expect("the file was written"), "the device makes the same file");
    println!("checked     the file is that of the processor, to the byte");
    let (mut of_device, mut kernels, mut of_slots) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..world.rounds {
        let (seconds, of_kernels, ()) = world.seconds(|| index(&on_device));
        of_device.push(seconds);
        kernels.push(of_kernels);
        of_slots.push(world.seconds(|| index(&on_slots)).0);
    }
    world.tell_events();
    let ratio = Spread::of(of_slots.iter().zip(&of_device).map(|(slots, device)| slots / device));
    let (of_device, kernels, of_slots) = (Spread::of(of_device), Spread::of(kernels), Spread::of(of_slots));
    let products = world.count as f64 * (pivots * world.dimensions as i64) as f64;
    world.tell(&format!("{length} of {pivots} pivots"), products, (&of_device, &kernels));
    println!("slots       {:.1} ms; the device is {ratio} times as fast", 1e3 * of_slots.median);
    let rate = world.count as f64 / kernels.median.max(1e-9);
    println!("rate        {rate:.3e} vectors a second by the kernels alone");
    if pivots == 128 && world.dimensions == 128 {
        verdict("permutations by the kernels, vectors a second", rate, BAR, rate >= BAR);
    }
}
