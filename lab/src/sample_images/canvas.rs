//! The surface of a scene: lengths are in units of the shorter side, edges are anti-aliased by their distance.

use image::RgbImage;

use super::colour::{Colour, grey};
use super::curves::{clamp, length, smooth};
use super::random::Random;

/// An unfinished picture; x runs right and y runs down from the top left corner.
#[derive(Clone)]
pub struct Canvas {
    columns: u32,
    rows: u32,
    pixel: f64,
    colours: Vec<Colour>,
}

/// The rectangle outside which a shape draws nothing.
pub struct Bounds {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl Bounds {
    /// The square of all points nearer than `reach` to the centre along both axes.
    pub fn around(centre: (f64, f64), reach: f64) -> Self {
        Self::of(centre.0 - reach, centre.1 - reach, centre.0 + reach, centre.1 + reach)
    }

    /// From the left, top corner to the right, bottom one.
    pub fn of(left: f64, top: f64, right: f64, bottom: f64) -> Self {
        Self { left, top, right, bottom }
    }
}

impl Canvas {
    /// A black canvas; both sides are at least one pixel.
    pub fn new(columns: u32, rows: u32) -> Self {
        assert!(columns > 0 && rows > 0, "a picture has pixels");
        let pixel = 1.0 / f64::from(columns.min(rows));
        Self { columns, rows, pixel, colours: vec![grey(0.0); columns as usize * rows as usize] }
    }

    /// Width and height; the smaller of them is 1.
    pub fn extent(&self) -> (f64, f64) {
        (f64::from(self.columns) * self.pixel, f64::from(self.rows) * self.pixel)
    }

    /// The colour of the pixel at (x, y), or of the nearest one on the canvas.
    pub fn at(&self, x: f64, y: f64) -> Colour {
        let column = ((x / self.pixel).max(0.0) as u32).min(self.columns - 1);
        let row = ((y / self.pixel).max(0.0) as u32).min(self.rows - 1);
        self.colours[row as usize * self.columns as usize + column as usize]
    }

    /// Recolours every pixel from its centre (x, y) and the colour it has.
    pub fn paint(&mut self, mut colour: impl FnMut(f64, f64, Colour) -> Colour) {
        let rows = self.colours.chunks_exact_mut(self.columns as usize);
        for (row, colours) in rows.enumerate() {
            let y = (row as f64 + 0.5) * self.pixel;
            for (column, under) in colours.iter_mut().enumerate() {
                *under = colour((column as f64 + 0.5) * self.pixel, y, *under);
            }
        }
    }

    /// Draws the shape whose signed distance is negative inside, over an edge `soft` wide (a pixel at least).
    /// `colour` sees (x, y) and the colour underneath.
    pub fn draw(
        &mut self,
        bounds: Bounds,
        soft: f64,
        distance: impl Fn(f64, f64) -> f64,
        colour: impl Fn(f64, f64, Colour) -> Colour,
    ) {
        let soft = soft.max(self.pixel);
        let from = |low: f64| ((low - soft) / self.pixel).max(0.0) as u32;
        let to = |high: f64, count: u32| (((high + soft) / self.pixel + 1.0).max(0.0) as u32).min(count);
        for row in from(bounds.top)..to(bounds.bottom, self.rows) {
            let y = (f64::from(row) + 0.5) * self.pixel;
            for column in from(bounds.left)..to(bounds.right, self.columns) {
                let x = (f64::from(column) + 0.5) * self.pixel;
                let cover = clamp(0.5 - distance(x, y) / soft);
                if cover > 0.0 {
                    let under = &mut self.colours[row as usize * self.columns as usize + column as usize];
                    *under = under.mix(colour(x, y, *under), cover * cover * (3.0 - 2.0 * cover));
                }
            }
        }
    }

