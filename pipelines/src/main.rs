//! The command with the operators that Boxwork ships.

use std::process::ExitCode;

use mimalloc::MiMalloc;

// One thread makes envelopes and another drops them, continuously and in a few sizes: docs/decisions/026.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    boxwork::main_with(boxwork_operators::catalog())
}
