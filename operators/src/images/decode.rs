//! `decode`: turns images of any common format into small RGB pictures of one size.
//!
//! Invariants: the output depends on the file's content alone (not on its name, the machine or the copies); no image,
//! however broken, ends the request or takes more memory than the limits of `header` during decoding and conversion.

mod header;
#[cfg(test)]
mod tests;

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, StringArray, UInt32Array};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use fast_image_resize::images::Image;
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits, RgbImage};

use crate::columns;
use crate::images::extract::scaled_size;

use header::{Header, IMAGE_BYTES_MAX, is_animated_webp, jpeg_markers};

/// An envelope with this many bytes of pixels takes no further image.
const ENVELOPE_BYTES: usize = 1 << 20;

const BYTES: In = In::stream(0, "bytes", columns::bytes, "the content of image files");
const PIXELS: Out = Out::new(0, "pixels", columns::pixels, "the pictures, in the order of the input");

/// Decodes images and scales them.
///
/// The format is guessed from the content. Transparent pixels are blended with white, more than 8 bits per channel are
/// rounded, CMYK and grey become RGB, an animation gives its first frame, and the camera's orientation note (EXIF) is
/// followed. Then the picture is scaled to `size` by `size` with the Catmull-Rom kernel, widened for shrinking: the whole
/// picture, whatever its shape, or its middle square. A file that cannot be decoded is reported with its path and skipped.
///
/// # Inputs
/// `bytes`: path, name and content of files.
///
/// # Outputs
/// `pixels`: name, original width and height (as shown), and the pixels.
///
/// # Parameters
/// `size`: width and height of the pictures. `as_in`: a store that gives `size` instead. `exact`: whether every pixel
/// of the original counts; if not, large images are thinned to three times `size` first, which is faster and changes
/// the picture a little. `fit`: `stretch` or `crop`. `shorter`: with `crop`, the length in pixels of the picture's shorter side
/// when the middle square of `size` pixels is taken.
pub static DECODE: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "size",
            ParameterType::Integer { minimum: 1, maximum: 4096 },
            Default::Integer(150),
            "width and height of the pictures",
        )
        .unit("pixels"),
        Parameter::new(
            "as_in",
            ParameterType::Resource("store"),
            Default::Absent,
            "a store that gives `size` instead",
        ),
        Parameter::new(
            "exact",
            ParameterType::Boolean,
            Default::Boolean(true),
            "whether every pixel of the original counts; false is faster on large images",
        ),
        Parameter::new(
            "fit",
            ParameterType::Choice(&["stretch", "crop"]),
            Default::Text("stretch"),
            "stretch: the whole picture becomes a square; crop: its middle square does",
        ),
        Parameter::new(
            "shorter",
            ParameterType::Integer { minimum: 1, maximum: 8192 },
            Default::Absent,
            "the shorter side of the picture around that square, as 256 for a size of 224; not given: `size`",
        )
        .unit("pixels"),
    ],
    inputs: &[BYTES],
    outputs: &[PIXELS],
    example: "decode: {kind: decode, size: 150, copies: auto}",
    ..OperatorSpec::new("decode", "Decodes images and scales them to one size.", Kind::Ordered, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let size = match crate::resources::get_signatures(bind, "as_in")? {
        Some(store) => scaled_size(store.parameters().unwrap_or_default()),
        None => bind.count("size") as u32,
    };
    let scaler = Scaler::new(size, bind.boolean("exact"));
    Ok(Box::new(Decode { scaler: fitted(bind, scaler, size)?, rest: None }))
}

/// The scaler with what `fit` and `shorter` say.
fn fitted(bind: &Bind<'_>, scaler: Scaler, size: u32) -> Result<Scaler, BoxError> {
    let shorter = bind.get_integer("shorter").map(|shorter| shorter as u32);
    match (bind.text("fit"), shorter) {
        ("crop", _) if bind.get_text("as_in").is_some() => Err(BoxError::new(
            "`fit: crop` and `as_in` exclude each other: the pictures of such a store were stretched",
        )),
        ("crop", Some(shorter)) if shorter < size => Err(BoxError::new(format!(
            "a square of `size: {size}` does not fit into pictures whose shorter side is `shorter: {shorter}`"
        ))),
        ("crop", shorter) => Ok(scaler.cropping(shorter.unwrap_or(size))),
        (_, Some(_)) => Err(BoxError::new("`shorter` is for `fit: crop`: leave it out, or crop")),
        (_, None) => Ok(scaler),
    }
}

struct Decode {
    scaler: Scaler,
    /// The current envelope, and the first of its images not decoded yet.
    rest: Option<(Envelope, usize)>,
}

