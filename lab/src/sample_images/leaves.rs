//! `leaves`: a litter of fallen (or still green) leaves, turned and lit at random, veined, over dark ground.

use super::canvas::{Bounds, Canvas};
use super::colour::{Colour, grey, ramp, rgb};
use super::curves::{angle, direction, fraction, length, lerp, sine, smooth, turned};
use super::noise::Noise;
use super::random::Random;

const PALETTES: [[Colour; 5]; 5] = [
    [rgb(0x7a2418), rgb(0xb8401e), rgb(0xd8772a), rgb(0xe8b040), rgb(0x8a5a2c)],
    [rgb(0xb88a20), rgb(0xe0b830), rgb(0xf0d060), rgb(0xa8a040), rgb(0xc87a28)],
    [rgb(0x5a3a20), rgb(0x8a5c30), rgb(0xb08448), rgb(0xc8a868), rgb(0x6a4028)],
    [rgb(0x8a1c20), rgb(0xb02a2a), rgb(0xc8483a), rgb(0x9a3830), rgb(0x5a2020)],
    [rgb(0x2c5a24), rgb(0x4c8030), rgb(0x7aa03c), rgb(0xa8b850), rgb(0x3a5a38)],
];

struct Leaf {
    centre: (f64, f64),
    axis: (f64, f64),
    size: f64,
    slim: f64,
    lobed: bool,
    colour: Colour,
    rim: Colour,
}

/// Paints one picture of the class.
pub fn paint(random: &mut Random, canvas: &mut Canvas) {
    let noise = Noise::new(random);
    let (wide, tall) = canvas.extent();
    let palette = random.favour(&PALETTES);
    let other = random.pick(&PALETTES);
    let mixed = random.pick(&[0.0, 0.1, 0.35]);
    let soil = random.pick(&[rgb(0x2a2018), rgb(0x3a3a36), rgb(0x2c3a1e), rgb(0x4a3826)]);
    canvas.paint(|x, y, _| {
        let grain = noise.fbm(x * 16.0, y * 16.0, 4);
        (soil * lerp(0.4, 1.5, grain)).mix(palette[4] * 0.6, smooth(0.5, 0.7, noise.fbm(x * 5.0, y * 5.0, 3)))
    });
    let size = random.between(0.06, 0.2);
    let (lobed, slim) = (random.chance(0.45), random.between(0.24, 0.6));
    let fill = random.between(0.7, 2.1);
    let count = ((fill * wide * tall / (size * size * 1.3)) as usize).clamp(10, 320);
    for layer in 0..count {
        let leaf = Leaf {
            centre: (wide * random.between(-0.08, 1.08), tall * random.between(-0.08, 1.08)),
            axis: direction(random.unit()),
            size: size * random.between(0.65, 1.25),
            slim: slim * random.between(0.85, 1.15),
            lobed: lobed != random.chance(0.12),
            colour: ramp(if random.chance(mixed) { &other } else { &palette }, random.unit())
                * (random.between(0.75, 1.15) * lerp(0.6, 1.0, layer as f64 / count as f64)),
            rim: ramp(&palette, random.unit()) * 0.8,
        };
        draw(canvas, &noise, &leaf);
    }
}

fn draw(canvas: &mut Canvas, noise: &Noise, leaf: &Leaf) {
    let local = |x: f64, y: f64| {
        let (u, v) = turned(x - leaf.centre.0, y - leaf.centre.1, leaf.axis);
        (u / leaf.size, v / leaf.size)
    };
    let shape = |u: f64, v: f64| {
        if leaf.lobed {
            let away = length(u, v);
            if away > 1.0 {
                // Outside the longest lobe the angle does not matter.
                return away - 0.97;
            }
            let turns = angle(u, v);
            // Five lobes and a notch at the stem.
            let lobe = 0.68 + 0.22 * sine(turns * 5.0 + 0.25) + 0.07 * sine(turns * 25.0);
            away - lobe * lerp(1.0, 0.4, smooth(0.36, 0.5, turns.abs()))
        } else {
            let width = leaf.slim * (1.0 - u * u) * (1.0 - 0.25 * u) + 0.02 * sine(u * 9.0);
            v.abs() - width.max(-0.5) + (u.abs() - 1.0).max(0.0)
        }
    };
    let near = Bounds::around((leaf.centre.0 + 0.012, leaf.centre.1 + 0.018), leaf.size * 1.05);
    let shade = |x: f64, y: f64| {
        let (u, v) = local(x - 0.012, y - 0.018);
        shape(u, v) * leaf.size
    };
    canvas.draw(near, 0.045, shade, |_, _, under| under * 0.5);
    let edge = |x: f64, y: f64| {
        let (u, v) = local(x, y);
        shape(u, v) * leaf.size
    };
    canvas.draw(Bounds::around(leaf.centre, leaf.size * 1.05), 0.0, edge, |x, y, _| {
        let (u, v) = local(x, y);
        let away = if leaf.lobed {
            // A vein runs into each lobe.
            let spoke = angle(u, v) * 5.0;
            (fraction(spoke + 0.5) - 0.5).abs() * length(u, v) * 1.2
        } else {
            let side = (u + v.abs() * 0.8) * 6.0;
            v.abs().min((fraction(side) - 0.5).abs() * 0.16 + 0.012)
        };
        let vein = smooth(0.035, 0.008, away);
        let blotch = noise.fbm(u * 2.5 + leaf.centre.0 * 40.0, v * 2.5 + leaf.centre.1 * 40.0, 3);
        let body = leaf.colour.mix(leaf.rim, smooth(0.42, 0.72, blotch - 0.3 * shape(u, v).max(-0.5)));
        let bend = 1.0 + 0.28 * (if v > 0.0 { 1.0 } else { -1.0 }) * leaf.axis.0 + 0.3 * (blotch - 0.5);
        (body * bend).mix(body * 1.35 + grey(0.05), vein * 0.6)
    });
}
