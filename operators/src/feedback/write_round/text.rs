//! A round as a table, as JSON and as CSV.

use std::fmt::Write as _;

use boxwork_runtime::printable::printable;

use super::{Round, Share, Shown};
use crate::results::csv::field;
use crate::results::json::quoted;
use crate::results::sink::exact_text;

/// The table for people.
pub(super) fn table(round: &Round) -> String {
    let mut text = format!("{}\n", round.summary());
    if round.shown.is_empty() {
        return text + "  no object is left to show\n";
    }
    let ids = round.shown.iter().map(|shown| shown.id.to_string().len()).max().unwrap_or(0).max("id".len());
    let names: Vec<String> = round.shown.iter().map(|shown| printable(&shown.name)).collect();
    let widest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max("name".len());
    let _ = writeln!(text, "  rank   mean  deviation  {:>ids$}  {:widest$}  because of", "id", "name");
    for (rank, (shown, name)) in round.shown.iter().zip(&names).enumerate() {
        let Shown { id, mean, deviation, .. } = shown;
        let why: Vec<String> = [("like ", &shown.liked), ("unlike ", &shown.disliked)]
            .into_iter()
            .filter_map(|(word, share)| {
                let Share { name, share, .. } = share.as_ref()?;
                Some(format!("{word}{} ({share:+.3})", printable(name)))
            })
            .collect();
        let line = format!(
            "  {:>4}  {mean:>5.3}  {deviation:>9.3}  {id:>ids$}  {name:widest$}  {}",
            rank + 1,
            why.join(", ")
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if round.is_exhausted {
        text += "  no other object is left to show\n";
    }
    text
}

/// One JSON object; numbers are read back to the bit.
pub(super) fn json(round: &Round) -> String {
    let share = |share: &Option<Share>| match share {
        None => "null".to_owned(),
        Some(Share { id, name, share }) => {
            format!("{{\"id\": {id}, \"name\": {}, \"share\": {}}}", quoted(name), exact_text(*share))
        }
    };
    let marks: Vec<String> = round
        .marks
        .iter()
        .map(|mark| {
            let (name, relevance) = (quoted(&mark.name), exact_text(mark.relevance));
            format!("  {{\"name\": {name}, \"relevance\": {relevance}, \"weak\": {}}}", mark.is_weak)
        })
        .collect();
    let shown: Vec<String> = round
        .shown
        .iter()
        .enumerate()
        .map(|(rank, shown)| {
            format!(
                "  {{\"rank\": {}, \"id\": {}, \"name\": {}, \"mean\": {}, \"deviation\": {}, \"upper\": {}, \
                 \"liked\": {}, \"disliked\": {}}}",
                rank + 1,
                shown.id,
                quoted(&shown.name),
                exact_text(shown.mean),
                exact_text(shown.deviation),
                exact_text(shown.upper),
                share(&shown.liked),
                share(&shown.disliked)
            )
        })
        .collect();
    let list =
        |rows: Vec<String>| if rows.is_empty() { String::new() } else { format!("\n{}\n", rows.join(",\n")) };
    format!(
        "{{\"marks\": [{}], \"round\": [{}], \"exhausted\": {}}}\n",
        list(marks),
        list(shown),
        round.is_exhausted
    )
}

/// CSV with a header.
pub(super) fn csv(round: &Round) -> String {
    let mut text = "rank,id,name,mean,deviation,upper,liked,liked_share,disliked,disliked_share\n".to_owned();
    for (rank, shown) in round.shown.iter().enumerate() {
        let share = |share: &Option<Share>| match share {
            None => ",".to_owned(),
            Some(Share { name, share, .. }) => format!("{},{}", field(name), exact_text(*share)),
        };
        let [mean, deviation, upper] = [shown.mean, shown.deviation, shown.upper].map(exact_text);
        let (liked, disliked) = (share(&shown.liked), share(&shown.disliked));
        let _ = writeln!(
            text,
            "{},{},{},{mean},{deviation},{upper},{liked},{disliked}",
            rank + 1,
            shown.id,
            field(&shown.name)
        );
    }
    text
}
