//! Figures as text.

/// A number with its three or four leading digits, grouped by thousands, for users.
pub(crate) fn significant(number: f64) -> String {
    let size = number.abs();
    let digits = match size {
        _ if number.fract() == 0.0 && size < 1e15 => 0,
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    let text = format!("{number:.digits$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), ""), |(whole, rest)| (whole, rest));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |whole| ("-", whole));
    let mut grouped = sign.to_owned();
    for (idx, digit) in whole.chars().enumerate() {
        if idx > 0 && (whole.len() - idx).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if rest.is_empty() { grouped } else { format!("{grouped}.{rest}") }
}

/// A figure with six significant digits, for tables that programs read.
pub(crate) fn number(figure: f64) -> String {
    if figure == 0.0 || figure.fract() == 0.0 && figure.abs() < 1e15 {
        return format!("{figure:.0}");
    }
    let digits = (5 - figure.abs().log10().floor() as i64).clamp(0, 12) as usize;
    let text = format!("{figure:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_few_digits() {
        let shown = [0.0, 2.0, 0.12345, 1.234, 12.34, 1234.5, -1_234_567.8].map(significant);
        assert_eq!(shown, ["0", "2", "0.123", "1.23", "12.3", "1,234", "-1,234,568"]);
    }

    #[test]
    fn figures_have_six_digits() {
        let shown = [0.0, 3.0, 0.000_123_456_78, 1_234.567_89, -0.5, 1e9 + 0.25].map(number);
        assert_eq!(shown, ["0", "3", "0.000123457", "1234.57", "-0.5", "1000000000"]);
    }
}
