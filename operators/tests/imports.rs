//! No module of this crate imports one that is declared after it.

#[path = "../../tests/support/imports.rs"]
mod imports;

/// `auto` weighs boxes of `search`, and one of them asks it.
const EXCEPTIONS: &[(&str, &str)] = &[("src/search/lower_bounds.rs", "auto")];

#[test]
fn imports_follow_lib_rs() {
    imports::check(env!("CARGO_MANIFEST_DIR"), "src/lib.rs", EXCEPTIONS);
}
