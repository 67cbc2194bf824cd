//! The parameters of an extraction: of a box, and as JSON in a store.

use arrow_schema::Schema;
use boxwork_kernels::extract::{
    ExtractParameters, FEATURES, FeatureTransform, GroundDistance, PointDistribution, Preset,
};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::signature_store::SignatureStore;
use serde_json::{Value as Json, json};

use crate::resources::device_parameter;

/// The standard deviation of Gaussian points where a store does not say it: the only one when it was written.
const SIGMA: f64 = Preset::PRACTICAL.sigma;

const COUNT: ParameterType = ParameterType::Integer { minimum: 1, maximum: 65_536 };

/// Parameters of the box.
pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::new("points", COUNT, Default::Absent, "sampling points per image; the transform's by default"),
    Parameter::new(
        "distribution",
        ParameterType::Choice(&["gaussian", "uniform", "grid"]),
        Default::Text("gaussian"),
        "the distribution of the points in the image",
    ),
    Parameter::new(
        "sigma",
        ParameterType::Number { minimum: 0.01, maximum: 10.0 },
        Default::Absent,
        "standard deviation of gaussian points; the transform's by default",
    )
    .unit("image sides"),
    Parameter::new("seed", ParameterType::integer_from(0), Default::Integer(1), "seed for the points"),
    Parameter::new(
        "grey_levels",
        ParameterType::Integer { minimum: 2, maximum: 256 },
        Default::Absent,
        "grey levels that texture distinguishes; the transform's by default",
    ),
    Parameter::new(
        "radius",
        ParameterType::Integer { minimum: 0, maximum: 32 },
        Default::Integer(3),
        "from the middle to the border of a texture window; 0 switches texture off",
    )
    .unit("pixels"),
    Parameter::new(
        "transform",
        ParameterType::Choice(&Preset::NAMES),
        Default::Text(Preset::NAMES[0]),
        "the preset: weights of the features, all settings that are not given, and the alpha of searches",
    ),
    Parameter::new(
        "multiplier",
        ParameterType::List(&ParameterType::Number { minimum: -1000.0, maximum: 1000.0 }),
        Default::EmptyList,
        "factors of x, y, L, a, b, contrast and entropy, instead of the transform's",
    ),
    Parameter::new(
        "seeds",
        COUNT,
        Default::Absent,
        "samples that seed the clusters; the transform's by default",
    ),
    Parameter::new(
        "iterations",
        ParameterType::Integer { minimum: 1, maximum: 1000 },
        Default::Absent,
        "rounds of clustering; the transform's by default",
    ),
    Parameter::new(
        "cluster_min",
        ParameterType::Integer { minimum: 0, maximum: 65_536 },
        Default::Absent,
        "samples that a cluster must hold, times the round's number; the transform's by default",
    ),
    Parameter::new(
        "join_distance",
        ParameterType::Number { minimum: 0.0, maximum: 128.0 },
        Default::Number(0.2),
        "clusters nearer than this are joined",
    ),
    Parameter::new("cap", COUNT, Default::Integer(768), "the most centroids of a signature"),
    Parameter::new(
        "ground",
        ParameterType::Choice(&["l1", "l2", "linf"]),
        Default::Text("l2"),
        "the distance of the clustering",
    ),
    Parameter::new(
        "as_in",
        ParameterType::Resource("store"),
        Default::Absent,
        "a store whose parameters replace all others",
    ),
    device_parameter("auto"),
];

/// The parameters with which a store's signatures were extracted.
pub(super) fn parameters_of(store: &SignatureStore) -> Result<ExtractParameters, BoxError> {
    let path = store.path().display();
    let Some(json) = store.parameters() else {
        return Err(BoxError::new(format!(
            "`{path}` does not say how its signatures were extracted (it was imported), so images cannot be added to \
             it: add the objects of another such store with --from"
        )));
    };
    parameters_from_json(json).map_err(|reason| {
        BoxError::new(format!("the extraction parameters in `{path}` cannot be read: {reason}"))
    })
}

/// The preset that the parameters of a box name.
pub(super) fn preset(bind: &Bind<'_>) -> Preset {
    Preset::named(bind.text("transform")).unwrap_or(Preset::ALL[0])
}

