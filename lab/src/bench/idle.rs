//! B7, idle: the cost of an idle runtime, its time to wake, and the rate at which other threads can submit work.
//!
//! Three parts. `rest` measures processor time of the runtime's threads without requests (`period_ms=0`), or with an
//! empty request every few milliseconds. `wake` measures the time from a submission into a sleeping runtime to the
//! firing. `inject` submits many empty requests from this many threads at once.

use std::thread;
use std::time::{Duration, Instant};

use boxwork_runtime::Request;

use super::graph::{Graph, whole};
use super::rig::{Rig, Setup};
use super::{Case, Error, Figures, Measured, Workload, figures};
use crate::processor_time::ProcessorTime;
use crate::spread::quantile_us;

pub static IDLE: Workload = Workload {
    id: "B7",
    name: "idle",
    question: "How much does an idle runtime cost, and how fast does it wake?",
    rounds_max: 5,
    cases,
    open,
};

fn cases(is_quick: bool) -> Vec<Case> {
    let (seconds, times, requests) = if is_quick { (0.2, 50, 800) } else { (2.0, 500, 12_800) };
    let rest =
        |period_ms: &i32| Case::new(&[("part", &"rest"), ("seconds", &seconds), ("period_ms", period_ms)]);
    let inject =
        |threads: &i32| Case::new(&[("part", &"inject"), ("requests", &requests), ("threads", threads)]);
    let mut cases: Vec<Case> = [0, 10, 1].iter().map(rest).collect();
    cases.push(Case::new(&[("part", &"wake"), ("times", &times), ("pause_ms", &1)]));
    cases.extend([1, 4, 16].iter().map(inject));
    cases
}

enum Part {
    Rest { time: Duration, period: Duration },
    Wake { times: usize, pause: Duration },
    Inject { requests: usize, threads: usize },
}

struct Idle {
    rig: Rig,
    part: Part,
}

fn open(setup: &Setup, case: &Case) -> Result<Box<dyn Measured<Error>>, Error> {
    let milliseconds = |name| Ok::<_, Error>(Duration::from_secs_f64(case.number(name)? / 1e3));
    let part = match case.text("part") {
        "rest" => Part::Rest {
            time: Duration::from_secs_f64(case.number("seconds")?),
            period: milliseconds("period_ms")?,
        },
        "wake" => Part::Wake { times: case.count("times")?, pause: milliseconds("pause_ms")? },
        "inject" => Part::Inject { requests: case.count("requests")?, threads: case.count("threads")? },
        other => {
            let wanted = "rest, wake or inject";
            return Err(Error::Setting { name: "part", value: other.to_owned(), wanted });
        }
    };
    let mut graph = Graph::new();
    graph.add("task", "task", &[("marked", whole(1))]);
    Ok(Box::new(Idle { rig: Rig::new(setup, &graph)?, part }))
}

impl Measured<Error> for Idle {
    fn round(&mut self) -> Result<Figures, Error> {
        self.rig.tally.reset();
        match self.part {
            Part::Rest { time, period } => self.rest(time, period),
            Part::Wake { times, pause } => self.wake(times, pause),
            Part::Inject { requests, threads } => self.inject(requests, threads),
        }
    }
}

impl Idle {
    fn rest(&self, time: Duration, period: Duration) -> Result<Figures, Error> {
        let (start, before) = (Instant::now(), ProcessorTime::of_others());
        let mut requests = Vec::new();
        while start.elapsed() < time {
            if period.is_zero() {
                thread::sleep(time);
            } else {
                requests.push(self.rig.submit()?);
                thread::sleep(period);
            }
        }
        let (seconds, after) = (start.elapsed().as_secs_f64(), ProcessorTime::of_others());
        // The last request may still be under way.
        requests.iter().for_each(|request| drop(request.wait()));
        self.rig.check_arrived(requests.len() as u64)?;
        // Without such a counter of the system, the figure is omitted instead of zero.
        let spent = before.zip(after).map(|(before, after)| after.since(&before) as f64);
        Ok(spent.map_or_else(Vec::new, |spent_ns| figures([("processor_percent", spent_ns / 1e7 / seconds)])))
    }

    fn wake(&self, times: usize, pause: Duration) -> Result<Figures, Error> {
        let tally = &self.rig.tally;
        let mut latencies_ns = Vec::with_capacity(times);
        for _ in 0..times {
            thread::sleep(pause);
            tally.reset();
            tally.mark(tally.now_ns());
            self.rig.submit()?.wait();
            self.rig.check_arrived(1)?;
            latencies_ns.push(tally.marked_ns());
        }
        Ok(figures([
            ("wake_p50_us", quantile_us(&mut latencies_ns, 0.5)),
            ("wake_p99_us", quantile_us(&mut latencies_ns, 0.99)),
        ]))
    }

    fn inject(&self, requests: usize, threads: usize) -> Result<Figures, Error> {
        let each = requests.div_ceil(threads);
        let start = Instant::now();
        thread::scope(|scope| {
            let submit = || (0..each).map(|_| self.rig.submit()).collect::<Result<Vec<Request>, Error>>();
            let submitters: Vec<_> = (0..threads).map(|_| scope.spawn(submit)).collect();
            for submitter in submitters {
                let submitted = submitter.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause))?;
                submitted.iter().for_each(|request| drop(request.wait()));
            }
            Ok::<_, Error>(())
        })?;
        let seconds = start.elapsed().as_secs_f64();
        self.rig.check_arrived((each * threads) as u64)?;
        let count = (each * threads) as f64;
        Ok(figures([("request_ns", seconds * 1e9 / count), ("requests_per_s", count / seconds)]))
    }
}
