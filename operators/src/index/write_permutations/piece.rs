//! A piece of the work of slots: the lists of the objects of a batch of the file.
//!
//! A slot that makes a piece reads its objects, checks them, makes their lists and arranges these as columns, so none of that waits
//! for another slot.

use std::collections::VecDeque;

use boxwork_runtime::inside::Inside;
use boxwork_stores::permutations::{PermutationBatch, PermutationError, PermutationMaker};
use boxwork_stores::store::Store;

/// Ids of a piece.
pub(super) const PIECE_IDS: u64 = PermutationBatch::IDS;
/// Objects whose lists a slot makes before it takes others.
const PART_OBJECTS: usize = 512;

/// The objects of a batch of the file, and their lists.
pub(super) struct Piece {
    /// Ascending, at least one.
    pub(super) ids: Vec<u64>,
    /// None before they are made, or if the request is cancelled.
    pub(super) made: Option<Result<PermutationBatch, PermutationError>>,
}

/// The parts that all pieces share.
#[derive(Clone, Copy)]
pub(super) struct Making<'a> {
    pub(super) maker: &'a PermutationMaker,
    pub(super) store: &'a dyn Store,
    /// Ids from those of a piece to those that the system reads meanwhile, if it reads them by itself.
    pub(super) ahead: Option<u64>,
    pub(super) interrupt: &'a (dyn Fn() -> bool + Sync),
}

impl Piece {
    fn new(ids: Vec<u64>) -> Self {
        Self { ids, made: None }
    }

    /// Takes the objects of the first batch off a queue of ascending ids.
    pub(super) fn take(left: &mut VecDeque<Vec<u64>>) -> Option<Self> {
        let mut ids = left.pop_front()?;
        let batch_of = |id: &u64| id / PIECE_IDS;
        let batch = ids.first().map(batch_of)?;
        // A block that has failed has the objects of several batches.
        let rest = ids.split_off(ids.partition_point(|id| batch_of(id) == batch));
        if !rest.is_empty() {
            left.push_front(rest);
        }
        Some(Self::new(ids))
    }

    /// The first id of the batch.
    fn first(&self) -> u64 {
        self.ids[0] / PIECE_IDS * PIECE_IDS
    }

    fn make(
        &self,
        inside: &mut Inside<'_>,
        making: Making<'_>,
    ) -> Result<PermutationBatch, PermutationError> {
        let Making { maker, store, ahead, interrupt } = making;
        if let Some(ahead) = ahead {
            let first = self.first() + ahead;
            store.read_ahead(first..first + PIECE_IDS);
        }
        store.bring_in_until(&self.ids, interrupt)?;
        let parts = self.ids.chunks(PART_OBJECTS).map(|ids| Part { ids, lists: Ok(Vec::new()) });
        let mut parts: Vec<Part<'_>> = parts.collect();
        inside.for_each_chunk_of(&mut parts, 1, |_, parts| {
            for Part { ids, lists: made } in parts {
                let mut lists = Vec::with_capacity(ids.len() * maker.length());
                *made = maker.append(ids, &mut lists, interrupt).map(|()| lists);
            }
        });
        // Otherwise the last slot does this for all pieces, at the end.
        store.let_go(self.first()..self.first() + PIECE_IDS);
        let lists = parts.into_iter().map(|part| part.lists).collect::<Result<Vec<Vec<u16>>, _>>()?;
        Ok(PermutationBatch::new(store, self.first(), &lists, maker.length()))
    }
}

/// Some objects of a piece, and their lists.
struct Part<'a> {
    ids: &'a [u64],
    lists: Result<Vec<u16>, PermutationError>,
}

/// Makes pieces beside each other as slots are free.
pub(super) fn make_each(inside: &mut Inside<'_>, pieces: &mut [Piece], making: Making<'_>) {
    match pieces {
        [] => {}
        [piece] => piece.made = Some(piece.make(inside, making)),
        pieces => {
            let (left, right) = pieces.split_at_mut(pieces.len() / 2);
            inside.join(|inside| make_each(inside, left, making), |inside| make_each(inside, right, making));
        }
    }
}
