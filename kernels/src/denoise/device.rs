//! Constants and sizes for `device.cl`, which removes noise with the bits of the processor.
//!
//! Invariant: settings that have a form for devices fit the local memory and the groups of the devices that the form is for. The
//! processor takes others.

use super::extents::{grid, references};
use super::matching::{LEVELS_MAX, difference_max};
use super::parameters::{Colour, Parameters, Phase, STEPS, StackTransform};
use super::picture::{Picture, Samples, WORDS_PER_LEVEL};
use super::transform::{Matrix, forward, inverse, kaiser};
use super::variance::{FEW_PATCHES, VARIANCE_MIN, correlations};
use super::{Extents, aggregation};

/// The source of the kernels.
pub const TEXT: &str = include_str!("device.cl");

/// Work items of a group of the kernels that go through pixels.
pub const PIXEL_ITEMS: usize = 256;

/// The most local memory of a group: NVIDIA's OpenCL gives 48 KiB, and drivers reserve some.
const LOCAL_BYTES_MAX: u64 = 47 << 10;
/// The most work items of a group that matches: what all of today's devices take.
const MATCH_ITEMS_MAX: usize = 256;
/// Work items that run in step, on most devices.
const WARP: usize = 32;
/// Reference patches of a group that matches, at most.
const REFERENCES_MAX: usize = 32;
/// Partial sums of the noise that is left, which are in local memory.
const PARTS: usize = 16;

/// The limits of a group of work items on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLimits {
    /// Local memory in bytes.
    pub local_bytes: u64,
    /// Work items.
    pub items_max: usize,
}

/// The settings of a denoising in the form that the kernels need.
#[derive(Clone, Debug)]
pub struct DeviceForm {
    parameters: Parameters,
    phases: Vec<DevicePhase>,
}

impl DeviceForm {
    /// The form of some settings.
    ///
    /// # Errors
    /// The reason if devices with these limits cannot take the settings.
    pub fn new(parameters: &Parameters, limits: GroupLimits) -> Result<Self, String> {
        if parameters.along == StackTransform::Dct {
            return Err("the cosine transform along stacks has no kernel".to_owned());
        }
        let phases = std::iter::once(&parameters.first).chain(&parameters.second).enumerate();
        let phase = |(nth, phase)| DevicePhase::new(phase, nth == 1, parameters.along, limits);
        Ok(Self { parameters: *parameters, phases: phases.map(phase).collect::<Result<_, _>>()? })
    }

    /// The settings.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// One phase, or both.
    pub fn phases(&self) -> &[DevicePhase] {
        &self.phases
    }

    /// The constants of the program that turns a picture's samples into planes and back.
    pub fn conversion(&self, picture: &Picture) -> Vec<(&'static str, String)> {
        let (sample, words_per_level, is_float) = match picture.samples() {
            Samples::Bytes(_) => ("uchar", 0, 0),
            Samples::Words(_) => ("ushort", WORDS_PER_LEVEL as u32, 0),
            Samples::Floats(_) => ("float", 0, 1),
        };
        vec![
            ("SAMPLE", sample.to_owned()),
            ("WORDS_PER_LEVEL", words_per_level.to_string()),
            ("IS_FLOAT", is_float.to_string()),
            ("CHANNELS", picture.channels().to_string()),
            ("COLOURS", picture.colours().to_string()),
            ("IS_TOGETHER", u32::from(self.parameters.colour == Colour::Together).to_string()),
            ("TWO_THIRDS", hexadecimal(2.0 / 3.0)),
        ]
    }

    /// Whether each plane of a picture is matched for itself.
    pub fn is_apart(&self, picture: &Picture) -> bool {
        picture.colours() > 1 && self.parameters.colour == Colour::Apart
    }

    /// The rule of each plane in each phase, for noise of a deviation.
    pub fn rules(&self, picture: &Picture, sigma: f64) -> [[f32; 4]; 2] {
        let mut rules = [[0.0; 4]; 2];
        for (plane, factor) in picture.deviations(self.parameters.colour).into_iter().enumerate() {
            let deviation = factor * sigma;
            rules[0][plane] = self.parameters.limit(deviation);
            rules[1][plane] = self.parameters.variance(deviation);
        }
        rules
    }

    /// Bytes of a device's memory for a pixel of a strip.
    pub fn pixel_bytes(&self, picture: &Picture) -> usize {
        let sample = match picture.samples() {
            Samples::Bytes(_) => 1,
            Samples::Words(_) => 2,
            Samples::Floats(_) => 4,
        };
        let stacks = self.phases.iter().map(|phase| {
            // A rank of 16 bits for each patch of a stack, and their number.
            (2 * phase.phase.stack + 1).div_ceil(phase.phase.step * phase.phase.step)
        });
        // Two planes and two sums, and the samples twice.
        let plane = 2 * size_of::<f32>() + 2 * size_of::<i64>() + stacks.sum::<usize>();
        plane * picture.colours() + 2 * sample * picture.channels()
    }
}

