//! The machine from the text files under `/sys/devices/system`: no C library, and every file may be absent.
//!
//! Containers hide some files, and other kernels have other names. A missing file makes the answer coarser and is never
//! an error: without a node folder there is one node, without a core list each CPU is a core.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, thread};

use super::{CacheFacts, Cpu, NodeFacts, Provider, Topology, assemble};

/// The kernel's folder of these files.
pub(super) const ROOT: &str = "/sys/devices/system";
/// CPU and node numbers from here on count as garbage; the largest kernels are built for 8192 CPUs.
const OS_IDX_COUNT_MAX: usize = 1 << 16;
/// Far above the handful of caches that a CPU has.
const CACHES_COUNT_MAX: usize = 32;

pub(super) fn read(root: &Path, allowed: &[usize]) -> Topology {
    let mut notes = Vec::new();
    if allowed.is_empty() {
        let count = thread::available_parallelism().map_or(1, usize::from);
        notes.push(format!("the system does not say which CPUs may be used: {count} are assumed, unpinned"));
        let cpus = (0..count).map(|core| Cpu { node: 0, cache: None, core, os_idx: None }).collect();
        return assemble(Provider::Sysfs, cpus, &BTreeMap::new(), notes);
    }

    debug_assert!(
        allowed.is_sorted_by(|a, b| a < b),
        "the allowed CPUs are not in order, or one is named twice"
    );
    let cpu_folder = root.join("cpu");
    let (mut facts, homes) = read_nodes(root);
    if homes.is_empty() {
        notes.push("no NUMA node is listed: one is assumed".to_owned());
    }
    let mut cpus = Vec::with_capacity(allowed.len());
    for &cpu in allowed {
        let folder = cpu_folder.join(format!("cpu{cpu}"));
        let node = homes.get(&cpu).copied().unwrap_or_else(|| {
            if !homes.is_empty() {
                notes.push(format!("CPU {cpu} is in no listed NUMA node: the first is assumed"));
            }
            facts.keys().next().copied().unwrap_or(0)
        });
        let package = &mut facts.entry(node).or_default().package;
        *package = package.or_else(|| number(&folder.join("topology/physical_package_id")));
        let core = read_core(&folder.join("topology")).unwrap_or(cpu);
        cpus.push(Cpu { node, cache: read_cache(&folder.join("cache")), core, os_idx: Some(cpu) });
    }
    if !cpu_folder.is_dir() {
        notes.push(format!("{} cannot be read: each CPU counts as a core", cpu_folder.display()));
    }
    assemble(Provider::Sysfs, cpus, &facts, notes)
}

/// Facts of every listed node, also of nodes without CPUs, and the node of each CPU.
pub(super) fn read_nodes(root: &Path) -> (BTreeMap<usize, NodeFacts>, BTreeMap<usize, usize>) {
    let folder = root.join("node");
    let names = fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut nodes: Vec<usize> = names
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("node")?.parse().ok())
        .filter(|&node| node < OS_IDX_COUNT_MAX)
        .collect();
    nodes.sort_unstable();

    let (mut facts, mut homes) = (BTreeMap::new(), BTreeMap::new());
    for &node in &nodes {
        let folder = folder.join(format!("node{node}"));
        for cpu in list(&folder.join("cpulist")).unwrap_or_default() {
            homes.entry(cpu).or_insert(node);
        }
        // One column per online node, ascending, the memory-only ones included.
        let columns: Vec<u32> = text(&folder.join("distance"))
            .and_then(|line| line.split_whitespace().map(|column| column.parse().ok()).collect())
            .unwrap_or_default();
        let distances = match columns.len() == nodes.len() {
            true => nodes.iter().copied().zip(columns).collect(),
            false => BTreeMap::new(),
        };
        let memory_bytes = text(&folder.join("meminfo")).and_then(|meminfo| memory_total(&meminfo));
        facts.insert(node, NodeFacts { os_idx: Some(node), package: None, memory_bytes, distances });
    }
    // A node that this process may not see, or that has lost its list, must not attract CPUs without one.
    if homes.is_empty() {
        facts.clear();
    }
    (facts, homes)
}

