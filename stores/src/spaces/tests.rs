//! Spaces compute the distances of their definition, to the bit, and name themselves so that they can be made again.

use std::fs;
use std::path::Path;

use arrow_array::{ArrayRef, StringArray, UInt32Array};
use boxwork_kernels::distance::{
    Distance as _, Dtw, Edit, EditCosts, Emd, Hausdorff, Jaccard, LetterMatrix, Levenshtein, Lp, Properties,
};
use boxwork_kernels::interrupt::never;
use boxwork_kernels::sqfd::{SignatureRef, reference};
use boxwork_kernels::vector::VectorMeasure;

use super::*;
use crate::any_kind::named as kind_named;
use crate::kinds::{Kind, Sets, Texts, Vectors};
use crate::object_column;
use crate::object_store::ObjectStore;
use crate::signature_store::{SignatureStore, StoreError, StoreInfo};
use crate::space::Scratch;
use crate::testing;

fn column(folder: &Path, kind: &str, line: &dyn Fn(u64) -> String) -> Arc<dyn Store> {
    let path = folder.join(format!("{}.jsonl", kind));
    let lines = (0..5000).map(|id| format!("{{\"object\": {}}}\n", line(id)));
    fs::write(&path, lines.collect::<String>()).unwrap();
    object_column::open(&path, None, "name", Some(kind_named(kind).unwrap())).unwrap()
}

fn number(i: u64, j: u64) -> f64 {
    ((i * 7 + j * 13) * 2_654_435_761 % 1000) as f64 / 100.0
}

fn vectors(folder: &Path) -> Arc<dyn Store> {
    column(folder, "vectors", &|i| format!("[{}, {}, {}]", number(i, 0), number(i, 1), number(i, 2)))
}

fn texts(folder: &Path) -> Arc<dyn Store> {
    column(folder, "texts", &|i| {
        let letters = (0..i % 11).map(|j| ['a', 'b', 'é'][((i * 31 + j * 17) % 7 % 3) as usize]);
        format!("\"{}\"", letters.collect::<String>())
    })
}

fn sets(folder: &Path) -> Arc<dyn Store> {
    column(folder, "sets", &|i| {
        let elements = (0..i % 9).map(|j| ((i * 5 + j * j * 3) % 23).to_string());
        format!("[{}]", elements.collect::<Vec<_>>().join(", "))
    })
}

fn options(distance: &str, ground: &str) -> DistanceOptions {
    let p = (distance == "lp").then_some(3.0);
    DistanceOptions { p, ground: ground.to_owned(), ..DistanceOptions::named(distance) }
}

/// Compares every way to compute a distance with the definition, for queries that are objects of the store.
fn check(options: &DistanceOptions, store: &Arc<dyn Store>, definition: &dyn Fn(u64, u64) -> f64) {
    let ids: Vec<u64> = store.among(0..store.ids_count()).step_by(7).collect();
    let is_signed = options.properties().unwrap().is_some_and(|properties| properties.signed);
    for root in [false, true].into_iter().filter(|root| !root || !is_signed) {
        let options = DistanceOptions { root, ..options.clone() };
        let space = open(&options, Arc::clone(store)).unwrap();
        assert_eq!(space.measure(), options.text());
        assert_eq!(DistanceOptions::parse(&space.measure()).unwrap().text(), options.text());
        assert_eq!(Some(space.properties()), options.properties().unwrap());
        let wanted = |a: u64, b: u64| if root { definition(a, b).sqrt() } else { definition(a, b) };
        let between = |a: u64, b: u64| wanted(a.min(b), a.max(b));
        for query in [ids[0], ids[3], ids[ids.len() - 1]] {
            let wanted: Vec<f64> = ids.iter().map(|id| wanted(query, *id)).collect();
            let objects = store.objects(&[ids[1], query]).unwrap();
            assert_eq!(*objects.data_type(), store.object_type());
            let prepared = Arc::clone(&space).prepare(&objects, 1).unwrap();
            let mut found = vec![f64::NAN; ids.len()];
            prepared.exact(&ids, &mut found).unwrap();
            assert_eq!(found, wanted, "{}", options.text());
            prepared.fast(&mut Scratch::default(), &ids, &mut found).unwrap();
            if prepared.is_exact() {
                assert_eq!(found, wanted, "{}", options.text());
            }
            prepared
                .lend(&never, &mut |distance| found = ids.iter().map(|id| distance(*id)).collect())
                .unwrap();
            assert_eq!(found, wanted, "{}", options.text());
            // For two objects of the store, the first argument is the one with the smaller id.
            let wanted: Vec<f64> = ids.iter().map(|id| between(query, *id)).collect();
            let pairs: Vec<[u64; 2]> = ids.iter().map(|id| [*id, query]).collect();
            space.between(&pairs, &mut found).unwrap();
            assert_eq!(found, wanted, "{}", options.text());
            space
                .lend(&never, &mut |distance| found = ids.iter().map(|id| distance(query, *id)).collect())
                .unwrap();
            assert_eq!(found, wanted, "{}", options.text());
            let none = store.ids_count();
            assert!(prepared.exact(&[none], &mut [0.0]).is_err());
            assert!(space.between(&[[none, 0]], &mut [0.0]).is_err());
            assert!(space.lend(&never, &mut |distance| assert!(distance(0, none).is_nan())).is_err());
            assert!(prepared.lend(&never, &mut |distance| assert!(distance(none).is_nan())).is_err());
        }
    }
}