    /// Draws the area between a crest, given for each x, and `bottom`; `colour` sees x, y and the crest's y.
    pub fn draw_below(
        &mut self,
        crest: impl Fn(f64) -> f64,
        bottom: f64,
        colour: impl Fn(f64, f64, f64) -> Colour,
    ) {
        let rows = ((bottom / self.pixel + 1.0).max(0.0) as u32).min(self.rows);
        for column in 0..self.columns {
            let x = (f64::from(column) + 0.5) * self.pixel;
            let top = crest(x);
            for row in (top / self.pixel - 1.0).max(0.0) as u32..rows {
                let y = (f64::from(row) + 0.5) * self.pixel;
                let cover = clamp(0.5 + (y - top) / self.pixel);
                if cover > 0.0 {
                    let under = &mut self.colours[row as usize * self.columns as usize + column as usize];
                    *under = under.mix(colour(x, y, top), cover);
                }
            }
        }
    }

    /// Draws a disc of one colour.
    pub fn disc(&mut self, centre: (f64, f64), radius: f64, soft: f64, colour: Colour) {
        let distance = |x: f64, y: f64| length(x - centre.0, y - centre.1) - radius;
        self.draw(Bounds::around(centre, radius), soft, distance, |_, _, _| colour);
    }

    /// Draws an upright rectangle of one colour.
    pub fn rectangle(&mut self, left: f64, top: f64, right: f64, bottom: f64, colour: Colour) {
        let distance = |x: f64, y: f64| (left - x).max(x - right).max(top - y).max(y - bottom);
        self.draw(Bounds::of(left, top, right, bottom), 0.0, distance, |_, _, _| colour);
    }

    /// Draws a line with round ends that narrows from one half width to the other.
    pub fn stroke(&mut self, a: (f64, f64), b: (f64, f64), halves: (f64, f64), colour: Colour) {
        let reach = halves.0.max(halves.1);
        let bounds = Bounds::of(
            a.0.min(b.0) - reach,
            a.1.min(b.1) - reach,
            a.0.max(b.0) + reach,
            a.1.max(b.1) + reach,
        );
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let scale = 1.0 / (dx * dx + dy * dy).max(1e-12);
        let distance = |x: f64, y: f64| {
            let along = clamp(((x - a.0) * dx + (y - a.1) * dy) * scale);
            length(x - a.0 - dx * along, y - a.1 - dy * along) - (halves.0 + (halves.1 - halves.0) * along)
        };
        self.draw(bounds, 0.0, distance, |_, _, _| colour);
    }

    /// Applies the camera's part, different in each picture: exposure, white balance, saturation, vignette, film grain.
    pub fn develop(mut self, random: &mut Random) -> RgbImage {
        let exposure = random.between(0.9, 1.1);
        let warmth = random.bell() * 0.08;
        let tint = Colour([1.0 + warmth, 1.0 + random.bell() * 0.03, 1.0 - warmth]) * exposure;
        let saturation = random.between(0.82, 1.16);
        let contrast = random.between(0.9, 1.12);
        let vignette = random.between(0.0, 0.42);
        let grain = random.between(0.004, 0.028);
        let (wide, tall) = self.extent();
        let reach = 1.0 / (wide * wide + tall * tall);
        self.paint(|x, y, under| {
            let (dx, dy) = (2.0 * x - wide, 2.0 * y - tall);
            let shade = 1.0 - vignette * smooth(0.25, 1.1, (dx * dx + dy * dy) * reach);
            let lit = (under.tinted(tint) * shade).saturated(saturation);
            let speck = grain * 1.7 * random.bell();
            Colour(lit.0.map(|channel| (channel - 0.45) * contrast + 0.45 + speck))
        });
        RgbImage::from_fn(self.columns, self.rows, |column, row| {
            let colour = self.colours[row as usize * self.columns as usize + column as usize];
            image::Rgb(colour.0.map(|channel| (clamp(channel) * 255.0 + 0.5) as u8))
        })
    }
}
