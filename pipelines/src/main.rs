//! The command with the operators that Boxwork ships.

use std::process::ExitCode;

fn main() -> ExitCode {
    boxwork::main_with(boxwork_operators::catalog())
}
