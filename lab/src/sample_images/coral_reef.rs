//! `coral_reef`: blue water with light from above, branching, round and fan corals on a sandy rise, fish and bubbles.

use super::canvas::{Bounds, Canvas};
use super::colour::{Colour, grey, hsv, ramp, rgb};
use super::curves::{direction, fraction, length, lerp, sine, smooth, turned};
use super::noise::Noise;
use super::random::Random;

/// Paints one picture of the class.
pub fn paint(random: &mut Random, canvas: &mut Canvas) {
    let noise = Noise::new(random);
    let (wide, tall) = canvas.extent();
    let water = random.favour(&[
        [rgb(0x7fd0e4), rgb(0x2a86c0), rgb(0x0c3a70)],
        [rgb(0x9ae0d4), rgb(0x2fa0a4), rgb(0x0e4a5c)],
        [rgb(0x5aa4e0), rgb(0x1c58a8), rgb(0x0a2450)],
        [rgb(0x4aa0b0), rgb(0x1a5a78), rgb(0x081e34)],
    ]);
    let (tilt, rays) = (random.between(-0.5, 0.5), random.between(3.0, 8.0));
    canvas.paint(|x, y, _| {
        let ray =
            smooth(0.45, 0.9, noise.fbm((x + tilt * y) * rays, 2.0 + y * 0.3, 2)) * smooth(tall, 0.0, y);
        let murk = noise.fbm(x * 3.0, y * 3.0, 4);
        ramp(&water, y / tall + 0.3 * (murk - 0.5)).screen(water[0] * (0.4 * ray))
    });
    let floor = tall * random.between(0.55, 0.9);
    let sand = random.pick(&[rgb(0xc8b48c), rgb(0x8a8478), rgb(0x6a5a68), rgb(0x9a6a5a)]);
    canvas.paint(|x, y, under| {
        let edge = floor - 0.18 * (noise.fbm(x * 2.2, 6.0, 4) - 0.5);
        let rough = noise.fbm(x * 13.0, y * 16.0, 4);
        under.mix((sand * lerp(0.3, 1.35, rough)).mix(water[1], 0.3), smooth(edge, edge + 0.02, y))
    });
    let hue = random.between(-0.15, 0.15);
    let count = random.count(7, 20);
    for idx in 0..count {
        let near = (idx as f64 + 1.0) / count as f64;
        let foot =
            (wide * random.between(-0.02, 1.02), lerp(floor, tall * 1.04, near) + random.bell() * 0.04);
        let colour = hsv(hue + random.bell() * 0.16, random.between(0.35, 0.85), random.between(0.6, 1.0))
            .mix(water[1], 0.45 * (1.0 - near));
        let size = lerp(0.09, 0.2, near) * random.between(0.7, 1.35);
        match random.below(3) {
            0 => brain(canvas, &noise, foot, size, colour),
            1 => {
                let upright = random.between(0.7, 0.8);
                branch(random, canvas, (foot, upright), (size * 0.42, size * 0.07), 5, colour);
            }
            _ => fan(canvas, &noise, foot, size, colour),
        }
    }
    let school = random.pick(&[0, 2, 4, 9, 16]);
    let length = random.between(0.03, 0.1) * if school > 5 { 0.6 } else { 1.0 };
    let facing = random.pick(&[-1.0, 1.0]);
    let livery = hsv(random.unit(), random.between(0.2, 0.95), 0.95);
    for _ in 0..school {
        let at = (wide * random.unit(), tall * random.between(0.06, 0.75));
        fish(canvas, at, length * random.between(0.8, 1.25) * facing, random.bell() * 0.06, livery);
    }
    for _ in 0..random.pick(&[0, 6, 18]) {
        let at = (wide * random.unit(), tall * random.unit());
        canvas.disc(at, random.between(0.003, 0.009), 0.006, water[0].mix(grey(1.0), 0.5));
    }
}

