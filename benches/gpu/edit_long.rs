//! Long pairs of texts in `what=edit`: the tiles of a pair, and of several together, on a device; and a pair by `edit_distances` there and on slots.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use boxwork::shipped;
use boxwork_kernels::chance::Random;
use boxwork_kernels::distance::Pattern;
use boxwork_kernels::distance::long_edits::{LongPairs, Shape};
use boxwork_operators::catalog;
use boxwork_operators::device_kernels::compare_long_pairs;
use boxwork_runtime::Runtime;
use boxwork_runtime::feeding::{DeviceClass, Devices};
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;

use super::support::{Arguments, Side, Spread, run_rounds};
use super::{config, seconds_of};

const LETTERS: [char; 4] = ['A', 'C', 'G', 'T'];
/// Bits of one of them.
const LETTER_BITS: usize = 2;

/// A random text by the numbers of its letters.
fn text(random: &mut Random, letters: usize) -> Vec<u16> {
    (0..letters).map(|_| random.idx(LETTERS.len()) as u16).collect()
}

fn letters_of(text: &[u16]) -> Vec<char> {
    text.iter().map(|number| LETTERS[usize::from(*number)]).collect()
}

/// So many pairs of so many letters by the kernel alone.
fn by_kernel(
    (devices, device): (&Arc<Devices>, usize),
    [a, b]: [&[u16]; 2],
    count: usize,
    rounds: usize,
) -> usize {
    let mut pairs = LongPairs::new(Shape::new(LETTER_BITS));
    // In both directions by turns, so that a mistake of one pair shows.
    (0..count).for_each(|pair| pairs.add(if pair % 2 == 0 { [a, b] } else { [b, a] }));
    let cells = count as f64 * a.len() as f64 * b.len() as f64;
    let (mut whole, mut kernels) = (Vec::new(), Vec::new());
    let (mut found, mut launches) = (Vec::new(), 0);
    for round in 0..=rounds {
        let begun = Instant::now();
        let (distances, done) = compare_long_pairs(devices, device, &pairs, &|| false)
            .unwrap_or_else(|error| panic!("the device fails: {error:?}"));
        let seconds = begun.elapsed().as_secs_f64();
        // The first round compiles the program.
        if round > 0 {
            whole.push(cells / seconds);
            kernels.push(cells / (done.running_ns as f64 / 1e9).max(1e-9));
        }
        (found, launches) = (distances, done.launches);
    }
    assert!(found.iter().all(|distance| *distance == found[0]), "{found:?}");
    let [whole, kernels] = [whole, kernels].map(Spread::of);
    println!(
        "kernels     {count} of {} letters: {:.3e} cells/s ({:.3e} to {:.3e}) in {launches} launches; {:.3e} with copies and pauses between launches",
        a.len(),
        kernels.median,
        kernels.low,
        kernels.high,
        whole.median
    );
    found[0]
}

/// A pair by `edit_distances` on the device and on slots.
fn by_pipeline(
    arguments: &Arguments,
    (devices, device): (&Arc<Devices>, usize),
    texts: [&[u16]; 2],
    rounds: usize,
    wanted: usize,
) {
    let folder = tempfile::tempdir().expect("a folder");
    let folder: &Path = folder.path();
    let line = |name: &str, text: &[u16]| {
        let text: String = letters_of(text).into_iter().collect();
        format!("{{\"name\": \"{name}\", \"object\": \"{text}\"}}\n")
    };
    let lines = line("a", texts[0]) + &line("b", texts[1]);
    fs::write(folder.join("pair.jsonl"), lines).expect("a disk");
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let workers = arguments.get("workers", cores);
    let runtime = Runtime::start(config(workers, devices)).expect("the system gives threads");
    let prepared = |device: &str, out: &str| {
        let text = |text: &str| Value::Text(text.to_owned());
        let values = BTreeMap::from([
            ("texts".to_owned(), text(&folder.join("pair.jsonl").display().to_string())),
            ("queries".to_owned(), Value::List(vec![text("a")])),
            ("out".to_owned(), text(&folder.join(out).display().to_string())),
            ("device".to_owned(), text(device)),
        ]);
        let declaration = &shipped::EDIT_DISTANCES.load().declaration;
        let prepared = Prepared::new(declaration, &catalog(), &values, &runtime.environment());
        Arc::new(prepared.unwrap_or_else(|error| panic!("{error}")))
    };
    let seconds = |prepared: &Arc<Prepared>| seconds_of(&runtime, prepared);
    let (there, here) = (prepared(&format!("gpu:{device}"), "there.csv"), prepared("cpu", "here.csv"));
    let (_, _) = (seconds(&there), seconds(&here));
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("the run has written it");
    assert_eq!(read("there.csv"), read("here.csv"), "the device finds the same");
    assert!(read("here.csv").contains(&format!(",{wanted}\n")), "slots find the distance of the kernel");
    let mut sides = vec![
        Side::new("device", || seconds(&there)),
        Side::new(format!("{workers} slots"), || seconds(&here)),
    ];
    run_rounds(rounds, &mut sides);
    let cells = texts[0].len() as f64 * texts[1].len() as f64;
    for side in &sides {
        let rate = Spread::of(side.seconds.iter().map(|seconds| cells / seconds / 1e9));
        println!("pipeline    {:<10} {rate} 1e9 cells of the table/s", side.name);
    }
    let ratio = sides[0].faster_than(&sides[1]);
    println!("ratio       the device is {ratio:.2} times as fast as {workers} slots");
}

pub(super) fn run(arguments: &Arguments, devices: &Arc<Devices>, device: usize) {
    let is_gpu = devices.list()[device].info().class == DeviceClass::Gpu;
    let rounds = arguments.get("rounds", if is_gpu { 7 } else { 3 });
    let list = |name: &str, usual: &str| -> Vec<usize> {
        let given = arguments.text(name).unwrap_or(usual).split(',');
        given
            .map(|number| number.parse().unwrap_or_else(|_| panic!("{name}: {number} is no count")))
            .collect()
    };
    for letters in list("long", if is_gpu { "100000,800000" } else { "25000" }) {
        let mut random = Random::new(7);
        let [a, b] = [(); 2].map(|()| text(&mut random, letters));
        println!("\nlong        pairs of {letters} random letters of DNA");
        let wanted = Pattern::new(&letters_of(&a)).distance(&letters_of(&b));
        for count in list("pairs", "1,8") {
            let found = by_kernel((devices, device), [&a, &b], count, rounds);
            assert_eq!(found, wanted, "the distance is that of a slot");
        }
        by_pipeline(arguments, (devices, device), [&a, &b], rounds, wanted);
    }
}
