//! Every format becomes pictures of one size; what is broken or too large is refused with the reason.

use boxwork_runtime::harness::Harness;
use boxwork_runtime::parameter::Value;
use image::{ExtendedColorType, ImageEncoder, Rgb, Rgba};

use super::*;

fn encoded(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut content = Cursor::new(Vec::new());
    image.write_to(&mut content, format).unwrap();
    content.into_inner()
}

fn picture(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| Rgb([(x * 5) as u8, (y * 3) as u8, (x ^ y) as u8]))
}

fn files(contents: &[(&str, Vec<u8>)]) -> Envelope {
    let names: Vec<&str> = contents.iter().map(|(name, _)| *name).collect();
    let paths: Vec<String> = names.iter().map(|name| format!("/photos/{name}")).collect();
    let columns: [(&str, ArrayRef); 3] = [
        ("path", Arc::new(StringArray::from(paths))),
        ("name", Arc::new(StringArray::from(names))),
        ("bytes", Arc::new(BinaryArray::from_iter_values(contents.iter().map(|(_, content)| content)))),
    ];
    Envelope::from_columns(columns).unwrap()
}

fn check_refused(content: &[u8], words: &[&str]) {
    let message = decode_image(content).unwrap_err();
    assert!(words.iter().all(|word| message.contains(word)), "{message}");
}

#[test]
fn every_format_gives_the_picture() {
    let image = picture(40, 30);
    for format in [ImageFormat::Png, ImageFormat::Bmp, ImageFormat::Tiff, ImageFormat::WebP] {
        let content = encoded(&DynamicImage::from(image.clone()), format);
        assert_eq!(decode_image(&content).unwrap(), image, "{format:?}");
    }
    for format in [ImageFormat::Jpeg, ImageFormat::Gif] {
        let content = encoded(&DynamicImage::from(image.clone()), format);
        assert_eq!(decode_image(&content).unwrap().dimensions(), (40, 30), "{format:?}");
    }
}

#[test]
fn grey_deep_and_transparent_images_become_rgb() {
    let grey = DynamicImage::from(picture(9, 7)).into_luma8();
    let content = encoded(&DynamicImage::from(grey.clone()), ImageFormat::Png);
    assert_eq!(decode_image(&content).unwrap().get_pixel(3, 2).0, [grey.get_pixel(3, 2).0[0]; 3]);

    let deep = DynamicImage::from(DynamicImage::from(picture(9, 7)).into_rgb16());
    assert_eq!(decode_image(&encoded(&deep, ImageFormat::Png)).unwrap(), picture(9, 7));

    let clear = image::RgbaImage::from_fn(2, 1, |x, _| Rgba([10, 20, 30, if x == 0 { 0 } else { 128 }]));
    let decoded = decode_image(&encoded(&DynamicImage::from(clear), ImageFormat::Png)).unwrap();
    assert_eq!(decoded.get_pixel(0, 0).0, [255; 3]);
    assert_eq!(decoded.get_pixel(1, 0).0, [132, 137, 142]);
}

#[test]
fn follows_the_cameras_note_on_how_it_was_held() {
    // A big-endian TIFF header with one entry: orientation (0x0112), a short, 6: turn it clockwise.
    let exif = [&b"MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0"[..], &[0, 0, 0, 0]].concat();
    let mut content = Vec::new();
    let mut encoder = image::codecs::png::PngEncoder::new(&mut content);
    encoder.set_exif_metadata(exif).unwrap();
    encoder.write_image(picture(40, 30).as_raw(), 40, 30, ExtendedColorType::Rgb8).unwrap();
    assert_eq!(decode_image(&content).unwrap(), image::imageops::rotate90(&picture(40, 30)));
}

#[test]
fn of_an_animation_the_first_frame_is_taken() {
    let mut content = Vec::new();
    let mut encoder = image::codecs::gif::GifEncoder::new(&mut content);
    for colour in [[255, 0, 0, 255], [0, 255, 0, 255]] {
        let frame = image::RgbaImage::from_pixel(5, 4, Rgba(colour));
        encoder.encode_frame(image::Frame::new(frame)).unwrap();
    }
    drop(encoder);
    assert_eq!(decode_image(&content).unwrap().get_pixel(2, 2).0, [255, 0, 0]);
}

#[test]
fn broken_images_are_refused_with_the_reason() {
    check_refused(b"", &["empty"]);
    check_refused(b"hello, this is no image at all", &["no image of a known format", "JPEG"]);
    for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Bmp, ImageFormat::WebP] {
        let content = encoded(&DynamicImage::from(picture(64, 48)), format);
        // Cut anywhere, the image gives a picture or a message, never a panic.
        for cut in [0, 1, 10, 20, 30, content.len() / 2, content.len() - 1] {
            let _ = decode_image(&content[..cut]);
        }
        let half = &content[..content.len() / 2];
        if format != ImageFormat::Jpeg {
            check_refused(half, &["cannot be decoded"]);
        }
    }
}

