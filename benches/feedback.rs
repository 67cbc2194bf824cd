//! The cost of rounds of feedback: the pass over sketches, columns that are kept, the fit, sketches, and long vectors.
//!
//! Baseline: on processors the multiply-adds (or differences) that the same core does in registers, in the same run; the
//! source's table 3 is the figure to beat: 120,000 vectors of 4,096 numbers in 1.996 s on a GPU of its time, 92.25 s on a
//! core. Each row is checked against f64 before it is timed. Processors are measured by the processor time of one thread, so
//! figures of two cores are half of those.

mod support;

#[path = "feedback/pass.rs"]
mod pass;
#[path = "feedback/sketches.rs"]
mod sketches;
#[path = "feedback/fit.rs"]
mod fit;
#[path = "feedback/l1.rs"]
mod l1;
#[path = "feedback/gpu.rs"]
mod gpu;
#[path = "feedback/exact.rs"]
mod exact;

use support::{Arguments, print_machine};

const HELP: &str = "\
what=pass       bounds of all objects by their sketches: objects=100000 marks=12,60,200 rounds=9
what=round      the same by columns that are kept, twelve of them new: objects=100000 marks=60,200 rounds=9
what=fit        the model of the marks: rounds=9
what=sketch     sketches of signatures: frequencies=1024 centroids=23,81 rounds=9
what=l1         L1 distances of vectors: objects=512 dimensions=4096 marks=128 rounds=9
what=gpu        the pass and L1 distances on a device: objects=10000000 marks=60 vectors=120000 rounds=9 device=NUMBER
what=exact      rounds of exact distances that a device computes: store=FILE rounds=7 workers=CORES device=NUMBER timeline=0
several, parted by commas; the default is pass,round,fit,sketch,l1";

fn main() {
    let names = [
        "what",
        "objects",
        "marks",
        "rounds",
        "frequencies",
        "centroids",
        "dimensions",
        "vectors",
        "device",
        "store",
        "workers",
        "timeline",
    ];
    let arguments = Arguments::read(&names);
    let what = arguments.text("what").unwrap_or("pass,round,fit,sketch,l1").to_owned();
    if what == "help" {
        println!("{HELP}");
        return;
    }
    print_machine();
    for what in what.split(',') {
        println!();
        match what {
            "pass" => pass::pass(&arguments),
            "round" => pass::round(&arguments),
            "fit" => fit::run(&arguments),
            "sketch" => sketches::run(&arguments),
            "l1" => l1::run(&arguments),
            "gpu" => gpu::run(&arguments),
            "exact" => exact::run(&arguments),
            other => {
                eprintln!("what={other} is no question of this bench: what=help lists them");
                std::process::exit(2);
            }
        }
    }
}

/// The numbers of a list.
fn list(arguments: &Arguments, name: &str, default: &str) -> Vec<usize> {
    let text = arguments.text(name).unwrap_or(default);
    text.split(',').map(|number| number.parse().unwrap_or_else(|_| panic!("{name}={text}"))).collect()
}
