//! B6, blocking mix: forty tasks that compute and then block on a device with limited capacity.
//!
//! Four parts. `sleep` is deterministic: a sleep behind a device whose capacity is the class's limit.
//! `compute_block_compute` computes again afterwards, and so shows the cost of coming back. `device` leaves the limit
//! to `limit=` (a number, or `auto`) and the threads beside the workers to `backup=`, as in figures 3.9 and 3.10 of the
//! thesis from which the system comes. `file` writes a file per task and waits until it is on disk, in the folder of
//! `folder=`; the computing time is `compute_us=`, or `auto`: derived from the time of a write here.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::boxes::{CLASS, write};
use super::graph::{Graph, text, whole};
use super::rig::{Rig, Setup};
use super::spin::{SEED, spin};
use super::{Case, Error, Figures, Measured, Workload, figures};
use crate::spread::Spread;
use boxwork_runtime::statistics::ClassLimit;

pub static BLOCKING: Workload = Workload {
    id: "B6",
    name: "blocking",
    question: "How near to the shortest possible time do tasks that compute and block come?",
    rounds_max: 11,
    cases,
    open,
};

/// The value of `device=` for a device that serves all operations at once.
const UNLIMITED: usize = 1 << 16;

fn cases(is_quick: bool) -> Vec<Case> {
    let scale = if is_quick { 0.02 } else { 0.1 };
    let sleeping = |part: &str, compute_ms: usize, device: usize| {
        let block_ms = 100 - compute_ms;
        Case::new(&[
            ("part", &part),
            ("tasks", &40),
            ("compute_ms", &compute_ms),
            ("block_ms", &block_ms),
            ("scale", &scale),
            ("device", &device),
        ])
    };
    let writing = |compute_percent: usize, kib: usize| {
        Case::new(&[
            ("part", &"file"),
            ("tasks", &40),
            ("compute_percent", &compute_percent),
            ("kib", &kib),
            ("compute_us", &"auto"),
            ("folder", &std::env::temp_dir().display()),
            ("device", &4),
        ])
    };
    let limited = |compute_ms: usize| {
        Case::new(&[
            ("part", &"device"),
            ("tasks", &40),
            ("compute_ms", &compute_ms),
            ("block_ms", &(100 - compute_ms)),
            ("scale", &scale),
            ("device", &4),
            ("limit", &"auto"),
            ("backup", &"many"),
        ])
    };
    if is_quick {
        return vec![
            sleeping("sleep", 16, 4),
            sleeping("compute_block_compute", 84, 4),
            limited(16),
            writing(84, 64),
        ];
    }
    let mut cases = Vec::new();
    for compute_ms in [84, 16] {
        cases.extend([1, 4, UNLIMITED].map(|device| sleeping("sleep", compute_ms, device)));
        cases.push(sleeping("compute_block_compute", compute_ms, 4));
        cases.push(limited(compute_ms));
    }
    cases.extend([writing(84, 8192), writing(10, 8192)]);
    cases
}

struct Blocking {
    rig: Rig,
    workers: u64,
    tasks: u64,
    checksum: u64,
    bound_s: f64,
    /// The folder of the written files; removed at the end.
    folder: Option<PathBuf>,
}