/// A distance as a function of ids.
fn of<K: Kind>(
    store: &Arc<dyn Store>,
    distance: impl Fn(K::Item<'_>, K::Item<'_>) -> f64,
) -> impl Fn(u64, u64) -> f64 {
    let store = ObjectStore::<K>::of(store).unwrap();
    move |a, b| {
        let found = store.read::<_, StoreError>(|objects| Ok(distance(objects.item(a)?, objects.item(b)?)));
        found.unwrap()
    }
}

#[test]
fn columns_say_the_distances_of_the_definition() {
    let folder = tempfile::tempdir().unwrap();
    let (vectors, texts, sets) = (vectors(folder.path()), texts(folder.path()), sets(folder.path()));
    for (name, lp) in [("l1", Lp::L1), ("l2", Lp::L2), ("linf", Lp::LINF), ("lp", Lp::new(3.0).unwrap())] {
        check(
            &options(name, "l2"),
            &vectors,
            &of::<Vectors>(&vectors, |a, b| lp.distance(&a.widened(), &b.widened())),
        );
    }
    for measure in [VectorMeasure::InnerProduct, VectorMeasure::Cosine] {
        let definition = of::<Vectors>(&vectors, |a, b| measure.between(&a.widened(), &b.widened()));
        check(&options(measure.name(), "l2"), &vectors, &definition);
    }
    let levenshtein = of::<Texts>(&texts, |a, b| Levenshtein.distance(a, b));
    check(&options("levenshtein", "l2"), &texts, &levenshtein);
    let costs = EditConstants { insert: Some(3), delete: Some(3), replace: Some(5), matrix: None };
    let edit = Edit::new(EditCosts::new(3, 3, 5).unwrap()).unwrap();
    let by_costs = DistanceOptions { costs, ..DistanceOptions::named("edit") };
    check(&by_costs, &texts, &of::<Texts>(&texts, |a, b| edit.reference(a, b)));
    let (matrix, file) = ("a b\na 0 2\nb 2 0\n", folder.path().join("costs.txt"));
    fs::write(&file, matrix).unwrap();
    let costs = EditCosts::new(3, 3, 5).unwrap();
    let edit = Edit::new(costs.with_matrix(Arc::new(LetterMatrix::parse(matrix).unwrap())).unwrap()).unwrap();
    let mut by_matrix = by_costs.clone();
    by_matrix.costs.matrix = Some(file.to_str().unwrap().to_owned());
    check(&by_matrix, &texts, &of::<Texts>(&texts, |a, b| edit.reference(a, b)));
    for band in [None, Some(1)] {
        let (options, dtw) = (DistanceOptions { band, ..DistanceOptions::named("dtw") }, Dtw::new(band));
        check(&options, &vectors, &of::<Vectors>(&vectors, |a, b| dtw.distance(&a.widened(), &b.widened())));
    }
    check(&options("jaccard", "l2"), &sets, &of::<Sets>(&sets, |a, b| Jaccard.distance(a, b)));
}

