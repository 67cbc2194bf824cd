//! Modules import only modules above them in lib.rs.

#[path = "../../tests/support/imports.rs"]
mod imports;

#[test]
fn imports_follow_lib_rs() {
    imports::check(env!("CARGO_MANIFEST_DIR"), "src/lib.rs", &[]);
}
