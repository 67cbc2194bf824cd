//! `extract`: small pictures become feature signatures of position, colour and texture.
//!
//! Invariant: the signature depends on the pixels and the parameters alone; the parameters go into the store as
//! [`parameters_json`], so that a query image is treated as the store's images were.

use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray, UInt32Array};
use boxwork_kernels::CodePath;
use boxwork_kernels::extract::{
    ExtractParameters, Extractor, FEATURES, FeatureTransform, GroundDistance, ImageRef, PointDistribution,
    Signature,
};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, Input, Kind, Operator, OperatorSpec, Output, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use serde_json::{Value as Json, json};

use crate::columns;
use boxwork_stores::signature::{PCT_COORDINATES, SignatureBuilder};
use boxwork_stores::signature_store::SignatureStore;

/// The standard deviation of Gaussian points when none is given.
const SIGMA: f64 = 0.2;

const COUNT: ParameterType = ParameterType::Integer { minimum: 1, maximum: 65_536 };

/// Parameters of the extraction, which other boxes that extract have too.
pub(crate) const PARAMETERS: [Parameter; 15] = [
    Parameter::new("points", COUNT, Default::Integer(2500), "sampling points per image"),
    Parameter::new(
        "distribution",
        ParameterType::Choice(&["gaussian", "uniform", "grid"]),
        Default::Text("gaussian"),
        "how the points lie in the image",
    ),
    Parameter::new(
        "sigma",
        ParameterType::Number { minimum: 0.01, maximum: 10.0 },
        Default::Absent,
        "standard deviation of gaussian points; 0.2 when not given",
    )
    .unit("image sides"),
    Parameter::new(
        "seed",
        ParameterType::integer_from(0),
        Default::Integer(1),
        "seed of the points' generator",
    ),
    Parameter::new(
        "grey_levels",
        ParameterType::Integer { minimum: 2, maximum: 256 },
        Default::Integer(16),
        "grey levels that texture tells apart",
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
        ParameterType::Choice(&["practical", "best"]),
        Default::Text("practical"),
        "how much each feature counts: practical indexes best, best is most precise",
    ),
    Parameter::new(
        "multiplier",
        ParameterType::List(&ParameterType::Number { minimum: -1000.0, maximum: 1000.0 }),
        Default::EmptyList,
        "factors of x, y, L, a, b, contrast and entropy, in place of those of `transform`",
    ),
    Parameter::new("seeds", COUNT, Default::Integer(400), "samples that seed the clusters"),
    Parameter::new(
        "iterations",
        ParameterType::Integer { minimum: 1, maximum: 1000 },
        Default::Integer(10),
        "rounds of clustering",
    ),
    Parameter::new(
        "cluster_min",
        ParameterType::Integer { minimum: 0, maximum: 65_536 },
        Default::Integer(2),
        "samples that a cluster must hold, times the round's number",
    ),
    Parameter::new(
        "join_distance",
        ParameterType::Number { minimum: 0.0, maximum: 128.0 },
        Default::Number(0.2),
        "clusters nearer than this are joined",
    ),
    Parameter::new("cap", COUNT, Default::Integer(768), "centroids of a signature at most"),
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
        "a store whose parameters are taken, in place of all others",
    ),
];

