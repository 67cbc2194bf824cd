//! tokio: a task for each box and bounded channels between them; blocking work by `spawn_blocking` or `block_in_place`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use boxwork_peers::idle::{self, Pool};
use boxwork_peers::job::Job;
use boxwork_peers::stages::{Envelope, Stages, age_ns, envelope};
use boxwork_peers::{Round, Settings, figures, grain, serve, spin};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinSet, block_in_place, spawn_blocking};

struct Tokio(Runtime);

impl Pool for Tokio {
    fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        self.0.spawn(async { task() });
    }
}

fn main() {
    let how = std::env::args().find_map(|argument| argument.strip_prefix("how=").map(str::to_owned));
    let name = how.map_or("tokio 1".to_owned(), |how| format!("tokio 1, {how}"));
    serve(&name, |workload, settings| {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(settings.workers()).enable_time().build().expect("threads");
        match workload {
            "B1" => Some(chain(settings, runtime)),
            "B4" => Some(fan(settings, runtime)),
            "B5" => Some(stages(settings, runtime)),
            "B6" => Some(blocking(settings, runtime)),
            "B7" => {
                let (settings, pool) = (Settings::read(), Tokio(runtime));
                Some(Box::new(move || idle::measure(&settings, &pool)))
            }
            "B8" => Some(grains(runtime)),
            _ => None,
        }
    });
}

/// Runs `work` on the workers, not on the waiting thread.
fn on_workers<T: Send + 'static>(runtime: &Runtime, work: impl Future<Output = T> + Send + 'static) -> T {
    runtime.block_on(runtime.spawn(work)).expect("no panic")
}

/// One message goes round a ring.
fn chain(settings: &Settings, runtime: Runtime) -> Round {
    let (boxes, messages) = (settings.count("boxes"), settings.count("messages"));
    let ring = move || async move {
        let (first, mut before) = mpsc::channel::<u64>(1);
        for _ in 0..boxes {
            let (to, next) = mpsc::channel(1);
            let mut from = std::mem::replace(&mut before, next);
            tokio::spawn(async move {
                while let Some(message) = from.recv().await {
                    to.send(message).await.expect("a receiver");
                }
            });
        }
        let start = Instant::now();
        for message in 0..messages as u64 {
            first.send(message).await.expect("a receiver");
            assert_eq!(before.recv().await, Some(message));
        }
        start.elapsed().as_secs_f64()
    };
    let hops = (boxes + 1) * messages;
    Box::new(move || figures([("hop_ns", on_workers(&runtime, ring()) * 1e9 / hops as f64)]))
}

fn fan(settings: &Settings, runtime: Runtime) -> Round {
    let (boxes, messages) = (settings.count("boxes"), settings.count("messages"));
    let (rows, edge) = (settings.count("rows"), settings.count("edge"));
    let all = move |message: Arc<Vec<u64>>| async move {
        let (merged, mut end) = mpsc::channel::<Vec<u64>>(edge * boxes);
        let mut outputs = Vec::new();
        for _ in 0..boxes {
            let (to, mut from) = mpsc::channel::<Arc<Vec<u64>>>(edge);
            let merged = merged.clone();
            outputs.push(to);
            tokio::spawn(async move {
                while let Some(old) = from.recv().await {
                    let copy = old.iter().map(|n| n.wrapping_add(1)).collect();
                    merged.send(copy).await.expect("a receiver");
                }
            });
        }
        drop(merged);
        tokio::spawn(async move {
            for _ in 0..messages {
                for to in &outputs {
                    to.send(Arc::clone(&message)).await.expect("a receiver");
                }
            }
        });
        let mut sum = 0;
        while let Some(copy) = end.recv().await {
            sum += copy[0] + copy[rows - 1];
        }
        sum
    };
    Box::new(move || {
        let message = Arc::new((0..rows as u64).collect());
        let start = Instant::now();
        let sum = on_workers(&runtime, all(message));
        let (seconds, copies) = (start.elapsed().as_secs_f64(), boxes * messages);
        assert_eq!(sum, ((rows + 1) * copies) as u64);
        figures([("envelopes_per_s", messages as f64 / seconds), ("copy_us", seconds * 1e6 / copies as f64)])
    })
}

async fn pipeline(stages: Stages, start: Instant) -> (u64, Vec<u64>) {
    let (first, mut before) = mpsc::channel::<Envelope>(stages.edge);
    tokio::spawn(async move {
        for _ in 0..stages.messages {
            first.send(envelope(start)).await.expect("a receiver");
        }
    });
    let mut sums = JoinSet::new();
    for iterations in stages.iterations {
        let (to, next) = mpsc::channel(stages.edge);
        let mut from = std::mem::replace(&mut before, next);
        sums.spawn(async move {
            let mut sum = 0;
            while let Some(message) = from.recv().await {
                sum += spin(iterations);
                to.send(message).await.expect("a receiver");
            }
            sum
        });
    }
    let mut latencies_ns = Vec::new();
    while let Some(message) = before.recv().await {
        latencies_ns.push(age_ns(start, &message));
    }
    (sums.join_all().await.into_iter().sum(), latencies_ns)
}

fn stages(settings: &Settings, runtime: Runtime) -> Round {
    let stages = Stages::new(settings);
    Box::new(move || {
        let start = Instant::now();
        let (sum, latencies_ns) = on_workers(&runtime, pipeline(stages.clone(), start));
        stages.figures(start, sum, latencies_ns)
    })
}

/// The device is a semaphore: asynchronous before `spawn_blocking`, blocking within `block_in_place`.
fn blocking(settings: &Settings, runtime: Runtime) -> Round {
    let job = Arc::new(Job::new(settings));
    let device = Arc::new(Semaphore::new(job.device));
    let in_place = settings.text("how") == "block_in_place";
    let one = move |job: Arc<Job>, device: Arc<Semaphore>| async move {
        job.before();
        if in_place {
            block_in_place(|| job.block());
        } else {
            let permit = device.acquire().await.expect("it is never closed");
            let operation = job.operation.clone();
            spawn_blocking(move || operation.run()).await.expect("no panic");
            drop(permit);
        }
        job.after();
    };
    Box::new(move || {
        let all = || {
            runtime.block_on(async {
                let mut tasks = JoinSet::new();
                (0..job.tasks).for_each(|_| drop(tasks.spawn(one(Arc::clone(&job), Arc::clone(&device)))));
                drop(tasks.join_all().await);
            });
        };
        job.measure(all)
    })
}

fn grains(runtime: Runtime) -> Round {
    let settings = Settings::read();
    Box::new(move || {
        grain::grains(&settings, |iterations, tasks| {
            let sum = Arc::new(AtomicU64::new(0));
            let all = Arc::clone(&sum);
            on_workers(&runtime, async move {
                let add = |sum: Arc<AtomicU64>| async move {
                    sum.fetch_add(spin(iterations), Ordering::Relaxed);
                };
                let handles: Vec<_> = (0..tasks).map(|_| tokio::spawn(add(Arc::clone(&all)))).collect();
                for handle in handles {
                    handle.await.expect("no panic");
                }
            });
            assert_eq!(sum.load(Ordering::Relaxed), spin(iterations) * tasks as u64);
        })
    })
}
