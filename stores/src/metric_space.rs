//! The space of a search among objects of any kind: a column of them or a store of signatures, and a distance.
//!
//! Invariants: every distance is f64 and has the same bits on every machine; the space says which bounds are sound for
//! it, before any file is opened ([`MetricMeasure::of`]), and how far its numbers may be off ([`MetricSpace::slack`]).
//! Within a space an object is known by its place, counted without a gap; outside by its id. Both have the same order.

use std::cell::RefCell;
use std::sync::Arc;

use boxwork_kernels::distance::{
    Distance, DistanceError, Emd, Hausdorff, Jaccard, Levenshtein, Lp, Properties, Slack,
};
use boxwork_kernels::similarity::{Ground, Measure, Similarity};
use boxwork_kernels::sqfd::{SignatureRef, reference};
use boxwork_runtime::operator::{Bind, BoxError, Resource, ResourceSpec};
use boxwork_runtime::parameter::{Arguments, Default, Parameter, ParameterType, Value};

use super::metric_query::{MetricQuery, QueryObject};
use super::object_column::{Item, ObjectColumn, ObjectKind};
use super::signature_store::{Objects, SignatureStore, StoreError};
use super::sqfd_space::SqfdSpace;

/// A distance by its name and constants, as a pipeline declares it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricMeasure {
    distance: Named,
    root: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Named {
    Lp(Lp),
    Levenshtein,
    Jaccard,
    Hausdorff(Lp),
    Emd(Lp),
    Sqfd(Measure),
}

impl MetricMeasure {
    /// The distance that the arguments of a `metric_space` declare.
    ///
    /// # Errors
    /// What does not go together, and what to do.
    pub fn of(arguments: &Arguments) -> Result<Self, String> {
        let text = |name: &str| match arguments.get(name) {
            Some(Value::Text(text)) => Some(text.as_str()),
            _ => None,
        };
        let number = |name: &str| match arguments.get(name) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        };
        let name = text("distance").unwrap_or("l2");
        if name != "lp" && number("p").is_some() {
            return Err(format!("`p` is the exponent of lp, and the distance is {name}: remove it"));
        }
        let ground = match text("ground").unwrap_or("l2") {
            "l1" => Lp::L1,
            "linf" => Lp::LINF,
            _ => Lp::L2,
        };
        let distance = match name {
            "l1" => Named::Lp(Lp::L1),
            "linf" => Named::Lp(Lp::LINF),
            "lp" => {
                let p = number("p").ok_or("lp needs its exponent: add `p:` with a number from 1 up")?;
                Named::Lp(Lp::new(p).map_err(|error| error.to_string())?)
            }
            "levenshtein" => Named::Levenshtein,
            "jaccard" => Named::Jaccard,
            "hausdorff" => Named::Hausdorff(ground),
            "emd" => Named::Emd(ground),
            "sqfd" => {
                let similarity: Similarity = match text("similarity") {
                    Some("heuristic") => Similarity::Heuristic,
                    _ => Similarity::Gaussian,
                };
                let ground: Ground = text("ground").unwrap_or("l2").parse().map_err(|_| "no such ground")?;
                let measure = Measure::new(similarity, ground, number("alpha").unwrap_or(0.2));
                Named::Sqfd(measure.map_err(|error| error.to_string())?)
            }
            _ => Named::Lp(Lp::L2),
        };
        let (of_store, of_column) = (text("store").is_some(), text("objects").is_some());
        if distance.is_of_signatures() && (of_column || !of_store) {
            return Err(format!("{name} is a distance of signatures: give `store`, and no `objects`"));
        }
        if !distance.is_of_signatures() && (of_store || !of_column) {
            return Err(format!(
                "{name} is a distance of objects of a column: give `objects`, and no `store`"
            ));
        }
        Ok(Self { distance, root: arguments.get("root") == Some(&Value::Boolean(true)) })
    }

    /// What may be concluded from it.
    pub fn properties(&self) -> Properties {
        let of = match self.distance {
            Named::Lp(lp) => lp.properties(),
            Named::Levenshtein => Levenshtein.properties(),
            Named::Jaccard => Jaccard.properties(),
            Named::Hausdorff(ground) => Hausdorff::new(ground).properties(),
            Named::Emd(ground) => Emd::new(ground).properties(),
            Named::Sqfd(_) => Properties::hilbert("sqfd"),
        };
        if self.root { of.rooted() } else { of }
    }

    /// Whether it is defined for a signature.
    pub(super) fn check_signature(&self, signature: SignatureRef<'_>) -> Result<(), DistanceError> {
        match self.distance {
            Named::Emd(ground) => Emd::new(ground).check(signature),
            _ => Hausdorff::new(Lp::L2).check(signature),
        }
    }

    fn rooted(&self, distance: f64) -> f64 {
        if self.root { distance.sqrt() } else { distance }
    }
}

