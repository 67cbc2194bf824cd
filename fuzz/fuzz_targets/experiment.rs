//! A text as a sweep, and after a line `---` one as its table: refused with places, or run, and then a second run measures
//! nothing again.
#![no_main]

use std::fs;

use boxwork_fuzz::folder;
use boxwork_lab::experiment::{Call, Experiment, ExperimentError, Failure, Task, Work, load};
use boxwork_lab::{Figures, Measured};
use libfuzzer_sys::fuzz_target;

/// Rows of a sweep that is run: more take too long for a fuzzer.
const ROWS_MAX: usize = 16;

fuzz_target!(|text: &str| {
    let (sweep, table) = text.split_once("\n---\n").unwrap_or((text, ""));
    let line = table.lines().next().unwrap_or_default();
    let given: Vec<(String, String)> =
        line.split_once('=').map(|(name, values)| (name.to_owned(), values.to_owned())).into_iter().collect();
    for given in [&[][..], &given] {
        match load("fuzz.yaml", sweep, given, &mut Tasks::default()) {
            Ok(experiment) => run(&experiment, table),
            Err(faults) => {
                assert!(!faults.is_empty());
                for fault in faults.iter().map(ToString::to_string) {
                    let mut place = fault.splitn(3, ':').map(|part| part.parse::<usize>());
                    let (Some(Ok(line)), Some(Ok(column))) = (place.next(), place.next()) else {
                        panic!("no place: {fault}")
                    };
                    assert!((1..=sweep.lines().count().max(1) + 1).contains(&line) && column >= 1, "{fault}");
                }
            }
        }
    }
});

fn run(experiment: &Experiment, table: &str) {
    assert!((1..=10_000).contains(&experiment.rows()));
    if experiment.rows() > ROWS_MAX {
        return;
    }
    let out = folder().join("experiment");
    let results = out.join("results.csv");
    let again = |measured: &mut usize| -> Result<_, ExperimentError> {
        let mut tasks = Tasks::default();
        let summary = experiment.run(&out, &mut tasks, &mut |_| {});
        *measured = tasks.opened;
        summary
    };
    let mut opened = 0;
    if let Ok(first) = again(&mut opened) {
        assert!(first.rows <= experiment.rows() && first.kept == 0, "{first:?}");
        let written = fs::read_to_string(&results).unwrap_or_default();
        let second = again(&mut opened).expect("the rows just written");
        assert_eq!((second.rows, second.kept, second.plots), (first.rows, first.rows, first.plots));
        assert!(opened == 0 && fs::read_to_string(&results).unwrap_or_default() == written);
        fs::write(&results, table).expect("a folder that can be written to");
        let _ = again(&mut opened);
    }
    let _ = fs::remove_dir_all(&out);
}

/// Tasks that take no time. `store` makes a file; all others have figures.
#[derive(Default)]
struct Tasks {
    opened: usize,
}

impl Work for Tasks {
    fn task(&mut self, name: &str) -> Result<Task, String> {
        let settings = ["count", "store", "alpha", "block"].map(str::to_owned).to_vec();
        match name {
            "store" => Ok(Task { settings, makes: Some(".txt") }),
            "scan" | "jump" => Ok(Task { settings, makes: None }),
            _ => Err(format!("there is no task `{name}`")),
        }
    }

    fn check(&mut self, call: &Call) -> Vec<(String, String)> {
        let wrong = call.settings.get("block").filter(|block| block.parse::<u32>().is_err());
        wrong.map(|block| ("block".to_owned(), format!("`{block}` is no number"))).into_iter().collect()
    }

    fn open(&mut self, call: &Call) -> Result<Box<dyn Measured<Failure>>, Failure> {
        self.opened += 1;
        Ok(Box::new(Called(call.clone())))
    }
}

struct Called(Call);

impl Measured<Failure> for Called {
    fn round(&mut self) -> Result<Figures, Failure> {
        let number = |name: &str| self.0.settings.get(name).and_then(|text| text.parse().ok()).unwrap_or(2.0);
        if self.0.task == "store" {
            fs::write(&self.0.file, "made")?;
        }
        Ok(vec![("ms".to_owned(), number("alpha") * number("block")), ("distances".to_owned(), 40.0)])
    }
}
