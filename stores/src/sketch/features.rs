//! Sketches of signatures by frequencies and directions.

use std::path::Path;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use boxwork_kernels::CodePath;
use boxwork_kernels::chance::Random;
use boxwork_kernels::similarity::Similarity;
use boxwork_kernels::sketch::{
    Basis, COORDINATES, Frequencies, SAMPLE_MAX, SideBySide as Rows, Sketcher, coordinate,
};
use boxwork_kernels::sqfd::SignatureRef;
use half::f16;

use super::super::packed_file::PackedFile;
use super::{OBJECTS_PER_PIECE, SketchError, layout};
use crate::pivot_table::SideBySide;
use crate::signature::SignatureColumns;
use crate::signature_store::Objects;
use crate::space::{DeviceForm, Space};
use crate::sqfd_space::SqfdSpace;
use crate::store::Store;
use crate::store_error::StoreError;

/// Frequencies and directions of the sketches of signatures.
#[derive(Clone, Debug)]
pub(super) struct Features {
    sqfd: Arc<SqfdSpace>,
    seed: u64,
    frequencies: Frequencies,
    pub(super) basis: Basis,
}

/// The objects from which the directions of a space's sketches come, and the frequencies.
#[derive(Debug)]
pub struct SketchSample {
    sqfd: Arc<SqfdSpace>,
    frequencies: Frequencies,
    ids: Vec<u64>,
}

impl SketchSample {
    /// The frequencies of a seed, and at most [`SAMPLE_MAX`] objects that the seed picks.
    ///
    /// # Errors
    /// When the distance of the space has no sketches.
    ///
    /// # Panics
    /// When there are so many frequencies that [`Frequencies::new`] refuses.
    pub fn new(space: &Arc<dyn Space>, seed: u64, frequencies: usize) -> Result<Self, SketchError> {
        let sqfd = sqfd(space)?;
        let store = space.store();
        let frequencies =
            Frequencies::new(seed, sqfd.measure().alpha(), sqfd.store().dimensions(), frequencies);
        let picked = Random::mixed(seed).distinct(store.objects_count(), SAMPLE_MAX);
        let mut ids: Vec<u64> = picked.into_iter().map(|nth| store.nth(nth)).collect();
        ids.sort_unstable();
        Ok(Self { sqfd, frequencies, ids })
    }

    /// The objects, ascending.
    pub fn ids(&self) -> &[u64] {
        &self.ids
    }

    /// Number of features of an object.
    pub fn width(&self) -> usize {
        self.frequencies.features()
    }

    /// Writes the features of some of the objects, from place `first` of [`SketchSample::ids`] on.
    ///
    /// # Errors
    /// When an object cannot be read.
    pub fn features(&self, first: usize, out: &mut [f32]) -> Result<(), StoreError> {
        let mut sketcher = Sketcher::new(CodePath::detect());
        self.sqfd.store().read::<_, StoreError>(|objects| {
            for (id, out) in self.ids[first..].iter().zip(out.chunks_exact_mut(self.width())) {
                sketcher.features(&self.frequencies, objects.signature(*id)?, out);
            }
            Ok(())
        })
    }

    /// The principal directions of these features. `None` if `side_by_side` was cancelled.
    ///
    /// # Errors
    /// When the system has no memory for the matrix.
    pub fn basis(&self, features: &[f32], side_by_side: &mut Rows<'_>) -> Result<Option<Basis>, SketchError> {
        Ok(Basis::of_sample(features, self.width(), side_by_side)?)
    }
}

/// Whether a distance has sketches by features.
pub(super) fn has_features(space: &Arc<dyn Space>) -> bool {
    sqfd(space).is_ok()
}

fn sqfd(space: &Arc<dyn Space>) -> Result<Arc<SqfdSpace>, SketchError> {
    match Arc::clone(space).device_form() {
        Some(DeviceForm::Sqfd(sqfd)) if sqfd.measure().similarity() == Similarity::Gaussian => Ok(sqfd),
        _ => Err(SketchError::no_features(&**space)),
    }
}

impl Features {
    /// The frequencies and directions of a file.
    pub(super) fn of_file(
        space: &Arc<dyn Space>,
        file: &PackedFile,
        path: &Path,
    ) -> Result<Self, SketchError> {
        let sqfd = sqfd(space)?;
        let of = |error| SketchError::of(error, &**space, path, false);
        let unclear = || of(file.damaged("its metadata", "it names no frequencies"));
        let number = |key: &str| file.said(key).parse::<u64>().map_err(|_| unclear());
        let (seed, count) = (number(layout::SEED_KEY)?, number(layout::FREQUENCIES_KEY)? as usize);
        if !Frequencies::is_count(count) {
            return Err(unclear());
        }
        let frequencies = Frequencies::new(seed, sqfd.measure().alpha(), sqfd.store().dimensions(), count);
        let basis = layout::basis(file, frequencies.features()).map_err(of)?;
        Ok(Self { sqfd, seed, frequencies, basis })
    }

