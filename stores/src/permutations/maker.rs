//! Makes the permutations of objects: by their exact distances to the pivots, or for Euclidean distances of vectors by a product that
//! gives the same lists.

use std::sync::Arc;

use boxwork_kernels::CodePath;
use boxwork_kernels::chance::Random;
use boxwork_kernels::interrupt::{Interrupt, ask};
use boxwork_kernels::permutation::device::OnDevice;
use boxwork_kernels::permutation::{Lists, VectorPivots, nearest_of_each, nearest_pivots};
use boxwork_kernels::vector::{VectorMeasure, VectorRef};

use super::PermutationError;
use crate::kinds::{Kind, Vectors};
use crate::object_store::ObjectStore;
use crate::space::{Prepared, Scratch, Space, SpaceError};
use crate::store_error::StoreError;

/// Objects whose lists are made at a time: their distances lie in a cache, and an interrupt is seen soon.
const AT_ONCE: usize = 256;

/// The pivots of some permutations, prepared as queries.
#[derive(Debug)]
pub struct PermutationMaker {
    space: Arc<dyn Space>,
    ids: Vec<u64>,
    prepared: Vec<Arc<dyn Prepared>>,
    length: usize,
    /// The vectors of a space of Euclidean distances, and the pivots among them.
    vectors: Option<OfVectors>,
}

/// Vectors, and the pivots among them.
type OfVectors = (Arc<ObjectStore<Vectors>>, VectorPivots);

