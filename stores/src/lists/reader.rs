//! Lists of a store: which are nearest to a query, and their rows that may be. Codes are in memory; vectors come into it with the first
//! query that looks into their list.

mod nearest;
mod segments;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use boxwork_kernels::CodePath;
use boxwork_kernels::directions;
use boxwork_kernels::distance::squared_l2_on;
use boxwork_kernels::interrupt::Interrupt;
use boxwork_kernels::panels::{PANEL, Panels, PanelsRef, Shortlist};
use boxwork_kernels::product::{Codes, Scales, Scanner, group_bytes, unpack};
use boxwork_kernels::vector::{NumberType, VectorMeasure, inner_product};

use super::super::packed_file::PackedError;
use super::chain::Chain;
use super::filling::{Filling, Part, alive};
use super::rows::{Fault, Rows, leave_out, part_of, widened};
use super::{Assigned, Coding, ListsError, Quantizers, layout, normalise_for};
use crate::new_number;
use crate::space::Space;
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
    /// The parts of each list: one for each file that has some of it.
    parts: Vec<Vec<Part>>,
    /// By the place of an object: its panel times [`PANEL`], plus its row there.
    ids: Vec<u64>,
    /// The objects that are there still: a word for each panel, a bit for each row. Empty if none was removed.
    alive: Vec<u32>,
    objects: u64,
    held: Held,
}

/// Queries of a search through lists.
#[derive(Debug)]
pub struct ListQueries {
    vectors: Vec<f32>,
    /// The same as the codebook takes them; empty if there is no rotation.
    turned: Vec<f32>,
    /// The part of the tables of each query that does not depend on a list; empty if there are no codes, or it would be large.
    products: Vec<f32>,
}

/// A range is widened by this part of it: distances in f64 are off by less.
const F64_SLACK: f64 = 1e-12;

/// Normalised vectors have inner products that differ by less than this from the cosine: each number is rounded to f32.
const NORMALISED_SLACK: f64 = 1e-6;

/// The most numbers of tables that are kept for the queries of a search: 64 MiB. For more they are computed for each list.
const PRODUCTS_MAX: usize = 1 << 24;

/// Panels that are widened at a time.
const PANELS_AT_ONCE: usize = 4;

/// What the panels hold.
#[derive(Debug)]
enum Held {
    Rows(Rows),
    Codes(Vec<u8>),
    Directions { codes: Vec<u8>, squares: Vec<f32>, scales: Vec<f32> },
}

