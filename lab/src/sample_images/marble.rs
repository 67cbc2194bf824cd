//! `marble`: white, green, black, rose or sand-coloured stone with veins, as one slab or as tiles.

use super::canvas::Canvas;
use super::colour::{Colour, grey, ramp, rgb};
use super::curves::{direction, floor, fraction, lerp, smooth, turned};
use super::noise::Noise;
use super::random::Random;

#[derive(Clone, Copy)]
struct Stone {
    body: [Colour; 3],
    vein: Colour,
}

const STONES: [Stone; 6] = [
    Stone { body: [rgb(0xb4b8c0), rgb(0xdcdcdc), rgb(0xf4f2ee)], vein: rgb(0x5a6068) },
    Stone { body: [rgb(0xa8906a), rgb(0xd4bf98), rgb(0xf0e4c8)], vein: rgb(0x7a4a24) },
    Stone { body: [rgb(0x3a4a60), rgb(0x6a7c94), rgb(0xa4b4c4)], vein: rgb(0xe8e8e0) },
    Stone { body: [rgb(0x9a5a50), rgb(0xc88878), rgb(0xe8bcaa)], vein: rgb(0x6a2c28) },
    Stone { body: [rgb(0x14301f), rgb(0x2c5a40), rgb(0x4c8a68)], vein: rgb(0xd8e4d0) },
    Stone { body: [rgb(0x101012), rgb(0x26262a), rgb(0x44444a)], vein: rgb(0xe8dcc0) },
];

/// Paints one picture of the class.
pub fn paint(random: &mut Random, canvas: &mut Canvas) {
    let noise = Noise::new(random);
    let (wide, tall) = canvas.extent();
    let stone = random.favour(&STONES);
    let axis = direction(random.unit());
    let scale = random.between(0.7, 2.6);
    let stretch = random.between(1.0, 2.4);
    let (warp, sharp) = (random.between(0.4, 1.5), random.between(0.03, 0.1));
    let (veined, cloudy) = (random.between(0.45, 1.0), random.between(0.5, 1.4));
    let tile = if random.chance(0.3) { random.between(0.3, 0.7) } else { 0.0 };
    let checker = random.chance(0.4);
    let other = random.favour(&STONES);
    let gleam = (wide * random.unit(), tall * random.unit());
    let gold = if random.chance(0.25) { rgb(0xb8863a) } else { stone.vein };
    canvas.paint(|x, y, _| {
        let (mut u, mut v) = turned(x * scale, y * scale, axis);
        let (mut body, mut line) = (&stone.body, 1.0);
        if tile > 0.0 {
            let (i, j) = (floor(x / tile) as f64, floor(y / tile) as f64);
            (u, v) = (u + i * 7.7, v + j * 5.3);
            if checker && fraction((i + j) * 0.5) != 0.0 {
                body = &other.body;
            }
            let (left, top) = (x - i * tile, y - j * tile);
            line = smooth(0.0, 0.012, left.min(tile - left).min(top).min(tile - top));
        }
        let (wu, wv) =
            (noise.fbm(u * 1.3 + 20.0, v * 1.3, 4) - 0.5, noise.fbm(u * 1.3, v * 1.3 + 40.0, 4) - 0.5);
        let (u, v) = (u * stretch + warp * wu * 2.0, v + warp * wv * 2.0);
        let cloud = noise.fbm(u * 1.1, v * 1.1, 5);
        let crest = 1.0 - noise.ridge(u * 0.9, v * 0.9, 1);
        let vein = smooth(sharp * 2.0, 0.0, crest);
        let hair = 1.0 - noise.ridge(u * 2.4 + 60.0, v * 2.4, 1);
        let thin = smooth(sharp, 0.0, hair) * smooth(0.35, 0.6, cloud);
        let ground = ramp(body, 0.5 + cloudy * 1.6 * (cloud - 0.5))
            * (1.0 + 0.08 * (noise.at(x * 60.0, y * 60.0) - 0.5));
        let marked =
            ground.mix(stone.vein, veined * vein * lerp(0.4, 1.0, cloud)).mix(gold, 0.6 * veined * thin);
        let (dx, dy) = (x - gleam.0, y - gleam.1);
        let shine = 0.16 * smooth(0.7, 0.0, (dx * dx + dy * dy).sqrt());
        marked.screen(grey(shine)) * lerp(0.55, 1.0, line)
    });
}
