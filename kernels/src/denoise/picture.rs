//! Pictures as files give them, and the planes of numbers that are denoised.
//!
//! Invariant: samples are row by row, the channels of a pixel side by side; planes are in grey levels of 0 to 255.

use std::ops::Range;

use thiserror::Error;

use super::parameters::Colour;
use crate::pieces::{Pieces, fill, one_by_one};

/// The samples of a picture.
#[derive(Clone, Debug, PartialEq)]
pub enum Samples {
    /// Samples of 8 bits.
    Bytes(Vec<u8>),
    /// Samples of 16 bits; 257 of their steps are a grey level.
    Words(Vec<u16>),
    /// Grey levels, 0 to 255.
    Floats(Vec<f32>),
}

impl Samples {
    /// Number of samples.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(samples) => samples.len(),
            Self::Words(samples) => samples.len(),
            Self::Floats(samples) => samples.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Some of them.
    pub fn part(&self, places: Range<usize>) -> Self {
        match self {
            Self::Bytes(samples) => Self::Bytes(samples[places].to_vec()),
            Self::Words(samples) => Self::Words(samples[places].to_vec()),
            Self::Floats(samples) => Self::Floats(samples[places].to_vec()),
        }
    }

    /// Appends samples of the same depth.
    ///
    /// # Panics
    /// If the depths differ.
    pub fn append(&mut self, more: Self) {
        match (self, more) {
            (Self::Bytes(samples), Self::Bytes(mut more)) => samples.append(&mut more),
            (Self::Words(samples), Self::Words(mut more)) => samples.append(&mut more),
            (Self::Floats(samples), Self::Floats(mut more)) => samples.append(&mut more),
            _ => panic!("samples of two depths are joined"),
        }
    }

    /// A sample in grey levels.
    #[inline]
    pub fn level(&self, idx: usize) -> f32 {
        match self {
            Self::Bytes(samples) => f32::from(samples[idx]),
            Self::Words(samples) => f32::from(samples[idx]) / WORDS_PER_LEVEL,
            Self::Floats(samples) => samples[idx],
        }
    }

    /// Replaces a sample, rounded half to even and clamped to what the picture can hold.
    #[inline]
    pub fn set_level(&mut self, idx: usize, level: f32) {
        match self {
            Self::Bytes(samples) => samples[idx] = u8::of(level),
            Self::Words(samples) => samples[idx] = u16::of(level),
            Self::Floats(samples) => samples[idx] = f32::of(level),
        }
    }
}

/// A sample of a picture.
trait Sample: Send {
    /// A grey level, rounded half to even and clamped to what a sample can hold.
    fn of(level: f32) -> Self;
}

impl Sample for u8 {
    #[inline]
    fn of(level: f32) -> Self {
        level.clamp(0.0, 255.0).round_ties_even() as Self
    }
}

impl Sample for u16 {
    #[inline]
    fn of(level: f32) -> Self {
        (level.clamp(0.0, 255.0) * WORDS_PER_LEVEL).round_ties_even() as Self
    }
}

impl Sample for f32 {
    #[inline]
    fn of(level: f32) -> Self {
        level.clamp(0.0, 255.0)
    }
}

/// Numbers that a thread converts from one form to another at a time, at least: fewer take less time than another thread to begin.
const AT_ONCE_MIN: usize = 1 << 17;

/// Rows of a plane that a thread converts from one form to another at a time.
pub(crate) fn rows_at_once(width: usize) -> usize {
    AT_ONCE_MIN.div_ceil(width)
}

/// Steps of samples of 16 bits in a grey level.
pub(crate) const WORDS_PER_LEVEL: f32 = 257.0;

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    width: usize,
    height: usize,
    channels: usize,
    samples: Samples,
}

