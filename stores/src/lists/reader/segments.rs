//! Lists of product codes as devices scan them.

use std::ops::Range;

use boxwork_kernels::CodePath;
use boxwork_kernels::distance::squared_l2_on;
use boxwork_kernels::panels::PANEL;
use boxwork_kernels::product::Codes;
use boxwork_kernels::product::device::{Segment, Shape};
use boxwork_kernels::vector::{VectorMeasure, inner_product};

use super::Lists;
use crate::subset::Subset;

impl Lists {
    /// The distance for which the lists were made.
    pub fn measure(&self) -> VectorMeasure {
        self.measure
    }

    /// Panels of all lists.
    pub fn panels(&self) -> usize {
        self.panels
    }

    /// The panels of each list that lie side by side, in the order of the panels.
    pub fn segments(&self) -> Vec<Segment> {
        let of = |(list, parts): (usize, &Vec<super::Part>)| {
            let of = |range: &Range<usize>| range.start as u32..range.end as u32;
            let each: Vec<_> =
                parts.iter().map(|part| Segment { list: list as u32, groups: of(&part.panels) }).collect();
            each
        };
        let mut segments: Vec<Segment> = self.parts.iter().enumerate().flat_map(of).collect();
        segments.sort_unstable_by_key(|segment| segment.groups.start);
        segments
    }

    /// Arranges the codes of some panels for a device.
    ///
    /// # Panics
    /// When the lists hold no product codes, were not [brought in](Lists::bring_in), there are no such panels, the shape is of other
    /// codes, or the room is not theirs.
    pub fn arrange(&self, shape: Shape, panels: Range<usize>, to: &mut [u32]) {
        let bits = self.quantizers.coding().bits().expect("lists of product codes");
        let (parts, of_panel) = (self.quantizers.parts(), to.len() / panels.len().max(1));
        let (mut next, mut to) = (panels.start, to);
        while next < panels.end {
            let of_batch = self.held.of_batch(&(next..panels.end));
            let (of_codes, rest) = to.split_at_mut(of_batch.len() * of_panel);
            let bytes = self.held.of(&of_batch).codes();
            shape.arrange(Codes { parts, bits, rows: of_batch.len() * PANEL, bytes }, of_codes);
            (next, to) = (of_batch.end, rest);
        }
        assert!(to.is_empty(), "room for whole panels");
    }

    /// A word for each panel, with a bit for each object that is there still.
    ///
    /// # Panics
    /// When objects were removed, and a list was not [brought in](Lists::bring_in).
    pub fn alive(&self) -> Vec<u32> {
        let mut words = vec![u32::MAX; self.panels()];
        for part in self.parts.iter().flatten().filter(|part| !part.rows.is_multiple_of(PANEL)) {
            words[part.panels.end - 1] = (1 << (part.rows % PANEL)) - 1;
        }
        let store = self.space.store();
        if store.objects_count() < store.ids_count() {
            self.held.mark_alive(&mut words);
        }
        words
    }

    /// Sets the words of a list's panels to the bits of its objects that are in a subset. Returns false if none is.
    ///
    /// # Panics
    /// When there is no such list, it was not [brought in](Lists::bring_in), or there is not a word for each panel of all lists.
    pub fn mark(&self, list: u32, subset: &Subset, words: &mut [u32]) -> bool {
        assert_eq!(words.len(), self.panels(), "a word for each panel");
        let Some(mask) = self.mask(list, subset) else { return false };
        let mut rest = mask.as_slice();
        for part in &self.parts[list as usize] {
            let (of_part, after) = rest.split_at(part.panels.len());
            words[part.panels.clone()].copy_from_slice(of_part);
            rest = after;
        }
        true
    }

    /// The number with which the sums of a list's codes begin for a [prepared](Lists::prepare) query.
    ///
    /// # Panics
    /// When there is no such list, or the query has other dimensions.
    pub fn base(&self, path: CodePath, query: &[f32], list: u32) -> f32 {
        let dimensions = self.quantizers.dimensions();
        let centroid = &self.quantizers.centroids()[list as usize * dimensions..][..dimensions];
        // Inner products are those of the centroid and of the difference, both times -2. Normalised vectors are compared by
        // l2: the square of what a code stands for corrects for the part that it lost.
        let base = match self.measure {
            VectorMeasure::L2 | VectorMeasure::Cosine => squared_l2_on(path, query, centroid),
            VectorMeasure::InnerProduct => -2.0 * inner_product(query, centroid),
        };
        base as f32
    }

    /// A [mask](Lists::mask) of a list with one object, by its place.
    ///
    /// # Panics
    /// When the list does not have the place.
    pub fn mask_of_one(&self, list: u32, place: u32) -> Vec<u32> {
        let (panel, row) = (place as usize / PANEL, place as usize % PANEL);
        let mut mask = Vec::new();
        for part in &self.parts[list as usize] {
            mask.extend(part.panels.clone().map(|of_part| u32::from(of_part == panel) << row));
        }
        assert!(mask.iter().any(|word| *word != 0), "list {list} has no place {place}");
        mask
    }
}
