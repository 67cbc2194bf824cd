//! Memory that lies on one node: a copy of bytes in pages of its own.
//!
//! `mbind` asks the system to take the pages from the node. If the system refuses, as in many containers, a thread
//! pinned to the node copies the bytes, because the system takes a page from the node of the thread that touches it
//! first. Neither is guaranteed: a node without free memory borrows from another node.

use std::io;

use memmap2::{Mmap, MmapMut};

use super::{Topology, pin_current_thread};

/// The way in which the pages of a [`NodeMemory`] got to their node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// The system took them from the node.
    Bound,
    /// A thread of the node touched them first.
    FirstTouch,
    /// On any node: the node is made up, or the system refused both ways.
    Anywhere,
}

/// Bytes in pages of a node.
pub struct NodeMemory {
    pages: Mmap,
    len: usize,
    placed: Placed,
}

impl NodeMemory {
    /// The way in which its pages were placed.
    pub fn placed(&self) -> Placed {
        self.placed
    }
}

impl AsRef<[u8]> for NodeMemory {
    fn as_ref(&self) -> &[u8] {
        &self.pages[..self.len]
    }
}

impl std::fmt::Debug for NodeMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeMemory")
            .field("len", &self.len)
            .field("placed", &self.placed)
            .finish_non_exhaustive()
    }
}

impl Topology {
    /// Copies bytes to a node.
    ///
    /// # Errors
    /// When the system has no memory left.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn copy_to(&self, node: usize, bytes: &[u8]) -> io::Result<NodeMemory> {
        // A map has one byte at least.
        let mut pages = MmapMut::map_anon(bytes.len().max(1))?;
        let os_node = self.nodes()[node].os_idx;
        let cpu = self.nodes()[node].slots.clone().find_map(|slot| self.os_idx(slot));
        let placed = if os_node.is_some_and(|os_node| prefer(&mut pages, os_node)) {
            pages[..bytes.len()].copy_from_slice(bytes);
            Placed::Bound
        } else {
            touch(&mut pages[..bytes.len()], bytes, cpu)
        };
        Ok(NodeMemory { pages: pages.make_read_only()?, len: bytes.len(), placed })
    }
}

/// Copies in a thread pinned to a CPU of the node, if there is one.
fn touch(pages: &mut [u8], bytes: &[u8], cpu: Option<usize>) -> Placed {
    debug_assert_eq!(pages.len(), bytes.len(), "the pages of a copy have another length than its bytes");
    let mut pinned = false;
    if let Some(cpu) = cpu {
        std::thread::scope(|scope| {
            let copy = || {
                pinned = pin_current_thread(cpu);
                pages.copy_from_slice(bytes);
            };
            // If no thread can be started, this thread copies the bytes below, on any node.
            let _ = std::thread::Builder::new().spawn_scoped(scope, copy);
        });
    }
    if !pinned {
        pages.copy_from_slice(bytes);
    }
    if pinned { Placed::FirstTouch } else { Placed::Anywhere }
}

/// Asks the system to take untouched pages from a node, and from other nodes when it has none left.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the system call has no safe wrapper")]
fn prefer(pages: &mut MmapMut, os_node: usize) -> bool {
    const BITS: usize = libc::c_ulong::BITS as usize;
    /// Beyond what any kernel is built for.
    const NODES_MAX: usize = 1024;
    let mut mask = [0 as libc::c_ulong; NODES_MAX / BITS];
    let Some(word) = mask.get_mut(os_node / BITS) else { return false };
    *word = 1 << (os_node % BITS);
    // SAFETY: the range is one map of this process, which the caller borrows exclusively; a policy changes no byte of
    // it. The mask has one bit more than the call says, because the kernel ignores the last bit.
    let refused = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            pages.as_mut_ptr(),
            pages.len(),
            libc::MPOL_PREFERRED,
            mask.as_ptr(),
            NODES_MAX,
            0,
        )
    };
    refused == 0
}

#[cfg(not(target_os = "linux"))]
fn prefer(_: &mut MmapMut, _: usize) -> bool {
    false
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_its_bytes_on_any_node() {
        let bytes: Vec<u8> = (0..100_000u32).map(|nth| (nth % 251) as u8).collect();
        for topology in [Topology::detect(), Topology::synthetic("numa:2 core:1").unwrap()] {
            for node in 0..topology.nodes().len() {
                for bytes in [&bytes[..], &[]] {
                    let memory = topology.copy_to(node, bytes).unwrap();
                    assert_eq!(memory.as_ref(), bytes);
                    assert_eq!(memory.placed() == Placed::Anywhere, topology.is_virtual(), "{memory:?}");
                }
            }
        }
    }

    #[test]
    fn a_thread_of_the_node_copies_if_the_system_refuses() {
        let (cpu, mut pages) = (Topology::detect().os_idx(0), vec![0; 8]);
        let wanted = if cpu.is_some() { Placed::FirstTouch } else { Placed::Anywhere };
        assert_eq!(touch(&mut pages, b"envelope", cpu), wanted);
        assert_eq!(pages, b"envelope");
        let absent = Some(usize::MAX);
        assert_eq!(touch(&mut pages, b"ENVELOPE", absent), Placed::Anywhere);
        assert_eq!(pages, b"ENVELOPE");
        let mut pages = MmapMut::map_anon(1).unwrap();
        assert!(!prefer(&mut pages, usize::MAX), "there is no such node");
    }
}
