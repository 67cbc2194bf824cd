//! Lists in memory: which are nearest to a query, and their rows that may be.

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use boxwork_kernels::CodePath;
use boxwork_kernels::distance::squared_l2;
use boxwork_kernels::memory::filled;
use boxwork_kernels::panels::{PANEL, Panels, PanelsRef, Shortlist, halves_of};
use boxwork_kernels::product::{Codes, Scanner};
use boxwork_kernels::vector::{VectorMeasure, inner_product};

use super::super::packed_file::{PackedBatch, PackedError, PackedFile};
use super::error::command;
use super::{ListsError, Quantizers, dimensions, layout, measure, normalise_for};
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
    /// The panels of each list.
    panels: Vec<Range<usize>>,
    /// The objects of each list.
    counts: Vec<usize>,
    /// By the place of an object: its panel times [`PANEL`], plus its row there.
    ids: Vec<u64>,
    objects: u64,
    held: Held,
}

/// Queries of a search through lists.
#[derive(Debug)]
pub struct ListQueries {
    vectors: Vec<f32>,
    /// The part of the tables of each query that does not depend on a list; empty if there are no codes, or it would be large.
    products: Vec<f32>,
}

/// A range is widened by this part of it: distances in f64 are off by less.
const F64_SLACK: f64 = 1e-12;

/// Normalised vectors have inner products that differ by less than this from the cosine: each number is rounded to f32.
const NORMALISED_SLACK: f64 = 1e-6;

/// The most numbers of tables that are kept for the queries of a search: 64 MiB. For more they are computed for each list.
const PRODUCTS_MAX: usize = 1 << 24;

/// What the panels hold.
#[derive(Debug)]
enum Held {
    Rows { numbers: Vec<f32>, halves: Vec<f32>, norm_max: f64 },
    Codes(Vec<u8>),
}