/// A phase in the form that its kernels need.
#[derive(Clone, Debug)]
pub struct DevicePhase {
    phase: Phase,
    is_second: bool,
    references: usize,
    constants: Vec<(&'static str, String)>,
    window: Vec<f32>,
}

/// The reference patches of a strip in one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceGrid {
    /// Reference patches of a row.
    pub columns: usize,
    /// The first row of the picture's grid.
    pub first_row: usize,
    /// Rows of reference patches.
    pub rows: usize,
    /// The last row of the picture in which a patch begins.
    pub last_row: usize,
}

impl DevicePhase {
    fn new(
        phase: &Phase,
        is_second: bool,
        along: StackTransform,
        limits: GroupLimits,
    ) -> Result<Self, String> {
        let local_bytes = limits.local_bytes.min(LOCAL_BYTES_MAX);
        let items_max = limits.items_max.min(MATCH_ITEMS_MAX);
        let row = phase.patch | 1;
        let numbers = phase.patch * row + filter_items(phase) + 4;
        let filter_bytes = 4 * (phase.stack * numbers + PARTS + phase.patch * phase.patch);
        if filter_bytes as u64 > local_bytes || filter_items(phase) > items_max {
            return Err(format!("stacks of {} patches do not fit a group", phase.stack));
        }
        let window = 2 * phase.half_window + 1;
        // The share of work items that have work, which the last warp of a group may lack.
        let share = |count: &usize| count * window * 1000 / (count * window).next_multiple_of(WARP);
        let fits = |count: &usize| {
            (count * window).next_multiple_of(WARP) <= items_max
                && match_bytes(phase, *count) as u64 <= local_bytes
        };
        let references = (1..=REFERENCES_MAX).filter(fits).max_by_key(share);
        let references =
            references.ok_or_else(|| format!("windows of {window} pixels do not fit a group"))?;
        let (there, window) = (forward(phase.transform, phase.patch), kaiser(phase.patch, phase.beta));
        let number = |name, number: usize| (name, number.to_string());
        let exact = |name, number: f64| (name, hexadecimal(number));
        let width = tile_width(phase, references);
        let name = |first: &str, second: &str| if is_second { second } else { first }.to_owned();
        let constants = vec![
            number("PATCH", phase.patch),
            number("STEP", phase.step),
            number("HALF", phase.half_window),
            number("STACK", phase.stack),
            exact("LIMIT", f64::from(difference_max(phase))),
            exact("LEVELS_MAX", LEVELS_MAX),
            exact("STEPS", STEPS),
            number("REFERENCES", references),
            number("MATCH_ITEMS", match_items(phase, references)),
            number("TILE_WIDTH", width),
            number("TILE_STRIDE", width | 1),
            number("FILTER_ITEMS", filter_items(phase)),
            number("IS_WIENER", usize::from(is_second)),
            number("IS_WALSH", usize::from(along == StackTransform::Walsh)),
            exact("ESTIMATE_UNITS", aggregation::ESTIMATE_UNITS),
            exact("WEIGHT_UNITS", aggregation::WEIGHT_UNITS),
            ("UNITS_RATIO", format!("{:.1}", aggregation::WEIGHT_UNITS / aggregation::ESTIMATE_UNITS)),
            ("MODEL", name("noisy", "estimates")),
            ("WINDOW", name("window_1", "window_2")),
            ("FORWARD", listed(&there)),
            ("INVERSE", listed(&inverse(&there))),
            ("CORRELATIONS", listed(&correlations(&there))),
            exact("VARIANCE_MIN", f64::from(VARIANCE_MIN)),
            number("FEW", FEW_PATCHES),
        ];
        let window = window.into_iter().flatten().map(|weight| weight as f32).collect();
        Ok(Self { phase: *phase, is_second, references, constants, window })
    }

    /// Whether it is the second phase.
    pub fn is_second(&self) -> bool {
        self.is_second
    }

