//! Inputs and outputs of the kernel `device.cl`, which extracts signatures with the same bits as the processor.
//!
//! Invariant: an extraction that has a form for devices fits their local memory. Others run on the processor.

use super::parameters::{ExtractParameters, GroundDistance, ParameterError};
use super::reference::join_threshold;
use super::texture::{EntropyTable, PAIRS};
use super::transform::FEATURES;
use super::{Signature, colour, points};

/// The kernel's source.
pub const TEXT: &str = include_str!("device.cl");

/// The kernel's name.
pub const KERNEL: &str = "extract_signatures";

/// Work items of a group, which computes one picture.
pub const ITEMS: usize = 256;

/// Local memory that a group may use: what today's OpenCL devices have at least, minus what drivers reserve.
const LOCAL_BYTES_MAX: usize = 47 << 10;

/// The least number of matrices that must fit into local memory. With fewer, the processor is faster.
const WINDOWS_MIN: usize = 16;

/// Words of a mean and of a cluster's sums in the layout of the kernel.
const MEAN_WORDS: usize = FEATURES + 1;
const SUMS_WORDS: usize = 2 * FEATURES + 1;

/// An extraction in the form that the kernel needs.
#[derive(Clone, Debug)]
pub struct DeviceExtraction {
    constants: Vec<(&'static str, String)>,
    points: Vec<f32>,
    numbers: Vec<f64>,
    terms: Vec<u64>,
    grey_max: u32,
    points_count: usize,
    slots: usize,
}

impl DeviceExtraction {
    /// The form for some parameters. `None` if local memory is too small for their matrices (of many grey levels) or clusters.
    ///
    /// # Errors
    ///
    /// The first parameter outside its range.
    pub fn new(parameters: &ExtractParameters) -> Result<Option<Self>, ParameterError> {
        parameters.validate()?;
        let drawn = points::draw(parameters.points_count as usize, parameters.distribution, parameters.seed);
        let seeds = parameters.seeds_count.min(parameters.points_count) as usize;
        let slots = seeds.min(parameters.centroids_count_max as usize);
        let radius = parameters.window_radius as usize;
        let table = EntropyTable::new(radius);
        let pairs_max = table.terms().len() - 1;
        let levels = usize::from(parameters.grey_max) + 1;
        let (counter, counter_bytes) = if pairs_max <= 255 { ("uchar", 1) } else { ("ushort", 2) };
        // An odd number of words, so that the matrices of neighbouring items lie in different banks.
        let matrix_bytes = ((levels * (levels + 1) / 2 * counter_bytes).div_ceil(4) | 1) * 4;
        let windows = (LOCAL_BYTES_MAX / matrix_bytes).min(ITEMS);
        let clusters = (MEAN_WORDS + SUMS_WORDS) * seeds + seeds.div_ceil(32);
        if windows < WINDOWS_MIN || clusters * 4 > LOCAL_BYTES_MAX {
            return Ok(None);
        }
        let pool = clusters.max(windows * matrix_bytes / 4);
        let ground = match parameters.distance {
            GroundDistance::L1 => "L1",
            GroundDistance::L2 => "L2",
            GroundDistance::LInf => "LINF",
        };
        let constants = [
            ("ITEMS", ITEMS.to_string()),
            ("WINDOWS", windows.to_string()),
            ("POINTS", drawn.len().to_string()),
            ("SEEDS", seeds.to_string()),
            ("SLOTS", slots.to_string()),
            ("ITERATIONS", parameters.iterations_count.to_string()),
            ("CLUSTER_MIN", parameters.cluster_weight_min.to_string()),
            ("RADIUS", radius.to_string()),
            ("COUNTER", counter.to_owned()),
            ("MATRIX", (matrix_bytes / counter_bytes).to_string()),
            ("POOL", pool.to_string()),
            // As bits, because compilers may read decimal numbers differently.
            ("JOIN", format!("as_float({}u)", join_threshold(parameters).to_bits())),
            (ground, "1".to_owned()),
        ];
        let grown = |count: usize| table.gains()[count];
        let terms = (0..=pairs_max).map(grown).chain(table.terms().iter().copied()).collect();
        let transform = parameters.transform;
        let numbers = colour::device_numbers().chain(transform.multiplier).chain(transform.offset).collect();
        Ok(Some(Self {
            constants: constants.into(),
            points_count: drawn.len(),
            points: drawn.into_iter().flatten().collect(),
            numbers,
            terms,
            grey_max: parameters.grey_max.into(),
            slots,
        }))
    }

