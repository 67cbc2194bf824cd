//! The machine from the hwloc library. Only this file uses the `hwloc2` crate, and checks its answers.
//!
//! That crate is no longer maintained. It panics when asked for NUMA nodes, so the domains come from each CPU's node
//! set. It gives no version and assumes the object layout of hwloc 2, so this file compares plain numbers inside an
//! object with their expected values before it follows a pointer beyond them. The environment can name another machine,
//! so the answer must be this machine and contain every CPU that the process may use. Any doubt is a refusal, and the
//! caller reads `/sys` instead.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use hwloc2::{ObjectType, Topology as Library, TopologyObject};
use thiserror::Error;

use super::{CacheFacts, Cpu, NodeFacts, Provider, Topology, assemble, sysfs};

/// Variables that make hwloc read another machine, or claim that a read one is this machine.
const ELSEWHERE: [&str; 5] =
    ["HWLOC_SYNTHETIC", "HWLOC_XMLFILE", "HWLOC_FSROOT", "HWLOC_CPUID_PATH", "HWLOC_THISSYSTEM"];
/// The deepest level first: the first cache that a CPU has is its last-level cache.
const CACHES: [(u8, ObjectType); 5] = [
    (5, ObjectType::L5Cache),
    (4, ObjectType::L4Cache),
    (3, ObjectType::L3Cache),
    (2, ObjectType::L2Cache),
    (1, ObjectType::L1Cache),
];

/// The reason that hwloc's answer is not used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum Refusal {
    #[error("the process does not know which CPUs it may use")]
    NothingAllowed,
    #[error("{0} is set, which may describe another machine")]
    Environment(&'static str),
    #[error("the library could not be loaded with a topology")]
    Load,
    #[error("its objects are not laid out as in hwloc 2")]
    Layout,
    #[error("it describes another machine")]
    OtherMachine,
    #[error("it does not list CPU {0}, which may be used")]
    CpuMissing(usize),
    #[error("it lists CPU {0}, which is not online")]
    CpuUnknown(usize),
    #[error("the crate panicked")]
    Panicked,
}

pub(super) fn read(root: &Path, allowed: &[usize]) -> Result<Topology, Refusal> {
    if allowed.is_empty() {
        return Err(Refusal::NothingAllowed);
    }
    if let Some(name) = ELSEWHERE.into_iter().find(|name| env::var_os(name).is_some()) {
        return Err(Refusal::Environment(name));
    }
    catch_unwind(AssertUnwindSafe(|| read_library(root, allowed))).unwrap_or(Err(Refusal::Panicked))
}

fn read_library(root: &Path, allowed: &[usize]) -> Result<Topology, Refusal> {
    let library = Library::new().ok_or(Refusal::Load)?;
    let depth = |kind: &ObjectType| library.depth_for_type(kind).ok();
    let pu_depth =
        depth(&ObjectType::PU).filter(|&depth| depth + 1 == library.depth()).ok_or(Refusal::Layout)?;
    let pus = library.objects_at_depth(pu_depth);
    check_layout(&pus, pu_depth)?;
    // If the topology is another machine's, hwloc ignores binding calls, and this flag is false.
    if !library.support().cpu().set_current_thread() {
        return Err(Refusal::OtherMachine);
    }
    let listed = pus.iter().map(|pu| pu.os_index() as usize).collect();
    check_cpus(&listed, allowed, sysfs::list(&root.join("cpu/online")))?;

    debug_assert!(allowed.is_sorted(), "the allowed CPUs are not in order: some would not be found");
    let core_depth = depth(&ObjectType::Core);
    let cache_depths: Vec<(u8, u32)> =
        CACHES.iter().filter_map(|(level, kind)| Some((*level, depth(kind)?))).collect();
    let package_depth = depth(&ObjectType::Package);

    let (sysfs_facts, _) = sysfs::read_nodes(root);
    let (mut facts, mut cpus) = (BTreeMap::<usize, NodeFacts>::new(), Vec::with_capacity(allowed.len()));
    for pu in pus {
        let os_idx = pu.os_index() as usize;
        if allowed.binary_search(&os_idx).is_err() {
            continue;
        }
        // If a CPU has two kinds of memory, the lower number is ordinary memory.
        let os_node = pu
            .nodeset()
            .filter(|nodes| !nodes.is_full())
            .and_then(|nodes| usize::try_from(nodes.first()).ok());
        let node = os_node.unwrap_or(0);
        let package = &mut facts
            .entry(node)
            .or_insert_with(|| {
                sysfs_facts
                    .get(&node)
                    .cloned()
                    .unwrap_or(NodeFacts { os_idx: os_node, ..NodeFacts::default() })
            })
            .package;
        *package = package.or_else(|| Some(above(pu, package_depth?)?.os_index() as usize));
        let cache = cache_depths.iter().find_map(|&(level, depth)| {
            let cache = above(pu, depth)?;
            let bytes =
                cache.cache_attributes().map(|attributes| attributes.size()).filter(|&bytes| bytes > 0);
            Some(CacheFacts { level, key: first_cpu(cache)?, bytes })
        });
        let core = core_depth.and_then(|depth| first_cpu(above(pu, depth)?)).unwrap_or(os_idx);
        cpus.push(Cpu { node, cache, core, os_idx: Some(os_idx) });
    }
    Ok(assemble(Provider::Hwloc, cpus, &facts, Vec::new()))
}

