//! `city_night`: rows of towers with lit windows before a glowing sky, at times a moon, stars or a reflecting river.

use super::canvas::Canvas;
use super::colour::{Colour, grey, hsv, ramp, rgb};
use super::curves::{fade, length, lerp, smooth};
use super::noise::Noise;
use super::random::Random;

/// Paints one picture of the class.
pub fn paint(random: &mut Random, canvas: &mut Canvas) {
    let noise = Noise::new(random);
    let (wide, tall) = canvas.extent();
    let sky = random.pick(&[
        [rgb(0x050a1c), rgb(0x14204a), rgb(0x4a3a6a)],
        [rgb(0x0a0a14), rgb(0x2a1c34), rgb(0x8a4a3a)],
        [rgb(0x081824), rgb(0x103a50), rgb(0x3a6a7a)],
        [rgb(0x101840), rgb(0x3a3a80), rgb(0xc07a80)],
        [rgb(0x0c0c10), rgb(0x1c1c26), rgb(0x5a4a30)],
    ]);
    let ground = tall * random.between(0.72, 1.02);
    canvas.paint(|x, y, _| {
        let cloud = noise.fbm(x * 2.0, y * 5.0, 4);
        ramp(&sky, y / ground * 0.95).mix(sky[2] * 0.7, 0.5 * smooth(0.48, 0.8, cloud))
    });
    if random.chance(0.5) {
        for _ in 0..random.count(20, 80) {
            let at = (wide * random.unit(), ground * 0.7 * random.unit());
            canvas.disc(at, 0.002, 0.008, grey(random.between(0.4, 1.0)));
        }
    }
    if random.chance(0.35) {
        let moon = (wide * random.unit(), tall * random.between(0.06, 0.3));
        let radius = random.between(0.03, 0.06);
        canvas.paint(|x, y, under| {
            let away = length(x - moon.0, y - moon.1);
            under
                .screen(rgb(0xf0e8c8) * (0.4 * fade(away * 7.0)))
                .mix(rgb(0xf6f0dc), smooth(radius, radius - 0.008, away))
        });
    }
    let warm = random.pick(&[0.11, 0.12, 0.09, 0.55, 0.14]);
    let (rows, lively) = (random.count(2, 4), random.between(0.12, 0.6));
    let grain = random.between(0.018, 0.04);
    let highest = random.between(0.45, 0.85);
    for row in 0..rows {
        let near = (row as f64 + 1.0) / rows as f64;
        let mut left = -0.1;
        while left < wide {
            let width = lerp(0.07, 0.16, near) * random.between(0.6, 1.7);
            let height = ground * highest * lerp(1.0, 0.55, near) * random.between(0.35, 1.1);
            let wall = sky[0].mix(sky[2], 0.35 * (1.0 - near)) * random.between(0.5, 1.3) + grey(0.012);
            let lights = Lights {
                hue: warm,
                lively: lively * random.between(0.3, 1.6),
                pane: grain * lerp(0.55, 1.0, near),
            };
            tower(random, canvas, (left, ground - height, left + width, ground), wall, &lights);
            left += width * random.between(0.75, 1.25);
        }
    }
    if ground < tall * 0.97 {
        waterfront(random, canvas, &noise, ground, sky);
    }
    let haze = hsv(warm, 0.5, random.between(0.0, 0.28));
    canvas.paint(|_, y, under| under.screen(haze * fade((y - ground) * (y - ground) * 14.0)));
}

struct Lights {
    hue: f64,
    lively: f64,
    pane: f64,
}

fn tower(
    random: &mut Random,
    canvas: &mut Canvas,
    (left, top, right, bottom): (f64, f64, f64, f64),
    wall: Colour,
    lights: &Lights,
) {
    canvas.rectangle(left, top, right, bottom, wall);
    if random.chance(0.25) {
        let middle = (left + right) * 0.5;
        canvas.stroke((middle, top), (middle, top - random.between(0.03, 0.12)), (0.004, 0.001), wall);
        canvas.disc((middle, top - 0.03), 0.003, 0.008, rgb(0xff3a2a));
    }
    let (w, h) = (lights.pane * random.between(0.6, 1.4), lights.pane * random.between(0.8, 1.5));
    let glass = random.pick(&[0.35, 0.55, 0.8]);
    let hue = lights.hue + random.bell() * 0.04;
    let mut y = top + h * 0.6;
    while y + h * 0.5 < bottom {
        let floor = lights.lively * random.between(0.4, 1.6);
        let mut x = left + w * 0.4;
        while x + w * glass < right - w * 0.2 {
            if random.chance(floor) {
                let pane = hsv(hue, random.between(0.1, 0.65), random.between(0.45, 1.05));
                canvas.rectangle(x, y, x + w * glass, y + h * 0.55, pane);
            }
            x += w;
        }
        y += h;
    }
}

fn waterfront(random: &mut Random, canvas: &mut Canvas, noise: &Noise, ground: f64, sky: [Colour; 3]) {
    let before = canvas.clone();
    let (_, tall) = canvas.extent();
    let calm = random.between(0.01, 0.05);
    canvas.paint(|x, y, under| {
        if y < ground {
            return under;
        }
        let depth = (y - ground) / (tall - ground);
        let wave = noise.fbm(x * 9.0, y * 70.0 / (0.4 + depth), 2) - 0.5;
        let mut sum = grey(0.0);
        for tap in 0..4 {
            let stretch = 0.7 + 0.3 * f64::from(tap);
            sum = sum + before.at(x + wave * calm, ground - (y - ground) * stretch - wave * 0.1) * 0.25;
        }
        (sum * lerp(0.85, 0.5, depth)).mix(sky[1], 0.15 + 0.2 * wave)
    });
}