    /// Those of a basis that is given by its numbers.
    pub(super) fn of_parts(
        space: &Arc<dyn Space>,
        seed: u64,
        frequencies: usize,
        numbers: &[f32],
    ) -> Result<Self, SketchError> {
        let sqfd = sqfd(space)?;
        let basis = Basis::from_numbers(numbers)
            .filter(|basis| Frequencies::is_count(frequencies) && basis.features() == 2 * frequencies);
        let basis = basis.ok_or(SketchError::NoBasis { numbers: numbers.len(), frequencies })?;
        let (alpha, dimensions) = (sqfd.measure().alpha(), sqfd.store().dimensions());
        let frequencies = Frequencies::new(seed, alpha, dimensions, frequencies);
        Ok(Self { sqfd, seed, frequencies, basis })
    }

    /// The same ones over another space of equal measure.
    pub(super) fn over(&self, space: &Arc<dyn Space>) -> Result<Self, SketchError> {
        Ok(Self { sqfd: sqfd(space)?, ..self.clone() })
    }

    /// The entries of a head that state the frequencies.
    pub(super) fn head(&self) -> Vec<(&'static str, String)> {
        vec![
            (layout::FREQUENCIES_KEY, self.frequencies.count().to_string()),
            (layout::SEED_KEY, self.seed.to_string()),
        ]
    }

    /// The sketch of an object in a row of an Arrow array.
    pub(super) fn of_object(&self, object: &ArrayRef, row: usize) -> Result<[u16; COORDINATES], SketchError> {
        let list = object.as_list_opt::<i32>();
        let list = list.ok_or_else(|| SketchError::Object("it is no signature".to_owned()))?;
        let columns = SignatureColumns::new(list).map_err(|error| SketchError::Object(error.to_string()))?;
        let signature = columns.signature(row);
        let (found, wanted) = (signature.dimensions(), self.frequencies.dimensions());
        if found != wanted {
            let reason = format!("it has {found} coordinates, and those of the store have {wanted}");
            return Err(SketchError::Object(reason));
        }
        let mut out = [0; COORDINATES];
        Sketcher::new(CodePath::detect()).sketch(&self.frequencies, &self.basis, &[signature], &mut out);
        Ok(out)
    }

    /// Writes the sketches of objects.
    pub(super) fn write(
        &self,
        sketcher: &mut Sketcher,
        ids: &[u64],
        out: &mut [u16],
    ) -> Result<(), StoreError> {
        self.sqfd.store().read::<_, StoreError>(|objects: Objects<'_>| {
            let signatures: Vec<SignatureRef<'_>> =
                ids.iter().map(|id| objects.signature(*id)).collect::<Result<_, _>>()?;
            sketcher.sketch(&self.frequencies, &self.basis, &signatures, out);
            Ok(())
        })
    }

    /// The sketches of objects, computed side by side.
    pub(super) fn sketches(
        &self,
        store: &dyn Store,
        ids: &[u64],
        side_by_side: &mut SideBySide<'_>,
    ) -> Result<Vec<u16>, SketchError> {
        store.bring_in(ids)?;
        let failed = std::sync::OnceLock::new();
        let mut numbers = vec![0.0; ids.len() * COORDINATES];
        let is_done = side_by_side(&mut numbers, OBJECTS_PER_PIECE * COORDINATES, &|first, numbers| {
            let ids = &ids[first / COORDINATES..][..numbers.len() / COORDINATES];
            let mut bits = vec![0; numbers.len()];
            match self.write(&mut Sketcher::new(CodePath::detect()), ids, &mut bits) {
                Ok(()) => numbers.iter_mut().zip(bits).for_each(|(to, bits)| *to = coordinate(bits).into()),
                // The first error is reported.
                Err(error) => drop(failed.set(error)),
            }
        });
        if let Some(error) = failed.into_inner() {
            return Err(error.into());
        }
        if !is_done {
            return Err(SketchError::Cancelled);
        }
        Ok(numbers.into_iter().map(|number| f16::from_f64(number).to_bits()).collect())
    }
}
