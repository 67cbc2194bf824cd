//! Sketch mode: bounds from the sketches of objects, whose distances are about those of the space, on slots or on devices.
//!
//! Invariants: the objects that leave are those of the largest bounds in f64, of equal ones those of the lowest ids, wherever
//! the fast bounds were computed; what is kept of earlier rounds does not change them.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use boxwork_kernels::CodePath;
use boxwork_kernels::gaussian_process::Covariance;
use boxwork_kernels::gaussian_process::pass::device::DevicePass;
use boxwork_kernels::gaussian_process::pass::{
    self, FastPass, Pass, PassMark, Shortlist, TILE, TILE_NUMBERS, Upper,
};
use boxwork_kernels::interrupt::{Interrupt, Interrupted, ask};
use boxwork_kernels::sketch::COORDINATES;
use boxwork_runtime::operator::{BoxError, Context, Pushed};
use boxwork_stores::sketch::Sketch;

use super::Eligible;
use crate::devices::pass_block::{Allows, PassBlock, Tiles};
use crate::devices::stage::{BlockOutcome, DeviceTask, Sizes, Taken};
use crate::feedback::marks::{Fitted, Mark};
use crate::resources::gp_kernel::{GpKernel, KeptColumn, KeptColumns};

/// From this many objects on `device: auto` takes devices: a block's way takes as long as slots take for so many.
pub(super) const DEVICE_OBJECTS_MIN: u64 = 1 << 17;
/// Tiles of a piece for one slot: a tenth of a millisecond for sixty marks.
const TILES_PER_PIECE: usize = 16;
/// Tiles that slots bound in one firing: some milliseconds.
const TILES_PER_FIRING: usize = 128 * TILES_PER_PIECE;
/// Tiles of a block for a device: a million objects.
const TILES_PER_BLOCK: usize = 1 << 15;
/// Objects of the shortlist that one slot bounds in f64 before others take some.
const SETTLED_PER_PIECE: usize = 16;

/// Ranges of tiles are whole blocks; slots take one a firing.
pub(super) const SIZES: Sizes =
    Sizes { block: [1, 1], block_min: [1, 1], slots: [1, 1], blocks_per_device: 3 };

/// The sketches as numbers in tiles.
struct Numbers(Arc<Sketch>);

impl AsRef<[u16]> for Numbers {
    fn as_ref(&self) -> &[u16] {
        self.0.tiles()
    }
}

/// The bounds of all objects of a store, as a task for slots or devices.
pub(super) struct SketchScan {
    sketch: Arc<Sketch>,
    kept: Arc<KeptColumns>,
    /// Of distances in the unit of the sketches.
    covariance: Covariance,
    explore: f64,
    marks: Vec<PassMark>,
    pass: Pass,
    fast: FastPass,
    /// The columns of all marks, if they are kept.
    columns: Vec<KeptColumn>,
    on_device: Arc<DevicePass>,
    /// The numbers of the devices that may compute, if any may.
    devices: Option<Arc<[usize]>>,
    eligible: Arc<Eligible>,
    size: usize,
    error: f64,
    /// The first tile that is not taken yet.
    next: usize,
    list: Shortlist,
}

impl SketchScan {
    /// A task that finds the `size` eligible objects of the largest bounds.
    ///
    /// # Errors
    /// When the object of a mark has no sketch.
    pub(super) fn new(
        kernel: &GpKernel,
        sketch: &Arc<Sketch>,
        model: &Fitted,
        explore: f64,
        (size, eligible): (usize, Arc<Eligible>),
        devices: Option<Arc<[usize]>>,
        interrupt: Interrupt<'_>,
    ) -> Result<Self, BoxError> {
        let mark = |(mark, weight): (&Mark, &f64)| -> Result<PassMark, BoxError> {
            let sketch =
                if mark.is_stored() { sketch.at(mark.id) } else { foreign(sketch, mark, interrupt)? };
            Ok(PassMark { sketch, weight: *weight, noise: mark.noise })
        };
        let marks = model.marks.iter().zip(&model.weights).map(mark).collect::<Result<Vec<_>, _>>()?;
        let covariance = kernel.covariance.in_units(sketch.unit());
        let pass = Pass::new(covariance, explore, &marks);
        let error = pass.error(sketch.norm_max());
        Ok(Self {
            sketch: Arc::clone(sketch),
            kept: Arc::clone(&kernel.kept),
            covariance,
            explore,
            fast: FastPass::new(&pass, CodePath::detect()),
            on_device: Arc::new(DevicePass::new(&pass)),
            marks,
            pass,
            columns: Vec::new(),
            devices,
            eligible,
            size,
            error,
            next: 0,
            list: Shortlist::new(size, error),
        })
    }