#[test]
fn signatures_say_the_distances_of_the_definition() {
    let folder = tempfile::tempdir().unwrap();
    let less = testing::without(&testing::store(folder.path(), 190), (0..190).filter(|id| id % 19 < 4));
    let store: Arc<dyn Store> = Arc::<SignatureStore>::clone(&less);
    let with = |a: u64, b: u64, f: &dyn Fn(SignatureRef<'_>, SignatureRef<'_>) -> f64| {
        let found = less.read::<_, StoreError>(|objects| Ok(f(objects.signature(a)?, objects.signature(b)?)));
        found.unwrap()
    };
    for (ground, lp) in [("l1", Lp::L1), ("l2", Lp::L2), ("linf", Lp::LINF)] {
        let (hausdorff, emd) = (Hausdorff::new(lp), Emd::new(lp));
        check(&options("hausdorff", ground), &store, &|a, b| with(a, b, &|a, b| hausdorff.distance(a, b)));
        check(&options("emd", ground), &store, &|a, b| with(a, b, &|a, b| emd.distance(a, b)));
    }
    let measure = options("sqfd", "l2").measure().unwrap();
    check(&options("sqfd", "l2"), &store, &|a, b| with(a, b, &|a, b| reference::sqfd(&measure, a, b)));
}

#[test]
fn a_query_far_outside_widens_the_slack_of_the_earth_movers_distance() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = testing::store(folder.path(), 20);
    let space = open(&options("emd", "l2"), store).unwrap();
    let mut builder = crate::signature::SignatureBuilder::new(&testing::COORDINATES).unwrap();
    builder.push(&[&[1e6], &[1e6]], &[1.0]).unwrap();
    let objects: ArrayRef = Arc::new(builder.finish());
    let slack = space.slack();
    let prepared = space.prepare(&objects, 0).unwrap();
    assert!(prepared.slack().absolute > 1e4 * slack.absolute);
}

#[test]
fn auto_is_the_usual_distance_of_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let auto = DistanceOptions { root: true, ..DistanceOptions::default() };
    assert_eq!(auto.properties(), Ok(None));
    let signatures: Arc<dyn Store> = testing::store(folder.path(), 5);
    for (store, measure) in [
        (vectors(folder.path()), "root of l2"),
        (texts(folder.path()), "root of levenshtein"),
        (sets(folder.path()), "root of jaccard"),
        (signatures, "root of gaussian similarity over l2 at alpha 0.2"),
    ] {
        assert_eq!(open(&auto, store).unwrap().measure(), measure);
    }
}

#[test]
fn alpha_is_the_given_one_or_the_stores_or_a_fifth() {
    let folder = tempfile::tempdir().unwrap();
    for (kept, given, used, words) in [
        (Some(1.28), None, 1.28, "(the store's alpha)"),
        (Some(1.28), Some(0.1), 0.1, "(given; the store's alpha is 1.28)"),
        (None, None, 0.2, "(the store keeps no alpha; 0.2 is the default)"),
        (None, Some(0.2), 0.2, "(the store keeps no alpha; 0.2 is the default)"),
        (None, Some(3.0), 3.0, "(given; the store keeps no alpha)"),
    ] {
        let info = StoreInfo { alpha: kept, ..StoreInfo::default() };
        let store: Arc<dyn Store> = testing::store_of(folder.path(), &[("a", 1), ("b", 2)], &info);
        let of_alpha = DistanceOptions { alpha: given, ..DistanceOptions::default() };
        let space = open(&of_alpha, Arc::clone(&store)).unwrap();
        let measure = format!("gaussian similarity over l2 at alpha {used:?}");
        assert_eq!(space.measure(), measure);
        assert_eq!(in_words(&*space), format!("{measure} {words}"));
        let emd = open(&DistanceOptions { alpha: given, ..options("emd", "l2") }, store).unwrap();
        assert_eq!(in_words(&*emd), "emd over l2");
    }
}

#[test]
fn flags_name_a_distance_to_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let (signatures, vectors) = (testing::store(folder.path(), 5), vectors(folder.path()));
    let flags = |text: &str, store: &dyn Store| DistanceOptions::parse(text).unwrap().flags(store);
    let of_signatures = |text: &str| flags(text, &*signatures);
    assert_eq!(of_signatures("gaussian similarity over l2 at alpha 1.28"), " --alpha 1.28");
    assert_eq!(
        of_signatures("root of heuristic similarity over l1 at alpha 0.5"),
        " --similarity heuristic --ground l1 --alpha 0.5 --root"
    );
    assert_eq!(of_signatures("emd over linf"), " --distance emd --ground linf");
    assert_eq!(flags("l2", &*vectors), "");
    assert_eq!(flags("root of lp with p 2.5", &*vectors), " --distance lp --p 2.5 --root");
}

