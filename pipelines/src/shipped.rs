//! The pipelines that the command ships: the texts in the source tree, so that `boxwork run` of a file acts like
//! `boxwork search`; and the lookup by which a user names one of them where no file has the name.

use std::fmt::Write as _;
use std::path::Path;

use boxwork_runtime::parameter::nearest;
use serde_json::{Value as Json, json};

use crate::diagnostic::Diagnostic;
use crate::pipeline::{self, Loaded};

/// A shipped pipeline: its name, and its text.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// The name of its text in diagnostics and reports, such as `shipped:search.yaml`: no file that a user could look for.
    pub source: &'static str,
    /// Its text.
    pub text: &'static str,
}

macro_rules! shipped {
    ($name:ident, $file:literal, $about:literal) => {
        #[doc = $about]
        pub const $name: Shipped =
            Shipped { source: concat!("shipped:", $file), text: include_str!(concat!("../", $file)) };
    };
}

shipped!(EXTRACT, "extract.yaml", "Images to a store.");
shipped!(EMBED, "embed.yaml", "Images to vectors of learnt features.");
shipped!(ADD, "add.yaml", "More images for a store.");
shipped!(ADD_FROM, "add_from.yaml", "The objects of one store for another.");
shipped!(IMPORT, "import.yaml", "JSON lines to a store.");
shipped!(IMPORT_VECTORS, "import_vectors.yaml", "A file of vectors to a store.");
shipped!(EXPORT, "export.yaml", "A store to JSON lines.");
shipped!(COPY, "copy.yaml", "The objects of a store in another file.");
shipped!(SYNTHESIZE, "synthesize.yaml", "A large store made from a small one.");
shipped!(SEARCH, "search.yaml", "The k nearest objects.");
shipped!(RANGE, "range.yaml", "All objects within a range.");
shipped!(INDEX, "index.yaml", "The index of a store.");
shipped!(GENERATE_VECTORS, "generate_vectors.yaml", "Vectors for measurements.");
shipped!(INDEX_CODES, "index_codes.yaml", "The codes of a store of vectors.");
shipped!(VECTOR_SEARCH, "vector_search.yaml", "The k nearest vectors of many queries.");
shipped!(SKETCH, "sketch.yaml", "The sketches of a store.");
shipped!(SKETCH_APEXES, "sketch_apexes.yaml", "The sketches of a store by an index.");
shipped!(VECTOR_LISTS, "vector_lists.yaml", "The vectors of a store in lists.");
shipped!(VECTOR_GRAPH, "vector_graph.yaml", "The vectors of a store in a graph of near neighbours.");
shipped!(
    GRAPH_SEARCH,
    "graph_search.yaml",
    "The k nearest vectors that a walk through a graph of near neighbours finds."
);
shipped!(KNN_GRAPH, "knn_graph.yaml", "The nearest neighbours of each vector of a store.");
shipped!(ALIGNMENTS, "alignments.yaml", "Texts aligned with queries by directed costs or by local scores.");
shipped!(EDIT_DISTANCES, "edit_distances.yaml", "The edit distances of all texts from many queries.");
shipped!(EDIT_NEIGHBOURS, "edit_neighbours.yaml", "The texts nearest to each of many queries.");
shipped!(PERMUTATION_INDEX, "permutation_index.yaml", "The pivots nearest to each object, in order.");
shipped!(
    PERMUTATION_SEARCH,
    "permutation_search.yaml",
    "The k nearest objects among those with the most similar permutations."
);
shipped!(
    PERMUTATION_EXACT,
    "permutation_exact.yaml",
    "The k nearest objects by an index, those with the most similar permutations first."
);
shipped!(GRAPH_PATH, "graph_path.yaml", "A path of small steps between two vectors.");
shipped!(
    VECTOR_PROVE,
    "vector_prove.yaml",
    "The k nearest vectors, exactly, beginning with those of the lists nearest to each query."
);
shipped!(VECTOR_PROBE, "vector_probe.yaml", "The k nearest vectors of the lists nearest to each query.");
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
shipped!(DENOISE, "denoise.yaml", "Pictures without their noise.");
shipped!(DENOISE_PAGE, "denoise_page.yaml", "Pictures without their noise, and a page before and after.");
shipped!(DENOISE_EVALUATE, "denoise_evaluate.yaml", "How much noise is removed.");
shipped!(FEEDBACK, "feedback.yaml", "The objects to show next, by judgements.");
shipped!(
    FEEDBACK_RANKING,
    "feedback_ranking.yaml",
    "All objects by the relevance that judgements make likely."
);
shipped!(FEEDBACK_WHY, "feedback_why.yaml", "Why an object is expected to be relevant.");
shipped!(SIMULATE, "simulate.yaml", "How much feedback finds for simulated users.");
shipped!(GP_FIT, "gp_fit.yaml", "A Gaussian process fitted to samples.");
shipped!(GP_PREDICT, "gp_predict.yaml", "Means and deviations by a fitted Gaussian process.");
shipped!(GP_APPEND, "gp_append.yaml", "More samples for a fitted Gaussian process.");
shipped!(GP_SCORE, "gp_score.yaml", "How well a fitted Gaussian process predicts.");
shipped!(GP_OBJECTS, "gp_objects.yaml", "Numbers of all objects of a store, by those that are known.");
shipped!(CHOLESKY, "cholesky.yaml", "A Cholesky factor by a chain of boxes.");
shipped!(CHOLESKY_GRAPH, "cholesky_graph.yaml", "A Cholesky factor by a graph of tasks.");
shipped!(METRIC_SEARCH, "metric_search.yaml", "The k nearest objects of any kind, by pivots.");
shipped!(METRIC_INDEX, "metric_index.yaml", "The k nearest objects of any kind, by a metric index.");
shipped!(
    METRIC_SIGNATURES,
    "metric_signatures.yaml",
    "The k nearest signatures by any distance and metric index."
);