impl Lists {
    /// Reads the lists of a space.
    ///
    /// # Errors
    /// When the file cannot be read, holds no lists, is cut short, damaged, of another version, or of another store, or lacks
    /// objects; or the space has no lists.
    pub fn open(path: &Path, space: &Arc<dyn Space>) -> Result<Self, ListsError> {
        let (store, chain) = (space.store(), Chain::open(path, &**space)?);
        if store.count(chain.len..store.ids_count()) > 0 {
            let (path, store_path) = (path.to_owned(), store.path().to_owned());
            let (found, objects) = (chain.len, store.ids_count());
            return Err(ListsError::Behind { path, store: store_path, found, objects });
        }
        let panels = chain.panels();
        let (measure, quantizers) = (chain.measure, chain.quantizers);
        let of = |error: PackedError| ListsError::of(error, measure, store.path(), path);
        let (dimensions, coding) = (quantizers.dimensions(), quantizers.coding());
        let objects = store.objects_count();
        let what = || format!("the lists `{}` of {objects} objects", path.display());
        let mut filling = Filling::new(&quantizers, panels as usize, what)?;
        // Files of earlier programs do not note the length of their longest vector.
        let norms = chain.files.iter().map(|(_, file)| layout::norm(&file.file));
        let norms: Result<Option<Vec<f64>>, PackedError> = norms.collect();
        let norms = norms.map_err(of)?;
        let norm_max = norms.as_ref().map_or(0.0, |norms| norms.iter().copied().fold(0.0, f64::max));
        let mut vectors = Rows::new(dimensions, measure, norm_max);
        for (ids, file) in chain.files {
            filling.begin(ids, file.held_bytes);
            let (panels, rows) = (file.panels, layout::panels_of_batch(file.held_bytes));
            if coding == Coding::Rows {
                let batches = file.file.into_batches(rows).map_err(of)?;
                filling.take_all_ids(&batches).map_err(of)?;
                vectors.push(filling.first, batches, file.numbers);
            } else {
                file.file.each_batch(rows, &mut |batch| filling.take(batch)).map_err(of)?;
            }
            filling.first += panels as usize;
        }
        let Filling { parts, ids, bytes, factors, .. } = filling;
        let alive = alive(&**store, &parts, &ids).ok_or_else(|| {
            of(PackedError::Damaged {
                path: path.to_owned(),
                place: "its lists".to_owned(),
                reason: "it does not hold each object once".to_owned(),
            })
        })?;
        let held = match coding.bits() {
            None => {
                if norms.is_none() {
                    vectors.measure_all(&alive).map_err(|fault| match fault {
                        Fault::File(error) => of(error),
                        Fault::Memory(refused) => refused.into(),
                    })?;
                }
                Held::Rows(vectors)
            }
            Some(_) if coding == Coding::Rabitq => {
                let [mut squares, scales] = factors;
                if measure == VectorMeasure::InnerProduct {
                    squares.fill(0.0);
                }
                Held::Directions { codes: bytes, squares, scales }
            }
            Some(_) => Held::Codes(bytes),
        };
        let centroids = match measure {
            VectorMeasure::L2 => Panels::new(quantizers.centroids(), dimensions, None),
            _ => Panels::of_products(quantizers.centroids(), dimensions),
        };
        let (path, number, space) = (path.to_owned(), new_number(), Arc::clone(space));
        let centroid_space = OnceLock::new();
        Ok(Self {
            space,
            path,
            number,
            measure,
            quantizers,
            centroids,
            centroid_space,
            parts,
            ids,
            alive,
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
    /// When there is no such place.
    pub fn id(&self, place: u32) -> u64 {
        self.ids[place as usize]
    }

    /// An empty shortlist of the `k` objects nearest to a [prepared](Lists::prepare) query. By rows it keeps all that may be
    /// among them and at most `range` far; by codes, the k least sums.
    ///
    /// # Panics
    /// When the query has another number of dimensions.
    pub fn shortlist(&self, query: &[f32], k: usize, range: f64) -> Shortlist {
        let Held::Rows(rows) = &self.held else { return Shortlist::new(k, 0.0) };
        let score = match self.measure {
            VectorMeasure::L2 => (range * range * (1.0 + F64_SLACK) - inner_product(query, query)) / 2.0,
            VectorMeasure::InnerProduct => range + range.abs() * F64_SLACK,
            // Normalised numbers are rounded to f32.
            // Vectors of zeros are at the distance 0 from each other, which products do not say.
            VectorMeasure::Cosine if query.iter().all(|x| *x == 0.0) => f64::INFINITY,
            VectorMeasure::Cosine => range - 1.0 + NORMALISED_SLACK,
        };
        let dimensions = self.quantizers.dimensions();
        let none = PanelsRef {
            dimensions,
            rows: 0,
            centre: None,
            numbers: &[],
            halves: &[],
            norm_max: rows.norm_max(),
        };
        none.shortlist_within(query, k, score)
    }

    /// Whether some lists can be scanned at once.
    ///
    /// # Panics
    /// When there is no such list.
    pub fn has(&self, lists: &[u32]) -> bool {
        let Held::Rows(rows) = &self.held else { return true };
        lists.iter().flat_map(|list| &self.parts[*list as usize]).all(|part| rows.has(&part.panels))
    }

    /// Reads the vectors of some lists that are not in memory yet. Blocks on the disk; asks `interrupt` between two batches.
    ///
    /// # Errors
    /// When the file is damaged or cannot be read, there is no memory, or the caller interrupts.
    ///
    /// # Panics
    /// When there is no such list.
    pub fn bring_in(&self, lists: &[u32], interrupt: Interrupt<'_>) -> Result<(), ListsError> {
        let Held::Rows(rows) = &self.held else { return Ok(()) };
        for part in lists.iter().flat_map(|list| &self.parts[*list as usize]) {
            if interrupt() {
                return Err(ListsError::Cancelled);
            }
            rows.bring_in(&part.panels, &self.alive).map_err(|fault| match fault {
                Fault::File(error) => {
                    ListsError::of(error, self.measure, self.space.store().path(), &self.path)
                }
                Fault::Memory(refused) => refused.into(),
            })?;
        }
        Ok(())
    }

    /// Which objects of a list are in a subset: a word for each of its panels, a bit for each row. `None` if none is.
    ///
    /// # Panics
    /// When there is no such list.
    pub fn mask(&self, list: u32, subset: &Subset) -> Option<Vec<u32>> {
        let word =
            |ids: &[u64]| (0..).zip(ids).fold(0, |word, (bit, id)| word | u32::from(subset.has(*id)) << bit);
        let ids = |part: &Part| &self.ids[part.panels.start * PANEL..][..part.rows];
        let mask: Vec<u32> =
            self.parts[list as usize].iter().flat_map(|part| ids(part).chunks(PANEL)).map(word).collect();
        mask.iter().any(|word| *word != 0).then_some(mask)
    }

    /// Arranges [prepared](Lists::prepare) queries for a search through lists.
    ///
    /// # Panics
    /// When these are no whole queries of the lists' dimensions.
    pub fn queries(&self, vectors: Vec<f32>) -> ListQueries {
        let dimensions = self.quantizers.dimensions();
        assert!(vectors.len().is_multiple_of(dimensions), "whole queries");
        let turned = match self.quantizers.rotation() {
            None => Vec::new(),
            Some(rotation) => rotation.turn(CodePath::detect(), &vectors),
        };
        let mut products = Vec::new();
        if let Some(codebook) = self.quantizers.codebook() {
            let (count, size) = (vectors.len() / dimensions, codebook.tables_len());
            if count * size <= PRODUCTS_MAX {
                products.resize(count * size, 0.0);
                let coded = if turned.is_empty() { &vectors } else { &turned };
                let each = coded.chunks_exact(codebook.dimensions()).zip(products.chunks_exact_mut(size));
                each.for_each(|(query, products)| codebook.products(CodePath::detect(), query, products));
            }
        }
        ListQueries { vectors, turned, products }
    }

    /// Offers the objects of a list to the shortlists of the queries at some places. With a [mask](Lists::mask), others than its
    /// objects come only to a shortlist that takes all rows, whatever their scores are, and so do removed ones.
    ///
    /// # Panics
    /// When the list was not [brought in](Lists::bring_in), there is no such list or query, the mask is of another list, or there is not a shortlist for each query.
    pub fn scan(
        &self,
        list: u32,
        queries: &ListQueries,
        places: &[usize],
        mask: Option<&[u32]>,
        shortlists: &mut [Shortlist],
    ) {
        assert_eq!(places.len(), shortlists.len(), "a shortlist for each query");
        let parts = &self.parts[list as usize];
        let panels: usize = parts.iter().map(|part| part.panels.len()).sum();
        assert!(mask.is_none_or(|mask| mask.len() == panels), "a word of the mask for each panel");
        if let Some(bits) = self.quantizers.direction_bits() {
            return self.scan_directions(list, bits, queries, places, mask, shortlists);
        }
        let Some(codebook) = self.quantizers.codebook() else {
            return self.scan_rows(parts, queries, places, mask, shortlists);
        };
        let (path, dimensions) = (CodePath::detect(), self.quantizers.dimensions());
        let query = |place: usize| &queries.vectors[place * dimensions..][..dimensions];
        let centroid = &self.quantizers.centroids()[list as usize * dimensions..][..dimensions];
        let (size, mut scanner) = (codebook.tables_len(), Scanner::new(path));
        let (mut terms, mut tables) = (vec![0.0; size], vec![0.0; size]);
        if self.measure != VectorMeasure::InnerProduct {
            codebook.terms(path, &self.quantizers.turned(centroid), &mut terms);
        }
        for (place, shortlist) in places.iter().zip(shortlists) {
            match queries.products.get(place * size..(place + 1) * size) {
                Some(products) => tables.copy_from_slice(products),
                None => {
                    let coded = if queries.turned.is_empty() { &queries.vectors } else { &queries.turned };
                    let size = codebook.dimensions();
                    codebook.products(path, &coded[place * size..][..size], &mut tables);
                }
            }
            tables.iter_mut().zip(&terms).for_each(|(x, y)| *x += y);
            let (base, mut rest) = (self.base(path, query(*place), list), mask);
            for part in parts {
                let mask = self.mask_of(part, &mut rest);
                let first = (part.panels.start * PANEL) as u32;
                scanner.scan(self.codes_of(part), &tables, base, mask, shortlist, first);
            }
        }
    }

    fn scan_directions(
        &self,
        list: u32,
        bits: usize,
        queries: &ListQueries,
        places: &[usize],
        mask: Option<&[u32]>,
        shortlists: &mut [Shortlist],
    ) {
        let dimensions = self.quantizers.dimensions();
        let Held::Directions { squares, scales, .. } = &self.held else {
            unreachable!("lists of directions")
        };
        let centroid = &self.quantizers.centroids()[list as usize * dimensions..][..dimensions];
        let mut scanner = Scanner::new(CodePath::detect());
        let mut tables = vec![0.0; directions::tables_len(dimensions, bits)];
        for (place, shortlist) in places.iter().zip(shortlists) {
            let query = &queries.vectors[place * dimensions..][..dimensions];
            let base = match self.measure {
                VectorMeasure::InnerProduct => {
                    directions::tables(
                        &queries.turned[place * dimensions..][..dimensions],
                        bits,
                        &mut tables,
                    );
                    -2.0 * inner_product(query, centroid)
                }
                VectorMeasure::L2 | VectorMeasure::Cosine => {
                    let difference: Vec<f32> = query.iter().zip(centroid).map(|(x, y)| x - y).collect();
                    directions::tables(&self.quantizers.turned(&difference), bits, &mut tables);
                    squared_l2_on(CodePath::detect(), query, centroid)
                }
            };
            let mut rest = mask;
            for part in &self.parts[list as usize] {
                let mask = self.mask_of(part, &mut rest);
                let (rows, first) =
                    (part.panels.start * PANEL..part.panels.end * PANEL, part.panels.start * PANEL);
                let of_rows = Scales { squares: &squares[rows.clone()], scales: &scales[rows] };
                let codes = self.codes_of(part);
                scanner.scan_scaled(codes, &tables, base as f32, of_rows, mask, shortlist, first as u32);
            }
        }
    }

    fn scan_rows(
        &self,
        parts: &[Part],
        queries: &ListQueries,
        places: &[usize],
        mask: Option<&[u32]>,
        shortlists: &mut [Shortlist],
    ) {
        let Held::Rows(rows) = &self.held else { unreachable!("lists of rows") };
        let (path, dimensions) = (CodePath::detect(), self.quantizers.dimensions());
        let query = |place: &usize| &queries.vectors[place * dimensions..][..dimensions];
        let together: Vec<f32> = places.iter().flat_map(query).copied().collect();
        let (mut rest, mut wide) = (mask, Vec::new());
        for part in parts {
            let (numbers, halves) = rows.of(&part.panels);
            let mut halves = Cow::Borrowed(halves);
            if let Some(mask) = mask.and_then(|_| self.mask_of(part, &mut rest)) {
                leave_out(mask, halves.to_mut());
            }
            let first = (part.panels.start * PANEL) as u32;
            let norm_max = rows.norm_max();
            // Panels of other numbers are widened a few at a time, which stay in the cache.
            let at_once =
                if numbers.number_type() == NumberType::F32 { part.panels.len() } else { PANELS_AT_ONCE };
            for panel in (0..part.panels.len()).step_by(at_once.max(1)) {
                let rows = (part.rows - panel * PANEL).min(at_once * PANEL);
                let end = panel + rows.div_ceil(PANEL);
                let numbers = part_of(numbers, panel * PANEL * dimensions..end * PANEL * dimensions);
                let halves = &halves[panel * PANEL..end * PANEL];
                let numbers = widened(path, numbers, &mut wide);
                let panels = PanelsRef { dimensions, rows, centre: None, numbers, halves, norm_max };
                panels.scan(path, &together, shortlists, first + (panel * PANEL) as u32);
            }
        }
    }

    /// The part's words of a mask, which are taken off its front; those of the objects that are there still if there is no mask.
    fn mask_of<'a>(&'a self, part: &Part, mask: &mut Option<&'a [u32]>) -> Option<&'a [u32]> {
        match mask {
            Some(words) => {
                let (of_part, rest) = words.split_at(part.panels.len());
                *mask = Some(rest);
                Some(of_part)
            }
            None => self.alive.get(part.panels.clone()),
        }
    }

    /// The codes of a part of a list.
    fn codes_of(&self, part: &Part) -> Codes<'_> {
        let (Held::Codes(bytes) | Held::Directions { codes: bytes, .. }, Some(bits)) =
            (&self.held, self.quantizers.coding().bits())
        else {
            unreachable!("lists of codes")
        };
        let (parts, size) = (self.quantizers.parts(), group_bytes(self.quantizers.parts(), bits));
        let bytes = &bytes[part.panels.start * size..part.panels.end * size];
        Codes { parts, bits, rows: part.rows, bytes }
    }

    /// The bytes of the factors of the object at a place; none if codes have no factors.
    fn factors(&self, place: usize) -> Vec<u8> {
        match &self.held {
            Held::Directions { squares, scales, .. } => {
                [squares[place], scales[place]].into_iter().flat_map(f32::to_le_bytes).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The objects that are there still with their lists and codes, by id.
    pub(super) fn assigned(&self) -> Assigned {
        let store = self.space.store();
        let mut found = Vec::with_capacity(self.objects as usize);
        for (list, part) in
            (0..).zip(&self.parts).flat_map(|(list, parts)| parts.iter().map(move |part| (list, part)))
        {
            let codes = self.quantizers.coding().bits().map(|_| unpack(self.codes_of(part)));
            for (row, id) in self.ids[part.panels.start * PANEL..][..part.rows].iter().enumerate() {
                if store.has(*id) {
                    let (parts, place) = (self.quantizers.parts(), part.panels.start * PANEL + row);
                    let code = codes.as_ref().map_or(&[][..], |codes| &codes[row * parts..][..parts]);
                    found.push((*id, list, [code, &self.factors(place)].concat()));
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
