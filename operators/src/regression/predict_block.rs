//! Blocks of points that a device predicts, and the factor that stays there for all requests.
//!
//! The factor of a model is a part of the model's memory on a device: in ranges of its rows of tiles, each a buffer of its own, with the inverses
//! of its diagonal tiles, the samples and their weights. Points of a block are rows of tiles beside the factor: their covariances are filled
//! in and solved, X L^T = K, as the rows of the factor itself were. Invariant: a point has the same numbers in any block.

use std::ops::Range;
use std::sync::Arc;

use boxwork_kernels::cholesky::device::{ITEMS, Numbers, TILE, Units, tiles as count};
use boxwork_kernels::covariance::Points;
use boxwork_kernels::gaussian_process::{
    Precision, Regression, Sums, inverse_of_diagonal_tile, tile_of_rows,
};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::{
    Back, Block, DeviceClass, DeviceError, Devices, Feed, Grid, Plain, ProgramSource, SharedKey, Value,
};

use crate::devices::device_kernels::{factor_program, fill_program};
use crate::devices::factor::{DeviceNumber, can_fill};
use crate::resources::gp_model::GpModel;

/// Bytes of a range of the factor at most: a copy of so many lies in pinned memory while it is sent.
const RANGE_BYTES: usize = 256 << 20;
/// Columns of tiles that are solved before those behind them lose their products.
const COLUMNS: usize = 8;
/// Points of a block: on a GPU 32 rows of tiles, so that a launch of one column has some work groups, and one of many fills the device.
const POINTS_GPU: usize = 4096;
const POINTS_CPU: usize = 512;
/// The part of a device's memory that the covariances of a block take at most: several are under way.
const BLOCK_SHARE: u64 = 16;
/// The part of a device's memory, in quarters, that a factor may take.
const FACTOR_QUARTERS: u64 = 3;
/// Numbers of a tile.
const NUMBERS: usize = TILE * TILE;

/// The forms of a model's parts on a device.
const SAMPLES: u64 = 0;
const WEIGHTS: u64 = 1;
const INVERSES: u64 = 2;
const RANGE: u64 = 3;

/// A model as devices predict by it.
pub(super) struct DeviceModel {
    pub(super) model: Arc<GpModel>,
    deviations: bool,
    /// The ranges of rows of tiles; none if no deviations are asked for.
    ranges: Vec<Range<usize>>,
    /// Points of a block.
    pub(super) points_max: usize,
}

impl DeviceModel {
    /// The model, and those of the devices that have its numbers and room for it; else the reason why there is none.
    pub(super) fn of(
        model: &Arc<GpModel>,
        deviations: bool,
        devices: &Devices,
        allowed: &[usize],
    ) -> Result<(Self, Vec<usize>), String> {
        let regression = &model.saved.regression;
        let (rows, dimensions) = (regression.len().div_ceil(TILE), regression.points.dimensions());
        if !can_fill(dimensions) {
            return Err(format!("devices compute no covariances of {dimensions} inputs"));
        }
        let number = if is_single(regression) { 4 } else { 8 };
        let of_factor = if deviations { ((count(rows) + rows) * NUMBERS * number) as u64 } else { 0 };
        let mut fitting = Vec::new();
        for idx in allowed {
            let (info, budget) = (devices.list()[*idx].info(), devices.list()[*idx].memory_budget_bytes());
            let has_numbers = info.has_doubles || is_single(regression);
            if has_numbers && of_factor <= budget / 4 * FACTOR_QUARTERS {
                fitting.push(*idx);
            }
        }
        let each = || fitting.iter().map(|idx| &devices.list()[*idx]);
        let Some(room) = each()
            .map(|device| (device.memory_budget_bytes() / BLOCK_SHARE).min(device.info().buffer_bytes_max))
            .min()
        else {
            return Err(format!(
                "no device has room for a factor of {} MiB, and numbers of f64 if it needs them",
                of_factor >> 20
            ));
        };
        let is_gpu = each().all(|device| device.info().class == DeviceClass::Gpu);
        let usual = if is_gpu { POINTS_GPU } else { POINTS_CPU };
        let fits = room as usize / (rows.max(1) * NUMBERS * number) * TILE;
        let ranges = if deviations { ranges(rows, RANGE_BYTES / (NUMBERS * number)) } else { Vec::new() };
        let model = Arc::clone(model);
        Ok((Self { model, deviations, ranges, points_max: usual.min(fits.max(TILE)) }, fitting))
    }

