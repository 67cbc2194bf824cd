//! A labelled set of procedural pictures: sixteen classes of scenes, drawn from a seed, to try retrieval on without a download.
//!
//! - A picture depends on the seed, its class and its number alone, not on the number of pictures.
//! - It is identical to the bit on every machine: integers and +, -, *, /, sqrt of f64 only, nothing from libm.
//! - Classes share palettes and textures on purpose (a sunset and dunes, bricks and autumn leaves): retrieval is good,
//!   not perfect.
//! - A file appears under its name only when it is complete.

mod curves;
mod colour;
mod random;
mod canvas;
mod noise;
mod blue_sky_clouds;
mod brick_wall;
mod checkered_cloth;
mod citrus;
mod city_night;
mod coral_reef;
mod desert_dunes;
mod flower_meadow;
mod forest;
mod leaves;
mod marble;
mod neon_signs;
mod newspaper;
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

/// The number of classes.
pub const CLASSES_COUNT_MAX: usize = 16;

/// The most pictures of a class: their names have three or four digits.
pub const PER_CLASS_MAX: usize = 9_999;

/// Pictures of a class by default: 640 in all with every class.
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

/// A set was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// More classes than exist, or none.
    #[error("{0} classes asked for: between 1 and {CLASSES_COUNT_MAX} can be made")]
    Classes(usize),
    /// More pictures per class than names allow, or none.
    #[error("{0} images per class asked for: between 1 and {PER_CLASS_MAX} can be made")]
    PerClass(usize),
    /// A folder could not be made.
    #[error("cannot create folder {}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A picture could not be written.
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// The picture.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// The files that [`SampleSet::write`] has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Folders, one per class.
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
    /// Another seed gives other pictures of these classes.
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

    /// The names of the folders; a smaller set takes the first ones.
    pub fn class_names() -> &'static [&'static str] {
        &NAMES
    }

    /// One picture of about 256 x 192 pixels, in landscape or portrait format.
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
    /// `progress` gets the numbers of finished and of all pictures after each one.
    ///
    /// # Errors
    /// A folder or file that cannot be written, by its path; the pictures before it stay.
    pub fn write(&self, dir: &Path, progress: &mut dyn FnMut(usize, usize)) -> Result<Summary, SampleError> {
        // The fields are public, so they are checked again.
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

/// Writes beside the final name and renames; returns the size in bytes.
fn write_picture(picture: &RgbImage, path: &Path) -> io::Result<u64> {
    let mut encoded = Vec::with_capacity(64 << 10);
    JpegEncoder::new_with_quality(&mut encoded, JPEG_QUALITY)
        .encode_image(picture)
        .map_err(io::Error::other)?;
    // The process is part of the name: two writers of one set do not write into each other's file.
    let partial = path.with_extension(format!("{}.partial", std::process::id()));
    let written = fs::write(&partial, &encoded).and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        // The first error is reported; the leftover may not even exist.
        let _ = fs::remove_file(&partial);
    }
    written.map(|()| encoded.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FNV-1a of size and pixels.
    fn hash(picture: &RgbImage) -> u64 {
        let size = [picture.width(), picture.height()].map(u32::to_le_bytes).concat();
        size.iter().chain(picture.as_raw()).fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    fn small(class_idx: usize, image_idx: usize, columns: u32, rows: u32) -> RgbImage {
        render_sized(class_idx, Random::of_image(1, class_idx, image_idx), columns, rows)
    }

    /// These numbers hold on every machine; they change only when a scene is meant to look different.
    #[test]
    fn pictures_are_the_same_everywhere() {
        let found: Vec<u64> =
            (0..CLASSES_COUNT_MAX).map(|class_idx| hash(&small(class_idx, 3, 64, 48))).collect();
        assert_eq!(found, HASHES, "as hexadecimal: {found:#x?}");
    }

    const HASHES: [u64; CLASSES_COUNT_MAX] = [
        0xa002_8ae9_61bb_fa5b,
        0x6c10_baf6_927d_2e4d,
        0x3f94_6cb1_4ba4_79a8,
        0x3e55_beff_e4f8_1fd4,
        0xea9b_de80_55ae_3ed2,
        0x7425_3a6d_7c8b_aac6,
        0x852f_e8f1_10fb_1e49,
        0xd441_b4cc_f7fd_8022,
        0x1e08_c338_cfe6_fac8,
        0x7fe0_24bf_1419_29ad,
        0x6663_2b3a_ad78_ff75,
        0x1c23_79f7_30dc_420d,
        0xaf81_5c14_974f_7db7,
        0x4d08_4af9_cc59_db1d,
        0x9931_51e1_efa3_3634,
        0x06ec_353d_e6a3_4502,
    ];

    #[test]
    fn a_picture_depends_on_class_number_and_seed() {
        let first = SampleSet::render(4, 0, 1);
        assert_eq!(hash(&first), hash(&SampleSet::render(4, 0, 1)));
        for other in [SampleSet::render(4, 1, 1), SampleSet::render(4, 0, 2), SampleSet::render(5, 0, 1)] {
            assert_ne!(hash(&first), hash(&other));
        }
    }

    #[test]
    fn pictures_of_a_class_differ() {
        for (class_idx, name) in NAMES.iter().enumerate() {
            let mut hashes: Vec<u64> =
                (0..6).map(|image_idx| hash(&small(class_idx, image_idx, 32, 24))).collect();
            hashes.sort_unstable();
            hashes.dedup();
            assert_eq!(hashes.len(), 6, "{name}");
        }
    }

    #[test]
    fn every_class_renders_at_odd_sizes() {
        for (columns, rows) in [(1, 1), (1, 9), (17, 1), (3, 40), (61, 23)] {
            for (class_idx, name) in NAMES.iter().enumerate() {
                let picture = small(class_idx, 1, columns, rows);
                assert_eq!(picture.dimensions(), (columns, rows), "{name}");
            }
        }
    }

    #[test]
    fn writes_a_folder_a_class_and_tells_of_each_picture() {
        let dir = tempfile::tempdir().unwrap();
        let set = SampleSet::new(3, 2, 5).unwrap();
        let mut heard = Vec::new();
        let summary = set.write(dir.path(), &mut |done, total| heard.push((done, total))).unwrap();
        assert_eq!(heard, (1..=6).map(|done| (done, 6)).collect::<Vec<_>>());
        let mut bytes = 0;
        for name in &SampleSet::class_names()[..3] {
            let mut files: Vec<_> =
                fs::read_dir(dir.path().join(name)).unwrap().map(|file| file.unwrap()).collect();
            files.sort_by_key(fs::DirEntry::file_name);
            assert_eq!(files.iter().map(fs::DirEntry::file_name).collect::<Vec<_>>(), ["001.jpg", "002.jpg"]);
            bytes += files.iter().map(|file| file.metadata().unwrap().len()).sum::<u64>();
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
        assert_eq!(summary, Summary { classes: 3, images: 6, bytes });
        let read = image::open(dir.path().join(NAMES[1]).join("002.jpg")).unwrap();
        assert_eq!(read.to_rgb8().dimensions(), SampleSet::render(1, 1, 5).dimensions());
    }

    #[test]
    fn counts_outside_their_range_are_errors() {
        for (classes, per_class, told) in [
            (0, 1, "0 classes asked for: between 1 and 16 can be made"),
            (17, 1, "17 classes asked for: between 1 and 16 can be made"),
            (16, 0, "0 images per class asked for: between 1 and 9999 can be made"),
            (16, 10_000, "10000 images per class asked for: between 1 and 9999 can be made"),
        ] {
            assert_eq!(SampleSet::new(classes, per_class, 0).unwrap_err().to_string(), told);
        }
    }

    #[test]
    fn an_error_names_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let taken = dir.path().join(NAMES[0]);
        fs::write(&taken, "a file where the folder should be").unwrap();
        let error = SampleSet::new(1, 1, 0).unwrap().write(dir.path(), &mut |_, _| ()).unwrap_err();
        assert!(error.to_string().contains(&taken.display().to_string()), "{error}");
    }
}