/// All shipped pipelines.
pub const ALL: [Shipped; 55] = [
    EXTRACT,
    EMBED,
    ADD,
    ADD_FROM,
    IMPORT,
    IMPORT_VECTORS,
    EXPORT,
    COPY,
    SYNTHESIZE,
    SEARCH,
    RANGE,
    INDEX,
    GENERATE_VECTORS,
    INDEX_CODES,
    VECTOR_SEARCH,
    SKETCH,
    SKETCH_APEXES,
    VECTOR_LISTS,
    VECTOR_PROBE,
    VECTOR_PROVE,
    VECTOR_GRAPH,
    GRAPH_SEARCH,
    KNN_GRAPH,
    GRAPH_PATH,
    ALIGNMENTS,
    EDIT_DISTANCES,
    EDIT_NEIGHBOURS,
    PERMUTATION_INDEX,
    PERMUTATION_SEARCH,
    PERMUTATION_EXACT,
    AUTO,
    BEST_FIRST,
    FIXED_BLOCKS,
    ADAPTIVE_BLOCKS,
    ESTIMATED_RANGE,
    TWO_PHASE,
    INDEXED_RANGE,
    EVALUATE,
    DENOISE,
    DENOISE_PAGE,
    DENOISE_EVALUATE,
    FEEDBACK,
    FEEDBACK_RANKING,
    FEEDBACK_WHY,
    SIMULATE,
    GP_FIT,
    GP_PREDICT,
    GP_APPEND,
    GP_SCORE,
    GP_OBJECTS,
    CHOLESKY,
    CHOLESKY_GRAPH,
    METRIC_SEARCH,
    METRIC_INDEX,
    METRIC_SIGNATURES,
];

