//! `write_codes`: the codes of a store of vectors, on disk.
//!
//! Invariant: the file appears under its name whole, or not at all; its bytes do not depend on the number of slots.

use std::path::PathBuf;
use std::sync::Arc;

use boxwork_kernels::codes::{Encoder, Levels};
use boxwork_kernels::vector::VectorMeasure;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::kinds::Vectors;
use boxwork_stores::object_store::ObjectStore;
use boxwork_stores::space::Space;
use boxwork_stores::vector_codes::{
    CodesError, CodesWriter, ROWS, centre_of, encoder_of, vectors_of, words_of,
};

use crate::pieces::side_by_side;
use crate::resources::{self, SPACE};

/// Batches that one firing codes for each slot.
const BATCHES_PER_SLOT: u64 = 2;

/// Codes all vectors of a store.
///
/// # Inputs
/// None.
///
/// # Outputs
/// None.
///
/// # Parameters
/// `space`: the vectors and their distance: l2, ip or cosine. `levels`: `planes` keeps 8 bits a number in two planes of 4, `sq8`
/// the 8 bits alone, `sq4` 4 bits; `pca` 4 bits on average along the principal directions of 65,536 of the vectors, in two planes of
/// 2, of up to 1024 numbers; `product16`, `product32` and `product64` keep a byte for each of so many parts of a vector, by a
/// codebook that is trained on 65,536 of the vectors. `out`: the file to write.
pub static WRITE_CODES: OperatorSpec = OperatorSpec {
    parameters: &[
        SPACE,
        Parameter::new(
            "levels",
            ParameterType::Choice(Levels::NAMES),
            Default::Text("planes"),
            "the bits of a number, or the parts of a vector",
        ),
        Parameter::new(
            "out",
            ParameterType::Path,
            Default::Required,
            "the file to write, by custom `NAME.codes.arrow`",
        ),
    ],
    example: "codes: {kind: write_codes, space: space, levels: planes, out: base.codes.arrow}",
    check: Some(resources::check_measure),
    ..OperatorSpec::new("write_codes", "Writes the codes of a store of vectors.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let space = resources::space(bind)?;
    let (vectors, measure) = vectors_of(&*space)?;
    let levels = bind.text("levels").parse().map_err(BoxError::new)?;
    let (out, slots) = (bind.path("out"), bind.slots() as u64);
    Ok(Box::new(WriteCodes { space, vectors, measure, levels, out, slots, file: None, next: 0 }))
}

struct WriteCodes {
    space: Arc<dyn Space>,
    vectors: Arc<ObjectStore<Vectors>>,
    measure: VectorMeasure,
    levels: Levels,
    out: PathBuf,
    slots: u64,
    /// Made by the first firing, once the centre is known.
    file: Option<(CodesWriter, Encoder)>,
    /// The next row.
    next: u64,
}

impl Operator for WriteCodes {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some((writer, encoder)) = &mut self.file else {
            let (vectors, measure, cancelled) = (&self.vectors, self.measure, cx.cancelled());
            let centre = cx.detached("disk", || centre_of(vectors, measure, &cancelled))??;
            let mut pieces = |count: usize, f: &(dyn Fn(usize) + Sync)| side_by_side(cx, count, f);
            let encoder = encoder_of(self.levels, vectors, measure, centre, &mut pieces)?;
            let writer = CodesWriter::create(&self.out, &*self.space, encoder.clone())?;
            self.file = Some((writer, encoder));
            return Ok(Flow::More);
        };
        if cx.is_cancelled() {
            return Err(CodesError::Cancelled.into());
        }
        let count = self.vectors.len();
        let batches = (count - self.next).div_ceil(ROWS as u64).min(BATCHES_PER_SLOT * self.slots);
        let mut parts: Vec<Option<Result<Vec<u32>, CodesError>>> = (0..batches).map(|_| None).collect();
        let (next, vectors) = (self.next, &self.vectors);
        cx.inside(|inside| {
            inside.for_each_chunk_of(&mut parts, 1, |batch, part| {
                let first = next + (batch * ROWS) as u64;
                part[0] = Some(words_of(vectors, encoder, first..count.min(first + ROWS as u64)));
            });
        });
        for words in parts.into_iter().flatten() {
            let words = words?;
            cx.detached("disk", || writer.push(&words))??;
        }
        self.next = count.min(next + batches * ROWS as u64);
        cx.progress(self.next, count);
        if self.next < count {
            return Ok(Flow::More);
        }
        if let Some((writer, _)) = self.file.take() {
            cx.detached("disk", || writer.finish())??;
        }
        Ok(Flow::Done)
    }
}
