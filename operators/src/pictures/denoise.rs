//! `denoise`: pictures without their noise, by BM3D, on slots or on devices; or the frames of a video, on slots.
//!
//! Invariant: a picture's result has the same bits for any number of slots, on every code path, and on devices that round as IEEE 754 says.
//!
//! One box without copies: devices return their strips after the firing that took the picture, and this box puts them together. On slots
//! it denoises several pictures side by side.

mod block;
mod task;
mod video;
#[cfg(test)]
mod tests;

use boxwork_kernels::CodePath;
use boxwork_kernels::denoise::{
    Colour, FRAMES_MAX, Parameters, Profile, StackTransform, Transform, estimate,
};
use boxwork_runtime::feeding::LazyDevices;
use boxwork_runtime::inside::Inside;
use boxwork_runtime::operator::{Bind, BoxError, In, Kind, Operator, OperatorSpec, Out};
use boxwork_runtime::parameter::{Arguments, Default, DeviceChoice, Parameter, ParameterType, Value};

use self::task::stage;
use self::video::Frames;
use crate::columns;
use crate::devices::code_path;
use crate::pictures::row::Row;
use crate::resources::device_parameter;

const NOISY: In = In::stream(0, "noisy", columns::whole_pictures, "pictures with noise");
const PICTURES: Out =
    Out::new(0, "pictures", columns::whole_pictures, "the pictures without it, in their order");

/// Removes white Gaussian noise from pictures.
///
/// Similar patches of a picture are stacked and transformed together; small coefficients are noise. A first phase zeroes them,
/// a second one shrinks them by Wiener's rule with the first result as the model (BM3D; Dabov and others, 2007).
///
/// Patches that overlap share noise, so each coefficient has a variance of its own (Mäkinen, Azzari and Foi, 2020); with other transforms
/// along stacks than Haar's, all have the same.
///
/// The deviation of the noise is `sigma`, or what the picture's row says, or is estimated from the picture. A picture in which
/// no noise is found passes unchanged, with a note. Depth and alpha stay.
///
/// With `frames` the pictures are the frames of one video, in the order in which they come. Stacks then have patches of so many frames
/// before and after the frame too, and give estimates for all of them (Dabov, Foi and Egiazarian, 2007). All frames have one size and
/// depth. The box keeps 4 x `frames` + 1 frames with their first results (16 bytes a pixel in grey and 32 in colour), and the sums of 2 x
/// `frames` + 1 frames (32 bytes a pixel in grey and 96 in colour); `--stats` tells the sum.
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
/// alone. `colour`: `together` matches patches by brightness, `apart` treats each channel as a picture of its own. `device`: where to
/// compute; strips of large pictures go to several devices. `frames`: the frames on each side whose patches take part; 0 for pictures by
/// themselves. Slots denoise what devices cannot take: videos, the cosine transform along stacks, and everything on a device without
/// doubles or atomic additions of 64 bits.
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
        device_parameter("auto"),
        Parameter::new(
            "frames",
            ParameterType::integer_within(0, FRAMES_MAX as i64),
            Default::Integer(0),
            "frames of a video on each side whose patches take part; 0 for pictures by themselves",
        ),
    ],
    inputs: &[NOISY],
    outputs: &[PICTURES],
    example: "clean: {kind: denoise, sigma: 25}",
    code_path: Some(code_path),
    ..OperatorSpec::new("denoise", "Removes noise from pictures.", Kind::Stateful, make)
};

fn code_path(arguments: &Arguments, devices: &LazyDevices) -> String {
    if let Some(Value::Integer(1..)) = arguments.get("frames") {
        return format!("{} (slots denoise videos)", CodePath::detect());
    }
    code_path::of_device(arguments, devices, 0)
}

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
    let frames = bind.count("frames");
    if frames > 0 {
        if matches!(bind.device("device"), DeviceChoice::Gpu(_)) {
            return Err(BoxError::new(
                "devices denoise no videos: leave out `device`, so that slots do, or `frames`, so that each picture is denoised by itself",
            ));
        }
        return Ok(Box::new(Frames::new(settings, frames)));
    }
    Ok(Box::new(stage(settings, bind.pick_devices("device", None, 0)?, bind.slots())))
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

/// Runs pieces of a picture's work side by side within a firing; they end early if the request is being cancelled.
fn pieces(inside: &mut Inside<'_>) -> impl FnMut(usize, &(dyn Fn(usize) + Sync)) -> bool {
    |count, f| {
        let cancelled = inside.cancelled();
        inside.for_each_chunk(count, 1, |some| {
            if !cancelled() {
                some.for_each(f);
            }
        });
        !inside.is_cancelled()
    }
}
