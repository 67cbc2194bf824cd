//! Work of a round of k-means on its way to a device and back: clusters for a chunk of rows, or the means of all clusters.

use std::ops::Range;
use std::sync::Arc;

use boxwork_kernels::kmeans::BLOCK;
use boxwork_kernels::kmeans::device::{DeviceCentroids, RowTerms, groups};
use boxwork_kernels::kmeans::means::{self, Grouped};
use boxwork_kernels::vector::device::{ITEMS, halves};
use boxwork_runtime::feeding::{Back, Block, DeviceError, Feed, Grid, Plain, SharedKey, Value};

use crate::devices::device_kernels::{assign_program, means_program};

/// Rows that one thread gathers at a time.
const PART_ROWS: usize = 4096;
/// The content of a chunk's buffers on a device.
const ROWS: u64 = 0;
const HALVES: u64 = 1;
const TERMS: u64 = 2;

/// The rows of a clustering, which stay on devices for all rounds.
pub(super) struct RowsOnDevices {
    pub(super) rows: Arc<Vec<f32>>,
    pub(super) dimensions: usize,
    pub(super) terms: RowTerms,
    /// Unique to these rows within the process.
    pub(super) number: u64,
}

impl RowsOnDevices {
    pub(super) fn of(&self, rows: Range<usize>) -> &[f32] {
        &self.rows[rows.start * self.dimensions..rows.end * self.dimensions]
    }

    pub(super) fn row(&self, row: usize) -> &[f32] {
        self.of(row..row + 1)
    }

    fn key(&self, form: u64, chunk: usize) -> SharedKey {
        SharedKey { resource: self.number, form, part: chunk as u64 }
    }

    /// Binds the rows of a chunk, which stay on the device if it keeps them.
    fn bind(&self, feed: &mut Feed<'_>, of: &Place) -> Result<(), DeviceError> {
        let (dimensions, of_chunk) = (self.dimensions, self.of(of.rows.clone()));
        let fill = |part: usize, to: &mut [f32]| {
            to.copy_from_slice(&of_chunk[part * PART_ROWS * dimensions..][..to.len()]);
            Ok(())
        };
        let key = (self.key(ROWS, of.chunk), of.is_kept);
        feed.part("rows", key, of_chunk.len(), PART_ROWS * dimensions, fill)
    }
}

/// A chunk, and where it lies.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) chunk: usize,
    pub(super) rows: Range<usize>,
    /// The device that keeps the chunk, unless it has failed.
    pub(super) home: Option<usize>,
    pub(super) is_kept: bool,
}

/// The work of a device.
pub(super) enum RoundBlock {
    Assign(AssignBlock),
    Means(MeansBlock),
}

impl RoundBlock {
    pub(super) fn place(&mut self) -> &mut Place {
        match self {
            Self::Assign(block) => &mut block.place,
            Self::Means(block) => &mut block.place,
        }
    }

    pub(super) fn home(&self) -> Option<usize> {
        match self {
            Self::Assign(block) => block.place.home,
            Self::Means(block) => block.place.home,
        }
    }
}

/// The centroids of a round, for all its blocks.
pub(super) struct OfRound {
    pub(super) centroids: DeviceCentroids,
    /// Unique to this round within the process.
    pub(super) version: u64,
}

/// A chunk of rows, and the clusters that a device has found for them.
pub(super) struct AssignBlock {
    rows: Arc<RowsOnDevices>,
    round: Arc<OfRound>,
    pub(super) place: Place,
    brings: bool,
    /// The device that computed it last.
    pub(super) device: String,
    /// By row: its cluster, with the mark of those that are not certain. Room for them, before a device has found them.
    pub(super) clusters: Vec<u32>,
}

impl AssignBlock {
    pub(super) fn new(rows: &Arc<RowsOnDevices>, round: &Arc<OfRound>, place: Place) -> Self {
        let (rows, round) = (Arc::clone(rows), Arc::clone(round));
        Self { rows, round, place, brings: false, device: String::new(), clusters: Vec::new() }
    }