/// `Node 0 MemTotal:        5073112 kB`
fn memory_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| Some(line.split_once("MemTotal:")?.1))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The lowest CPU of the core stands for it.
fn read_core(folder: &Path) -> Option<usize> {
    let names = ["core_cpus_list", "thread_siblings_list"];
    names.iter().find_map(|name| list(&folder.join(name))?.first().copied())
}

/// The cache of the highest level that holds data; the lowest CPU that shares it stands for it.
fn read_cache(folder: &Path) -> Option<CacheFacts> {
    (0..CACHES_COUNT_MAX)
        .map(|idx| folder.join(format!("index{idx}")))
        .take_while(|folder| folder.is_dir())
        .filter(|folder| text(&folder.join("type")).is_none_or(|kind| kind != "Instruction"))
        .filter_map(|folder| {
            Some(CacheFacts {
                level: u8::try_from(number(&folder.join("level"))?).ok()?,
                key: *list(&folder.join("shared_cpu_list"))?.first()?,
                bytes: text(&folder.join("size")).and_then(|size| parse_size(&size)),
            })
        })
        .max_by_key(|cache| cache.level)
}

/// `32K`, `1024K`, `32M`
fn parse_size(size: &str) -> Option<u64> {
    let digits = size.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &size[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|&bytes| bytes > 0)
}

