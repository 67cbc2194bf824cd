//! The machine as JSON; its `Display` is the page for users.

use boxwork_runtime::topology::Topology;
use serde_json::{Value as Json, json};

/// Nodes, caches, cores and slots, each by its index in these lists.
pub fn json(topology: &Topology) -> Json {
    let nodes: Vec<Json> = topology
        .nodes()
        .iter()
        .map(|node| {
            json!({
                "os_idx": node.os_idx, "package": node.package, "memory_bytes": node.memory_bytes,
                "distances": node.distances, "slots": [node.slots.start, node.slots.end],
            })
        })
        .collect();
    let caches: Vec<Json> = topology
        .caches()
        .iter()
        .map(|cache| {
            json!({
                "node": cache.node, "level": cache.level, "bytes": cache.bytes,
                "slots": [cache.slots.start, cache.slots.end],
            })
        })
        .collect();
    let cores: Vec<Json> = topology
        .cores()
        .iter()
        .map(|core| {
            json!({"node": core.node, "cache": core.cache, "slots": [core.slots.start, core.slots.end]})
        })
        .collect();
    let slots: Vec<Json> = (0..topology.slots_count())
        .map(|slot| {
            json!({
                "node": topology.node(slot), "cache": topology.cache(slot), "core": topology.core(slot),
                "os_idx": topology.os_idx(slot),
            })
        })
        .collect();
    json!({
        "provider": topology.provider().to_string(), "virtual": topology.is_virtual(),
        "nodes": nodes, "caches": caches, "cores": cores, "slots": slots, "notes": topology.notes(),
    })
}
