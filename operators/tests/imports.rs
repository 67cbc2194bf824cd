//! No module of this crate imports one that is declared after it.

#[path = "../../tests/support/imports.rs"]
mod imports;

#[test]
fn imports_follow_lib_rs() {
    imports::check(env!("CARGO_MANIFEST_DIR"), "src/lib.rs", &[]);
}
