//! `forest`: trunks in rows that fade into mist, a roof of leaves, ferns and litter on the ground, at times rays of light.

use super::canvas::{Bounds, Canvas};
use super::colour::{Colour, ramp, rgb};
use super::curves::{direction, fade, lerp, smooth, turned};
use super::noise::Noise;
use super::random::Random;

#[derive(Clone, Copy)]
struct Wood {
    mist: Colour,
    leaf: [Colour; 3],
    bark: Colour,
    ground: Colour,
}

const WOODS: [Wood; 5] = [
    wood(0xdce8c4, [0x16301a, 0x3f6f2c, 0xa4c25a], 0x3a2f25, 0x34401e),
    wood(0xeef0c0, [0x24421a, 0x6c9a2c, 0xd4dc6a], 0x6b6258, 0x4c5a26),
    wood(0xc2d4d4, [0x12261f, 0x2c5240, 0x7fa088], 0x2a2a28, 0x24352a),
    wood(0xf4dca8, [0x4a2c12, 0xb0681e, 0xe8b03c], 0x38281e, 0x6a4220),
    wood(0xe0cfc0, [0x3a1c14, 0x8f3a1e, 0xd87a30], 0x2c2422, 0x58301c),
];

const fn wood(mist: u32, leaf: [u32; 3], bark: u32, ground: u32) -> Wood {
    Wood {
        mist: rgb(mist),
        leaf: [rgb(leaf[0]), rgb(leaf[1]), rgb(leaf[2])],
        bark: rgb(bark),
        ground: rgb(ground),
    }
}

/// Paints one picture of the class.
pub fn paint(random: &mut Random, canvas: &mut Canvas) {
    let noise = Noise::new(random);
    let (wide, tall) = canvas.extent();
    let wood = random.favour(&WOODS);
    let floor = tall * random.between(0.66, 0.84);
    let glow = (wide * random.between(0.2, 0.8), tall * random.between(0.2, 0.6));
    let dim = random.between(0.35, 1.0);
    canvas.paint(|x, y, _| {
        let (dx, dy) = (x - glow.0, y - glow.1);
        let light = fade((dx * dx + dy * dy) * 3.0);
        let leaves = noise.fbm(x * 7.0, y * 7.0, 4);
        let far = ramp(&wood.leaf, 0.3 + 0.9 * (leaves - 0.3) + 0.2 * light);
        far.mix(wood.mist, 0.25 + 0.6 * light * dim)
    });
    let rows = random.count(3, 4);
    let roof = random.between(0.1, 0.5) * tall;
    let lean = random.between(-0.06, 0.06);
    for row in 0..rows {
        let near = (row as f64 + 0.5) / rows as f64;
        let haze = 0.75 * (1.0 - near) * (0.4 + 0.6 * dim);
        let foot = lerp(floor, tall * 1.02, near * near);
        ground(canvas, &noise, &wood, (foot - 0.1 * near, row as f64), haze);
        for _ in 0..random.count(3, 7) * (rows - row) / 2 + 1 {
            let half = lerp(0.006, 0.042, near * near) * random.between(0.6, 1.5);
            let x = wide * random.between(-0.05, 1.05);
            trunk(
                canvas,
                &noise,
                (x, foot + random.bell() * 0.04),
                (half, lean + random.bell() * 0.05),
                |u| (wood.bark * u).mix(wood.mist, haze),
            );
        }
        canopy(canvas, &noise, &wood, (roof * lerp(1.5, 0.7, near), near), haze * 0.7);
    }
    if random.chance(0.4) {
        let axis = direction(random.between(0.12, 0.38));
        let width = random.between(4.0, 9.0);
        canvas.paint(|x, y, under| {
            let (_, across) = turned(x - glow.0, y - glow.1 + 0.4, axis);
            let ray = smooth(0.52, 0.85, noise.at(across * width, 3.0)) * smooth(tall * 1.1, 0.0, y);
            under.screen(wood.mist * (0.5 * ray))
        });
    }
}

fn ground(canvas: &mut Canvas, noise: &Noise, wood: &Wood, (level, row): (f64, f64), haze: f64) {
    let (_, tall) = canvas.extent();
    let edge = |x: f64| level + 0.07 * (noise.fbm(x * 3.0, row * 9.0, 4) - 0.5);
    canvas.draw_below(edge, tall, |x, y, _| {
        let litter = noise.fbm(x * 18.0, y * 34.0 + row, 3);
        let colour = (wood.ground * lerp(0.5, 1.4, litter)).mix(wood.leaf[1], smooth(0.5, 0.75, litter));
        colour.mix(wood.mist, haze)
    });
}

fn trunk(
    canvas: &mut Canvas,
    noise: &Noise,
    foot: (f64, f64),
    (half, lean): (f64, f64),
    bark: impl Fn(f64) -> Colour,
) {
    let centre =
        |y: f64| foot.0 + lean * (foot.1 - y) + half * 0.8 * (noise.at(foot.0 * 30.0, y * 2.5) - 0.5);
    let flare = |y: f64| half * (0.8 + 0.25 * y / foot.1 + 0.7 * fade((foot.1 - y).max(0.0) / half * 0.6));
    let shape = |x: f64, y: f64| ((x - centre(y)).abs() - flare(y)).max(y - foot.1);
    let reach = half * 2.5 + lean.abs() * foot.1;
    canvas.draw(Bounds::of(foot.0 - reach, 0.0, foot.0 + reach, foot.1), 0.0, shape, |x, y, _| {
        let across = (x - centre(y)) / half;
        let rough = noise.fbm(across * 2.0 + foot.0 * 50.0, y * 9.0, 3);
        bark(lerp(0.55, 1.5, smooth(1.0, -0.9, across)) * lerp(0.55, 1.45, rough))
    });
}

fn canopy(canvas: &mut Canvas, noise: &Noise, wood: &Wood, (level, near): (f64, f64), haze: f64) {
    let scale = lerp(9.0, 5.0, near);
    canvas.paint(|x, y, under| {
        if y > level * 2.2 {
            return under;
        }
        let mass = noise.fbm(x * scale * 0.5 + near * 30.0, y * scale * 0.6, 4);
        let cover = smooth(-0.02, 0.05, mass - 0.3 - 0.3 * y / level);
        if cover == 0.0 {
            return under;
        }
        let tone = noise.fbm(x * scale * 3.0, y * scale * 3.0 + near * 9.0, 3);
        let leaf = ramp(&wood.leaf, (tone - 0.25) * 1.3) * lerp(1.1, 0.75, near);
        under.mix(leaf.mix(wood.mist, haze), cover)
    });
}
