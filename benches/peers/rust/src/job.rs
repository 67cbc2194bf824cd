//! B6: tasks that compute, block on a device that serves a limited number at once (a sleep, or a file that is written
//! and synced to disk), and may compute again.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Figures, Settings, figures, spin};

/// The operation of a task on the device.
#[derive(Clone)]
pub enum Operation {
    Sleep(Duration),
    /// The folder of the files, and the bytes of each.
    Write(PathBuf, usize),
}

impl Operation {
    pub fn run(&self) {
        match self {
            Self::Sleep(time) => thread::sleep(*time),
            Self::Write(folder, bytes) => {
                static FILES: AtomicU64 = AtomicU64::new(0);
                static PIECE: [u8; 1 << 16] = [7; 1 << 16];
                // As many files as tasks, rewritten in each round.
                let number = FILES.fetch_add(1, Ordering::Relaxed) % 40;
                let mut file = File::create(folder.join(format!("task{number}"))).expect("a file");
                for start in (0..*bytes).step_by(PIECE.len()) {
                    file.write_all(&PIECE[..PIECE.len().min(bytes - start)]).expect("room on the disk");
                }
                file.sync_data().expect("a disk that answers");
            }
        }
    }
}

pub struct Job {
    pub tasks: usize,
    pub device: usize,
    pub operation: Operation,
    before: u64,
    after: u64,
    busy: Mutex<usize>,
    freed: Condvar,
    computing: AtomicU64,
    peak: AtomicU64,
    sum: AtomicU64,
}

impl Job {
    pub fn new(settings: &Settings) -> Self {
        let (compute_us, operation) = match settings.text("part") {
            "file" => {
                let folder = PathBuf::from(settings.text("folder")).join(format!("peer-{}", std::process::id()));
                std::fs::create_dir_all(&folder).expect("a folder");
                (settings.number("compute_us"), Operation::Write(folder, settings.count("kib") << 10))
            }
            _ => {
                let scale = settings.number("scale");
                let time = Duration::from_secs_f64(settings.number("block_ms") * scale / 1e3);
                (settings.number("compute_ms") * scale * 1e3, Operation::Sleep(time))
            }
        };
        let is_again = settings.text("part") == "compute_block_compute";
        let before = settings.iterations(if is_again { compute_us / 2.0 } else { compute_us });
        Self {
            tasks: settings.count("tasks"),
            device: settings.count("device"),
            operation,
            before,
            after: if is_again { before } else { 0 },
            busy: Mutex::new(0),
            freed: Condvar::new(),
            computing: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }

    fn compute(&self, iterations: u64) {
        if iterations > 0 {
            let now = self.computing.fetch_add(1, Ordering::Relaxed) + 1;
            self.peak.fetch_max(now, Ordering::Relaxed);
            self.sum.fetch_add(spin(iterations), Ordering::Relaxed);
            self.computing.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub fn before(&self) {
        self.compute(self.before);
    }

    pub fn after(&self) {
        self.compute(self.after);
    }

    /// Waits for the device and uses it, all on this thread.
    pub fn block(&self) {
        let mut busy = self.freed.wait_while(self.busy.lock().unwrap(), |busy| *busy == self.device).unwrap();
        *busy += 1;
        drop(busy);
        self.operation.run();
        *self.busy.lock().unwrap() -= 1;
        self.freed.notify_one();
    }

    pub fn measure(&self, all: impl FnOnce()) -> Figures {
        self.sum.store(0, Ordering::Relaxed);
        self.peak.store(0, Ordering::Relaxed);
        let start = Instant::now();
        all();
        let seconds = start.elapsed().as_secs_f64();
        let again = if self.after > 0 { spin(self.after) } else { 0 };
        assert_eq!(self.sum.load(Ordering::Relaxed), (spin(self.before) + again) * self.tasks as u64);
        figures([
            ("makespan_ms", seconds * 1e3),
            ("computing_peak", self.peak.load(Ordering::Relaxed) as f64),
        ])
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Operation::Write(folder, _) = &self.operation {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
