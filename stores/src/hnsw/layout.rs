//! The layout of a `*.hnsw.arrow` file: a packed file (`packed_file`).
//!
//! ```text
//! head    magic, schema message: the store's fingerprint, the measure, the numbers of a vector and their type, how the graph was made,
//!         its objects and bytes
//! batch   64 rows of the column `graph`, pieces of 64 KiB: the graph as `usearch` 2 writes it, filled up with zeros
//! tail    end of stream, footer: all checksums; footer length, magic
//! ```

use arrow_schema::{DataType, Field, Metadata, Schema};
use boxwork_kernels::memory::room;
use boxwork_kernels::vector::VectorMeasure;

pub(super) use super::super::packed_file::{
    CREATOR, CREATOR_KEY, FORMAT_KEY, Format, MEASURE_KEY, STORE_KEY, VERSION, VERSION_KEY,
};
use super::super::packed_file::{PackedError, PackedFile};
use super::{GraphNumbers, HnswError, HnswOptions, Shape};

/// The names of the format. No file follows another: a graph that has grown is written anew.
pub(crate) const FORMAT: Format = Format { whole: "hnsw", part: "hnsw.part", versions: &[VERSION] };
const DIMENSIONS_KEY: &str = "boxwork.hnsw.dimensions";
const NUMBERS_KEY: &str = "boxwork.hnsw.numbers";
const CONNECTIVITY_KEY: &str = "boxwork.hnsw.connectivity";
const EXPANSION_KEY: &str = "boxwork.hnsw.expansion";
/// The number that is 0 as an i8 and the steps of a unit, as text that is read back to the bit.
const MIDDLE_KEY: &str = "boxwork.hnsw.middle";
const STEPS_KEY: &str = "boxwork.hnsw.steps";
const OBJECTS_KEY: &str = "boxwork.hnsw.objects";
const BYTES_KEY: &str = "boxwork.hnsw.bytes";

/// Bytes of a row, and rows of a batch.
pub(super) const PIECE: usize = 64 << 10;
pub(super) const PIECES: usize = 64;

/// The head of a file: what it holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Head {
    pub(super) shape: Shape,
    /// Objects in the graph, with those that were removed since.
    pub(super) objects: u64,
    /// Bytes of the graph.
    pub(super) bytes: u64,
}

/// The columns.
pub(super) fn schema(metadata: Metadata) -> Schema {
    let field = Field::new("graph", DataType::FixedSizeBinary(PIECE as i32), false);
    Schema::new(vec![field]).with_metadata(metadata)
}

impl Head {
    /// The metadata of a file for a store with this fingerprint.
    pub(super) fn metadata(&self, store: &str) -> Metadata {
        let (shape, options) = (&self.shape, &self.shape.options);
        let texts = [
            (FORMAT_KEY, FORMAT.whole.to_owned()),
            (VERSION_KEY, VERSION.to_owned()),
            (CREATOR_KEY, CREATOR.to_owned()),
            (STORE_KEY, store.to_owned()),
            (MEASURE_KEY, shape.measure.name().to_owned()),
            (DIMENSIONS_KEY, shape.dimensions.to_string()),
            (NUMBERS_KEY, options.numbers.name().to_owned()),
            (CONNECTIVITY_KEY, options.connectivity.to_string()),
            (EXPANSION_KEY, options.expansion.to_string()),
            (MIDDLE_KEY, format!("{:?}", shape.middle)),
            (STEPS_KEY, format!("{:?}", shape.steps)),
            (OBJECTS_KEY, self.objects.to_string()),
            (BYTES_KEY, self.bytes.to_string()),
        ];
        Metadata::from_iter(texts.map(|(key, text)| (key.to_owned(), text)))
    }

    /// The head of a file, of whatever store it is.
    pub(super) fn of(file: &PackedFile) -> Result<Self, PackedError> {
        let parsed = || {
            let number = |key: &str| file.said(key).parse::<f32>().ok().filter(|number| number.is_finite());
            let options = HnswOptions {
                connectivity: file.said(CONNECTIVITY_KEY).parse().ok()?,
                expansion: file.said(EXPANSION_KEY).parse().ok()?,
                numbers: GraphNumbers::named(file.said(NUMBERS_KEY))?,
            };
            let shape = Shape {
                dimensions: file.said(DIMENSIONS_KEY).parse().ok().filter(|count| *count > 0)?,
                measure: VectorMeasure::named(file.said(MEASURE_KEY))?,
                options,
                middle: number(MIDDLE_KEY)?,
                steps: number(STEPS_KEY).filter(|steps| *steps > 0.0)?,
            };
            let objects = file.said(OBJECTS_KEY).parse().ok()?;
            Some(Self { shape, objects, bytes: file.said(BYTES_KEY).parse().ok()? })
        };
        parsed().ok_or_else(|| file.not("its head does not say what graph it holds"))
    }
}

/// The bytes of a graph, each verified by its checksum.
pub(super) fn graph_bytes(
    file: PackedFile,
    bytes: u64,
    what: impl FnOnce() -> String,
) -> Result<Result<Vec<u8>, PackedError>, HnswError> {
    if *file.fields() != *schema(Metadata::default()).fields() {
        return Ok(Err(file.not("its columns are not those of a graph")));
    }
    let pieces = match file.rows(PIECES) {
        Ok(pieces) => pieces,
        Err(error) => return Ok(Err(error)),
    };
    if pieces != bytes.div_ceil(PIECE as u64) {
        return Ok(Err(file.damaged("its head", "it says another length than its graph has")));
    }
    let mut graph: Vec<u8> =
        room(pieces as usize * PIECE, what, "free memory, or make it of smaller numbers")?;
    let read = file.each_batch(PIECES, &mut |batch| {
        graph.extend_from_slice(batch.columns_of(&[PIECE])?[0]);
        Some(())
    });
    graph.truncate(bytes as usize);
    Ok(read.map(|()| graph))
}
