//! `flower_meadow`: grass with poppies, daisies, bells and buttercups that grow towards the viewer, a strip of sky or wood.

use super::canvas::{Bounds, Canvas};
use super::colour::{Colour, grey, ramp, rgb};
use super::curves::{angle, length, lerp, sine, smooth};
use super::noise::Noise;
use super::random::Random;

#[derive(Clone, Copy)]
struct Flower {
    petal: Colour,
    heart: Colour,
    petals: f64,
}

const FLOWERS: [Flower; 8] = [
    Flower { petal: rgb(0xd83020), heart: rgb(0x2a1a18), petals: 4.0 },
    Flower { petal: rgb(0xf4f4ee), heart: rgb(0xf0c020), petals: 11.0 },
    Flower { petal: rgb(0xf2cc1e), heart: rgb(0xc08a10), petals: 5.0 },
    Flower { petal: rgb(0x7a5ac8), heart: rgb(0x3a2a70), petals: 6.0 },
    Flower { petal: rgb(0xe878b0), heart: rgb(0xf6dc70), petals: 5.0 },
    Flower { petal: rgb(0x4a78d8), heart: rgb(0xe8e8f8), petals: 8.0 },
    Flower { petal: rgb(0xf08a28), heart: rgb(0x6a3010), petals: 7.0 },
    Flower { petal: rgb(0xb83a8a), heart: rgb(0xf0e090), petals: 9.0 },
];

/// Paints one picture of the class.
pub fn paint(random: &mut Random, canvas: &mut Canvas) {
    let noise = Noise::new(random);
    let (wide, tall) = canvas.extent();
    let grass = random.pick(&[
        [rgb(0x22381a), rgb(0x4e7a2c), rgb(0x9dbb4e)],
        [rgb(0x2a4220), rgb(0x6c8a34), rgb(0xc8c860)],
        [rgb(0x1c3a28), rgb(0x3f7a48), rgb(0x8fbf7a)],
        [rgb(0x4a4420), rgb(0x908a3c), rgb(0xd8c878)],
    ]);
    let horizon = if random.chance(0.3) { -0.05 } else { tall * random.between(0.06, 0.42) };
    let sky = random.pick(&[
        [rgb(0x4a90d0), rgb(0xd4e8f4)],
        [rgb(0x8ab0cc), rgb(0xf0efe2)],
        [rgb(0xe0a070), rgb(0xfce8b8)],
        [rgb(0x24401e), rgb(0x5a7a3a)],
    ]);
    let depth_at = |y: f64| ((y - horizon) / (tall - horizon)).max(0.0);
    canvas.paint(|x, y, _| {
        let edge = horizon - 0.04 * (noise.fbm(x * 5.0, 4.0, 4) - 0.5);
        if y < edge {
            let cloud = noise.fbm(x * 3.0, y * 7.0, 4);
            return ramp(&sky, y / horizon.max(0.01)).mix(sky[1], smooth(0.45, 0.75, cloud));
        }
        let depth = depth_at(y);
        let near = 1.0 / (0.15 + depth);
        let tuft = noise.fbm(x * near * 9.0, near * 16.0, 4);
        ramp(&grass, 0.2 + (tuft - 0.3) * 1.2 + 0.25 * (1.0 - depth))
    });
    let kinds: [Flower; 3] = {
        let main = random.pick(&FLOWERS);
        [main, if random.chance(0.5) { main } else { random.pick(&FLOWERS) }, random.pick(&FLOWERS)]
    };
    let (size, crowd) = (random.between(0.02, 0.075), random.between(0.25, 1.0));
    let steps = (lerp(260.0, 90.0, (size - 0.02) / 0.055) * (0.5 + crowd)) as usize;
    for step in 0..steps {
        let depth = (step as f64 + 0.5) / steps as f64;
        let depth = 0.02 + 1.04 * depth * depth.sqrt();
        let y = horizon + (tall - horizon) * depth;
        blades(random, canvas, y, depth, &grass);
        let x = wide * random.between(-0.03, 1.03);
        if noise.at(x * 3.0, depth * 5.0) > 0.75 * crowd + 0.05 {
            continue;
        }
        let kind = kinds[random.below(3)];
        let radius = size * lerp(0.16, 1.0, depth) * random.between(0.6, 1.3);
        flower(random, canvas, (x, y), radius, kind);
    }
}

fn blades(random: &mut Random, canvas: &mut Canvas, y: f64, depth: f64, grass: &[Colour; 3]) {
    let (wide, _) = canvas.extent();
    for _ in 0..3 {
        let x = wide * random.unit();
        let height = 0.13 * depth * random.between(0.4, 1.2);
        let top = (x + random.bell() * height * 0.6, y - height);
        canvas.stroke((x, y), top, (0.006 * depth, 0.001), ramp(grass, random.unit()));
    }
}

fn flower(random: &mut Random, canvas: &mut Canvas, centre: (f64, f64), radius: f64, kind: Flower) {
    let (tilt, spin) = (random.between(0.55, 1.0), random.unit());
    let tint = kind.petal * random.between(0.8, 1.12);
    let stem = (centre.0 + random.bell() * radius, centre.1 + radius * 3.5);
    canvas.stroke(stem, centre, (radius * 0.1, radius * 0.07), rgb(0x3c5a22));
    let polar = |x: f64, y: f64| {
        (length(x - centre.0, (y - centre.1) / tilt), angle(x - centre.0, (y - centre.1) / tilt))
    };
    let lobe = |turns: f64| 0.74 + 0.26 * sine((turns + spin) * kind.petals);
    let shape = |x: f64, y: f64| {
        let (away, turns) = polar(x, y);
        away - radius * lobe(turns)
    };
    canvas.draw(Bounds::around(centre, radius), 0.0, shape, |x, y, _| {
        let (away, turns) = polar(x, y);
        let inner = away / radius;
        let petal = tint * (lerp(0.62, 1.08, inner) * lerp(0.8, 1.05, lobe(turns)))
            + grey(0.08 * (centre.1 - y) / radius);
        petal.mix(kind.heart, smooth(0.34, 0.24, inner))
    });
}
