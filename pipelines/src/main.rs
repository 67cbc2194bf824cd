//! The command with the operators that Boxwork ships.

use std::process::ExitCode;

use mimalloc::MiMalloc;

// Envelopes are made by one thread and dropped by another, all the time and in the same sizes: docs/decisions/026.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    boxwork::main_with(boxwork_operators::catalog())
}
