//! Lists of a store: which are nearest to a query, and their rows that may be. All that grows with the vectors stays in the files
//! (`held`); in memory are the centroids, the codebook, and which panels each list has.

mod nearest;
mod scan;
mod segments;

pub use scan::ListQueries;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use boxwork_kernels::interrupt::Interrupt;
use boxwork_kernels::panels::{PANEL, Panels};
use boxwork_kernels::product::{group_bytes, unpack};
use boxwork_kernels::vector::VectorMeasure;

use super::super::object_store::Access;
use super::super::packed_file::{CHECKSUM_DIFFERS, PackedError};
use super::chain::{Chain, ListsFile};
use super::filling::{Filling, Part};
use super::held::{Held, HeldFile};
use super::{Assigned, Coding, ListsError, Quantizers, layout, normalise_for};
use crate::new_number;
use crate::space::Space;
use crate::store::Store;
use crate::subset::Subset;

/// The lists of a store.
#[derive(Debug)]
pub struct Lists {
    space: Arc<dyn Space>,
    path: PathBuf,
    number: u64,
    measure: VectorMeasure,
    quantizers: Quantizers,
    centroids: Panels,
    /// The centroids as objects, once a device compares them with queries.
    centroid_space: OnceLock<Arc<dyn Space>>,
    /// The parts of each list: one for each batch that has some of it.
    parts: Vec<Vec<Part>>,
    /// Panels of all lists.
    panels: usize,
    objects: u64,
    held: Held,
}

impl Lists {
    /// Opens the lists of a space, and maps their files.
    ///
    /// # Errors
    /// When the file cannot be read, holds no lists, is cut short, damaged, of another version, or of another store, or lacks
    /// objects; or the space has no lists. Damage of what lists hold comes to light when they are [brought in](Lists::bring_in).
    pub fn open(path: &Path, space: &Arc<dyn Space>) -> Result<Self, ListsError> {
        Self::open_by(path, space, Access::Map)
    }

