//! No module of this crate imports one that is declared after it.

#[path = "../../tests/support/imports.rs"]
mod imports;

/// Files of a box, of its ports and of its firing, each with the module that it imports from above.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("src/edge/direct.rs", "port"),
    ("src/edge/direct.rs", "single"),
    ("src/model/firing.rs", "host"),
    ("src/model/firing.rs", "woken"),
    ("src/model/host.rs", "woken"),
    ("src/model/stall.rs", "woken"),
    ("src/operator/bind.rs", "environment"),
    ("src/operator/bind.rs", "table"),
    ("src/operator/bind.rs", "caller"),
    ("src/operator/catalog.rs", "table"),
];

#[test]
fn imports_follow_lib_rs() {
    imports::check(env!("CARGO_MANIFEST_DIR"), "src/lib.rs", EXCEPTIONS);
}