fn open(setup: &Setup, case: &Case) -> Result<Box<dyn Measured<Error>>, Error> {
    let (tasks, device) = (case.count("tasks")?, case.count("device")?);
    let part = case.text("part");
    let (mut graph, mut folder) = (Graph::new(), None);
    let (compute_s, block_s) = if part == "file" {
        let made = new_folder(Path::new(case.text("folder")))?;
        let seconds = write_seconds(&made, case.count("kib")? << 10)?;
        let share = case.number("compute_percent")?.min(99.0) / 100.0;
        folder = Some(made);
        let compute_s = match case.text("compute_us") {
            "auto" => seconds * share / (1.0 - share),
            _ => case.number("compute_us")? / 1e6,
        };
        (compute_s, seconds)
    } else if ["sleep", "compute_block_compute", "device"].contains(&part) {
        let scale = case.number("scale")? / 1e3;
        (case.number("compute_ms")? * scale, case.number("block_ms")? * scale)
    } else {
        let wanted = "sleep, compute_block_compute, device or file";
        return Err(Error::Setting { name: "part", value: part.to_owned(), wanted });
    };
    let after_s = if part == "compute_block_compute" { compute_s / 2.0 } else { 0.0 };
    let (before, after) =
        (setup.spin.iterations((compute_s - after_s) * 1e6), setup.spin.iterations(after_s * 1e6));
    for idx in 0..tasks {
        let blocks = match &folder {
            // In the other parts the device is the class's limit.
            None => {
                let serves = if part == "device" { device } else { 0 };
                [("block_us", whole((block_s * 1e6) as u64)), ("device", whole(serves))]
            }
            Some(folder) => {
                let file = folder.join(format!("task{idx}"));
                [("file", text(file.to_string_lossy())), ("bytes", whole(case.count("kib")? << 10))]
            }
        };
        let [first, second] = blocks;
        let settings = [("before", whole(before)), ("after", whole(after)), first, second];
        graph.add(&format!("task{idx}"), "job", &settings);
    }
    let computed = |iterations| if iterations == 0 { 0 } else { u64::from(spin(iterations, SEED)) };
    let checksum = (u64::from(spin(before, SEED)) + computed(after)) * tasks as u64;
    // No schedule is shorter: a worker computes its share of the tasks, and the last one blocks at the end; or the
    // device is busy all the time, except while the first task computes and while the last one finishes.
    let in_turn = |servers: usize| tasks.div_ceil(servers) as f64;
    let by_workers = in_turn(setup.workers()) * compute_s + block_s;
    let bound_s = by_workers.max(in_turn(device) * block_s + compute_s);
    let (limit, threads_max) = if part == "device" {
        (limit(case)?, threads_max(setup, case)?)
    } else {
        (ClassLimit::Fixed(device), None)
    };
    let rig = Rig::with_class(setup, &graph, CLASS, limit, threads_max)?;
    let (workers, tasks) = (setup.workers() as u64, tasks as u64);
    Ok(Box::new(Blocking { rig, workers, tasks, checksum, bound_s, folder }))
}

fn limit(case: &Case) -> Result<ClassLimit, Error> {
    Ok(match case.text("limit") {
        "auto" => ClassLimit::Auto,
        _ => ClassLimit::Fixed(case.count("limit")?),
    })
}

/// The workers, and this many threads beside them.
fn threads_max(setup: &Setup, case: &Case) -> Result<Option<usize>, Error> {
    Ok(match case.text("backup") {
        "many" => None,
        _ => Some(setup.workers() + case.number("backup")? as usize),
    })
}

impl Measured<Error> for Blocking {
    fn round(&mut self) -> Result<Figures, Error> {
        let seconds = self.rig.run()?.duration.as_secs_f64();
        self.rig.check_arrived(self.tasks)?;
        Error::unless_equal("the sum of what tasks computed", self.rig.tally.checksum(), self.checksum)?;
        let computing_peak = self.rig.tally.computing_peak();
        if computing_peak > self.workers {
            let (found, wanted) = (computing_peak, self.workers);
            return Err(Error::Wrong { what: "tasks that computed at once", found, wanted });
        }
        Ok(figures([
            ("makespan_ms", seconds * 1e3),
            ("bound_ms", self.bound_s * 1e3),
            ("efficiency", self.bound_s / seconds),
            ("computing_peak", computing_peak as f64),
        ]))
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            // A file that cannot be removed stays in the temporary folder.
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// A new folder for this process, inside another one.
fn new_folder(below: &Path) -> Result<PathBuf, Error> {
    static FOLDERS: AtomicUsize = AtomicUsize::new(0);
    let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
    let path = below.join(format!("boxwork-bench-{}-{number}", std::process::id()));
    fs::create_dir_all(&path).map_err(|cause| Error::File { path: path.clone(), cause })?;
    Ok(path)
}

/// The time of one write without other writers.
fn write_seconds(folder: &Path, bytes: usize) -> Result<f64, Error> {
    let path = folder.join("first");
    let mut seconds = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        write(&path, bytes).map_err(|cause| Error::File { path: path.clone(), cause })?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    Ok(Spread::of(&seconds).median)
}
