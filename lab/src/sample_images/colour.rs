//! A display colour (sRGB, 0..1 a channel, above 1 while light is added) and how colours are mixed.

use std::ops::{Add, Mul};

use super::curves::{clamp, fraction, lerp};

/// A colour; arithmetic acts on each channel.
#[derive(Clone, Copy)]
pub struct Colour(pub [f64; 3]);

/// The colour written as 0xRRGGBB.
pub const fn rgb(code: u32) -> Colour {
    Colour([channel_of(code, 16), channel_of(code, 8), channel_of(code, 0)])
}

/// The same grey in every channel.
pub const fn grey(level: f64) -> Colour {
    Colour([level; 3])
}

/// Hue in turns, saturation and value in 0..1.
pub fn hsv(hue: f64, saturation: f64, value: f64) -> Colour {
    let channel = |offset: f64| {
        let wave = clamp((fraction(hue + offset) * 6.0 - 3.0).abs() - 1.0);
        value * (1.0 - saturation * (1.0 - wave))
    };
    Colour([channel(0.0), channel(2.0 / 3.0), channel(1.0 / 3.0)])
}

/// The colour at `t` in 0..=1 along evenly spaced stops, of which there is at least one.
pub fn ramp(stops: &[Colour], t: f64) -> Colour {
    let at = clamp(t) * (stops.len() - 1) as f64;
    let idx = (at as usize).min(stops.len().saturating_sub(2));
    stops[idx].mix(stops[(idx + 1).min(stops.len() - 1)], at - idx as f64)
}

impl Colour {
    /// This colour at t = 0, the other at t = 1.
    pub fn mix(self, other: Colour, t: f64) -> Colour {
        self.zip(other, |a, b| lerp(a, b, t))
    }

    /// Brightness as the eye weighs it.
    pub fn luma(self) -> f64 {
        0.299 * self.0[0] + 0.587 * self.0[1] + 0.114 * self.0[2]
    }

    /// More (above 1) or less (below 1) colourful at equal brightness.
    pub fn saturated(self, factor: f64) -> Colour {
        grey(self.luma()).mix(self, factor)
    }

    /// Light added on a screen: never leaves 0..1 for parts within it.
    pub fn screen(self, light: Colour) -> Colour {
        self.zip(light, |a, b| 1.0 - (1.0 - clamp(a)) * (1.0 - clamp(b)))
    }

    /// The channels multiplied in pairs.
    pub fn tinted(self, tint: Colour) -> Colour {
        self.zip(tint, |a, b| a * b)
    }

    fn zip(self, other: Colour, f: impl Fn(f64, f64) -> f64) -> Colour {
        Colour([f(self.0[0], other.0[0]), f(self.0[1], other.0[1]), f(self.0[2], other.0[2])])
    }
}

impl Mul<f64> for Colour {
    type Output = Colour;

    fn mul(self, factor: f64) -> Colour {
        Colour(self.0.map(|channel| channel * factor))
    }
}

impl Add for Colour {
    type Output = Colour;

    fn add(self, other: Colour) -> Colour {
        self.zip(other, |a, b| a + b)
    }
}

const fn channel_of(code: u32, shift: u32) -> f64 {
    ((code >> shift) & 255) as f64 / 255.0
}
