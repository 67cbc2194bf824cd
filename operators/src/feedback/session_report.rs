//! `session_report`: what sessions of feedback have found, by method, with intervals.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Part};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_runtime::printable::printable;
use serde_json::{Value as Json, json};

use crate::columns;
use crate::resources::gp_kernel::{GpKernel, KERNEL};
use crate::results::sink::{OUT, OrderedWriter, share_writer};

const SESSIONS: In = In::stream(0, "sessions", columns::sessions, "one row a session");

/// 97.5 % of a normal distribution lie below this many deviations.
const NORMAL_975: f64 = 1.96;

/// Reports what sessions have found.
///
/// For each method the mean number of objects shown up to the first and the tenth relevant one, and the mean numbers of
/// relevant objects among the first third, two thirds and all of those shown, each with half the width of its 95 % interval
/// (1.96 standard errors).
///
/// # Inputs
/// `sessions`: one row a session.
///
/// # Outputs
/// None.
///
/// # Parameters
/// `kernel`: the covariance, to show. `batch`: objects of a round. `format`: a table for people, or JSON, which has each
/// class, too, and the numbers after each round. `out`: the file to write, or `-` for standard output.
pub static SESSION_REPORT: OperatorSpec = OperatorSpec {
    parameters: &[
        KERNEL,
        Parameter::new("batch", ParameterType::integer_from(1), Default::Integer(12), "objects of a round"),
        Parameter::new(
            "format",
            ParameterType::Choice(&["table", "json"]),
            Default::Text("table"),
            "a table for people, or JSON",
        ),
        OUT,
    ],
    inputs: &[SESSIONS],
    example: "report: {kind: session_report, kernel: kernel}",
    share: Some(share_writer),
    ..OperatorSpec::new("session_report", "Reports what sessions have found.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(SessionReport {
        kernel: bind.resource("kernel")?,
        batch: bind.count("batch"),
        is_json: bind.text("format") == "json",
        writer: bind.shared(),
        part: bind.part,
        sessions: Vec::new(),
    }))
}

struct SessionReport {
    kernel: Arc<GpKernel>,
    batch: usize,
    is_json: bool,
    writer: Arc<OrderedWriter>,
    part: Part,
    sessions: Vec<Session>,
}

/// The outcome of one session.
struct Session {
    method: String,
    class: String,
    first: u32,
    tenth: u32,
    found: Vec<u32>,
}

impl Operator for SessionReport {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take(SESSIONS) {
            let (methods, classes) = (envelope.texts("method")?, envelope.texts("class")?);
            let (firsts, tenths) = (envelope.u32s("first")?, envelope.u32s("tenth")?);
            let found = envelope.lists("found")?;
            for row in 0..envelope.rows() {
                let numbers = found.value(row);
                let numbers = numbers.as_primitive_opt::<UInt32Type>();
                let numbers = numbers.ok_or_else(|| BoxError::new("`found` holds no UInt32"))?;
                let of_others = self.sessions.first().map(|session| session.found.len());
                if numbers.is_empty() || of_others.is_some_and(|rounds| rounds != numbers.len()) {
                    return Err(BoxError::new("sessions have different numbers of rounds, or none"));
                }
                self.sessions.push(Session {
                    method: methods.value(row).to_owned(),
                    class: classes.value(row).to_owned(),
                    first: firsts[row],
                    tenth: tenths[row],
                    found: numbers.values().to_vec(),
                });
            }
        }
        if !cx.is_ended(SESSIONS) {
            return Ok(Flow::Wait);
        }
        let text = if self.is_json { self.json() } else { self.table() };
        cx.detached("disk", || self.writer.write(self.part, text.into_bytes()))??;
        Ok(Flow::Done)
    }
}

/// A mean and half the width of its 95 % interval.
fn mean(values: impl Iterator<Item = u32> + Clone) -> (f64, f64) {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().map(f64::from).sum::<f64>() / count;
    let squares = values.map(|value| (f64::from(value) - mean).powi(2)).sum::<f64>();
    let variance = squares / (count - 1.0).max(1.0);
    (mean, NORMAL_975 * (variance / count).sqrt())
}

