//! `denoise`: pictures without their noise, by BM3D.
//!
//! Invariant: a picture's result has the same bits for any number of slots and copies, and on every code path.

use boxwork_kernels::CodePath;
use boxwork_kernels::denoise::{
    Colour, Denoiser, Parameters, Picture, Profile, StackTransform, Transform, estimate,
};
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use crate::columns;
use crate::pictures::row::Row;

const NOISY: In = In::stream(0, "noisy", columns::whole_pictures, "pictures with noise");
const PICTURES: Out =
    Out::new(0, "pictures", columns::whole_pictures, "the pictures without it, in their order");

/// Removes white Gaussian noise from pictures.
///
/// Similar patches of a picture are stacked and transformed together; small coefficients are noise. A first phase zeroes them,
/// a second one shrinks them by Wiener's rule with the first result as the model (BM3D; Dabov and others, 2007).
///
/// The deviation of the noise is `sigma`, or what the picture's row says, or is estimated from the picture. A picture in which
/// no noise is found passes unchanged, with a note. Depth and alpha stay.
///
/// # Inputs
/// `noisy`: pictures.
///
/// # Outputs
/// `pictures`: the pictures, one an envelope.
///
/// # Parameters
/// `sigma`: the deviation. `profile`: the settings together; `default` takes those of `strong` above 40. `transform_1`,
/// `transform_2`, `stack_transform`: the transforms of patches in each phase and along stacks. `phases`: 1 for the first phase
/// alone. `colour`: `together` matches patches by brightness, `apart` treats each channel as a picture of its own.
pub static DENOISE: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "sigma",
            ParameterType::Positive,
            Default::Absent,
            "the deviation of the noise; of the picture's row or estimated if it is not given",
        )
        .unit("grey levels of 0 to 255"),
        Parameter::new(
            "profile",
            ParameterType::Choice(&Profile::NAMES),
            Default::Text("default"),
            "the settings: default, fast, high (best), strong (noise), seed",
        ),
        Parameter::new(
            "transform_1",
            ParameterType::Choice(&Transform::NAMES),
            Default::Absent,
            "the transform of patches in the first phase; of the profile by default",
        ),
        Parameter::new(
            "transform_2",
            ParameterType::Choice(&Transform::NAMES),
            Default::Absent,
            "the transform of patches in the second phase; of the profile by default",
        ),
        Parameter::new(
            "stack_transform",
            ParameterType::Choice(&StackTransform::NAMES),
            Default::Text("haar"),
            "the transform along stacks",
        ),
        Parameter::new(
            "phases",
            ParameterType::Integer { minimum: 1, maximum: 2 },
            Default::Integer(2),
            "1 for the first phase alone, which takes a third of the time",
        ),
        Parameter::new(
            "colour",
            ParameterType::Choice(&["together", "apart"]),
            Default::Text("together"),
            "whether the channels share the patches that are similar in brightness",
        ),
    ],
    inputs: &[NOISY],
    outputs: &[PICTURES],
    example: "clean: {kind: denoise, sigma: 25, copies: auto}",
    ..OperatorSpec::new("denoise", "Removes noise from pictures.", Kind::Ordered, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let transform = |name: &str| bind.get_text(name).and_then(Transform::named);
    let settings = Settings {
        sigma: bind.get_number("sigma"),
        profile: Profile::named(bind.text("profile")).expect("a checked choice"),
        transforms: [transform("transform_1"), transform("transform_2")],
        along: StackTransform::named(bind.text("stack_transform")).expect("a checked choice"),
        phases: bind.count("phases"),
        colour: if bind.text("colour") == "apart" { Colour::Apart } else { Colour::Together },
    };
    // Only the strong settings depend on the deviation.
    for sigma in settings.sigma.map_or(vec![1.0, 100.0], |sigma| vec![sigma]) {
        settings.parameters(sigma).check()?;
    }
    Ok(Box::new(Denoise { settings, path: CodePath::detect() }))
}

/// The parameters of the box.
struct Settings {
    sigma: Option<f64>,
    profile: Profile,
    transforms: [Option<Transform>; 2],
    along: StackTransform,
    phases: usize,
    colour: Colour,
}

impl Settings {
    /// The settings of both phases for a deviation.
    fn parameters(&self, sigma: f64) -> Parameters {
        let mut parameters = Parameters::of(self.profile, sigma);
        parameters.along = self.along;
        parameters.colour = self.colour;
        let [first, second] = self.transforms;
        parameters.first.transform = first.unwrap_or(parameters.first.transform);
        parameters.second = parameters.second.filter(|_| self.phases == 2).map(|mut phase| {
            phase.transform = second.unwrap_or(phase.transform);
            phase
        });
        parameters
    }

    /// The deviation of a picture's noise, if there is any.
    fn deviation(&self, row: &Row) -> Option<f64> {
        let known = self.sigma.or((row.sigma > 0.0).then_some(row.sigma));
        known.or_else(|| Some(estimate(&row.picture))).filter(|sigma| *sigma > 0.0)
    }
}

