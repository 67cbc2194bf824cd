//! Files of pictures that no encoder at hand writes: animations, printing inks, bombs.

use std::io::{Cursor, Write as _};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use image::codecs::gif::GifEncoder;
use image::{DynamicImage, Frame, ImageFormat, RgbImage};

pub fn encoded(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut content = Cursor::new(Vec::new());
    image.write_to(&mut content, format).expect("an encoder");
    content.into_inner()
}

pub fn animated_gif(frames: &[&RgbImage]) -> Vec<u8> {
    let mut content = Vec::new();
    let mut encoder = GifEncoder::new(&mut content);
    for frame in frames {
        let rgba = DynamicImage::from((*frame).clone()).into_rgba8();
        encoder.encode_frame(Frame::new(rgba)).expect("an encoder");
    }
    drop(encoder);
    content
}

const PNG_START: &[u8] = b"\x89PNG\r\n\x1a\n";

/// A chunk of a PNG: its length, name, content and checksum.
fn chunk(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let mut crc = flate2::Crc::new();
    crc.update(name);
    crc.update(content);
    [&(content.len() as u32).to_be_bytes()[..], name, content, &crc.sum().to_be_bytes()].concat()
}

/// The head of a PNG with 8 bits a channel: colour 0 is grey, 2 is RGB.
fn png_head((width, height): (u32, u32), colour: u8) -> Vec<u8> {
    let head = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, colour, 0, 0, 0]].concat();
    [PNG_START, &chunk(b"IHDR", &head)].concat()
}

/// A picture's rows as the stream of a PNG.
fn png_stream(image: &RgbImage) -> Vec<u8> {
    let mut stream = ZlibEncoder::new(Vec::new(), Compression::default());
    for row in image.as_raw().chunks(3 * image.width() as usize) {
        stream.write_all(&[&[0], row].concat()).expect("in memory");
    }
    stream.finish().expect("in memory")
}

/// An animated PNG (PNG, third edition, section 11.3.6): `acTL`, and for each frame `fcTL` and its stream.
pub fn animated_png(frames: &[&RgbImage]) -> Vec<u8> {
    let (width, height) = frames[0].dimensions();
    let mut content = png_head((width, height), 2);
    content.extend(chunk(b"acTL", &[(frames.len() as u32).to_be_bytes(), [0; 4]].concat()));
    let mut sequence = 0_u32;
    let mut number = || {
        sequence += 1;
        (sequence - 1).to_be_bytes()
    };
    for (nth, frame) in frames.iter().enumerate() {
        let place = [number(), width.to_be_bytes(), height.to_be_bytes(), [0; 4], [0; 4]].concat();
        // A tenth of a second, then the next frame.
        content.extend(chunk(b"fcTL", &[&place[..], &[0, 1, 0, 10, 0, 0]].concat()));
        let stream = png_stream(frame);
        content.extend(match nth {
            0 => chunk(b"IDAT", &stream),
            _ => chunk(b"fdAT", &[&number()[..], &stream].concat()),
        });
    }
    [content, chunk(b"IEND", b"")].concat()
}

/// A PNG of this size by its head, whose stream inflates to this many zeros.
pub fn png_of_zeros(size: (u32, u32), zeros: usize) -> Vec<u8> {
    const PIECE: usize = 1 << 16;
    let mut stream = ZlibEncoder::new(Vec::new(), Compression::best());
    for at in (0..zeros).step_by(PIECE) {
        stream.write_all(&[0; PIECE][..PIECE.min(zeros - at)]).expect("in memory");
    }
    let stream = stream.finish().expect("in memory");
    [png_head(size, 2), chunk(b"IDAT", &stream), chunk(b"IEND", b"")].concat()
}

