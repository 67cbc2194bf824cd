//! The edges of a box by port.

use std::ops::{Index, IndexMut};
use std::sync::Arc;

use super::{Edge, Single};

/// The edges at a port. Most ports have one edge, and most edges connect two boxes: such a hop follows one pointer.
#[derive(Default)]
pub(crate) struct PortEdges {
    /// The only edge, if it connects two boxes, and its consumer.
    single: Option<Arc<Single>>,
    consumer: usize,
    first: Option<Arc<Edge>>,
    rest: Vec<Arc<Edge>>,
}

impl PortEdges {
    pub(crate) fn new(edges: impl IntoIterator<Item = Arc<Edge>>) -> Self {
        let mut edges = edges.into_iter();
        let (first, rest) = (edges.next(), edges.collect::<Vec<_>>());
        let single = first.as_ref().filter(|_| rest.is_empty()).and_then(|only| only.single());
        let (single, consumer) = match single {
            Some((single, consumer)) => (Some(Arc::clone(single)), consumer),
            None => (None, 0),
        };
        Self { single, consumer, first, rest }
    }

    /// The only edge of the port, if it connects two boxes.
    #[inline(always)]
    pub(crate) fn single(&self) -> Option<&Single> {
        self.single.as_deref()
    }

    /// The consumer of [`PortEdges::single`].
    #[inline(always)]
    pub(crate) fn consumer(&self) -> usize {
        self.consumer
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// The first edge.
    #[inline]
    pub(crate) fn first(&self) -> Option<&Edge> {
        self.first.as_deref()
    }

    /// The only edge of the port.
    #[inline]
    pub(crate) fn only(&self) -> Option<&Edge> {
        self.first().filter(|_| self.rest.is_empty())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Edge> {
        self.shared().map(Arc::as_ref)
    }

    /// The edges as pointers that the caller may keep.
    pub(crate) fn shared(&self) -> impl Iterator<Item = &Arc<Edge>> {
        self.first.iter().chain(&self.rest)
    }

    /// The edges from a place on, in turn, with their places.
    pub(crate) fn in_turn(&self, place: usize) -> impl Iterator<Item = (usize, &Edge)> {
        let places = self.len();
        let first = place % places.max(1);
        let edge = |place: usize| match place.checked_sub(1) {
            None => self.first(),
            Some(place) => self.rest.get(place).map(Arc::as_ref),
        };
        (first..places).chain(0..first).filter_map(move |place| Some((place, edge(place)?)))
    }

    #[inline]
    pub(crate) fn any(&self, fits: impl Fn(&Edge) -> bool) -> bool {
        self.first().is_some_and(&fits) || self.rest.iter().any(|edge| fits(edge))
    }

    #[inline]
    pub(crate) fn all(&self, fits: impl Fn(&Edge) -> bool) -> bool {
        !self.any(|edge| !fits(edge))
    }
}

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
