//! `gp_kernel`: the covariance of objects for feedback, a function of their distance.
//!
//! Invariants: the covariances of any objects are positive semidefinite, or the pipeline has a fault; the length depends on
//! the store, the distance and the form alone; what the resource remembers of distances changes no answer.

mod cache;
mod kept;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use boxwork_kernels::chance::Random;
use boxwork_kernels::gaussian_process::{Covariance, Form};
use boxwork_kernels::interrupt::{Interrupt, Interrupted};
use boxwork_runtime::operator::{Bind, BoxError, Resource, ResourceSpec};
use boxwork_runtime::parameter::{Arguments, Default, Parameter, ParameterType, Value};
use boxwork_stores::sketch::Sketch;
use boxwork_stores::space::Space;
use boxwork_stores::spaces::allow_apexes;
use boxwork_stores::subset::Subset;

use super::space::options;
pub(crate) use cache::{Cache, Caches, Column};
pub(crate) use kept::{KeptColumn, KeptColumns, Sketches};

/// Pairs of objects whose median distance gives the length.
const PAIRS: u64 = 4096;
/// Pairs between two looks at a cancellation.
const PAIRS_PER_PIECE: usize = 64;
/// The seed of these pairs.
const PAIRS_SEED: u64 = 0x6770_6c65_6e67_7468;
/// The most objects of a store whose covariances are all computed from exact distances.
pub(crate) const EXACT_OBJECTS_MAX: u64 = 4096;
/// Classes whose members are remembered.
const CLASSES_KEPT: usize = 64;

/// The covariance over a space, shared by requests as [`GpKernel`].
pub(crate) static GP_KERNEL: ResourceSpec = ResourceSpec {
    name: "gp_kernel",
    about: "The covariance of two objects as a function of their distance, for feedback.",
    parameters: &[
        super::SPACE,
        Parameter::new(
            "form",
            ParameterType::Choice(&["inverse_multiquadric", "gaussian", "exponential", "laplacian"]),
            Default::Text("inverse_multiquadric"),
            "1 / sqrt(1 + (d/l)^2), exp(-(d/l)^2 / 2), or exp(-d/l), which is also called laplacian, of the distance d",
        ),
        Parameter::new(
            "length",
            ParameterType::Positive,
            Default::Absent,
            "the length l; by default half the median distance of random pairs, and twice it for exp(-d/l)",
        ),
        Parameter::new(
            "sketch",
            ParameterType::Path,
            Default::Absent,
            "the sketches of the store, made by `boxwork sketch`",
        ),
        Parameter::new(
            "mode",
            ParameterType::Choice(&["auto", "exact", "sketch"]),
            Default::Text("auto"),
            "bounds from exact distances or from sketches; auto: from sketches, if they are given and the store has more than \
             4096 objects",
        ),
    ],
    example: "kernel: {kind: gp_kernel, space: space}",
    provides: None,
    check: None,
    load,
};

/// A covariance over the objects of a space, and the distances that requests have computed for it.
#[derive(Debug)]
pub(crate) struct GpKernel {
    pub(crate) space: Arc<dyn Space>,
    pub(crate) covariance: Covariance,
    pub(crate) cache: Arc<Cache>,
    /// The sketches from which objects are bounded; without them exact distances bound.
    pub(crate) sketch: Option<Arc<Sketch>>,
    /// What earlier rounds have computed from sketches.
    pub(crate) kept: Arc<KeptColumns>,
    /// By the text of the filter: the members, in the order of their ids.
    classes: Mutex<BTreeMap<String, Arc<[u64]>>>,
}

fn load(bind: &Bind<'_>) -> Result<Resource, BoxError> {
    let space = super::space(bind)?;
    let form = form_of(bind.arguments).expect("the parameter is one of the forms");
    form.allow(&space.properties())?;
    let cancellation = bind.cancellation();
    let length = match bind.get_number("length") {
        Some(length) => length,
        None => usual_length(&*space, form, &|| cancellation.is_cancelled())?,
    };
    let cache = bind.memory::<Caches>().of(&*space);
    let sketch = sketch(bind, &space)?;
    let mut kernel = GpKernel::new(space, Covariance::new(form, length), cache);
    (kernel.sketch, kernel.kept) = (sketch, bind.memory());
    Ok(Arc::new(kernel))
}

