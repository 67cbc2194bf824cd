//! The difference of two pictures: the peak signal-to-noise ratio, and structural similarity.
//!
//! Source: Wang, Bovik, Sheikh, Simoncelli, "Image quality assessment: from error visibility to structural similarity", IEEE
//! Transactions on Image Processing 13 (2004).

use super::picture::Picture;

/// Pixels from the middle of the window of [`ssim`] to its edge.
const HALF: usize = 5;
/// The deviation of the window of [`ssim`].
const DEVIATION: f64 = 1.5;
const PEAK: f64 = 255.0;

/// The peak signal-to-noise ratio of two pictures in decibels, over all colours; infinite for equal ones. Alpha does not count.
///
/// # Panics
/// If their sizes differ.
pub fn psnr(a: &Picture, b: &Picture) -> f64 {
    same_size(a, b);
    let (colours, channels) = (a.colours(), a.channels());
    let mut sum = 0.0;
    for pixel in 0..a.width() * a.height() {
        for at in pixel * channels..pixel * channels + colours {
            let difference = f64::from(a.samples().level(at)) - f64::from(b.samples().level(at));
            sum += difference * difference;
        }
    }
    let mean = sum / (a.width() * a.height() * colours) as f64;
    10.0 * (PEAK * PEAK / mean).log10()
}

/// The mean structural similarity of two pictures, over all colours and all places of a Gaussian window of 11 by 11 pixels
/// inside; over the whole picture at once if it is smaller. Alpha does not count.
///
/// # Panics
/// If their sizes differ.
pub fn ssim(a: &Picture, b: &Picture) -> f64 {
    same_size(a, b);
    let colours = a.colours();
    (0..colours).map(|colour| channel_ssim(a, b, colour)).sum::<f64>() / colours as f64
}

fn same_size(a: &Picture, b: &Picture) {
    let shape = |picture: &Picture| (picture.width(), picture.height(), picture.channels());
    assert_eq!(shape(a), shape(b), "pictures of one size are compared");
}

fn channel_ssim(a: &Picture, b: &Picture, colour: usize) -> f64 {
    let (width, height) = (a.width(), a.height());
    let level = |picture: &Picture, pixel: usize| {
        f64::from(picture.samples().level(pixel * picture.channels() + colour))
    };
    // The means of a, b, their squares and their product.
    let moments = |x: f64, y: f64| [x, y, x * x, y * y, x * y];
    if width <= 2 * HALF || height <= 2 * HALF {
        let mut sums = [0.0; 5];
        for pixel in 0..width * height {
            let terms = moments(level(a, pixel), level(b, pixel));
            sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term / (width * height) as f64);
        }
        return similarity(sums);
    }
    let taps = gaussian();
    let mut rows: Vec<Vec<[f64; 5]>> = Vec::with_capacity(2 * HALF + 1);
    let (mut sum, mut count) = (0.0, 0);
    for y in 0..height {
        let points: Vec<[f64; 5]> =
            (0..width).map(|x| moments(level(a, y * width + x), level(b, y * width + x))).collect();
        rows.push(points.windows(2 * HALF + 1).map(|window| weighted(window.iter(), &taps)).collect());
        if rows.len() > 2 * HALF + 1 {
            rows.remove(0);
        }
        if rows.len() == 2 * HALF + 1 {
            for x in 0..rows[0].len() {
                sum += similarity(weighted(rows.iter().map(|row| &row[x]), &taps));
                count += 1;
            }
        }
    }
    sum / f64::from(count)
}

fn gaussian() -> [f64; 2 * HALF + 1] {
    let taps: [f64; 2 * HALF + 1] = std::array::from_fn(|i| {
        let away = i as f64 - HALF as f64;
        (-away * away / (2.0 * DEVIATION * DEVIATION)).exp()
    });
    let sum: f64 = taps.iter().sum();
    taps.map(|tap| tap / sum)
}

fn weighted<'a>(points: impl Iterator<Item = &'a [f64; 5]>, taps: &[f64]) -> [f64; 5] {
    let mut sums = [0.0; 5];
    for (point, tap) in points.zip(taps) {
        sums.iter_mut().zip(point).for_each(|(sum, value)| *sum += tap * value);
    }
    sums
}

fn similarity([a, b, aa, bb, ab]: [f64; 5]) -> f64 {
    let (c1, c2) = ((0.01 * PEAK) * (0.01 * PEAK), (0.03 * PEAK) * (0.03 * PEAK));
    let (variance_a, variance_b, covariance) = (aa - a * a, bb - b * b, ab - a * b);
    (2.0 * a * b + c1) * (2.0 * covariance + c2) / ((a * a + b * b + c1) * (variance_a + variance_b + c2))
}