impl Operator for Decode {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some((files, mut at)) = self.rest.take().or_else(|| cx.take(BYTES).map(|files| (files, 0)))
        else {
            return Ok(if cx.is_ended(BYTES) { Flow::Done } else { Flow::Wait });
        };
        while at < files.rows() {
            if !cx.has_room(PIXELS) {
                self.rest = Some((files, at));
                return Ok(Flow::Wait);
            }
            cx.announce();
            let mut pictures = Pictures::default();
            while at < files.rows() && pictures.bytes < ENVELOPE_BYTES && !cx.is_cancelled() {
                let content = files.binaries("bytes")?.value(at);
                match decode_image(content) {
                    Ok(image) => {
                        let rgb = self.scaler.scale(&image)?;
                        pictures.add(files.texts("name")?.value(at), image.dimensions(), rgb);
                    }
                    Err(message) => cx.report(files.texts("path")?.value(at), message),
                }
                at += 1;
            }
            if cx.is_cancelled() {
                return Ok(Flow::Done);
            }
            if !pictures.names.is_empty()
                && cx.push(PIXELS, pictures.envelope(self.scaler.size)?)? == Pushed::Closed
            {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Wait)
    }
}

/// The pictures of one envelope.
#[derive(std::default::Default)]
struct Pictures<'a> {
    names: Vec<&'a str>,
    widths: Vec<u32>,
    heights: Vec<u32>,
    rgbs: Vec<Vec<u8>>,
    bytes: usize,
}

impl<'a> Pictures<'a> {
    fn add(&mut self, name: &'a str, (width, height): (u32, u32), rgb: Vec<u8>) {
        self.names.push(name);
        self.widths.push(width);
        self.heights.push(height);
        self.bytes += rgb.len();
        self.rgbs.push(rgb);
    }

    fn envelope(self, size: u32) -> Result<Envelope, BoxError> {
        let sizes: ArrayRef = Arc::new(UInt32Array::from(vec![size; self.names.len()]));
        let columns: [(&str, ArrayRef); 6] = [
            ("name", Arc::new(StringArray::from(self.names))),
            ("width", Arc::new(UInt32Array::from(self.widths))),
            ("height", Arc::new(UInt32Array::from(self.heights))),
            ("scaled_width", Arc::clone(&sizes)),
            ("scaled_height", sizes),
            ("rgb", Arc::new(BinaryArray::from_iter_values(self.rgbs))),
        ];
        Ok(Envelope::from_columns(columns)?)
    }
}

/// Decodes an image into RGB with 8 bits a channel, upright.
///
/// The error is a sentence for the user, without the file's name.
pub(crate) fn decode_image(content: &[u8]) -> Result<RgbImage, String> {
    // A decoder's panic on a broken file must not end the request; nothing that it touched is used afterwards.
    match catch_unwind(AssertUnwindSafe(|| decode_guarded(content))) {
        Ok(decoded) => decoded,
        Err(_) => Err("the decoder failed on this image: the file is broken, save it anew".to_owned()),
    }
}

/// The media type of an image, by its content; nothing for a file that [`DECODE`] does not take.
pub fn media_type(content: &[u8]) -> Option<&'static str> {
    match image::guess_format(content).ok()? {
        format @ (ImageFormat::Jpeg
        | ImageFormat::Png
        | ImageFormat::Bmp
        | ImageFormat::Gif
        | ImageFormat::Tiff
        | ImageFormat::WebP) => Some(format.to_mime_type()),
        _ => None,
    }
}

/// Width and height of an image, by its header; nothing if the header cannot be read.
pub fn size(content: &[u8]) -> Option<(u32, u32)> {
    // As in `decode_image`.
    catch_unwind(AssertUnwindSafe(|| {
        let reader = ImageReader::new(Cursor::new(content)).with_guessed_format().ok()?;
        reader.into_dimensions().ok()
    }))
    .ok()?
}

fn decode_guarded(content: &[u8]) -> Result<RgbImage, String> {
    let (image, orientation) = decode_samples(content)?;
    let image = over_white(image);
    if orientation == Orientation::NoTransforms {
        return Ok(image);
    }
    // Turned after conversion: three bytes per pixel instead of four or eight.
    let mut image = DynamicImage::from(image);
    image.apply_orientation(orientation);
    Ok(image.into_rgb8())
}

/// Decodes an image with its own depth and channels, upright.
///
/// The error is a sentence for the user, without the file's name.
pub(crate) fn decode_deep(content: &[u8]) -> Result<DynamicImage, String> {
    // As in `decode_image`.
    let decoded = catch_unwind(AssertUnwindSafe(|| {
        let (mut image, orientation) = decode_samples(content)?;
        image.apply_orientation(orientation);
        Ok(image)
    }));
    decoded.unwrap_or_else(|_| {
        Err("the decoder failed on this image: the file is broken, save it anew".to_owned())
    })
}

