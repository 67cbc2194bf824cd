//! `wood_grain`: planks of pine, oak, walnut or weathered grey, with growth rings, knots, fibres and gaps.

use super::canvas::Canvas;
use super::colour::{Colour, ramp, rgb};
use super::curves::{direction, fade, floor, fraction, lerp, sine, smooth, turned};
use super::noise::Noise;
use super::random::Random;

const WOODS: [[Colour; 3]; 6] = [
    [rgb(0x8a5a2c), rgb(0xc89656), rgb(0xe8c48a)],
    [rgb(0x4a3a20), rgb(0x8a6c38), rgb(0xb89a5c)],
    [rgb(0x6a2c1a), rgb(0xa0522c), rgb(0xc88050)],
    [rgb(0x3a2418), rgb(0x6a4428), rgb(0x95683e)],
    [rgb(0xa88858), rgb(0xd8bc88), rgb(0xf0dcb4)],
    [rgb(0x5a5650), rgb(0x8f8a82), rgb(0xbab4aa)],
];

/// Knots a picture can have.
const KNOTS: usize = 4;

/// Paints one picture of the class.
pub fn paint(random: &mut Random, canvas: &mut Canvas) {
    let noise = Noise::new(random);
    let (wide, tall) = canvas.extent();
    let wood = random.favour(&WOODS);
    let axis = direction(random.pick(&[0.0, 0.0, 0.25, 0.25, 0.07, 0.4]) + random.bell() * 0.02);
    let plank = random.pick(&[9.0, 0.5, 0.32, 0.22, 0.14]) * random.between(0.85, 1.15);
    let (rings, warp) = (random.between(7.0, 26.0), random.between(0.05, 0.22));
    let (fibre, varied) = (random.between(0.15, 0.5), random.between(0.05, 0.35));
    let offset = random.between(0.0, 1.0);
    let knots: [(f64, f64, f64); KNOTS] = std::array::from_fn(|_| {
        let size = if random.chance(0.45) { random.between(0.012, 0.05) } else { 0.0 };
        let (u, v) = turned(wide * random.unit(), tall * random.unit(), axis);
        (u, v, size)
    });
    let light = direction(random.unit());
    canvas.paint(|x, y, _| {
        let (u, v) = turned(x, y, axis);
        let row = floor(v / plank + offset);
        let top = fraction(v / plank + offset) * plank;
        let tone = noise.of(row, 3) - 0.5;
        let slide = noise.of(row, 11) * 40.0;
        let mut field = v + warp * (noise.fbm(u * 0.9 + slide, v * 2.4 + row as f64 * 3.0, 3) - 0.5);
        let mut heart = 0.0;
        for &(ku, kv, size) in &knots {
            let (du, dv) = ((u - ku) * 0.45, v - kv);
            let square = (du * du + dv * dv) / (size * size + 1e-9);
            let swell = fade(square * 0.25);
            field += size * 2.0 * swell * if dv > 0.0 { 1.0 } else { -1.0 };
            heart += fade(square * 1.6);
        }
        let ring = field * rings;
        let phase = fraction(ring);
        // Early wood brightens slowly, late wood ends in a sharp dark line.
        let grain =
            smooth(0.0, 0.75, phase) * smooth(1.0, 0.9, phase) * lerp(0.5, 1.0, noise.of(floor(ring), 5));
        let fine = noise.fbm(u * 5.0 + slide, v * 130.0, 3) - 0.5;
        let pore = smooth(0.68, 0.85, noise.at(u * 16.0, v * 220.0)) * fibre;
        let level = 0.16 + 0.62 * grain + 1.3 * fibre * fine + varied * 2.4 * tone - 0.4 * pore;
        let gap = smooth(0.0, 0.012, top) * smooth(0.0, 0.006, plank - top);
        let figure = 1.0 + 0.06 * sine(u * 2.0 + 3.0 * noise.at(u, v * 3.0));
        let body = ramp(&wood, level).mix(wood[0] * 0.5, (heart * 0.85).min(1.0)) * figure;
        let lit = 1.0 + 0.14 * turned(x - wide * 0.5, y - tall * 0.5, light).0;
        body * (lit * lerp(0.3, 1.0, gap))
    });
}
