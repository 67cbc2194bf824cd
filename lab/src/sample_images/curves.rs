//! The curves of the pictures, from +, -, *, / and sqrt alone: libm's sine differs between machines, these do not.

/// Limits a value to 0..=1.
pub fn clamp(value: f64) -> f64 {
    value.clamp(0.0, 1.0)
}

/// 0 below `low`, 1 above `high`, a smooth step between; the bounds may be given in falling order.
pub fn smooth(low: f64, high: f64, value: f64) -> f64 {
    let t = clamp((value - low) / (high - low));
    t * t * (3.0 - 2.0 * t)
}

/// The integer at or below a value of moderate size. `f64::floor` returns the same number, but is a call if SSE 4.1 may
/// be missing.
pub fn floor(value: f64) -> i64 {
    let whole = value as i64;
    whole - i64::from(value < whole as f64)
}

/// The fractional part: the distance from the next integer at or below the value.
pub fn fraction(value: f64) -> f64 {
    value - floor(value) as f64
}

/// Straight line from `low` at 0 to `high` at 1.
pub fn lerp(low: f64, high: f64, t: f64) -> f64 {
    low + (high - low) * t
}

/// Sine of an angle in turns, within 0.0012.
pub fn sine(turns: f64) -> f64 {
    let t = fraction(turns + 0.5) - 0.5;
    let parabola = 8.0 * t - 16.0 * t * t.abs();
    parabola + 0.225 * (parabola * parabola.abs() - parabola)
}

/// Cosine and sine of an angle in turns.
pub fn direction(turns: f64) -> (f64, f64) {
    (sine(turns + 0.25), sine(turns))
}

/// Coordinates of (x, y) in axes turned by `axis`, a result of [`direction`].
pub fn turned(x: f64, y: f64, axis: (f64, f64)) -> (f64, f64) {
    (x * axis.0 + y * axis.1, y * axis.0 - x * axis.1)
}

/// Angle of (x, y) in turns, -0.5..=0.5, within 0.0008; 0 at the origin.
pub fn angle(x: f64, y: f64) -> f64 {
    let (small, large) = if x.abs() < y.abs() { (x.abs(), y.abs()) } else { (y.abs(), x.abs()) };
    if large == 0.0 {
        return 0.0;
    }
    let t = small / large;
    let octant = t * (0.125 + 0.0435 * (1.0 - t));
    let quadrant = if x.abs() < y.abs() { 0.25 - octant } else { octant };
    let half = if x < 0.0 { 0.5 - quadrant } else { quadrant };
    if y < 0.0 { -half } else { half }
}

/// Length of (x, y).
pub fn length(x: f64, y: f64) -> f64 {
    (x * x + y * y).sqrt()
}

/// About e^-value for value >= 0: 1 at 0, falling to 0.
pub fn fade(value: f64) -> f64 {
    let t = value * 0.125;
    let eighth = 1.0 / (1.0 + t + 0.5 * t * t);
    let quarter = eighth * eighth;
    let half = quarter * quarter;
    half * half
}