struct Denoise {
    settings: Settings,
    path: CodePath,
}

impl Operator for Denoise {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        loop {
            if !cx.has_room(PICTURES) {
                return Ok(Flow::Wait);
            }
            let Some(envelope) = cx.take(NOISY) else {
                return Ok(if cx.is_ended(NOISY) { Flow::Done } else { Flow::Wait });
            };
            cx.announce();
            let mut row = Row::read(&envelope, 0)?;
            drop(envelope);
            match self.settings.deviation(&row) {
                Some(sigma) => {
                    if !self.denoise(cx, &mut row.picture, sigma)? {
                        return Ok(Flow::Done);
                    }
                    row.sigma = sigma;
                }
                None => cx.note(format!("no noise was found in {}: it stays as it is", row.name)),
            }
            if cx.push(PICTURES, row.envelope()?)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
    }
}

impl Denoise {
    /// Denoises a picture on all free slots; false if the request was cancelled.
    fn denoise(&self, cx: &mut Context<'_>, picture: &mut Picture, sigma: f64) -> Result<bool, BoxError> {
        let denoiser = Denoiser::new(self.settings.parameters(sigma), sigma, self.path)?;
        Ok(cx.inside(|inside| {
            let mut pieces = |count: usize, f: &(dyn Fn(usize) + Sync)| {
                let cancelled = inside.cancelled();
                inside.for_each_chunk(count, 1, |some| {
                    if !cancelled() {
                        some.for_each(f);
                    }
                });
                !inside.is_cancelled()
            };
            denoiser.denoise(picture, &mut pieces, &mut |_, _| {})
        }))
    }
}

#[cfg(test)]
mod tests {
    use boxwork_kernels::chance::Random;
    use boxwork_kernels::denoise::{Samples, psnr};
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::parameter::Value;

    use super::*;

    fn noisy(sigma: f32) -> (Picture, Picture) {
        let mut random = Random::mixed(3);
        let clean: Vec<f32> = (0..60 * 50).map(|idx| 60.0 + (idx % 60 / 20) as f32 * 60.0).collect();
        let dirty = clean.iter().map(|level| level + sigma * random.normal_f32()).collect();
        let picture = |levels| Picture::new(60, 50, 1, Samples::Floats(levels)).unwrap();
        (picture(clean), picture(dirty))
    }

    fn denoised(row: Row, settings: &[(&'static str, Value)]) -> (Row, Vec<String>) {
        let mut harness = Harness::new(&DENOISE, settings.iter().cloned()).unwrap();
        harness.give(NOISY, row.envelope().unwrap());
        harness.end(NOISY);
        harness.run().unwrap();
        assert!(harness.is_done());
        (Row::read(&harness.taken(PICTURES)[0], 0).unwrap(), harness.notes().to_vec())
    }

    #[test]
    fn the_deviation_is_given_or_of_the_row_or_estimated() {
        let (clean, dirty) = noisy(20.0);
        let row = |sigma| Row { name: "a.png".into(), picture: dirty.clone(), sigma };
        let (given, _) = denoised(row(0.0), &[("sigma", Value::Number(20.0))]);
        let (of_row, _) = denoised(row(20.0), &[]);
        assert_eq!(given, of_row);
        let (estimated, _) = denoised(row(0.0), &[]);
        assert!((estimated.sigma - 20.0).abs() < 2.0, "{}", estimated.sigma);
        for result in [&given, &estimated] {
            assert!(psnr(&clean, &result.picture) > psnr(&clean, &dirty) + 8.0);
        }
        let (first, _) = denoised(row(20.0), &[("phases", Value::Integer(1))]);
        assert_ne!(first, of_row);
    }

    #[test]
    fn a_flat_picture_stays_and_is_named() {
        let picture = Picture::new(30, 20, 1, Samples::Bytes(vec![77; 600])).unwrap();
        let (row, notes) =
            denoised(Row { name: "p/flat.png".into(), picture: picture.clone(), sigma: 0.0 }, &[]);
        assert_eq!(row.picture, picture);
        assert!(notes[0].contains("p/flat.png") && notes[0].contains("stays"), "{notes:?}");
    }

    #[test]
    fn transforms_that_do_not_fit_the_patches_are_refused_with_the_fix() {
        let settings =
            [("profile", Value::Text("strong".into())), ("transform_2", Value::Text("haar".into()))];
        let message = Harness::new(&DENOISE, settings).err().unwrap().to_string();
        assert!(message.contains("only `dct` can"), "{message}");
        for sigma in [0.0, -3.0, f64::NAN, f64::INFINITY] {
            assert!(Harness::new(&DENOISE, [("sigma", Value::Number(sigma))]).is_err(), "{sigma}");
        }
    }
}