/// In hwloc 1 these numbers are elsewhere in an object, so they cannot all be right.
fn check_layout(pus: &[&TopologyObject], pu_depth: u32) -> Result<(), Refusal> {
    let fits = |(idx, pu): (usize, &&TopologyObject)| {
        pu.depth() == pu_depth && pu.logical_index() as usize == idx && pu.arity() == 0
    };
    if pus.is_empty() || !pus.iter().enumerate().all(fits) {
        return Err(Refusal::Layout);
    }
    // Sets lie behind all pointers that this file follows: if they are in place, so is the rest.
    match pus.iter().all(|pu| pu.cpuset().is_some_and(|set| set.weight() == 1 && set.is_set(pu.os_index()))) {
        true => Ok(()),
        false => Err(Refusal::Layout),
    }
}

/// hwloc lists the CPUs that the control group allows. They include the CPUs that the process may use, and all are
/// online.
fn check_cpus(
    listed: &BTreeSet<usize>,
    allowed: &[usize],
    online: Option<Vec<usize>>,
) -> Result<(), Refusal> {
    if let Some(&cpu) = allowed.iter().find(|cpu| !listed.contains(cpu)) {
        return Err(Refusal::CpuMissing(cpu));
    }
    debug_assert!(
        online.as_ref().is_none_or(|online| online.is_sorted()),
        "the online CPUs are not in order: some would not be found"
    );
    let online = online.unwrap_or_else(|| listed.iter().copied().collect());
    match listed.iter().find(|cpu| online.binary_search(cpu).is_err()) {
        Some(&cpu) => Err(Refusal::CpuUnknown(cpu)),
        None => Ok(()),
    }
}

/// The ancestor at `depth`. Types are never read: a library newer than the crate may have types it does not know.
fn above(pu: &TopologyObject, depth: u32) -> Option<&TopologyObject> {
    std::iter::successors(Some(pu), |object| object.parent()).find(|object| object.depth() == depth)
}

/// The lowest CPU of an object stands for it, as in `/sys`.
fn first_cpu(object: &TopologyObject) -> Option<usize> {
    usize::try_from(object.cpuset()?.first()).ok()
}

#[cfg(test)]
mod tests {
    use super::super::affinity;
    use super::*;

    #[test]
    fn hwloc_and_sysfs_agree_on_this_machine() {
        let (root, allowed) = (Path::new(sysfs::ROOT), &affinity::allowed().cpus);
        match read(root, allowed) {
            Ok(by_hwloc) => {
                let by_sysfs = sysfs::read(root, allowed);
                assert_eq!(by_hwloc.slots_count(), by_sysfs.slots_count());
                assert_eq!(by_hwloc.cores().len(), by_sysfs.cores().len());
                assert_eq!(by_hwloc.nodes().len(), by_sysfs.nodes().len());
                assert_eq!(by_hwloc.slots, by_sysfs.slots);
            }
            // The environment of the tests may set such a variable; any other refusal is a bug.
            Err(refusal) => assert!(matches!(refusal, Refusal::Environment(_)), "{refusal}"),
        }
    }

    #[test]
    fn another_machine_is_refused() {
        let listed = BTreeSet::from([0, 1, 2, 3]);
        assert_eq!(check_cpus(&listed, &[1, 2], Some(vec![0, 1, 2, 3])), Ok(()));
        assert_eq!(check_cpus(&listed, &[1, 2], None), Ok(()));
        assert_eq!(check_cpus(&listed, &[1, 4], None), Err(Refusal::CpuMissing(4)));
        assert_eq!(check_cpus(&listed, &[1], Some(vec![0, 1])), Err(Refusal::CpuUnknown(2)));
        assert_eq!(read(Path::new(sysfs::ROOT), &[]), Err(Refusal::NothingAllowed));
    }
}
