//! Pictures that people upload to `boxwork serve`: of animations the first frame counts, unusual ones are decoded, and
//! what is no picture, damaged or a bomb is refused by what it is, within bounded memory.
#![cfg(unix)]

#[path = "support/command.rs"]
mod command;
#[path = "support/pictures.rs"]
mod pictures;
#[path = "support/http.rs"]
mod http;
#[path = "support/served.rs"]
mod served;

use std::path::Path;

use http::Answer;
use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
use serde_json::{Value as Json, json};
use served::Served;

fn data() -> &'static Path {
    served::photos(6)
}

fn serve() -> Served {
    Served::start(data(), &["--store", "photos.arrow"])
}

fn upload(served: &Served, media: &str, content: &[u8]) -> Answer {
    let header = format!("Content-Type: {media}");
    served.send("POST", "/v1/stores/photos/search?k=12", &[&header], Some(content))
}

/// A picture of three stripes, whose colours begin with this one.
fn striped(first: [u8; 3]) -> RgbImage {
    let colours = [first, [240, 230, 20], [30, 40, 200]];
    RgbImage::from_fn(48, 32, |x, _| Rgb(colours[x as usize / 16]))
}

fn png(image: &RgbImage) -> Vec<u8> {
    pictures::encoded(&DynamicImage::from(image.clone()), ImageFormat::Png)
}

/// The found objects and their distances.
fn hits(answer: &Answer) -> Json {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let hits = answer.json()["hits"].clone();
    assert_eq!(hits.as_array().map(Vec::len), Some(12));
    hits
}

#[test]
fn of_an_animation_the_first_frame_is_searched() {
    let served = serve();
    let (first, second) = (striped([200, 30, 30]), striped([20, 160, 60]));
    let of_first = hits(&upload(&served, "image/png", &png(&first)));
    let of_second = hits(&upload(&served, "image/png", &png(&second)));
    assert_ne!(of_first, of_second, "the frames differ in what they find");
    for (media, content) in [
        ("image/png", pictures::animated_png(&[&first, &second])),
        ("image/apng", pictures::animated_png(&[&first, &second])),
        ("image/webp", pictures::animated_webp(&[&first, &second])),
        ("image/gif", pictures::animated_gif(&[&first, &second])),
    ] {
        let answer = upload(&served, media, &content);
        assert_eq!(hits(&answer), of_first, "{media}");
        assert_eq!(
            (&answer.json()["query"]["width"], &answer.json()["query"]["height"]),
            (&json!(48), &json!(32)),
            "{media}"
        );
    }
}

#[test]
fn a_jpeg_of_printing_inks_is_searched_by_its_colours() {
    let served = serve();
    // Red is yellow and magenta ink; its neighbours are yellow, and cyan with magenta.
    let inks = [[0, 255, 255, 0], [0, 0, 255, 0], [255, 255, 0, 0]];
    let decoded = image::load_from_memory(&pictures::cmyk_jpeg(&inks)).expect("a JPEG").into_rgb8();
    assert_eq!(decoded.dimensions(), (24, 8));
    for (x, [red, green, blue]) in [(4, [255, 0, 0]), (12, [255, 255, 0]), (20, [0, 0, 255])] {
        let found = decoded.get_pixel(x, 4).0;
        let differs = found.iter().zip([red, green, blue]).any(|(found, wanted)| found.abs_diff(wanted) > 8);
        assert!(!differs, "{found:?} at {x}");
    }
    let of_inks = hits(&upload(&served, "image/jpeg", &pictures::cmyk_jpeg(&inks)));
    assert_eq!(of_inks, hits(&upload(&served, "image/png", &png(&decoded))));
}

#[test]
fn what_is_no_picture_is_refused_by_what_it_is() {
    let served = serve();
    let refused = |media: &str, content: &[u8]| {
        let answer = upload(&served, media, content);
        (answer.status, answer.problem(), answer.json()["detail"].as_str().expect("a detail").to_owned())
    };
    let photo = std::fs::read_dir(data().join("photos")).expect("classes").next().expect("one").expect("it");
    let photo = std::fs::read_dir(photo.path()).expect("photos").next().expect("one").expect("it");
    let jpeg = std::fs::read(photo.path()).expect("a photo");
    let svg: &[u8] = b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>";
    let whole = png(&striped([9, 9, 9]));
    for (media, content, status, words) in [
        ("image/png", &b""[..], 422, "no bytes"),
        ("image/jpeg", b"This is a letter and no picture.", 415, "known format"),
        ("text/plain", b"This is a letter and no picture.", 415, "application/json"),
        ("image/svg+xml", svg, 415, "image/jpeg"),
        ("image/png", svg, 415, "known format"),
        ("image/jpeg", &jpeg[..jpeg.len() / 2], 422, "cut short"),
        ("image/jpeg", &jpeg[..3], 422, "JPEG"),
        ("image/png", &whole[..whole.len() / 2], 422, "PNG"),
    ] {
        let (found, problem, detail) = refused(media, content);
        assert_eq!(found, status, "{media} {detail}");
        assert_eq!(problem, if status == 415 { "media" } else { "image" }, "{detail}");
        assert!(detail.contains(words), "{detail}");
    }
}

/// The most memory that a process has had at a time, in bytes.
fn memory_max(served: &Served) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", served.child.id())).expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number of kB") << 10
}

#[cfg(target_os = "linux")]
#[test]
fn bombs_take_little_memory() {
    const MORE_MAX: u64 = 96 << 20;
    let served = serve();
    upload(&served, "image/png", &png(&striped([1, 2, 3])));
    let before = memory_max(&served);
    // 144 megapixels, whole: their bytes would fit, but no picture may have so many.
    let many = pictures::png_of_zeros((12_000, 12_000), 12_000 * (1 + 3 * 12_000));
    let huge = pictures::png_of_zeros((65_500, 65_500), 1 << 20);
    for (content, words) in [(&many, "12000 x 12000"), (&huge, "65500 x 65500")] {
        let answer = upload(&served, "image/png", content);
        assert_eq!((answer.status, answer.problem().as_str()), (422, "image"), "{}", answer.text());
        assert!(answer.text().contains(words), "{}", answer.text());
    }
    // 16 by 16 pixels by its head, and a stream of 256 MiB.
    let inflating = pictures::png_of_zeros((16, 16), 256 << 20);
    assert!(inflating.len() < 1 << 20);
    let answer = upload(&served, "image/png", &inflating);
    assert!(answer.status == 200 || answer.status == 422, "{}", answer.text());
    let more = memory_max(&served).saturating_sub(before);
    assert!(more < MORE_MAX, "{} MiB more for files of which none needs any", more >> 20);
    assert_eq!(served.get("/healthz").status, 200);
}