#[test]
fn a_bad_file_is_reported_and_the_rest_goes_on() {
    let good = encoded(&DynamicImage::from(picture(40, 30)), ImageFormat::Png);
    let mut harness = Harness::new(&DECODE, [("size", Value::Integer(8))]).unwrap();
    harness.give(BYTES, files(&[("a.jpg", good.clone()), ("b.png", good[..40].to_vec()), ("c.png", good)]));
    harness.end(BYTES);
    harness.run().unwrap();
    assert!(harness.is_done());
    let envelopes = harness.taken(PIXELS);
    let pixels = &envelopes[0];
    assert_eq!(pixels.texts("name").unwrap().iter().flatten().collect::<Vec<_>>(), ["a.jpg", "c.png"]);
    assert_eq!(pixels.u32s("width").unwrap(), [40, 40]);
    assert_eq!(pixels.u32s("scaled_height").unwrap(), [8, 8]);
    assert_eq!(pixels.binaries("rgb").unwrap().value(1).len(), 8 * 8 * 3);
    assert_eq!(harness.problems().len(), 1);
    assert_eq!(harness.problems()[0].subject, "/photos/b.png");
}

#[test]
fn large_pictures_are_split_over_envelopes() {
    let content = encoded(&DynamicImage::from(picture(4, 4)), ImageFormat::Png);
    let mut harness = Harness::new(&DECODE, [("size", Value::Integer(1024))]).unwrap();
    harness.room(1);
    harness.give(BYTES, files(&[("a", content.clone()), ("b", content)]));
    harness.end(BYTES);
    let mut rows = Vec::new();
    while !harness.is_done() {
        harness.run().unwrap();
        rows.extend(harness.taken(PIXELS).iter().map(Envelope::rows));
    }
    assert_eq!(rows, [1, 1]);
}

#[test]
fn scaling_gives_the_same_bits_on_every_machine() {
    // The checksums come from `CpuExtensions::None`; SSE4.1 and AVX2 gave equal ones on these and on 3,000 random
    // images of 1 to 400 pixels a side.
    let mut state = 1u64;
    let mut noise = |width, height| {
        RgbImage::from_fn(width, height, |_, _| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            Rgb([(state >> 56) as u8, (state >> 48) as u8, (state >> 40) as u8])
        })
    };
    let mut check = |width, height, size, expected: u32| {
        let scaled = Scaler::new(size, true).scale(&noise(width, height)).unwrap();
        assert_eq!(crc32fast::hash(&scaled), expected, "{width} x {height} to {size}");
    };
    check(397, 211, 150, 0x097e_4316);
    check(1, 1, 150, 0x9488_0081);
    check(31, 600, 17, 0x5f89_3221);
}

#[test]
fn the_middle_square_is_cut_out_and_not_stretched() {
    // Left and right of the middle square of 30 pixels are 20 other ones.
    let inside = |x: u32, from: u32, to: u32| (from..to).contains(&x);
    let wide = RgbImage::from_fn(70, 30, |x, _| Rgb(if inside(x, 20, 50) { [10, 20, 30] } else { [255; 3] }));
    let tall = image::imageops::rotate90(&wide);
    for image in [&wide, &tall] {
        let scaled = Scaler::new(15, true).cropping(15).scale(image).unwrap();
        let middle: Vec<_> = scaled.chunks(3).skip(15 * 7 + 2).take(11).collect();
        assert!(middle.iter().all(|pixel| *pixel == [10, 20, 30]), "{middle:?}");
    }
    // A square of 40 pixels keeps its middle 32 where the shorter side has 40: a pixel for a pixel.
    let image = picture(40, 40);
    let scaled = Scaler::new(32, true).cropping(40).scale(&image).unwrap();
    let expected = image::imageops::crop_imm(&image, 4, 4, 32, 32).to_image();
    assert_eq!(scaled, expected.into_raw());
    assert_eq!(Scaler::new(7, true).cropping(8).scale(&picture(1, 1)).unwrap().len(), 7 * 7 * 3);
    assert_eq!(Scaler::new(7, true).cropping(8).scale(&picture(1, 999)).unwrap().len(), 7 * 7 * 3);
}

#[test]
fn a_square_that_does_not_fit_is_refused_with_the_fix() {
    let refused = |given: &[(&'static str, Value)]| {
        Harness::new(&DECODE, given.iter().cloned()).err().unwrap().to_string()
    };
    let crop = ("fit", Value::Text("crop".into()));
    let message = refused(&[crop, ("shorter", Value::Integer(100))]);
    assert!(message.contains("`size: 150`") && message.contains("`shorter: 100`"), "{message}");
    assert!(refused(&[("shorter", Value::Integer(256))]).contains("`fit: crop`"));
}

#[test]
fn a_flat_image_stays_flat() {
    for exact in [true, false] {
        let flat = RgbImage::from_pixel(700, 301, Rgb([10, 200, 77]));
        let scaled = Scaler::new(150, exact).scale(&flat).unwrap();
        assert!(scaled.chunks(3).all(|pixel| pixel == [10, 200, 77]), "exact: {exact}");
    }
}
