//! The language of sweeps: faults with their places; and a run continues where it stopped.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::rc::Rc;

use super::{Call, Experiment, ExperimentError, Failure, Goal, Task, Work, ascend, load};
use crate::turns::{Figures, Measured};

/// Tasks that record their calls. `store` makes a file; `scan` and `jump` read one and have figures.
#[derive(Default)]
struct Noting {
    rounds: Rc<RefCell<Vec<Call>>>,
}

impl Work for Noting {
    fn task(&mut self, name: &str) -> Result<Task, String> {
        let settings = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        match name {
            "store" => Ok(Task { settings: settings(&["count"]), makes: Some(".txt") }),
            "scan" => Ok(Task { settings: settings(&["store", "alpha"]), makes: None }),
            "jump" => Ok(Task { settings: settings(&["store", "alpha", "block"]), makes: None }),
            _ => Err(format!("there is no task `{name}`")),
        }
    }

    fn check(&mut self, call: &Call) -> Vec<(String, String)> {
        let wrong = call.settings.get("block").filter(|block| block.parse::<u32>().is_err());
        wrong.map(|block| ("block".to_owned(), format!("`{block}` is no number"))).into_iter().collect()
    }

    fn open(&mut self, call: &Call) -> Result<Box<dyn Measured<Failure>>, Failure> {
        Ok(Box::new(Noted { call: call.clone(), rounds: Rc::clone(&self.rounds) }))
    }
}

struct Noted {
    call: Call,
    rounds: Rc<RefCell<Vec<Call>>>,
}

impl Measured<Failure> for Noted {
    fn round(&mut self) -> Result<Figures, Failure> {
        self.rounds.borrow_mut().push(self.call.clone());
        let number =
            |name: &str| self.call.settings.get(name).map_or(0.0, |text| text.parse().unwrap_or(-1.0));
        if self.call.task == "store" {
            fs::write(&self.call.file, "made")?;
            return Ok(Figures::new());
        }
        if !Path::new(&self.call.settings["store"]).exists() {
            return Err(Failure::Failed("its store is missing".to_owned()));
        }
        let ms = if self.call.task == "scan" { 100.0 } else { number("block") * number("alpha") };
        Ok(vec![("ms".to_owned(), ms), ("distances".to_owned(), 40.0)])
    }
}

fn loaded(text: &str, given: &[(&str, &str)]) -> Result<Experiment, Vec<String>> {
    let given: Vec<(String, String)> =
        given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    load("s.yaml", text, &given, &mut Noting::default())
        .map_err(|faults| faults.iter().map(ToString::to_string).collect())
}

fn faults(text: &str, given: &[(&str, &str)]) -> Vec<String> {
    loaded(text, given).expect_err("the sweep has faults")
}

const SOUND: &str = "\
experiment: 1
axes:
  alpha: [0.2, 1]
  strategy: [scan, jump]
  block: [16, 64]
