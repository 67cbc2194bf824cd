//! The `boxwork` command with one more operator: `run`, `check`, `boxes` and `schema` know it.

use std::process::ExitCode;

fn main() -> ExitCode {
    boxwork::main_with(boxwork::catalog().with(&new_operator::NEW_OPERATOR))
}