    /// The parts of the factor that a device does not hold: ranges of rows.
    pub(super) fn missing(&self, devices: &Devices, device: usize) -> Vec<usize> {
        let held = |range: &usize| devices.list()[device].holds(self.key(RANGE, *range));
        (0..self.ranges.len()).filter(|range| !held(range)).collect()
    }

    /// Takes smaller ranges and blocks.
    #[cfg(test)]
    pub(super) fn cut(&mut self, tiles_max: usize, points_max: usize) {
        let rows = self.regression().len().div_ceil(TILE);
        self.points_max = points_max;
        if self.deviations {
            self.ranges = ranges(rows, tiles_max);
        }
    }

    fn key(&self, form: u64, part: usize) -> SharedKey {
        SharedKey { resource: self.model.number, form, part: part as u64 }
    }

    fn regression(&self) -> &Regression {
        &self.model.saved.regression
    }
}

fn is_single(model: &Regression) -> bool {
    model.precision != Precision::F64
}

/// Rows of tiles in ranges of so many tiles at most, or of one row.
fn ranges(rows: usize, tiles_max: usize) -> Vec<Range<usize>> {
    let (mut ranges, mut first) = (Vec::new(), 0);
    for end in 1..=rows {
        if end == rows || count(end + 1) - count(first) > tiles_max {
            ranges.push(first..end);
            first = end;
        }
    }
    ranges
}

/// Some envelopes of points for a device, or a range of the factor that it shall hold.
pub(super) struct PredictBlock {
    shared: Arc<DeviceModel>,
    pub(super) envelopes: Vec<Envelope>,
    pub(super) points: Points,
    /// The device that is to hold a range, and the range.
    pub(super) brings: Option<(usize, usize)>,
    /// Sums for each point, once the block has come back.
    pub(super) sums: Sums,
    /// Whether the device has numbers of f64.
    is_wide: bool,
    /// The device that computed it last.
    pub(super) device: String,
}

impl PredictBlock {
    pub(super) fn new(shared: &Arc<DeviceModel>, envelopes: Vec<Envelope>, points: Points) -> Self {
        let shared = Arc::clone(shared);
        let (sums, device) = (Sums::default(), String::new());
        Self { shared, envelopes, points, brings: None, sums, is_wide: true, device }
    }

    pub(super) fn bringing(shared: &Arc<DeviceModel>, device: usize, range: usize) -> Self {
        Self { brings: Some((device, range)), ..Self::new(shared, Vec::new(), Points::new(0)) }
    }

    /// Rows of tiles of points.
    fn rows(&self) -> usize {
        self.points.len().div_ceil(TILE)
    }

    fn enqueue<T: DeviceNumber + Default>(&self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        if let Some((_, range)) = self.brings {
            return self.bind::<T>(feed, range);
        }
        // All parts first: before its first command a block may leave its turn to others while a part is on its way.
        for range in 0..self.shared.ranges.len() {
            self.bind::<T>(feed, range)?;
        }
        let info = feed.device().info();
        let (has_doubles, capability) = (info.has_doubles, info.compute_capability);
        let Some(numbers) = T::numbers(has_doubles) else {
            return Err(DeviceError::Block("the device has no numbers of f64".to_owned()));
        };
        self.fill::<T>(feed, numbers)?;
        let program = factor_program(numbers, Units::of(numbers, capability));
        if self.shared.deviations {
            self.solve::<T>(feed, &program)?;
        }
        let width = self.shared.regression().len().div_ceil(TILE);
        let (stride, kinds) = (self.rows() * TILE, 1 + usize::from(self.shared.deviations));
        let len = kinds * stride;
        if numbers.is_wide() {
            feed.output::<f64>("sums", len)?
        } else {
            feed.output::<f32>("sums", len)?
        }
        let values = values([("places_stride", stride), ("width", width), ("kinds", kinds)]);
        feed.launch(&program, "totals", Grid::of([len.div_ceil(ITEMS)], [ITEMS]), &values)?;
        if numbers.is_wide() { feed.read::<f64>("sums", len) } else { feed.read::<f32>("sums", len) }
    }

