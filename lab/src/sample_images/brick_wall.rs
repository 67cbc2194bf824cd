//! `brick_wall`: courses of bricks in running bond, each with its own tone, worn edges, at times paint, ivy or a window.

use super::canvas::{Bounds, Canvas};
use super::colour::{Colour, grey, ramp, rgb};
use super::curves::{direction, floor, fraction, lerp, smooth, turned};
use super::noise::Noise;
use super::random::Random;

const CLAYS: [[Colour; 4]; 6] = [
    [rgb(0x5c2a20), rgb(0x8f4230), rgb(0xb0583c), rgb(0xc87a58)],
    [rgb(0x4a2424), rgb(0x6f3630), rgb(0x8c4a40), rgb(0x5a4440)],
    [rgb(0x6a3c24), rgb(0xa4622f), rgb(0xc4884a), rgb(0xd8a870)],
    [rgb(0x3c3c44), rgb(0x5c5a5e), rgb(0x7a6e6c), rgb(0x8c5a4c)],
    [rgb(0x8a7458), rgb(0xb49c74), rgb(0xd0bc94), rgb(0xa88a60)],
    [rgb(0xb8b4ac), rgb(0xd8d4cc), rgb(0xe6e2da), rgb(0xc4b8a8)],
];

/// Paints one picture of the class.
pub fn paint(random: &mut Random, canvas: &mut Canvas) {
    let noise = Noise::new(random);
    let (wide, tall) = canvas.extent();
    let clay = random.favour(&CLAYS);
    let mortar = random.favour(&[rgb(0xc8c0b4), rgb(0x8c857c), rgb(0x5a524c), rgb(0xdcd4c4)]);
    let height = random.between(0.05, 0.12);
    let width = height * random.between(2.2, 3.4);
    let joint = height * random.between(0.05, 0.13);
    let axis = direction(random.bell() * 0.05);
    let skew = if random.chance(0.3) { random.between(-0.45, 0.45) } else { 0.0 };
    let (wear, bevel) = (random.between(0.2, 0.7), random.between(0.1, 0.5));
    canvas.paint(|x, y, _| {
        // A wall seen from the side: one end is nearer.
        let zoom = 1.0 + skew * (x / wide - 0.5);
        let (u, v) = turned(x / zoom, (y - tall * 0.5) / zoom, axis);
        let row = floor(v / height);
        let shift = 0.5 * (row & 1) as f64 + 0.08 * noise.of(row, 7);
        let column = floor(u / width + shift);
        let (left, top) = (fraction(u / width + shift) * width, fraction(v / height) * height);
        let crumble = 0.5 * joint * (noise.fbm(u * 26.0, v * 26.0, 2) - 0.5);
        let inside = left.min(width - left).min(top.min(height - top)) - joint * 0.5 + crumble;
        let tone = noise.of(column, row);
        let grain = noise.fbm(u * 34.0, v * 44.0, 4);
        let patch = noise.fbm(u * 2.0, v * 2.0, 3) - 0.5;
        let face = ramp(&clay, tone + 0.6 * patch) * lerp(1.0 - wear, 1.0 + wear, grain);
        let rim =
            bevel * (smooth(joint, 0.0, top - joint * 0.5) - smooth(joint, 0.0, height - top - joint * 0.5));
        let gap = mortar * lerp(0.55, 1.15, grain) * lerp(0.7, 1.0, smooth(0.0, joint, top));
        gap.mix(face * (1.0 + rim), smooth(-0.2 * joint, 0.25 * joint, inside))
    });
    match random.below(10) {
        0 | 1 => ivy(random, canvas, &noise),
        2 => window(random, canvas),
        3 => plaster(random, canvas, &noise),
        _ => {}
    }
    let (from, to) = (random.between(0.65, 1.05), random.between(0.9, 1.1));
    let slope = direction(random.unit());
    canvas.paint(|x, y, under| {
        let along = turned(x - wide * 0.5, y - tall * 0.5, slope).0;
        under * lerp(from, to, smooth(-0.6, 0.6, along))
    });
}

fn ivy(random: &mut Random, canvas: &mut Canvas, noise: &Noise) {
    let (wide, tall) = canvas.extent();
    let leaf = random.favour(&[
        [rgb(0x1c3818), rgb(0x3f6a2c), rgb(0x7a9a48)],
        [rgb(0x5a1c14), rgb(0xa83a20), rgb(0xd88a3a)],
    ]);
    let (side, reach) = (random.chance(0.5), random.between(0.2, 0.6));
    canvas.paint(|x, y, under| {
        let edge = if side { x / wide } else { y / tall };
        let mass = noise.fbm(x * 5.0, y * 5.0, 4) + 0.5 * (reach - edge);
        let cover = smooth(0.5, 0.54, mass);
        if cover == 0.0 {
            return under;
        }
        let cell = noise.cell(x * 26.0, y * 26.0);
        let colour = ramp(&leaf, cell.tone) * lerp(1.15, 0.45, smooth(0.1, 0.7, cell.nearest));
        under.mix(colour, cover)
    });
}

fn window(random: &mut Random, canvas: &mut Canvas) {
    let (wide, tall) = canvas.extent();
    let (left, top) = (wide * random.between(0.1, 0.6), tall * random.between(0.05, 0.4));
    let (right, bottom) = (left + random.between(0.25, 0.4), top + random.between(0.35, 0.55));
    let frame = random.pick(&[rgb(0xe8e4dc), rgb(0x3a4a3c), rgb(0x6a4a34)]);
    canvas.rectangle(left - 0.025, top - 0.02, right + 0.025, bottom + 0.035, frame * 0.75);
    canvas.rectangle(left - 0.015, top - 0.015, right + 0.015, bottom + 0.015, frame);
    let glass = [rgb(0x2c3c4c), rgb(0x7a93a8)];
    for (i, j) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        let (w, h) = ((right - left) * 0.5, (bottom - top) * 0.5);
        let (x0, y0) = (left + w * f64::from(i) + 0.008, top + h * f64::from(j) + 0.008);
        let pane = |x: f64, y: f64| (x0 - x).max(x - x0 - w + 0.016).max(y0 - y).max(y - y0 - h + 0.016);
        canvas
            .draw(Bounds::of(x0, y0, x0 + w, y0 + h), 0.0, pane, |x, y, _| ramp(&glass, (x - y) * 1.2 + 0.4));
    }
}

fn plaster(random: &mut Random, canvas: &mut Canvas, noise: &Noise) {
    let colour = random.pick(&[rgb(0xd8ccb4), rgb(0xb8b0a8), rgb(0xc89a78), rgb(0x9ab0b4)]);
    let cover = random.between(0.42, 0.56);
    canvas.paint(|x, y, under| {
        let mass = noise.fbm(x * 2.2 + 9.0, y * 2.2, 5);
        let rough = noise.fbm(x * 20.0, y * 20.0, 3) - 0.5;
        let edge = smooth(cover, cover + 0.012, mass);
        let rim = smooth(cover - 0.03, cover, mass) * (1.0 - edge);
        (under * (1.0 - 0.45 * rim)).mix(colour * (1.0 + 0.25 * rough) + grey(0.03), edge)
    });
}
