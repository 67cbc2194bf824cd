//! Vectors on their way to a device, and the lists of their nearest pivots on the way back.

use std::sync::Arc;

use boxwork_kernels::permutation::device::OnDevice;
use boxwork_runtime::feeding::{Back, Block, DeviceError, Feed, Grid, Value};
use boxwork_stores::permutations::PermutationMaker;

use crate::devices::device_kernels::permutations_program;

/// Vectors that one thread gathers at a time.
const PART_ROWS: usize = 4096;

/// The pivots of a file, for devices.
pub(super) struct Pivots {
    pub(super) maker: PermutationMaker,
    /// None if these are no vectors, or their distance is not l2: then there are no blocks.
    pub(super) on_device: Option<OnDevice>,
    /// Unique to these pivots within the process.
    pub(super) version: u64,
}

/// Some vectors, and their lists.
pub(super) struct ListsBlock {
    pub(super) pivots: Arc<Pivots>,
    pub(super) ids: Vec<u64>,
    /// The device that computed it last.
    pub(super) device: String,
    pub(super) lists: Vec<u16>,
    /// By vector: whether the device is not certain of its list.
    pub(super) doubts: Vec<u8>,
}

impl ListsBlock {
    pub(super) fn new(pivots: &Arc<Pivots>, ids: Vec<u64>) -> Self {
        let pivots = Arc::clone(pivots);
        Self { pivots, ids, device: String::new(), lists: Vec::new(), doubts: Vec::new() }
    }
}

impl Block for ListsBlock {
    fn size(&self) -> u64 {
        self.ids.len() as u64
    }

    fn kind(&self) -> &'static str {
        "permutations"
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        self.device = feed.device().info().to_string();
        let Pivots { maker, on_device, version } = &*self.pivots;
        let Some(on_device) = on_device else {
            return Err(DeviceError::Block("these pivots are no vectors".to_owned()));
        };
        let (count, dimensions) = (self.ids.len(), on_device.dimensions);
        feed.write_in_parts("rows", count * dimensions, PART_ROWS * dimensions, |part, to: &mut [f32]| {
            let ids = &self.ids[part * PART_ROWS..][..to.len() / dimensions];
            maker.read(ids, to).map_err(|error| DeviceError::Block(error.to_string()))
        })?;
        feed.replicated("pivots", *version, on_device.numbers.len(), |to: &mut [f32]| {
            to.copy_from_slice(&on_device.numbers);
            Ok(())
        })?;
        let (shape, of_lists) = (on_device.shape, count * maker.length());
        feed.output::<u16>("lists", of_lists)?;
        feed.output::<u8>("doubts", count)?;
        let values = [
            ("count", Value::of(count as u32)),
            ("dimensions", Value::of(dimensions as u32)),
            ("are_whole", Value::of(u32::from(on_device.are_whole))),
            ("slack", Value::of(on_device.slack)),
            ("least", Value::of(on_device.least)),
        ];
        let grid = Grid::of([shape.groups(count)], [shape.items()]);
        feed.launch(&permutations_program(shape), "nearest_pivots", grid, &values)?;
        feed.read::<u16>("lists", of_lists)?;
        feed.read::<u8>("doubts", count)
    }

    fn collect(&mut self, back: &Back<'_>) {
        self.lists = back.numbers::<u16>("lists").to_vec();
        self.doubts = back.numbers::<u8>("doubts").to_vec();
    }
}
