//! `write_hnsw`: the graph of near neighbours of a store of vectors, on disk.
//!
//! Invariant: the file appears under its name whole, or not at all.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::hnsw::{
    CONNECTIVITY_MAX, EXPANSION_MAX, GraphNumbers, HnswBuilder, HnswError, HnswOptions, check_built,
};
use boxwork_stores::space::Space;

use crate::resources::{self, SPACE};

/// Vectors that one piece of work adds, and pieces that one firing takes for each slot.
const VECTORS_PER_PIECE: usize = 32;
const PIECES_PER_SLOT: usize = 8;

/// Puts all vectors of a store into a graph of near neighbours (HNSW).
///
/// Slots add vectors beside each other, so the graph is another one at each run, and as good. With `in_order` one slot adds them by
/// their ids: the same bytes at each run, on machines with as many processors and the same instructions.
///
/// Only builds with the feature `graph` run it.
///
/// # Inputs
/// None.
///
/// # Outputs
/// None.
///
/// # Parameters
/// `space`: the vectors and their distance: l2, ip or cosine. `connectivity`: neighbours of a vector on the upper levels; the lowest
/// has twice as many. `expansion`: vectors that are kept while the neighbours of a new one are searched; more make a better graph, and take
/// longer. `numbers`: the type of the numbers in the graph; i8 are equal steps between the least and the largest number of the store.
/// `in_order`: see above. `append`: a graph of the store before it grew, to which the new vectors are added; it keeps its
/// `connectivity`, `expansion` and `numbers`. `out`: the file to write.
pub static WRITE_HNSW: OperatorSpec = OperatorSpec {
    parameters: &[
        SPACE,
        Parameter::new(
            "connectivity",
            ParameterType::Integer { minimum: 2, maximum: CONNECTIVITY_MAX as i64 },
            Default::Integer(16),
            "neighbours of a vector on the upper levels; the lowest has twice as many",
        )
        .unit("vectors"),
        Parameter::new(
            "expansion",
            ParameterType::Integer { minimum: 1, maximum: EXPANSION_MAX as i64 },
            Default::Integer(128),
            "vectors that are kept while the neighbours of a new one are searched",
        )
        .unit("vectors"),
        Parameter::new(
            "numbers",
            ParameterType::Choice(GraphNumbers::NAMES),
            Default::Text("f32"),
            "the type of the numbers in the graph",
        ),
        Parameter::new(
            "in_order",
            ParameterType::Boolean,
            Default::Boolean(false),
            "whether one slot adds the vectors by their ids: the same graph at each run",
        ),
        Parameter::new(
            "append",
            ParameterType::Path,
            Default::Absent,
            "a graph of the store before it grew, to which the new vectors are added",
        ),
        Parameter::new(
            "out",
            ParameterType::Path,
            Default::Required,
            "the file to write, by custom `NAME.hnsw.arrow`",
        ),
    ],
    example: "graph: {kind: write_hnsw, space: space, out: vectors.hnsw.arrow}",
    check: Some(resources::check_measure),
    ..OperatorSpec::new("write_hnsw", "Writes the graph of near neighbours of a store.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let (space, out) = (resources::space(bind)?, bind.path("out"));
    check_built(&out)?;
    let options = HnswOptions {
        connectivity: bind.count("connectivity"),
        expansion: bind.count("expansion"),
        numbers: GraphNumbers::named(bind.text("numbers")).expect("a checked choice"),
    };
    let append = bind.get_text("append").map(PathBuf::from);
    let slots = if bind.boolean("in_order") { 1 } else { bind.slots() };
    Ok(Box::new(WriteHnsw { space, options, append, out, slots, builder: None, next: 0 }))
}

struct WriteHnsw {
    space: Arc<dyn Space>,
    options: HnswOptions,
    append: Option<PathBuf>,
    out: PathBuf,
    /// Slots that add vectors; 1 adds them in the order of their ids.
    slots: usize,
    /// Made by the first firing.
    builder: Option<HnswBuilder>,
    /// The next id.
    next: u64,
}

impl WriteHnsw {
    /// The graph to which vectors are added. Blocks on the disk.
    fn begin(&self, cancelled: &dyn Fn() -> bool) -> Result<HnswBuilder, HnswError> {
        match &self.append {
            Some(path) => HnswBuilder::of_file(path, &self.space, self.slots),
            None => HnswBuilder::new(&self.out, &self.space, self.options, self.slots, cancelled),
        }
    }
}

impl Operator for WriteHnsw {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some(builder) = &self.builder else {
            let cancelled = cx.cancelled();
            let builder = cx.detached("disk", || self.begin(&cancelled))??;
            self.next = builder.first();
            self.builder = Some(builder);
            return Ok(Flow::More);
        };
        let store = Arc::clone(self.space.store());
        let most = VECTORS_PER_PIECE * PIECES_PER_SLOT * self.slots;
        let ids: Vec<u64> = store.among(self.next..store.ids_count()).take(most).collect();
        if ids.is_empty() {
            let cancelled = cx.cancelled();
            cx.detached("disk", || builder.write(&self.out, &cancelled))??;
            cx.figure("vectors in the graph", builder.objects() as f64);
            return Ok(Flow::Done);
        }
        resources::bring_in(cx, &*store, &ids)?;
        let out = &self.out;
        if self.slots == 1 {
            builder.add(out, &ids, &cx.cancelled())?;
        } else {
            let failed: OnceLock<HnswError> = OnceLock::new();
            cx.inside(|inside| {
                let cancelled = inside.cancelled();
                inside.for_each_chunk(ids.len(), VECTORS_PER_PIECE, |piece| {
                    if failed.get().is_none()
                        && let Err(error) = builder.add(out, &ids[piece], &cancelled)
                    {
                        // The first error is reported.
                        drop(failed.set(error));
                    }
                });
            });
            if let Some(error) = failed.into_inner() {
                return Err(error.into());
            }
        }
        self.next = ids.last().map_or(self.next, |last| last + 1);
        cx.progress(store.rank(self.next), store.objects_count());
        Ok(Flow::More)
    }
}