impl Shipped {
    /// The name by which a user runs it: that of its file, without the ending.
    pub fn name(&self) -> &'static str {
        let file = self.source.strip_prefix("shipped:").unwrap_or(self.source);
        file.strip_suffix(".yaml").unwrap_or(file)
    }

    /// Reads and checks its text.
    ///
    /// # Panics
    /// When the text has a flaw, which the tests exclude.
    pub fn load(&self) -> Loaded {
        let loaded = pipeline::load_text(self.source, self.text);
        let mut loaded = loaded.unwrap_or_else(|flaws| panic!("{}: {flaws:?}", self.source));
        loaded.is_shipped = true;
        loaded
    }
}

/// The shipped pipeline of this name.
pub fn find(name: &str) -> Option<&'static Shipped> {
    ALL.iter().find(|shipped| shipped.name() == name)
}

/// Reads a file, or the shipped pipeline of this name if there is no such file.
///
/// # Errors
/// Every flaw of the text.
pub fn load(path: &Path) -> Result<Loaded, Vec<Diagnostic>> {
    read(path).and_then(pipeline::strict)
}

/// [`load`], even with flaws, so that they can be shown with the faults that a check finds, or on a drawing.
///
/// # Errors
/// When the file cannot be read, or is not text.
pub fn read(path: &Path) -> Result<Loaded, Vec<Diagnostic>> {
    let is_file = path.exists() && !path.is_dir();
    match path.to_str().and_then(find) {
        Some(shipped) if !is_file => Ok(pipeline::read_text(shipped.source, shipped.text)),
        _ => pipeline::read(path).map_err(|mut faults| {
            if !path.exists() {
                faults.iter_mut().for_each(|fault| fault.help = Some(advice(path)));
            }
            faults
        }),
    }
}

/// The remedy if there is neither a file nor a shipped pipeline of a name.
fn advice(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    match (find(&stem), nearest(&stem, ALL.iter().map(Shipped::name))) {
        (Some(shipped), _) => {
            format!("check the path, or write `{}` for the shipped pipeline", shipped.name())
        }
        (None, Some(near)) => {
            format!("did you mean the shipped pipeline `{near}`? `boxwork pipelines` lists all")
        }
        (None, None) => {
            "check the path; `boxwork pipelines` lists the pipelines that need no file".to_owned()
        }
    }
}

/// All shipped pipelines, one per line.
pub fn list_text() -> String {
    let width = ALL.iter().map(|shipped| shipped.name().len()).max().unwrap_or(0);
    let mut page = String::new();
    for shipped in &ALL {
        let _ = writeln!(page, "{:width$}  {}", shipped.name(), shipped.load().about);
    }
    page + "\nboxwork run NAME runs one, boxwork pipelines show NAME > FILE.yaml copies it to change it\n"
}

/// [`list_text`] as JSON.
pub fn list_json() -> Json {
    let entry = |shipped: &Shipped| json!({"name": shipped.name(), "about": shipped.load().about});
    json!({"pipelines": ALL.iter().map(entry).collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_files() {
        assert_eq!(SEARCH.name(), "search");
        assert_eq!(find("add_from").map(|shipped| shipped.source), Some("shipped:add_from.yaml"));
        let mut names: Vec<&str> = ALL.iter().map(Shipped::name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }

    #[test]
    fn every_file_of_the_folder_is_shipped() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/pipelines");
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder).expect("the folder") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|ending| ending == "yaml") {
                files.push(path.file_stem().expect("a name").to_string_lossy().into_owned());
            }
        }
        files.sort();
        let mut names: Vec<&str> = ALL.iter().map(Shipped::name).collect();
        names.sort_unstable();
        assert_eq!(files, names);
    }

    #[test]
    fn a_missing_file_gets_the_advice_that_fits_its_name() {
        let help = |name: &str| read(Path::new(name)).expect_err("no file")[0].help.clone().expect("advice");
        assert!(help("no/such/search.yaml").contains("write `search`"));
        assert!(help("serach").contains("did you mean the shipped pipeline `search`?"));
        assert!(help("/no/zzz.yaml").contains("`boxwork pipelines` lists"));
    }
}
