//! The queries of a request, prepared for a space; boxes that compute distances begin with them.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use boxwork_kernels::interrupt::Interrupt;
#[cfg(test)]
use boxwork_kernels::interrupt::never;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{BoxError, Context, In};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use crate::resources;
use boxwork_stores::space::{Prepared, QueryForm, Scratch, Space};
use boxwork_stores::sqfd_space::SqfdQuery;

/// The parameter of boxes that must know how many objects the answer has.
pub(crate) const K: Parameter = Parameter::new(
    "k",
    ParameterType::integer_from(1),
    Default::Integer(10),
    "how many objects a query gets",
)
.unit("objects");

/// Pieces of a request's queries, which are prepared side by side.
const PIECES: usize = 64;

/// The queries of a request, by number.
#[derive(Clone)]
pub(crate) struct Queries {
    list: Vec<Query>,
}

/// One query.
#[derive(Clone)]
pub(crate) struct Query {
    /// Its number within the request.
    pub(crate) number: u32,
    /// Computes its distances.
    pub(crate) prepared: Arc<dyn Prepared>,
}

/// Queries in some rows of an envelope.
struct Piece<'a> {
    objects: &'a ArrayRef,
    numbers: &'a [u32],
    rows: Range<usize>,
    prepared: Result<Vec<Query>, BoxError>,
}

impl Piece<'_> {
    fn prepare(&mut self, space: &Arc<dyn Space>, interrupt: Interrupt<'_>) {
        let numbers = self.numbers;
        let prepared = Arc::clone(space).prepare_rows(self.objects, self.rows.clone(), interrupt);
        self.prepared = prepared
            .map_err(|(row, error)| BoxError::new(format!("query {}: {error}", numbers[row])))
            .map(|prepared| {
                let numbered = numbers[self.rows.clone()].iter().zip(prepared);
                numbered.map(|(number, prepared)| Query { number: *number, prepared }).collect()
            });
    }
}

/// The rows of envelopes, in pieces of about equal size.
fn pieces(envelopes: &[Envelope]) -> Result<Vec<Piece<'_>>, BoxError> {
    let count: usize = envelopes.iter().map(Envelope::rows).sum();
    let (of_piece, mut pieces) = (count.div_ceil(PIECES).max(1), Vec::new());
    for envelope in envelopes {
        let (objects, numbers) = (envelope.column("object")?, envelope.u32s("query")?);
        for first in (0..numbers.len()).step_by(of_piece) {
            let rows = first..numbers.len().min(first + of_piece);
            pieces.push(Piece { objects, numbers, rows, prepared: Ok(Vec::new()) });
        }
    }
    Ok(pieces)
}

impl Queries {
    /// Prepares the queries of a side input, side by side; a cancelled request interrupts it.
    pub(crate) fn of_side(cx: &mut Context<'_>, input: In, space: &Arc<dyn Space>) -> Result<Self, BoxError> {
        let envelopes = cx.side(input).to_vec();
        let mut pieces = pieces(&envelopes)?;
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut pieces, 1, |_, pieces| {
                pieces.iter_mut().for_each(|piece| piece.prepare(space, &cancelled));
            });
        });
        Self::of_pieces(pieces)
    }

    /// Prepares the queries of envelopes.
    #[cfg(test)]
    pub(crate) fn new(envelopes: &[Envelope], space: &Arc<dyn Space>) -> Result<Self, BoxError> {
        let mut pieces = pieces(envelopes)?;
        pieces.iter_mut().for_each(|piece| piece.prepare(space, &never));
        Self::of_pieces(pieces)
    }

    /// Queries in the order of their numbers, from 0 on.
    ///
    /// # Errors
    /// The first error of the queries.
    pub(crate) fn of_prepared(
        prepared: impl Iterator<Item = Result<Arc<dyn Prepared>, BoxError>>,
    ) -> Result<Self, BoxError> {
        let queries = (0..).zip(prepared).map(|(number, prepared)| Ok(Query { number, prepared: prepared? }));
        Ok(Self { list: queries.collect::<Result<_, BoxError>>()? })
    }

    fn of_pieces(pieces: Vec<Piece<'_>>) -> Result<Self, BoxError> {
        let mut list = Vec::new();
        for piece in pieces {
            list.extend(piece.prepared?);
        }
        list.sort_by_key(|query: &Query| query.number);
        Ok(Self { list })
    }

    /// All queries, by number.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Query> {
        self.list.iter()
    }

    /// The number of queries.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// The place of a query in the list.
    pub(crate) fn idx(&self, number: u32) -> Result<usize, BoxError> {
        self.list.binary_search_by_key(&number, |query| query.number).map_err(|_| {
            BoxError::new(format!("a row belongs to query {number}, which is not among the queries"))
        })
    }

    /// A query by its place.
    pub(crate) fn at(&self, idx: usize) -> &Query {
        &self.list[idx]
    }

    /// The fast distances of an envelope of candidates, row by row.
    pub(crate) fn fast(
        &self,
        cx: &mut Context<'_>,
        space: &dyn Space,
        scratch: &mut Scratch,
        candidates: &Envelope,
    ) -> Result<Vec<f64>, BoxError> {
        let (numbers, ids) = (candidates.u32s("query")?, candidates.u64s("id")?);
        resources::bring_in(cx, &**space.store(), ids)?;
        let mut distances = vec![0.0; ids.len()];
        let interrupt = || cx.is_cancelled();
        let key = |row: &u32| (numbers[*row as usize], ids[*row as usize]);
        let is_sorted = (1..ids.len() as u32).all(|row| key(&(row - 1)) <= key(&row));
        if is_sorted {
            let mut first = 0;
            for run in numbers.chunk_by(|a, b| a == b) {
                let rows = first..first + run.len();
                let query = self.at(self.idx(run[0])?);
                let distances = &mut distances[rows.clone()];
                query.prepared.fast_until(scratch, &ids[rows.clone()], distances, &interrupt)?;
                first = rows.end;
            }
        } else {
            let mut order: Vec<u32> = (0..ids.len() as u32).collect();
            order.sort_unstable_by_key(key);
            for run in order.chunk_by(|a, b| numbers[*a as usize] == numbers[*b as usize]) {
                let query = self.at(self.idx(numbers[run[0] as usize])?);
                let sorted: Vec<u64> = run.iter().map(|row| ids[*row as usize]).collect();
                let mut found = vec![0.0; run.len()];
                query.prepared.fast_until(scratch, &sorted, &mut found, &interrupt)?;
                for (row, distance) in run.iter().zip(found) {
                    distances[*row as usize] = distance;
                }
            }
        }
        space.store().confirm()?;
        Ok(distances)
    }
}

impl Query {
    /// The exact distances of objects; blocks unless these are in memory.
    #[cfg(test)]
    pub(crate) fn exact(&self, ids: &[u64]) -> Result<Vec<f64>, BoxError> {
        self.exact_until(ids, &never)
    }

    /// The exact distances of objects; blocks unless these are in memory. The caller may interrupt it.
    pub(crate) fn exact_until(&self, ids: &[u64], interrupt: Interrupt<'_>) -> Result<Vec<f64>, BoxError> {
        let mut distances = vec![0.0; ids.len()];
        self.prepared.exact_until(ids, &mut distances, interrupt)?;
        Ok(distances)
    }

    /// The query's form for devices, in a space that devices compute.
    ///
    /// # Panics
    /// In any other space.
    pub(crate) fn sqfd(&self) -> &SqfdQuery {
        match self.prepared.device_form() {
            Some(QueryForm::Sqfd(query)) => query,
            None => panic!("query {} has no form for devices", self.number),
        }
    }
}
