//! `desert_dunes`: rows of dunes with a lit and a shaded flank each, ripples in the sand, a pale, blue or evening sky.

use super::canvas::Canvas;
use super::colour::{Colour, ramp, rgb};
use super::curves::{fade, lerp, sine, smooth};
use super::noise::Noise;
use super::random::Random;

const SANDS: [[Colour; 3]; 5] = [
    [rgb(0x6b3a1e), rgb(0xd08a45), rgb(0xf6cf8e)],
    [rgb(0x7a5a3a), rgb(0xc9a36a), rgb(0xf3e0b4)],
    [rgb(0x5a241a), rgb(0xb65428), rgb(0xf0a060)],
    [rgb(0x4a3a4a), rgb(0xa57a68), rgb(0xe8c4a0)],
    [rgb(0x64421c), rgb(0xb98534), rgb(0xf5d070)],
];

/// Paints one picture of the class.
pub fn paint(random: &mut Random, canvas: &mut Canvas) {
    let noise = Noise::new(random);
    let (wide, tall) = canvas.extent();
    let sand = random.favour(&SANDS);
    let sky = random.pick(&[
        [rgb(0x3f7fc0), rgb(0xa9cde6), rgb(0xf0e6d0)],
        [rgb(0x7aa0bc), rgb(0xcfd4cc), rgb(0xf2e2c0)],
        [rgb(0x8a4a52), rgb(0xe08a5a), rgb(0xffd598)],
        [rgb(0x30406e), rgb(0xb0788a), rgb(0xfbc08a)],
    ]);
    let horizon = tall * random.between(0.12, 0.52);
    canvas.paint(|x, y, _| {
        let haze = noise.fbm(x * 1.5, y * 7.0, 4);
        ramp(&sky, y / horizon).mix(sky[2], 0.5 * smooth(0.5, 0.8, haze))
    });
    if random.chance(0.35) {
        let sun = (wide * random.between(0.1, 0.9), horizon * random.between(0.2, 0.9));
        canvas.disc(sun, random.between(0.03, 0.07), 0.02, rgb(0xfff2cc));
    }
    let rows = random.count(3, 6);
    let side = random.pick(&[-1.0, 1.0]);
    let ripples = random.between(22.0, 60.0);
    let nearness = |row: usize| (row as f64 + 0.3) / rows as f64;
    let base_at = |near: f64| horizon + (tall - horizon) * near * near.sqrt() - 0.02;
    for row in 0..rows {
        let near = nearness(row);
        let base = base_at(near);
        let height = lerp(0.05, 0.3, near) * random.between(0.6, 1.3);
        let stretch = random.between(1.2, 2.4) / lerp(0.4, 1.0, near);
        let (offset, slant) = (random.between(0.0, 90.0), random.between(0.6, 2.2) * side);
        let crest = |x: f64| base - height * (noise.ridge(x * stretch * 0.6 + offset, offset, 2) - 0.55);
        let haze = 0.55 * (1.0 - near) * (1.0 - near);
        let next = nearness(row + 1);
        // The next row hides the rest: its crest is nowhere lower than this.
        let bottom = if row + 1 == rows { tall } else { base_at(next) + 0.55 * 1.3 * lerp(0.05, 0.3, next) };
        canvas.draw_below(crest, bottom, |x, y, top| {
            let below = (y - top) / height;
            // A crest runs where the noise crosses one half: lit on one side of it, shaded on the other.
            let u = (x - below * height * slant) * stretch * 0.6 + offset;
            let field = noise.at(u + 0.22 * noise.at(x * 3.0, y * 3.0), offset + below * 0.35) - 0.5;
            let flank = smooth(-0.012, 0.012, field * side);
            let face =
                lerp(0.5 - 0.42 * fade(field.abs() * 5.0), 0.5 + 0.45 * fade(field.abs() * 4.0), flank);
            let wobble = noise.fbm(x * 5.0, y * 6.0, 3);
            let ripple = 0.05 * near * flank * sine(y * ripples / (0.4 + near) + wobble * 5.0 + x * 6.0);
            let fine = 0.06 * (noise.at(x * 70.0, y * 90.0) - 0.5);
            ramp(&sand, face + ripple + fine + 0.18 * (wobble - 0.5)).mix(sky[2], haze)
        });
    }
}
