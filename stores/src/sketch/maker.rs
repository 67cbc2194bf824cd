//! Makes sketches of a space's objects, and of others of their kind: by frequencies and directions, or by pivots.

use std::path::Path;
use std::sync::Arc;

use arrow_array::ArrayRef;
use boxwork_kernels::interrupt::Interrupt;
use boxwork_kernels::sketch::{Basis, COORDINATES, Sketcher};

use super::super::packed_file::PackedFile;
use super::apexes::Apexes;
use super::features::Features;
use super::{SketchError, layout};
use crate::pivot_table::{Piece, PivotTable, SideBySide};
use crate::space::Space;

/// The frequencies and directions of the sketches of a space, or their pivots.
#[derive(Debug)]
pub struct SketchMaker {
    space: Arc<dyn Space>,
    method: Method,
}

#[derive(Clone, Debug)]
enum Method {
    Features(Features),
    Apexes(Apexes),
}

impl SketchMaker {
    /// The maker of a file that covers so many ids.
    pub(super) fn of_file(
        space: &Arc<dyn Space>,
        file: &PackedFile,
        covered: u64,
        path: &Path,
    ) -> Result<Self, SketchError> {
        let method = match layout::is_of_pivots(file) {
            false => Method::Features(Features::of_file(space, file, path)?),
            true => Method::Apexes(Apexes::of_file(&**space, file, covered, path)?),
        };
        Ok(Self { space: Arc::clone(space), method })
    }

    /// The maker of a basis that is given by its numbers.
    ///
    /// # Errors
    /// When the distance of the space has no such sketches, or the numbers are not those of a basis of so many frequencies.
    pub fn of_parts(
        space: &Arc<dyn Space>,
        seed: u64,
        frequencies: usize,
        numbers: &[f32],
    ) -> Result<Self, SketchError> {
        let features = Features::of_parts(space, seed, frequencies, numbers)?;
        Ok(Self { space: Arc::clone(space), method: Method::Features(features) })
    }

    /// The maker of sketches by the pivots of an index.
    ///
    /// # Errors
    /// When the index has no apexes, or a pivot cannot be read.
    pub fn of_table(table: &PivotTable) -> Result<Self, SketchError> {
        let apexes = Apexes::new(&**table.space(), table.spanned().clone())?;
        Ok(Self { space: Arc::clone(table.space()), method: Method::Apexes(apexes) })
    }

    /// The maker over the compacted store, and whether it gives other sketches, as pivots were removed.
    pub(super) fn over(
        &self,
        after: &Arc<dyn Space>,
        path: &Path,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(Self, bool), SketchError> {
        let (method, is_other) = match &self.method {
            Method::Features(features) => (Method::Features(features.over(after)?), false),
            Method::Apexes(apexes) => {
                let (apexes, is_other) = apexes.over(&*self.space, &**after, path, cancelled)?;
                (Method::Apexes(apexes), is_other)
            }
        };
        Ok((Self { space: Arc::clone(after), method }, is_other))
    }

    /// The objects and their distance.
    pub fn space(&self) -> &Arc<dyn Space> {
        &self.space
    }

    /// The pivots by which objects are sketched, as objects of the store; none if they are sketched by features.
    pub fn pivots(&self) -> &[u64] {
        match &self.method {
            Method::Features(_) => &[],
            Method::Apexes(apexes) => apexes.ids(),
        }
    }

    /// The unit of the sketches, a power of two: the distance of two sketches times this is about that of their objects.
    pub fn unit(&self) -> f64 {
        match &self.method {
            Method::Features(_) => 1.0,
            Method::Apexes(apexes) => apexes.unit(),
        }
    }

    /// The directions, if objects are sketched by features.
    pub(super) fn basis(&self) -> Option<&Basis> {
        match &self.method {
            Method::Features(features) => Some(&features.basis),
            Method::Apexes(_) => None,
        }
    }

    /// The entries of a head that state how objects are sketched, with the version of the layout.
    pub(super) fn head(&self) -> Vec<(&'static str, String)> {
        let (version, mut head) = match &self.method {
            Method::Features(features) => (layout::VERSION, features.head()),
            Method::Apexes(apexes) => (layout::VERSION_OF_PIVOTS, apexes.head()),
        };
        head.push((layout::VERSION_KEY, version.to_owned()));
        head
    }

    /// The sketch of the object in a row of an Arrow array, which need not be of the store. Blocks unless the pivots are in
    /// memory.
    ///
    /// # Errors
    /// When the array holds objects of another kind, the object has no distances, and when the caller interrupts.
    pub fn of_object(
        &self,
        object: &ArrayRef,
        row: usize,
        interrupt: Interrupt<'_>,
    ) -> Result<[u16; COORDINATES], SketchError> {
        match &self.method {
            Method::Features(features) => features.of_object(object, row),
            Method::Apexes(apexes) => apexes.of_object(&self.space, object, row, interrupt),
        }
    }

    /// Writes the sketches of objects, [`COORDINATES`] numbers each.
    ///
    /// # Errors
    /// When an object cannot be read.
    pub fn write(&self, sketcher: &mut Sketcher, ids: &[u64], out: &mut [u16]) -> Result<(), SketchError> {
        match &self.method {
            Method::Features(features) => Ok(features.write(sketcher, ids, out)?),
            Method::Apexes(apexes) => {
                let mut in_turn = |numbers: &mut [f64], piece: usize, f: &Piece<'_>| {
                    numbers.chunks_mut(piece).enumerate().for_each(|(nth, numbers)| f(nth * piece, numbers));
                    true
                };
                out.copy_from_slice(&apexes.sketches(&self.space, ids, &mut in_turn)?);
                Ok(())
            }
        }
    }

    /// Writes the sketches of objects by their rows in the index of which the maker was made.
    ///
    /// # Panics
    /// If it was made of something else.
    pub fn write_rows(&self, table: &PivotTable, ids: &[u64], out: &mut [u16]) {
        let Method::Apexes(apexes) = &self.method else { panic!("a maker by pivots") };
        apexes.write_rows(table, ids, out);
    }

    /// The sketches of objects, computed side by side.
    ///
    /// # Errors
    /// When an object cannot be read, or `side_by_side` was cancelled.
    pub(crate) fn sketches(
        &self,
        ids: &[u64],
        side_by_side: &mut SideBySide<'_>,
    ) -> Result<Vec<u16>, SketchError> {
        match &self.method {
            Method::Features(features) => features.sketches(&**self.space.store(), ids, side_by_side),
            Method::Apexes(apexes) => apexes.sketches(&self.space, ids, side_by_side),
        }
    }
}
