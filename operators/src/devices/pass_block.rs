//! Blocks of a pass over sketches: some tiles, which stay on the device, and the objects of the largest upper bounds.

use std::ops::Range;
use std::sync::Arc;

use boxwork_kernels::gaussian_process::Form;
use boxwork_kernels::gaussian_process::pass::device::{DevicePass, GROUP, ITEMS, groups};
use boxwork_kernels::gaussian_process::pass::{Shortlist, TILE, TILE_NUMBERS};
use boxwork_runtime::feeding::{
    Back, Block, DeviceError, Feed, Grid, Plain, ProgramSource, SharedKey, Value,
};

use super::device_kernels::pass_program;

/// Tiles that one thread gathers at a time: a megabyte.
const PART_TILES: usize = 256;

/// The sketches of a store, in tiles, by their number, under which they stay on devices.
#[derive(Clone)]
pub struct Tiles {
    /// Unique in this process, also over time.
    pub number: u64,
    /// Whole tiles.
    pub numbers: Arc<dyn AsRef<[u16]> + Send + Sync>,
}

/// Whether an object may be in the list.
pub type Allows = Arc<dyn Fn(u64) -> bool + Send + Sync>;

/// The objects of some tiles with the largest upper bounds.
pub struct PassBlock {
    tiles: Tiles,
    range: Range<usize>,
    program: ProgramSource,
    pass: Arc<DevicePass>,
    allows: Allows,
    /// Once the block is back: the objects that may be among the largest.
    pub list: Shortlist,
}

impl PassBlock {
    /// The pass over a range of tiles. Its objects are offered to a list, an empty one or that of an earlier block, if they
    /// are allowed there: objects that only fill the last tile are not, say. Blocks of one store that are cut alike find their
    /// tiles on the device again.
    ///
    /// # Panics
    /// When there is no tile in the range.
    pub fn new(
        tiles: Tiles,
        range: Range<usize>,
        form: Form,
        pass: Arc<DevicePass>,
        allows: Allows,
        list: Shortlist,
    ) -> Self {
        assert!(!range.is_empty(), "some tiles");
        Self { tiles, range, program: pass_program(form), pass, allows, list }
    }

    /// The tiles.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// The first object.
    pub fn first(&self) -> u64 {
        (self.range.start * TILE) as u64
    }

    fn objects(&self) -> usize {
        self.range.len() * TILE
    }
}

fn write<T: Plain>(feed: &mut Feed<'_>, name: &'static str, numbers: &[T]) -> Result<(), DeviceError> {
    feed.write(name, numbers.len(), |to| {
        to.copy_from_slice(numbers);
        Ok(())
    })
}

impl Block for PassBlock {
    fn size(&self) -> u64 {
        self.objects() as u64
    }