impl SessionReport {
    /// In the order in which they came.
    fn methods(&self) -> Vec<&str> {
        distinct(self.sessions.iter().map(|session| session.method.as_str()))
    }

    fn of<'a>(&'a self, method: &'a str) -> impl Iterator<Item = &'a Session> + Clone {
        self.sessions.iter().filter(move |session| session.method == method)
    }

    /// The rounds after a third, two thirds, and all.
    fn thirds(&self) -> Vec<usize> {
        let rounds = self.sessions.first().map_or(0, |session| session.found.len());
        let thirds = [1, 2, 3].map(|third| (rounds * third).div_ceil(3));
        distinct(thirds.into_iter().filter(|round| *round > 0))
    }

    fn table(&self) -> String {
        let Some(first) = self.sessions.first() else { return "no session was played\n".to_owned() };
        let of_method = self.of(&first.method).count();
        let classes = distinct(self.sessions.iter().map(|session| session.class.as_str())).len();
        let mut text = format!(
            "{of_method} sessions of {classes} class{}, {} rounds of {}; {}; {}\n",
            if classes == 1 { "" } else { "es" },
            first.found.len(),
            self.batch,
            self.kernel.space.measure(),
            self.kernel.covariance
        );
        let mut head = vec!["method".to_owned(), "to first".to_owned(), "to tenth".to_owned()];
        head.extend(self.thirds().iter().map(|round| format!("of {}", round * self.batch)));
        let mut rows = vec![head];
        for method in self.methods() {
            let sessions = self.of(method);
            let cell = |(mean, half): (f64, f64)| format!("{mean:.1} \u{b1} {half:.1}");
            let mut row = vec![printable(method)];
            row.push(cell(mean(sessions.clone().map(|session| session.first))));
            row.push(cell(mean(sessions.clone().map(|session| session.tenth))));
            row.extend(
                self.thirds()
                    .into_iter()
                    .map(|round| cell(mean(sessions.clone().map(move |session| session.found[round - 1])))),
            );
            rows.push(row);
        }
        let widths: Vec<usize> = (0..rows[0].len())
            .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
            .collect();
        for row in rows {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
                0 => format!("  {cell:width$}"),
                _ => format!("  {cell:>width$}"),
            });
            text.push_str(&cells.collect::<String>());
            text.push('\n');
        }
        text
    }

    fn json(&self) -> String {
        let of = |sessions: Vec<&Session>| {
            let number =
                |(mean, half): (f64, f64)| json!({"mean": mean, "interval": [mean - half, mean + half]});
            let rounds = sessions.first().map_or(0, |session| session.found.len());
            let found = (0..rounds).map(|round| {
                let (mean, half) = mean(sessions.iter().map(|session| session.found[round]));
                json!({"shown": (round + 1) * self.batch, "mean": mean, "interval": [mean - half, mean + half]})
            });
            let found: Vec<Json> = found.collect();
            json!({
                "sessions": sessions.len(),
                "to_first": number(mean(sessions.iter().map(|session| session.first))),
                "to_tenth": number(mean(sessions.iter().map(|session| session.tenth))),
                "found": found,
            })
        };
        let methods = self.methods().into_iter().map(|method| {
            let mut json = of(self.of(method).collect());
            let classes = distinct(self.of(method).map(|session| session.class.as_str()));
            let classes = classes.into_iter().map(|class| {
                let mut json = of(self.of(method).filter(|session| session.class == class).collect());
                json["class"] = class.into();
                json
            });
            json["classes"] = classes.collect();
            json["method"] = method.into();
            json
        });
        let json = json!({
            "distance": self.kernel.space.measure(),
            "covariance": self.kernel.covariance.to_string(),
            "batch": self.batch,
            "methods": methods.collect::<Vec<Json>>(),
        });
        format!("{json:#}\n")
    }
}

/// Each value once, in the order in which they come.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}
