//! Signatures of few points, queries made from a seed, and a sink that writes distances to the bit.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray, UInt32Array};
use boxwork_kernels::chance::Random;
use boxwork_kernels::sqfd::Columns;
use boxwork_operators::catalog;
use boxwork_operators::columns;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Catalog, Context, Flow, In, Kind, Operator, OperatorSpec, Out,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::signature::SignatureBuilder;

/// The number of queries in a request; a request of the tests has at most 64.
pub const QUERIES: usize = 64;
pub const DIMENSIONS: usize = 3;
pub const COORDINATES: [&str; DIMENSIONS] = ["x", "y", "z"];

/// A signature column by column, and its weights.
#[derive(Clone)]
pub struct Points([Vec<f32>; DIMENSIONS], Vec<f32>);

impl Points {
    /// Depends on the seed alone; weights sum to 1.
    pub fn of(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0xb0c5);
        let count = 1 + random.idx(5);
        let columns = [0; DIMENSIONS].map(|_| (0..count).map(|_| 3.0 * random.unit_f32()).collect());
        let weights: Vec<f32> = (0..count).map(|_| 0.1 + random.unit_f32()).collect();
        let sum: f32 = weights.iter().sum();
        Self(columns, weights.into_iter().map(|weight| weight / sum).collect())
    }

    /// One centroid.
    pub fn at(place: [f32; DIMENSIONS]) -> Self {
        Self(place.map(|x| vec![x]), vec![1.0])
    }

    /// Moved a little: as good as a duplicate.
    pub fn moved(mut self, by: f32) -> Self {
        self.0[0].iter_mut().for_each(|x| *x += by);
        self
    }

    pub fn with<R>(&self, f: impl FnOnce(boxwork_kernels::sqfd::SignatureRef<'_>) -> R) -> R {
        let columns = self.0.each_ref().map(Vec::as_slice);
        f(Columns::new(&columns, &self.1).signature(0, self.1.len()))
    }
}

/// The queries of a seed: most are nobody's.
pub fn queries(seed: u64, count: usize) -> Vec<Points> {
    let mut random = Random::new(seed);
    (0..count)
        .map(|_| match random.idx(5) {
            0 => Points::of(random.idx(40) as u64),
            1 => Points::of(random.idx(40) as u64).moved(1e-5),
            // As far from all corners of a cross.
            2 => Points::at([0.0; DIMENSIONS]),
            _ => Points::of(random.bits()),
        })
        .collect()
}

const QUERIES_OUT: Out = Out::new(0, "queries", columns::queries, "queries");

static GIVEN_QUERIES: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new("seed", ParameterType::integer_from(0), Default::Required, "the seed"),
        Parameter::new("count", ParameterType::integer_from(1), Default::Integer(QUERIES as i64), "how many"),
    ],
    outputs: &[QUERIES_OUT],
    ..OperatorSpec::new("given_queries", "Makes queries from a seed.", Kind::Stateful, |bind| {
        Ok(Box::new(GivenQueries(bind.count("seed") as u64, bind.count("count"))))
    })
};

struct GivenQueries(u64, usize);

impl Operator for GivenQueries {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let queries = queries(self.0, self.1);
        let mut signatures = SignatureBuilder::new(&COORDINATES)?;
        for query in &queries {
            query.with(|signature| signatures.push_signature(signature))?;
        }
        let columns: [(&str, ArrayRef); 3] = [
            ("query", Arc::new(UInt32Array::from_iter_values(0..queries.len() as u32))),
            ("name", Arc::new(StringArray::from(vec!["q"; queries.len()]))),
            ("object", Arc::new(signatures.finish())),
        ];
        cx.push(QUERIES_OUT, Envelope::from_columns(columns)?)?;
        Ok(Flow::Done)
    }
}

const RESULTS: In = In::stream(0, "results", columns::distances, "the results");
const QUERY: In = In::side(1, "query", columns::queries, "the queries");

static ROWS: OperatorSpec = OperatorSpec {
    parameters: &[Parameter::new("out", ParameterType::Path, Default::Required, "the file")],
    inputs: &[RESULTS, QUERY],
    ..OperatorSpec::new("rows", "Writes results to the bit.", Kind::Stateful, |bind: &Bind<'_>| {
        Ok(Box::new(Rows(bind.path("out"), Vec::new())))
    })
};

struct Rows(PathBuf, Vec<(u32, f64, u64)>);

impl Operator for Rows {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take(RESULTS) {
            let (numbers, ids) = (envelope.u32s("query")?, envelope.u64s("id")?);
            let rows = envelope.f64s("distance")?.iter().enumerate();
            self.1.extend(rows.map(|(row, distance)| (numbers[row], *distance, ids[row])));
        }
        if !cx.is_ended(RESULTS) {
            return Ok(Flow::Wait);
        }
        std::fs::write(&self.0, text_of(&mut self.1))?;
        Ok(Flow::Done)
    }
}

/// Rows by query, distance and id, a line each.
pub fn text_of(rows: &mut [(u32, f64, u64)]) -> String {
    rows.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
    let mut text = String::new();
    for (number, distance, id) in rows {
        let _ = writeln!(text, "{number} {distance:?} {id}");
    }
    text
}

pub fn test_catalog() -> Catalog {
    catalog().with(&GIVEN_QUERIES).with(&ROWS)
}
