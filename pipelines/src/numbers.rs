//! Numbers for users: three digits and a unit; and nanoseconds in seconds.

/// Nanoseconds in seconds.
pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A part of a whole in percent.
pub(crate) fn share(part: f64, whole: f64) -> String {
    match 100.0 * part / whole {
        percent if !percent.is_finite() || percent <= 0.0 => "0 %".to_owned(),
        percent if percent < 1.0 => "< 1 %".to_owned(),
        percent => format!("{percent:.0} %"),
    }
}

/// Bytes with their unit.
pub(crate) fn bytes(bytes: usize) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{} KiB", digits(bytes as f64 / 1_024.0)),
        1_048_576..1_073_741_824 => format!("{} MiB", digits(bytes as f64 / 1_048_576.0)),
        _ => format!("{} GiB", digits(bytes as f64 / 1_073_741_824.0)),
    }
}

/// A number with a letter for its thousands.
pub(crate) fn amount(amount: f64) -> String {
    match amount {
        _ if amount >= 999.5e6 => format!("{} G", digits(amount / 1e9)),
        _ if amount >= 999.5e3 => format!("{} M", digits(amount / 1e6)),
        _ if amount >= 999.5 => format!("{} k", digits(amount / 1e3)),
        _ => digits(amount),
    }
}

/// Three significant digits, without trailing zeros.
fn digits(value: f64) -> String {
    if value >= 99.95 || value == value.trunc() {
        format!("{value:.0}")
    } else if value >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::{amount, bytes, share};

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.25, 7.0, 12.34, 999.4, 999.6, 12_345.0, 1.5e6, 2e9].map(amount);
        assert_eq!(shown, ["0", "0.25", "7", "12.3", "999", "1.00 k", "12.3 k", "1.50 M", "2 G"]);
        assert_eq!([0, 1_023, 1_536, 5 << 20].map(bytes), ["0 B", "1023 B", "1.50 KiB", "5 MiB"]);
        assert_eq!(
            [(0.0, 1.0), (0.001, 1.0), (0.5, 1.0), (1.0, 0.0)].map(|(a, b)| share(a, b)),
            ["0 %", "< 1 %", "50 %", "0 %"]
        );
    }
}