/// An animated WebP: the frames of still ones in `ANMF` chunks.
pub fn animated_webp(frames: &[&RgbImage]) -> Vec<u8> {
    let part = |name: &[u8; 4], content: &[u8]| {
        let pad = vec![0; content.len() % 2];
        [&name[..], &(content.len() as u32).to_le_bytes(), content, &pad].concat()
    };
    let three = |number: u32| number.to_le_bytes()[..3].to_vec();
    let (width, height) = frames[0].dimensions();
    // Bit 1 says that it is an animation.
    let extended = [vec![2, 0, 0, 0], three(width - 1), three(height - 1)].concat();
    let mut parts = part(b"VP8X", &extended);
    parts.extend(part(b"ANIM", &[0, 0, 0, 0, 0, 0]));
    for frame in frames {
        let still = encoded(&DynamicImage::from((*frame).clone()), ImageFormat::WebP);
        // Without the still one's head: `RIFF`, its length, `WEBP`.
        let image = &still[12..];
        let place = [three(0), three(0), three(width - 1), three(height - 1), three(100), vec![2]].concat();
        parts.extend(part(b"ANMF", &[&place[..], image].concat()));
    }
    part(b"RIFF", &[b"WEBP", &parts[..]].concat())
}

/// Bits of a JPEG's scan, the highest first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    held: u32,
    count: u32,
}

impl Bits {
    fn push(&mut self, value: u32, count: u32) {
        for at in (0..count).rev() {
            self.held = self.held << 1 | (value >> at & 1);
            self.count += 1;
            if self.count == 8 {
                self.bytes.push(self.held as u8);
                // A byte of ones is followed by a zero, as it would begin a marker.
                if self.held as u8 == 0xff {
                    self.bytes.push(0);
                }
                (self.held, self.count) = (0, 0);
            }
        }
    }
}

/// A JPEG of cyan, magenta, yellow and black inks: squares of 8 by 8 pixels in a row, each of one colour, 255 is all ink.
///
/// ITU-T T.81, baseline, with constant terms only; the marker APP14 says that inks are kept inverted, as Adobe does.
pub fn cmyk_jpeg(squares: &[[u8; 4]]) -> Vec<u8> {
    let segment = |marker: u8, content: &[u8]| {
        [&[0xff, marker][..], &(content.len() as u16 + 2).to_be_bytes(), content].concat()
    };
    let width = (8 * squares.len() as u16).to_be_bytes();
    let components = [1, 2, 3, 4].map(|component| [component, 0x11, 0]).concat();
    let scanned = [1, 2, 3, 4].map(|component| [component, 0]).concat();
    // Differences of up to 12 bits: the lengths of their codes are all 4, in the order of the bits.
    let constants = [&[0, 0, 0, 0, 12][..], &[0; 12], &(0..12).collect::<Vec<u8>>()].concat();
    // Of the other terms there is one code of one bit: no more in this square.
    let others = [&[0x10, 1][..], &[0; 15], &[0]].concat();
    let mut bits = Bits::default();
    let mut before = [0; 4];
    for square in squares {
        for (component, ink) in square.iter().enumerate() {
            // The constant term is eight times the mean about zero, and is divided by 8.
            let term = i32::from(255 - ink) - 128;
            let difference = term - before[component];
            before[component] = term;
            let size = 32 - difference.unsigned_abs().leading_zeros();
            bits.push(size, 4);
            // Negative differences are their bits' complement.
            let value = if difference < 0 { difference - 1 } else { difference };
            bits.push(value as u32 & ((1 << size) - 1), size);
            bits.push(0, 1);
        }
    }
    bits.push(0x7f, 7);
    [
        vec![0xff, 0xd8],
        segment(0xee, b"Adobe\0\x64\0\0\0\0\0"),
        segment(0xdb, &[&[0][..], &[8; 64]].concat()),
        segment(0xc0, &[&[8, 0, 8][..], &width, &[4], &components].concat()),
        segment(0xc4, &constants),
        segment(0xc4, &others),
        segment(0xda, &[&[4][..], &scanned, &[0, 63, 0]].concat()),
        bits.bytes,
        vec![0xff, 0xd9],
    ]
    .concat()
}