/// Samples that are no picture.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum PictureError {
    /// A picture without pixels, or of another number of channels.
    #[error(
        "a picture of {width} by {height} pixels and {channels} channels: it needs pixels, and 1 to 4 channels"
    )]
    Shape {
        /// Pixels of a row.
        width: usize,
        /// Rows.
        height: usize,
        /// Samples of a pixel.
        channels: usize,
    },
    /// Too few samples or too many.
    #[error("{found} samples where {expected} belong")]
    Count {
        /// The samples given.
        found: usize,
        /// Width times height times channels.
        expected: usize,
    },
    /// A sample that is no number.
    #[error("the sample at column {x}, row {y} is {value}: replace what is not a finite number")]
    NotFinite {
        /// Its column.
        x: usize,
        /// Its row.
        y: usize,
        /// The sample.
        value: f32,
    },
}

impl Picture {
    /// A picture of these samples: 1 channel is grey, 2 grey with alpha, 3 RGB, 4 RGB with alpha.
    ///
    /// # Errors
    /// If the sizes do not fit each other, or a sample is not finite.
    pub fn new(width: usize, height: usize, channels: usize, samples: Samples) -> Result<Self, PictureError> {
        let expected = width.saturating_mul(height).saturating_mul(channels);
        if expected == 0 || channels > 4 {
            return Err(PictureError::Shape { width, height, channels });
        }
        if samples.len() != expected {
            return Err(PictureError::Count { found: samples.len(), expected });
        }
        if let Samples::Floats(levels) = &samples
            && let Some(idx) = levels.iter().position(|level| !level.is_finite())
        {
            let pixel = idx / channels;
            return Err(PictureError::NotFinite { x: pixel % width, y: pixel / width, value: levels[idx] });
        }
        Ok(Self { width, height, channels, samples })
    }

    /// Pixels of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Samples of a pixel.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Samples of a pixel without alpha: 1 or 3.
    pub fn colours(&self) -> usize {
        if self.channels < 3 { 1 } else { 3 }
    }

    /// The samples.
    pub fn samples(&self) -> &Samples {
        &self.samples
    }

    /// The samples, to be replaced.
    pub fn samples_mut(&mut self) -> &mut Samples {
        &mut self.samples
    }

    /// The samples alone.
    pub fn into_samples(self) -> Samples {
        self.samples
    }

    /// Some rows as a picture.
    ///
    /// # Panics
    /// If there are no such rows.
    pub fn cut(&self, rows: Range<usize>) -> Self {
        assert!(!rows.is_empty() && rows.end <= self.height, "rows of the picture");
        let row = self.width * self.channels;
        let samples = self.samples.part(rows.start * row..rows.end * row);
        Self { width: self.width, height: rows.len(), channels: self.channels, samples }
    }

    /// Some rows as planes: one of brightness, or three that [`Picture::put`] reverses. Rows and columns beyond the picture
    /// are mirrored, so that planes are at least `width_min` wide.
    pub(crate) fn planes(&self, rows: Range<usize>, width_min: usize, colour: Colour) -> Vec<Vec<f32>> {
        self.planes_by(rows, width_min, colour, &mut one_by_one()).expect("nobody cancels")
    }

    /// [`Picture::planes`] in pieces; nothing if `pieces` was cancelled.
    pub(crate) fn planes_by(
        &self,
        rows: Range<usize>,
        width_min: usize,
        colour: Colour,
        pieces: &mut Pieces<'_>,
    ) -> Option<Vec<Vec<f32>>> {
        let width = self.width.max(width_min);
        let mut planes = vec![vec![0.0; width * rows.len()]; self.colours()];
        let mut slices: Vec<&mut [f32]> = planes.iter_mut().map(Vec::as_mut_slice).collect();
        let rows_at_once = rows_at_once(width);
        let is_done = fill(pieces, &mut slices, rows_at_once * width, |part, planes| {
            for y in 0..planes[0].len() / width {
                let row = mirrored(rows.start + part * rows_at_once + y, self.height) * self.width;
                for x in 0..width {
                    let (to, from) = (y * width + x, (row + mirrored(x, self.width)) * self.channels);
                    if let [grey] = planes {
                        grey[to] = self.samples.level(from);
                        continue;
                    }
                    let [r, g, b] = [0, 1, 2].map(|channel| self.samples.level(from + channel));
                    let values = match colour {
                        Colour::Apart => [r, g, b],
                        Colour::Together => [(r + g + b) / 3.0, (r - b) / 2.0, (r - 2.0 * g + b) / 4.0],
                    };
                    planes.iter_mut().zip(values).for_each(|(plane, value)| plane[to] = value);
                }
            }
        });
        is_done.then_some(planes)
    }