    /// Binds a range of the factor, which comes to the device if it is not there.
    fn bind<T: DeviceNumber + Default>(&self, feed: &mut Feed<'_>, range: usize) -> Result<(), DeviceError> {
        let (shared, rows) = (&self.shared, self.shared.ranges[range].clone());
        let (base, end) = (count(rows.start), count(rows.end));
        let factor = &shared.regression().factor;
        feed.shared_in_parts::<T>(
            "tiles",
            shared.key(RANGE, range),
            (end - base) * NUMBERS,
            NUMBERS,
            |at, tile| {
                let nth = base + at;
                // Rows of a range are few, or the whole factor is small.
                let row = rows.clone().find(|row| nth < count(row + 1)).unwrap_or(rows.start);
                tile_of_rows(factor, (row, nth - count(row)), tile);
                Ok(())
            },
        )
    }

    /// The covariances of the points with all samples, and the sums of their products with the weights, tile by tile.
    fn fill<T: DeviceNumber>(&self, feed: &mut Feed<'_>, numbers: Numbers) -> Result<(), DeviceError> {
        let (shared, model) = (&self.shared, self.shared.regression());
        let (width, dimensions) = (model.len().div_ceil(TILE), model.points.dimensions());
        let (stride, samples_stride) = (self.rows() * TILE, width * TILE);
        let of_samples = columns_of(&model.points, samples_stride);
        let mut weights = model.weights.clone();
        weights.resize(samples_stride, 0.0);
        let places = columns_of(&self.points, stride);
        let parameters = model.expression.device_numbers();
        let kept = if shared.deviations { self.rows() * width * NUMBERS } else { NUMBERS };
        let parts = (1 + usize::from(shared.deviations)) * width * stride;
        match numbers.is_wide() {
            true => {
                share::<f64>(feed, "points", shared.key(SAMPLES, 0), &of_samples)?;
                share::<f64>(feed, "weights", shared.key(WEIGHTS, 0), &weights)?;
                send::<f64>(feed, "places", &places)?;
                send::<f64>(feed, "parameters", &parameters)?;
                feed.output::<f64>("parts", parts)?;
            }
            false => {
                share::<f32>(feed, "points", shared.key(SAMPLES, 0), &of_samples)?;
                share::<f32>(feed, "weights", shared.key(WEIGHTS, 0), &weights)?;
                send::<f32>(feed, "places", &places)?;
                send::<f32>(feed, "parameters", &parameters)?;
                feed.output::<f32>("parts", parts)?;
            }
        }
        feed.output::<T>("beside", kept)?;
        let program = fill_program(numbers, &model.expression, dimensions);
        let values = values([
            ("places_stride", stride),
            ("stride", samples_stride),
            ("count", model.len()),
            ("keeps", usize::from(shared.deviations)),
        ]);
        feed.launch(&program, "between", Grid::of([width, self.rows()], [ITEMS, 1]), &values)
    }

    /// Solves the rows beside the factor, and sums up their squares.
    fn solve<T: DeviceNumber + Default>(
        &self,
        feed: &mut Feed<'_>,
        program: &ProgramSource,
    ) -> Result<(), DeviceError> {
        let (shared, rows) = (&self.shared, self.rows());
        let width = shared.regression().len().div_ceil(TILE);
        let factor = &shared.regression().factor;
        feed.shared_in_parts::<T>(
            "inverses",
            shared.key(INVERSES, 0),
            width * NUMBERS,
            NUMBERS,
            |at, tile| {
                inverse_of_diagonal_tile(factor, at, tile);
                Ok(())
            },
        )?;
        let base_of = |range: usize| ("base", count(shared.ranges[range].start));
        let with = [("width", width), ("is_upper", 0)];
        for first in (0..width).step_by(COLUMNS) {
            let end = (first + COLUMNS).min(width);
            for range in 0..shared.ranges.len() {
                let of = shared.ranges[range].clone();
                if of.end <= first {
                    continue;
                }
                self.bind::<T>(feed, range)?;
                for j in of.start.max(first)..of.end.min(end) {
                    let values = values([base_of(range), with[0], with[1], ("j", j), ("first", first)]);
                    feed.launch(program, "eliminate", Grid::of([rows], [ITEMS]), &values)?;
                }
                let from = of.start.max(end);
                if from < of.end {
                    let values = values([
                        base_of(range),
                        with[0],
                        with[1],
                        ("from", from),
                        ("first", first),
                        ("end", end),
                    ]);
                    feed.launch(program, "behind", Grid::of([of.end - from, rows], [ITEMS, 1]), &values)?;
                }
            }
        }
        let values = values([("places_stride", rows * TILE)]);
        feed.launch(program, "squared", Grid::of([width, rows], [ITEMS, 1]), &values)
    }
}

