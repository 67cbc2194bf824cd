//! `thumbnail`: small JPEG pictures of a store's objects, for people to look at.
//!
//! Invariants: a picture is opened only below the folder ([`beneath`](super::beneath)), decoded within the limits of
//! `decode`, turned as the camera was held, and encoded anew, so nothing of the file itself leaves; a picture that is
//! missing or broken is a row without bytes, never an error.

mod cache;

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::builder::BinaryBuilder;
use arrow_array::{ArrayRef, UInt64Array};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed, Resource,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use image::codecs::jpeg::JpegEncoder;
use image::{ExtendedColorType, RgbImage};

use self::cache::{Cache, Key};
use super::beneath;
use super::decode::decode_image;
use crate::columns;

/// The quality of the JPEGs, of 100.
const QUALITY: u8 = 82;
/// The longest file that is read.
const FILE_BYTES_MAX: u64 = 512 << 20;

const PICTURES: In = In::stream(0, "pictures", columns::pictures, "the objects, by id and name");
const THUMBNAILS: Out = Out::new(0, "thumbnails", columns::thumbnails, "their pictures, in the same order");

/// Makes small pictures.
///
/// # Inputs
/// `pictures`: ids and names of objects; a name is a path below `images`.
///
/// # Outputs
/// `thumbnails`: ids, and JPEG files; an empty one for an object without a picture.
///
/// # Parameters
/// `images`: the folder. `size`: the longest side. `cache`: a folder that keeps the pictures, with at most `cache_bytes`.
pub static THUMBNAIL: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "images",
            ParameterType::Path,
            Default::Required,
            "the folder in which the names are paths",
        ),
        Parameter::new(
            "size",
            ParameterType::Integer { minimum: 16, maximum: 1024 },
            Default::Integer(192),
            "the longest side of the pictures",
        )
        .unit("pixels"),
        Parameter::new(
            "cache",
            ParameterType::Path,
            Default::Absent,
            "a folder that keeps the pictures; without it they are made each time",
        ),
        Parameter::new(
            "cache_bytes",
            ParameterType::Integer { minimum: 0, maximum: 1 << 50 },
            Default::Integer(256 << 20),
            "the most bytes of the pictures in that folder",
        )
        .unit("bytes"),
    ],
    inputs: &[PICTURES],
    outputs: &[THUMBNAILS],
    example: "small: {kind: thumbnail, images: photos, size: 192}",
    share: Some(share),
    ..OperatorSpec::new("thumbnail", "Makes small JPEG pictures of objects.", Kind::Stateful, make)
};

fn share(bind: &Bind<'_>) -> Result<Resource, BoxError> {
    let Some(folder) = bind.get_text("cache") else { return Ok(Arc::new(None::<Cache>)) };
    let bytes_max = bind.integer("cache_bytes") as u64;
    let cache = Cache::open(PathBuf::from(folder), bytes_max)
        .map_err(|error| BoxError::new(format!("the folder `{folder}` cannot keep pictures: {error}")))?;
    Ok(Arc::new(Some(cache)))
}

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let (images, size) = (bind.path("images"), bind.count("size") as u32);
    Ok(Box::new(Thumbnail { images, size, cache: bind.shared(), rest: None }))
}

struct Thumbnail {
    images: PathBuf,
    size: u32,
    cache: Arc<Option<Cache>>,
    /// The current envelope, its first row without a picture yet, and the pictures before.
    rest: Option<(Envelope, usize, Vec<Vec<u8>>)>,
}

impl Operator for Thumbnail {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let taken = self.rest.take().or_else(|| cx.take(PICTURES).map(|pictures| (pictures, 0, Vec::new())));
        let Some((pictures, at, mut made)) = taken else {
            return Ok(if cx.is_ended(PICTURES) { Flow::Done } else { Flow::Wait });
        };
        if at < pictures.rows() {
            // One picture a firing: to read and scale it takes its time.
            let name = pictures.texts("name")?.value(at).to_owned();
            made.push(self.picture(cx, &name)?.unwrap_or_default());
            self.rest = Some((pictures, at + 1, made));
            return Ok(Flow::More);
        }
        let mut jpegs = BinaryBuilder::new();
        made.iter().for_each(|jpeg| jpegs.append_value(jpeg));
        let columns: [(&str, ArrayRef); 2] = [
            ("id", Arc::new(UInt64Array::from(pictures.u64s("id")?.to_vec()))),
            ("jpeg", Arc::new(jpegs.finish())),
        ];
        let is_closed = cx.push(THUMBNAILS, Envelope::from_columns(columns)?)? == Pushed::Closed;
        Ok(if is_closed { Flow::Done } else { Flow::More })
    }
}

/// The state of a picture on disk.
enum Had {
    Nothing,
    Thumbnail(Vec<u8>),
    File(Key, Vec<u8>),
}

impl Thumbnail {
    fn picture(&self, cx: &mut Context<'_>, name: &str) -> Result<Option<Vec<u8>>, BoxError> {
        let (key, content) = match cx.detached("disk", || self.look(name))? {
            Had::Nothing => return Ok(None),
            Had::Thumbnail(jpeg) => return Ok(Some(jpeg)),
            Had::File(key, content) => (key, content),
        };
        let Ok(picture) = decode_image(&content) else { return Ok(None) };
        drop(content);
        let jpeg = encoded(&picture, self.size)?;
        if let Some(cache) = &*self.cache {
            // A cache that cannot be written to costs time only.
            let _ = cx.detached("disk", || cache.put(&key, &jpeg))?;
        }
        Ok(Some(jpeg))
    }