/// Extracts signatures.
///
/// # Inputs
/// `pixels`: small RGB pictures.
///
/// # Outputs
/// `signatures`: name, signature, and the original's width and height.
///
/// # Parameters
/// Those of the extraction; the defaults are the practical setting. More `points`, `seeds` and `iterations` cost time
/// and give finer signatures; `transform: best` and a larger alpha of the space give the most precise search,
/// `transform: practical` the best indexes. `as_in`: a store whose parameters are taken, in place of all others.
pub static EXTRACT: OperatorSpec = OperatorSpec {
    parameters: &PARAMETERS,
    inputs: &[Input::stream("pixels", columns::pixels, "small RGB pictures")],
    outputs: &[Output::new("signatures", columns::signatures, "a signature a picture, in the same order")],
    example: "extract: {kind: extract, points: 2500, copies: auto}",
    code_path: Some(|_, _| CodePath::detect().to_string()),
    ..OperatorSpec::new("extract", "Extracts feature signatures from pictures.", Kind::Ordered, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let parameters = match crate::resources::get_signatures(bind, "as_in")? {
        Some(store) => parameters_of(&store)?,
        None => parameters(bind)?,
    };
    Ok(Box::new(Extract { extractor: Extractor::new(parameters.clone())?, note: Note::new(parameters) }))
}

/// The extraction that the signatures of a store were made by.
fn parameters_of(store: &SignatureStore) -> Result<ExtractParameters, BoxError> {
    let path = store.path().display();
    let Some(json) = store.parameters() else {
        return Err(BoxError::new(format!(
            "`{path}` does not say how its signatures were extracted (it was imported), so images cannot be added to \
             it: add the objects of another such store with --from"
        )));
    };
    parameters_from_json(json).map_err(|reason| {
        BoxError::new(format!("the extraction parameters in `{path}` are not clear: {reason}"))
    })
}

/// The extraction that a box of [`EXTRACT`] is told to do.
///
/// # Errors
/// When `sigma` is given for points that are not gaussian, or `multiplier` is not seven numbers.
pub fn parameters(bind: &Bind<'_>) -> Result<ExtractParameters, BoxError> {
    let distribution = bind.text("distribution");
    let sigma = bind.get_number("sigma");
    if sigma.is_some() && distribution != "gaussian" {
        return Err(BoxError::new(format!(
            "`sigma` is for gaussian points only, and `distribution` is {distribution}: leave one of them out"
        )));
    }
    let transform = match bind.numbers("multiplier") {
        none if none.is_empty() => {
            FeatureTransform::preset(bind.text("transform")).unwrap_or(FeatureTransform::PRACTICAL)
        }
        numbers => FeatureTransform::scaling(<[f64; FEATURES]>::try_from(numbers).map_err(|numbers| {
            let count = numbers.len();
            BoxError::new(format!(
                "`multiplier` has {count} numbers: give {FEATURES}, for x, y, L, a, b, contrast and entropy"
            ))
        })?),
    };
    let count = |name| bind.count(name) as u32;
    Ok(ExtractParameters {
        points_count: count("points"),
        distribution: distribution_of(distribution, sigma).map_err(BoxError::new)?,
        seed: bind.count("seed") as u64,
        grey_max: (bind.count("grey_levels") - 1) as u8,
        window_radius: count("radius"),
        transform,
        seeds_count: count("seeds"),
        iterations_count: count("iterations"),
        cluster_weight_min: count("cluster_min"),
        join_distance: bind.number("join_distance") as f32,
        centroids_count_max: count("cap"),
        distance: ground_of(bind.text("ground")).map_err(BoxError::new)?,
    })
}

fn distribution_of(name: &str, sigma: Option<f64>) -> Result<PointDistribution, String> {
    match name {
        "gaussian" => Ok(PointDistribution::Gaussian { sigma: sigma.unwrap_or(SIGMA) }),
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

/// The parameters as a store keeps them; [`parameters_from_json`] gives back the same.
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
    // By its shortest decimal form, so that a person reads 0.2 and not the f64 next to that f32.
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
/// A sentence on the first field that is missing or out of its range. Fields of other names are passed over, since
/// a store may say more than how it was extracted.
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
        distribution: distribution_of(word("distribution")?, sigma)?,
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

/// The side of the pictures that a store was extracted from: the field `size` beside the parameters, where it is.
pub(crate) fn scaled_size(text: &str) -> u32 {
    const SIZE: u32 = 150;
    let json: Json = serde_json::from_str(text).unwrap_or_default();
    let size = json.get("size").and_then(Json::as_u64).and_then(|size| u32::try_from(size).ok());
    size.filter(|size| (1..=4096).contains(size)).unwrap_or(SIZE)
}

/// The key of the note on envelopes of signatures that says how they were made; `write_store` keeps it.
pub(crate) const PARAMETERS_NOTE: &str = "boxwork.parameters";

/// What envelopes of signatures say of how they were made: the parameters as JSON, with the size of the pictures, which
/// the first one tells.
pub(crate) struct Note {
    parameters: ExtractParameters,
    text: Option<String>,
}

impl Note {
    pub(crate) fn new(parameters: ExtractParameters) -> Self {
        Self { parameters, text: None }
    }

    fn of_size(&mut self, size: u32) -> &str {
        self.text.get_or_insert_with(|| {
            let mut json: Json = serde_json::from_str(&parameters_json(&self.parameters)).unwrap_or_default();
            json["size"] = json!(size);
            json.to_string()
        })
    }
}

struct Extract {
    extractor: Extractor,
    note: Note,
}

impl Operator for Extract {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some(pixels) = cx.take("pixels") else {
            return Ok(if cx.is_ended("pixels") { Flow::Done } else { Flow::Wait });
        };
        // Whoever sends them goes on while these are computed.
        cx.announce();
        let Some(signatures) = extract(cx, &mut self.extractor, &mut self.note, &pixels)? else {
            return Ok(if cx.is_cancelled() { Flow::Done } else { Flow::Wait });
        };
        Ok(if cx.push("signatures", signatures)? == Pushed::Closed { Flow::Done } else { Flow::Wait })
    }
}

/// The signatures of an envelope of pictures; what is no picture is reported. Nothing where none is left, or the request
/// is cancelled.
pub(crate) fn extract(
    cx: &mut Context<'_>,
    extractor: &mut Extractor,
    note: &mut Note,
    pixels: &Envelope,
) -> Result<Option<Envelope>, BoxError> {
    let mut signatures = SignatureBuilder::new(&PCT_COORDINATES)?;
    let mut kept = Vec::with_capacity(pixels.rows());
    for row in 0..pixels.rows() {
        if cx.is_cancelled() {
            return Ok(None);
        }
        let extracted = picture(pixels, row)?.and_then(|picture| push(extractor, picture, &mut signatures));
        keep(cx, pixels, row, extracted, &mut kept)?;
    }
    envelope_of(pixels, &kept, signatures, note)
}

/// A picture of an envelope, or what is wrong with it.
pub(crate) fn picture(pixels: &Envelope, row: usize) -> Result<Result<ImageRef<'_>, String>, BoxError> {
    let (width, height) = (pixels.u32s("scaled_width")?[row], pixels.u32s("scaled_height")?[row]);
    let rgb = pixels.binaries("rgb")?.value(row);
    Ok(ImageRef::new(width as usize, height as usize, rgb).map_err(|error| error.to_string()))
}

/// Keeps a row whose signature is there, and reports any other.
pub(crate) fn keep(
    cx: &mut Context<'_>,
    pixels: &Envelope,
    row: usize,
    extracted: Result<(), String>,
    kept: &mut Vec<usize>,
) -> Result<(), BoxError> {
    match extracted {
        Ok(()) => kept.push(row),
        Err(message) => cx.report(pixels.texts("name")?.value(row), message),
    }
    Ok(())
}

/// The kept rows of an envelope of pictures with their signatures; nothing where there is none.
pub(crate) fn envelope_of(
    pixels: &Envelope,
    kept: &[usize],
    mut signatures: SignatureBuilder,
    note: &mut Note,
) -> Result<Option<Envelope>, BoxError> {
    let Some(first) = kept.first() else { return Ok(None) };
    let names = pixels.texts("name")?;
    let (widths, heights) = (pixels.u32s("width")?, pixels.u32s("height")?);
    let columns: [(&str, ArrayRef); 4] = [
        ("name", Arc::new(StringArray::from_iter_values(kept.iter().map(|row| names.value(*row))))),
        ("signature", Arc::new(signatures.finish())),
        ("width", Arc::new(UInt32Array::from_iter_values(kept.iter().map(|row| widths[*row])))),
        ("height", Arc::new(UInt32Array::from_iter_values(kept.iter().map(|row| heights[*row])))),
    ];
    let note = note.of_size(pixels.u32s("scaled_width")?[*first]);
    Ok(Some(Envelope::from_columns(columns)?.with_note(PARAMETERS_NOTE, note)))
}

/// Extracts an image's signature and appends it.
pub(crate) fn push(
    extractor: &mut Extractor,
    image: ImageRef<'_>,
    signatures: &mut SignatureBuilder,
) -> Result<(), String> {
    push_signature(&extractor.extract(image), signatures)
}

/// Appends a signature.
pub(crate) fn push_signature(signature: &Signature, signatures: &mut SignatureBuilder) -> Result<(), String> {
    let coordinates: Vec<&[f32]> = signature.centroids.iter().map(Vec::as_slice).collect();
    signatures.push(&coordinates, &signature.weights).map_err(|error| error.to_string())
}

#[cfg(test)]
pub(crate) mod tests {
    use arrow_array::BinaryArray;
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Environment;
    use boxwork_runtime::parameter::Value;

    use super::*;
    use boxwork_stores::signature::SignatureColumns;

    pub(crate) fn pixels(rgbs: &[Vec<u8>], side: u32) -> Envelope {
        let names = (0..rgbs.len()).map(|idx| format!("a/{idx}"));
        let sides: ArrayRef = Arc::new(UInt32Array::from(vec![side; rgbs.len()]));
        let columns: [(&str, ArrayRef); 6] = [
            ("name", Arc::new(StringArray::from_iter_values(names))),
            ("width", Arc::new(UInt32Array::from(vec![640; rgbs.len()]))),
            ("height", Arc::new(UInt32Array::from(vec![480; rgbs.len()]))),
            ("scaled_width", Arc::clone(&sides)),
            ("scaled_height", sides),
            ("rgb", Arc::new(BinaryArray::from_iter_values(rgbs))),
        ];
        Envelope::from_columns(columns).unwrap()
    }

    #[test]
    fn extracts_what_the_kernel_does_and_reports_what_is_no_image() {
        let noise: Vec<u8> =
            (0..30 * 30 * 3u32).map(|idx| (idx.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let mut harness = Harness::new(&EXTRACT, [("points", Value::Integer(300))]).unwrap();
        harness.give("pixels", pixels(&[vec![200; 2700], vec![1; 5], noise.clone()], 30));
        harness.end("pixels");
        harness.run().unwrap();
        assert!(harness.is_done());
        assert_eq!(harness.announced(), 1, "whoever sends goes on while an envelope is computed");
        assert_eq!(harness.problems().len(), 1);
        assert_eq!(harness.problems()[0].subject, "a/1");
        let envelopes = harness.taken("signatures");
        assert_eq!(envelopes[0].texts("name").unwrap().iter().flatten().collect::<Vec<_>>(), ["a/0", "a/2"]);
        assert_eq!(envelopes[0].u32s("height").unwrap(), [480, 480]);
        let note = envelopes[0].note(PARAMETERS_NOTE).unwrap();
        assert_eq!(parameters_from_json(note).unwrap().points_count, 300);
        assert_eq!(scaled_size(note), 30);
        let columns = SignatureColumns::new(envelopes[0].lists("signature").unwrap()).unwrap();
        let parameters = ExtractParameters { points_count: 300, ..ExtractParameters::default() };
        let expected = Extractor::new(parameters).unwrap().extract(ImageRef::new(30, 30, &noise).unwrap());
        let found = columns.signature(1);
        assert_eq!(found.weights(), expected.weights);
        assert_eq!(found.coordinate(5), expected.centroids[5]);
    }

    #[test]
    fn the_defaults_are_the_kernels() {
        let arguments = boxwork_runtime::parameter::Arguments::check(EXTRACT.parameters, []).unwrap();
        let (resources, environment) = (std::collections::BTreeMap::new(), Environment::of_slots(1));
        let bind = Bind::new("extract", &arguments, &resources, &environment);
        assert_eq!(parameters(&bind).unwrap(), ExtractParameters::default());
    }

    #[test]
    fn parameters_are_read_back() {
        let uniform = ExtractParameters {
            distribution: PointDistribution::Uniform,
            seed: u64::MAX,
            join_distance: 0.1 + 0.2,
            distance: GroundDistance::LInf,
            transform: FeatureTransform::BEST,
            ..ExtractParameters::default()
        };
        // A reader that rounds carelessly gives the neighbour of this number back.
        let mut careful = ExtractParameters::default();
        careful.transform.multiplier[2] = 0.021_844_674_407_370_954;
        for parameters in [ExtractParameters::default(), uniform, careful] {
            assert_eq!(parameters_from_json(&parameters_json(&parameters)), Ok(parameters));
        }
        let json = parameters_json(&ExtractParameters::default());
        assert!(json.contains("\"join_distance\":0.2,") && json.contains("\"sigma\":0.2"), "{json}");
        assert!(parameters_from_json("{}").unwrap_err().contains("`points` is missing"));
        assert!(parameters_from_json("points").unwrap_err().contains("not JSON"));
        let wide = json.replace("\"sigma\":0.2", "\"sigma\":\"wide\"");
        assert!(parameters_from_json(&wide).unwrap_err().contains("`sigma` is no number"));
        let eight = json.replace("\"offset\":[", "\"offset\":[null,");
        assert!(parameters_from_json(&eight).unwrap_err().contains("`offset` is not seven numbers"));
        let zero = json.replace("\"points\":2500", "\"points\":0");
        assert!(parameters_from_json(&zero).unwrap_err().contains("points_count is 0"));
    }

    #[test]
    fn multipliers_replace_the_preset() {
        let given = |numbers: &[f64]| {
            let numbers = numbers.iter().copied().map(Value::Number).collect();
            Harness::new(&EXTRACT, [("multiplier", Value::List(numbers))])
        };
        assert!(given(&[8.0, 8.0, 0.01, 0.02, 0.02, 0.04, 0.25]).is_ok());
        let error = given(&[8.0, 8.0]).err().unwrap().to_string();
        assert!(error.contains("2 numbers") && error.contains("give 7"), "{error}");
        let error = given(&[8.0, 8.0, 9.0, 0.02, 0.02, 0.04, 0.25]).err().unwrap().to_string();
        assert!(error.contains("scales L by 9"), "{error}");
    }

    #[test]
    fn sigma_is_for_gaussian_points_only() {
        let given = [("distribution", Value::Text("grid".into())), ("sigma", Value::Number(0.3))];
        let error = Harness::new(&EXTRACT, given).err().unwrap().to_string();
        assert!(error.contains("`sigma`") && error.contains("grid"), "{error}");
        assert!(Harness::new(&EXTRACT, [("sigma", Value::Number(0.3))]).is_ok());
    }
}
