//! Answers beside a sort of all candidates by the distance of each.

use std::path::Path;

use arrow_array::builder::{Float32Builder, ListBuilder};
use arrow_array::{ArrayRef, StringArray, UInt32Array};
use arrow_schema::{DataType, Field};
use boxwork_kernels::chance::Random;
use boxwork_runtime::harness::Harness;
use boxwork_runtime::operator::Resource;
use boxwork_runtime::parameter::Value;
use boxwork_stores::kinds::Vectors;
use boxwork_stores::object_store::Rows;
use boxwork_stores::signature_store::StoreInfo;
use boxwork_stores::space::SharedSpace;
use boxwork_stores::spaces::{self, DistanceOptions};
use boxwork_stores::store::Store;
use boxwork_stores::testing;

use super::*;

/// Objects of the store.
const OBJECTS: u64 = 700;
const DIMENSIONS: usize = 5;

fn vectors(numbers: &[f32]) -> ArrayRef {
    let item = Arc::new(Field::new("item", DataType::Float32, false));
    let mut lists = ListBuilder::new(Float32Builder::new()).with_field(item);
    for row in numbers.chunks_exact(DIMENSIONS) {
        lists.values().append_slice(row);
        lists.append(true);
    }
    Arc::new(lists.finish())
}

/// Whole numbers, so that many distances are equal.
fn numbers(random: &mut Random, count: u64) -> Vec<f32> {
    (0..count * DIMENSIONS as u64).map(|_| random.below(4) as f32 - 1.0).collect()
}

fn space_of(distance: &str, objects: &ArrayRef) -> Arc<dyn Space> {
    let names = StringArray::from_iter_values((0..OBJECTS).map(|row| row.to_string()));
    let mut rows = Rows::new(Vectors::new(DIMENSIONS));
    rows.append(names, std::slice::from_ref(objects)).unwrap();
    let store = rows.finish_without(Vec::new(), Path::new("rows"), None).unwrap();
    spaces::open(&DistanceOptions::named(distance), Arc::new(store) as Arc<dyn Store>).unwrap()
}

fn queries(numbers: &[f32], first: u32) -> Envelope {
    let count = (numbers.len() / DIMENSIONS) as u32;
    let columns: [(&str, ArrayRef); 3] = [
        // Numbers of queries have gaps.
        ("query", Arc::new(UInt32Array::from_iter_values((first..first + count).map(|query| 2 * query)))),
        ("name", Arc::new(StringArray::from_iter_values((0..count).map(|query| query.to_string())))),
        ("object", vectors(numbers)),
    ];
    Envelope::from_columns(columns).unwrap()
}

fn harness(space: &Arc<dyn Space>, k: usize, range: Option<f64>) -> Harness {
    let mut given = vec![("k", Value::Integer(k as i64)), ("space", Value::Text("s".into()))];
    given.extend(range.map(|range| ("range", Value::Number(range))));
    let space: Resource = Arc::new(SharedSpace(Arc::clone(space)));
    Harness::with_resources(&RANK, given, [("s", space)]).unwrap()
}

fn answers(
    mut harness: Harness,
    side: &[Envelope],
    rows: &[(u32, u64)],
    of_envelope: usize,
) -> Vec<(u32, u64, f64)> {
    side.iter().for_each(|side| harness.give(QUERY, side.clone()));
    harness.room(100);
    for (nth, rows) in rows.chunks(of_envelope).enumerate() {
        harness.give(CANDIDATES, testing::candidates(rows));
        // Some firings find several envelopes.
        if nth % 3 == 0 {
            harness.run().unwrap();
        }
    }
    harness.end(CANDIDATES);
    harness.run().unwrap();
    assert!(harness.is_done());
    testing::distance_rows(&harness.taken(NEAREST))
}

