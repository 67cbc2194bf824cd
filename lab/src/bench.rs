//! The scheduling workloads. They measure the costs of the runtime, to compare machines, settings and versions.
//!
//! A [`Workload`] is one file: a question, its cases, and the code that measures one of them once. It checks the
//! result in every round. Cases of one setting on different numbers of workers take turns.

mod error;
mod spin;
mod case;
mod tally;
mod boxes;
mod graph;
mod rig;
mod chain;
mod wavefront;
mod nested;
mod fan;
mod stages;
mod blocking;
mod idle;
mod grain;
mod requests;
mod results;
mod page;
mod serve;

use boxwork_runtime::parameter::{did_you_mean, nearest};
use boxwork_runtime::topology::Topology;

use self::case::PART;
use self::results::{MeasuredCase, MeasuredWorkload};
use self::spin::Spin;
use crate::machine::Machine;
use crate::turns::take_turns;

pub use self::case::Case;
pub use self::error::Error;
pub use self::results::Results;
pub use self::rig::Setup;
pub use self::serve::serve;
pub use crate::turns::{Figures, Measured};

/// Figures of a round.
pub fn figures<const N: usize>(figures: [(&str, f64); N]) -> Figures {
    figures.map(|(name, figure)| (name.to_owned(), figure)).to_vec()
}

/// Prepares a case on some workers.
pub type Open = fn(&Setup, &Case) -> Result<Box<dyn Measured<Error>>, Error>;

/// One workload.
pub struct Workload {
    /// Its letter and number in notes and papers.
    pub id: &'static str,
    /// One word.
    pub name: &'static str,
    /// The question that it answers.
    pub question: &'static str,
    /// The most rounds, for workloads whose rounds take seconds.
    pub rounds_max: usize,
    /// Its cases, or few small ones.
    pub cases: fn(is_quick: bool) -> Vec<Case>,
    /// Prepares one of them.
    pub open: Open,
}

/// The workloads of this crate, in the order in which they run. Others may be measured with them.
pub static WORKLOADS: [&Workload; 9] = [
    &chain::CHAIN,
    &wavefront::WAVEFRONT,
    &nested::NESTED,
    &fan::FAN,
    &stages::STAGES,
    &blocking::BLOCKING,
    &idle::IDLE,
    &grain::GRAIN,
    &requests::REQUESTS,
];

impl Workload {
    /// The workload of an id or a name among these, in letters of any size.
    ///
    /// # Errors
    /// A sentence that lists the existing names and proposes the nearest.
    pub fn find(word: &str, among: &[&'static Self]) -> Result<&'static Self, String> {
        let given = word.to_lowercase();
        let found =
            among.iter().find(|workload| workload.id.to_lowercase() == given || workload.name == given);
        found.copied().ok_or_else(|| {
            let near = did_you_mean(&given, among.iter().map(|workload| workload.name));
            let all: Vec<String> =
                among.iter().map(|workload| format!("{} {}", workload.id, workload.name)).collect();
            format!("there is no workload `{word}`{near} ({})", all.join(", "))
        })
    }

    /// Its cases, with some settings replaced.
    fn cases(&self, is_quick: bool, given: &[(String, String)]) -> Result<Vec<Case>, Error> {
        let mut cases: Vec<Case> = Vec::new();
        for mut case in (self.cases)(is_quick) {
            if !given.iter().all(|(name, value)| case.is_of_part(name, value)) {
                continue;
            }
            for (name, value) in given {
                case.set(name, value)?;
            }
            // Cases that differed only in a setting that the caller has fixed are now equal.
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
        match given.iter().find(|(name, _)| name == PART) {
            Some((_, value)) if cases.is_empty() => {
                Err(Error::Setting { name: PART, value: value.clone(), wanted: "a part of the workload" })
            }
            _ => Ok(cases),
        }
    }
}

/// The workloads to measure, and the settings of the measurement.
#[derive(Clone, Debug)]
pub struct Settings {
    /// In the order in which they run.
    pub workloads: Vec<&'static Workload>,
    /// Small sizes.
    pub is_quick: bool,
    /// Numbers of workers; if empty, one and all.
    pub workers: Vec<usize>,
    /// The machine, or a synthetic one.
    pub topology: Topology,
    /// Pin each worker to its core.
    pub pin: bool,
    /// Rounds that do not count, before the others.
    pub warmup: usize,
    /// Rounds that count.
    pub rounds: usize,
    /// Settings that replace those of cases.
    pub given: Vec<(String, String)>,
}

impl std::fmt::Debug for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.id)
    }
}

impl Settings {
    /// Refuses settings that no chosen workload has, since they would have no effect.
    fn check(&self) -> Result<(), Error> {
        let mut names = Vec::new();
        for workload in &self.workloads {
            let cases = (workload.cases)(self.is_quick);
            names.extend(cases.iter().flat_map(Case::names).collect::<Vec<_>>());
        }
        match self.given.iter().find(|(name, _)| !names.contains(&name.as_str())) {
            None => Ok(()),
            Some((name, _)) => {
                let near = nearest(name, names).map(|name| format!("; did you mean `{name}`?"));
                Err(Error::NoSetting { name: name.clone(), near: near.unwrap_or_default() })
            }
        }
    }

    fn setups(&self, spin: Spin) -> Vec<Setup> {
        let mut workers = self.workers.clone();
        if workers.is_empty() {
            workers = vec![1, self.topology.slots_count()];
        }
        workers.dedup();
        let setup = |count: usize| Setup { topology: self.topology.first(count), pin: self.pin, spin };
        workers.into_iter().map(setup).collect()
    }
}

/// Runs the workloads; `say` gets each case before it runs.
///
/// # Errors
/// The first case that cannot run, or whose answer is wrong.
pub fn run(settings: &Settings, say: &mut dyn FnMut(&str)) -> Result<Results, Error> {
    settings.check()?;
    let machine = Machine::look(&settings.topology);
    let spin = Spin::calibrate();
    let setups = settings.setups(spin);
    let threads = setups.iter().map(Setup::workers).max().unwrap_or(1);
    let before = spin.cores_free(threads);
    let mut workloads = Vec::new();
    for workload in &settings.workloads {
        let mut cases = Vec::new();
        for case in workload.cases(settings.is_quick, &settings.given)? {
            let what = format!("{} {} {case}", workload.id, workload.name);
            say(&what);
            let measured = measure(workload, &case, &setups, settings);
            cases.extend(measured.map_err(|cause| Error::Within { what, cause: Box::new(cause) })?);
        }
        workloads.push(MeasuredWorkload { workload, cases });
    }
    let (warmup, rounds) = (settings.warmup, settings.rounds);
    let cores_free = [before, spin.cores_free(threads)];
    Ok(Results { machine, spin, cores_free, warmup, rounds, workloads })
}

/// One case on all numbers of workers, which take turns.
fn measure(
    workload: &Workload,
    case: &Case,
    setups: &[Setup],
    settings: &Settings,
) -> Result<Vec<MeasuredCase>, Error> {
    let mut cases = setups.iter().map(|setup| (workload.open)(setup, case)).collect::<Result<Vec<_>, _>>()?;
    let rounds = settings.rounds.min(workload.rounds_max);
    let warmup = settings.warmup.min(workload.rounds_max);
    let measured = take_turns(&mut cases, warmup, rounds).map_err(|(_, error)| error)?;
    let of = |(setup, figures): (&Setup, _)| MeasuredCase {
        case: case.clone(),
        workers: setup.workers(),
        figures,
    };
    Ok(setups.iter().zip(measured).map(of).collect())
}
