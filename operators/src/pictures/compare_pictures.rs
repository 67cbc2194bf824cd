//! `compare_pictures`: how near denoised pictures are to the clean ones.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow_array::{Float64Array, RecordBatch, StringArray};
use boxwork_kernels::denoise::{psnr, ssim};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, CALLER, Context, Flow, In, Kind, Operator, OperatorSpec, OutputWriter, Part,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_runtime::printable::printable;
use serde_json::json;

use crate::columns;
use crate::pictures::row::Row;
use crate::results::sink::{OUT, OrderedWriter, share_writer};

const CLEAN: In = In::stream(0, "clean", columns::whole_pictures, "the pictures without noise");
const NOISY: In =
    In::stream(1, "noisy", columns::whole_pictures, "the same pictures with noise, in the same order");
const DENOISED: In = In::stream(2, "denoised", columns::whole_pictures, "the same pictures denoised");

/// Compares noisy and denoised pictures with clean ones, and writes a row for each and their means.
///
/// The peak signal-to-noise ratio is over all colours of a picture; structural similarity is the mean of the colours (Wang and
/// others, 2004: a Gaussian window of 11 by 11 pixels). Alpha does not count.
///
/// # Inputs
/// `clean`, `noisy`, `denoised`: the same pictures in the same order, as `add_noise` and `denoise` give them.
///
/// # Outputs
/// None. A request's caller may take the rows (`Submission::outputs`); nothing is written then.
///
/// # Parameters
/// `out`: the file to write, or `-` for standard output. `format`: `table` for people, or `json`.
pub static COMPARE_PICTURES: OperatorSpec = OperatorSpec {
    parameters: &[
        OUT,
        Parameter::new(
            "format",
            ParameterType::Choice(&["table", "json"]),
            Default::Text("table"),
            "what is written",
        ),
    ],
    inputs: &[CLEAN, NOISY, DENOISED],
    gives: Some(columns::comparisons),
    example: "quality: {kind: compare_pictures, format: json}",
    share: Some(share_writer),
    ..OperatorSpec::new(
        "compare_pictures",
        "Measures how near denoised pictures are to clean ones.",
        Kind::Stateful,
        make,
    )
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(ComparePictures {
        writer: bind.shared(),
        output: bind.take_output()?,
        part: bind.part,
        is_json: bind.text("format") == "json",
        waiting: [None, None, None],
        rows: Vec::new(),
    }))
}

struct ComparePictures {
    writer: Arc<OrderedWriter>,
    /// Takes the rows, if the request's caller wants them.
    output: Option<OutputWriter>,
    part: Part,
    is_json: bool,
    /// The next picture of each input.
    waiting: [Option<Envelope>; 3],
    rows: Vec<Compared>,
}

/// The figures of a picture.
#[derive(Clone, Debug)]
struct Compared {
    name: String,
    sigma: f64,
    /// PSNR and SSIM before.
    noisy: [f64; 2],
    /// PSNR and SSIM after.
    denoised: [f64; 2],
}

impl Operator for ComparePictures {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        loop {
            if cx.is_cancelled() {
                return Ok(Flow::Done);
            }
            for (waiting, input) in self.waiting.iter_mut().zip([CLEAN, NOISY, DENOISED]) {
                if waiting.is_none() {
                    *waiting = cx.take(input);
                }
            }
            if let [Some(clean), Some(noisy), Some(denoised)] = &self.waiting {
                self.rows.push(compared(clean, noisy, denoised)?);
                self.waiting = [None, None, None];
                cx.progress(self.rows.len() as u64, 0);
                continue;
            }
            if ![CLEAN, NOISY, DENOISED].into_iter().all(|input| cx.is_ended(input)) {
                return Ok(Flow::Wait);
            }
            break;
        }
        if self.waiting.iter().any(Option::is_some) {
            return Err(BoxError::new(
                "one input has more pictures than another: connect the outputs of one `add_noise`, and `denoise` after it",
            ));
        }
        if let Some(output) = &mut self.output {
            let rows = batch(&self.rows)?;
            cx.detached(CALLER, || output.writer.write(rows).and_then(|_| output.writer.finish()))??;
            return Ok(Flow::Done);
        }
        let text = if self.is_json { as_json(&self.rows) } else { table(&self.rows) };
        let (writer, part) = (&self.writer, self.part);
        cx.detached("disk", || writer.write(part, text.into_bytes()))??;
        Ok(Flow::Done)
    }
}

fn compared(clean: &Envelope, noisy: &Envelope, denoised: &Envelope) -> Result<Compared, BoxError> {
    let [clean, noisy, denoised] = [Row::read(clean, 0)?, Row::read(noisy, 0)?, Row::read(denoised, 0)?];
    let shape = |row: &Row| (row.picture.width(), row.picture.height(), row.picture.channels());
    for other in [&noisy, &denoised] {
        if other.name != clean.name || shape(other) != shape(&clean) {
            return Err(BoxError::new(format!(
                "`{}` meets `{}`, which is another picture: the inputs must have one order",
                clean.name, other.name
            )));
        }
    }
    let figures = |row: &Row| [psnr(&clean.picture, &row.picture), ssim(&clean.picture, &row.picture)];
    Ok(Compared {
        sigma: noisy.sigma,
        noisy: figures(&noisy),
        denoised: figures(&denoised),
        name: clean.name.clone(),
    })
}

