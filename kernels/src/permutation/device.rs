//! Lists of vectors on a device: constants and sizes for `device.cl`, and pivots as it takes them.
//!
//! The device computes squared distances in f32, as sums of squares of differences, and puts the least of them in order. It marks lists
//! in which two neighbours are so near that their order may differ in f64, the first pivot after the list included: the host makes
//! these.
//!
//! Invariant: a list without a mark is that of [`VectorPivots::append`]. Proof: the `d` squares of differences are summed by `PARTIAL`, and
//! then these sums, so no square passes more than `PARTIAL + d / PARTIAL + 2` roundings. No term is negative, so with the unit roundoff `u`
//! the relative error of a sum is at most `e`, that number of `u`, and what underflow takes is below [`OnDevice::least`]. Two numbers that differ by
//! more than `2.2 e` of the larger one and twice that belong to distances in the same order, which differ by far more than the
//! roundings of f64. If all numbers are whole, sums below 2^23 are exact.

use super::vectors::VectorPivots;

/// The source of the kernel.
pub const TEXT: &str = include_str!("device.cl");

/// Items of a group at most.
const ITEMS_MAX: usize = 128;
/// Vectors of a group at most, whose sums of a pivot are in the registers of an item.
const OBJECTS_MAX: usize = 8;
/// Keys of a group at most, unless the pivots of one vector are more.
const KEYS_MAX: usize = 4096;
/// The shortest run.
const RUN_MIN: usize = 16;
/// Numbers of a vector that are read at a time.
const STEP: usize = 32;
/// Squares that are summed before they are added to a sum.
const PARTIAL: usize = 16;
const _: () = assert!(STEP.is_multiple_of(PARTIAL));
/// Sums of squares of whole numbers are exact below this.
const WHOLE_MAX: f32 = (1 << 23) as f32;
/// The unit roundoff of f32.
const UNIT: f64 = 1.0 / (1 << 24) as f64;
// Local memory of a group: NVIDIA's OpenCL gives 48 KiB.
const _: () = assert!(8 * KEYS_MAX + 4 * OBJECTS_MAX * (STEP + 2) <= 48 << 10);
const _: () = assert!(super::PIVOTS_MAX <= KEYS_MAX);

/// The sizes of a program for lists of some length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pivots: usize,
    length: usize,
}

impl Shape {
    /// The pivots that are kept: one more than a list has tells whether the last one is certain.
    fn kept(self) -> usize {
        self.pivots.min(self.length + 1)
    }

    fn run(self) -> usize {
        self.kept().next_power_of_two().max(RUN_MIN)
    }

    fn padded(self) -> usize {
        self.pivots.next_power_of_two().max(self.run())
    }

    /// Work items of a group.
    pub fn items(self) -> usize {
        self.padded().min(ITEMS_MAX)
    }

    /// Vectors of a group.
    fn objects(self) -> usize {
        (KEYS_MAX / self.padded()).clamp(1, OBJECTS_MAX)
    }

    /// Groups for some vectors.
    pub fn groups(self, vectors: usize) -> usize {
        vectors.div_ceil(self.objects())
    }

    /// The constants to compile the source with.
    pub fn constants(self) -> Vec<(&'static str, String)> {
        let sizes = [
            ("ITEMS", self.items()),
            ("OBJECTS", self.objects()),
            ("PIVOTS", self.pivots),
            ("PADDED", self.padded()),
            ("RUN", self.run()),
            ("LENGTH", self.length),
            ("KEPT", self.kept()),
            ("STEP", STEP),
            ("PARTIAL", PARTIAL),
        ];
        let mut constants: Vec<_> = sizes.into_iter().map(|(name, size)| (name, size.to_string())).collect();
        constants.push(("WHOLE_MAX", format!("{WHOLE_MAX:.1}f")));
        constants
    }
}

/// Pivots for a device.
#[derive(Clone, Debug)]
pub struct OnDevice {
    /// The sizes of the program.
    pub shape: Shape,
    /// Numbers of a pivot.
    pub dimensions: usize,
    /// Number by number, with zeros for the pivots that are missing.
    pub numbers: Vec<f32>,
    /// All numbers of pivots are whole.
    pub are_whole: bool,
    /// A difference of two squared distances beyond this part of the larger one is certain.
    pub slack: f32,
    /// The absolute part of the error of a difference.
    pub least: f32,
}

impl VectorPivots {
    /// Arranges the pivots for a device.
    pub fn on_device(&self) -> OnDevice {
        let (dimensions, shape) = (self.dimensions(), Shape { pivots: self.count(), length: self.length() });
        let mut numbers = vec![0.0; dimensions * shape.padded()];
        for (pivot, of_pivot) in self.numbers().chunks_exact(dimensions).enumerate() {
            for (to, x) in numbers[pivot..].iter_mut().step_by(shape.padded()).zip(of_pivot) {
                *to = *x;
            }
        }
        let roundings = (dimensions.min(PARTIAL) + dimensions.div_ceil(PARTIAL) + 2) as f64 * UNIT;
        let slack = (2.2 * roundings / (1.0 - roundings).max(0.1)) as f32;
        let least = (2.0 * (dimensions as f64 + 4.0) * 1e-37) as f32;
        OnDevice { shape, dimensions, numbers, are_whole: self.are_whole(), slack, least }
    }
}