/// The extraction that the parameters of a box describe: the preset's, but for what is given.
///
/// # Errors
/// If `sigma` is given for points that are not gaussian, or `multiplier` is not seven numbers.
pub fn parameters(bind: &Bind<'_>) -> Result<ExtractParameters, BoxError> {
    let distribution = bind.text("distribution");
    let sigma = bind.get_number("sigma");
    if sigma.is_some() && distribution != "gaussian" {
        return Err(BoxError::new(format!(
            "`sigma` is for gaussian points only, and `distribution` is {distribution}: leave one of them out"
        )));
    }
    let preset = preset(bind);
    let usual = preset.parameters();
    let transform = match bind.numbers("multiplier") {
        none if none.is_empty() => usual.transform,
        numbers => FeatureTransform::scaling(<[f64; FEATURES]>::try_from(numbers).map_err(|numbers| {
            let count = numbers.len();
            BoxError::new(format!(
                "`multiplier` has {count} numbers: give {FEATURES}, for x, y, L, a, b, contrast and entropy"
            ))
        })?),
    };
    let count = |name| bind.count(name) as u32;
    // The parameters' ranges fit a `u32`.
    let count_or = |name, usual| bind.get_integer(name).map_or(usual, |count| count as u32);
    Ok(ExtractParameters {
        points_count: count_or("points", usual.points_count),
        distribution: distribution_of(distribution, sigma, preset.sigma).map_err(BoxError::new)?,
        seed: bind.count("seed") as u64,
        grey_max: (count_or("grey_levels", preset.grey_levels) - 1) as u8,
        window_radius: count("radius"),
        transform,
        seeds_count: count_or("seeds", usual.seeds_count),
        iterations_count: count_or("iterations", usual.iterations_count),
        cluster_weight_min: count_or("cluster_min", usual.cluster_weight_min),
        join_distance: bind.number("join_distance") as f32,
        centroids_count_max: count("cap"),
        distance: ground_of(bind.text("ground")).map_err(BoxError::new)?,
    })
}

fn distribution_of(name: &str, sigma: Option<f64>, usual: f64) -> Result<PointDistribution, String> {
    match name {
        "gaussian" => Ok(PointDistribution::Gaussian { sigma: sigma.unwrap_or(usual) }),
        "uniform" => Ok(PointDistribution::Uniform),
        "grid" => Ok(PointDistribution::Grid),
        _ => Err(format!("unknown distribution of points `{name}`; use gaussian, uniform or grid")),
    }
}

fn ground_of(name: &str) -> Result<GroundDistance, String> {
    match name {
        "l1" => Ok(GroundDistance::L1),
        "l2" => Ok(GroundDistance::L2),
        "linf" => Ok(GroundDistance::LInf),
        _ => Err(format!("unknown ground distance `{name}`; use l1, l2 or linf")),
    }
}

/// The parameters as a store keeps them; [`parameters_from_json`] reads them back.
pub fn parameters_json(parameters: &ExtractParameters) -> String {
    let (distribution, sigma) = match parameters.distribution {
        PointDistribution::Gaussian { sigma } => ("gaussian", Some(sigma)),
        PointDistribution::Grid => ("grid", None),
        _ => ("uniform", None),
    };
    let ground = match parameters.distance {
        GroundDistance::L1 => "l1",
        GroundDistance::LInf => "linf",
        _ => "l2",
    };
    // The shortest decimal form: a reader sees 0.2, not the f64 nearest to that f32.
    let join_distance: f64 = parameters.join_distance.to_string().parse().unwrap_or_default();
    let mut json = json!({
        "points": parameters.points_count,
        "distribution": distribution,
        "seed": parameters.seed,
        "grey_levels": u32::from(parameters.grey_max) + 1,
        "radius": parameters.window_radius,
        "multiplier": parameters.transform.multiplier,
        "offset": parameters.transform.offset,
        "seeds": parameters.seeds_count,
        "iterations": parameters.iterations_count,
        "cluster_min": parameters.cluster_weight_min,
        "join_distance": join_distance,
        "cap": parameters.centroids_count_max,
        "ground": ground,
    });
    if let Some(sigma) = sigma {
        json["sigma"] = json!(sigma);
    }
    json.to_string()
}

