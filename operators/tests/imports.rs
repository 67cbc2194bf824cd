//! No module of this crate imports one that is declared after it.

#[path = "../../tests/support/imports.rs"]
mod imports;

/// `auto` estimates boxes of `search`, and one of these boxes calls it.
const EXCEPTIONS: &[(&str, &str)] = &[("src/search/lower_bounds.rs", "auto")];

#[test]
fn imports_follow_lib_rs() {
    imports::check(env!("CARGO_MANIFEST_DIR"), "src/lib.rs", EXCEPTIONS);
}