impl Lists {
    /// Reads the lists of a space.
    ///
    /// # Errors
    /// When the file cannot be read, holds no lists, is cut short, damaged, of another version, or of another store; or the
    /// space has no lists.
    pub fn open(path: &Path, space: &Arc<dyn Space>) -> Result<Self, ListsError> {
        let (store, measure, dimensions) = (space.store(), measure(&**space)?, dimensions(&**space)?);
        let of = |error: PackedError| ListsError::of(error, measure, store.path(), path);
        let file = PackedFile::open(path, layout::FORMAT).map_err(of)?;
        let said = |key: &str| file.said(key).to_owned();
        if said(layout::STORE_KEY) != store.fingerprint() {
            let command = command(measure, store.path(), path);
            let (path, store) = (path.to_owned(), store.path().to_owned());
            return Err(ListsError::OtherStore { path, store, command });
        }
        if said(layout::MEASURE_KEY) != measure.name() {
            let fault = format!(
                "has lists for {}, and the distance here is {}",
                said(layout::MEASURE_KEY),
                measure.name()
            );
            let command = command(measure, store.path(), path);
            return Err(ListsError::File { path: path.to_owned(), fault, command });
        }
        let objects = store.objects_count();
        if said(layout::DIMENSIONS_KEY) != dimensions.to_string()
            || said(layout::OBJECTS_KEY) != objects.to_string()
        {
            return Err(of(file.not("its head does not fit its store")));
        }
        let quantizers = layout::quantizers(&file, dimensions).map_err(of)?;
        let held_bytes = layout::held_bytes(dimensions, quantizers.coding(), quantizers.parts());
        if *file.fields() != *layout::schema(held_bytes, Default::default()).fields() {
            return Err(of(file.not("its columns are not those of lists")));
        }
        let rows = layout::panels_of_batch(held_bytes);
        let panels = file.rows(rows).map_err(of)? as usize;
        let what = || format!("the lists `{}` of {objects} objects", path.display());
        let mut filling = Filling {
            count: quantizers.lists(),
            ids_end: store.ids_count(),
            held_bytes,
            panels: vec![0..0; quantizers.lists()],
            counts: vec![0; quantizers.lists()],
            ids: filled(panels * PANEL, 0, what, "free memory")?,
            bytes: Vec::new(),
            numbers: Vec::new(),
        };
        match quantizers.coding().bits() {
            None => filling.numbers = filled(panels * dimensions * PANEL, 0.0, what, "free memory")?,
            Some(_) => filling.bytes = filled(panels * held_bytes, 0, what, "free memory")?,
        }
        file.each_batch(rows, &mut |batch: PackedBatch<'_>| filling.take(batch)).map_err(of)?;
        let Filling { panels, counts, ids, bytes, numbers, .. } = filling;
        if counts.iter().sum::<usize>() as u64 != objects {
            let fault = "it does not hold each object once".to_owned();
            let error =
                PackedError::Damaged { path: path.to_owned(), place: "its lists".to_owned(), reason: fault };
            return Err(of(error));
        }
        let held = match quantizers.coding().bits() {
            None => {
                let (mut halves, norm_max) = halves_of(&numbers, dimensions, ids.len());
                if measure != VectorMeasure::L2 {
                    halves.fill(0.0);
                }
                for (panels, count) in panels.iter().zip(&counts) {
                    halves[panels.start * PANEL + count..panels.end * PANEL].fill(f32::INFINITY);
                }
                Held::Rows { numbers, halves, norm_max }
            }
            Some(_) => Held::Codes(bytes),
        };
        let centroids = match measure {
            VectorMeasure::L2 => Panels::new(quantizers.centroids(), dimensions, None),
            _ => Panels::of_products(quantizers.centroids(), dimensions),
        };
        let (path, number, space) = (path.to_owned(), new_number(), Arc::clone(space));
        Ok(Self { space, path, number, measure, quantizers, centroids, panels, counts, ids, objects, held })
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
        self.panels.len()
    }

    /// Number of objects in a list.
    ///
    /// # Panics
    /// When there is no such list.
    pub fn objects_of(&self, list: u32) -> usize {
        self.counts[list as usize]
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

    /// The `probes` lists whose centroids are nearest to each of some [prepared](Lists::prepare) queries, with their distances,
    /// the nearest first; equal distances go by list.
    ///
    /// # Panics
    /// When these are no whole queries of the lists' dimensions.
    pub fn nearest(&self, queries: &[f32], probes: usize) -> Vec<Vec<(f64, u32)>> {
        let (centroids, dimensions) = (self.centroids.borrow(), self.quantizers.dimensions());
        let each = || queries.chunks_exact(dimensions);
        let mut lists: Vec<_> = each().map(|query| centroids.shortlist(query, probes)).collect();
        centroids.scan(CodePath::detect(), queries, &mut lists, 0);
        let centroid = |list: u32| &self.quantizers.centroids()[list as usize * dimensions..][..dimensions];
        let distance = |query: &[f32], list: u32| self.measure.between(query, centroid(list));
        each().zip(lists).map(|(query, list)| list.ranked(|list| distance(query, list))).collect()
    }

    /// An empty shortlist of the `k` objects nearest to a [prepared](Lists::prepare) query. By rows it keeps all that may be
    /// among them and at most `range` far; by codes, the k least sums.
    ///
    /// # Panics
    /// When the query has another number of dimensions.
    pub fn shortlist(&self, query: &[f32], k: usize, range: f64) -> Shortlist {
        let Held::Rows { .. } = &self.held else { return Shortlist::new(k, 0.0) };
        let score = match self.measure {
            VectorMeasure::L2 => (range * range * (1.0 + F64_SLACK) - inner_product(query, query)) / 2.0,
            VectorMeasure::InnerProduct => range + range.abs() * F64_SLACK,
            // Normalised numbers are rounded to f32.
            // Vectors of zeros are at the distance 0 from each other, which products do not say.
            VectorMeasure::Cosine if query.iter().all(|x| *x == 0.0) => f64::INFINITY,
            VectorMeasure::Cosine => range - 1.0 + NORMALISED_SLACK,
        };
        self.rows_of(0..0, &[], 0).shortlist_within(query, k, score)
    }

    /// Which objects of a list are in a subset: a word for each panel, a bit for each row. `None` if none is.
    ///
    /// # Panics
    /// When there is no such list.
    pub fn mask(&self, list: u32, subset: &Subset) -> Option<Vec<u32>> {
        let (panels, count) = (self.panels[list as usize].clone(), self.counts[list as usize]);
        let ids = &self.ids[panels.start * PANEL..][..count];
        let word =
            |ids: &[u64]| (0..).zip(ids).fold(0, |word, (bit, id)| word | u32::from(subset.has(*id)) << bit);
        let mask: Vec<u32> = ids.chunks(PANEL).map(word).collect();
        mask.iter().any(|word| *word != 0).then_some(mask)
    }

    /// Arranges [prepared](Lists::prepare) queries for a search through lists.
    ///
    /// # Panics
    /// When these are no whole queries of the lists' dimensions.
    pub fn queries(&self, vectors: Vec<f32>) -> ListQueries {
        let dimensions = self.quantizers.dimensions();
        assert!(vectors.len().is_multiple_of(dimensions), "whole queries");
        let mut products = Vec::new();
        if let Some(codebook) = self.quantizers.codebook() {
            let (count, size) = (vectors.len() / dimensions, codebook.tables_len());
            if count * size <= PRODUCTS_MAX {
                products.resize(count * size, 0.0);
                let each = vectors.chunks_exact(dimensions).zip(products.chunks_exact_mut(size));
                each.for_each(|(query, products)| codebook.products(CodePath::detect(), query, products));
            }
        }
        ListQueries { vectors, products }
    }

    /// Offers the objects of a list to the shortlists of the queries at some places. With a [mask](Lists::mask), others than its
    /// objects come only to a shortlist that takes all rows, whatever their scores are.
    ///
    /// # Panics
    /// When there is no such list or query, the mask is of another list, or there is not a shortlist for each query.
    pub fn scan(
        &self,
        list: u32,
        queries: &ListQueries,
        places: &[usize],
        mask: Option<&[u32]>,
        shortlists: &mut [Shortlist],
    ) {
        assert_eq!(places.len(), shortlists.len(), "a shortlist for each query");
        let (panels, count) = (self.panels[list as usize].clone(), self.counts[list as usize]);
        let (path, first) = (CodePath::detect(), (panels.start * PANEL) as u32);
        let dimensions = self.quantizers.dimensions();
        let query = |place: usize| &queries.vectors[place * dimensions..][..dimensions];
        let (Held::Codes(bytes), Some(codebook)) = (&self.held, self.quantizers.codebook()) else {
            let together: Vec<f32> = places.iter().flat_map(|place| query(*place)).copied().collect();
            let mut halves = Cow::Borrowed(self.halves(&panels));
            if let Some(mask) = mask {
                assert_eq!(mask.len() * PANEL, halves.len(), "a word of the mask for each panel");
                let each = mask.iter().flat_map(|word| (0..PANEL).map(move |bit| word >> bit & 1 != 0));
                // No infinite score is within a limit.
                halves.to_mut().iter_mut().zip(each).filter(|(_, passes)| !passes).for_each(|(half, _)| {
                    *half = f32::INFINITY;
                });
            }
            return self.rows_of(panels, &halves, count).scan(path, &together, shortlists, first);
        };
        let size = layout::held_bytes(dimensions, self.quantizers.coding(), codebook.parts());
        let bytes = &bytes[panels.start * size..panels.end * size];
        let codes = Codes { parts: codebook.parts(), bits: codebook.bits(), rows: count, bytes };
        let centroid = &self.quantizers.centroids()[list as usize * dimensions..][..dimensions];
        let (size, mut scanner) = (codebook.tables_len(), Scanner::new(path));
        let (mut terms, mut tables) = (vec![0.0; size], vec![0.0; size]);
        if self.measure != VectorMeasure::InnerProduct {
            codebook.terms(path, centroid, &mut terms);
        }
        for (place, shortlist) in places.iter().zip(shortlists) {
            match queries.products.get(place * size..(place + 1) * size) {
                Some(products) => tables.copy_from_slice(products),
                None => codebook.products(path, query(*place), &mut tables),
            }
            tables.iter_mut().zip(&terms).for_each(|(x, y)| *x += y);
            // Inner products are those of the centroid and of the difference, both times -2. Normalised vectors are compared by
            // l2: the square of what a code stands for corrects for the part that it lost.
            let base = match self.measure {
                VectorMeasure::L2 | VectorMeasure::Cosine => squared_l2(query(*place), centroid),
                VectorMeasure::InnerProduct => -2.0 * inner_product(query(*place), centroid),
            };
            scanner.scan(codes, &tables, base as f32, mask, shortlist, first);
        }
    }

    /// Half the squared norm of each vector of some panels.
    fn halves(&self, panels: &Range<usize>) -> &[f32] {
        let Held::Rows { halves, .. } = &self.held else { unreachable!("lists of rows") };
        &halves[panels.start * PANEL..panels.end * PANEL]
    }

    /// The vectors of some panels, with their halves.
    fn rows_of<'a>(&'a self, panels: Range<usize>, halves: &'a [f32], rows: usize) -> PanelsRef<'a> {
        let dimensions = self.quantizers.dimensions();
        let Held::Rows { numbers, norm_max, .. } = &self.held else { unreachable!("lists of rows") };
        let numbers = &numbers[panels.start * dimensions * PANEL..panels.end * dimensions * PANEL];
        PanelsRef { dimensions, rows, centre: None, numbers, halves, norm_max: *norm_max }
    }
}

/// Lists that are being read.
struct Filling {
    count: usize,
    ids_end: u64,
    held_bytes: usize,
    panels: Vec<Range<usize>>,
    counts: Vec<usize>,
    ids: Vec<u64>,
    bytes: Vec<u8>,
    numbers: Vec<f32>,
}

impl Filling {
    /// Takes the panels of a batch; `None` if they are not panels of lists in order, with objects of the store.
    fn take(&mut self, batch: PackedBatch<'_>) -> Option<()> {
        let columns = batch.columns_of(&layout::widths(self.held_bytes))?;
        let [lists, counts, ids, held] = columns.as_slice() else { return None };
        let word = |bytes: &[u8], row: usize| -> Option<u32> {
            Some(u32::from_le_bytes(*bytes[row * 4..].first_chunk()?))
        };
        for row in 0..batch.rows {
            let (list, count) = (word(lists, row)? as usize, word(counts, row)? as usize);
            let panel = batch.first + row;
            if list >= self.count || !(1..=PANEL).contains(&count) {
                return None;
            }
            // Every panel of a list but its last is full, and lists have theirs side by side.
            let panels = &mut self.panels[list];
            if panels.start == panels.end {
                *panels = panel..panel;
            }
            if panels.end != panel || !self.counts[list].is_multiple_of(PANEL) {
                return None;
            }
            panels.end = panel + 1;
            self.counts[list] += count;
            let ids = &ids[row * layout::IDS_BYTES..][..layout::IDS_BYTES];
            for (place, id) in (panel * PANEL..).zip(ids.as_chunks::<8>().0.iter().take(count)) {
                let id = u64::from_le_bytes(*id);
                if id >= self.ids_end {
                    return None;
                }
                self.ids[place] = id;
            }
            let held = &held[row * self.held_bytes..][..self.held_bytes];
            if self.numbers.is_empty() {
                self.bytes[panel * self.held_bytes..][..self.held_bytes].copy_from_slice(held);
                continue;
            }
            let size = self.held_bytes / 4;
            for (to, bytes) in self.numbers[panel * size..].iter_mut().zip(held.as_chunks::<4>().0) {
                *to = f32::from_le_bytes(*bytes);
                if !to.is_finite() {
                    return None;
                }
            }
        }
        Some(())
    }
}