    /// The constants to compile the source with.
    pub fn constants(&self) -> &[(&'static str, String)] {
        &self.constants
    }

    /// The sampling points, x and y of each.
    pub fn points(&self) -> &[f32] {
        &self.points
    }

    /// The kernel's `numbers`.
    pub fn numbers(&self) -> &[f64] {
        &self.numbers
    }

    /// The kernel's `terms`.
    pub fn terms(&self) -> &[u64] {
        &self.terms
    }

    /// The largest grey value.
    pub fn grey_max(&self) -> u32 {
        self.grey_max
    }

    /// Numbers of the kernel's `samples` per picture.
    pub fn sample_numbers(&self) -> usize {
        FEATURES * self.points_count
    }

    /// Numbers of the kernel's `centroids` per picture.
    pub fn centroid_numbers(&self) -> usize {
        MEAN_WORDS * self.slots
    }

    /// The signature of a picture from its numbers. Each column of `centroids` uses `count` of them.
    ///
    /// # Panics
    ///
    /// If the length of `centroids` is not [`centroid_numbers`](Self::centroid_numbers), or a column is shorter than `count`.
    pub fn signature(&self, centroids: &[f32], count: u32) -> Signature {
        let columns = centroids.chunks_exact(self.slots).map(|column| column[..count as usize].to_vec());
        let mut columns: Vec<Vec<f32>> = columns.collect();
        assert_eq!(columns.len(), MEAN_WORDS, "a column for each coordinate, and the weights");
        let weights = columns.pop().unwrap_or_default();
        let mut columns = columns.into_iter();
        Signature { centroids: std::array::from_fn(|_| columns.next().unwrap_or_default()), weights }
    }
}

// The kernel's counters hold the counts of any window.
const _: () = assert!(PAIRS * (2 * 32) * (2 * 32) < 1 << 16);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::Preset;

    #[test]
    fn every_preset_fits_local_memory() {
        for preset in Preset::ALL {
            let form = DeviceExtraction::new(&preset.parameters()).unwrap();
            assert!(form.is_some(), "{}", preset.name);
        }
    }

    #[test]
    fn what_fits_local_memory_has_a_form() {
        let form = |change: fn(&mut ExtractParameters)| {
            let mut parameters = Preset::PRACTICAL.parameters();
            change(&mut parameters);
            DeviceExtraction::new(&parameters).unwrap()
        };
        let usual = form(|_| ()).unwrap();
        let constant = |form: &DeviceExtraction, name| {
            form.constants().iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
        };
        assert_eq!(constant(&usual, "WINDOWS").as_deref(), Some("256"));
        assert_eq!(constant(&usual, "COUNTER").as_deref(), Some("uchar"));
        assert_eq!(usual.centroid_numbers(), 8 * 400);
        assert_eq!(usual.numbers().len(), 256 + 9 + 3 + 14);
        assert_eq!(usual.terms().len(), 2 * 145);
        let wide = form(|parameters| (parameters.window_radius, parameters.grey_max) = (32, 15)).unwrap();
        assert_eq!(constant(&wide, "COUNTER").as_deref(), Some("ushort"));
        let fine = form(|parameters| {
            (parameters.grey_max, parameters.transform.multiplier[5]) = (127, 0.001);
        });
        assert!(fine.is_none(), "a matrix of 8,256 cells");
        assert!(form(|parameters| parameters.seeds_count = 2000).is_none());
        assert!(form(|parameters| (parameters.seeds_count, parameters.points_count) = (2000, 100)).is_some());
        let refused = ExtractParameters { points_count: 0, ..ExtractParameters::default() };
        assert!(DeviceExtraction::new(&refused).is_err());
    }

    #[test]
    fn a_signature_is_cut_from_its_columns() {
        let parameters = ExtractParameters { seeds_count: 2, ..ExtractParameters::default() };
        let form = DeviceExtraction::new(&parameters).unwrap().unwrap();
        let numbers: Vec<f32> = (0..16_u8).map(f32::from).collect();
        let signature = form.signature(&numbers, 1);
        assert_eq!(signature.centroids.map(|column| column[0]), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
        assert_eq!(signature.weights, [14.0]);
    }
}