    /// The constants to compile the source with.
    pub fn constants(&self) -> &[(&'static str, String)] {
        &self.constants
    }

    /// The weights of the pixels of a patch.
    pub fn window(&self) -> &[f32] {
        &self.window
    }

    /// A number that only phases with the same [`DevicePhase::window`] have.
    pub fn window_version(&self) -> u64 {
        // Betas are small, so the highest bits are free.
        self.phase.beta.to_bits() << 1 | u64::from(self.phase.patch != 8)
    }

    /// Patches of a stack at most.
    pub fn stack(&self) -> usize {
        self.phase.stack
    }

    /// Work items of a group that matches.
    pub fn match_items(&self) -> usize {
        match_items(&self.phase, self.references)
    }

    /// Groups that match a row of reference patches.
    pub fn match_groups(&self, columns: usize) -> usize {
        columns.div_ceil(self.references)
    }

    /// Work items of a group that filters a stack.
    pub fn filter_items(&self) -> usize {
        filter_items(&self.phase)
    }

    /// The rows for which the phase computes estimates.
    pub fn rows<'e>(&self, extents: &'e Extents) -> &'e std::ops::Range<usize> {
        if self.is_second { &extents.rows } else { &extents.basic }
    }

    /// The reference patches for a strip.
    pub fn grid(&self, extents: &Extents) -> DeviceGrid {
        let rows = references(&self.phase, self.rows(extents), extents.height);
        DeviceGrid {
            columns: grid(extents.width, &self.phase).len(),
            first_row: rows[0].div_ceil(self.phase.step),
            rows: rows.len(),
            last_row: extents.height - self.phase.patch,
        }
    }
}

fn match_items(phase: &Phase, references: usize) -> usize {
    (references * (2 * phase.half_window + 1)).next_multiple_of(WARP)
}

/// A work item for each coefficient of a patch.
fn filter_items(phase: &Phase) -> usize {
    (phase.patch * phase.patch).next_multiple_of(WARP)
}

fn tile_width(phase: &Phase, references: usize) -> usize {
    (references - 1) * phase.step + phase.patch + 2 * phase.half_window
}

/// Local memory of a group that matches: the tile, two lists of each reference patch, the keys of a row, and their counts.
fn match_bytes(phase: &Phase, references: usize) -> usize {
    let window = 2 * phase.half_window + 1;
    let tile = (window - 1 + phase.patch) * (tile_width(phase, references) | 1);
    4 * tile + 8 * references * (2 * phase.stack + window) + 8 * references
}

/// A number as f32 in hexadecimal, because compilers may read decimal numbers differently.
fn hexadecimal(number: f64) -> String {
    let bits = (number as f32).to_bits();
    let (exponent, mantissa) = ((bits >> 23 & 0xff) as i32, bits & 0x7f_ffff);
    let sign = if bits >> 31 == 1 { "-" } else { "" };
    match exponent {
        // Numbers below the normal ones are none of a transform.
        0 => "0.0f".to_owned(),
        _ => format!("{sign}0x1.{:06x}p{}f", mantissa << 1, exponent - 127),
    }
}

fn listed(matrix: &Matrix) -> String {
    matrix.iter().flatten().map(|number| hexadecimal(*number)).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::denoise::Profile;

    const LIMITS: GroupLimits = GroupLimits { local_bytes: 48 << 10, items_max: 1024 };

    #[test]
    fn every_profile_has_a_form() {
        for name in Profile::NAMES {
            for sigma in [20.0, 60.0] {
                let parameters = Parameters::of(Profile::named(name).unwrap(), sigma);
                let form = DeviceForm::new(&parameters, LIMITS).unwrap();
                assert_eq!(form.phases().len(), 2);
                for phase in form.phases() {
                    assert!(phase.match_items() <= MATCH_ITEMS_MAX && phase.references > 1, "{name}");
                    assert!(phase.constants().iter().all(|(_, value)| !value.contains(' ')));
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_has_a_reason() {
        let good = Parameters::of(Profile::Default, 20.0);
        let reason = |parameters, limits| DeviceForm::new(&parameters, limits).unwrap_err();
        let along = Parameters { along: StackTransform::Dct, ..good };
        assert!(reason(along, LIMITS).contains("cosine"));
        let wide = Parameters { first: Phase { half_window: 64, ..good.first }, ..good };
        assert!(reason(wide, LIMITS).contains("129 pixels"));
        assert!(reason(good, GroupLimits { items_max: 32, ..LIMITS }).contains("stacks of 16"));
        assert!(reason(good, GroupLimits { local_bytes: 4 << 10, ..LIMITS }).contains("stacks of 16"));
    }

    #[test]
    fn numbers_are_written_to_the_bit() {
        assert_eq!(hexadecimal(1.0), "0x1.000000p0f");
        assert_eq!(hexadecimal(-0.75), "-0x1.800000p-1f");
        assert_eq!(hexadecimal(f64::from(f32::from_bits(0x3f7f_ffff))), "0x1.fffffep-1f");
        assert_eq!(hexadecimal(0.0), "0.0f");
    }
}
