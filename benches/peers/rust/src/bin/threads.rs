//! A thread for each box, and crossbeam's bounded channels between them. The number of workers bounds nothing here.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use boxwork_peers::stages::{Stages, age_ns, envelope};
use boxwork_peers::{Round, Settings, figures, serve, spin};
use crossbeam_channel::bounded;

fn main() {
    serve("threads, crossbeam-channel 0.5", |workload, settings| match workload {
        "B1" => Some(chain(settings)),
        "B4" => Some(fan(settings)),
        "B5" => Some(stages(settings)),
        _ => None,
    });
}

/// One message goes round a ring.
fn chain(settings: &Settings) -> Round {
    let (boxes, messages) = (settings.count("boxes"), settings.count("messages"));
    Box::new(move || {
        thread::scope(|scope| {
            let (first, mut before) = bounded::<u64>(1);
            for _ in 0..boxes {
                let (to, next) = bounded(1);
                let from = std::mem::replace(&mut before, next);
                scope.spawn(move || from.iter().for_each(|message| to.send(message).expect("a receiver")));
            }
            let start = Instant::now();
            for message in 0..messages as u64 {
                first.send(message).expect("a receiver");
                assert_eq!(before.recv(), Ok(message));
            }
            let hops = (boxes + 1) * messages;
            let hop_ns = start.elapsed().as_secs_f64() * 1e9 / hops as f64;
            drop(first);
            figures([("hop_ns", hop_ns)])
        })
    })
}

fn fan(settings: &Settings) -> Round {
    let (boxes, messages) = (settings.count("boxes"), settings.count("messages"));
    let (rows, edge) = (settings.count("rows"), settings.count("edge"));
    Box::new(move || {
        let message: Arc<Vec<u64>> = Arc::new((0..rows as u64).collect());
        let start = Instant::now();
        let sum = thread::scope(|scope| {
            let (merged, end) = bounded::<Vec<u64>>(edge * boxes);
            let mut all = Vec::new();
            for _ in 0..boxes {
                let (to, from) = bounded::<Arc<Vec<u64>>>(edge);
                let merged = merged.clone();
                all.push(to);
                scope.spawn(move || {
                    for old in from {
                        merged.send(old.iter().map(|n| n.wrapping_add(1)).collect()).expect("a receiver");
                    }
                });
            }
            drop(merged);
            scope.spawn(move || {
                for _ in 0..messages {
                    all.iter().for_each(|to| to.send(Arc::clone(&message)).expect("a receiver"));
                }
            });
            end.iter().map(|copy| copy[0] + copy[rows - 1]).sum::<u64>()
        });
        let (seconds, copies) = (start.elapsed().as_secs_f64(), boxes * messages);
        assert_eq!(sum, ((rows + 1) * copies) as u64);
        figures([("envelopes_per_s", messages as f64 / seconds), ("copy_us", seconds * 1e6 / copies as f64)])
    })
}

fn stages(settings: &Settings) -> Round {
    let stages = Stages::new(settings);
    Box::new(move || {
        let start = Instant::now();
        let (sum, latencies_ns) = thread::scope(|scope| {
            let (first, mut before) = bounded(stages.edge);
            scope.spawn(|| {
                let first = first;
                (0..stages.messages).for_each(|_| first.send(envelope(start)).expect("a receiver"));
            });
            let mut sums = Vec::new();
            for &iterations in &stages.iterations {
                let (to, next) = bounded(stages.edge);
                let from = std::mem::replace(&mut before, next);
                sums.push(scope.spawn(move || {
                    let mut sum = 0;
                    for message in from {
                        sum += spin(iterations);
                        to.send(message).expect("a receiver");
                    }
                    sum
                }));
            }
            let latencies_ns: Vec<u64> = before.iter().map(|message| age_ns(start, &message)).collect();
            (sums.into_iter().map(|sum| sum.join().expect("no panic")).sum(), latencies_ns)
        });
        stages.figures(start, sum, latencies_ns)
    })
}
