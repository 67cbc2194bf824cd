//! The edges at a port. Most ports have one, so the first stands here and not behind a pointer to several.

use std::sync::Arc;

use super::edge::Edge;

/// The edges at a port.
#[derive(Default)]
pub(super) struct PortEdges {
    first: Option<Arc<Edge>>,
    rest: Vec<Arc<Edge>>,
}

impl PortEdges {
    pub(super) fn push(&mut self, edge: Arc<Edge>) {
        match &self.first {
            None => self.first = Some(edge),
            Some(_) => self.rest.push(edge),
        }
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// The first edge.
    #[inline]
    pub(super) fn first(&self) -> Option<&Edge> {
        self.first.as_deref()
    }

    /// The edge of a port that has this one only.
    #[inline]
    pub(super) fn only(&self) -> Option<&Edge> {
        self.first().filter(|_| self.rest.is_empty())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Edge> {
        self.shared().map(Arc::as_ref)
    }

    /// The edges, to be kept.
    pub(super) fn shared(&self) -> impl Iterator<Item = &Arc<Edge>> {
        self.first.iter().chain(&self.rest)
    }

    /// The edges from a place on, in turn, with their places.
    pub(super) fn in_turn(&self, place: usize) -> impl Iterator<Item = (usize, &Edge)> {
        let places = self.len();
        let first = place % places.max(1);
        let edge = |place: usize| match place.checked_sub(1) {
            None => self.first(),
            Some(place) => self.rest.get(place).map(Arc::as_ref),
        };
        (first..places).chain(0..first).filter_map(move |place| Some((place, edge(place)?)))
    }

    #[inline]
    pub(super) fn any(&self, fits: impl Fn(&Edge) -> bool) -> bool {
        self.first().is_some_and(&fits) || self.rest.iter().any(|edge| fits(edge))
    }

    #[inline]
    pub(super) fn all(&self, fits: impl Fn(&Edge) -> bool) -> bool {
        !self.any(|edge| !fits(edge))
    }
}
