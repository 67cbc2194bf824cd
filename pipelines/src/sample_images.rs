//! A labelled set of procedural pictures: sixteen classes of scenes, drawn from a seed, to try retrieval on without a download.
//!
//! - A picture depends on the seed, its class and its number alone, never on how many others are made.
//! - It is the same to the bit on every machine: integers and +, -, *, /, sqrt of f64 only, nothing from libm.
//! - Classes share palettes and textures on purpose (a sunset and dunes, bricks and autumn leaves): retrieval is good, not perfect.
//! - A file appears under its name only when it is whole.

mod blue_sky_clouds;
mod brick_wall;
mod canvas;
mod checkered_cloth;
mod citrus;
mod city_night;
mod colour;
mod coral_reef;
mod curves;
mod desert_dunes;
mod flower_meadow;
mod forest;
mod leaves;
mod marble;
mod neon_signs;
mod newspaper;
mod noise;
mod random;
mod snow_mountains;
mod sunset_sea;
mod wood_grain;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use image::RgbImage;
use image::codecs::jpeg::JpegEncoder;

use canvas::Canvas;
use random::Random;

/// Classes there are.
pub const CLASSES_COUNT_MAX: usize = 16;

/// Pictures a class can have: their names have three digits or four.
pub const PER_CLASS_MAX: usize = 9_999;

/// Classes and pictures a class that make a set of 640 pictures.
pub const PER_CLASS_DEFAULT: usize = 40;

const JPEG_QUALITY: u8 = 90;

const NAMES: [&str; CLASSES_COUNT_MAX] = [
    "sunset_sea",
    "forest",
    "brick_wall",
    "city_night",
    "citrus",
    "checkered_cloth",
    "desert_dunes",
    "flower_meadow",
    "blue_sky_clouds",
    "wood_grain",
    "snow_mountains",
    "coral_reef",
    "newspaper",
    "neon_signs",
    "marble",
    "leaves",
];

/// Paints one scene; the order is that of [`NAMES`].
type Scene = fn(&mut Random, &mut Canvas);

const SCENES: [Scene; CLASSES_COUNT_MAX] = [
    sunset_sea::paint,
    forest::paint,
    brick_wall::paint,
    city_night::paint,
    citrus::paint,
    checkered_cloth::paint,
    desert_dunes::paint,
    flower_meadow::paint,
    blue_sky_clouds::paint,
    wood_grain::paint,
    snow_mountains::paint,
    coral_reef::paint,
    newspaper::paint,
    neon_signs::paint,
    marble::paint,
    leaves::paint,
];

/// Why a set was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// More classes than there are, or none.
    #[error("{0} classes asked for: between 1 and {CLASSES_COUNT_MAX} can be made")]
    Classes(usize),
    /// More pictures a class than names allow, or none.
    #[error("{0} images per class asked for: between 1 and {PER_CLASS_MAX} can be made")]
    PerClass(usize),
    /// A folder could not be made.
    #[error("cannot create folder {}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A picture could not be written.
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// The picture.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What [`SampleSet::write`] left on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Folders, one a class.
    pub classes: usize,
    /// Pictures in all of them.
    pub images: usize,
    /// Bytes of the pictures.
    pub bytes: u64,
}

/// A set to be written: its first `classes` classes, `per_class` pictures each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleSet {
    /// 1 to [`CLASSES_COUNT_MAX`].
    pub classes: usize,
    /// 1 to [`PER_CLASS_MAX`].
    pub per_class: usize,
    /// Another seed gives other pictures of the same classes.
    pub seed: u64,
}

impl SampleSet {
    /// A set within the limits.
    ///
    /// # Errors
    /// [`SampleError::Classes`] and [`SampleError::PerClass`] for a count outside its range.
    pub fn new(classes: usize, per_class: usize, seed: u64) -> Result<Self, SampleError> {
        if !(1..=CLASSES_COUNT_MAX).contains(&classes) {
            return Err(SampleError::Classes(classes));
        }
        if !(1..=PER_CLASS_MAX).contains(&per_class) {
            return Err(SampleError::PerClass(per_class));
        }
        Ok(Self { classes, per_class, seed })
    }

    /// The folder names, in the order in which a smaller set takes them.
    pub fn class_names() -> &'static [&'static str] {
        &NAMES
    }

    /// One picture of about 256 x 192 pixels, lying or standing.
    ///
    /// # Panics
    /// If there is no class of that index.
    pub fn render(class_idx: usize, image_idx: usize, seed: u64) -> RgbImage {
        let mut random = Random::of_image(seed, class_idx, image_idx);
        let long = random.count(232, 280) as u32;
        let (numerator, denominator) = random.pick(&[(3, 4), (3, 4), (2, 3), (4, 5), (5, 6)]);
        let short = long * numerator / denominator;
        let (columns, rows) = if random.chance(0.22) { (short, long) } else { (long, short) };
        render_sized(class_idx, random, columns, rows)
    }

    /// Writes the set: `dir/class/001.jpg` and so on; a picture already there is replaced.
    /// `progress` hears how many of how many pictures are done after each of them.
    ///
    /// # Errors
    /// A folder or file that cannot be written, by its path; the pictures before it stay.
    pub fn write(
        &self,
        dir: &Path,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Summary, SampleError> {
        // The fields are public, so they are looked at again.
        Self::new(self.classes, self.per_class, self.seed)?;
        let total = self.classes * self.per_class;
        let mut summary = Summary { classes: self.classes, images: 0, bytes: 0 };
        for (class_idx, name) in NAMES.iter().enumerate().take(self.classes) {
            let folder = dir.join(name);
            fs::create_dir_all(&folder)
                .map_err(|source| SampleError::Folder { path: folder.clone(), source })?;
            for image_idx in 0..self.per_class {
                let path = folder.join(format!("{:03}.jpg", image_idx + 1));
                let picture = Self::render(class_idx, image_idx, self.seed);
                summary.bytes += write_picture(&picture, &path)
                    .map_err(|source| SampleError::File { path: path.clone(), source })?;
                summary.images += 1;
                progress(summary.images, total);
            }
        }
        Ok(summary)
    }
}

fn render_sized(class_idx: usize, mut random: Random, columns: u32, rows: u32) -> RgbImage {
    let mut canvas = Canvas::new(columns, rows);
    SCENES[class_idx](&mut random, &mut canvas);
    canvas.develop(&mut random)
}

/// Writes beside the final name and renames; gives the size in bytes.
fn write_picture(picture: &RgbImage, path: &Path) -> io::Result<u64> {
    let mut encoded = Vec::with_capacity(64 << 10);
    JpegEncoder::new_with_quality(&mut encoded, JPEG_QUALITY).encode_image(picture).map_err(io::Error::other)?;
    // The process is part of the name: two writers of one set do not write into each other's file.
    let partial = path.with_extension(format!("{}.partial", std::process::id()));
    let written = fs::write(&partial, &encoded).and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        // The first error is the one to tell; the leftover may not even exist.
        let _ = fs::remove_file(&partial);
    }
    written.map(|()| encoded.len() as u64)
}
