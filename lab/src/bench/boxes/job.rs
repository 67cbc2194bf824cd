//! Boxes without inputs: a task that computes, and a job that computes, blocks, and computes again.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use super::super::spin::{SEED, spin};
use super::super::tally::Tally;
use super::{TALLY_PARAMETER, count};

/// The blocking class of a job's operation.
pub const CLASS: &str = "bench";

pub static TASK: OperatorSpec = OperatorSpec {
    parameters: &[
        TALLY_PARAMETER,
        count("iterations", "steps of work"),
        count("marked", "whether to record the time of its run"),
    ],
    ..OperatorSpec::new("task", "Computes once.", Kind::Stateful, |bind| {
        let (iterations, marked) = (bind.count("iterations") as u64, bind.count("marked") > 0);
        Ok(Box::new(Task { tally: Tally::bound(bind)?, iterations, marked }))
    })
};

pub static JOB: OperatorSpec = OperatorSpec {
    parameters: &[
        TALLY_PARAMETER,
        count("before", "steps of work before it blocks"),
        count("after", "steps of work after it has blocked"),
        count("block_us", "blocking time in microseconds, if it writes no file"),
        count("device", "operations that the device serves at once; 0 for no limit"),
        count("bytes", "bytes that it writes"),
        Parameter::new("file", ParameterType::Path, Default::Absent, "the file that it writes"),
    ],
    ..OperatorSpec::new("job", "Computes, blocks, and computes again.", Kind::Stateful, make_job)
};

struct Task {
    tally: Arc<Tally>,
    iterations: u64,
    marked: bool,
}

impl Operator for Task {
    fn process(&mut self, _: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.marked {
            self.tally.mark(self.tally.now_ns());
        }
        self.tally.add(u64::from(spin(self.iterations, SEED)));
        self.tally.arrive(1);
        Ok(Flow::Done)
    }
}

/// The blocking operation of a job.
enum Blocking {
    Sleep(Duration),
    /// A sleep on a device that serves this many at once.
    Device(Duration, usize),
    Write(PathBuf, usize),
}

impl Blocking {
    fn block(&self, tally: &Tally) -> io::Result<()> {
        match self {
            Self::Sleep(time) => thread::sleep(*time),
            Self::Device(time, most) => tally.use_device(*most, || thread::sleep(*time)),
            Self::Write(path, bytes) => write(path, *bytes)?,
        }
        Ok(())
    }
}

/// Writes a file and syncs it to disk.
pub fn write(path: &Path, bytes: usize) -> io::Result<()> {
    static PIECE: [u8; 1 << 16] = [7; 1 << 16];
    let mut file = File::create(path)?;
    for start in (0..bytes).step_by(PIECE.len()) {
        file.write_all(&PIECE[..PIECE.len().min(bytes - start)])?;
    }
    file.sync_data()
}

struct Job {
    tally: Arc<Tally>,
    before: u64,
    after: u64,
    blocking: Blocking,
}

fn make_job(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let blocking = match bind.get_text("file") {
        Some(file) => Blocking::Write(PathBuf::from(file), bind.count("bytes")),
        None => {
            let time = Duration::from_micros(bind.count("block_us") as u64);
            match bind.count("device") {
                0 => Blocking::Sleep(time),
                most => Blocking::Device(time, most),
            }
        }
    };
    let (before, after) = (bind.count("before") as u64, bind.count("after") as u64);
    Ok(Box::new(Job { tally: Tally::bound(bind)?, before, after, blocking }))
}

impl Operator for Job {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let mut sum = self.tally.compute(self.before);
        cx.detached(CLASS, || self.blocking.block(&self.tally))??;
        if self.after > 0 {
            sum = sum.wrapping_add(self.tally.compute(self.after));
        }
        self.tally.add(sum);
        self.tally.arrive(1);
        Ok(Flow::Done)
    }
}
