//! `sunset_sea`: a low sun over water, its path of glitter, streaks of cloud, at times a headland or a sail.

use super::canvas::{Bounds, Canvas};
use super::colour::{Colour, grey, ramp, rgb};
use super::curves::{clamp, fade, length, lerp, smooth};
use super::noise::Noise;
use super::random::Random;

const SKIES: [[Colour; 4]; 6] = [
    [rgb(0x2b2a55), rgb(0xa8446c), rgb(0xf0803f), rgb(0xffd27a)],
    [rgb(0x5a1f24), rgb(0xb5361f), rgb(0xef7b1d), rgb(0xffd35c)],
    [rgb(0x7a5a2c), rgb(0xd08a30), rgb(0xf4b648), rgb(0xfff0b8)],
    [rgb(0x4a6a9c), rgb(0xc99a8c), rgb(0xf7b267), rgb(0xffe9b0)],
    [rgb(0x3a2350), rgb(0x8e3b76), rgb(0xe86a7a), rgb(0xffc3a0)],
    [rgb(0x1d3557), rgb(0x54679a), rgb(0xd59a9a), rgb(0xfbe2b8)],
];

/// Paints one picture of the class.
pub fn paint(random: &mut Random, canvas: &mut Canvas) {
    let noise = Noise::new(random);
    let (wide, tall) = canvas.extent();
    let sky = random.favour(&SKIES);
    let horizon = tall * random.between(0.45, 0.7);
    let sun = (wide * random.between(0.12, 0.88), horizon - tall * random.between(-0.02, 0.24));
    let (radius, glow) = (random.between(0.03, 0.085), random.between(0.5, 1.4));
    let (cover, streak) = (random.between(0.42, 0.72), random.between(3.0, 8.0));
    let (scale, swell) = (random.between(0.8, 2.0), random.between(4.0, 9.0));
    let dark = random.between(0.45, 0.8);
    let sunlight = sky[3].mix(grey(1.0), 0.4);

    let above = |x: f64, y: f64| {
        let away = length(x - sun.0, (y - sun.1) * 1.3);
        let open = ramp(&sky, y / horizon + 0.25 * fade(away * 2.5) - 0.1);
        let cloud = noise.fbm(x * scale, y * scale * streak, 4);
        let thick = smooth(cover, cover + 0.2, cloud + 0.1 * (1.0 - y / horizon));
        let lit = sky[0].mix(sky[2], clamp(0.25 + 0.9 * fade(away * 2.0) - (cloud - cover)));
        open.mix(lit, thick * 0.8) + sunlight * (glow * 0.45 * fade(away * 4.5))
    };
    canvas.paint(|x, y, _| {
        if y < horizon {
            let disc = smooth(radius, radius - 0.012, length(x - sun.0, y - sun.1));
            return above(x, y).mix(sunlight + grey(0.1), disc);
        }
        let depth = (y - horizon) / (tall - horizon);
        let near = 1.0 / (depth + 0.13);
        let wave = noise.fbm(x * swell * near * 0.4 + 40.0, near * swell, 3);
        let mirrored = horizon - (y - horizon) * 0.8 + (wave - 0.5) * (0.1 + 0.5 * depth);
        let water = above(x + (wave - 0.5) * 0.2, clamp(mirrored / horizon) * horizon);
        let path = (x - sun.0) / lerp(radius * 0.9, 0.28, depth);
        let glitter = fade(path * path) * smooth(0.47, 0.66, wave);
        water * lerp(0.92, dark, depth) * lerp(0.75, 1.2, wave) + sunlight * (0.75 * glitter)
    });

    let silhouette = sky[0] * 0.35;
    if random.chance(0.4) {
        let (from, height) = (wide * random.between(0.0, 0.8), random.between(0.03, 0.14));
        let span = random.between(0.2, 0.7);
        let ridge = |x: f64| {
            let t = (x - from) / span;
            height * smooth(0.0, 0.3, t) * smooth(1.0, 0.5, t) * (0.5 + noise.fbm(x * 6.0, 3.0, 4))
        };
        let bounds = Bounds::of(from, horizon - 0.3, from + span, horizon);
        let distance = |x: f64, y: f64| (horizon - ridge(x) - y).max(y - horizon - 0.004);
        canvas.draw(bounds, 0.0, distance, |_, _, _| silhouette);
    }
    for _ in 0..random.pick(&[0, 0, 1, 1, 2, 3]) {
        let size = random.between(0.03, 0.11);
        sail(canvas, (wide * random.between(0.1, 0.9), horizon + size * 0.5), size, silhouette);
    }
}

fn sail(canvas: &mut Canvas, foot: (f64, f64), size: f64, colour: Colour) {
    let (x0, y0) = foot;
    let hull =
        |x: f64, y: f64| (y0 - y).max(y - y0 - size * 0.2).max((x - x0).abs() + (y - y0) - size * 0.55);
    canvas.draw(Bounds::around(foot, size), 0.0, hull, |_, _, _| colour);
    let triangle = |x: f64, y: f64| {
        let down = (y0 - size * 0.1 - y) / size;
        (x0 - x).max((x - x0) - size * 0.5 * (1.0 - down / 1.4)).max(-down * size)
    };
    canvas.draw(Bounds::of(x0, y0 - size * 1.5, x0 + size, y0), 0.0, triangle, |_, _, _| colour * 1.3);
    canvas.stroke((x0, y0), (x0, y0 - size * 1.55), (size * 0.03, size * 0.02), colour);
}
