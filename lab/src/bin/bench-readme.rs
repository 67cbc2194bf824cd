//! Writes `benches/README.md` from the files under `benches/results`: `cargo run -p boxwork-lab --bin bench-readme`.

use std::error::Error;
use std::fs;
use std::path::Path;

use boxwork_lab::report::readme;

fn main() -> Result<(), Box<dyn Error>> {
    let benches = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches");
    fs::write(benches.join("README.md"), readme(&benches.join("results"))?)?;
    Ok(())
}