impl Named {
    fn is_of_signatures(&self) -> bool {
        matches!(self, Self::Hausdorff(_) | Self::Emd(_) | Self::Sqfd(_))
    }

    /// What the objects must be, for a distance of those of a column.
    fn kind(&self) -> ObjectKind {
        match self {
            Self::Levenshtein => ObjectKind::Texts,
            Self::Jaccard => ObjectKind::Sets,
            _ => ObjectKind::Vectors,
        }
    }
}

/// Objects and their distance.
#[derive(Debug)]
pub struct MetricSpace {
    objects: Of,
    measure: MetricMeasure,
}

/// What the objects are in.
#[derive(Debug)]
enum Of {
    Column(Arc<ObjectColumn>),
    Signatures {
        store: Arc<SignatureStore>,
        sqfd: Option<SqfdSpace>,
        /// The most centroids of an object.
        centroids_max: usize,
        /// The least and the greatest of each coordinate.
        extents: Vec<(f32, f32)>,
    },
}

impl MetricSpace {
    /// A distance over a column of objects.
    ///
    /// # Errors
    /// When the objects are of another kind than the distance is of.
    pub fn of_column(measure: MetricMeasure, objects: Arc<ObjectColumn>) -> Result<Self, BoxError> {
        let (wanted, found) = (measure.distance.kind(), objects.kind());
        let name = measure.properties().name;
        if measure.distance.is_of_signatures() {
            return Err(BoxError::new(format!(
                "{name} is a distance of signatures, not of {}",
                found.name()
            )));
        }
        if wanted != found {
            return Err(BoxError::new(format!(
                "{name} is a distance of {}, and `{}` holds {}{}",
                wanted.name(),
                objects.path().display(),
                found.name(),
                if wanted == ObjectKind::Sets { ": say `holds: sets` of the column" } else { "" }
            )));
        }
        Ok(Self { objects: Of::Column(objects), measure })
    }

    /// A distance over a store of signatures, all of which are looked at once. Blocks on the disk.
    ///
    /// # Errors
    /// When the store cannot be read, or holds a signature that the distance is not defined for.
    pub fn of_store(measure: MetricMeasure, store: Arc<SignatureStore>) -> Result<Self, BoxError> {
        let sqfd = match measure.distance {
            Named::Sqfd(of) => Some(SqfdSpace::new(Arc::clone(&store), of)),
            _ => None,
        };
        let mut centroids_max = 0;
        let mut extents = vec![(f32::INFINITY, f32::NEG_INFINITY); store.dimensions()];
        store.read::<_, BoxError>(|objects| {
            for idx in 0..store.batches() {
                let (first, batch) = (store.ids(idx).start, objects.batch(idx)?);
                for (extent, of_batch) in extents.iter_mut().zip(batch.extents()) {
                    *extent = (extent.0.min(of_batch.0), extent.1.max(of_batch.1));
                }
                for id in store.among(store.ids(idx)) {
                    let signature = batch.columns().signature((id - first) as usize);
                    centroids_max = centroids_max.max(signature.len());
                    measure.check_signature(signature).map_err(|error| {
                        BoxError::new(format!("object {id} of `{}`: {error}", store.path().display()))
                    })?;
                }
            }
            Ok(())
        })?;
        Ok(Self { objects: Of::Signatures { store, sqfd, centroids_max, extents }, measure })
    }

