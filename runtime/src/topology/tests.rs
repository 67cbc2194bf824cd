//! The invariants of any topology, from any provider.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

/// The invariants of the module's header and of `steal_order.rs`.
fn check(t: &Topology) {
    let n = t.slots_count();
    assert!(n > 0);
    let covers_all = |ranges: Vec<&Range<usize>>| {
        ranges.iter().all(|range| !range.is_empty())
            && ranges.windows(2).all(|pair| pair[0].end == pair[1].start)
            && (ranges[0].start, ranges[ranges.len() - 1].end) == (0, n)
    };
    assert!(covers_all(t.nodes().iter().map(|node| &node.slots).collect()));
    assert!(covers_all(t.cores().iter().map(|core| &core.slots).collect()));
    for slot in 0..n {
        let core = &t.cores()[t.core(slot)];
        assert!(core.slots.contains(&slot) && t.nodes()[t.node(slot)].slots.contains(&slot));
        assert_eq!((core.node, core.cache), (t.node(slot), t.cache(slot)));
        if let Some(idx) = t.cache(slot) {
            assert!(t.caches()[idx].slots.contains(&slot) && t.caches()[idx].node == t.node(slot));
        }

        let rings = t.steal_rings(slot);
        assert!(rings.iter().all(|ring| !ring.slots.is_empty()));
        assert!(rings.windows(2).all(|pair| pair[0].distance <= pair[1].distance));
        for ring in &rings {
            assert!(ring.slots.iter().all(|&other| t.distance(slot, other) == ring.distance));
        }
        let mut others: Vec<usize> = rings.into_iter().flat_map(|ring| ring.slots).chain([slot]).collect();
        others.sort_unstable();
        assert_eq!(others, (0..n).collect::<Vec<_>>());
    }
    for node in 0..t.nodes().len() {
        let mut order = t.node_order(node);
        order.push(node);
        order.sort_unstable();
        assert_eq!(order, (0..t.nodes().len()).collect::<Vec<_>>());
    }
    assert!(!t.to_string().is_empty());
}

fn level(name: &'static str, most: usize) -> impl Strategy<Value = (String, Option<usize>)> {
    prop::option::of(1..=most)
        .prop_map(move |count| (count.map_or(String::new(), |count| format!("{name}:{count} ")), count))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, rng_seed: RngSeed::Fixed(3), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_synthetic_machine_keeps_the_invariants(
        pack in level("pack", 3), numa in level("numa", 3), l3 in level("l3", 3), core in level("core", 4),
        pu in 1usize..=3, take in 0usize..200,
    ) {
        let text = format!("{}{}{}{}pu:{pu}", pack.0, numa.0, l3.0, core.0);
        let t = Topology::synthetic(&text).unwrap();
        let nodes = pack.1.unwrap_or(1) * numa.1.unwrap_or(1);
        let cores = nodes * l3.1.unwrap_or(1) * core.1.unwrap_or(1);
        prop_assert_eq!((t.nodes().len(), t.cores().len(), t.slots_count()), (nodes, cores, cores * pu));
        prop_assert_eq!(t.caches().len(), l3.1.map_or(0, |count| nodes * count));
        check(&t);

        let part = t.first(take);
        prop_assert_eq!(part.slots_count(), take.max(1));
        check(&part);
    }

    #[test]
    fn any_text_is_a_topology_or_an_error_within_it(text in "[ ,:a-z0-9é]{0,24}") {
        if let Err(error) = Topology::synthetic(&text) {
            prop_assert_eq!(&text[error.span()], error.token);
        }
    }
}

fn synthetic(text: &str) -> Topology {
    Topology::synthetic(text).unwrap()
}

fn rings(t: &Topology, slot: usize) -> Vec<(Distance, Vec<usize>)> {
    t.steal_rings(slot).into_iter().map(|ring| (ring.distance, ring.slots)).collect()
}

