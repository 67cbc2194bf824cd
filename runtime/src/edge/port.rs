//! The edges at a port. Most ports have one, so the first stands here and not behind a pointer to several.

use std::sync::Arc;

use super::Edge;

/// The edges at a port.
#[derive(Default)]
pub(crate) struct PortEdges {
    first: Option<Arc<Edge>>,
    rest: Vec<Arc<Edge>>,
}

impl PortEdges {
    pub(crate) fn new(edges: impl IntoIterator<Item = Arc<Edge>>) -> Self {
        let mut edges = edges.into_iter();
        Self { first: edges.next(), rest: edges.collect() }
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

    /// The edge of a port that has this one only.
    #[inline]
    pub(crate) fn only(&self) -> Option<&Edge> {
        self.first().filter(|_| self.rest.is_empty())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Edge> {
        self.shared().map(Arc::as_ref)
    }

    /// The edges, to be kept.
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
