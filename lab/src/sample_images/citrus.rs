//! `citrus`: oranges, lemons, limes and grapefruits, whole or sliced, on a table, a cloth or packed to the rim.

use super::canvas::{Bounds, Canvas};
use super::colour::{Colour, grey, rgb};
use super::curves::{angle, clamp, direction, fade, fraction, length, lerp, smooth, turned};
use super::noise::Noise;
use super::random::Random;

#[derive(Clone, Copy)]
struct Fruit {
    peel: Colour,
    flesh: Colour,
    long: f64,
}

const FRUITS: [Fruit; 5] = [
    Fruit { peel: rgb(0xf08a18), flesh: rgb(0xf7a028), long: 1.0 },
    Fruit { peel: rgb(0xf4d022), flesh: rgb(0xf6e27a), long: 1.22 },
    Fruit { peel: rgb(0xf0a848), flesh: rgb(0xe8604c), long: 1.0 },
    Fruit { peel: rgb(0x5f9a2c), flesh: rgb(0xb8d470), long: 1.08 },
    Fruit { peel: rgb(0xd85a1c), flesh: rgb(0xb0242a), long: 1.0 },
];

/// Paints one picture of the class.
pub fn paint(random: &mut Random, canvas: &mut Canvas) {
    let noise = Noise::new(random);
    let (wide, tall) = canvas.extent();
    background(random, canvas, &noise);
    let main = random.favour(&FRUITS);
    let other = random.favour(&FRUITS);
    let size = random.between(0.14, 0.27);
    let sliced = random.pick(&[0.0, 0.35, 0.65, 1.0]);
    let packed = random.chance(0.6);
    let light = direction(random.between(0.55, 0.95));
    let count = if packed {
        ((2.6 * wide * tall / (size * size * 3.1)) as usize).clamp(8, 90)
    } else {
        random.count(4, 9)
    };
    for _ in 0..count {
        let margin = if packed { -0.05 } else { 0.12 };
        let centre = (lerp(margin, wide - margin, random.unit()), lerp(margin, tall - margin, random.unit()));
        let fruit = if random.chance(0.7) { main } else { other };
        let radius = size * random.between(0.85, 1.15);
        let axis = direction(random.unit());
        if random.chance(sliced) {
            slice(random, canvas, &noise, (centre, radius), fruit);
        } else {
            whole(canvas, &noise, (centre, radius), (axis, light), fruit);
        }
        if random.chance(if packed { 0.08 } else { 0.4 }) {
            leaf(random, canvas, centre, radius);
        }
    }
}

fn background(random: &mut Random, canvas: &mut Canvas, noise: &Noise) {
    let colour = random.favour(&[
        rgb(0xf0ece4),
        rgb(0x8a5c34),
        rgb(0x3f6f8a),
        rgb(0x2c2c30),
        rgb(0xd8c49c),
        rgb(0x7aa89a),
        rgb(0xd9a0a0),
        rgb(0x4c6a34),
    ]);
    let (kind, axis) = (random.below(3), direction(random.between(-0.1, 0.35)));
    let stripe = random.between(5.0, 14.0);
    canvas.paint(|x, y, _| {
        let (u, v) = turned(x, y, axis);
        let tone = match kind {
            0 => lerp(0.8, 1.15, noise.fbm(u * 3.0, v * 40.0, 4)),
            1 => lerp(0.85, 1.1, noise.fbm(x * 4.0, y * 4.0, 5)),
            _ => lerp(0.78, 1.08, smooth(0.4, 0.6, (fraction(u * stripe) - 0.5).abs() * 2.0)),
        };
        colour * tone
    });
}

fn shadow(canvas: &mut Canvas, centre: (f64, f64), radius: f64) {
    let at = (centre.0 + radius * 0.16, centre.1 + radius * 0.22);
    let shape = |x: f64, y: f64| length(x - at.0, y - at.1) - radius * 0.98;
    canvas.draw(Bounds::around(at, radius), radius * 0.5, shape, |_, _, under| under * 0.45);
}