/// `0-3,8,10-11`, ascending; `None` if it is anything else.
pub(super) fn parse_list(list: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse::<usize>().ok()?);
        if last >= OS_IDX_COUNT_MAX {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

pub(super) fn list(path: &Path) -> Option<Vec<usize>> {
    parse_list(&text(path)?)
}

fn number(path: &Path) -> Option<usize> {
    text(path)?.parse().ok()
}

fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A made-up tree, removed at the end.
    struct Tree(PathBuf);

    impl Tree {
        fn new(files: &[(&str, &str)]) -> Tree {
            static COUNT: AtomicUsize = AtomicUsize::new(0);
            let name = format!("boxwork-sysfs-{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            let tree = Tree(std::env::temp_dir().join(name));
            for (path, content) in files {
                tree.write(path, content);
            }
            tree
        }

        fn write(&self, path: &str, content: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{content}\n")).unwrap();
        }

        /// Two packages, each a node of two cores with two threads: Linux numbers all first threads first.
        fn two_nodes() -> Tree {
            let tree = Tree::new(&[
                ("node/online", "0-1"),
                ("node/node0/cpulist", "0-1,4-5"),
                ("node/node1/cpulist", "2-3,6-7"),
                ("node/node0/distance", "10 21"),
                ("node/node1/distance", "21 10"),
                ("node/node0/meminfo", "Node 0 MemTotal:        1024 kB\nNode 0 MemFree:  1 kB"),
            ]);
            for cpu in 0..8 {
                let (core, node) = (cpu % 4, cpu % 4 / 2);
                let write =
                    |path: &str, content: String| tree.write(&format!("cpu/cpu{cpu}/{path}"), &content);
                write("topology/core_cpus_list", format!("{core},{}", core + 4));
                write("topology/physical_package_id", node.to_string());
                write("cache/index0/level", "1".into());
                write("cache/index0/shared_cpu_list", format!("{core},{}", core + 4));
                write("cache/index1/level", "3".into());
                write("cache/index1/size", "32768K".into());
                write(
                    "cache/index1/shared_cpu_list",
                    format!("{}-{},{}-{}", 2 * node, 2 * node + 1, 2 * node + 4, 2 * node + 5),
                );
            }
            tree
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn os(t: &Topology) -> Vec<usize> {
        (0..t.slots_count()).map(|slot| t.os_idx(slot).unwrap()).collect()
    }

    #[test]
    fn a_machine_of_two_nodes() {
        let tree = Tree::two_nodes();
        let t = read(&tree.0, &[0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(os(&t), [0, 4, 1, 5, 2, 6, 3, 7]);
        assert_eq!((t.nodes().len(), t.caches().len(), t.cores().len()), (2, 2, 4));
        assert_eq!((t.nodes()[0].memory_bytes, t.nodes()[1].memory_bytes), (Some(1 << 20), None));
        assert_eq!((t.nodes()[1].os_idx, t.nodes()[1].package), (Some(1), Some(1)));
        assert_eq!((t.caches()[1].level, t.caches()[1].bytes), (3, Some(32 << 20)));
        assert_eq!(t.nodes()[0].distances, [10, 21]);
        assert!(t.notes().is_empty() && !t.is_virtual());
    }

    #[test]
    fn only_allowed_cpus_become_slots() {
        let tree = Tree::two_nodes();
        let t = read(&tree.0, &[2, 6, 7]);
        assert_eq!(os(&t), [2, 6, 7]);
        assert_eq!((t.nodes().len(), t.cores().len()), (1, 2));
        assert_eq!((t.nodes()[0].os_idx, t.nodes()[0].distances.as_slice()), (Some(1), [10].as_slice()));
    }

    #[test]
    fn an_empty_tree_is_one_node_of_single_cores() {
        let tree = Tree::new(&[]);
        let t = read(&tree.0, &[3, 5]);
        assert_eq!(os(&t), [3, 5]);
        assert_eq!((t.nodes().len(), t.caches().len(), t.cores().len(), t.notes().len()), (1, 0, 2, 2));
        assert_eq!(t.nodes()[0].os_idx, None);
    }

    #[test]
    fn without_the_node_folder_cores_and_caches_remain() {
        let tree = Tree::two_nodes();
        fs::remove_dir_all(tree.0.join("node")).unwrap();
        let t = read(&tree.0, &[0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!((t.nodes().len(), t.caches().len(), t.cores().len()), (1, 2, 4));
    }

    #[test]
    fn no_allowed_cpu_known_is_a_guess_without_pinning() {
        let t = read(Path::new("/nonexistent"), &[]);
        assert!(t.slots_count() >= 1 && t.is_virtual() && !t.notes().is_empty());
    }

    #[test]
    fn nodes_without_cpus_are_left_out_but_keep_their_distance_column() {
        let tree = Tree::new(&[
            ("node/node0/cpulist", "0"),
            ("node/node1/cpulist", ""),
            ("node/node2/cpulist", "1"),
            ("node/node0/distance", "10 17 28"),
            ("node/node1/distance", "17 10 28"),
            ("node/node2/distance", "28 28 10"),
            ("cpu/online", "0-1"),
        ]);
        let t = read(&tree.0, &[0, 1]);
        assert_eq!(t.nodes().iter().map(|n| n.os_idx).collect::<Vec<_>>(), [Some(0), Some(2)]);
        assert_eq!(t.nodes()[0].distances, [10, 28]);
    }

    #[test]
    fn garbage_is_as_good_as_absent() {
        let tree = Tree::new(&[
            ("node/node0/cpulist", "0-1"),
            ("node/node1/cpulist", "x"),
            ("node/nodeX/cpulist", "1"),
            ("node/node0/distance", "10"),
            ("node/node0/meminfo", "MemTotal: lots"),
            ("cpu/cpu0/topology/core_cpus_list", "0-99999999999"),
            ("cpu/cpu0/topology/thread_siblings_list", "0,1"),
            ("cpu/cpu0/topology/physical_package_id", "-1"),
            ("cpu/cpu0/cache/index0/level", "999"),
            ("cpu/cpu0/cache/index1/level", "2"),
            ("cpu/cpu0/cache/index1/shared_cpu_list", "0"),
            ("cpu/cpu0/cache/index1/size", "many"),
        ]);
        let t = read(&tree.0, &[0, 1, 2]);
        assert_eq!((t.nodes().len(), t.cores().len(), t.caches().len(), t.slots_count()), (1, 3, 1, 3));
        assert_eq!(
            (t.nodes()[0].memory_bytes, t.nodes()[0].package, t.caches()[0].bytes),
            (None, None, None)
        );
        assert!(t.notes()[0].contains("CPU 2"), "{:?}", t.notes());
    }

    #[test]
    fn lists_and_sizes() {
        assert_eq!(parse_list(" 0-2,8,5-6\n"), Some(vec![0, 1, 2, 5, 6, 8]));
        assert_eq!(parse_list(""), Some(vec![]));
        assert_eq!(parse_list("0-"), None);
        assert_eq!(parse_size("512K"), Some(512 << 10));
        assert_eq!(parse_size("0K"), None);
        assert_eq!(parse_size("3T"), None);
    }
}
