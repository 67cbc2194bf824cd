//! The check that imports point down (`support/imports.rs`) finds the imports that point up, and no other; and the
//! check of this package itself.

#[path = "support/imports.rs"]
mod imports;

use std::fs;

use tempfile::TempDir;

/// A crate of these files.
fn written(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder for the test");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    folder
}

const LIB: &str = "mod a;\n\npub mod b;\n\nmod c;\n\npub use c::Item as Thing;\npub struct Own;\n";

#[test]
fn imports_that_point_down_are_none_of_its_business() {
    let b = r##"
        //! use crate::c::Item;
        use crate::a::{self, Other};
        use crate::{Own, a::nested::{Deep, Deeper as D}};
        use std::collections::BTreeMap;
        pub mod child;
        use child::Inner;
        fn f<'a>(_: &'a str) -> char { let _ = "crate::c::f()"; let _ = r#"crate::c"#; /* crate::c */ '"' }
        #[cfg(test)]
        use crate::c::Item;
        #[cfg(test)]
        mod tests { use crate::c::Item; fn g() { crate::c::f(); } }
        #[cfg(all(test, unix))]
        fn only_in_tests() { crate::c::f(); }
        mod inline { use super::child::Inner; use super::super::a; }
    "##;
    let child = "use super::Outer;\nuse crate::a;\nmod x;\n\nmod y;\n";
    let files = [("b/child/x.rs", ""), ("b/child/y.rs", "use super::x; use crate::a;")];
    let modules = [("lib.rs", LIB), ("a.rs", "pub mod nested;"), ("b.rs", b), ("c/mod.rs", "use crate::b;")];
    let all = [&modules[..], &files, &[("b/child.rs", child), ("a/nested.rs", "use super::Own;")]].concat();
    imports::check(written(&all).path().to_str().expect("a path in UTF-8"), "lib.rs", &[]);
}

#[test]
fn imports_that_point_up_are_named_with_their_places() {
    let b = "\nuse super::{\n    a,\n    c::{Item, f as g},\n};\nfn h() { crate::c::f::<u8>(); }\n";
    let c = "pub mod late;\n\npub mod later;\n";
    let late = "mod inline {\n    use super::super::later;\n}\nuse crate::Thing;\n";
    let files = [
        ("lib.rs", LIB),
        ("a.rs", "use crate::Thing;"),
        ("b.rs", b),
        ("c.rs", c),
        ("c/late.rs", late),
        ("c/later.rs", ""),
    ];
    let expected = [
        "a.rs:1: `Thing` is of `c`, below `a` in lib.rs",
        "b.rs:4: `c::Item` is of `c`, below `b` in lib.rs",
        "b.rs:4: `c::f` is of `c`, below `b` in lib.rs",
        "b.rs:6: `c::f` is of `c`, below `b` in lib.rs",
        "c/late.rs:2: `c::later` is of `later`, below `late` in c.rs",
    ];
    let folder = written(&files);
    let upward = imports::upward(folder.path(), "lib.rs");
    assert_eq!(upward.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
}

#[test]
#[should_panic(expected = "remove them: [(\"b.rs\", \"c\")]")]
fn an_exception_that_no_import_needs_fails() {
    let folder = written(&[("lib.rs", LIB), ("a.rs", "use crate::Thing;"), ("b.rs", ""), ("c.rs", "")]);
    let folder = folder.path().to_str().expect("a path in UTF-8");
    imports::check(folder, "lib.rs", &[("a.rs", "c"), ("b.rs", "c")]);
}

#[test]
fn imports_follow_lib_rs() {
    imports::check(env!("CARGO_MANIFEST_DIR"), "pipelines/src/lib.rs", &[]);
}
