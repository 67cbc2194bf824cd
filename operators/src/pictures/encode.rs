//! `encode`: pictures as the content of image files.

use std::io::Cursor;
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, StringArray};
use boxwork_kernels::denoise::{Picture, Samples};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, ImageBuffer, ImageFormat, ImageResult};

use crate::columns;
use crate::pictures::row::Row;

const PICTURES: In = In::stream(0, "pictures", columns::whole_pictures, "pictures");
const FILES: Out = Out::new(0, "files", columns::named_bytes, "the content of their files, in their order");

/// Encodes pictures as PNG, JPEG or TIFF.
///
/// Depth and alpha stay: a picture with either 16 bits or alpha becomes no JPEG. Floats stay in TIFF if they have colours;
/// otherwise they become 16 bits. A file that gets another format has its ending added to its name.
///
/// # Inputs
/// `pictures`: pictures.
///
/// # Outputs
/// `files`: name and content, one file an envelope.
///
/// # Parameters
/// `format`: `auto` keeps JPEG and TIFF, by the ending of the name, and takes PNG for all others. `quality`: of JPEG.
pub static ENCODE: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "format",
            ParameterType::Choice(&["auto", "png", "jpeg", "tiff"]),
            Default::Text("auto"),
            "the format; auto keeps that of the name, if it is JPEG, TIFF or PNG",
        ),
        Parameter::new(
            "quality",
            ParameterType::Integer { minimum: 1, maximum: 100 },
            Default::Integer(95),
            "the quality of JPEG",
        ),
    ],
    inputs: &[PICTURES],
    outputs: &[FILES],
    example: "file: {kind: encode, format: png, copies: auto}",
    ..OperatorSpec::new("encode", "Encodes pictures as image files.", Kind::Ordered, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let format = match bind.text("format") {
        "png" => Some(ImageFormat::Png),
        "jpeg" => Some(ImageFormat::Jpeg),
        "tiff" => Some(ImageFormat::Tiff),
        _ => None,
    };
    Ok(Box::new(Encode { format, quality: bind.count("quality") as u8 }))
}

struct Encode {
    /// The format asked for; nothing for `auto`.
    format: Option<ImageFormat>,
    quality: u8,
}

impl Operator for Encode {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        loop {
            if !cx.has_room(FILES) {
                return Ok(Flow::Wait);
            }
            let Some(envelope) = cx.take(PICTURES) else {
                return Ok(if cx.is_ended(PICTURES) { Flow::Done } else { Flow::Wait });
            };
            cx.announce();
            let row = Row::read(&envelope, 0)?;
            let format = self.format_of(&row);
            let name = named(&row.name, format);
            match encoded(row.picture, format, self.quality) {
                Ok(content) => {
                    let columns: [(&str, ArrayRef); 2] = [
                        ("name", Arc::new(StringArray::from(vec![name]))),
                        ("bytes", Arc::new(BinaryArray::from_iter_values([content]))),
                    ];
                    if cx.push(FILES, Envelope::from_columns(columns)?)? == Pushed::Closed {
                        return Ok(Flow::Done);
                    }
                }
                Err(error) => {
                    cx.report(row.name, format!("it cannot be encoded: {error}; choose another format"))
                }
            }
        }
    }
}

impl Encode {
    /// The format of a picture's file.
    fn format_of(&self, row: &Row) -> ImageFormat {
        let asked =
            self.format.or_else(|| ImageFormat::from_path(&row.name).ok()).unwrap_or(ImageFormat::Png);
        let is_plain = matches!(row.picture.samples(), Samples::Bytes(_)) && row.picture.channels() % 2 == 1;
        match asked {
            ImageFormat::Jpeg if is_plain => ImageFormat::Jpeg,
            ImageFormat::Tiff => ImageFormat::Tiff,
            _ => ImageFormat::Png,
        }
    }
}

/// The name of a picture's file: its own, with the format's ending added if it has another.
fn named(name: &str, format: ImageFormat) -> String {
    if ImageFormat::from_path(name).ok() == Some(format) {
        return name.to_owned();
    }
    let ending = match format {
        ImageFormat::Jpeg => "jpg",
        ImageFormat::Tiff => "tif",
        _ => "png",
    };
    format!("{name}.{ending}")
}

/// The content of a picture's file.
pub(crate) fn encoded(picture: Picture, format: ImageFormat, quality: u8) -> ImageResult<Vec<u8>> {
    let image = dynamic(picture, format);
    let mut content = Cursor::new(Vec::new());
    match format {
        ImageFormat::Jpeg => {
            image.write_with_encoder(JpegEncoder::new_with_quality(&mut content, quality))?
        }
        _ => image.write_to(&mut content, format)?,
    }
    Ok(content.into_inner())
}

