//! `boxwork tune`: looks for the settings of an extraction that suit a folder of one's own, with the sweep
//! `experiments/tune.yaml`.

mod halves;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use boxwork_lab::experiment::{Ascent, ExperimentError, Goal, Measurement, ascend};
use boxwork_runtime::operator::Catalog;

use self::halves::Halves;
use super::experiment::Pipelines;
use super::say;
use crate::terminal::{Exit, Stop};

/// The sweep.
const SWEEP: (&str, &str) = ("tune.yaml", include_str!("../../../experiments/tune.yaml"));
/// The figure to make large, and the one to keep small: an index leaves more distances the larger it is.
const MAP: &str = "quality.map";
const IDIM: &str = "quality.idim";
/// The figures of the page and of the summary, with their names.
const FIGURES: [(&str, &str); 3] = [
    (MAP, "mean average precision"),
    ("quality.precision_at_10", "precision at 10"),
    (IDIM, "intrinsic dimensionality"),
];
/// A smaller relative gain is not told from chance on a few hundred pictures.
const GAIN: f64 = 0.005;

/// Finds settings of `extract` for a folder of labelled pictures, one class in each of its folders
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The settings are chosen by half of the pictures of each class and checked by the other half. \
                        A stopped run continues after its last row."
)]
pub struct Arguments {
    /// The folder of pictures; the folder in which a picture lies is its class
    #[arg(long = "store-of", value_name = "FOLDER")]
    folder: PathBuf,
    /// The folder for the page and the table
    #[arg(long, value_name = "FOLDER", default_value = "tune")]
    out: PathBuf,
    /// Pictures to use at most: as many of each class as fit
    #[arg(long, value_name = "N", default_value_t = 3000, value_parser = clap::value_parser!(u32).range(8..))]
    most: u32,
    /// Passes over all settings at most; the search ends when a pass changes nothing
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=20))]
    passes: u32,
    /// The largest intrinsic dimensionality; the larger it is, the fewer distances an index can leave out
    #[arg(long, value_name = "D", default_value_t = 8.0)]
    idim_max: f64,
}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    match tune(catalog, arguments) {
        Ok(()) => Exit::Ok,
        Err(Refusal::Call(message)) => {
            say(format_args!("error: {message}"));
            Exit::Usage
        }
        Err(Refusal::Run(error @ ExperimentError::Interrupted)) => {
            say(format_args!("{error}"));
            Exit::Interrupted
        }
        Err(Refusal::Run(error)) => {
            say(format_args!("error: {error}"));
            Exit::Failed
        }
    }
}

/// A search for settings did not end.
#[derive(Debug)]
enum Refusal {
    /// The call was wrong.
    Call(String),
    /// A step failed, or the user pressed Ctrl-C.
    Run(ExperimentError),
}

impl From<ExperimentError> for Refusal {
    fn from(error: ExperimentError) -> Self {
        Self::Run(error)
    }
}

fn tune(catalog: &Catalog, arguments: &Arguments) -> Result<(), Refusal> {
    if arguments.idim_max.is_nan() || arguments.idim_max <= 0.0 {
        return Err(Refusal::Call(format!("--idim-max: {} is not a number above zero", arguments.idim_max)));
    }
    let halves =
        Halves::link(&arguments.folder, &arguments.out, arguments.most as usize).map_err(Refusal::Call)?;
    say(format_args!("{halves}"));
    let stop = Stop::listen(None);
    let mut pipelines = Pipelines::new(catalog, Path::new("."), &stop.cancellation());
    let goal = Goal { figure: MAP, gain: GAIN, limit: (IDIM, arguments.idim_max) };
    let (name, text) = SWEEP;
    let mut ascent = |folder: &Path, given: &[(String, String)], passes: usize, first: &str| {
        let photos = ("photos".to_owned(), folder.to_string_lossy().into_owned());
        let given = [given, &[photos]].concat();
        let out = &arguments.out;
        let say = &mut |row: &str| say(format_args!("{}", row.replacen("the only row", first, 1)));
        ascend(name, text, &given, &goal, passes, out, &mut pipelines, say)
    };
    let chosen = ascent(&halves.choosing, &[], arguments.passes as usize, "the defaults")?;
    let fixed = |row: &Measurement| -> Vec<(String, String)> {
        row.values.iter().filter(|(axis, _)| *axis != "photos").map(|(a, b)| (a.clone(), b.clone())).collect()
    };
    let before =
        ascent(&halves.checking, &fixed(&chosen.first), 0, "the other half, with the defaults")?.first;
    let after = ascent(&halves.checking, &fixed(&chosen.best), 0, "the other half, with the best")?.first;
    let summary = summary(&chosen, &before, &after, arguments);
    let facts = [
        ("pictures", arguments.folder.display().to_string()),
        ("used", halves.to_string()),
        (
            "goal",
            format!(
                "mean average precision, with an intrinsic dimensionality of at most {}",
                arguments.idim_max
            ),
        ),
    ];
    let page = chosen.page("Settings for a folder of pictures", &facts, &summary, &[MAP, IDIM]);
    let path = arguments.out.join("index.html");
    std::fs::write(&path, page)
        .map_err(|error| Refusal::Call(format!("`{}` cannot be written: {error}", path.display())))?;
    super::talk(&boxwork_runtime::printable::printable_lines(&summary));
    say(format_args!("wrote {}", path.display()));
    Ok(())
}

