//! The `boxwork` command with one more operator: everything else, the YAML, `boxes`, `check` and `schema`, knows it.

mod diversify;

use std::process::ExitCode;

fn main() -> ExitCode {
    boxwork::main_with(boxwork::catalog().with(&diversify::DIVERSIFY))
}