/// The parameters that [`parameters_json`] wrote.
///
/// # Errors
/// A sentence on the first field that is missing or out of range. Unknown fields are ignored, since a store may keep
/// more than these parameters.
pub fn parameters_from_json(text: &str) -> Result<ExtractParameters, String> {
    let json: Json = serde_json::from_str(text).map_err(|error| format!("they are not JSON: {error}"))?;
    let field = |name: &str| json.get(name).ok_or_else(|| format!("`{name}` is missing"));
    let count = |name: &str| -> Result<u32, String> {
        let value = field(name)?.as_u64().and_then(|value| u32::try_from(value).ok());
        value.ok_or_else(|| format!("`{name}` is not a count"))
    };
    let word = |name: &str| field(name)?.as_str().ok_or_else(|| format!("`{name}` is not text"));
    let number =
        |name: &str| -> Result<f64, String> { field(name)?.as_f64().ok_or(format!("`{name}` is no number")) };
    let seven = |name: &str| -> Result<[f64; 7], String> {
        let values = field(name)?.as_array().map(|values| values.iter().map(Json::as_f64).collect());
        let values: Option<Vec<f64>> = values.unwrap_or_default();
        let values = values.and_then(|values| values.try_into().ok());
        values.ok_or_else(|| format!("`{name}` is not seven numbers"))
    };
    let sigma = json.get("sigma").map(|_| number("sigma")).transpose()?;
    let parameters = ExtractParameters {
        points_count: count("points")?,
        distribution: distribution_of(word("distribution")?, sigma, SIGMA)?,
        seed: field("seed")?.as_u64().ok_or("`seed` is no whole number")?,
        grey_max: u8::try_from(count("grey_levels")?.saturating_sub(1))
            .map_err(|_| "`grey_levels` is above 256")?,
        window_radius: count("radius")?,
        transform: FeatureTransform { multiplier: seven("multiplier")?, offset: seven("offset")? },
        seeds_count: count("seeds")?,
        iterations_count: count("iterations")?,
        cluster_weight_min: count("cluster_min")?,
        join_distance: number("join_distance")? as f32,
        centroids_count_max: count("cap")?,
        distance: ground_of(word("ground")?)?,
    };
    parameters.validate().map_err(|error| error.to_string())?;
    Ok(parameters)
}

/// The side of the pictures from which a store was extracted: the field `size` beside the parameters, if it is there.
pub(crate) fn scaled_size(text: &str) -> u32 {
    const SIZE: u32 = 150;
    let json: Json = serde_json::from_str(text).unwrap_or_default();
    let size = json.get("size").and_then(Json::as_u64).and_then(|size| u32::try_from(size).ok());
    size.filter(|size| (1..=4096).contains(size)).unwrap_or(SIZE)
}

/// The key of the note on envelopes of signatures that records their extraction; `write_store` keeps it.
pub(crate) const PARAMETERS_NOTE: &str = "boxwork.parameters";

/// The key of the note on envelopes of signatures that says the alpha of their searches; `write_store` keeps it, under
/// this key.
const ALPHA_NOTE: &str = "boxwork.alpha";

/// The envelope with a note of the alpha of its signatures, if it is known.
pub(crate) fn with_alpha(envelope: Envelope, alpha: Option<f64>) -> Envelope {
    match alpha {
        Some(alpha) => envelope.with_note(ALPHA_NOTE, &format!("{alpha:?}")),
        None => envelope,
    }
}

/// The alpha that [`with_alpha`] has noted.
pub(crate) fn alpha_of(envelope: &Envelope) -> Option<f64> {
    noted_alpha(envelope.schema())
}

/// The alpha in the metadata of Arrow columns: of an envelope, or of a store file, which has it under this key too.
pub(crate) fn noted_alpha(schema: &Schema) -> Option<f64> {
    let alpha = schema.metadata().get(ALPHA_NOTE)?.parse().ok();
    alpha.filter(|alpha: &f64| alpha.is_finite() && *alpha > 0.0)
}

/// The notes on envelopes of signatures: the parameters as JSON, with the size of the first picture, and the alpha.
pub(crate) struct Note {
    parameters: ExtractParameters,
    alpha: Option<f64>,
    text: Option<String>,
}

impl Note {
    pub(crate) fn new(parameters: ExtractParameters, alpha: Option<f64>) -> Self {
        Self { parameters, alpha, text: None }
    }

    /// Puts the notes on an envelope of signatures of pictures of this size.
    pub(super) fn put_on(&mut self, envelope: Envelope, size: u32) -> Envelope {
        let parameters = self.text.get_or_insert_with(|| {
            let mut json: Json = serde_json::from_str(&parameters_json(&self.parameters)).unwrap_or_default();
            json["size"] = json!(size);
            json.to_string()
        });
        with_alpha(envelope.with_note(PARAMETERS_NOTE, parameters), self.alpha)
    }
}