/// The outcome in a few lines: what changed, what it gains, and the commands to use it.
fn summary(chosen: &Ascent, before: &Measurement, after: &Measurement, arguments: &Arguments) -> String {
    let Arguments { folder, idim_max, .. } = arguments;
    let idim_max = *idim_max;
    let mut text = String::new();
    for (axis, from, to) in chosen.changes() {
        let _ = writeln!(text, "{axis}: {to} instead of {from}");
    }
    if chosen.changes().next().is_none() {
        text += "no other settings are better than the defaults by more than chance\n";
    }
    let figure = |row: &Measurement, name: &str| row.figures.get(name).copied().unwrap_or(f64::NAN);
    for (name, words) in FIGURES {
        let _ = writeln!(
            text,
            "{words}: {:.3} with the defaults, {:.3} with these; on the other half {:.3} and {:.3}",
            figure(&chosen.first, name),
            figure(&chosen.best, name),
            figure(before, name),
            figure(after, name)
        );
    }
    if figure(&chosen.first, IDIM) > idim_max {
        let _ =
            writeln!(text, "the defaults lie beyond the limit of the intrinsic dimensionality, {idim_max}");
    } else if figure(after, MAP) < figure(before, MAP) * (1.0 + GAIN) {
        text += "the other half gains nothing that is more than chance: keep the defaults, or use more pictures\n";
    }
    text += "\nto use them:\n";
    text + &commands(&chosen.best, folder)
}

/// The commands that make a store with the settings of a row, and search it.
fn commands(best: &Measurement, folder: &Path) -> String {
    let value = |axis: &str| best.values.get(axis).map_or("", String::as_str);
    let [place, lightness, colour, contrast, entropy] =
        ["place", "lightness", "colour", "contrast", "entropy"].map(value);
    let mut flags =
        format!(" --multiplier {place},{place},{lightness},{colour},{colour},{contrast},{entropy}");
    for axis in ["sigma", "grey_levels", "cluster_min", "points", "seeds", "iterations", "alpha"] {
        let _ = write!(flags, " --{} {}", axis.replace('_', "-"), value(axis));
    }
    let stem = folder.canonicalize().ok().and_then(|folder| Some(folder.file_name()?.to_owned()));
    let stem = stem.map_or_else(|| "photos".to_owned(), |stem| stem.to_string_lossy().into_owned());
    let (folder, store) = (quoted(&folder.to_string_lossy()), quoted(&format!("{stem}.signatures.arrow")));
    format!(
        "boxwork extract {folder} --out {store}{flags}\nboxwork search --store {store} --query some.jpg -k 10\n"
    )
}

/// A word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-+=@%".contains(letter);
    if !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let prefix = if text.starts_with('-') { "./" } else { "" };
    format!("'{prefix}{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_shell_are_quoted() {
        for (text, expected) in [
            ("a/b.jpg", "a/b.jpg"),
            ("my photos", "'my photos'"),
            ("it's", "'it'\\''s'"),
            ("-x", "'./-x'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }
}
