//! `newspaper`: columns of print under headlines, with half-tone pictures, on white, grey, yellowed or salmon paper.

use super::canvas::{Bounds, Canvas};
use super::colour::{Colour, rgb};
use super::curves::{direction, floor, fraction, length, lerp, sine, smooth, turned};
use super::noise::Noise;
use super::random::Random;

struct Page {
    noise: Noise,
    middle: (f64, f64),
    axis: (f64, f64),
    ink: Colour,
}

/// Paints one picture of the class.
pub fn paint(random: &mut Random, canvas: &mut Canvas) {
    let (wide, tall) = canvas.extent();
    let paper = random.pick(&[
        rgb(0xeeeae0),
        rgb(0xd8d6d0),
        rgb(0xe6d8b4),
        rgb(0xf0d0b8),
        rgb(0xf6f5f0),
        rgb(0xc8b488),
    ]);
    let page = Page {
        noise: Noise::new(random),
        middle: (wide * 0.5, tall * 0.5),
        axis: direction(if random.chance(0.25) {
            random.between(-0.12, 0.12)
        } else {
            random.bell() * 0.015
        }),
        ink: random.pick(&[rgb(0x1c1c20), rgb(0x3a3632), rgb(0x2a2c3a)]),
    };
    canvas.paint(|x, y, _| paper * lerp(0.9, 1.06, page.noise.fbm(x * 6.0, y * 6.0, 5)));
    let line = random.between(0.018, 0.04);
    let columns = random.count(2, 4);
    let (left, right) = (-0.25, wide + 0.25);
    let gap = line * random.between(0.7, 1.2);
    let column = (right - left + gap) / columns as f64;
    let mut top = -0.3;
    if random.chance(0.65) {
        top = random.between(-0.1, 0.15);
        let height = random.between(0.07, 0.16);
        headline(random, canvas, &page, (left + 0.25, top, right - 0.2, height));
        top += height * 1.5;
    }
    for idx in 0..columns {
        let x = left + column * idx as f64;
        fill(random, canvas, &page, (x, top, x + column - gap, tall + 0.2), line);
        if random.chance(0.5) {
            let rule = x + column - gap * 0.5;
            page.block(canvas, (rule - 0.0015, top, rule + 0.0015, tall + 0.2), |_, _, under| {
                under.mix(page.ink, 0.6)
            });
        }
    }
    let (shade, slope) = (random.between(0.6, 1.0), direction(random.unit()));
    let crease = random.between(-0.4, 0.4);
    canvas.paint(|x, y, under| {
        let along = turned(x - page.middle.0, y - page.middle.1, slope).0;
        let fold =
            1.0 - 0.16 * smooth(0.06, 0.0, (along - crease).abs()) * smooth(-0.01, 0.01, along - crease);
        under * (lerp(shade, 1.05, smooth(-0.7, 0.7, along)) * fold)
    });
}

/// Fills a column from its top with paragraphs, small headlines and pictures.
fn fill(
    random: &mut Random,
    canvas: &mut Canvas,
    page: &Page,
    (left, top, right, bottom): (f64, f64, f64, f64),
    line: f64,
) {
    let mut y = top;
    while y < bottom {
        match random.below(7) {
            0 => {
                let height = (right - left) * random.between(0.5, 0.9);
                picture(random, canvas, page, (left, y, right, y + height));
                y += height + line;
            }
            1 | 2 => {
                let height = line * random.between(1.6, 2.8);
                headline(random, canvas, page, (left, y, right, height));
                y += height * 1.35;
            }
            _ => {
                let lines = random.count(5, 14);
                for row in 0..lines {
                    let indent = if row == 0 { line } else { 0.0 };
                    let end =
                        if row + 1 == lines { lerp(left, right, random.between(0.3, 0.9)) } else { right };
                    words(random, canvas, page, (left + indent, y, end), (line * 0.58, 0.8));
                    y += line;
                }
                y += line * 0.4;
            }
        }
    }
}

fn headline(
    random: &mut Random,
    canvas: &mut Canvas,
    page: &Page,
    (left, top, right, height): (f64, f64, f64, f64),
) {
    let end = lerp(left, right, random.between(0.7, 1.0));
    words(random, canvas, page, (left, top, end), (height * 0.8, 1.0));
}