    fn enqueue(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let (rows, round, place) = (Arc::clone(&self.rows), Arc::clone(&self.round), self.place.clone());
        let (dimensions, count) = (rows.dimensions, place.rows.len());
        self.brings = !feed.device().holds(rows.key(ROWS, place.chunk));
        rows.bind(feed, &place)?;
        let terms = &rows.terms.terms[place.rows.clone()];
        feed.shared("terms", rows.key(TERMS, place.chunk), count, |to: &mut [[f32; 2]]| {
            to.copy_from_slice(terms);
            Ok(())
        })?;
        feed.output::<u32>("clusters", count)?;
        feed.output::<u32>("list", count)?;
        feed.write("list_count", 1, |to: &mut [u32]| {
            to.fill(0);
            Ok(())
        })?;
        let centroids = &round.centroids;
        let values = |dimensions: usize, errors: [f32; 4]| {
            [
                ("rows_count", Value::of(count as u32)),
                ("centroids_count", Value::of(centroids.len() as u32)),
                ("dimensions", Value::of(dimensions as u32)),
                ("errors", Value::of(errors)),
            ]
        };
        let grid = |on_units: bool| {
            let (groups, items) = groups(on_units, dimensions, count);
            Grid::of([groups], [items])
        };
        if let Some(halved) = &centroids.halved {
            let of_row = centroids.padded();
            let of_chunk = rows.of(place.rows.clone());
            let fill = |part: usize, to: &mut [u16]| {
                let numbers = to.len() / of_row * dimensions;
                halves(dimensions, &of_chunk[part * PART_ROWS * dimensions..][..numbers], to);
                Ok(())
            };
            let key = (rows.key(HALVES, place.chunk), place.is_kept);
            feed.part("halves", key, count * of_row, PART_ROWS * of_row, fill)?;
            send(feed, "halved", round.version, &halved.numbers)?;
            send(feed, "halved_squares", round.version, &halved.squares)?;
            let program = assign_program(true, dimensions);
            feed.launch(&program, "assign", grid(true), &values(of_row, halved.errors))?;
        }
        send(feed, "centroids", round.version, &centroids.numbers)?;
        send(feed, "squares", round.version, &centroids.squares)?;
        let [a, b, c, d] = values(dimensions, centroids.errors);
        let is_listed = ("is_listed", Value::of(u32::from(centroids.halved.is_some())));
        let program = assign_program(false, dimensions);
        feed.launch(&program, "assign", grid(false), &[a, b, c, d, is_listed])?;
        feed.read::<u32>("clusters", count)
    }
}

/// Sends numbers of a round, unless the end point has them.
fn send<T: Plain>(
    feed: &mut Feed<'_>,
    name: &'static str,
    version: u64,
    numbers: &[T],
) -> Result<(), DeviceError> {
    feed.replicated(name, version, numbers.len(), |to: &mut [T]| {
        to.copy_from_slice(numbers);
        Ok(())
    })
}

/// The clusters of all rows of a chunk, and the means that a device has computed.
pub(super) struct MeansBlock {
    rows: Arc<RowsOnDevices>,
    clusters: Arc<Vec<u32>>,
    pub(super) grouped: Grouped,
    pub(super) place: Place,
    /// The device that computed it last.
    pub(super) device: String,
    /// Cluster by cluster.
    pub(super) means: Vec<f32>,
}

impl MeansBlock {
    pub(super) fn new(
        rows: &Arc<RowsOnDevices>,
        clusters: &Arc<Vec<u32>>,
        grouped: Grouped,
        place: Place,
    ) -> Self {
        let (rows, clusters) = (Arc::clone(rows), Arc::clone(clusters));
        Self { rows, clusters, grouped, place, device: String::new(), means: Vec::new() }
    }

    fn enqueue(&self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let (rows, grouped) = (&self.rows, &self.grouped);
        rows.bind(feed, &self.place)?;
        feed.write_in_parts("order", self.clusters.len(), BLOCK, |block, to: &mut [u32]| {
            to.copy_from_slice(&grouped.order[block]);
            Ok(())
        })?;
        feed.write("starts", grouped.starts.len(), |to: &mut [u32]| {
            to.copy_from_slice(&grouped.starts);
            Ok(())
        })?;
        let (clusters, dimensions) = (grouped.clusters(), rows.dimensions);
        feed.output::<f32>("found", clusters * dimensions)?;
        let number = |value: usize| Value::of(value as u32);
        let values = [
            ("blocks", number(grouped.blocks())),
            ("clusters", number(clusters)),
            ("dimensions", number(dimensions)),
        ];
        let grid = Grid::of([means::groups(clusters, dimensions)], [ITEMS]);
        feed.launch(&means_program(), "means", grid, &values)?;
        feed.read::<f32>("found", clusters * dimensions)
    }
}

impl Block for RoundBlock {
    fn size(&self) -> u64 {
        match self {
            Self::Assign(block) => (block.place.rows.len() * block.round.centroids.len()) as u64,
            Self::Means(block) => block.clusters.len() as u64,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Assign(block) if block.brings => "chunks and clusters",
            Self::Assign(_) => "clusters",
            Self::Means(_) => "means",
        }
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let device = feed.device().info().to_string();
        match self {
            Self::Assign(block) => {
                block.device = device;
                block.enqueue(feed)
            }
            Self::Means(block) => {
                block.device = device;
                block.enqueue(feed)
            }
        }
    }

    fn collect(&mut self, back: &Back<'_>) {
        match self {
            Self::Assign(block) => {
                block.clusters.clear();
                block.clusters.extend_from_slice(back.numbers::<u32>("clusters"));
            }
            Self::Means(block) => block.means = back.numbers::<f32>("found").to_vec(),
        }
    }
}
