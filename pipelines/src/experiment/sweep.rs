//! What a sweep says: axes, steps and plots, each with its place in the text.

use std::sync::Arc;

use crate::diagnostic::Source;
use crate::document::span::Span;

/// A sweep.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// What it is for, in its author's words.
    pub about: String,
    pub(super) source: Arc<Source>,
    /// In the order of the text: the last one varies fastest.
    pub(super) axes: Vec<Axis>,
    pub(super) rounds: usize,
    pub(super) warmup: usize,
    pub(super) steps: Vec<Step>,
    /// Places of the steps whose figures the table has.
    pub(super) measured: Vec<usize>,
    pub(super) plots: Vec<Plot>,
    pub(super) compare: Option<Compare>,
}

/// A name and the values that it takes.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) name: String,
    pub(super) values: Vec<String>,
    pub(super) span: Span,
}

/// A pipeline that is run, or a set of pictures that is drawn.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) name: String,
    /// What is done.
    pub(super) task: Template,
    pub(super) settings: Vec<(String, Span, Given)>,
    pub(super) span: Span,
}

/// A setting as it is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Given {
    One(Template),
    Many(Vec<Template>),
}

/// A text with the names of axes and steps in it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Template {
    pub(super) pieces: Vec<Piece>,
    pub(super) span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    Text(String),
    /// Of an axis, or of a step: the file that it makes.
    Name(String),
}

/// One value of an axis, whose figure is compared with the least of the others'.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Compare {
    pub(super) axis: String,
    pub(super) value: String,
    pub(super) figure: String,
}

/// A picture of the table.
#[derive(Clone, Debug)]
pub(super) struct Plot {
    pub(super) name: String,
    pub(super) title: String,
    /// An axis, or a figure.
    pub(super) x: String,
    pub(super) y: String,
    /// An axis: a line for each of its values.
    pub(super) series: Option<String>,
    /// An axis: a picture for each of its values.
    pub(super) facets: Option<String>,
    pub(super) log_x: bool,
    pub(super) log_y: bool,
}

impl Template {
    /// The names in it.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Name(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// The text with the names' values.
    pub(super) fn filled(&self, value: &dyn Fn(&str) -> String) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Name(name) => value(name),
        };
        self.pieces.iter().map(piece).collect()
    }
}

impl Given {
    pub(super) fn templates(&self) -> &[Template] {
        match self {
            Self::One(template) => std::slice::from_ref(template),
            Self::Many(templates) => templates,
        }
    }
}

impl Sweep {
    pub(super) fn axis(&self, name: &str) -> Option<&Axis> {
        self.axes.iter().find(|axis| axis.name == name)
    }

    pub(super) fn step(&self, name: &str) -> Option<usize> {
        self.steps.iter().position(|step| step.name == name)
    }

    /// What rows depend on but their own values: when it changes, old rows say nothing of the new sweep.
    pub(super) fn fingerprint(&self) -> String {
        let templates = |given: &Given| {
            let parts: Vec<String> = given
                .templates()
                .iter()
                .map(|template| template.filled(&|name| format!("${{{name}}}")))
                .collect();
            parts.join("\u{1}")
        };
        let mut text = format!("{} {}", self.rounds, self.warmup);
        for step in &self.steps {
            text += &format!("\u{2}{}\u{1}{}", step.name, step.task.filled(&|name| format!("${{{name}}}")));
            for (name, _, given) in &step.settings {
                text += &format!("\u{1}{name}={}", templates(given));
            }
        }
        for idx in &self.measured {
            text += &format!("\u{3}{idx}");
        }
        fingerprint(&text)
    }
}

/// 16 digits that another text will not have (FNV-1a): they name files, and need not withstand anybody.
pub(super) fn fingerprint(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