fn brain(canvas: &mut Canvas, noise: &Noise, foot: (f64, f64), size: f64, colour: Colour) {
    let centre = (foot.0, foot.1 - size * 0.4);
    let shape = |x: f64, y: f64| {
        let lump = 0.22 * (noise.fbm(x * 9.0, y * 9.0, 2) - 0.5);
        (length((x - centre.0) / 1.15, y - centre.1) / size - 0.75 - lump) * size
    };
    canvas.draw(Bounds::around(centre, size * 1.2), 0.0, shape, |x, y, _| {
        let (u, v) = ((x - centre.0) / size, (y - centre.1) / size);
        let maze = noise.ridge(u * 5.0 + foot.0 * 20.0, v * 5.0, 2);
        colour * (lerp(0.35, 1.15, maze) * lerp(1.0, 0.45, smooth(-0.6, 0.7, v + 0.3 * u)))
    });
}

fn branch(
    random: &mut Random,
    canvas: &mut Canvas,
    (foot, turns): ((f64, f64), f64),
    (length, half): (f64, f64),
    depth: u32,
    colour: Colour,
) {
    let (dx, dy) = direction(turns);
    let tip = (foot.0 + dx * length, foot.1 + dy * length);
    let lit = colour * lerp(1.2, 0.7, f64::from(depth) / 5.0);
    canvas.stroke(foot, tip, (half, half * 0.75), lit);
    canvas.stroke(
        (foot.0 - half * 0.3, foot.1),
        (tip.0 - half * 0.25, tip.1),
        (half * 0.4, half * 0.3),
        lit * 1.25,
    );
    if depth > 1 {
        for side in [-1.0, 1.0] {
            let next = turns + side * random.between(0.03, 0.1);
            let scale = random.between(0.68, 0.88);
            branch(random, canvas, (tip, next), (length * scale, half * 0.75), depth - 1, colour);
        }
    }
}

fn fan(canvas: &mut Canvas, noise: &Noise, foot: (f64, f64), size: f64, colour: Colour) {
    let centre = (foot.0, foot.1 - size * 0.7);
    let shape = |x: f64, y: f64| {
        let (u, v) = ((x - centre.0) / size, (y - centre.1) / size);
        let frill = 0.25 * (noise.fbm(u * 3.0 + foot.0 * 30.0, v * 3.0, 3) - 0.5);
        (length(u * lerp(0.85, 1.7, smooth(-0.2, 0.8, v)), v) - 0.75 - frill) * size
    };
    canvas.draw(Bounds::around(centre, size * 1.1), 0.0, shape, |x, y, _| {
        let (u, v) = ((x - foot.0) / size, (foot.1 - y) / size + 0.25);
        let spoke = u / v.abs().max(0.1) * 9.0;
        let rib = sine(spoke + 0.6 * noise.at(u * 5.0, v * 5.0)) + sine(length(u, v) * 12.0);
        colour * lerp(0.5, 1.2, smooth(-1.2, 1.4, rib))
    });
}

fn fish(canvas: &mut Canvas, at: (f64, f64), long: f64, turns: f64, livery: Colour) {
    let axis = direction(turns);
    let local = |x: f64, y: f64| {
        let (u, v) = turned(x - at.0, y - at.1, axis);
        (u / long, v / long.abs())
    };
    let shape = |x: f64, y: f64| {
        let (u, v) = local(x, y);
        let body = length(u, v * 2.0) - 0.6;
        let tail = (v.abs() - 0.12 - 0.5 * (-u - 0.6)).max(-u - 0.95).max(u + 0.45);
        body.min(tail) * long.abs()
    };
    canvas.draw(Bounds::around(at, long.abs()), 0.0, shape, |x, y, _| {
        let (u, v) = local(x, y);
        let stripe = smooth(0.1, 0.3, (fraction(u * 2.6) - 0.5).abs());
        let eye = smooth(0.09, 0.05, length(u - 0.38, v + 0.05));
        (livery.mix(grey(0.95), 1.0 - stripe) * lerp(1.1, 0.7, v + 0.5)).mix(grey(0.05), eye)
    });
}