/// The pivots as vectors, if the distance is Euclidean.
fn vectors_of(space: &dyn Space, ids: &[u64], length: usize) -> Result<Option<OfVectors>, PermutationError> {
    if VectorMeasure::named(&space.measure()) != Some(VectorMeasure::L2) {
        return Ok(None);
    }
    let Some(store) = ObjectStore::<Vectors>::of(space.store()) else { return Ok(None) };
    let dimensions = store.kind().dimensions();
    if dimensions == 0 {
        return Ok(None);
    }
    let numbers = store.read::<_, StoreError>(|objects| {
        let mut numbers = Vec::with_capacity(ids.len() * dimensions);
        for id in ids {
            numbers.extend(objects.item(*id)?.widened());
        }
        Ok(numbers)
    })?;
    Ok(Some((store, VectorPivots::new(numbers, dimensions, length)?)))
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
        Self::of(space, Self::pick(space, pivots, length, seed)?, length, interrupt)
    }

    /// The ids of the pivots that [`PermutationMaker::choose`] takes; reads no object.
    ///
    /// # Errors
    /// When there are too few objects, or no such lists.
    pub fn pick(
        space: &Arc<dyn Space>,
        pivots: usize,
        length: usize,
        seed: u64,
    ) -> Result<Vec<u64>, PermutationError> {
        Lists::new(pivots, length)?;
        let store = space.store();
        let objects = store.objects_count();
        if pivots as u64 > objects {
            return Err(PermutationError::FewObjects { objects, pivots });
        }
        let chosen = Random::mixed(seed).distinct(objects, pivots);
        Ok(chosen.into_iter().map(|nth| store.nth(nth)).collect())
    }

    /// The maker of lists by these pivots. Blocks on the disk.
    ///
    /// # Errors
    /// When there are no such lists, a pivot cannot be read, or the caller interrupts.
    pub fn of(
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
        let vectors = vectors_of(&**space, &ids, length)?;
        Ok(Self { space: Arc::clone(space), ids, prepared, length, vectors })
    }

    /// Whether devices make the lists of a space's objects: those of vectors by Euclidean distance.
    pub fn is_for_devices(space: &dyn Space) -> bool {
        VectorMeasure::named(&space.measure()) == Some(VectorMeasure::L2)
            && ObjectStore::<Vectors>::of(space.store()).is_some_and(|store| store.kind().dimensions() > 0)
    }

    /// The pivots as a device takes them, if devices make lists of these objects.
    pub fn on_device(&self) -> Option<OnDevice> {
        self.vectors.as_ref().map(|(_, pivots)| pivots.on_device())
    }

    /// Reads the numbers of vectors that are in memory, one after the other. They count if the store confirms it afterwards.
    ///
    /// # Errors
    /// When the objects are no vectors, or one cannot be read.
    ///
    /// # Panics
    /// When `numbers` has another length than the vectors.
    pub fn read(&self, ids: &[u64], numbers: &mut [f32]) -> Result<(), PermutationError> {
        let Some((store, pivots)) = &self.vectors else {
            let text = "devices make permutations of vectors by the distance l2 only".to_owned();
            return Err(SpaceError::Query(text).into());
        };
        Ok(read_vectors(store, ids, numbers, pivots.dimensions())?)
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
        if let Some((store, pivots)) = &self.vectors {
            return Ok(append_vectors(store, pivots, ids, lists, interrupt)?);
        }
        let mut scratch = Scratch::default();
        let mut distances = vec![0.0; ids.len().min(AT_ONCE) * self.ids.len()];
        for ids in ids.chunks(AT_ONCE) {
            let distances = &mut distances[..ids.len() * self.ids.len()];
            for (pivot, distances) in self.prepared.iter().zip(distances.chunks_exact_mut(ids.len())) {
                match pivot.is_exact() {
                    true => pivot.fast_until(&mut scratch, ids, distances, interrupt)?,
                    false => pivot.exact_until(ids, distances, interrupt)?,
                }
            }
            nearest_of_each(CodePath::detect(), distances, ids.len(), self.ids.len(), self.length, lists);
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

/// Writes the numbers of vectors, one after the other.
fn read_vectors(
    store: &ObjectStore<Vectors>,
    ids: &[u64],
    numbers: &mut [f32],
    dimensions: usize,
) -> Result<(), StoreError> {
    assert_eq!(ids.len() * dimensions, numbers.len(), "room for the vectors");
    store.read::<_, StoreError>(|objects| {
        for (id, to) in ids.iter().zip(numbers.chunks_exact_mut(dimensions)) {
            match objects.item(*id)? {
                VectorRef::F32(row) => to.copy_from_slice(row),
                row => to.iter_mut().zip(row.widened()).for_each(|(to, x)| *to = x),
            }
        }
        Ok(())
    })
}

fn append_vectors(
    store: &ObjectStore<Vectors>,
    pivots: &VectorPivots,
    ids: &[u64],
    lists: &mut Vec<u16>,
    interrupt: Interrupt<'_>,
) -> Result<(), SpaceError> {
    let (path, dimensions) = (CodePath::detect(), pivots.dimensions());
    let mut rows = Vec::new();
    for ids in ids.chunks(AT_ONCE) {
        ask(interrupt)?;
        if append_in_place(store, pivots, ids, lists)? {
            continue;
        }
        rows.resize(ids.len() * dimensions, 0.0);
        read_vectors(store, ids, &mut rows, dimensions)?;
        pivots.append(path, &rows, lists);
    }
    Ok(())
}

/// Appends the lists of vectors that lie one after the other in a batch, as numbers of 32 bits, without a copy of them. Returns
/// false if they do not.
fn append_in_place(
    store: &ObjectStore<Vectors>,
    pivots: &VectorPivots,
    ids: &[u64],
    lists: &mut Vec<u16>,
) -> Result<bool, StoreError> {
    let [first, .., last] = *ids else { return Ok(false) };
    let ((batch, row), (batch_of_last, last_row)) = (store.locate(first)?, store.locate(last)?);
    if batch != batch_of_last || last_row - row + 1 != ids.len() {
        return Ok(false);
    }
    store.read::<_, StoreError>(|objects| {
        let VectorRef::F32(numbers) = objects.batch(batch)?.all() else { return Ok(false) };
        let dimensions = pivots.dimensions();
        pivots.append(CodePath::detect(), &numbers[row * dimensions..(last_row + 1) * dimensions], lists);
        Ok(true)
    })
}
