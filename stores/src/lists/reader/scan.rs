//! Scans of lists: the objects of a list that may be nearest to some queries.

use std::borrow::Cow;

use boxwork_kernels::CodePath;
use boxwork_kernels::directions;
use boxwork_kernels::distance::squared_l2_on;
use boxwork_kernels::panels::{PANEL, PanelsRef, Shortlist};
use boxwork_kernels::product::{Codes, Scanner};
use boxwork_kernels::vector::{NumberType, VectorMeasure, inner_product};

use super::Lists;
use crate::lists::Coding;
use crate::lists::filling::Part;
use crate::lists::held::{HeldPanels, leave_out, part_of, widened};

/// Queries of a search through lists.
#[derive(Debug)]
pub struct ListQueries {
    vectors: Vec<f32>,
    /// The vectors as the codebook takes them; empty if there is no rotation.
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

impl Lists {
    /// An empty shortlist of the `k` objects nearest to a [prepared](Lists::prepare) query. By rows it keeps all that may be
    /// among them and at most `range` far; by codes, the k least sums.
    ///
    /// # Panics
    /// When the query has another number of dimensions.
    pub fn shortlist(&self, query: &[f32], k: usize, range: f64) -> Shortlist {
        if self.quantizers.coding() != Coding::Rows {
            return Shortlist::new(k, 0.0);
        }
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
            norm_max: self.held.norm_max(),
        };
        none.shortlist_within(query, k, score)
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
                let (held, first) = (self.held.of(&part.panels), (part.panels.start * PANEL) as u32);
                let mask = mask_of(part, held.alive(), &mut rest);
                scanner.scan(self.codes_of(part, &held), &tables, base, mask, shortlist, first);
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
                let (held, first) = (self.held.of(&part.panels), (part.panels.start * PANEL) as u32);
                let mask = mask_of(part, held.alive(), &mut rest);
                let (codes, of_rows) = (self.codes_of(part, &held), held.scales());
                scanner.scan_scaled(codes, &tables, base as f32, of_rows, mask, shortlist, first);
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
        let (path, dimensions) = (CodePath::detect(), self.quantizers.dimensions());
        let query = |place: &usize| &queries.vectors[place * dimensions..][..dimensions];
        let together: Vec<f32> = places.iter().flat_map(query).copied().collect();
        let (mut rest, mut wide) = (mask, Vec::new());
        for part in parts {
            let held = self.held.of(&part.panels);
            let (numbers, halves) = held.vectors();
            let mut halves = Cow::Borrowed(halves);
            let asked = mask.and_then(|_| mask_of(part, None, &mut rest));
            for mask in [held.alive(), asked].into_iter().flatten() {
                leave_out(mask, halves.to_mut());
            }
            let first = (part.panels.start * PANEL) as u32;
            let norm_max = self.held.norm_max();
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

    /// The codes of a part of a list.
    pub(super) fn codes_of<'a>(&self, part: &Part, held: &HeldPanels<'a>) -> Codes<'a> {
        let bits = self.quantizers.coding().bits().expect("lists of codes");
        Codes { parts: self.quantizers.parts(), bits, rows: part.rows, bytes: held.codes() }
    }
}

/// The part's words of a mask, which are taken off its front; those of the objects that are there still if there is no mask.
fn mask_of<'a>(part: &Part, alive: Option<&'a [u32]>, mask: &mut Option<&'a [u32]>) -> Option<&'a [u32]> {
    match mask {
        Some(words) => {
            let (of_part, rest) = words.split_at(part.panels.len());
            *mask = Some(rest);
            Some(of_part)
        }
        None => alive,
    }
}