    /// The distance.
    pub fn measure(&self) -> MetricMeasure {
        self.measure
    }

    /// The column, where the objects are of one.
    pub fn column(&self) -> Option<&ObjectColumn> {
        match &self.objects {
            Of::Column(column) => Some(column),
            Of::Signatures { .. } => None,
        }
    }

    /// The store, where the objects are signatures.
    pub fn store(&self) -> Option<&Arc<SignatureStore>> {
        match &self.objects {
            Of::Column(_) => None,
            Of::Signatures { store, .. } => Some(store),
        }
    }

    /// How many objects there are, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a space is never empty")]
    pub fn len(&self) -> u64 {
        match &self.objects {
            Of::Column(column) => column.len(),
            Of::Signatures { store, .. } => store.objects(),
        }
    }

    /// The id of the object at a place: another number only where objects were removed before it.
    ///
    /// # Panics
    /// When there is no such place.
    pub fn id(&self, place: u32) -> u64 {
        match &self.objects {
            Of::Column(_) => u64::from(place),
            Of::Signatures { store, .. } => store.nth(u64::from(place)),
        }
    }

    /// The place of an object; nothing where there is no object of that id.
    pub fn place(&self, id: u64) -> Option<u32> {
        let place = match &self.objects {
            Of::Column(column) => (id < column.len()).then_some(id),
            Of::Signatures { store, .. } => store.has(id).then(|| store.rank(id)),
        };
        place.and_then(|place| u32::try_from(place).ok())
    }

    /// The name of an object.
    ///
    /// # Errors
    /// When there is no such object, or its name cannot be read.
    pub fn name(&self, id: u64) -> Result<String, BoxError> {
        match &self.objects {
            Of::Column(column) => {
                let name = column.name(id).map(str::to_owned);
                name.ok_or_else(|| BoxError::new(format!("there is no object {id}")))
            }
            Of::Signatures { store, .. } => Ok(store.name(id)?),
        }
    }

    /// How far computed distances may be off, among the objects or from a query.
    pub fn slack(&self, query: Option<&MetricQuery>) -> Slack {
        let slack = match (&self.objects, self.measure.distance) {
            (Of::Column(column), Named::Lp(lp)) => lp.slack(column.dimensions(), 0.0),
            (_, Named::Levenshtein) => Levenshtein.slack(0, 0.0),
            (Of::Signatures { store, centroids_max, extents, .. }, distance) => {
                let mut extents = extents.clone();
                let mut centroids_max = *centroids_max;
                if let Some(QueryObject::Signature(signature)) = query.map(|query| &query.object) {
                    signature.with(|signature| {
                        centroids_max = centroids_max.max(signature.len());
                        for (d, extent) in extents.iter_mut().enumerate() {
                            for x in signature.coordinate(d) {
                                *extent = (extent.0.min(*x), extent.1.max(*x));
                            }
                        }
                    });
                }
                let (least, most): (Vec<f32>, Vec<f32>) = extents.into_iter().unzip();
                match distance {
                    Named::Emd(ground) => Emd::new(ground).slack(least.len(), ground.distance(&least, &most)),
                    Named::Sqfd(measure) => sqfd_slack(&measure, centroids_max, store.dimensions()),
                    Named::Hausdorff(ground) | Named::Lp(ground) => ground.slack(least.len(), 0.0),
                    _ => Jaccard.slack(0, 0.0),
                }
            }
            _ => Jaccard.slack(0, 0.0),
        };
        if self.measure.root { slack.rooted() } else { slack }
    }

