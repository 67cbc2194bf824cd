//! An image's properties before its pixels are decoded, and whether it is too large.
//!
//! A small file may hold a huge image. So the limit counts all memory held at a time during decoding and conversion,
//! not the pixels alone.

use image::{ColorType, ImageFormat};

/// The longest side that is decoded, in pixels.
const SIDE_PIXELS_MAX: u32 = 32_768;

/// The most memory that one image may take at any time on its way to RGB.
pub(super) const IMAGE_BYTES_MAX: u64 = 512 << 20;

/// The markers of a JPEG.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct JpegMarkers {
    /// Without an end marker, the decoder silently fills the missing part with grey.
    pub(super) has_end: bool,
    /// With more than one scan, the decoder keeps the coefficients of the whole image.
    pub(super) scans: usize,
}

/// Reads the markers of a JPEG.
///
/// Skips segments by their lengths, as a thumbnail within one has its own end marker; within compressed data, a zero or
/// a restart mark always follows a marker's first byte.
pub(super) fn jpeg_markers(content: &[u8]) -> JpegMarkers {
    const START: u8 = 0xd8;
    const END: u8 = 0xd9;
    const SCAN: u8 = 0xda;
    let (mut markers, mut at) = (JpegMarkers::default(), 0);
    while let Some(found) = content.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == 0xff)) {
        at += found + 1;
        match content.get(at).copied() {
            Some(END) => {
                markers.has_end = true;
                break;
            }
            // A stuffed byte, a fill byte, a restart mark, the start: no segment to skip.
            Some(0 | 0xff | 0x01 | 0xd0..=0xd7 | START) => at += usize::from(content[at] != 0xff),
            Some(marker) => match content.get(at + 1..at + 3) {
                Some(&[high, low]) => {
                    markers.scans += usize::from(marker == SCAN);
                    at += 1 + usize::from(u16::from_be_bytes([high, low]));
                }
                _ => break,
            },
            None => break,
        }
    }
    markers
}

/// Whether a WebP holds several frames, by the flag in its extended header.
pub(super) fn is_animated_webp(content: &[u8]) -> bool {
    const ANIMATION: u8 = 1 << 1;
    content.get(12..16) == Some(b"VP8X") && content.get(20).is_some_and(|flags| flags & ANIMATION != 0)
}

/// An image's properties before its pixels are decoded.
pub(super) struct Header {
    pub(super) format: ImageFormat,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) color: ColorType,
    /// Whether the decoder keeps a second form of the whole image beside its result.
    pub(super) keeps_more: bool,
    pub(super) is_turned: bool,
}

impl Header {
    /// The most bytes held at a time while the image is decoded, converted to RGB and turned upright.
    fn bytes_max(&self) -> u64 {
        let pixels = u64::from(self.width) * u64::from(self.height);
        let decoded = u64::from(self.color.bytes_per_pixel()) * pixels;
        let (rgb, rgba) = (3 * pixels, 4 * pixels);
        let beside = match self.format {
            // Two bytes for each coefficient, one coefficient for each byte.
            ImageFormat::Jpeg if self.keeps_more => 2 * decoded,
            ImageFormat::WebP if self.keeps_more => 2 * rgba,
            // A frame, as RGBA.
            ImageFormat::WebP | ImageFormat::Gif => rgba,
            ImageFormat::Tiff => decoded,
            _ => 0,
        };
        // As in `over_white`.
        let converted = match self.color {
            ColorType::Rgb8 | ColorType::Rgba8 => 0,
            color if color.has_alpha() => rgba,
            _ => rgb,
        };
        let turned = if self.is_turned { 2 * rgb } else { 0 };
        (decoded + beside.max(converted)).max(turned)
    }

