//! `checkered_cloth`: gingham, tartan or chessboard weave in two or three colours, with folds and visible threads.

use super::canvas::Canvas;
use super::colour::{Colour, hsv, rgb};
use super::curves::{direction, fraction, lerp, sine, smooth, turned};
use super::noise::Noise;
use super::random::Random;

/// Stripes of a tartan before it repeats.
const SETT: usize = 7;

/// Paints one picture of the class.
pub fn paint(random: &mut Random, canvas: &mut Canvas) {
    let noise = Noise::new(random);
    let dyes: [Colour; 3] = dyes(random);
    let kind = random.favour(&[0, 1, 2]);
    let check = random.between(0.06, 0.16);
    let axis = direction(random.pick(&[0.0, 0.0, 0.125]) + random.bell() * 0.05);
    let sett: [(f64, usize); SETT] = std::array::from_fn(|_| (random.between(0.3, 1.5), random.below(3)));
    let total: f64 = sett.iter().map(|stripe| stripe.0).sum();
    let (folds, bent) = (random.between(0.0, 0.6), random.between(0.0, 0.14));
    let thread = random.between(60.0, 120.0);
    let (weave, fold_axis) = (random.between(0.04, 0.22), direction(random.unit()));
    let dye_at = |at: f64| match kind {
        0 | 1 => usize::from(sine(at * 0.5) > 0.0),
        _ => {
            let mut left = fraction(at / total) * total;
            let stripe = sett.iter().find(|(width, _)| {
                left -= width;
                left < 0.0
            });
            stripe.map_or(0, |&(_, dye)| dye)
        }
    };
    canvas.paint(|x, y, _| {
        let (fu, fv) = turned(x, y, fold_axis);
        let drape = noise.fbm(fu * 1.3, fv * 3.4, 3);
        let next = noise.fbm(fu * 1.3, fv * 3.4 + 0.16, 3);
        let (u, v) = turned(x + bent * drape * 2.0, y + bent * (1.0 - drape), axis);
        let (a, b) = (dye_at(u / check), dye_at(v / check));
        let over = sine(u * thread) * sine(v * thread) > 0.0;
        let colour = match kind {
            // Gingham: full where both yarns are dyed, half where one is, white elsewhere.
            0 => dyes[2].mix(dyes[0], 0.5 * (a + b) as f64),
            1 => dyes[if a == b { 0 } else { 1 }],
            _ => dyes[if over { a } else { b }].mix(dyes[if over { b } else { a }], 0.35),
        };
        let relief = 1.0 + weave * (sine(u * thread).abs() + sine(v * thread).abs() - 1.0);
        let shade = lerp(1.0, smooth(-0.22, 0.16, next - drape) * 0.85 + 0.32, folds);
        let fuzz = lerp(0.93, 1.07, noise.at(x * 70.0, y * 70.0));
        colour * (relief * shade * fuzz)
    });
}

fn dyes(random: &mut Random) -> [Colour; 3] {
    let hue = random.favour(&[0.0, 0.99, 0.61, 0.03, 0.35, 0.12, 0.8]) + random.bell() * 0.03;
    let strong = hsv(hue, random.between(0.65, 0.9), random.between(0.55, 0.85));
    let second = match random.below(7) {
        0 => strong * 0.35,
        1 => hsv(hue + random.pick(&[0.33, 0.5, 0.1]), 0.6, random.between(0.25, 0.7)),
        _ => rgb(0xece6d8),
    };
    [strong, second, rgb(0xf2efe6).mix(strong, random.between(0.0, 0.15))]
}
