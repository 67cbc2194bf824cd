//! `blue_sky_clouds`: heaps or veils of cloud on a blue sky, at times a strip of land or haze below.

use super::canvas::Canvas;
use super::colour::{grey, ramp, rgb};
use super::curves::{lerp, smooth};
use super::noise::Noise;
use super::random::Random;

/// Paints one picture of the class.
pub fn paint(random: &mut Random, canvas: &mut Canvas) {
    let noise = Noise::new(random);
    let (_, tall) = canvas.extent();
    let sky = random.pick(&[
        [rgb(0x1f5fb4), rgb(0x4f93d8), rgb(0xb7d9f0)],
        [rgb(0x2d79c7), rgb(0x78b4e6), rgb(0xdcecf5)],
        [rgb(0x17407e), rgb(0x3b78b8), rgb(0x9cc4de)],
        [rgb(0x4b8fb8), rgb(0x8fc1d2), rgb(0xe4ece4)],
        [rgb(0x35589a), rgb(0x8aa0cc), rgb(0xf2d9c6)],
    ]);
    let cover = random.between(0.38, 0.54);
    let scale = random.between(0.9, 3.0);
    let flat = random.pick(&[1.0, 1.3, 1.8, 4.0]);
    let edge = random.between(0.05, 0.2);
    let (lx, ly) = (random.between(-0.25, 0.25), random.between(0.15, 0.3));
    let shade = rgb(0x6c7c98).mix(rgb(0x9aa4b4), random.unit());
    let light = grey(1.0).mix(rgb(0xffe6c8), random.between(0.0, 0.7));
    let low = random.between(0.1, 0.5);
    canvas.paint(|x, y, _| {
        let (u, v) = (x * scale, y * scale * flat);
        let (wx, wy) = (noise.at(u * 2.0 + 9.0, v * 2.0), noise.at(u * 2.0, v * 2.0 + 31.0));
        let (u, v) = (u + 0.16 * wx, v + 0.16 * wy);
        let density = noise.fbm(u, v, 6) + 0.08 * (noise.at(u * 0.5, v * 0.5 + 60.0) - 0.5);
        let thick = smooth(cover, cover + edge, density);
        // Thinner towards the light: that side of a heap is bright.
        let toward = noise.fbm(u + lx, v - ly, 4);
        let bright = smooth(-0.16, 0.12, density - toward - 0.25 * (density - cover));
        let cloud = shade.mix(light, bright) * lerp(0.92, 1.02, wx);
        ramp(&sky, y / tall * lerp(0.8, 1.1, low)).mix(cloud, thick)
    });
    if random.chance(0.35) {
        let line = tall * random.between(0.82, 0.95);
        let ground = random.pick(&[rgb(0x2f4a30), rgb(0x6b7a3f), rgb(0x2b4f73), rgb(0x8a7a58)]);
        let roll = random.between(0.01, 0.06);
        canvas.paint(|x, y, under| {
            let edge = line + roll * (noise.fbm(x * 3.0, 80.0, 4) - 0.5);
            let tone = lerp(0.7, 1.25, noise.fbm(x * 14.0, y * 40.0, 3));
            under.mix(ground * tone, smooth(edge - 0.003, edge + 0.004, y))
        });
    }
}