rounds: 2
steps:
  store: {do: store, count: 3}
  search: {do: \"${strategy}\", store: \"${store}\", alpha: \"${alpha}\", block: \"${block}\"}
plots:
  time: {x: block, y: search.ms, series: strategy, facets: alpha, log: [x, y]}
compare: {axis: strategy, value: jump, figure: search.ms}
";

#[test]
fn all_wrong_names_are_reported_with_their_places() {
    let wrong = SOUND
        .replace("\"${alpha}\"", "\"${alhpa}\"")
        .replace("series: strategy", "series: stratgy")
        .replace("y: search.ms", "y: serch.ms")
        .replace("value: jump", "value: jmp");
    assert_eq!(
        faults(&wrong, &[]),
        [
            "3:11: no step uses the axis `alpha`",
            "9:57: `${alhpa}` is neither an axis nor a step before this one; did you mean `alpha`?",
            "11:23: `serch.ms` is no figure; did you mean `search.ms`?",
            "11:41: `stratgy` is no axis; did you mean `strategy`?",
            "12:34: `jmp` is no value of this axis; did you mean `jump`?",
        ]
    );
    let unknown = faults(&SOUND.replace("rounds: 2", "runds: 2"), &[]);
    assert!(unknown[0].starts_with("6:1: ") && unknown[0].contains("runds"), "{unknown:?}");
    assert!(faults("a: [", &[])[0].starts_with("1:"), "{:?}", faults("a: [", &[]));
    assert!(faults("- 1", &[])[0].contains("1:1"), "{:?}", faults("- 1", &[]));
    let twice = faults(&SOUND.replace("block: [16, 64]", "alpha: [1]"), &[]);
    assert!(twice[0].starts_with("5:") && twice[0].contains("alpha"), "{twice:?}");
    assert!(faults("experiment: 2\nsteps: {}", &[])[0].contains("`experiment: 1`"));
    let given = faults(SOUND, &[("alhpa", "1")]);
    assert!(given[0].contains("--set alhpa") && given[0].contains("did you mean `alpha`?"), "{given:?}");
    let numbers: String = (0..200).map(|number| format!("{number}, ")).collect();
    let many = format!("experiment: 1\naxes:\n  a: [{numbers}]\n  b: [{numbers}]\nsteps: {{}}\n");
    assert!(faults(&many, &[])[0].contains("more than 10000 combinations"));
    assert!(faults(SOUND, &[("alpha", "[]")])[0].contains("no values"));
    let used = SOUND.replace("x: block, y: search.ms", "x: block, y: store.seconds");
    assert!(faults(&used, &[])[0].contains("`store.seconds` is no figure"), "it is not measured");
}

#[test]
fn a_name_that_cannot_be_a_files_is_refused_before_anything_runs() {
    for name in ["../time", "/time", ".time", "a/b", "''", &"t".repeat(101)] {
        let of_plot = faults(&SOUND.replace("  time:", &format!("  {name}:")), &[]);
        assert!(of_plot[0].contains("a file is called after the plot"), "{of_plot:?}");
    }
    let of_step = faults(&SOUND.replace("  store: {", "  sto/re: {").replace("${store}", "${sto/re}"), &[]);
    assert!(of_step[0].contains("a file is called after the step `sto/re`"), "{of_step:?}");
}

#[test]
fn what_a_task_does_not_take_is_reported_before_anything_runs() {
    let wrong = SOUND.replace("do: store", "do: stor").replace("[16, 64]", "[16, many]");
    assert_eq!(faults(&wrong, &[]), ["8:15: there is no task `stor`", "9:76: `many` is no number"]);
    // `scan` has no block, but `jump` has: that is no fault. Here only `scan` is left.
    let alone = faults(SOUND, &[("strategy", "scan")]);
    assert_eq!(alone, ["9:76: the task of the step `search` has no `block`"]);
    let misspelt = faults(&SOUND.replace("count: 3", "cuont: 3"), &[]);
    assert_eq!(misspelt, ["8:29: the task of the step `store` has no `cuont`; did you mean `count`?"]);
    let no_file =
        SOUND.replace("plots:", "  last: {do: scan, store: \"${search}\"}\nmeasure: [search]\nplots:");
    assert!(faults(&no_file, &[]).iter().any(|fault| fault.contains("`search` makes no file")));
}

#[test]
fn a_run_continues_where_it_stopped_and_makes_no_file_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path();
    let run = |text: &str, given: &[(&str, &str)]| {
        let experiment = loaded(text, given).unwrap_or_else(|faults| panic!("{faults:?}"));
        let (mut work, mut said) = (Noting::default(), Vec::new());
        let summary = experiment.run(out, &mut work, &mut |row| said.push(row.to_owned()));
        let rounds: Vec<String> = work.rounds.borrow().iter().map(|call| call.task.clone()).collect();
        (summary, said, rounds)
    };
    let (summary, said, rounds) = run(SOUND, &[("alpha", "1")]);
    let summary = summary.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((summary.rows, summary.kept, summary.plots, said.len()), (4, 0, 1, 4));
    // One warmup round and two that count, in turns; the scan does not depend on the block, so it ran once.
    let expected = "store scan jump jump scan scan jump jump jump jump";
    assert_eq!(rounds.join(" "), expected);
    let (second, said, rounds) = run(SOUND, &[]);
    let second = second.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((second.rows, second.kept, said.len()), (8, 4, 4), "{said:?}");
    assert!(!rounds.contains(&"store".to_owned()), "the file was there: {rounds:?}");

    let csv = fs::read_to_string(out.join("results.csv")).expect("a table");
    let head = "alpha,strategy,block,search.ms,search.ms_low,search.ms_high,search.distances";
    assert_eq!(csv.lines().next(), Some(head));
    assert!(
        csv.contains("\n1,scan,16,100,100,100,40\n") && csv.contains("\n0.2,jump,64,12.8,12.8,12.8,40\n")
    );
    let plot = fs::read_to_string(out.join("time.svg")).expect("a plot");
    assert!(plot.contains("alpha 0.2") && plot.matches("<polyline").count() == 4, "{plot}");
    assert!(!plot.contains("NaN") && !plot.contains("inf"), "{plot}");
    let comparison = second.comparison.expect("the sweep asks for it");
    assert_eq!(*comparison.worst(), (0.64, "alpha=1 block=64".to_owned()));
    let table = fs::read_to_string(out.join("comparison.csv")).expect("a table");
    assert!(table.starts_with("alpha,block,jump,best,least,ratio\n0.2,16,3.2,scan,100,0.032\n"), "{table}");
    let page = fs::read_to_string(out.join("index.html")).expect("a page");
    assert!(page.contains("<svg") && page.matches("<tr>").count() == 9, "{page}");
    assert!(page.contains("beside the best of the others"));

    // Without the value there is nothing to compare.
    let (alone, _, _) = run(SOUND, &[("strategy", "jump")]);
    assert_eq!(alone.unwrap_or_else(|error| panic!("{error}")).comparison, None);
    let (refused, _, _) = run(&SOUND.replace("count: 3", "count: 4"), &[]);
    let refused = refused.expect_err("another sweep");
    assert!(matches!(&refused, ExperimentError::OtherSweep { .. }), "{refused}");
}

