//! The pipelines that the command ships: the texts in the source tree, so that `boxwork run` of a file acts like
//! `boxwork search`.

use crate::pipeline::{self, Loaded};

/// A shipped pipeline: its name, and its text.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// Its path in the source tree.
    pub path: &'static str,
    /// Its text.
    pub text: &'static str,
}

macro_rules! shipped {
    ($name:ident, $file:literal, $about:literal) => {
        #[doc = $about]
        pub const $name: Shipped =
            Shipped { path: concat!("pipelines/", $file), text: include_str!(concat!("../", $file)) };
    };
}

shipped!(EXTRACT, "extract.yaml", "Images to a store.");
shipped!(ADD, "add.yaml", "More images for a store.");
shipped!(ADD_FROM, "add_from.yaml", "The objects of one store for another.");
shipped!(IMPORT, "import.yaml", "JSON lines to a store.");
shipped!(EXPORT, "export.yaml", "A store to JSON lines.");
shipped!(SYNTHESIZE, "synthesize.yaml", "A large store made from a small one.");
shipped!(SEARCH, "search.yaml", "The k nearest objects.");
shipped!(RANGE, "range.yaml", "All objects within a range.");
shipped!(INDEX, "index.yaml", "The index of a store.");
shipped!(AUTO, "auto.yaml", "The k nearest objects by an index, with a strategy chosen by a cost model.");
shipped!(BEST_FIRST, "best_first.yaml", "The k nearest objects by an index, the most promising first.");
shipped!(FIXED_BLOCKS, "fixed_blocks.yaml", "The k nearest objects by an index, in blocks of one size.");
shipped!(ADAPTIVE_BLOCKS, "adaptive_blocks.yaml", "The k nearest objects by an index, in growing blocks.");
shipped!(
    ESTIMATED_RANGE,
    "estimated_range.yaml",
    "The k nearest objects by an index, within an estimated range."
);
shipped!(TWO_PHASE, "two_phase.yaml", "The k nearest objects by an index, after an estimate of the range.");
shipped!(INDEXED_RANGE, "indexed_range.yaml", "All objects within a range, by an index.");
shipped!(EVALUATE, "evaluate.yaml", "The quality of the order.");
shipped!(METRIC_SEARCH, "metric_search.yaml", "The k nearest objects of any kind, by pivots.");
shipped!(METRIC_INDEX, "metric_index.yaml", "The k nearest objects of any kind, by a metric index.");
shipped!(
    METRIC_SIGNATURES,
    "metric_signatures.yaml",
    "The k nearest signatures by any distance and metric index."
);

/// All shipped pipelines.
pub const ALL: [Shipped; 20] = [
    EXTRACT,
    ADD,
    ADD_FROM,
    IMPORT,
    EXPORT,
    SYNTHESIZE,
    SEARCH,
    RANGE,
    INDEX,
    AUTO,
    BEST_FIRST,
    FIXED_BLOCKS,
    ADAPTIVE_BLOCKS,
    ESTIMATED_RANGE,
    TWO_PHASE,
    INDEXED_RANGE,
    EVALUATE,
    METRIC_SEARCH,
    METRIC_INDEX,
    METRIC_SIGNATURES,
];

impl Shipped {
    /// Reads and checks its text.
    ///
    /// # Panics
    /// When the text has a flaw, which the tests exclude.
    pub fn load(&self) -> Loaded {
        pipeline::load_text(self.path, self.text).unwrap_or_else(|flaws| panic!("{}: {flaws:?}", self.path))
    }
}