/// Candidates in the order of an approximate search, or in any order.
fn check(distance: &str, k: usize, range: Option<f64>, of_envelope: usize, is_shuffled: bool) {
    let mut random = Random::new(k as u64 * 31 + of_envelope as u64);
    let objects = vectors(&numbers(&mut random, OBJECTS));
    let space = space_of(distance, &objects);
    let asked = numbers(&mut random, 9);
    // The queries come in two envelopes.
    let (first, second) = asked.split_at(4 * DIMENSIONS);
    let side = [queries(first, 0), queries(second, 4)];
    let (mut rows, mut expected) = (Vec::new(), Vec::new());
    // The last query has no candidates.
    for query in 0..8u32 {
        let share = 1 + random.below(20);
        let ids: Vec<u64> = (0..OBJECTS).filter(|_| random.below(20) < share).collect();
        let prepared = Arc::clone(&space).prepare(&vectors(&asked), query as usize).unwrap();
        let mut ranked: Vec<(f64, u64)> = Vec::new();
        for id in ids {
            let mut distance = [0.0];
            prepared.exact(&[id], &mut distance).unwrap();
            rows.push((2 * query, id));
            ranked.push((distance[0], id));
        }
        ranked.retain(|found| found.0 <= range.unwrap_or(f64::INFINITY));
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        expected.extend(ranked.into_iter().take(k).map(|(distance, id)| (2 * query, id, distance)));
    }
    if is_shuffled {
        rows.sort_by_key(|row| (row.1 * 7919 + u64::from(row.0) * 31) % 1009);
    }
    assert_eq!(answers(harness(&space, k, range), &side, &rows, of_envelope), expected);
}

#[test]
fn ranks_as_a_sort_of_all() {
    for (nth, distance) in ["l2", "ip", "cosine", "l1"].into_iter().enumerate() {
        for (k, of_envelope) in [(1, 50), (10, 4096), (100, 333), (5000, 100)] {
            check(distance, k, None, of_envelope, false);
            check(distance, k, Some([2.5, -2.0, 0.4, 5.0][nth]), of_envelope, true);
        }
    }
    check("l2", 3, None, 1, true);
}

#[test]
fn distances_that_are_fast_at_first_are_computed_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..40).map(|idx| format!("a/{idx}")).collect();
    let objects: Vec<(&str, u64)> =
        names.iter().map(String::as_str).zip((0..40).map(|seed| seed / 2)).collect();
    let space = testing::any_space(&testing::space(testing::store_of(
        folder.path(),
        &objects,
        &StoreInfo::default(),
    )));
    let side = testing::queries(&[("q0", 3), ("q1", 77)]);
    let prepared = Arc::clone(&space).prepare(side.column("object").unwrap(), 1).unwrap();
    assert!(!prepared.is_exact());
    let ids: Vec<u64> = (0..40).collect();
    let mut distances = vec![0.0; 40];
    prepared.exact(&ids, &mut distances).unwrap();
    let mut ranked: Vec<(f64, u64)> = distances.into_iter().zip(ids).collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let rows: Vec<(u32, u64)> = (0..40).rev().map(|id| (1, id)).collect();
    let found = answers(harness(&space, 7, None), &[side], &rows, 9);
    let expected: Vec<_> = ranked.into_iter().take(7).map(|(distance, id)| (1, id, distance)).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_candidate_of_an_unknown_query_or_object_is_an_error_that_names_it() {
    let mut random = Random::new(1);
    let space = space_of("l2", &vectors(&numbers(&mut random, OBJECTS)));
    for (row, wanted) in [((7, 3), "query 7"), ((0, OBJECTS), "700")] {
        let mut harness = harness(&space, 3, None);
        harness.give(QUERY, queries(&numbers(&mut random, 2), 0));
        harness.give(CANDIDATES, testing::candidates(&[row]));
        let error = harness.run().unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    let mut harness = harness(&space, 3, None);
    let short: ArrayRef = {
        let item = Arc::new(Field::new("item", DataType::Float32, false));
        let mut lists = ListBuilder::new(Float32Builder::new()).with_field(item);
        for length in [DIMENSIONS, DIMENSIONS - 1, DIMENSIONS] {
            lists.values().append_slice(&vec![1.0; length]);
            lists.append(true);
        }
        Arc::new(lists.finish())
    };
    let columns: [(&str, ArrayRef); 3] = [
        ("query", Arc::new(UInt32Array::from(vec![0, 1, 2]))),
        ("name", Arc::new(StringArray::from(vec!["a", "b", "c"]))),
        ("object", short),
    ];
    harness.give(QUERY, Envelope::from_columns(columns).unwrap());
    harness.give(CANDIDATES, testing::candidates(&[(0, 1)]));
    let error = harness.run().unwrap_err().to_string();
    assert!(error.contains("query 1") && error.contains("4 numbers"), "{error}");
}