fn dynamic(picture: Picture, format: ImageFormat) -> DynamicImage {
    let (width, height, channels) = (picture.width() as u32, picture.height() as u32, picture.channels());
    let samples = match picture.into_samples() {
        Samples::Floats(levels) if channels < 3 || format != ImageFormat::Tiff => {
            let word = |level: f32| (level.clamp(0.0, 255.0) * 257.0).round_ties_even() as u16;
            Samples::Words(levels.into_iter().map(word).collect())
        }
        samples => samples,
    };
    macro_rules! buffer {
        ($variant:ident, $samples:expr) => {
            ImageBuffer::from_raw(width, height, $samples).map(DynamicImage::$variant)
        };
    }
    let image = match (channels, samples) {
        (1, Samples::Bytes(samples)) => buffer!(ImageLuma8, samples),
        (2, Samples::Bytes(samples)) => buffer!(ImageLumaA8, samples),
        (3, Samples::Bytes(samples)) => buffer!(ImageRgb8, samples),
        (_, Samples::Bytes(samples)) => buffer!(ImageRgba8, samples),
        (1, Samples::Words(samples)) => buffer!(ImageLuma16, samples),
        (2, Samples::Words(samples)) => buffer!(ImageLumaA16, samples),
        (3, Samples::Words(samples)) => buffer!(ImageRgb16, samples),
        (_, Samples::Words(samples)) => buffer!(ImageRgba16, samples),
        (3, Samples::Floats(levels)) => buffer!(ImageRgb32F, units(levels)),
        (_, Samples::Floats(levels)) => buffer!(ImageRgba32F, units(levels)),
    };
    image.expect("as many samples as the picture needs")
}

/// Grey levels as floats of 0 to 1.
fn units(mut levels: Vec<f32>) -> Vec<f32> {
    levels.iter_mut().for_each(|level| *level /= 255.0);
    levels
}

#[cfg(test)]
mod tests {
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::parameter::Value;

    use super::*;
    use crate::pictures::decode_picture::picture as decoded;

    fn files(row: Row, format: &str) -> (String, Vec<u8>) {
        let mut harness = Harness::new(&ENCODE, [("format", Value::Text(format.into()))]).unwrap();
        harness.give(PICTURES, row.envelope().unwrap());
        harness.end(PICTURES);
        harness.run().unwrap();
        assert!(harness.is_done() && harness.problems().is_empty(), "{:?}", harness.problems());
        let files = harness.taken(FILES);
        (
            files[0].texts("name").unwrap().value(0).to_owned(),
            files[0].binaries("bytes").unwrap().value(0).to_vec(),
        )
    }

    fn picture(channels: usize, deep: bool) -> Picture {
        let count = 6 * 5 * channels;
        let samples = if deep {
            Samples::Words((0..count).map(|idx| (idx * 400) as u16).collect())
        } else {
            Samples::Bytes((0..count).map(|idx| idx as u8).collect())
        };
        Picture::new(6, 5, channels, samples).unwrap()
    }

    #[test]
    fn depth_and_alpha_come_back_from_every_format_that_holds_them() {
        for channels in 1..5 {
            for deep in [false, true] {
                for format in ["png", "tiff"] {
                    if format == "tiff" && channels == 2 {
                        continue;
                    }
                    let row = Row { name: "a".into(), picture: picture(channels, deep), sigma: 0.0 };
                    let (_, content) = files(row.clone(), format);
                    assert_eq!(
                        decoded(&content).unwrap(),
                        row.picture,
                        "{channels} channels, {deep}, {format}"
                    );
                }
            }
        }
    }

    #[test]
    fn names_get_the_ending_of_another_format() {
        let check = |name: &str, channels: usize, deep: bool, format: &str, expected: &str| {
            let row = Row { name: name.into(), picture: picture(channels, deep), sigma: 0.0 };
            assert_eq!(files(row, format).0, expected);
        };
        check("p/a.JPG", 3, false, "auto", "p/a.JPG");
        check("p/a.jpg", 4, false, "auto", "p/a.jpg.png");
        check("p/a.bmp", 3, false, "auto", "p/a.bmp.png");
        check("p/a.tiff", 1, true, "auto", "p/a.tiff");
        check("p/a.png", 1, false, "jpeg", "p/a.png.jpg");
        check("p/a", 1, false, "auto", "p/a.png");
    }
}
