//! Lattice noise of one picture: value noise, its sums over octaves, ridges and cells, from tables its [`Random`] filled.

use super::curves::{floor, length};
use super::random::Random;

const TABLE: usize = 256;

/// Tables of one picture's noise; it repeats after [`TABLE`] lattice steps, which no picture spans at a visible scale.
pub struct Noise {
    order: [u8; TABLE],
    values: [f64; TABLE],
}

/// The position of a point among the scattered cell centres.
pub struct Cell {
    /// Distance to the nearest centre.
    pub nearest: f64,
    /// Distance to the second nearest one.
    pub second: f64,
    /// A number in 0..1 that belongs to the nearest centre.
    pub tone: f64,
}

impl Noise {
    /// Noise for one picture alone.
    pub fn new(random: &mut Random) -> Self {
        let mut order = [0; TABLE];
        for idx in 0..TABLE {
            // Fisher-Yates, built in place.
            let other = random.below(idx + 1);
            order[idx] = order[other];
            order[other] = idx as u8;
        }
        Self { order, values: std::array::from_fn(|_| random.unit()) }
    }

    /// The number in 0..1 of a lattice point.
    pub fn of(&self, i: i64, j: i64) -> f64 {
        self.in_row(i, self.row(j))
    }

    fn row(&self, j: i64) -> i64 {
        i64::from(self.order[(j & 255) as usize])
    }

    fn in_row(&self, i: i64, row: i64) -> f64 {
        self.values[usize::from(self.order[((i + row) & 255) as usize])]
    }

    /// Value noise in 0..1 that varies over one unit.
    pub fn at(&self, x: f64, y: f64) -> f64 {
        let (i, j) = (floor(x), floor(y));
        let (u, v) = (x - i as f64, y - j as f64);
        let (u, v) = (u * u * u * (u * (u * 6.0 - 15.0) + 10.0), v * v * v * (v * (v * 6.0 - 15.0) + 10.0));
        // The four corners as `of` returns them, each row looked up once.
        let (this, next) = (self.row(j), self.row(j + 1));
        let (a, b) = (self.in_row(i, this), self.in_row(i + 1, this));
        let (c, d) = (self.in_row(i, next), self.in_row(i + 1, next));
        let (above, below) = (a + (b - a) * u, c + (d - c) * u);
        above + (below - above) * v
    }

    /// Noise summed over octaves, about 0.5 +- 0.3; each octave is turned, so that the lattice does not show.
    pub fn fbm(&self, x: f64, y: f64, octaves: u32) -> f64 {
        self.octaves(x, y, octaves, |value| value)
    }

    /// Sharp crests (1) between valleys (0), summed over octaves.
    pub fn ridge(&self, x: f64, y: f64, octaves: u32) -> f64 {
        self.octaves(x, y, octaves, |value| 1.0 - (2.0 * value - 1.0).abs())
    }

    fn octaves(&self, mut x: f64, mut y: f64, octaves: u32, shape: impl Fn(f64) -> f64) -> f64 {
        let (mut sum, mut weight, mut total) = (0.0, 1.0, 0.0);
        for _ in 0..octaves {
            sum += weight * shape(self.at(x, y));
            total += weight;
            weight *= 0.5;
            // A turn by about 37 degrees and a scaling by 2, moved away from the common origin.
            (x, y) = (1.6 * x + 1.2 * y + 17.3, 1.6 * y - 1.2 * x + 5.9);
        }
        sum / total
    }

    /// The cells of scattered centres, one per unit square.
    pub fn cell(&self, x: f64, y: f64) -> Cell {
        let (i0, j0) = (floor(x), floor(y));
        let mut found = Cell { nearest: 9.0, second: 9.0, tone: 0.0 };
        for (i, j) in (-1..=1).flat_map(|j| (-1..=1).map(move |i| (i0 + i, j0 + j))) {
            let (cx, cy) = (i as f64 + self.of(i, j), j as f64 + self.of(i + 71, j + 113));
            let distance = length(x - cx, y - cy);
            if distance < found.nearest {
                found = Cell { nearest: distance, second: found.nearest, tone: self.of(i + 37, j + 53) };
            } else if distance < found.second {
                found.second = distance;
            }
        }
        found
    }
}