    /// Lends the distances of a query from the objects, each by its place; what the closure makes of them counts only
    /// when all could be read.
    ///
    /// # Errors
    /// When an object cannot be read.
    pub fn distances<R>(
        &self,
        query: &MetricQuery,
        f: impl FnOnce(&mut dyn FnMut(u32) -> f64) -> R,
    ) -> Result<R, BoxError> {
        match (&self.objects, &query.object) {
            (Of::Column(column), QueryObject::Item(item, pattern)) => {
                let mut distance = |id: u32| {
                    let other = column.item(u64::from(id));
                    let distance = match (pattern, other) {
                        (Some(pattern), Item::Text(text)) => pattern.distance(text) as f64,
                        _ => self.between_items(item.item(), other),
                    };
                    self.measure.rooted(distance)
                };
                Ok(f(&mut distance))
            }
            (Of::Signatures { store, sqfd, .. }, QueryObject::Signature(signature)) => {
                signature.with(|signature| {
                    let sigma = sqfd.as_ref().map(|space| reference::sigma_self(&space.measure(), signature));
                    store.read::<_, BoxError>(|objects| {
                        let mut failed = None;
                        let result = f(&mut |place| {
                            let found =
                                self.signature_to(objects, signature, sigma, store.nth(u64::from(place)));
                            found.unwrap_or_else(|error| {
                                failed = Some(error);
                                f64::NAN
                            })
                        });
                        failed.map_or(Ok(result), |error| Err(error.into()))
                    })
                })
            }
            _ => Err(BoxError::new("the query is of another kind than the objects")),
        }
    }

    /// Lends the distances of the objects among themselves, as [`MetricSpace::distances`] those of a query.
    ///
    /// # Errors
    /// When an object cannot be read.
    pub fn between<R>(&self, f: impl FnOnce(&dyn Fn(u32, u32) -> f64) -> R) -> Result<R, BoxError> {
        match &self.objects {
            Of::Column(column) => Ok(f(&|a, b| {
                let (a, b) = (column.item(u64::from(a)), column.item(u64::from(b)));
                self.measure.rooted(self.between_items(a, b))
            })),
            Of::Signatures { store, sqfd, .. } => store.read::<_, BoxError>(|objects| {
                let failed = RefCell::new(None);
                let between = |a: u32, b: u32| {
                    let (a, b) = (store.nth(u64::from(a)), store.nth(u64::from(b)));
                    let found = match sqfd {
                        Some(space) => space.between(objects, a, b).map(|found| self.measure.rooted(found)),
                        None => objects
                            .signature(a)
                            .and_then(|signature| self.signature_to(objects, signature, None, b)),
                    };
                    found.unwrap_or_else(|error| {
                        *failed.borrow_mut() = Some(error);
                        f64::NAN
                    })
                };
                let result = f(&between);
                failed.into_inner().map_or(Ok(result), |error| Err(error.into()))
            }),
        }
    }

    fn signature_to(
        &self,
        objects: Objects<'_>,
        query: SignatureRef<'_>,
        sigma: Option<f64>,
        id: u64,
    ) -> Result<f64, StoreError> {
        let distance = match (self.measure.distance, &self.objects, sigma) {
            (Named::Sqfd(_), Of::Signatures { sqfd: Some(space), .. }, Some(sigma)) => {
                space.exact(objects, query, sigma, id)?
            }
            (Named::Emd(ground), ..) => Emd::new(ground).distance(query, objects.signature(id)?),
            (Named::Hausdorff(ground) | Named::Lp(ground), ..) => {
                Hausdorff::new(ground).distance(query, objects.signature(id)?)
            }
            // Not a number is no distance: whoever asked refuses it.
            _ => f64::NAN,
        };
        Ok(self.measure.rooted(distance))
    }