    /// Replaces rows by planes in pieces; alpha stays. Rows and columns of the planes beyond the picture are left out. Returns false if
    /// `pieces` was cancelled.
    pub(crate) fn put(
        &mut self,
        rows: Range<usize>,
        planes: &[Vec<f32>],
        plane_width: usize,
        colour: Colour,
        pieces: &mut Pieces<'_>,
    ) -> bool {
        let row = self.width * self.channels;
        let samples = rows.start * row..rows.end.min(self.height) * row;
        let planes = Planes { planes, plane_width, colour, width: self.width, channels: self.channels };
        match &mut self.samples {
            Samples::Bytes(all) => planes.write(&mut all[samples], pieces),
            Samples::Words(all) => planes.write(&mut all[samples], pieces),
            Samples::Floats(all) => planes.write(&mut all[samples], pieces),
        }
    }

    /// The factors by which noise of each channel becomes noise of each plane.
    pub(crate) fn deviations(&self, colour: Colour) -> Vec<f64> {
        match (self.colours(), colour) {
            (1, _) => vec![1.0],
            (_, Colour::Apart) => vec![1.0; 3],
            (_, Colour::Together) => vec![1.0 / 3f64.sqrt(), 1.0 / 2f64.sqrt(), 6f64.sqrt() / 4.0],
        }
    }
}

/// Planes on their way to the samples of a picture.
struct Planes<'a> {
    planes: &'a [Vec<f32>],
    plane_width: usize,
    colour: Colour,
    /// Of the picture.
    width: usize,
    channels: usize,
}

impl Planes<'_> {
    /// Replaces samples, from the first row of the planes on. Returns false if `pieces` was cancelled.
    fn write<T: Sample>(&self, samples: &mut [T], pieces: &mut Pieces<'_>) -> bool {
        let (row, rows_at_once) = (self.width * self.channels, rows_at_once(self.width));
        fill(pieces, &mut [samples], rows_at_once * row, |part, samples| {
            for (y, samples) in samples[0].chunks_exact_mut(row).enumerate() {
                let first = (part * rows_at_once + y) * self.plane_width;
                for (x, pixel) in samples.chunks_exact_mut(self.channels).enumerate() {
                    self.write_pixel(first + x, pixel);
                }
            }
        })
    }

    #[inline]
    fn write_pixel<T: Sample>(&self, from: usize, pixel: &mut [T]) {
        if let [grey] = self.planes {
            pixel[0] = T::of(grey[from]);
            return;
        }
        let [p, q, v] = [0, 1, 2].map(|plane: usize| self.planes[plane][from]);
        let colours = match self.colour {
            Colour::Apart => [p, q, v],
            Colour::Together => {
                let third = v * (2.0 / 3.0);
                [p + third + q, p - 2.0 * third, p + third - q]
            }
        };
        pixel.iter_mut().zip(colours).for_each(|(sample, level)| *sample = T::of(level));
    }
}

/// The place in 0 to `len` that mirrors give for a place beyond; edges are repeated.
fn mirrored(place: usize, len: usize) -> usize {
    if place < len {
        return place;
    }
    let turned = place % (2 * len);
    if turned < len { turned } else { 2 * len - 1 - turned }
}