/// The sketches that are used. Those that are given and not used are checked all the same.
fn sketch(bind: &Bind<'_>, space: &Arc<dyn Space>) -> Result<Option<Arc<Sketch>>, BoxError> {
    let mode = bind.text("mode");
    let Some(path) = bind.get_path("sketch") else {
        if mode == "sketch" {
            allow_apexes(&space.properties()).map_err(BoxError::new)?;
            return Err(BoxError::new(format!(
                "mode `sketch` needs the sketches of the store: make them with `{}`, and give them as `sketch`",
                Sketch::command(space, Path::new("FILE"))
            )));
        }
        return Ok(None);
    };
    let sketch = bind.memory::<Sketches>().open(&path, space)?;
    let is_small = space.store().ids_count() <= EXACT_OBJECTS_MAX;
    Ok((mode == "sketch" || mode == "auto" && !is_small).then_some(sketch))
}

fn form_of(arguments: &Arguments) -> Option<Form> {
    match arguments.get("form") {
        Some(Value::Text(name)) => Form::named(name),
        _ => None,
    }
}

/// Whether the covariances of the kernel that a box names are positive semidefinite, as far as it is known with no file
/// opened.
pub(crate) fn check(
    arguments: &Arguments,
    resources: &dyn Fn(&str) -> Option<Arguments>,
) -> Result<(), String> {
    let named = |arguments: &Arguments, name: &str| match arguments.get(name) {
        Some(Value::Text(text)) => resources(text),
        _ => None,
    };
    let Some(kernel) = named(arguments, "kernel") else { return Ok(()) };
    let (Some(form), Some(space)) = (form_of(&kernel), named(&kernel, "space")) else { return Ok(()) };
    // An unsound space has its own fault.
    match options(&space, None).properties() {
        Ok(Some(properties)) => form.allow(&properties).map_err(|error| error.to_string()),
        _ => Ok(()),
    }
}

/// The length by default: a multiple of the median distance of random pairs of objects, the same for equal stores.
fn usual_length(space: &dyn Space, form: Form, interrupt: Interrupt<'_>) -> Result<f64, BoxError> {
    let store = space.store();
    let objects = store.objects_count();
    if objects < 2 {
        return Ok(1.0);
    }
    let mut random = Random::mixed(PAIRS_SEED);
    let mut pair = || {
        let first = random.below(objects);
        let other = random.below(objects - 1);
        [store.nth(first), store.nth(other + u64::from(other >= first))]
    };
    let pairs: Vec<[u64; 2]> = (0..PAIRS).map(|_| pair()).collect();
    let mut distances = vec![0.0; pairs.len()];
    let mut ids = pairs.concat();
    ids.sort_unstable();
    ids.dedup();
    store.bring_in(&ids)?;
    // A distance of small objects asks nobody, so the pairs come in pieces.
    for (pairs, distances) in pairs.chunks(PAIRS_PER_PIECE).zip(distances.chunks_mut(PAIRS_PER_PIECE)) {
        if interrupt() {
            return Err(Interrupted.into());
        }
        space.between_until(pairs, distances, interrupt)?;
    }
    distances.sort_unstable_by(f64::total_cmp);
    let median = distances[distances.len() / 2];
    // In a store of duplicates any length does.
    let least = distances.into_iter().find(|distance| *distance > 0.0).unwrap_or(1.0);
    Ok(form.medians() * if median > 0.0 { median } else { least })
}

impl GpKernel {
    pub(crate) fn new(space: Arc<dyn Space>, covariance: Covariance, cache: Arc<Cache>) -> Self {
        let (sketch, kept) = (None, Arc::default());
        Self { space, covariance, cache, sketch, kept, classes: Mutex::default() }
    }

