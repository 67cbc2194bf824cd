//! `snow_mountains`: ranges of rock and snow, lit from one side, with firs, a slope or a lake in front.

use super::canvas::{Bounds, Canvas};
use super::colour::{Colour, grey, ramp, rgb};
use super::curves::{clamp, fraction, lerp, smooth};
use super::noise::Noise;
use super::random::Random;

/// Paints one picture of the class.
pub fn paint(random: &mut Random, canvas: &mut Canvas) {
    let noise = Noise::new(random);
    let (_, tall) = canvas.extent();
    let sky = random.pick(&[
        [rgb(0x2a66b0), rgb(0x7fb2de), rgb(0xd6e6f0)],
        [rgb(0x5a7fa4), rgb(0x9fb6c8), rgb(0xdfe4e6)],
        [rgb(0x3c4f86), rgb(0xc08aa0), rgb(0xf8cfae)],
        [rgb(0x8c9aa8), rgb(0xb6bec6), rgb(0xe2e2e0)],
        [rgb(0x174a88), rgb(0x4a86be), rgb(0xb8d4e6)],
    ]);
    let cloudy = random.between(0.45, 0.75);
    canvas.paint(|x, y, _| {
        let cloud = noise.fbm(x * 1.6 + 50.0, y * 4.0, 5);
        ramp(&sky, y / tall * 1.6).mix(grey(0.97), 0.85 * smooth(cloudy, cloudy + 0.2, cloud))
    });
    let rock = random.pick(&[rgb(0x4a4f5c), rgb(0x5c5450), rgb(0x3a4048), rgb(0x6a5a4c)]);
    let sunlight = grey(1.0).mix(sky[2], random.between(0.1, 0.7));
    let side = random.pick(&[-1.0, 1.0]);
    let snowline = random.between(-0.1, 0.65);
    let ranges = random.count(2, 3);
    let top = random.between(0.12, 0.34);
    let nearness = |range: usize| (range + 1) as f64 / ranges as f64;
    let base_at = |range: usize| tall * (top + 0.34 * nearness(range) * nearness(range));
    for range in 0..ranges {
        let near = nearness(range);
        let base = base_at(range);
        let height = tall * random.between(0.28, 0.45);
        let (stretch, offset) = (random.between(1.0, 2.0), random.between(0.0, 90.0));
        let crest = |x: f64| base + height * (0.55 - noise.ridge(x * stretch + offset, offset, 5));
        let haze = 0.55 * (1.0 - near);
        // The next range hides the rest: its crest is nowhere lower than this.
        let bottom = if range + 1 == ranges { tall } else { base_at(range + 1) + tall * 0.55 * 0.45 };
        canvas.draw_below(crest, bottom, |x, y, _| {
            let (u, v) = (x * 3.4 + offset, y * 2.6 + (y - x) * 0.5);
            let here = noise.ridge(u, v, 4);
            let slope = here - noise.ridge(u + 0.09 * side, v - 0.05, 4);
            let light = clamp(0.55 + 3.2 * slope);
            let level = (y - base) / height + 0.5 * (noise.fbm(x * 9.0, y * 9.0, 2) - 0.5);
            let snowy = smooth(snowline + 0.35, snowline - 0.1, level - 0.9 * (here - 0.55));
            let shadow = rgb(0x7f97bf).mix(sky[0], 0.25);
            let snow = shadow.mix(sunlight, light);
            let stone = rock * lerp(0.45, 1.35, light);
            stone.mix(snow, snowy).mix(sky[2], haze)
        });
    }
    match random.below(4) {
        0 => lake(random, canvas, &noise, sky),
        1 | 2 => firs(random, canvas),
        _ => slope(random, canvas, &noise, sunlight),
    }
}

fn lake(random: &mut Random, canvas: &mut Canvas, noise: &Noise, sky: [Colour; 3]) {
    let (_, tall) = canvas.extent();
    let shore = tall * random.between(0.72, 0.85);
    let water = sky[0].mix(rgb(0x2a5a62), random.between(0.2, 0.8)) * 0.8;
    canvas.paint(|x, y, under| {
        let edge = shore + 0.02 * (noise.fbm(x * 4.0, 7.0, 3) - 0.5);
        let wave = noise.fbm(x * 5.0, 9.0 / (0.08 + (y - shore).abs()), 3);
        under.mix(water.mix(sky[2], smooth(0.35, 0.8, wave)), smooth(edge, edge + 0.006, y))
    });
}

fn firs(random: &mut Random, canvas: &mut Canvas) {
    let (wide, tall) = canvas.extent();
    let green = random.pick(&[rgb(0x16281f), rgb(0x22382a), rgb(0x1a2430)]);
    let (size, ground) = (random.between(0.08, 0.26), tall * random.between(0.9, 1.02));
    for _ in 0..random.count(14, 46) {
        let height = size * random.between(0.5, 1.3);
        let foot = (wide * random.between(-0.02, 1.02), ground + random.between(-0.05, 0.06));
        let colour = green * random.between(0.7, 1.5);
        let width = random.between(0.26, 0.36);
        let shape = |x: f64, y: f64| {
            let down = (y - foot.1 + height) / height;
            let tier = fraction(down * 7.0);
            ((x - foot.0).abs() - height * width * down * (0.55 + 0.45 * tier)).max(y - foot.1)
        };
        let bounds = Bounds::of(foot.0 - height * 0.4, foot.1 - height, foot.0 + height * 0.4, foot.1);
        canvas.draw(bounds, 0.0, shape, |x, _, _| colour * lerp(1.3, 0.7, (x - foot.0) / height + 0.5));
    }
    canvas.rectangle(0.0, ground, wide, tall, green);
}

fn slope(random: &mut Random, canvas: &mut Canvas, noise: &Noise, light: Colour) {
    let (_, tall) = canvas.extent();
    let (level, tilt) = (tall * random.between(0.72, 0.92), random.between(-0.2, 0.2));
    canvas.paint(|x, y, under| {
        let edge = level + tilt * (x - 0.6) + 0.08 * (noise.fbm(x * 2.0, 3.0, 4) - 0.5);
        let drift = noise.fbm(x * 3.0 + y * 4.0, y * 9.0, 4);
        let snow = rgb(0xa9bcd8).mix(light, smooth(0.3, 0.65, drift));
        under.mix(snow, smooth(edge, edge + 0.006, y))
    });
}