/// The image as the file holds it, and how it is to be turned.
fn decode_samples(content: &[u8]) -> Result<(DynamicImage, Orientation), String> {
    if content.is_empty() {
        return Err("the file is empty".to_owned());
    }
    let mut reader = ImageReader::new(Cursor::new(content))
        .with_guessed_format()
        .map_err(|error| format!("the image cannot be read: {error}"))?;
    let Some(format) = reader.format() else {
        return Err("it is no image of a known format (JPEG, PNG, BMP, GIF, TIFF, WebP)".to_owned());
    };
    let mut keeps_more = is_animated_webp(content);
    if format == ImageFormat::Jpeg {
        let markers = jpeg_markers(content);
        if !markers.has_end {
            return Err("the JPEG image is cut short: its end is missing; copy the file again".to_owned());
        }
        keeps_more = markers.scans > 1;
    }
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(IMAGE_BYTES_MAX);
    // Without the limits' own sides, whose refusal would not name the image's size.
    reader.limits(limits);
    let refused = |error: ImageError| match error {
        ImageError::Limits(_) => {
            format!("the image needs more than {} MiB: scale it down", IMAGE_BYTES_MAX >> 20)
        }
        error => format!("the {} image cannot be decoded: {error}", format!("{format:?}").to_uppercase()),
    };
    let mut decoder = reader.into_decoder().map_err(refused)?;
    let (width, height) = decoder.dimensions();
    // An unreadable orientation note is no reason to refuse the picture.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let is_turned = orientation != Orientation::NoTransforms;
    Header { format, width, height, color: decoder.color_type(), keeps_more, is_turned }.check()?;
    let image = DynamicImage::from_decoder(decoder).map_err(refused)?;
    Ok((image, orientation))
}

/// Converts an image to RGB and blends it with white. RGBA with 8 bits per channel is blended in place.
fn over_white(image: DynamicImage) -> RgbImage {
    if !image.color().has_alpha() {
        return image.into_rgb8();
    }
    let rgba = image.into_rgba8();
    let (width, height) = rgba.dimensions();
    let mut bytes = rgba.into_raw();
    let pixels = bytes.len() / 4;
    for pixel in 0..pixels {
        let [r, g, b, alpha] = [0, 1, 2, 3].map(|channel: usize| u32::from(bytes[4 * pixel + channel]));
        let blend = |channel: u32| ((channel * alpha + 255 * (255 - alpha) + 127) / 255) as u8;
        // The three bytes written end before the next pixel's four begin.
        bytes[3 * pixel..3 * pixel + 3].copy_from_slice(&[r, g, b].map(blend));
    }
    bytes.truncate(3 * pixels);
    RgbImage::from_raw(width, height, bytes).expect("three bytes for each pixel")
}

/// Scales pictures to one square size, reusing its working memory.
pub(crate) struct Scaler {
    size: u32,
    /// The part of the shorter side that the middle square takes; nothing if the whole picture is stretched.
    share: Option<f64>,
    resizer: Resizer,
    options: ResizeOptions,
}

impl Scaler {
    /// A scaler to `size` by `size`; see [`DECODE`] for `exact`.
    pub(crate) fn new(size: u32, exact: bool) -> Self {
        // Thinning keeps this many pixels along each side of an output pixel.
        const THINNED: u8 = 3;
        let algorithm = if exact {
            ResizeAlg::Convolution(FilterType::CatmullRom)
        } else {
            ResizeAlg::SuperSampling(FilterType::CatmullRom, THINNED)
        };
        // The vector paths stay enabled: they use integers and give the scalar path's bits (test
        // `scaling_gives_the_same_bits_on_every_machine`), at a quarter of its time on small images.
        let options = ResizeOptions::new().resize_alg(algorithm);
        Self { size, share: None, resizer: Resizer::new(), options }
    }

    /// A scaler that takes the middle square of each picture, whose sides are as long as `size` pixels are where the picture's
    /// shorter side has `shorter`.
    fn cropping(self, shorter: u32) -> Self {
        Self { share: Some(f64::from(self.size) / f64::from(shorter)), ..self }
    }

    /// Width and height of the scaled pictures.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// The scaled picture, three bytes a pixel.
    pub(crate) fn scale(&mut self, image: &RgbImage) -> Result<Vec<u8>, BoxError> {
        let source = fast_image_resize::images::ImageRef::new(
            image.width(),
            image.height(),
            image.as_raw(),
            PixelType::U8x3,
        )?;
        let mut scaled = Image::new(self.size, self.size, PixelType::U8x3);
        let options = match self.share {
            None => self.options,
            Some(share) => {
                let [width, height] = [image.width(), image.height()].map(f64::from);
                let side = width.min(height) * share;
                self.options.crop((width - side) / 2.0, (height - side) / 2.0, side, side)
            }
        };
        self.resizer.resize(&source, &mut scaled, &options)?;
        Ok(scaled.into_vec())
    }
}