    /// Whether the store is so small that columns of exact distances are kept.
    pub(crate) fn is_small(&self) -> bool {
        self.space.store().ids_count() <= EXACT_OBJECTS_MAX
    }

    /// The members of a class, ascending: objects whose last folder has this name, or whose names begin with it if it ends
    /// in `/`. Reads names, so it blocks.
    pub(crate) fn members(&self, class: &str) -> Result<Arc<[u64]>, BoxError> {
        if let Some(members) = self.classes().get(class) {
            return Ok(Arc::clone(members));
        }
        let members: Arc<[u64]> = Subset::of_class(&**self.space.store(), class)?.ids().collect();
        let mut classes = self.classes();
        if classes.len() >= CLASSES_KEPT {
            classes.clear();
        }
        classes.insert(class.to_owned(), Arc::clone(&members));
        Ok(members)
    }

    fn classes(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<[u64]>>> {
        self.classes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where feedback takes the bounds of objects from, `exact` distances or a `sketch`; nothing if the resource is no kernel.
pub fn feedback_mode(resource: &Resource) -> Option<&'static str> {
    let kernel = resource.downcast_ref::<GpKernel>()?;
    Some(if kernel.sketch.is_some() { "sketch" } else { "exact" })
}

/// The kernel that a box names.
pub(crate) fn kernel(bind: &Bind<'_>) -> Result<Arc<GpKernel>, BoxError> {
    bind.resource("kernel")
}

/// The parameter of boxes that use a kernel.
pub(crate) const KERNEL: Parameter = Parameter::new(
    "kernel",
    ParameterType::Resource("gp_kernel"),
    Default::Required,
    "the covariance of the objects",
);

#[cfg(test)]
mod tests {
    use super::*;
    use boxwork_stores::signature_store::StoreInfo;
    use boxwork_stores::testing;

    #[test]
    fn the_length_is_that_of_the_median_and_duplicates_have_one_too() {
        let folder = tempfile::tempdir().unwrap();
        let space = testing::any_space(&testing::space(testing::store(folder.path(), 60)));
        let length = usual_length(&*space, Form::Gaussian, &|| false).unwrap();
        let ids: Vec<u64> = (0..60).collect();
        let mut all: Vec<f64> = Vec::new();
        for a in &ids {
            let pairs: Vec<[u64; 2]> = ids.iter().filter(|b| *b > a).map(|b| [*a, *b]).collect();
            let mut distances = vec![0.0; pairs.len()];
            space.between(&pairs, &mut distances).unwrap();
            all.extend(distances);
        }
        all.sort_unstable_by(f64::total_cmp);
        let half = all[all.len() / 2] / 2.0;
        assert!((length / half - 1.0).abs() < 0.05, "{length} {half}");
        assert_eq!(usual_length(&*space, Form::Exponential, &|| false).unwrap(), 4.0 * length);
        assert!(usual_length(&*space, Form::Gaussian, &|| true).is_err());
        let other = tempfile::tempdir().unwrap();
        let equal = [("a/1", 1), ("a/2", 1), ("a/3", 1)];
        let space = testing::space(testing::store_of(other.path(), &equal, &StoreInfo::default()));
        assert_eq!(usual_length(&*testing::any_space(&space), Form::Gaussian, &|| false).unwrap(), 0.5);
    }

    #[test]
    fn members_are_those_of_a_folder_or_a_prefix() {
        let folder = tempfile::tempdir().unwrap();
        let names = [("x/cats/1", 1), ("x/dogs/2", 2), ("y/cats/3", 3), ("cats", 4)];
        let space = testing::space(testing::store_of(folder.path(), &names, &StoreInfo::default()));
        let space = testing::any_space(&space);
        let kernel = GpKernel::new(space, Covariance::new(Form::Gaussian, 1.0), Arc::default());
        for (class, members) in
            [("cats", &[0, 2][..]), ("x/", &[0, 1]), ("x/dogs/", &[1]), ("x", &[]), ("owls", &[])]
        {
            assert_eq!(*kernel.members(class).unwrap(), *members);
            assert_eq!(*kernel.members(class).unwrap(), *members);
        }
    }
}
