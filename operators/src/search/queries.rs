//! The queries of a request, made ready for a space: what every box that computes distances begins with.

use std::sync::{Arc, OnceLock};

use boxwork_kernels::similarity::Similarity;
use boxwork_kernels::sqfd::{Arithmetic, PreparedQuery, SignatureRef, distance_error};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::BoxError;
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use boxwork_stores::signature::{SignatureColumns, coordinate_names};
use boxwork_stores::sqfd_space::SqfdSpace;

/// The parameter of boxes that compute distances.
pub(crate) const SPACE: Parameter = Parameter::new(
    "space",
    ParameterType::Resource("sqfd_space"),
    Default::Required,
    "the space that the distances are of",
);

/// The queries of a request by their numbers.
pub(crate) struct Queries {
    list: Vec<Query>,
}

/// One query.
pub(crate) struct Query {
    /// Its number within the request.
    pub(crate) number: u32,
    /// What the fast paths take.
    pub(crate) prepared: PreparedQuery,
    envelope: Envelope,
    row: usize,
    arithmetic: Arc<OnceLock<Arithmetic>>,
}

impl Queries {
    /// Prepares the queries of a side input.
    pub(crate) fn new(envelopes: &[Envelope], space: &SqfdSpace) -> Result<Self, BoxError> {
        let mut list = Vec::new();
        for envelope in envelopes {
            let signatures = envelope.lists("signature")?;
            let columns = SignatureColumns::new(signatures)?;
            let coordinates = coordinate_names(envelope.column("signature")?.data_type()).unwrap_or_default();
            space.store().check_coordinates(&coordinates)?;
            for (row, &number) in envelope.u32s("query")?.iter().enumerate() {
                let prepared = space.prepare(columns.signature(row));
                let arithmetic = Arc::clone(space.arithmetic());
                list.push(Query { number, prepared, envelope: envelope.clone(), row, arithmetic });
            }
        }
        list.sort_by_key(|query| query.number);
        Ok(Self { list })
    }

    /// All of them, by number.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Query> {
        self.list.iter()
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
}

impl Query {
    /// Hands its signature to `f`.
    pub(crate) fn with_signature<R>(&self, f: impl FnOnce(SignatureRef<'_>) -> R) -> Result<R, BoxError> {
        let columns = SignatureColumns::new(self.envelope.lists("signature")?)?;
        Ok(f(columns.signature(self.row)))
    }

    /// The f64 distances of objects, which must be in memory for this not to block.
    pub(crate) fn exact(&self, space: &SqfdSpace, ids: &[u64]) -> Result<Vec<f64>, BoxError> {
        let columns = SignatureColumns::new(self.envelope.lists("signature")?)?;
        let (signature, sigma) = (columns.signature(self.row), self.prepared.sigma_self());
        space
            .store()
            .read(|objects| ids.iter().map(|id| Ok(space.exact(objects, signature, sigma, *id)?)).collect())
    }

    /// The largest fast distance that an object may have whose true distance is at most `range`.
    ///
    /// The same added again: how far the true distance may lie from a fast one at most `range`.
    pub(crate) fn widened(&self, range: f64, sigma_self_min: f64) -> f64 {
        range + self.error(range, sigma_self_min)
    }

    /// How far a fast distance may lie on the wrong side of `range`.
    pub(crate) fn error(&self, range: f64, sigma_self_min: f64) -> f64 {
        distance_error(self.error_squared(range, sigma_self_min), range)
    }

    /// How far the square of a fast distance may lie from the true one, whatever has computed distances in the space so
    /// far.
    pub(crate) fn error_squared(&self, range: f64, sigma_self_min: f64) -> f64 {
        let arithmetic = self.arithmetic.get().copied().unwrap_or(Arithmetic::Single);
        self.prepared.error_squared_of(arithmetic, range, sigma_self_min)
    }
}

/// The least self-similarity of the objects seen, where the error of the fast paths depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SigmaMin {
    needed: bool,
    least: f64,
}

impl SigmaMin {
    /// Nothing seen yet.
    pub(crate) fn new(space: &SqfdSpace) -> Self {
        // The sums of the other measures are bounded without it (`PreparedQuery::error_squared`).
        Self { needed: space.measure().similarity() == Similarity::Minus, least: 0.0 }
    }

    /// Takes objects into account.
    pub(crate) fn see(&mut self, space: &SqfdSpace, ids: &[u64]) -> Result<(), BoxError> {
        if self.needed {
            self.least = space.store().read(|objects| {
                ids.iter().try_fold(self.least, |least, id| {
                    Ok::<_, BoxError>(least.min(space.sigma_self(objects, *id)?))
                })
            })?;
        }
        Ok(())
    }

    /// The least so far.
    pub(crate) fn least(&self) -> f64 {
        self.least
    }
}