#[test]
fn a_step_that_fails_is_named_with_its_row() {
    struct Failing(Noting);
    impl Work for Failing {
        fn task(&mut self, name: &str) -> Result<Task, String> {
            self.0.task(name)
        }
        fn check(&mut self, call: &Call) -> Vec<(String, String)> {
            self.0.check(call)
        }
        fn open(&mut self, call: &Call) -> Result<Box<dyn Measured<Failure>>, Failure> {
            match call.task.as_str() {
                "store" => Err(Failure::Failed("the disk is full".to_owned())),
                _ => self.0.open(call),
            }
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let experiment = loaded(SOUND, &[("alpha", "1")]).unwrap_or_else(|faults| panic!("{faults:?}"));
    let failed = experiment.run(folder.path(), &mut Failing(Noting::default()), &mut |_| {});
    let error = failed.expect_err("there is no store");
    assert_eq!(error.to_string(), "step `store` of the row strategy=scan block=16: the disk is full");
}

#[test]
fn an_ascent_finds_the_best_value_of_each_axis_and_continues() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "experiment: 1\naxes:\n  alpha: [2, 1, 3]\n  block: [10, 30, 20]\n  count: [7]\nrounds: 1\nwarmup: 0\nsteps:\n  \
                store: {do: store, count: \"${count}\"}\n  jump: {do: jump, store: \"${store}\", alpha: \"${alpha}\", block: \
                \"${block}\"}\n";
    let goal = Goal { figure: "jump.ms", gain: 0.01, limit: ("jump.distances", 100.0) };
    let climb = |passes: usize, rounds: &mut usize| {
        let mut work = Noting::default();
        let ascent = ascend("s", text, &[], &goal, passes, folder.path(), &mut work, &mut |_| {});
        *rounds = work.rounds.borrow().iter().filter(|call| call.task == "jump").count();
        ascent.expect("climbed")
    };
    let mut rounds = 0;
    let ascent = climb(3, &mut rounds);
    assert_eq!(ascent.changes().collect::<Vec<_>>(), [("alpha", "2", "3"), ("block", "10", "30")]);
    assert_eq!((ascent.first.figures["jump.ms"], ascent.best.figures["jump.ms"]), (20.0, 90.0));
    // Three of alpha, two more of block, and in the second pass two more of alpha: the sum of the axes, not the product.
    assert_eq!((rounds, ascent.rows.len()), (7, 7));
    let page = ascent.page("Tuned", &[], "use <it>", &["jump.ms"]);
    assert!(page.contains("use &lt;it&gt;") && page.matches("<svg").count() == 2, "{page}");
    let again = climb(3, &mut rounds);
    assert_eq!((rounds, again.best), (0, ascent.best));
    // Every row is beyond this limit by as much, so the first one stays.
    let strict = Goal { limit: ("jump.distances", 30.0), ..goal };
    let kept = ascend("s", text, &[], &strict, 1, folder.path(), &mut Noting::default(), &mut |_| {})
        .expect("climbed");
    assert_eq!(kept.best, kept.first);
    let unknown = [("blokc".to_owned(), "3".to_owned())];
    let fault = ascend("s", text, &unknown, &strict, 1, folder.path(), &mut Noting::default(), &mut |_| {});
    assert!(fault.expect_err("no such axis").to_string().contains("did you mean `block`"));
}
