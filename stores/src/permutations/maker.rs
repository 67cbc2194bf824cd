//! Makes the permutations of objects: by their exact distances to the pivots.

use std::sync::Arc;

use boxwork_kernels::chance::Random;
use boxwork_kernels::interrupt::{Interrupt, ask};
use boxwork_kernels::permutation::{Lists, nearest_pivots};

use super::PermutationError;
use crate::space::{Prepared, Scratch, Space};

/// The pivots of some permutations, prepared as queries.
#[derive(Debug)]
pub struct PermutationMaker {
    space: Arc<dyn Space>,
    ids: Vec<u64>,
    prepared: Vec<Arc<dyn Prepared>>,
    length: usize,
}

impl PermutationMaker {
    /// Chooses `pivots` random objects, whose first `length` by distance an object's list has. Blocks on the disk.
    ///
    /// # Errors
    /// When there are too few objects, no such lists, a pivot cannot be read, or the caller interrupts.
    pub fn choose(
        space: &Arc<dyn Space>,
        pivots: usize,
        length: usize,
        seed: u64,
        interrupt: Interrupt<'_>,
    ) -> Result<Self, PermutationError> {
        Lists::new(pivots, length)?;
        let store = space.store();
        let objects = store.objects_count();
        if pivots as u64 > objects {
            return Err(PermutationError::FewObjects { objects, pivots });
        }
        let chosen = Random::mixed(seed).distinct(objects, pivots);
        Self::of(space, chosen.into_iter().map(|nth| store.nth(nth)).collect(), length, interrupt)
    }

    /// The maker of lists by these pivots.
    pub(super) fn of(
        space: &Arc<dyn Space>,
        ids: Vec<u64>,
        length: usize,
        interrupt: Interrupt<'_>,
    ) -> Result<Self, PermutationError> {
        let objects = space.store().objects(&ids)?;
        let mut prepared = Vec::with_capacity(ids.len());
        for row in 0..ids.len() {
            ask(interrupt)?;
            prepared.push(Arc::clone(space).prepare_until(&objects, row, interrupt)?);
        }
        Ok(Self { space: Arc::clone(space), ids, prepared, length })
    }

    /// The objects and their distance.
    pub fn space(&self) -> &Arc<dyn Space> {
        &self.space
    }

    /// The pivots, as objects of the store.
    pub fn pivots(&self) -> &[u64] {
        &self.ids
    }

    /// Pivots of a list.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Pivots that have the distance 0 to an earlier pivot. They say nothing new, but do no harm.
    ///
    /// # Errors
    /// When a distance cannot be computed, or the caller interrupts.
    pub fn duplicates(&self, interrupt: Interrupt<'_>) -> Result<usize, PermutationError> {
        let mut count = 0;
        for (place, pivot) in self.prepared.iter().enumerate() {
            let mut distances = vec![f64::NAN; place];
            pivot.exact_until(&self.ids[..place], &mut distances, interrupt)?;
            count += usize::from(distances.contains(&0.0));
        }
        Ok(count)
    }

    /// Appends the lists of objects with ascending ids, which are in memory. They count if the store confirms it afterwards.
    ///
    /// # Errors
    /// When a distance cannot be computed, or the caller interrupts.
    pub fn append(
        &self,
        ids: &[u64],
        lists: &mut Vec<u16>,
        interrupt: Interrupt<'_>,
    ) -> Result<(), PermutationError> {
        let mut scratch = Scratch::default();
        let mut distances = vec![0.0; ids.len() * self.ids.len()];
        for (pivot, distances) in self.prepared.iter().zip(distances.chunks_exact_mut(ids.len().max(1))) {
            match pivot.is_exact() {
                true => pivot.fast_until(&mut scratch, ids, distances, interrupt)?,
                false => pivot.exact_until(ids, distances, interrupt)?,
            }
        }
        let (mut of_object, mut list) = (vec![0.0; self.ids.len()], vec![0; self.length]);
        for object in 0..ids.len() {
            for (pivot, distance) in of_object.iter_mut().enumerate() {
                *distance = distances[pivot * ids.len() + object];
            }
            nearest_pivots(&of_object, &mut list);
            lists.extend_from_slice(&list);
        }
        Ok(())
    }

    /// The list of a query.
    ///
    /// # Errors
    /// When a distance cannot be computed, or the caller interrupts.
    pub fn list(&self, query: &dyn Prepared, interrupt: Interrupt<'_>) -> Result<Vec<u16>, PermutationError> {
        let (mut distances, mut list) = (vec![0.0; self.ids.len()], vec![0; self.length]);
        query.exact_until(&self.ids, &mut distances, interrupt)?;
        nearest_pivots(&distances, &mut list);
        Ok(list)
    }
}
