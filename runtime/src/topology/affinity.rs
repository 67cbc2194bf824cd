//! The CPUs that this process may use, and the pinning of a thread to one of them. Only this file calls `core_affinity`.
//!
//! The system reports the CPUs of the *calling thread*. A pinned thread and its children have only one. So the list is read
//! once, at the latest before the first pinning, and kept.

use std::sync::OnceLock;
use std::thread;

use super::sysfs;

/// The system's affinity mask, as `core_affinity` lays it out, has no bit for CPUs from here on.
const PINNABLE_CPUS_COUNT: usize = 1024;

/// The CPUs that the process was allowed at the first call.
pub(super) struct Allowed {
    /// Ascending; empty if the system does not say.
    pub(super) cpus: Vec<usize>,
    pub(super) note: Option<String>,
}

pub(super) fn allowed() -> &'static Allowed {
    static ALLOWED: OnceLock<Allowed> = OnceLock::new();
    ALLOWED.get_or_init(|| {
        let mut cpus = match core_affinity::get_core_ids() {
            Some(ids) => ids.into_iter().map(|core| core.id).collect(),
            // A kernel with more than 1024 CPUs refuses the short mask, but not this file.
            None => status_cpus().unwrap_or_default(),
        };
        cpus.sort_unstable();
        cpus.dedup();
        // Besides the mask this counts the CPU time that a control group grants.
        let granted = thread::available_parallelism().map_or(cpus.len(), usize::from);
        let note = (granted < cpus.len()).then(|| {
            format!(
                "a control group grants the time of {granted} of {} CPUs: consider as many workers",
                cpus.len()
            )
        });
        Allowed { cpus, note }
    })
}

fn status_cpus() -> Option<Vec<usize>> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    sysfs::parse_list(status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?)
}

/// Pins the calling thread to the CPU that the operating system numbers `os_idx`; false if the system refuses.
pub fn pin_current_thread(os_idx: usize) -> bool {
    // Before this thread is pinned: otherwise a later detection from it would see one CPU.
    allowed();
    os_idx < PINNABLE_CPUS_COUNT && core_affinity::set_for_current(core_affinity::CoreId { id: os_idx })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_does_not_shrink_the_machine() {
        thread::spawn(|| {
            let before = allowed().cpus.len();
            for &cpu in &allowed().cpus {
                assert!(pin_current_thread(cpu));
            }
            assert_eq!(super::super::Topology::detect().slots_count(), before.max(1));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn absent_cpus_are_refused() {
        assert!(!pin_current_thread(PINNABLE_CPUS_COUNT));
        assert!(!pin_current_thread(usize::MAX));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_status_file_agrees() {
        thread::spawn(|| {
            assert_eq!(status_cpus().unwrap().len(), core_affinity::get_core_ids().unwrap().len())
        })
        .join()
        .unwrap();
    }
}
