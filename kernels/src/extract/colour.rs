//! sRGB to CIE Lab under D65, and to grey: one definition for the reference and the fast path.
//!
//! Lab uses the sRGB exponent 2.4 and the linear branch (1/3)(29/6)^2 t + 4/29; grey is integer arithmetic.

use crate::elementary::{cbrt, fifth_root};

/// Linear light of an 8-bit sRGB value.
static LINEAR: [f64; 256] = {
    let mut table = [0.0; 256];
    let mut value = 0;
    while value < 256 {
        let t = value as f64 / 255.0;
        table[value] = if t > 0.04045 {
            let u = (t + 0.055) / 1.055;
            // u^2.4 = u^2 (u^2)^(1/5): no power function, so the table has the same bits everywhere.
            u * u * fifth_root(u * u)
        } else {
            t / 12.92
        };
        value += 1;
    }
    table
};

/// X, Y and Z relative to the white point D65, row by row.
const MATRIX: [[f64; 3]; 3] = [
    [0.4124 / WHITE_X, 0.3576 / WHITE_X, 0.1805 / WHITE_X],
    [0.2126, 0.7152, 0.0722],
    [0.0193 / WHITE_Z, 0.1192 / WHITE_Z, 0.9505 / WHITE_Z],
];
const WHITE_X: f64 = 0.9505;
const WHITE_Z: f64 = 1.0890;

/// Below (6/29)^3 the cube root gives way to its tangent.
const LINEAR_END: f64 = (6.0 / 29.0) * (6.0 / 29.0) * (6.0 / 29.0);
const LINEAR_SLOPE: f64 = (29.0 / 6.0) * (29.0 / 6.0) / 3.0;
const LINE_OFFSET: f64 = 4.0 / 29.0;

/// Numbers for the kernel on a device: the sRGB curve, the matrix row by row, then the slope, the offset and the end of the
/// linear branch.
pub(super) fn device_numbers() -> impl Iterator<Item = f64> {
    let line = [LINEAR_SLOPE, LINE_OFFSET, LINEAR_END];
    LINEAR.into_iter().chain(MATRIX.into_iter().flatten()).chain(line)
}

/// XYZ over white of an sRGB pixel.
#[inline(always)]
pub(super) fn xyz([red, green, blue]: [u8; 3]) -> [f64; 3] {
    let (r, g, b) = (LINEAR[usize::from(red)], LINEAR[usize::from(green)], LINEAR[usize::from(blue)]);
    MATRIX.map(|row| row[0] * r + row[1] * g + row[2] * b)
}

/// CIE L, a and b of an XYZ over white.
#[inline(always)]
pub(super) fn lab([x, y, z]: [f64; 3]) -> [f64; 3] {
    let (fx, fy, fz) = (compress(x), compress(y), compress(z));
    [116.0 * fy - 16.0, 500.0 * (fx - fy), 200.0 * (fy - fz)]
}

#[inline(always)]
fn compress(t: f64) -> f64 {
    // Both branches are computed, so that a loop over pixels vectorises; the root of max(t, 1e-6) has a normal guess.
    let root = cbrt(if t > 1e-6 { t } else { 1e-6 });
    let line = LINEAR_SLOPE * t + LINE_OFFSET;
    if t > LINEAR_END { root } else { line }
}

/// round((.299 R + .587 G + .114 B) grey_max) with R, G and B in [0, 1], halves up.
#[inline(always)]
pub(super) fn grey([red, green, blue]: [u8; 3], grey_max: u8) -> u8 {
    let luma = 299 * u32::from(red) + 587 * u32::from(green) + 114 * u32::from(blue);
    ((2 * luma * u32::from(grey_max) + 255_000) / 510_000) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rgb: [u8; 3], expected: [f64; 3]) {
        let found = lab(xyz(rgb));
        let near = found.iter().zip(expected).all(|(f, e)| (f - e).abs() < 0.03);
        assert!(near, "{rgb:?} gives {found:?}, not {expected:?}");
    }

    #[test]
    fn known_colours() {
        check([255, 255, 255], [100.0, 0.0, 0.0]);
        check([0, 0, 0], [0.0, 0.0, 0.0]);
        check([255, 0, 0], [53.24, 80.09, 67.20]);
        check([0, 255, 0], [87.73, -86.18, 83.18]);
        check([0, 0, 255], [32.30, 79.19, -107.86]);
        check([128, 128, 128], [53.585, 0.0, 0.0]);
        check([5, 5, 5], [1.371, 0.0, 0.0]);
    }

    #[test]
    fn the_table_is_the_srgb_curve() {
        for (value, linear) in LINEAR.iter().enumerate().skip(11) {
            let expected = ((value as f64 / 255.0 + 0.055) / 1.055).powf(2.4);
            assert!((linear - expected).abs() < 2e-15 * expected.max(0.01), "{value}");
        }
        assert_eq!(LINEAR[10], 10.0 / 255.0 / 12.92);
    }

    #[test]
    fn grey_rounds_halves_up_and_uses_the_whole_scale() {
        assert_eq!(grey([255, 255, 255], 15), 15);
        assert_eq!(grey([0, 0, 0], 15), 0);
        assert_eq!(grey([255, 255, 255], 255), 255);
        assert_eq!(grey([0, 255, 0], 15), 9); // 8.805
        assert_eq!(grey([127, 127, 127], 1), 0);
        assert_eq!(grey([128, 128, 128], 1), 1);
    }
}