fn whole(
    canvas: &mut Canvas,
    noise: &Noise,
    (centre, radius): ((f64, f64), f64),
    (axis, light): ((f64, f64), (f64, f64)),
    fruit: Fruit,
) {
    shadow(canvas, centre, radius);
    let local = |x: f64, y: f64| {
        let (u, v) = turned(x - centre.0, y - centre.1, axis);
        (u / (radius * fruit.long), v / radius)
    };
    let shape = |x: f64, y: f64| {
        let (u, v) = local(x, y);
        let tip = 0.06 * (fruit.long - 1.0) * 4.0 * smooth(0.8, 1.1, u.abs()) * smooth(0.3, 0.0, v.abs());
        (length(u, v) - 1.0 - tip) * radius
    };
    canvas.draw(Bounds::around(centre, radius * fruit.long * 1.1), 0.0, shape, |x, y, _| {
        let (u, v) = local(x, y);
        let bulge = clamp(1.0 - u * u - v * v).sqrt();
        let toward = ((x - centre.0) * light.0 + (y - centre.1) * light.1) / radius;
        let dimple = noise.at(u * 26.0 + centre.0 * 70.0, v * 26.0) - 0.5;
        let blush = noise.fbm(u * 1.6 + centre.0 * 9.0, v * 1.6, 3) - 0.5;
        let lit = 0.42 + 0.42 * bulge + 0.3 * toward + 0.14 * dimple * bulge;
        let (hx, hy) = ((x - centre.0) / radius - light.0 * 0.42, (y - centre.1) / radius - light.1 * 0.42);
        let shine = fade((hx * hx + hy * hy) * 16.0) * (0.6 + 0.6 * dimple);
        let stem = fade((u - 0.75) * (u - 0.75) * 160.0 + v * v * 160.0);
        (fruit.peel * (lit * (1.0 + 0.3 * blush)) + grey(0.55 * shine)).mix(rgb(0x5a5a2a), 0.7 * stem)
    });
}

fn slice(
    random: &mut Random,
    canvas: &mut Canvas,
    noise: &Noise,
    (centre, radius): ((f64, f64), f64),
    fruit: Fruit,
) {
    shadow(canvas, centre, radius);
    let segments = random.count(8, 11) as f64;
    let (spin, squash) = (random.unit(), random.between(0.8, 1.0));
    let pith = fruit.flesh.mix(rgb(0xfaf2da), 0.85);
    let local = |x: f64, y: f64| ((x - centre.0) / radius, (y - centre.1) / (radius * squash));
    let shape = |x: f64, y: f64| {
        let (u, v) = local(x, y);
        (length(u, v) - 1.0) * radius
    };
    canvas.draw(Bounds::around(centre, radius), 0.0, shape, |x, y, _| {
        let (u, v) = local(x, y);
        let away = length(u, v);
        let turns = (angle(u, v) + spin) * segments;
        let part = fraction(turns);
        let wall = part.min(1.0 - part) * away * 6.3 / segments;
        let sacs = noise.fbm(turns * 2.2, away * 3.0, 3);
        let flesh = fruit.flesh * lerp(0.72, 1.22, sacs) + grey(0.1 * away);
        let open = smooth(0.012, 0.035, wall) * smooth(0.09, 0.13, away) * smooth(0.87, 0.83, away);
        pith.mix(flesh, open).mix(fruit.peel, smooth(0.91, 0.94, away))
    });
}

fn leaf(random: &mut Random, canvas: &mut Canvas, centre: (f64, f64), radius: f64) {
    let axis = direction(random.unit());
    let middle = (centre.0 + axis.0 * radius, centre.1 + axis.1 * radius);
    let (size, green) = (radius * random.between(0.5, 0.8), rgb(0x3c6e24) * random.between(0.7, 1.3));
    let local = |x: f64, y: f64| {
        let (u, v) = turned(x - middle.0, y - middle.1, axis);
        (u / size, v / size)
    };
    let shape = |x: f64, y: f64| {
        let (u, v) = local(x, y);
        (v.abs() - 0.42 * (1.0 - u * u)) * size
    };
    canvas.draw(Bounds::around(middle, size), 0.0, shape, |x, y, _| {
        let (_, v) = local(x, y);
        (green * if v > 0.0 { 1.15 } else { 0.85 }).mix(rgb(0xb8cc88), 0.6 * smooth(0.05, 0.02, v.abs()))
    });
}