#[test]
fn what_does_not_go_together_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |options: DistanceOptions, words: &[&str]| {
        let error = options.properties().unwrap_err();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
        assert_eq!(open(&options, vectors(folder.path())).unwrap_err().to_string(), error);
    };
    refused(DistanceOptions { p: Some(2.0), ..options("l2", "l2") }, &["`p` is the exponent of lp", "l2"]);
    refused(DistanceOptions { p: None, ..options("lp", "l2") }, &["lp needs its exponent"]);
    refused(DistanceOptions { p: Some(0.5), ..options("lp", "l2") }, &["p is 0.5"]);
    refused(options("emd", "l2_squared"), &["emd over l2_squared is no metric", "l1, l2 or linf"]);
    refused(options("sqfd", "l1"), &["gaussian", "use l2"]);
    refused(options("cosin", "l2"), &["no distance `cosin`", "l1, l2, linf, lp, ip, cosine, canberra"]);
    refused(DistanceOptions { root: true, ..options("ip", "l2") }, &["ip is negative", "remove `root`"]);
    for text in
        ["", "auto", "root of auto", "lp", "lp with p 0.5", "emd over l9", "l2 over l2", "l2 at alpha 1"]
    {
        assert_eq!(DistanceOptions::parse(text), None, "{text}");
    }
    let wrong = |distance: &str, store: Arc<dyn Store>, words: &[&str]| {
        let error = open(&options(distance, "l2"), store).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    wrong("l2", texts(folder.path()), &["l2 is a distance of vectors", "texts.jsonl", "holds texts"]);
    wrong("jaccard", vectors(folder.path()), &["jaccard is a distance of sets", "write `holds: sets`"]);
    wrong("emd", vectors(folder.path()), &["emd is a distance of signatures", "vectors.jsonl"]);
    wrong("sqfd", sets(folder.path()), &["sqfd is a distance of signatures", "sets.jsonl"]);
    wrong("l2", testing::store(folder.path(), 3), &["l2 is a distance of vectors", "holds signatures"]);
}

#[test]
fn an_index_over_a_distance_without_the_triangle_inequality_is_refused_with_a_way_out() {
    let allowed = |distance: &str, root: bool| {
        let options = DistanceOptions { root, ..options(distance, "l2") };
        allow_index(&options.properties().unwrap().unwrap())
    };
    for distance in ["l1", "l2", "linf", "lp", "canberra", "levenshtein", "hamming", "emd", "sqfd"] {
        assert_eq!((allowed(distance, false), allowed(distance, true)), (Ok(()), Ok(())), "{distance}");
    }
    assert_eq!(allowed("cosine", true), Ok(()));
    let (ip, cosine) = (allowed("ip", false).unwrap_err(), allowed("cosine", false).unwrap_err());
    for (said, name) in [(&ip, "ip"), (&cosine, "cosine")] {
        let command = format!("boxwork index --codes planes --distance {name}");
        assert!(said.contains("d(a, c) <= d(a, b) + d(b, c)") && said.contains(&command), "{said}");
    }
    assert!(cosine.contains("`root: true`") && !ip.contains("root"), "{cosine} {ip}");
}

#[test]
fn queries_that_are_no_objects_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (vectors, texts, sets) = (vectors(folder.path()), texts(folder.path()), sets(folder.path()));
    let refused = |distance: &str, store: &Arc<dyn Store>, object: ArrayRef, words: &str| {
        let space = open(&options(distance, "l2"), Arc::clone(store)).unwrap();
        let error = space.prepare(&object, 0).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    refused("l2", &vectors, Arc::clone(&text), "vectors.jsonl` are vectors");
    refused("l2", &vectors, Arc::new(UInt32Array::from(vec![1])), "it is UInt32, which is no object");
    refused("levenshtein", &texts, sets.objects(&[3]).unwrap(), "texts.jsonl` are texts");
    let mut short = arrow_array::builder::ListBuilder::new(arrow_array::builder::Float32Builder::new());
    short.values().append_slice(&[1.0]);
    short.append(true);
    refused("l1", &vectors, Arc::new(short.finish()), "it has 1 numbers, and the objects");
    let mut set = arrow_array::builder::ListBuilder::new(arrow_array::builder::UInt32Builder::new());
    set.values().append_slice(&[3, 1]);
    set.append(true);
    refused("jaccard", &sets, Arc::new(set.finish()), "element 1 of the set does not follow");
    let store: Arc<dyn Store> = testing::store(folder.path(), 3);
    refused("emd", &store, text, "signatures");
}

