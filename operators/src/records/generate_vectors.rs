//! `generate_vectors`: vectors for measurements, each from a seed and its row alone.
//!
//! Invariant: the rows of a range have the same bytes, whichever range is made, on every machine.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use boxwork_kernels::vector::generate::{Generator, NEIGHBOURS};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec, Out, Pushed};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::vector_file::VectorFile;

use super::HOLDS;
use super::read_vectors::{DIMENSIONS, TYPE, bare, column};
use crate::columns;

/// Rows of an envelope.
const ROWS: u64 = 4096;
/// Dimensions of vectors like those of images, and of texts.
const DEEP: usize = 96;
const EMBEDDING: usize = 768;

const OBJECTS: Out = Out::new(0, "objects", columns::objects, "the vectors, named by their rows");

/// Makes vectors.
///
/// Like a sample, they are as hard to search as the sample's: of its distances and its intrinsic dimension. `deep` and
/// `embedding` have the shape of such vectors, of 96 and 768 dimensions, and are for rates only.
///
/// # Inputs
/// None.
///
/// # Outputs
/// `objects`: the vectors; `name` is the row's number.
///
/// # Parameters
/// `like`: a file of vectors as `read_vectors` takes it, `deep` or `embedding`. `rows`: how many. `first`: the first row.
/// `seed`: the seed. `type`, `dimensions`: what a sample of nothing but numbers holds.
pub(crate) static GENERATE_VECTORS: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "like",
            ParameterType::Text,
            Default::Required,
            "a file of vectors, deep or embedding",
        ),
        Parameter::new("rows", ParameterType::integer_from(1), Default::Required, "how many vectors")
            .unit("objects"),
        Parameter::new(
            "first",
            ParameterType::integer_from(0),
            Default::Integer(0),
            "the number of the first one",
        ),
        Parameter::new("seed", ParameterType::integer_from(0), Default::Integer(1), "the seed"),
        TYPE,
        DIMENSIONS,
        // The kind of objects that leave: there is no other.
        Parameter::new(
            HOLDS.name,
            ParameterType::Choice(&["vectors"]),
            Default::Text("vectors"),
            HOLDS.about,
        ),
    ],
    outputs: &[OBJECTS],
    example: "vectors: {kind: generate_vectors, like: deep, rows: 100000}",
    ..OperatorSpec::new("generate_vectors", "Makes vectors for measurements.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let (like, seed) = (bind.text("like"), bind.count("seed") as u64);
    let generator = match like {
        "deep" => Generator::of_mixture(seed, DEEP),
        "embedding" => Generator::of_mixture(seed, EMBEDDING),
        path => {
            let mut file = VectorFile::open(Path::new(path), bare(bind)?)?;
            let rows = file.read(0, usize::try_from(file.len())?)?;
            Generator::of_sample(seed, rows.all(), file.dimensions()).ok_or_else(|| {
                BoxError::new(format!(
                    "`{path}` has {} rows, and a sample has at least {NEIGHBOURS}",
                    file.len()
                ))
            })?
        }
    };
    let (first, rows) = (bind.count("first") as u64, bind.count("rows") as u64);
    Ok(Box::new(GenerateVectors {
        generator,
        slots: bind.slots() as u64,
        first,
        next: first,
        end: first + rows,
        made: Vec::new(),
    }))
}

struct GenerateVectors {
    generator: Generator,
    slots: u64,
    first: u64,
    /// The next row to make.
    next: u64,
    end: u64,
    /// Envelopes to send, the first one last.
    made: Vec<Envelope>,
}

impl Operator for GenerateVectors {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = self.made.pop() {
            if !cx.has_room(OBJECTS) {
                self.made.push(envelope);
                return Ok(Flow::Wait);
            }
            if cx.push(OBJECTS, envelope)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        if self.next == self.end || cx.is_cancelled() {
            return Ok(Flow::Done);
        }
        let pieces = (self.end - self.next).div_ceil(ROWS).min(self.slots);
        let mut parts: Vec<Option<Result<Envelope, BoxError>>> = (0..pieces).map(|_| None).collect();
        let (generator, next, end) = (&self.generator, self.next, self.end);
        cx.inside(|inside| {
            inside.for_each_chunk_of(&mut parts, 1, |piece, part| {
                let first = next + piece as u64 * ROWS;
                part[0] = Some(envelope(generator, first..end.min(first + ROWS)));
            });
        });
        self.made = parts.into_iter().flatten().rev().collect::<Result<_, _>>()?;
        self.next = end.min(next + pieces * ROWS);
        cx.progress(self.next - self.first, self.end - self.first);
        Ok(Flow::More)
    }
}

fn envelope(generator: &Generator, rows: std::ops::Range<u64>) -> Result<Envelope, BoxError> {
    let names = StringArray::from_iter_values(rows.clone().map(|row| row.to_string()));
    let objects = column(generator.rows(rows).all(), generator.dimensions());
    Ok(Envelope::from_columns([("name", Arc::new(names) as ArrayRef), ("object", objects)])?)
}