    /// Refuses an image that is too large, before memory is taken for it.
    pub(super) fn check(&self) -> Result<(), String> {
        let Self { width, height, .. } = self;
        if *width == 0 || *height == 0 {
            return Err(format!("the image is {width} x {height} pixels: it is empty"));
        }
        let bytes = self.bytes_max();
        if *width > SIDE_PIXELS_MAX || *height > SIDE_PIXELS_MAX || bytes > IMAGE_BYTES_MAX {
            return Err(format!(
                "the image is {width} x {height} pixels and takes {} MiB of memory to decode, which is too large: at \
                 most {SIDE_PIXELS_MAX} pixels a side and {} MiB; scale it down",
                bytes >> 20,
                IMAGE_BYTES_MAX >> 20
            ));
        }
        // A decoder aborts the process if memory is refused, so as much is requested beforehand.
        if Vec::<u8>::new().try_reserve_exact(bytes as usize).is_err() {
            return Err(format!(
                "the image is {width} x {height} pixels and takes {} MiB of memory, which the system refuses: scale \
                 it down, or free memory",
                bytes >> 20
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use image::{DynamicImage, RgbImage};

    use super::super::decode_image;
    use super::*;

    /// A PNG of the colour type of an image and of this size, with too few pixels in it.
    fn png_of(image: &DynamicImage, width: u32, height: u32) -> Vec<u8> {
        let mut content = Cursor::new(Vec::new());
        image.write_to(&mut content, ImageFormat::Png).unwrap();
        let mut content = content.into_inner();
        content[16..20].copy_from_slice(&width.to_be_bytes());
        content[20..24].copy_from_slice(&height.to_be_bytes());
        let crc = crc32fast::hash(&content[12..29]);
        content[29..33].copy_from_slice(&crc.to_be_bytes());
        content
    }

    fn check_refused(content: &[u8], words: &[&str]) {
        let message = decode_image(content).unwrap_err();
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    }

    #[test]
    fn huge_images_are_refused_with_the_reason() {
        let small = DynamicImage::from(RgbImage::new(4, 4));
        check_refused(&png_of(&small, 100_000, 100_000), &["too large", "100000 x 100000", "32768"]);
        check_refused(&png_of(&small, 30_000, 30_000), &["scale it down"]);
        check_refused(&png_of(&small, 0, 5), &["image"]);
    }

    #[test]
    fn a_small_file_of_a_huge_image_is_refused_by_what_its_conversion_holds() {
        let small = DynamicImage::from(RgbImage::new(4, 4));
        // Their bytes fit into the limit, but not with those of the RGB form.
        for (image, side) in [
            (DynamicImage::from(small.to_luma8()), 20_000),
            (DynamicImage::from(small.to_luma16()), 12_000),
            (DynamicImage::from(small.to_luma_alpha8()), 12_000),
            (DynamicImage::from(small.to_rgb16()), 9_000),
            (DynamicImage::from(small.to_rgba16()), 8_000),
        ] {
            let decoded = u64::from(image.color().bytes_per_pixel()) * side * side;
            assert!(decoded <= IMAGE_BYTES_MAX, "{:?}", image.color());
            let content = png_of(&image, side as u32, side as u32);
            check_refused(&content, &["too large", "512 MiB", "scale it down"]);
        }
    }

    #[test]
    fn an_image_is_judged_by_all_that_is_held_at_a_time() {
        let header = |format, color, keeps_more, is_turned| Header {
            format,
            width: 1000,
            height: 1000,
            color,
            keeps_more,
            is_turned,
        };
        for (header, megabytes) in [
            (header(ImageFormat::Png, ColorType::Rgb8, false, false), 3),
            (header(ImageFormat::Png, ColorType::Rgb8, false, true), 6),
            (header(ImageFormat::Png, ColorType::L8, false, false), 4),
            (header(ImageFormat::Png, ColorType::Rgba8, false, false), 4),
            (header(ImageFormat::Png, ColorType::La8, false, false), 6),
            (header(ImageFormat::Png, ColorType::Rgb16, false, false), 9),
            (header(ImageFormat::Png, ColorType::Rgba16, false, true), 12),
            (header(ImageFormat::Jpeg, ColorType::Rgb8, false, false), 3),
            (header(ImageFormat::Jpeg, ColorType::Rgb8, true, false), 9),
            (header(ImageFormat::WebP, ColorType::Rgb8, false, false), 7),
            (header(ImageFormat::WebP, ColorType::Rgba8, true, false), 12),
            (header(ImageFormat::Gif, ColorType::Rgba8, false, false), 8),
            (header(ImageFormat::Tiff, ColorType::Rgb8, false, false), 6),
        ] {
            let Header { format, color, .. } = header;
            assert_eq!(header.bytes_max(), megabytes * 1_000_000, "{format:?} {color:?}");
        }
        let scans = |scans, end: &[u8]| {
            let scan = [0xff, 0xda, 0, 4, 1, 2, 0x12, 0xff, 0, 0x34];
            jpeg_markers(&[&[0xff, 0xd8][..], &scan.repeat(scans), end].concat())
        };
        assert_eq!(scans(3, &[0xff, 0xd9]), JpegMarkers { has_end: true, scans: 3 });
        assert_eq!(scans(1, &[]), JpegMarkers { has_end: false, scans: 1 });
    }
}
