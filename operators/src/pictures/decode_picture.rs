//! `decode_picture`: decodes images with all their pixels, their depth and their alpha.
//!
//! Invariant: no image, however broken, ends the request or takes more memory than the limits of `decode`.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use boxwork_kernels::denoise::{Picture, Samples};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use image::codecs::png::PngDecoder;
use image::codecs::webp::WebPDecoder;
use image::{DynamicImage, ImageFormat};

use crate::columns;
use crate::images::decode::decode_deep;
use crate::pictures::row::Row;

const BYTES: In = In::stream(0, "bytes", columns::bytes, "the content of image files");
const PICTURES: Out =
    Out::new(0, "pictures", columns::whole_pictures, "the pictures, in the order of the input");

/// Decodes images as they are: grey or RGB, with 8 or 16 bits or floats, with alpha or without, upright.
///
/// A file that cannot be decoded, an animation, and a picture whose floats are not all finite are reported with their paths
/// and skipped.
///
/// # Inputs
/// `bytes`: path, name and content of files.
///
/// # Outputs
/// `pictures`: one picture an envelope. Their noise is unknown.
///
/// # Parameters
/// None.
pub static DECODE_PICTURE: OperatorSpec = OperatorSpec {
    inputs: &[BYTES],
    outputs: &[PICTURES],
    example: "picture: {kind: decode_picture, copies: auto}",
    ..OperatorSpec::new("decode_picture", "Decodes images with all their pixels.", Kind::Ordered, make)
};

fn make(_: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(DecodePicture { rest: None }))
}

struct DecodePicture {
    /// The current envelope, and the first of its files not decoded yet.
    rest: Option<(Envelope, usize)>,
}

impl Operator for DecodePicture {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some((files, mut at)) = self.rest.take().or_else(|| cx.take(BYTES).map(|files| (files, 0)))
        else {
            return Ok(if cx.is_ended(BYTES) { Flow::Done } else { Flow::Wait });
        };
        while at < files.rows() {
            if !cx.has_room(PICTURES) {
                self.rest = Some((files, at));
                return Ok(Flow::Wait);
            }
            cx.announce();
            match picture(files.binaries("bytes")?.value(at)) {
                Ok(picture) => {
                    let row = Row { name: files.texts("name")?.value(at).to_owned(), picture, sigma: 0.0 };
                    if cx.push(PICTURES, row.envelope()?)? == Pushed::Closed {
                        return Ok(Flow::Done);
                    }
                }
                Err(message) => cx.report(files.texts("path")?.value(at), message),
            }
            at += 1;
        }
        Ok(Flow::Wait)
    }
}

/// The picture that a file holds.
pub(crate) fn picture(content: &[u8]) -> Result<Picture, String> {
    if is_animated(content) {
        return Err(
            "it is an animation, of which one picture would be lost after the other: save its pictures \
                    as files of their own"
                .to_owned(),
        );
    }
    let image = decode_deep(content)?;
    let (width, height) = (image.width() as usize, image.height() as usize);
    let channels = usize::from(image.color().channel_count());
    let samples = match image {
        DynamicImage::ImageLuma8(image) => Samples::Bytes(image.into_raw()),
        DynamicImage::ImageLumaA8(image) => Samples::Bytes(image.into_raw()),
        DynamicImage::ImageRgb8(image) => Samples::Bytes(image.into_raw()),
        DynamicImage::ImageRgba8(image) => Samples::Bytes(image.into_raw()),
        DynamicImage::ImageLuma16(image) => Samples::Words(image.into_raw()),
        DynamicImage::ImageLumaA16(image) => Samples::Words(image.into_raw()),
        DynamicImage::ImageRgb16(image) => Samples::Words(image.into_raw()),
        DynamicImage::ImageRgba16(image) => Samples::Words(image.into_raw()),
        DynamicImage::ImageRgb32F(image) => levels(image.into_raw()),
        DynamicImage::ImageRgba32F(image) => levels(image.into_raw()),
        other => {
            return Err(format!(
                "its samples ({:?}) are of no known depth: save it with 8 or 16 bits a channel",
                other.color()
            ));
        }
    };
    Picture::new(width, height, channels, samples).map_err(|error| error.to_string())
}

/// Floats of 0 to 1 as grey levels.
fn levels(mut samples: Vec<f32>) -> Samples {
    samples.iter_mut().for_each(|sample| *sample *= 255.0);
    Samples::Floats(samples)
}

/// Whether a file holds several pictures in time.
fn is_animated(content: &[u8]) -> bool {
    let animated = || match image::guess_format(content).ok()? {
        ImageFormat::Gif => Some(has_second_frame(content)),
        ImageFormat::Png => PngDecoder::new(Cursor::new(content)).ok()?.is_apng().ok(),
        ImageFormat::WebP => Some(WebPDecoder::new(Cursor::new(content)).ok()?.has_animation()),
        _ => None,
    };
    // A decoder's panic is found again when the picture is decoded, and reported there.
    catch_unwind(AssertUnwindSafe(animated)).ok().flatten().unwrap_or(false)
}

