//! `neon_signs`: glowing tubes (rings, arrows, stars, zigzags, script) on a dark wall that catches their light.

use super::canvas::Canvas;
use super::colour::{Colour, grey, hsv, rgb};
use super::curves::{clamp, direction, fade, floor, fraction, length, lerp, smooth};
use super::noise::Noise;
use super::random::Random;

struct Tube {
    segments: Vec<Segment>,
    centre: (f64, f64),
    reach: f64,
    light: Colour,
    half: f64,
}

/// A straight piece of a tube, from `start` along `way`; `scale` is one over the square of its length.
struct Segment {
    start: (f64, f64),
    way: (f64, f64),
    scale: f64,
}

impl Segment {
    fn between(a: (f64, f64), b: (f64, f64)) -> Self {
        let way = (b.0 - a.0, b.1 - a.1);
        Self { start: a, way, scale: 1.0 / (way.0 * way.0 + way.1 * way.1).max(1e-12) }
    }

    /// Square of the distance from (x, y).
    fn square(&self, x: f64, y: f64) -> f64 {
        let (px, py) = (x - self.start.0, y - self.start.1);
        let along = clamp((px * self.way.0 + py * self.way.1) * self.scale);
        let (dx, dy) = (px - self.way.0 * along, py - self.way.1 * along);
        dx * dx + dy * dy
    }
}

/// Paints one picture of the class.
pub fn paint(random: &mut Random, canvas: &mut Canvas) {
    let noise = Noise::new(random);
    let (wide, tall) = canvas.extent();
    let wall = random.favour(&[rgb(0x14141c), rgb(0x241a20), rgb(0x101c24), rgb(0x2a2420), rgb(0x1c1030)]);
    let brick = if random.chance(0.5) { random.between(0.05, 0.09) } else { 0.0 };
    canvas.paint(|x, y, _| {
        let rough = lerp(0.5, 1.5, noise.fbm(x * 9.0, y * 9.0, 4));
        if brick == 0.0 {
            return wall * rough;
        }
        let row = floor(y / brick);
        let u = x / (brick * 2.6) + 0.5 * (row & 1) as f64;
        let (left, top) = (fraction(u) * brick * 2.6, fraction(y / brick) * brick);
        let face = smooth(0.0, 0.008, left.min(top));
        wall * (rough * lerp(0.45, 1.2, face) * lerp(0.7, 1.4, noise.of(floor(u), row)))
    });
    let hue = random.favour(&[0.9, 0.82, 0.95, 0.54, 0.05, 0.35]) + random.bell() * 0.03;
    let spread = random.favour(&[0.1, 0.3, 0.5]);
    let half = random.between(0.006, 0.014);
    let size = random.between(0.12, 0.34);
    let mut tubes: Vec<Tube> = Vec::new();
    for _ in 0..random.count(3, 7) {
        let light = hsv(hue + random.bell() * spread, random.between(0.65, 1.0), 1.0);
        // From a few places, take the farthest from earlier signs: signs may cross, but seldom overlap.
        let places: [(f64, f64); 6] =
            std::array::from_fn(|_| (wide * random.between(0.15, 0.85), tall * random.between(0.15, 0.85)));
        let room = |at: (f64, f64)| {
            tubes.iter().map(|tube| length(at.0 - tube.centre.0, at.1 - tube.centre.1)).fold(9.0, f64::min)
        };
        let centre =
            places.into_iter().fold(places[0], |best, at| if room(at) > room(best) { at } else { best });
        let reach = size * random.between(0.6, 1.3);
        let points = outline(random, centre, reach);
        if random.chance(0.3) {
            let inner: Vec<_> =
                points.iter().map(|p| (lerp(centre.0, p.0, 0.75), lerp(centre.1, p.1, 0.75))).collect();
            let light = hsv(hue + random.bell() * spread + 0.15, 0.9, 1.0);
            tubes.push(Tube { segments: chain(&inner), centre, reach, light, half });
        }
        tubes.push(Tube { segments: chain(&points), centre, reach, light, half });
    }
    let glow = random.between(0.5, 1.0);
    canvas.paint(|x, y, under| {
        let (mut light, mut tube_cover, mut tube_colour) = (grey(0.0), 0.0, grey(0.0));
        for tube in &tubes {
            let away = (x - tube.centre.0).abs().max((y - tube.centre.1).abs());
            let range = tube.reach * 1.2 + 0.18;
            if away > range {
                continue;
            }
            let near = tube.segments.iter().map(|segment| segment.square(x, y)).fold(9.0, f64::min).sqrt();
            // The light falls off before the range ends, so that no square shows.
            let halo = (0.4 * fade(near * 11.0) + 0.6 * fade(near * 34.0)) * smooth(range, range * 0.6, away);
            light = light + tube.light * halo;
            let cover = smooth(tube.half * 1.4, tube.half * 0.7, near);
            if cover > tube_cover {
                tube_cover = cover;
                tube_colour = tube.light.mix(grey(1.0), smooth(tube.half, 0.0, near) * 0.85);
            }
        }
        let lit = under + under.tinted(light) * 2.6;
        lit.screen(light * (0.5 * glow)).mix(tube_colour, tube_cover)
    });
}

fn chain(points: &[(f64, f64)]) -> Vec<Segment> {
    points.windows(2).map(|ends| Segment::between(ends[0], ends[1])).collect()
}

fn outline(random: &mut Random, centre: (f64, f64), reach: f64) -> Vec<(f64, f64)> {
    let at = |turns: f64, scale: f64| {
        let (dx, dy) = direction(turns);
        (centre.0 + dx * reach * scale, centre.1 + dy * reach * scale)
    };
    let by = |x: f64, y: f64| (centre.0 + x * reach, centre.1 + y * reach);
    let spin = random.unit();
    match random.below(7) {
        0 => (0..=18).map(|i| at(f64::from(i) / 18.0, 0.8)).collect(),
        1 => (0..=10).map(|i| at(f64::from(i) / 10.0 - 0.25, if i % 2 == 0 { 0.95 } else { 0.42 })).collect(),
        2 => {
            let tilt = direction(spin);
            let turn = |x: f64, y: f64| by(x * tilt.0 - y * tilt.1, x * tilt.1 + y * tilt.0);
            vec![turn(-0.9, 0.0), turn(0.9, 0.0), turn(0.45, -0.4), turn(0.9, 0.0), turn(0.45, 0.4)]
        }
        3 => (0..9).map(|i| by(f64::from(i) * 0.3 - 1.2, if i % 2 == 0 { -0.25 } else { 0.25 })).collect(),
        4 => vec![by(-1.1, -0.5), by(1.1, -0.5), by(1.1, 0.5), by(-1.1, 0.5), by(-1.1, -0.5)],
        // Script: loops of letters along a line.
        5 => (0..=26)
            .map(|i| {
                let t = f64::from(i) / 26.0;
                let (dx, dy) = direction(t * 4.0 + spin);
                by(t * 2.4 - 1.2 + dx * 0.22, dy * 0.32)
            })
            .collect(),
        _ => (0..=20)
            .map(|i| {
                let (dx, dy) = direction(f64::from(i) / 20.0 + 0.25);
                // A heart: a circle whose top is folded in.
                by(dx * 0.85, dy * 0.8 - 0.55 * dx.abs() * (1.0 - 0.4 * dx.abs()) + 0.1)
            })
            .collect(),
    }
}