    fn between_items(&self, a: Item<'_>, b: Item<'_>) -> f64 {
        match (self.measure.distance, a, b) {
            (Named::Lp(lp), Item::Vector(a), Item::Vector(b)) => lp.distance(a, b),
            (Named::Levenshtein, Item::Text(a), Item::Text(b)) => Levenshtein.distance(a, b),
            (Named::Jaccard, Item::Set(a), Item::Set(b)) => Jaccard.distance(a, b),
            _ => f64::NAN,
        }
    }
}

/// How far distances of a measure may be off.
fn sqfd_slack(measure: &Measure, centroids_max: usize, dimensions: usize) -> Slack {
    // Weights sum to 1 within rounding, so that a signature is no more similar to itself than a centroid is, and two
    // are no farther than the measure allows.
    let sigma_max = 1.01 * measure.f_s(&[0.0], &[0.0]).abs();
    let distance_max = 1.01 * measure.distance_max().unwrap_or(f64::MAX.sqrt());
    let noise = reference::error_squared(measure, sigma_max, distance_max, centroids_max, dimensions);
    Slack::of_squares(noise)
}

/// A distance over objects, shared by requests as [`MetricSpace`].
pub static METRIC_SPACE: ResourceSpec = ResourceSpec {
    name: "metric_space",
    about: "Objects of any kind and their distance, which says which bounds are sound for it.",
    parameters: &[
        Parameter::new(
            "objects",
            ParameterType::Resource("object_column"),
            Default::Absent,
            "vectors, texts or sets",
        ),
        Parameter::new("store", ParameterType::Resource("signature_store"), Default::Absent, "signatures"),
        Parameter::new(
            "distance",
            ParameterType::Choice(&[
                "l1",
                "l2",
                "linf",
                "lp",
                "levenshtein",
                "jaccard",
                "hausdorff",
                "emd",
                "sqfd",
            ]),
            Default::Required,
            "of vectors (l1, l2, linf, lp), texts (levenshtein), sets (jaccard) or signatures (hausdorff, emd, sqfd)",
        ),
        Parameter::new(
            "p",
            ParameterType::Number { minimum: 1.0, maximum: f64::MAX },
            Default::Absent,
            "the exponent of lp",
        ),
        Parameter::new(
            "root",
            ParameterType::Boolean,
            Default::Boolean(false),
            "the square root of the distance: the same order, and more bounds are sound",
        ),
        Parameter::new(
            "ground",
            ParameterType::Choice(&["l1", "l2", "linf"]),
            Default::Text("l2"),
            "the distance of two centroids, of hausdorff, emd and sqfd",
        ),
        Parameter::new(
            "similarity",
            ParameterType::Choice(&["gaussian", "heuristic"]),
            Default::Text("gaussian"),
            "of two centroids, of sqfd",
        ),
        Parameter::new(
            "alpha",
            ParameterType::Positive,
            Default::Number(0.2),
            "the steepness of sqfd's similarity",
        ),
    ],
    example: "space: {kind: metric_space, objects: words, distance: levenshtein}",
    check: Some(|arguments| MetricMeasure::of(arguments).map(drop)),
    load,
};

fn load(bind: &Bind<'_>) -> Result<Resource, BoxError> {
    let measure = MetricMeasure::of(bind.arguments).map_err(BoxError::new)?;
    let space = match bind.get_resource::<ObjectColumn>("objects")? {
        Some(objects) => MetricSpace::of_column(measure, objects)?,
        None => MetricSpace::of_store(measure, bind.resource("store")?)?,
    };
    if space.len() >= u64::from(u32::MAX) {
        return Err(BoxError::new(format!(
            "{} objects are too many: a space holds fewer than 2^32",
            space.len()
        )));
    }
    Ok(Arc::new(space))
}

/// The distance of the `metric_space` that is a resource's argument, by the plan's arguments alone.
pub fn planned_measure(
    arguments: &Arguments,
    resources: &dyn Fn(&str) -> Option<Arguments>,
) -> Option<MetricMeasure> {
    let Some(Value::Text(space)) = arguments.get("space") else { return None };
    MetricMeasure::of(&resources(space)?).ok()
}
