//! The order of candidates and the range that ends it.

use boxwork_runtime::harness::Harness;
use boxwork_runtime::parameter::Value;
use proptest::prelude::*;

use super::*;

fn envelope(rows: &[(u32, u64, f64)]) -> Envelope {
    let columns: [(&str, ArrayRef); 3] = [
        ("query", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.0)))),
        ("id", Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.1)))),
        ("lower", Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.2)))),
    ];
    Envelope::from_columns(columns).unwrap()
}

fn harness(order: &str, first: i64, most: i64, hold: i64) -> Harness {
    let given = [
        ("order", Value::Text(order.into())),
        ("first", Value::Integer(first)),
        ("most", Value::Integer(most)),
        ("hold", Value::Integer(hold)),
    ];
    Harness::new(&PREFILTER, given).unwrap()
}

fn rows(envelope: &Envelope) -> Vec<(u32, u64, f64)> {
    let (numbers, ids) = (envelope.u32s("query").unwrap(), envelope.u64s("id").unwrap());
    let lowers = envelope.f64s("lower").unwrap().iter().enumerate();
    lowers.map(|(row, lower)| (numbers[row], ids[row], *lower)).collect()
}

#[test]
fn the_least_bound_first_in_growing_blocks_until_the_range_ends_it() {
    let mut harness = harness("best_first", 2, 8, 1000);
    harness.room(1);
    let all: Vec<(u32, u64, f64)> = (0..40).map(|id| (7, id, (id * 17 % 40) as f64)).collect();
    for part in all.chunks(9) {
        harness.give(CANDIDATES_IN, envelope(part));
    }
    harness.run().unwrap();
    assert!(harness.taken(CANDIDATES_OUT).is_empty(), "the least may be yet to come");
    harness.end(CANDIDATES_IN);
    let mut lowers = Vec::new();
    let mut blocks = Vec::new();
    loop {
        harness.run().unwrap();
        let taken = harness.taken(CANDIDATES_OUT);
        let Some(block) = taken.first() else { break };
        blocks.push(block.rows());
        lowers.extend(rows(block).iter().map(|row| row.2));
        if blocks.len() == 3 {
            harness.set_hint(RANGE, 7, 18.0);
        }
    }
    assert!(harness.is_done());
    assert_eq!(blocks, [2, 4, 8, 5]);
    // A bound equal to the range is within it.
    assert_eq!(lowers, (0..19).map(f64::from).collect::<Vec<_>>());
}

#[test]
fn after_the_most_promising_ones_the_others_follow_as_they_are_stored() {
    let mut harness = harness("best_first", 1000, 1000, 1 << 20);
    let count = 4 * SORTED as u64;
    let lower = |id: u64| (id * 7919 % count) as f64;
    let all: Vec<(u32, u64, f64)> = (0..count).map(|id| (3, id, lower(id))).collect();
    harness.give(CANDIDATES_IN, envelope(&all));
    harness.end(CANDIDATES_IN);
    harness.room(1);
    let mut found: Vec<(u32, u64, f64)> = Vec::new();
    while !harness.is_done() {
        harness.run().unwrap();
        found.extend(harness.taken(CANDIDATES_OUT).iter().flat_map(rows));
        if found.len() > 2 * SORTED {
            harness.set_hint(RANGE, 3, 3.0 * SORTED as f64);
        }
    }
    let (nearest, others) = found.split_at(SORTED + 1);
    assert!(nearest.iter().enumerate().all(|(place, row)| row.2 == place as f64), "by their bounds");
    assert!(others.is_sorted_by_key(|row| row.1), "as they are stored");
    let late = others.iter().skip(SORTED + 1000);
    assert!(late.clone().count() > 0 && late.clone().all(|row| row.2 <= 3.0 * SORTED as f64));
}

#[test]
fn of_many_the_first_part_is_about_as_large_as_it_is_to_be() {
    let mut harness = harness("best_first", 4096, 4096, 1 << 20);
    let count = 6 * LOOKED_AT as u64 + 17;
    let all: Vec<(u32, u64, f64)> = (0..count).map(|id| (0, id, (id * 7919 % count) as f64)).collect();
    for part in all.chunks(1 << 15) {
        harness.give(CANDIDATES_IN, envelope(part));
    }
    harness.end(CANDIDATES_IN);
    let mut found = Vec::new();
    while !harness.is_done() {
        harness.run().unwrap();
        found.extend(harness.taken(CANDIDATES_OUT).iter().flat_map(rows));
    }
    let sorted = found.iter().enumerate().take_while(|(place, row)| row.2 == *place as f64).count();
    assert!((SORTED * 3 / 4..SORTED * 5 / 4).contains(&sorted), "{sorted} by their bounds");
    found.sort_by_key(|row| row.1);
    assert!(found == all, "each once");
}