/// Arguments of a kernel that are whole numbers.
fn values<const N: usize>(of: [(&'static str, usize); N]) -> [(&'static str, Value); N] {
    of.map(|(name, value)| (name, Value::of(value as u32)))
}

/// The numbers of points by dimensions, `stride` of them for each.
fn columns_of(points: &Points, stride: usize) -> Vec<f64> {
    let mut columns = vec![0.0; points.dimensions() * stride];
    for (d, column) in columns.chunks_exact_mut(stride).enumerate() {
        column[..points.len()].copy_from_slice(points.dimension(d));
    }
    columns
}

/// A number of vectors and points on a device.
trait Wide: Plain {
    fn of(x: f64) -> Self;
}

impl Wide for f64 {
    fn of(x: f64) -> Self {
        x
    }
}

impl Wide for f32 {
    fn of(x: f64) -> Self {
        x as Self
    }
}

fn copy<W: Wide>(from: &[f64], to: &mut [W]) -> Result<(), DeviceError> {
    to.iter_mut().zip(from).for_each(|(to, x)| *to = W::of(*x));
    Ok(())
}

fn share<W: Wide>(
    feed: &mut Feed<'_>,
    name: &'static str,
    key: SharedKey,
    numbers: &[f64],
) -> Result<(), DeviceError> {
    feed.shared::<W>(name, key, numbers.len(), |to| copy(numbers, to))
}

fn send<W: Wide>(feed: &mut Feed<'_>, name: &'static str, numbers: &[f64]) -> Result<(), DeviceError> {
    feed.write::<W>(name, numbers.len(), |to| copy(numbers, to))
}

impl Block for PredictBlock {
    fn size(&self) -> u64 {
        self.points.len() as u64
    }

    fn kind(&self) -> &'static str {
        match (self.brings, self.shared.deviations) {
            (Some(_), _) => "a range of a factor",
            (None, true) => "means and deviations",
            (None, false) => "means",
        }
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        self.device = feed.device().info().name.clone();
        self.is_wide = feed.device().info().has_doubles;
        match is_single(self.shared.regression()) {
            true => self.enqueue::<f32>(feed),
            false => self.enqueue::<f64>(feed),
        }
    }

    fn collect(&mut self, back: &Back<'_>) {
        if self.brings.is_some() {
            return;
        }
        let (stride, points) = (self.rows() * TILE, self.points.len());
        let sums: Vec<f64> = match self.is_wide {
            true => back.numbers::<f64>("sums").to_vec(),
            false => back.numbers::<f32>("sums").iter().map(|x| f64::from(*x)).collect(),
        };
        let (means, explained) = sums.split_at(stride);
        self.sums.means = means[..points].to_vec();
        self.sums.explained = explained.iter().copied().take(points).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_all_rows_and_few_tiles() {
        for (rows, tiles_max) in [(1, 1), (5, 1), (5, 4), (9, 12), (9, 1000)] {
            let found = ranges(rows, tiles_max);
            assert_eq!(found.iter().cloned().flatten().collect::<Vec<_>>(), (0..rows).collect::<Vec<_>>());
            let tiles = |range: &Range<usize>| count(range.end) - count(range.start);
            assert!(found.iter().all(|range| range.len() == 1 || tiles(range) <= tiles_max), "{found:?}");
        }
    }
}
