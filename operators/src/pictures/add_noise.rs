//! `add_noise`: pictures with Gaussian noise, for measurements.
//!
//! Invariant: the noise of a picture depends on the seed, its name and the deviation, not on other pictures.

use boxwork_kernels::chance::Random;
use boxwork_kernels::denoise::{Picture, Samples};
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use crate::columns;
use crate::pictures::row::Row;

const PICTURES: In = In::stream(0, "pictures", columns::whole_pictures, "clean pictures");
const NOISY: Out = Out::new(0, "noisy", columns::whole_pictures, "each picture with noise of each deviation");
const CLEAN: Out =
    Out::new(1, "clean", columns::whole_pictures, "the picture of each row of `noisy`, as it was");

/// Adds white Gaussian noise to pictures.
///
/// Values are not clamped: the samples of `noisy` are floats. Alpha stays.
///
/// # Inputs
/// `pictures`: clean pictures.
///
/// # Outputs
/// `noisy`: each picture with each deviation, which its row names. `clean`: the picture of each of these rows.
///
/// # Parameters
/// `sigma`: deviations in grey levels of 0 to 255. `seed`: of the noise.
pub static ADD_NOISE: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "sigma",
            ParameterType::List(&ParameterType::Positive),
            Default::Numbers(&[25.0]),
            "the deviations of the noise, each for every picture",
        )
        .unit("grey levels"),
        Parameter::new(
            "seed",
            ParameterType::Integer { minimum: 0, maximum: i64::MAX },
            Default::Integer(1),
            "the seed of the noise",
        ),
    ],
    inputs: &[PICTURES],
    outputs: &[NOISY, CLEAN],
    example: "noisy: {kind: add_noise, sigma: [15, 25, 50], seed: 1}",
    ..OperatorSpec::new("add_noise", "Adds Gaussian noise to pictures.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let sigmas = bind.numbers("sigma");
    if sigmas.is_empty() {
        return Err(BoxError::new("`sigma` is empty: give at least one deviation, such as 25"));
    }
    Ok(Box::new(AddNoise { sigmas, seed: bind.integer("seed") as u64, rest: None }))
}

struct AddNoise {
    sigmas: Vec<f64>,
    seed: u64,
    /// The current picture, and the number of its next deviation.
    rest: Option<(Row, usize)>,
}

impl Operator for AddNoise {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        loop {
            if cx.is_cancelled() {
                return Ok(Flow::Done);
            }
            if self.rest.is_none() {
                let Some(envelope) = cx.take(PICTURES) else {
                    return Ok(if cx.is_ended(PICTURES) { Flow::Done } else { Flow::Wait });
                };
                self.rest = Some((Row::read(&envelope, 0)?, 0));
            }
            if !cx.has_room(NOISY) || !cx.has_room(CLEAN) {
                return Ok(Flow::Wait);
            }
            let Some((row, at)) = &mut self.rest else { continue };
            let sigma = self.sigmas[*at];
            let picture = noisy(&row.picture, sigma, self.seed, &row.name);
            let clean = Row { sigma, ..row.clone() };
            let dirty = Row { picture, ..clean.clone() };
            *at += 1;
            if *at == self.sigmas.len() {
                self.rest = None;
            }
            let closed = cx.push(CLEAN, clean.envelope()?)? == Pushed::Closed;
            if cx.push(NOISY, dirty.envelope()?)? == Pushed::Closed && closed {
                return Ok(Flow::Done);
            }
        }
    }
}

/// A picture with noise.
fn noisy(picture: &Picture, sigma: f64, seed: u64, name: &str) -> Picture {
    let named = u64::from(crc32fast::hash(name.as_bytes()));
    let mut random = Random::mixed(seed ^ named << 20 ^ sigma.to_bits().rotate_left(17));
    let (channels, colours) = (picture.channels(), picture.colours());
    let level = |idx: usize| {
        let level = picture.samples().level(idx);
        if idx % channels < colours { (f64::from(level) + sigma * random.normal()) as f32 } else { level }
    };
    let levels = (0..picture.samples().len()).map(level).collect();
    Picture::new(picture.width(), picture.height(), channels, Samples::Floats(levels))
        .expect("the sizes of a picture, and finite numbers")
}

#[cfg(test)]
mod tests {
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::parameter::Value;

    use super::*;

    #[test]
    fn noise_has_its_deviation_and_follows_name_and_seed() {
        let picture = Picture::new(100, 50, 2, Samples::Bytes(vec![200; 10_000])).unwrap();
        let row = Row { name: "a".into(), picture: picture.clone(), sigma: 0.0 };
        let sigmas = Value::List(vec![Value::Number(10.0), Value::Number(40.0)]);
        let mut harness = Harness::new(&ADD_NOISE, [("sigma", sigmas)]).unwrap();
        harness.give(PICTURES, row.envelope().unwrap());
        harness.end(PICTURES);
        let (mut dirty, mut clean) = (Vec::new(), Vec::new());
        while !harness.is_done() {
            harness.run().unwrap();
            dirty.extend(harness.taken(NOISY).iter().map(|envelope| Row::read(envelope, 0).unwrap()));
            clean.extend(harness.taken(CLEAN).iter().map(|envelope| Row::read(envelope, 0).unwrap()));
        }
        assert_eq!(dirty.len(), 2);
        for (dirty, clean) in dirty.iter().zip(&clean) {
            assert_eq!((clean.sigma, &clean.picture), (dirty.sigma, &picture));
            let differences = (0..10_000).map(|idx| f64::from(dirty.picture.samples().level(idx)) - 200.0);
            let variance = differences.clone().step_by(2).map(|x| x * x).sum::<f64>() / 5_000.0;
            assert!((variance.sqrt() / dirty.sigma - 1.0).abs() < 0.05, "{variance}");
            assert!(differences.skip(1).step_by(2).all(|x| x == 0.0), "alpha stays");
        }
        assert_eq!(noisy(&picture, 10.0, 1, "a"), dirty[0].picture);
        assert_ne!(noisy(&picture, 10.0, 1, "b"), dirty[0].picture);
        assert_ne!(noisy(&picture, 10.0, 2, "a"), dirty[0].picture);
    }
}
