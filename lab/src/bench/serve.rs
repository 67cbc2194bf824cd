//! One case on request, line by line, so that a script can let it take turns with other programs.
//!
//! The first line is a JSON object with the program's name. It answers each line of the input with one round's figures.

use std::io::{BufRead, Write};

use serde_json::json;

use super::results::round_json;
use super::{Error, Settings, Spin};

/// Serves the first case of the first workload, with the first number of workers.
///
/// # Errors
/// When the case cannot run, its answer is wrong, or a line cannot be read or written.
pub fn serve(settings: &Settings, requests: &mut dyn BufRead, answers: &mut dyn Write) -> Result<(), Error> {
    settings.check()?;
    let spin = Spin::calibrate();
    let Some(workload) = settings.workloads.first() else { return Ok(()) };
    let cases = workload.cases(settings.is_quick, &settings.given)?;
    let (Some(setup), Some(case)) = (settings.setups(spin).into_iter().next(), cases.first()) else {
        return Ok(());
    };
    let mut bench = (workload.open)(&setup, case)?;
    let name = format!("Boxwork {}", env!("CARGO_PKG_VERSION"));
    let first = json!({
        "name": name, "workload": workload.id, "case": case.to_string(), "workers": setup.workers(),
        "spin_ns_per_iteration": spin.ns_per_iteration,
    });
    let mut answer = |json| writeln!(answers, "{json}").and_then(|()| answers.flush()).map_err(Error::Line);
    answer(first)?;
    for line in requests.lines() {
        line.map_err(Error::Line)?;
        answer(round_json(bench.round()?))?;
    }
    Ok(())
}
