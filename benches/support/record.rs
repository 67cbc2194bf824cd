//! The record of a bench, as a file of benches/results.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

/// Writes a record.
pub fn write(path: &str, record: &Value) {
    let text = serde_json::to_string_pretty(record).expect("values have a text");
    fs::write(path, text + "\n").unwrap_or_else(|error| panic!("results={path}: {error}"));
    println!("\nresults     {path}");
}

/// The arguments of this call without what is true of this machine alone.
pub fn call() -> String {
    let is_general = |word: &String| {
        !["--bench", "results=", "folder=", "sample="].iter().any(|own| word.starts_with(own))
    };
    std::env::args().skip(1).filter(is_general).collect::<Vec<_>>().join(" ")
}

/// The date in UTC: years of the Gregorian calendar are counted from March on, in eras of 400.
pub fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month, is_next) = (day - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1, month >= 10);
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + u64::from(is_next))
}