    fn look(&self, name: &str) -> Had {
        let Ok(file) = beneath::open(&self.images, name) else { return Had::Nothing };
        let Ok(metadata) = file.metadata() else { return Had::Nothing };
        let key = Key::new(&self.images, name, &metadata, self.size);
        if let Some(jpeg) = self.cache.as_ref().as_ref().and_then(|cache| cache.get(&key)) {
            return Had::Thumbnail(jpeg);
        }
        let mut content = Vec::new();
        match file.take(FILE_BYTES_MAX + 1).read_to_end(&mut content) {
            Ok(bytes) if bytes as u64 <= FILE_BYTES_MAX => Had::File(key, content),
            _ => Had::Nothing,
        }
    }
}

/// A picture scaled to fit a square, and never enlarged, as JPEG.
fn encoded(picture: &RgbImage, size: u32) -> Result<Vec<u8>, BoxError> {
    let longest = picture.width().max(picture.height());
    let side = |pixels: u32| {
        if longest <= size {
            pixels
        } else {
            (u64::from(pixels) * u64::from(size) / u64::from(longest)).max(1) as u32
        }
    };
    let (width, height) = (side(picture.width()), side(picture.height()));
    let source = ImageRef::new(picture.width(), picture.height(), picture.as_raw(), PixelType::U8x3)?;
    let mut scaled = Image::new(width, height, PixelType::U8x3);
    let algorithm = ResizeAlg::SuperSampling(FilterType::CatmullRom, 2);
    Resizer::new().resize(&source, &mut scaled, &ResizeOptions::new().resize_alg(algorithm))?;
    let mut jpeg = Vec::new();
    JpegEncoder::new_with_quality(&mut jpeg, QUALITY).encode(
        scaled.buffer(),
        width,
        height,
        ExtendedColorType::Rgb8,
    )?;
    Ok(jpeg)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use arrow_array::StringArray;
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::parameter::Value;

    use super::*;

    fn made(images: &Path, cache: Option<&Path>, names: &[&str]) -> Vec<Vec<u8>> {
        let text = |path: &Path| Value::Text(path.to_str().unwrap().to_owned());
        let mut given = vec![("images", text(images)), ("size", Value::Integer(32))];
        given.extend(cache.map(|cache| ("cache", text(cache))));
        let mut harness = Harness::new(&THUMBNAIL, given).unwrap();
        let columns: [(&str, ArrayRef); 2] = [
            ("id", Arc::new(UInt64Array::from_iter_values(0..names.len() as u64))),
            ("name", Arc::new(StringArray::from(names.to_vec()))),
        ];
        harness.give(PICTURES, Envelope::from_columns(columns).unwrap());
        harness.end(PICTURES);
        while !harness.is_done() {
            harness.run().unwrap();
        }
        let envelope = harness.taken(THUMBNAILS).remove(0);
        let jpegs = envelope.binaries("jpeg").unwrap();
        (0..names.len()).map(|row| jpegs.value(row).to_vec()).collect()
    }

    #[test]
    fn pictures_fit_the_square_and_carry_nothing_of_their_files() {
        let folder = tempfile::tempdir().unwrap();
        RgbImage::from_pixel(200, 100, image::Rgb([200, 10, 10]))
            .save(folder.path().join("wide.png"))
            .unwrap();
        RgbImage::new(8, 8).save(folder.path().join("small.png")).unwrap();
        fs::write(folder.path().join("broken.jpg"), b"\xff\xd8 no picture").unwrap();
        fs::write(folder.path().join("drawing.svg"), b"<svg xmlns='http://www.w3.org/2000/svg'/>").unwrap();
        let names = ["wide.png", "small.png", "broken.jpg", "drawing.svg", "../wide.png", "missing.png"];
        let made = made(folder.path(), None, &names);
        let size =
            |jpeg: &[u8]| image::load_from_memory(jpeg).map(|image| (image.width(), image.height())).ok();
        let sizes: Vec<_> = made.iter().map(|jpeg| size(jpeg)).collect();
        assert_eq!(sizes, [Some((32, 16)), Some((8, 8)), None, None, None, None]);
        assert!(made[2..].iter().all(Vec::is_empty));
        assert!(made[0].starts_with(b"\xff\xd8") && !made[0].windows(4).any(|bytes| bytes == b"Exif"));
    }

    #[test]
    fn a_kept_picture_is_used_until_its_file_changes() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        let file = folder.path().join("a.png");
        RgbImage::new(40, 40).save(&file).unwrap();
        let first = made(folder.path(), Some(&cache), &["a.png"]);
        let kept: Vec<_> = fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(kept.len(), 1);
        fs::write(&kept[0], b"kept").unwrap();
        assert_eq!(made(folder.path(), Some(&cache), &["a.png"])[0], b"kept");
        RgbImage::from_pixel(41, 40, image::Rgb([255; 3])).save(&file).unwrap();
        let second = made(folder.path(), Some(&cache), &["a.png"]);
        assert!(second != first && second[0] != b"kept");
    }
}