/// The means of each deviation, in the order of the first pictures.
fn means(rows: &[Compared]) -> Vec<Compared> {
    let mut sigmas: Vec<f64> = rows.iter().map(|row| row.sigma).collect();
    sigmas.sort_by(f64::total_cmp);
    sigmas.dedup();
    let mean = |sigma: f64, figure: &dyn Fn(&Compared) -> f64| {
        let some: Vec<f64> = rows.iter().filter(|row| row.sigma == sigma).map(figure).collect();
        some.iter().sum::<f64>() / some.len() as f64
    };
    let of = |sigma: f64| Compared {
        name: "mean".to_owned(),
        sigma,
        noisy: [mean(sigma, &|row| row.noisy[0]), mean(sigma, &|row| row.noisy[1])],
        denoised: [mean(sigma, &|row| row.denoised[0]), mean(sigma, &|row| row.denoised[1])],
    };
    sigmas.into_iter().map(of).collect()
}

fn table(rows: &[Compared]) -> String {
    let means = means(rows);
    let all = || rows.iter().chain(&means);
    let width = all().map(|row| printable(&row.name).chars().count()).max().unwrap_or(0).max(7);
    let mut text = format!(
        "{:width$}  {:>6}  {:>8}  {:>8}  {:>8}  {:>8}\n",
        "picture", "sigma", "PSNR", "before", "SSIM", "before"
    );
    for row in all() {
        let Compared { name, sigma, noisy, denoised } = row;
        let _ = writeln!(
            text,
            "{:width$}  {sigma:>6}  {:>8.2}  {:>8.2}  {:>8.4}  {:>8.4}",
            printable(name),
            denoised[0],
            noisy[0],
            denoised[1],
            noisy[1]
        );
    }
    text
}

fn as_json(rows: &[Compared]) -> String {
    // JSON has no infinity: equal pictures have no PSNR.
    let row = |row: &Compared| {
        json!({
            "name": row.name, "sigma": row.sigma, "psnr": row.denoised[0], "noisy_psnr": row.noisy[0],
            "ssim": row.denoised[1], "noisy_ssim": row.noisy[1],
        })
    };
    let (pictures, means): (Vec<_>, Vec<_>) =
        (rows.iter().map(row).collect(), means(rows).iter().map(row).collect());
    format!("{:#}\n", json!({"pictures": pictures, "means": means}))
}

fn batch(rows: &[Compared]) -> Result<RecordBatch, BoxError> {
    let numbers =
        |figure: &dyn Fn(&Compared) -> f64| Arc::new(Float64Array::from_iter_values(rows.iter().map(figure)));
    let names = StringArray::from_iter_values(rows.iter().map(|row| &row.name));
    let envelope = Envelope::from_columns([
        ("name", Arc::new(names) as _),
        ("sigma", numbers(&|row| row.sigma) as _),
        ("noisy_psnr", numbers(&|row| row.noisy[0]) as _),
        ("psnr", numbers(&|row| row.denoised[0]) as _),
        ("noisy_ssim", numbers(&|row| row.noisy[1]) as _),
        ("ssim", numbers(&|row| row.denoised[1]) as _),
    ])?;
    Ok(envelope.batch().clone())
}

#[cfg(test)]
mod tests {
    use boxwork_kernels::denoise::{Picture, Samples};
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::parameter::Value;

    use super::*;

    fn row(name: &str, level: u8) -> Envelope {
        let picture = Picture::new(20, 20, 1, Samples::Bytes(vec![level; 400])).unwrap();
        Row { name: name.into(), picture, sigma: 25.0 }.envelope().unwrap()
    }

    fn run(rows: [&[Envelope]; 3]) -> Result<String, BoxError> {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("figures.json");
        let settings =
            [("out", Value::Text(out.to_str().unwrap().into())), ("format", Value::Text("json".into()))];
        let mut harness = Harness::new(&COMPARE_PICTURES, settings).unwrap();
        for (input, rows) in [CLEAN, NOISY, DENOISED].into_iter().zip(rows) {
            rows.iter().for_each(|row| harness.give(input, row.clone()));
            harness.end(input);
        }
        harness.run()?;
        assert!(harness.is_done());
        Ok(std::fs::read_to_string(out).unwrap())
    }

    #[test]
    fn figures_are_those_of_the_formula_with_their_mean() {
        let text = run([
            &[row("a", 100), row("b", 100)],
            &[row("a", 116), row("b", 116)],
            &[row("a", 102), row("b", 108)],
        ])
        .unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let expected = |difference: f64| 20.0 * (255.0 / difference).log10();
        let near =
            |value: &serde_json::Value, expected: f64| (value.as_f64().unwrap() - expected).abs() < 1e-9;
        assert!(near(&json["pictures"][0]["psnr"], expected(2.0)), "{text}");
        assert!(near(&json["pictures"][1]["noisy_psnr"], expected(16.0)), "{text}");
        assert!(near(&json["means"][0]["psnr"], (expected(2.0) + expected(8.0)) / 2.0), "{text}");
    }

    #[test]
    fn pictures_that_do_not_belong_together_are_refused() {
        let (a, b) = (row("a", 1), row("b", 1));
        let message =
            run([std::slice::from_ref(&a), &[b], std::slice::from_ref(&a)]).unwrap_err().to_string();
        assert!(message.contains("`b`") && message.contains("one order"), "{message}");
        let message = run([&[a.clone(), a.clone()], std::slice::from_ref(&a), std::slice::from_ref(&a)])
            .unwrap_err()
            .to_string();
        assert!(message.contains("more pictures"), "{message}");
    }
}