#[test]
fn this_machine_is_detected() {
    let t = Topology::detect();
    check(&t);
    let allowed = &affinity::allowed().cpus;
    let mut cpus: Vec<usize> = (0..t.slots_count()).filter_map(|slot| t.os_idx(slot)).collect();
    cpus.sort_unstable();
    assert_eq!(&cpus, allowed);
    if cfg!(target_os = "linux") {
        assert!(!allowed.is_empty() && t.slots_count() == allowed.len());
    }
}

#[test]
fn rings_go_from_the_core_to_the_farthest_node() {
    let t = synthetic("numa:3 l3:2 core:2 pu:2");
    let expected = [
        (Distance::Smt, vec![10]),
        (Distance::Cache, vec![8, 9]),
        (Distance::Node, vec![12, 13, 14, 15]),
        (Distance::Remote, vec![19, 20, 21, 22, 23, 16, 17, 18]),
        (Distance::Remote, vec![3, 4, 5, 6, 7, 0, 1, 2]),
    ];
    assert_eq!(rings(&t, 11), expected);
    assert!(rings(&Topology::flat(1), 0).is_empty());
    assert_eq!(rings(&Topology::flat(3), 1), [(Distance::Node, vec![2, 0])]);
}

#[test]
fn near_nodes_come_first() {
    assert_eq!(synthetic("numa:5").node_order(0), [1, 4, 2, 3]);
    assert_eq!(synthetic("numa:5").node_order(3), [4, 2, 0, 1]);
    assert_eq!(synthetic("pack:2 numa:3").node_order(0), [1, 2, 5, 4, 3]);
}

#[test]
fn the_firmware_table_outranks_numbers() {
    let cpus = (0..3).map(|node| Cpu { node: node * 7, cache: None, core: node, os_idx: None }).collect();
    let table = [[10, 30, 20], [30, 10, 20], [20, 20, 10]];
    let row = |node: usize| (0..3).map(|to| (to * 7, table[node][to])).collect();
    let facts =
        (0..3).map(|node| (node * 7, NodeFacts { distances: row(node), ..NodeFacts::default() })).collect();
    let t = assemble(Provider::Sysfs, cpus, &facts, Vec::new());
    assert_eq!(t.node_order(0), [2, 1]);
    assert_eq!(t.nodes()[1].distances, [30, 10, 20]);
    assert_eq!(t.first(2).nodes()[1].distances, [30, 10]);
}

#[test]
fn first_fills_cores_before_siblings_and_nodes_before_others() {
    let t = synthetic("numa:2 core:2 pu:2");
    let shape = |n| {
        let part = t.first(n);
        part.cores().iter().map(|core| (core.node, core.slots.len())).collect::<Vec<_>>()
    };
    assert_eq!(shape(1), [(0, 1)]);
    assert_eq!(shape(2), [(0, 1), (0, 1)]);
    assert_eq!(shape(3), [(0, 2), (0, 1)]);
    assert_eq!(shape(5), [(0, 2), (0, 2), (1, 1)]);
    assert_eq!(t.first(8), t);
}

#[test]
fn slots_beyond_the_machine_are_virtual_and_noted() {
    let t = synthetic("numa:2 l3:1 core:2").first(6);
    assert_eq!((t.nodes().len(), t.caches().len(), t.cores().len(), t.slots_count()), (2, 2, 6, 6));
    assert_eq!((t.node(5), t.cache(5)), (1, Some(1)));
    assert_eq!(t.notes(), ["2 virtual slots added to node 1 of a machine with 4"]);

    let real = Topology::detect();
    let more = real.first(real.slots_count() + 1);
    assert_eq!(more.os_idx(real.slots_count()), None);
    assert_eq!(more.is_virtual(), real.is_virtual());
}

#[test]
fn counts_are_bounded() {
    assert_eq!(Topology::flat(0).slots_count(), 1);
    assert_eq!(Topology::flat(usize::MAX).slots_count(), VIRTUAL_SLOTS_COUNT_MAX);
    assert_eq!(Topology::flat(2).first(usize::MAX).slots_count(), VIRTUAL_SLOTS_COUNT_MAX);
    assert_eq!(Topology::flat(2).first(0).slots_count(), 1);
}
