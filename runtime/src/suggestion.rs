//! Suggestions for misspelt names: the one place that decides what a user may have meant.

/// `; did you mean `x`?` for the nearest of the names, or nothing when none is near.
pub fn did_you_mean<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(given, names).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// The name most similar to the given one, if it is similar enough.
///
/// A name is near if few letters are wrong, missing, too many or swapped with their neighbours; otherwise if it begins
/// alike.
pub fn nearest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Below this Jaro-Winkler similarity a suggestion confuses more than it helps.
    const ALIKE: f64 = 0.75;
    /// A letter of this many may be wrong: "coer" is core and "cvs" is csv, but "die" is nothing.
    const LETTERS_PER_EDIT: usize = 3;
    let letters = given.chars().count();
    let near = |name: &'a str| {
        let (edits, length) = (strsim::damerau_levenshtein(given, name), name.chars().count());
        let few = edits * LETTERS_PER_EDIT <= length.max(LETTERS_PER_EDIT) && edits < length.min(letters);
        let alike = strsim::jaro_winkler(given, name);
        (few || alike >= ALIKE).then_some((if few { edits } else { usize::MAX }, alike, name))
    };
    let best = names.into_iter().filter_map(near).min_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
    best.map(|(_, _, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_has_the_fewest_wrong_letters() {
        let names = ["table", "json", "csv", "html", "scan", "sample", "read_store", "k", "alpha"];
        for (given, meant) in [
            ("cvs", Some("csv")),
            ("jsno", Some("json")),
            ("tabel", Some("table")),
            ("scna", Some("scan")),
            ("alhpa", Some("alpha")),
            ("read_strore", Some("read_store")),
            ("read", Some("read_store")),
            ("p", None),
            ("xyz", None),
            ("", None),
        ] {
            assert_eq!(nearest(given, names), meant, "{given}");
        }
        assert_eq!(did_you_mean("cvs", names), "; did you mean `csv`?");
    }
}
