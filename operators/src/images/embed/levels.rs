//! Pixels as the numbers that a model takes: scaled, centred, and in the order of its axes.

/// The order of the axes of a model's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Image, channel, row, column.
    Nchw,
    /// Image, row, column, channel.
    Nhwc,
}

impl Layout {
    /// The names, of the usual one first.
    pub(super) const NAMES: [&'static str; 2] = ["nchw", "nhwc"];

    /// The layout of a name.
    pub(super) fn named(name: &str) -> Option<Self> {
        let at = Self::NAMES.iter().position(|known| *known == name)?;
        Some([Self::Nchw, Self::Nhwc][at])
    }

    /// The lengths of the axes for one picture of `size` by `size` pixels.
    pub(super) fn shape(self, size: usize) -> [usize; 4] {
        match self {
            Self::Nchw => [1, 3, size, size],
            Self::Nhwc => [1, size, size, 3],
        }
    }
}

/// The numbers for all levels of each channel, and where they go.
#[derive(Debug)]
pub(super) struct Levels {
    layout: Layout,
    /// For each of the model's channels: its place in a pixel of red, green and blue.
    places: [usize; 3],
    /// For each of the model's channels: the numbers of its 256 levels.
    tables: [[f32; 256]; 3],
}

impl Levels {
    /// The number of a level is (level / 255 x `scale` - `mean`) / `deviation`, rounded once. Means and deviations are in the
    /// order of the model's channels.
    ///
    /// # Errors
    /// When there are not none, one or three of them, or a deviation is 0.
    pub(super) fn new(
        layout: Layout,
        is_bgr: bool,
        scale: f64,
        mean: &[f64],
        deviation: &[f64],
    ) -> Result<Self, String> {
        let mean = of_channels("mean", mean, 0.0)?;
        let deviation = of_channels("deviation", deviation, 1.0)?;
        if let Some(channel) = deviation.iter().position(|deviation| *deviation == 0.0) {
            return Err(format!("`deviation` of channel {channel} is 0: nothing can be divided by it"));
        }
        let table = |channel: usize| {
            std::array::from_fn(|level| {
                ((level as f64 / 255.0 * scale - mean[channel]) / deviation[channel]) as f32
            })
        };
        let places = if is_bgr { [2, 1, 0] } else { [0, 1, 2] };
        Ok(Self { layout, places, tables: [0, 1, 2].map(table) })
    }

    /// The numbers of a picture of three bytes a pixel.
    pub(super) fn numbers(&self, rgb: &[u8]) -> Vec<f32> {
        let Self { places, tables, .. } = self;
        let number = |channel: usize, pixel: &[u8]| tables[channel][usize::from(pixel[places[channel]])];
        let pixels = || rgb.chunks_exact(3);
        match self.layout {
            Layout::Nchw => {
                (0..3).flat_map(|channel| pixels().map(move |pixel| number(channel, pixel))).collect()
            }
            Layout::Nhwc => {
                pixels().flat_map(|pixel| [0, 1, 2].map(|channel| number(channel, pixel))).collect()
            }
        }
    }
}

/// One number for each channel.
fn of_channels(what: &str, given: &[f64], usual: f64) -> Result<[f64; 3], String> {
    match *given {
        [] => Ok([usual; 3]),
        [one] => Ok([one; 3]),
        [first, second, third] => Ok([first, second, third]),
        _ => Err(format!(
            "`{what}` has {} numbers: give one for each of three channels, or one for all",
            given.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pixels.
    const RGB: [u8; 6] = [0, 51, 255, 102, 204, 153];

    fn numbers(layout: Layout, is_bgr: bool, scale: f64, mean: &[f64], deviation: &[f64]) -> Vec<f32> {
        Levels::new(layout, is_bgr, scale, mean, deviation).unwrap().numbers(&RGB)
    }

    #[test]
    fn channels_go_where_the_layout_says() {
        assert_eq!(numbers(Layout::Nhwc, false, 1.0, &[], &[]), [0.0, 0.2, 1.0, 0.4, 0.8, 0.6]);
        assert_eq!(numbers(Layout::Nchw, false, 1.0, &[], &[]), [0.0, 0.4, 0.2, 0.8, 1.0, 0.6]);
        assert_eq!(numbers(Layout::Nchw, true, 1.0, &[], &[]), [1.0, 0.6, 0.2, 0.8, 0.0, 0.4]);
        assert_eq!(numbers(Layout::Nhwc, true, 255.0, &[], &[]), [255.0, 51.0, 0.0, 153.0, 204.0, 102.0]);
    }

    #[test]
    fn means_and_deviations_are_of_the_models_channels() {
        let found = numbers(Layout::Nchw, true, 255.0, &[5.0, 1.0, 2.0], &[10.0, 1.0, -2.0]);
        assert_eq!(found, [25.0, 14.8, 50.0, 203.0, 1.0, -50.0]);
        assert_eq!(numbers(Layout::Nhwc, false, 1.0, &[1.0], &[0.5])[..3], [-2.0, -1.6, 0.0]);
    }

    #[test]
    fn other_counts_and_deviations_of_zero_are_refused() {
        let refused = |mean: &[f64], deviation: &[f64]| {
            Levels::new(Layout::Nchw, false, 1.0, mean, deviation).unwrap_err()
        };
        assert!(refused(&[1.0, 2.0], &[]).contains("`mean` has 2 numbers"));
        assert!(refused(&[], &[1.0; 4]).contains("`deviation` has 4 numbers"));
        assert!(refused(&[], &[1.0, 0.0, 1.0]).contains("channel 1 is 0"));
    }

    #[test]
    fn layouts_have_names_and_shapes() {
        assert_eq!(Layout::named("nhwc").unwrap().shape(5), [1, 5, 5, 3]);
        assert_eq!(Layout::named("nchw").unwrap().shape(5), [1, 3, 5, 5]);
        assert_eq!(Layout::named("chwn"), None);
    }
}