#[test]
fn columns_are_stores_of_batches() {
    let folder = tempfile::tempdir().unwrap();
    let store = vectors(folder.path());
    assert_eq!((store.ids_count(), store.batches(), store.batch_ids(1)), (5000, 2, 4096..5000));
    assert_eq!(store.locate(4097).unwrap(), (1, 1));
    assert!(store.locate(5000).unwrap_err().to_string().contains("no object 5000"));
    let mut names = Vec::new();
    store.each_name(1, &mut |id, name| names.push((id, name.to_owned()))).unwrap();
    assert_eq!((names.len(), &names[1]), (904, &(4097, "4097".to_owned())));
    assert_eq!((store.name(7).unwrap(), store.find("7").unwrap()), ("7".to_owned(), Some(7)));
    assert_eq!((store.count(10..20), store.among(3..5).collect::<Vec<_>>()), (10, vec![3, 4]));
    // One number, one name or the kind changes the fingerprint.
    let again = vectors(folder.path());
    assert_eq!(store.fingerprint(), again.fingerprint());
    assert_ne!(store.number(), again.number());
    let path = folder.path().join("other.jsonl");
    let text = fs::read_to_string(store.path()).unwrap();
    for (from, to) in [("[0, ", "[0.5, "), ("{\"object\": [0", "{\"name\": \"x\", \"object\": [0")] {
        assert!(text.contains(from), "{}", &text[..80]);
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let other = object_column::open(&path, None, "name", None).unwrap();
        assert_ne!(other.fingerprint(), store.fingerprint());
    }
}

#[test]
fn every_distance_is_listed_once_with_what_it_is_of() {
    let names: Vec<&str> = DISTANCES.iter().map(|distance| distance.name()).collect();
    assert_eq!(
        names,
        [
            "l1",
            "l2",
            "linf",
            "lp",
            "ip",
            "cosine",
            "canberra",
            "dtw",
            "levenshtein",
            "edit",
            "jaccard",
            "hamming",
            "hausdorff",
            "emd",
            "sqfd"
        ]
    );
    let of: Vec<&str> = DISTANCES.iter().map(|distance| distance.of()).collect();
    assert_eq!(of[6..13], ["vectors", "vectors", "texts", "texts", "sets", "codes", "signatures"]);
    assert_eq!(options("sqfd", "l2").properties(), Ok(Some(Properties::hilbert("sqfd"))));
}

#[test]
fn costs_without_a_distance_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |options: &DistanceOptions| options.properties().unwrap_err();
    let edit = |insert, delete, matrix: Option<&str>| {
        let costs = EditConstants { insert, delete, replace: None, matrix: matrix.map(str::to_owned) };
        DistanceOptions { costs, ..DistanceOptions::named("edit") }
    };
    assert!(refused(&edit(Some(0), None, None)).contains("`insert` costs 0"));
    assert!(refused(&edit(Some(2), None, None)).contains("`insert` costs 2 and `delete` 1"));
    let of_texts = DistanceOptions { distance: "levenshtein".to_owned(), ..edit(Some(2), Some(2), None) };
    assert!(refused(&of_texts).contains("write `distance: edit`"));
    assert!(refused(&DistanceOptions { band: Some(3), ..DistanceOptions::named("l2") }).contains("`band`"));
    // No index of pivots is sound: of series, and of a matrix, which may break the triangle inequality.
    let of_matrix = edit(None, None, Some("costs.txt")).properties().unwrap().unwrap();
    let of_series = DistanceOptions::named("dtw").properties().unwrap().unwrap();
    for properties in [of_matrix, of_series] {
        assert!(allow_index(&properties).unwrap_err().contains("triangle inequality"));
    }
    // The file and the line of a bad matrix are named.
    let file = folder.path().join("costs.txt");
    let options = edit(None, None, Some(file.to_str().unwrap()));
    let fault = || open(&options, texts(folder.path())).unwrap_err().to_string();
    assert!(fault().contains("costs.txt"));
    for (matrix, says) in
        [("a b\na 0 1\n", "line 2"), ("a b\na 0 1\nb 2 0", "`a` by `b`"), ("a\na 1", "by itself")]
    {
        fs::write(&file, matrix).unwrap();
        assert!(fault().contains(says), "{}", fault());
    }
}