    /// The objects of the largest bounds, in f64, by falling bounds.
    pub(super) fn largest(self, cx: &mut Context<'_>) -> Result<Vec<(u64, Upper)>, BoxError> {
        let (list, pass, sketch) = (self.list, self.pass, self.sketch);
        let nothing = Upper { mean: 0.0, upper: 0.0 };
        let mut rows: Vec<(u64, Upper)> = list.candidates().into_iter().map(|id| (id, nothing)).collect();
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut rows, SETTLED_PER_PIECE, |_, rows| {
                if !cancelled() {
                    rows.iter_mut().for_each(|(id, upper)| *upper = pass.upper(&sketch.at(*id)));
                }
            });
        });
        ask(&|| cx.is_cancelled())?;
        rows.sort_unstable_by(|a, b| b.1.upper.total_cmp(&a.1.upper).then(a.0.cmp(&b.0)));
        rows.truncate(self.size);
        Ok(rows)
    }

    fn tiles(&self) -> usize {
        self.sketch.tiles().len() / TILE_NUMBERS
    }

    /// Takes the columns of the marks from those that are kept, and computes the others side by side.
    fn keep_columns(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let (number, covariance) = (self.sketch.number(), self.covariance);
        let known: Vec<Option<KeptColumn>> =
            self.marks.iter().map(|mark| self.kept.get(number, &covariance, &mark.sketch)).collect();
        let is_missing = |(mark, known): (&PassMark, &Option<KeptColumn>)| known.is_none().then_some(*mark);
        let missing: Vec<PassMark> = self.marks.iter().zip(&known).filter_map(is_missing).collect();
        let fast = FastPass::new(&Pass::new(covariance, 0.0, &missing), CodePath::detect());
        let tiles = self.sketch.tiles();
        let mut made = vec![vec![0u16; tiles.len() / COORDINATES]; missing.len()];
        let mut pieces: Vec<Vec<&mut [u16]>> = Vec::new();
        pieces.resize_with(self.tiles().div_ceil(TILES_PER_PIECE), Vec::new);
        for column in &mut made {
            for (piece, column) in pieces.iter_mut().zip(column.chunks_mut(TILES_PER_PIECE * TILE)) {
                piece.push(column);
            }
        }
        if !missing.is_empty() {
            cx.inside(|inside| {
                let cancelled = inside.cancelled();
                inside.for_each_chunk_of(&mut pieces, 1, |first, pieces| {
                    for (piece, tiles) in pieces
                        .iter_mut()
                        .zip(
                            tiles[first * TILES_PER_PIECE * TILE_NUMBERS..]
                                .chunks(TILES_PER_PIECE * TILE_NUMBERS),
                        )
                        .filter(|_| !cancelled())
                    {
                        fast.columns(tiles, piece);
                    }
                });
            });
        }
        // Columns of a cancelled request are not whole.
        ask(&|| cx.is_cancelled())?;
        let mut made = missing.iter().zip(made).map(|(mark, column)| {
            let column = KeptColumn::new(column.into());
            self.kept.keep(number, &covariance, &mark.sketch, &column);
            column
        });
        self.columns = known.into_iter().filter_map(|known| known.or_else(|| made.next())).collect();
        self.error = self.pass.error_of_columns(self.sketch.norm_max());
        self.list = Shortlist::new(self.size, self.error);
        Ok(())
    }

    /// The fast bounds of the objects of some tiles.
    fn uppers(&self, tiles: Range<usize>, means: &mut [f32], uppers: &mut [f32]) {
        if self.columns.is_empty() {
            let numbers = &self.sketch.tiles()[tiles.start * TILE_NUMBERS..tiles.end * TILE_NUMBERS];
            return self.fast.uppers(numbers, means, uppers);
        }
        let objects = tiles.start * TILE..tiles.end * TILE;
        let columns: Vec<pass::Column<'_>> = self
            .columns
            .iter()
            .zip(&self.marks)
            .map(|(column, mark)| pass::Column {
                covariances: &column[objects.clone()],
                weight: mark.weight,
                noise: mark.noise,
            })
            .collect();
        FastPass::fold(CodePath::detect(), &columns, self.explore, means, uppers);
    }
}