/// Whether a GIF file has more than one frame.
///
/// Walks over the blocks and decodes none: the library's frames take four bytes for each pixel of a screen that the file may
/// say is 65,535 pixels wide and high.
fn has_second_frame(content: &[u8]) -> bool {
    /// The bytes of a table of colours, by the flags before it.
    fn table_bytes(flags: u8) -> usize {
        if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) }
    }
    /// The place after some blocks, of which each begins with its length and the last is empty.
    fn after_blocks(content: &[u8], mut at: usize) -> Option<usize> {
        loop {
            let bytes = usize::from(*content.get(at)?);
            at += 1 + bytes;
            if bytes == 0 {
                return Some(at);
            }
        }
    }
    let second = || {
        let mut at = 13 + table_bytes(*content.get(10)?);
        let mut frames = 0;
        loop {
            at = match *content.get(at)? {
                b'!' => after_blocks(content, at + 2)?,
                b',' if frames == 1 => return Some(()),
                b',' => {
                    frames += 1;
                    after_blocks(content, at + 11 + table_bytes(*content.get(at + 9)?))?
                }
                _ => return None,
            };
        }
    };
    second().is_some()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, BinaryArray, StringArray};
    use boxwork_runtime::harness::Harness;
    use image::{ImageBuffer, Luma, Rgb, RgbImage, RgbaImage};

    use super::*;

    fn encoded(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
        let mut content = Cursor::new(Vec::new());
        image.write_to(&mut content, format).unwrap();
        content.into_inner()
    }

    #[test]
    fn depth_and_channels_are_kept() {
        let deep = ImageBuffer::<Luma<u16>, _>::from_fn(9, 7, |x, y| Luma([(x * 4000 + y) as u16]));
        for format in [ImageFormat::Png, ImageFormat::Tiff] {
            let found = picture(&encoded(&deep.clone().into(), format)).unwrap();
            assert_eq!((found.width(), found.height(), found.channels()), (9, 7, 1));
            assert_eq!(found.samples(), &Samples::Words(deep.as_raw().clone()), "{format:?}");
        }
        let clear = RgbaImage::from_fn(3, 2, |x, y| image::Rgba([x as u8, y as u8, 7, 99]));
        let found = picture(&encoded(&clear.clone().into(), ImageFormat::Png)).unwrap();
        assert_eq!(found.samples(), &Samples::Bytes(clear.into_raw()));
    }

    #[test]
    fn floats_are_grey_levels_and_must_be_finite() {
        let mut floats = ImageBuffer::<Rgb<f32>, _>::from_pixel(4, 3, Rgb([0.5, 0.25, 1.0]));
        let found = picture(&encoded(&floats.clone().into(), ImageFormat::Tiff)).unwrap();
        assert_eq!(found.samples().level(0), 127.5);
        floats.get_pixel_mut(2, 1).0[1] = f32::NAN;
        let message = picture(&encoded(&floats.into(), ImageFormat::Tiff)).unwrap_err();
        assert!(message.contains("column 2, row 1") && message.contains("replace"), "{message}");
    }

    #[test]
    fn animations_and_broken_files_are_named_and_the_others_go_on() {
        let mut moving = Vec::new();
        let mut encoder = image::codecs::gif::GifEncoder::new(&mut moving);
        for colour in [[255, 0, 0, 255], [0, 255, 0, 255]] {
            encoder
                .encode_frame(image::Frame::new(RgbaImage::from_pixel(5, 4, image::Rgba(colour))))
                .unwrap();
        }
        drop(encoder);
        let good = encoded(&RgbImage::from_pixel(5, 4, Rgb([1, 2, 3])).into(), ImageFormat::Png);
        let contents = [moving, good[..30].to_vec(), good];
        let columns: [(&str, ArrayRef); 3] = [
            ("path", Arc::new(StringArray::from(vec!["/p/a.gif", "/p/b.png", "/p/c.png"]))),
            ("name", Arc::new(StringArray::from(vec!["p/a.gif", "p/b.png", "p/c.png"]))),
            ("bytes", Arc::new(BinaryArray::from_iter_values(contents))),
        ];
        let mut harness = Harness::new(&DECODE_PICTURE, []).unwrap();
        harness.give(BYTES, Envelope::from_columns(columns).unwrap());
        harness.end(BYTES);
        harness.run().unwrap();
        assert!(harness.is_done());
        let pictures = harness.taken(PICTURES);
        assert_eq!(pictures.len(), 1);
        assert_eq!(Row::read(&pictures[0], 0).unwrap().name, "p/c.png");
        let problems: Vec<_> =
            harness.problems().iter().map(|p| (p.subject.as_str(), p.message.as_str())).collect();
        assert_eq!(problems[0].0, "/p/a.gif");
        assert!(problems[0].1.contains("animation") && problems[0].1.contains("files of their own"));
        assert_eq!(problems[1].0, "/p/b.png");
    }

    #[test]
    fn a_small_gif_of_a_huge_screen_takes_no_memory() {
        // One frame of a pixel on a screen of 65,535 by 65,535, whose pixels would take 17 GB.
        let mut content = b"GIF89a\xff\xff\xff\xff\x80\0\0".to_vec();
        content.extend([0, 0, 0, 255, 255, 255]);
        let frame = [b',', 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 2, 0x44, 1, 0];
        content.extend(frame);
        let one = [content.as_slice(), b";"].concat();
        assert!(!has_second_frame(&one) && !has_second_frame(&content) && !has_second_frame(&content[..12]));
        let message = picture(&one).unwrap_err();
        assert!(message.contains("65535") || message.contains("MiB"), "{message}");
        let comment = b"!\xfe\x03abc\0".as_slice();
        let two = [content.as_slice(), comment, &frame, b";"].concat();
        assert!(has_second_frame(&two) && picture(&two).unwrap_err().contains("animation"));
    }
}
