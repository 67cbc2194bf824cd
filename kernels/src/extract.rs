//! From pixels to a feature signature: sampling points, colour, texture and adaptive k-means.
//!
//! Equal images, parameters and seeds give equal bits on every machine, number of threads and instruction set: samples are
//! fixed-point numbers, sums and textures are integers, every rounded expression has one order, and nothing calls a
//! platform's mathematics library. [mod@reference] defines the algorithm. [`Extractor`] computes the same result quickly,
//! and tests compare the two bit for bit.

mod points;
mod colour;
mod transform;
mod parameters;
mod preset;
mod texture;
pub mod reference;
mod lanes;
mod sites;
mod cooccurrence;
mod sampling;
mod assignment;
mod clustering;
mod extractor;
pub mod device;
#[cfg(test)]
mod twins;

pub use extractor::{Extractor, StageTimes};
pub use parameters::{ExtractParameters, GroundDistance, ParameterError};
pub use points::PointDistribution;
pub use preset::Preset;
pub use transform::{FEATURES, FeatureTransform};

/// The most pixels along a side of an image. Larger images must be scaled first.
pub const SIDE_PIXELS_MAX: usize = 4096;

/// An RGB image with 8 bits per channel, row by row without padding.
#[derive(Clone, Copy, Debug)]
pub struct ImageRef<'a> {
    width: usize,
    height: usize,
    rgb: &'a [u8],
}

/// Why pixels are not an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// A side is zero or above [`SIDE_PIXELS_MAX`].
    #[error(
        "an image of {width} x {height} pixels: each side must be 1 to {SIDE_PIXELS_MAX}, so scale it first"
    )]
    Size {
        /// Pixels of a row.
        width: usize,
        /// Rows.
        height: usize,
    },
    /// The slice is not three bytes per pixel.
    #[error("{bytes} bytes for {width} x {height} pixels, but RGB with 8 bits needs {expected}")]
    Length {
        /// Pixels of a row.
        width: usize,
        /// Rows.
        height: usize,
        /// Bytes given.
        bytes: usize,
        /// Bytes needed.
        expected: usize,
    },
}

impl<'a> ImageRef<'a> {
    /// The image of `width` x `height` pixels in `rgb`.
    ///
    /// # Errors
    ///
    /// A side outside 1 to [`SIDE_PIXELS_MAX`], or a slice of another length than 3 `width` `height`.
    pub fn new(width: usize, height: usize, rgb: &'a [u8]) -> Result<Self, ImageError> {
        let sides = 1..=SIDE_PIXELS_MAX;
        if !sides.contains(&width) || !sides.contains(&height) {
            return Err(ImageError::Size { width, height });
        }
        let expected = 3 * width * height;
        if rgb.len() != expected {
            return Err(ImageError::Length { width, height, bytes: rgb.len(), expected });
        }
        Ok(Self { width, height, rgb })
    }

    /// Pixels of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Three bytes per pixel, row by row.
    pub fn rgb(&self) -> &'a [u8] {
        self.rgb
    }

    #[inline(always)]
    fn pixel(&self, x: usize, y: usize) -> [u8; 3] {
        let start = 3 * (y * self.width + x);
        [self.rgb[start], self.rgb[start + 1], self.rgb[start + 2]]
    }
}

/// The weighted centroids of one image, column by column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signature {
    /// x, y, L, a, b, contrast and entropy, each with one number per centroid.
    pub centroids: [Vec<f32>; FEATURES],
    /// Share of the kept samples in each centroid; they sum to 1 up to rounding.
    pub weights: Vec<f32>,
}

impl Signature {
    /// Centroids from means and the numbers of their samples.
    fn from_means(means: &[([f32; FEATURES], u32)]) -> Self {
        let total = means.iter().map(|mean| u64::from(mean.1)).sum::<u64>() as f64;
        Self {
            centroids: std::array::from_fn(|d| means.iter().map(|mean| mean.0[d]).collect()),
            weights: means.iter().map(|mean| (f64::from(mean.1) / total) as f32).collect(),
        }
    }

    /// Number of centroids; at least 1 for every image.
    pub fn centroids_count(&self) -> usize {
        self.weights.len()
    }
}