/// One line of words: blocks of strokes, some with ascenders.
fn words(
    random: &mut Random,
    canvas: &mut Canvas,
    page: &Page,
    (left, top, right): (f64, f64, f64),
    (height, black): (f64, f64),
) {
    let letter = height * 0.72;
    let mut x = left;
    loop {
        let width = letter * random.count(2, 9) as f64;
        if x + width > right {
            return;
        }
        let (start, phase) = (x, random.below(200) as i64);
        page.block(canvas, (x, top, x + width, top + height), |u, v, under| {
            let at = (u - start) / letter;
            let (glyph, inside) = (floor(at) + phase, fraction(at));
            let (kind, row) = (page.noise.of(glyph, 1), (v - top) / height);
            let tall = page.noise.of(glyph, 2) > 0.68;
            let stem =
                smooth(0.36, 0.2, (inside - 0.22).abs()) + smooth(0.3, 0.16, (inside - 0.72).abs()) * kind;
            let bar = smooth(0.2, 0.08, (row - lerp(0.35, 0.9, page.noise.of(glyph, 3))).abs())
                * smooth(0.5, 0.4, (inside - 0.45).abs());
            let rise = if tall { 1.0 } else { smooth(0.22, 0.32, row) };
            under.mix(page.ink, black * (stem + bar).min(1.0) * rise)
        });
        x += width + letter * 0.8;
    }
}

fn picture(
    random: &mut Random,
    canvas: &mut Canvas,
    page: &Page,
    (left, top, right, bottom): (f64, f64, f64, f64),
) {
    let (scale, offset) = (random.between(3.0, 8.0), random.between(0.0, 50.0));
    let dots = random.between(55.0, 90.0);
    let head = (lerp(left, right, random.between(0.3, 0.7)), lerp(top, bottom, 0.45));
    let size = (bottom - top) * random.between(0.2, 0.32);
    page.block(canvas, (left, top, right, bottom), |u, v, under| {
        let scene = page.noise.fbm(u * scale + offset, v * scale, 4);
        let (du, dv) = ((u - head.0) / size, (v - head.1) / size);
        let figure = smooth(1.05, 0.95, length(du, dv * 0.8)).max(smooth(
            1.05,
            0.95,
            length(du * 0.55, (dv - 2.2) * 0.8),
        ));
        let tone = lerp(scene * 1.5 - 0.25, 0.35 + 0.5 * scene + 0.2 * du, figure);
        let screen = 0.5 + 0.25 * (sine((u + v) * dots) + sine((u - v) * dots));
        under.mix(page.ink, 0.9 * smooth(-0.35, 0.35, screen - tone))
    });
}

impl Page {
    /// Draws an upright rectangle of the page, which itself lies askew in the picture.
    fn block(
        &self,
        canvas: &mut Canvas,
        (left, top, right, bottom): (f64, f64, f64, f64),
        colour: impl Fn(f64, f64, Colour) -> Colour,
    ) {
        let on_page = |x: f64, y: f64| {
            let (u, v) = turned(x - self.middle.0, y - self.middle.1, self.axis);
            (u + self.middle.0, v + self.middle.1)
        };
        let (dx, dy) = ((left + right) * 0.5 - self.middle.0, (top + bottom) * 0.5 - self.middle.1);
        let (x, y) = (dx * self.axis.0 - dy * self.axis.1, dx * self.axis.1 + dy * self.axis.0);
        let (w, h) = ((right - left) * 0.5, (bottom - top) * 0.5);
        let (rx, ry) =
            (w * self.axis.0.abs() + h * self.axis.1.abs(), w * self.axis.1.abs() + h * self.axis.0.abs());
        let (cx, cy) = (x + self.middle.0, y + self.middle.1);
        let shape = |x: f64, y: f64| {
            let (u, v) = on_page(x, y);
            (left - u).max(u - right).max(top - v).max(v - bottom)
        };
        canvas.draw(Bounds::of(cx - rx, cy - ry, cx + rx, cy + ry), 0.0, shape, |x, y, under| {
            let (u, v) = on_page(x, y);
            colour(u, v, under)
        });
    }
}