    /// As [`Lists::open`], but `access` decides whether files are mapped, or read as lists are first looked into and kept in memory.
    /// Files that the system does not map are read too.
    ///
    /// # Errors
    /// As [`Lists::open`].
    pub fn open_by(path: &Path, space: &Arc<dyn Space>, access: Access) -> Result<Self, ListsError> {
        let (store, chain) = (space.store(), Chain::open(path, &**space)?);
        if store.count(chain.len..store.ids_count()) > 0 {
            let (path, store_path) = (path.to_owned(), store.path().to_owned());
            let (found, objects) = (chain.len, store.ids_count());
            return Err(ListsError::Behind { path, store: store_path, found, objects });
        }
        let (measure, objects, panels) = (chain.measure, store.objects_count(), chain.panels() as usize);
        let of = |error: PackedError| ListsError::of(error, measure, store.path(), path);
        let (held, parts) =
            read_parts(&chain.quantizers, measure, chain.files, &**store, access).map_err(of)?;
        let (quantizers, path) = (chain.quantizers, path.to_owned());
        let centroids = match measure {
            VectorMeasure::L2 => Panels::new(quantizers.centroids(), quantizers.dimensions(), None),
            _ => Panels::of_products(quantizers.centroids(), quantizers.dimensions()),
        };
        let (number, space, centroid_space) = (new_number(), Arc::clone(space), OnceLock::new());
        Ok(Self {
            space,
            path,
            number,
            measure,
            quantizers,
            centroids,
            centroid_space,
            parts,
            panels,
            objects,
            held,
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The vectors and their distance.
    pub fn space(&self) -> &Arc<dyn Space> {
        &self.space
    }

    /// Unique in this process, also over time.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Prepares queries for all that follows: normalises them for the cosine.
    pub fn prepare(&self, queries: &mut [f32]) {
        normalise_for(self.measure, queries, self.quantizers.dimensions());
    }

    /// The centroids and the codebook.
    pub fn quantizers(&self) -> &Quantizers {
        &self.quantizers
    }

    /// Number of lists.
    pub fn count(&self) -> usize {
        self.parts.len()
    }

    /// Number of objects in all lists.
    pub fn objects(&self) -> u64 {
        self.objects
    }

    /// The object at a place of a shortlist.
    ///
    /// # Panics
    /// When there is no such place, or its list was not [brought in](Lists::bring_in).
    pub fn id(&self, place: u32) -> u64 {
        let (panel, row) = (place as usize / PANEL, place as usize % PANEL);
        self.held.of(&(panel..panel + 1)).ids()[row]
    }

    /// Bytes of lists in memory of this process, about. It grows with the number of batches and lists, but not with what is read of maps:
    /// their pages are the system's.
    pub fn memory_bytes(&self) -> usize {
        let parts = self.parts.iter().map(|parts| size_of_val(parts) + size_of_val(&**parts));
        let quantizers =
            [self.quantizers.centroids(), self.quantizers.codebook().map_or(&[], |book| book.numbers())];
        parts.sum::<usize>()
            + 2 * quantizers.map(size_of_val).iter().sum::<usize>()
            + self.held.memory_bytes()
    }

    /// Confirms that the files are unchanged since they were opened. What was found in lists counts only after that.
    ///
    /// # Errors
    /// When a file was cut short or overwritten.
    pub fn confirm(&self) -> Result<(), ListsError> {
        self.held.confirm().map_err(|error| self.error(error))
    }

    fn error(&self, error: PackedError) -> ListsError {
        ListsError::of(error, self.measure, self.space.store().path(), &self.path)
    }

    /// Whether some lists can be scanned at once.
    ///
    /// # Panics
    /// When there is no such list.
    pub fn has(&self, lists: &[u32]) -> bool {
        lists.iter().flat_map(|list| &self.parts[*list as usize]).all(|part| self.held.has(&part.panels))
    }

    /// Checks what some lists hold, unless that was done before. Blocks on the disk; asks `interrupt` between two batches.
    ///
    /// # Errors
    /// When the file is damaged or cannot be read, or the caller interrupts.
    ///
    /// # Panics
    /// When there is no such list.
    pub fn bring_in(&self, lists: &[u32], interrupt: Interrupt<'_>) -> Result<(), ListsError> {
        let store = &**self.space.store();
        for part in lists.iter().flat_map(|list| &self.parts[*list as usize]) {
            if interrupt() {
                return Err(ListsError::Cancelled);
            }
            self.held.bring_in(&part.panels, store).map_err(|error| self.error(error))?;
        }
        Ok(())
    }

    /// Which objects of a list are in a subset: a word for each of its panels, a bit for each row. `None` if none is.
    ///
    /// # Panics
    /// When there is no such list, or it was not [brought in](Lists::bring_in).
    pub fn mask(&self, list: u32, subset: &Subset) -> Option<Vec<u32>> {
        let word =
            |ids: &[u64]| (0..).zip(ids).fold(0, |word, (bit, id)| word | u32::from(subset.has(*id)) << bit);
        let ids = |part: &Part| &self.held.of(&part.panels).ids()[..part.rows];
        let mask: Vec<u32> =
            self.parts[list as usize].iter().flat_map(|part| ids(part).chunks(PANEL)).map(word).collect();
        mask.iter().any(|word| *word != 0).then_some(mask)
    }

    /// The objects that are there still with their lists and codes, by id.
    ///
    /// # Panics
    /// When a list was not brought in.
    pub(super) fn assigned(&self) -> Assigned {
        let (store, coding, parts) = (self.space.store(), self.quantizers.coding(), self.quantizers.parts());
        let mut found = Vec::with_capacity(self.objects as usize);
        let each = (0..).zip(&self.parts);
        for (list, part) in each.flat_map(|(list, parts)| parts.iter().map(move |part| (list, part))) {
            let held = self.held.of(&part.panels);
            let codes = coding.bits().map(|_| unpack(self.codes_of(part, &held)));
            let scales = (coding == Coding::Rabitq).then(|| held.scales());
            for (row, id) in held.ids()[..part.rows].iter().enumerate() {
                if store.has(*id) {
                    let mut code =
                        codes.as_ref().map_or(Vec::new(), |codes| codes[row * parts..][..parts].to_vec());
                    if let Some(scales) = &scales {
                        let factors = [scales.squares[row], scales.scales[row]];
                        code.extend(factors.into_iter().flat_map(f32::to_le_bytes));
                    }
                    found.push((*id, list, code));
                }
            }
        }
        found.sort_unstable_by_key(|(id, ..)| *id);
        let mut assigned = Assigned::default();
        for (id, list, code) in found {
            assigned.ids.push(id);
            assigned.lists.push(list);
            assigned.codes.extend(code);
        }
        assigned
    }
}

/// Maps the files of lists, and reads which panels each list has.
fn read_parts(
    quantizers: &Quantizers,
    measure: VectorMeasure,
    files: Vec<(Range<u64>, ListsFile)>,
    store: &dyn Store,
    access: Access,
) -> Result<(Held, Vec<Vec<Part>>), PackedError> {
    let (coding, parts) = (quantizers.coding(), quantizers.parts());
    // Files of earlier programs do not note the length of their longest vector.
    let norms: Result<Option<Vec<f64>>, PackedError> =
        files.iter().map(|(_, file)| layout::norm(&file.file)).collect();
    let norms = norms?;
    let norm_max = norms.as_ref().map_or(0.0, |norms| norms.iter().copied().fold(0.0, f64::max));
    let code_bytes = coding.bits().map_or(0, |bits| group_bytes(parts, bits));
    let mut held = Held::new(quantizers, code_bytes, measure, norm_max);
    let (mut filling, mut unsure) = (Filling::new(quantizers.lists()), Vec::new());
    let count = files.len();
    for (place, (ids, ListsFile { file, columns, numbers, .. })) in files.into_iter().enumerate() {
        let (noted, objects) = (layout::places(&file)?, file.said(layout::OBJECTS_KEY).parse::<u64>());
        let not_once = file.damaged("its lists", "it does not hold each object once");
        let differs = file.damaged("its lists", CHECKSUM_DIFFERS);
        let (first, follows) = (filling.first, place > 0);
        let batches = file.into_mapped(columns.panels_of_batch(), access, follows)?;
        let (rows, checksum) = filling.take(&batches, &columns.widths())?;
        match noted {
            Some(noted) if noted != checksum => return Err(differs),
            Some(_) => {}
            // The lists and counts of earlier programs' files are covered with all else alone.
            None => unsure.push(place),
        }
        // Objects that were removed since are in lists still.
        let is_last_short = place + 1 == count && filling.rows < store.objects_count();
        if is_last_short || objects.is_ok_and(|objects| objects != rows) || rows > ids.end - ids.start {
            return Err(not_once);
        }
        let checked = (0..batches.len()).map(|_| OnceLock::new()).collect();
        held.push(HeldFile { first, ids, batches, columns, numbers, checked });
    }
    if coding == Coding::Rows {
        if norms.is_none() {
            held.measure_all(store)?;
        }
    } else {
        held.check_all(store, |place| unsure.contains(&place))?;
    }
    Ok((held, filling.parts))
}