    fn kind(&self) -> &'static str {
        "pass"
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        // A part is known by its first tile and its length.
        let part = (self.range.start as u64) << 32 | self.range.len() as u64;
        let key = SharedKey { resource: self.tiles.number, form: 0, part };
        let numbers =
            &(*self.tiles.numbers).as_ref()[self.range.start * TILE_NUMBERS..self.range.end * TILE_NUMBERS];
        let parts = PART_TILES * TILE_NUMBERS;
        feed.shared_in_parts("tiles", key, numbers.len(), parts, |part, to: &mut [u16]| {
            to.copy_from_slice(&numbers[part * parts..][..to.len()]);
            Ok(())
        })?;
        let marks = self.pass.terms.len() / 4;
        // A kernel always has its arguments.
        if marks == 0 {
            write(feed, "numbers", &[0f32; 4])?;
            write(feed, "terms", &[0f32; 4])?;
        } else {
            write(feed, "numbers", &self.pass.numbers)?;
            write(feed, "terms", &self.pass.terms)?;
        }
        feed.output::<f32>("out", self.objects())?;
        feed.output::<f32>("maxima", groups(self.range.len()))?;
        let values = [
            ("objects", Value::of(self.objects() as u32)),
            ("marks", Value::of(marks as u32)),
            ("scale", Value::of(self.pass.scale)),
            ("explore", Value::of(self.pass.explore)),
        ];
        feed.launch(&self.program, "uppers", Grid::of([groups(self.range.len())], [ITEMS]), &values)?;
        feed.read::<f32>("maxima", groups(self.range.len()))?;
        feed.read::<f32>("out", self.objects())
    }

    fn collect(&mut self, back: &Back<'_>) {
        let (maxima, uppers) = (back.numbers::<f32>("maxima"), back.numbers::<f32>("out"));
        for (group, uppers) in uppers.chunks(GROUP).enumerate() {
            if maxima[group] < self.list.least() {
                continue;
            }
            for (object, upper) in uppers.iter().enumerate() {
                let id = self.first() + (group * GROUP + object) as u64;
                // Few are above the least bound, and not all of them are allowed.
                if self.list.takes(*upper) && (self.allows)(id) {
                    self.list.offer(id, *upper);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use boxwork_kernels::CodePath;
    use boxwork_kernels::chance::Random;
    use boxwork_kernels::gaussian_process::pass::{FastPass, Pass, PassMark, Shortlist, at};
    use boxwork_kernels::gaussian_process::{Covariance, l1};
    use boxwork_runtime::feeding::faults::has_device;
    use boxwork_runtime::feeding::{Blocks, Devices, LazyDevices};
    use boxwork_runtime::operator::Outside;

    use super::super::device_kernels::l1_program;
    use super::*;

    fn run<B: Block>(devices: &Arc<Devices>, block: B) -> B {
        let (tell, told) = channel();
        let mut blocks = Blocks::new(Arc::clone(devices), vec![0]);
        // The receiver waits until this has come.
        blocks.submit(block, Outside::new(move || tell.send(()).unwrap_or_default()));
        told.recv().unwrap();
        let (block, result) = blocks.take().unwrap();
        result.unwrap();
        block
    }

    /// Half-precision numbers from about -1/4 to 1/4.
    fn tiles(count: usize) -> Vec<u16> {
        let mut random = Random::mixed(4);
        let bits =
            |random: &mut Random| (random.bits() as u16 & 0x8000) | (0x2000 + random.below(0x1400) as u16);
        (0..count * TILE_NUMBERS).map(|_| bits(&mut random)).collect()
    }

    #[test]
    fn bounds_of_devices_are_within_the_error_and_shortlists_are_those_of_the_processor() {
        if !has_device("bounds_of_devices_are_within_the_error_and_shortlists_are_those_of_the_processor") {
            return;
        }
        let devices = LazyDevices::of_environment().open().unwrap();
        let numbers = Arc::new(tiles(23));
        let objects = 23 * TILE;
        let allows = || -> Allows { Arc::new(|_| true) };
        let tiles = Tiles { number: boxwork_stores::new_number(), numbers: Arc::<Vec<u16>>::clone(&numbers) };
        let norm = |object| -> f64 {
            at(&numbers, object)
                .iter()
                .map(|bits| f64::from(boxwork_kernels::sketch::coordinate(*bits)).powi(2))
                .sum()
        };
        let norm_max = (0..objects).map(norm).fold(0.0, f64::max).sqrt();
        for (count, form) in [0, 1, 33, 70].into_iter().flat_map(|count| Form::ALL.map(|form| (count, form)))
        {
            let marks: Vec<PassMark> = (0..count)
                .map(|mark| PassMark {
                    sketch: at(&numbers, mark * 7),
                    weight: mark as f64 / 9.0 - 2.0,
                    noise: if mark % 3 == 0 { 1.0 } else { 0.1 },
                })
                .collect();
            let pass = Pass::new(Covariance::new(form, 0.7), 0.25, &marks);
            let device_pass = Arc::new(DevicePass::new(&pass));
            let error = pass.error(norm_max);
            let mut on_device = Shortlist::new(50, error);
            for range in [0..7, 7..8, 8..23] {
                let list = Shortlist::new(50, error);
                let block = PassBlock::new(
                    tiles.clone(),
                    range.clone(),
                    form,
                    Arc::clone(&device_pass),
                    allows(),
                    list,
                );
                assert_eq!(block.first(), (range.start * TILE) as u64);
                on_device.merge(run(&devices, block).list);
            }
            let mut on_slots = Shortlist::new(50, error);
            let mut uppers = vec![0.0; objects];
            let mut means = uppers.clone();
            FastPass::new(&pass, CodePath::detect()).uppers(&numbers, &mut means, &mut uppers);
            uppers.iter().enumerate().for_each(|(object, upper)| on_slots.offer(object as u64, *upper));
            let ranked = |list: Shortlist| list.ranked(|id| pass.upper(&at(&numbers, id as usize)));
            // With no bound cut off, each is compared with the one in f64.
            let all = Shortlist::new(objects, error);
            let block = PassBlock::new(tiles.clone(), 0..23, form, device_pass, allows(), all);
            for (id, upper) in run(&devices, block).list.offered() {
                let exact = pass.upper(&at(&numbers, *id as usize)).upper;
                assert!((f64::from(*upper) - exact).abs() <= error, "{form}, {count}: {upper} {exact}");
            }
            assert_eq!(ranked(on_device), ranked(on_slots));
        }
    }

    struct Differences {
        objects: Vec<f32>,
        marks: Vec<f32>,
        dimensions: usize,
        found: Vec<f32>,
    }

    impl Block for Differences {
        fn size(&self) -> u64 {
            1
        }

        fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
            let [objects, marks] =
                [&self.objects, &self.marks].map(|numbers| numbers.len() / self.dimensions);
            write(feed, "objects", &self.objects)?;
            write(feed, "marks", &self.marks)?;
            feed.output::<f32>("out", objects * marks)?;
            let values = [
                ("objects_count", Value::of(objects as u32)),
                ("marks_count", Value::of(marks as u32)),
                ("dimensions", Value::of(self.dimensions as u32)),
            ];
            let grid = Grid::of(l1::groups(objects, marks), [l1::ITEMS, 1]);
            feed.launch(&l1_program(), "l1", grid, &values)?;
            feed.read::<f32>("out", objects * marks)
        }

        fn collect(&mut self, back: &Back<'_>) {
            self.found = back.numbers("out").to_vec();
        }
    }

    #[test]
    fn l1_distances_of_devices_are_within_the_error() {
        if !has_device("l1_distances_of_devices_are_within_the_error") {
            return;
        }
        let devices = LazyDevices::of_environment().open().unwrap();
        let mut random = Random::mixed(8);
        for (dimensions, objects, marks) in [(1, 1, 1), (16, 64, 128), (37, 70, 130)] {
            let mut vectors = |count: usize| -> Vec<f32> {
                (0..count * dimensions).map(|_| random.unit_f32() - 0.5).collect()
            };
            let (objects, marks) = (vectors(objects), vectors(marks));
            let error = l1::Marks::new(&marks, dimensions).relative_error();
            let block = run(&devices, Differences { objects, marks, dimensions, found: Vec::new() });
            let mut found = block.found.iter();
            for object in block.objects.chunks(dimensions) {
                for mark in block.marks.chunks(dimensions) {
                    let (found, exact) = (f64::from(*found.next().unwrap()), l1::reference(object, mark));
                    assert!((found - exact).abs() <= exact * error, "{dimensions}: {found} {exact}");
                }
            }
        }
    }
}