/// The sketch of a mark's own object.
fn foreign(sketch: &Sketch, mark: &Mark, interrupt: Interrupt<'_>) -> Result<[u16; COORDINATES], BoxError> {
    sketch.maker().of_object(&mark.object, 0, interrupt).map_err(|error| match error {
        error if error.is_cancelled() => error.into(),
        error => BoxError::new(format!("mark `{}`: {error}", mark.name)),
    })
}

impl DeviceTask for SketchScan {
    type Item = Range<usize>;
    type Block = PassBlock;
    type Made = Infallible;

    const IS_ORDERED: bool = false;

    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        // An infinite error is that of numbers that mean nothing: all objects are bounded in f64.
        if self.devices.is_some() || !self.error.is_finite() {
            return Ok(());
        }
        let sketches = self.marks.iter().map(|mark| &mark.sketch);
        let bytes = self.tiles() * TILE * size_of::<u16>();
        if self.kept.is_worthwhile(self.sketch.number(), &self.covariance, sketches, bytes) {
            self.keep_columns(cx)?;
        }
        Ok(())
    }

    fn take(&mut self, _: &mut Context<'_>, device: bool) -> Result<Option<Taken<Range<usize>>>, BoxError> {
        let most = if device { TILES_PER_BLOCK } else { TILES_PER_FIRING };
        let range = self.next..self.tiles().min(self.next + most);
        self.next = range.end;
        Ok((!range.is_empty()).then_some(Taken::Whole(range)))
    }

    fn is_ended(&self, _: &Context<'_>) -> bool {
        self.next >= self.tiles()
    }

    fn has_items(&self) -> bool {
        self.next < self.tiles()
    }

    fn block(&mut self, _: &mut Context<'_>, items: Vec<Range<usize>>) -> Result<PassBlock, BoxError> {
        let range = items[0].clone();
        let tiles =
            Tiles { number: self.sketch.number(), numbers: Arc::new(Numbers(Arc::clone(&self.sketch))) };
        let eligible = Arc::clone(&self.eligible);
        let allows: Allows = Arc::new(move |id| eligible.has(id));
        let list = Shortlist::new(self.size, self.error);
        let form = self.covariance.form();
        Ok(PassBlock::new(tiles, range, form, Arc::clone(&self.on_device), allows, list))
    }

    fn home(&self, block: &PassBlock) -> Option<usize> {
        // The tiles of a block stay on one device.
        let devices = self.devices.as_ref()?;
        Some(devices[block.range().start / TILES_PER_BLOCK % devices.len()])
    }

    fn finish(&mut self, _: &mut Context<'_>, block: PassBlock) -> Result<BlockOutcome<Self>, BoxError> {
        self.list.merge(block.list);
        Ok(BlockOutcome::Made(Vec::new()))
    }

    fn failed(&mut self, block: PassBlock, _: bool) -> BlockOutcome<Self> {
        BlockOutcome::Fallback(vec![block.range()])
    }

    fn compute(
        &mut self,
        cx: &mut Context<'_>,
        left: &mut VecDeque<Range<usize>>,
    ) -> Result<Vec<Infallible>, BoxError> {
        let Some(range) = left.pop_front() else { return Ok(Vec::new()) };
        let end = range.end.min(range.start + TILES_PER_FIRING);
        if end < range.end {
            left.push_front(end..range.end);
        }
        let mut uppers = vec![0f32; (end - range.start) * TILE];
        let this = &*self;
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut uppers, TILES_PER_PIECE * TILE, |first, uppers| {
                if !cancelled() {
                    let start = range.start + first / TILE;
                    let mut means = vec![0f32; uppers.len()];
                    this.uppers(start..start + uppers.len() / TILE, &mut means, uppers);
                }
            });
        });
        if cx.is_cancelled() {
            return Err(Interrupted.into());
        }
        for (id, upper) in (range.start * TILE..).zip(uppers) {
            // Few are above the least bound, and not all of them may be shown.
            if self.list.takes(upper) && self.eligible.has(id as u64) {
                self.list.offer(id as u64, upper);
            }
        }
        cx.progress((end * TILE) as u64, self.sketch.len());
        Ok(Vec::new())
    }

    fn has_room(&self, _: &Context<'_>) -> bool {
        true
    }

    fn push(&mut self, _: &mut Context<'_>, made: Infallible) -> Result<Pushed, BoxError> {
        match made {}
    }
}