#[test]
fn what_is_not_known_goes_out_at_once_and_what_is_known_waits() {
    let mut harness = harness("best_first", 4, 64, 1000);
    let known = [(0, 1, 0.5), (0, 2, 0.25)];
    let unknown: Vec<(u32, u64, f64)> = (0..100).map(|id| (u32::from(id >= 70), 10 + id, 0.0)).collect();
    harness.give(CANDIDATES_IN, envelope(&known));
    harness.give(CANDIDATES_IN, envelope(&unknown));
    harness.run().unwrap();
    let taken = harness.taken(CANDIDATES_OUT);
    assert_eq!(taken.iter().map(Envelope::rows).collect::<Vec<_>>(), [64, 6, 30], "a query an envelope");
    assert_eq!(taken.iter().flat_map(rows).collect::<Vec<_>>(), unknown);
    harness.end(CANDIDATES_IN);
    harness.run().unwrap();
    assert!(harness.is_done());
    assert_eq!(harness.taken(CANDIDATES_OUT).iter().flat_map(rows).collect::<Vec<_>>(), [known[1], known[0]]);
}

#[test]
fn the_last_block_is_not_lost() {
    let mut harness = harness("storage", 4, 4, 1000);
    harness.set_hint(RANGE, 0, 0.5);
    // The last object fails, and the block before is not full.
    let all: Vec<(u32, u64, f64)> = (0..11).map(|id| (0, id, if id < 10 { 0.5 } else { 0.6 })).collect();
    harness.give(CANDIDATES_IN, envelope(&all));
    harness.end(CANDIDATES_IN);
    harness.run().unwrap();
    let blocks: Vec<usize> = harness.taken(CANDIDATES_OUT).iter().map(Envelope::rows).collect();
    assert!(harness.is_done());
    assert_eq!(blocks, [4, 4, 2]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn everything_in_range_goes_out_once(
        lowers in prop::collection::vec((0u32..5, 0u32..12), 0..300),
        best_first in any::<bool>(),
        first in 1i64..20,
        most in 1i64..50,
        hold in 1i64..400,
        room in 1usize..4,
        envelope_rows in 1usize..40,
        // New ranges: after which step, for which query, and how far.
        ranges in prop::collection::vec((0usize..40, 0u32..5, 0u32..12), 0..8),
    ) {
        let all: Vec<(u32, u64, f64)> =
            lowers.iter().enumerate().map(|(id, (query, lower))| (*query, id as u64, f64::from(*lower))).collect();
        let mut harness = harness(if best_first { "best_first" } else { "storage" }, first, most, hold);
        harness.room(room);
        let mut waiting = all.chunks(envelope_rows);
        let mut least = BTreeMap::new();
        let mut found = Vec::new();
        for step in 0.. {
            for (_, query, range) in ranges.iter().filter(|range| range.0 == step) {
                let least = least.entry(*query).or_insert(f64::INFINITY);
                *least = f64::min(*least, f64::from(*range));
                harness.set_hint(RANGE, *query, *least);
            }
            match waiting.next() {
                Some(part) => harness.give(CANDIDATES_IN, envelope(part)),
                None => harness.end(CANDIDATES_IN),
            }
            harness.run().unwrap();
            let taken = harness.taken(CANDIDATES_OUT);
            for envelope in &taken {
                let rows = rows(envelope);
                prop_assert!(rows.len() <= most.max(first) as usize);
                prop_assert!(rows.iter().all(|row| row.0 == rows[0].0));
                found.extend(rows);
            }
            if harness.is_done() {
                break;
            }
            prop_assert!(step < 10_000, "it never ends");
        }
        found.sort_by_key(|row| row.1);
        let mut once = found.clone();
        once.dedup_by_key(|row| row.1);
        prop_assert_eq!(once.len(), found.len());
        for row in &all {
            let range = least.get(&row.0).copied().unwrap_or(f64::INFINITY);
            let went_out = found.binary_search_by_key(&row.1, |row| row.1).is_ok();
            prop_assert!(went_out || row.2 > range, "{row:?} is lost within {range}");
        }
    }
}
