//! `write_permutations`: computes the permutations of a store and writes them, as `permutation_index` does.
//!
//! Invariants: lists are by exact distances, so they are the same for any number of workers; the file appears under its name
//! when all of it is on disk.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use boxwork_kernels::permutation::{LENGTH_MAX, PIVOTS_MAX};
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::permutations::{PermutationError, PermutationMaker, PermutationWriter};
use boxwork_stores::space::Space;

use crate::resources::{self, SPACE};

/// Objects whose lists a slot makes before it takes others.
const PIECE_IDS: u64 = 1024;
/// Pieces of a firing, for each slot.
const PIECES_PER_SLOT: usize = 2;

/// Computes the nearest pivots of each object, and writes them to a file.
///
/// # Inputs
/// None.
///
/// # Outputs
/// None.
///
/// # Parameters
/// `space`: the store and the distance, any. `pivots`: random objects. `length`: how many of the nearest an object's list has.
/// `seed`: of the choice. `out`: the file.
pub(crate) static WRITE_PERMUTATIONS: OperatorSpec = OperatorSpec {
    parameters: &[
        SPACE,
        Parameter::new(
            "pivots",
            ParameterType::Integer { minimum: 1, maximum: PIVOTS_MAX as i64 },
            Default::Integer(128),
            "pivots, chosen by chance",
        )
        .unit("objects"),
        Parameter::new(
            "length",
            ParameterType::Integer { minimum: 1, maximum: LENGTH_MAX as i64 },
            Default::Integer(32),
            "the nearest pivots that the list of an object has; at most all",
        )
        .unit("objects"),
        Parameter::new("seed", ParameterType::integer_from(0), Default::Integer(1), "the seed of the choice"),
        Parameter::new(
            "out",
            ParameterType::Path,
            Default::Required,
            "the file to write, by custom `NAME.permutations.arrow`",
        ),
    ],
    example: "file: {kind: write_permutations, space: space, out: photos.permutations.arrow}",
    ..OperatorSpec::new(
        "write_permutations",
        "Writes the nearest pivots of each object to a file.",
        Kind::Stateful,
        make,
    )
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(WritePermutations {
        space: resources::space(bind)?,
        pivots: bind.count("pivots"),
        length: bind.count("length"),
        seed: bind.count("seed") as u64,
        out: bind.path("out"),
        pieces: (PIECES_PER_SLOT * bind.slots()) as u64,
        work: None,
        next: 0,
    }))
}

struct WritePermutations {
    space: Arc<dyn Space>,
    pivots: usize,
    length: usize,
    seed: u64,
    out: PathBuf,
    /// Pieces of a firing.
    pieces: u64,
    // The writer removes its file when dropped.
    work: Option<(PermutationMaker, PermutationWriter)>,
    /// The first id that has no list yet.
    next: u64,
}

/// Consecutive objects, and their lists.
struct Piece {
    ids: Vec<u64>,
    lists: Vec<u16>,
}

impl WritePermutations {
    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let (cancelled, space, out) = (cx.cancelled(), &self.space, &self.out);
        let (pivots, length, seed) = (self.pivots, self.length, self.seed);
        let begun = cx.detached("disk", || {
            let maker = PermutationMaker::choose(space, pivots, length, seed, &cancelled)?;
            let duplicates = maker.duplicates(&cancelled)?;
            let writer = PermutationWriter::create(out, &maker)?;
            Ok::<_, PermutationError>((maker, writer, duplicates))
        });
        let (maker, writer, duplicates) = begun??;
        if duplicates > 0 {
            cx.note(format!(
                "{duplicates} of {pivots} pivots equal an earlier one and say nothing new: take fewer, or another `seed`"
            ));
        }
        self.work = Some((maker, writer));
        Ok(())
    }
}

impl Operator for WritePermutations {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.work.is_none() {
            self.begin(cx)?;
        }
        let Some((maker, writer)) = &mut self.work else { return Ok(Flow::Done) };
        let store = Arc::clone(self.space.store());
        let upto = store.ids_count().min(self.next + self.pieces * PIECE_IDS);
        let firsts = (self.next..upto).step_by(PIECE_IDS as usize);
        let mut pieces: Vec<Piece> = firsts
            .map(|first| store.among(first..upto.min(first + PIECE_IDS)).collect())
            .map(|ids| Piece { ids, lists: Vec::new() })
            .collect();
        let ids: Vec<u64> = pieces.iter().flat_map(|piece| piece.ids.iter().copied()).collect();
        resources::bring_in(cx, &*store, &ids)?;
        let failed = OnceLock::new();
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut pieces, 1, |_, pieces| {
                for piece in pieces {
                    if let Err(error) = maker.append(&piece.ids, &mut piece.lists, &cancelled) {
                        // The first error is reported.
                        drop(failed.set(error));
                    }
                }
            });
        });
        if cx.is_cancelled() {
            return Ok(Flow::Done);
        }
        if let Some(error) = failed.into_inner() {
            return Err(error.into());
        }
        cx.detached("disk", || pieces.iter().try_for_each(|piece| writer.push(&piece.lists)))??;
        self.next = upto;
        cx.progress(upto, store.ids_count());
        if upto < store.ids_count() {
            return Ok(Flow::More);
        }
        if let Some((_, writer)) = self.work.take() {
            cx.detached("disk", || writer.finish())??;
        }
        Ok(Flow::Done)
    }
}
