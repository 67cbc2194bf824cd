//! The edges of a box by port.

use std::ops::{Index, IndexMut};

use super::PortEdges;

/// The inputs of a box, or its outputs. The first stands in place: a hop through it follows no further pointer, and most
/// boxes have no other one.
#[derive(Default)]
pub(crate) struct PortList {
    first: Option<PortEdges>,
    rest: Box<[PortEdges]>,
}

impl PortList {
    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PortEdges> {
        self.first.iter().chain(&self.rest)
    }
}

impl FromIterator<PortEdges> for PortList {
    fn from_iter<I: IntoIterator<Item = PortEdges>>(ports: I) -> Self {
        let mut ports = ports.into_iter();
        Self { first: ports.next(), rest: ports.collect() }
    }
}

impl Index<usize> for PortList {
    type Output = PortEdges;

    #[inline(always)]
    fn index(&self, port: usize) -> &PortEdges {
        match port.checked_sub(1) {
            None => self.first.as_ref().unwrap_or_else(|| no_port()),
            Some(place) => &self.rest[place],
        }
    }
}

impl IndexMut<usize> for PortList {
    fn index_mut(&mut self, port: usize) -> &mut PortEdges {
        match port.checked_sub(1) {
            None => self.first.as_mut().unwrap_or_else(|| no_port()),
            Some(place) => &mut self.rest[place],
        }
    }
}

#[cold]
fn no_port() -> ! {
    panic!("an operator used a port that its table does not have")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn ports_stand_at_their_places() {
        for count in 0..4 {
            let mut ports: PortList = (0..count).map(|_| PortEdges::default()).collect();
            assert_eq!((ports.len(), ports.iter().count()), (count, count));
            let addresses: Vec<_> = ports.iter().map(std::ptr::from_ref).collect();
            for (place, address) in addresses.into_iter().enumerate() {
                assert_eq!(std::ptr::from_ref(&ports[place]), address);
                assert_eq!(std::ptr::from_mut(&mut ports[place]).cast_const(), address);
            }
        }
    }

    #[test]
    #[should_panic(expected = "a port that its table does not have")]
    fn a_port_beyond_the_table_is_a_bug_of_the_operator() {
        let _ = &PortList::default()[0];
    }
}
