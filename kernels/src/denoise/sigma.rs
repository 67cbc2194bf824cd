//! The deviation of a picture's noise, estimated.

use super::parameters::Colour;
use super::picture::Picture;

/// The median of a normal variable's magnitude, in its deviations.
const NORMAL_MEDIAN: f64 = 0.6745;

/// The deviation of white noise in a picture's channels, in grey levels: the median magnitude of the finest diagonal details
/// of its brightness (Haar), as if all of them were noise. 0 for a flat picture, and for one below 2 by 2 pixels.
pub fn estimate(picture: &Picture) -> f64 {
    let (width, height) = (picture.width(), picture.height());
    let mut details = Vec::with_capacity((width / 2) * (height / 2));
    for y in (0..height - height % 2).step_by(2) {
        let brightness = &picture.planes(y..y + 2, 0, Colour::Together)[0];
        let (above, below) = brightness.split_at(width);
        for (a, b) in above.chunks_exact(2).zip(below.chunks_exact(2)) {
            details.push(((a[0] - a[1]) - (b[0] - b[1])).abs() / 2.0);
        }
    }
    if details.is_empty() {
        return 0.0;
    }
    let middle = details.len() / 2;
    let median = *details.select_nth_unstable_by(middle, f32::total_cmp).1;
    f64::from(median) / NORMAL_MEDIAN / picture.deviations(Colour::Together)[0]
}
