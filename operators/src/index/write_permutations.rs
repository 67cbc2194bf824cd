//! `write_permutations`: computes the permutations of a store and writes them, as `permutation_index` does.
//!
//! Invariants: lists are by exact distances, so they are the same for any number of workers, and on devices; the file appears under its
//! name when all of it is on disk.

mod block;
mod piece;
mod lists;

use boxwork_kernels::permutation::{LENGTH_MAX, PIVOTS_MAX};
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec};
use boxwork_runtime::parameter::{Default, DeviceChoice, Parameter, ParameterType};
use boxwork_stores::permutations::PermutationMaker;

use self::lists::{AllLists, Wanted, sizes};
use crate::devices::code_path;
use crate::devices::stage::DeviceStage;
use crate::resources::{self, SPACE, device_parameter};

/// From this many objects on `auto` takes GPUs.
const DEVICE_OBJECTS_MIN: u64 = 1 << 16;

/// Computes the nearest pivots of each object, and writes them to a file.
///
/// # Inputs
/// None.
///
/// # Outputs
/// None.
///
/// # Parameters
/// `space`: the store and the distance, any. `pivots`: random objects. `length`: how many of the nearest an object's list has.
/// `seed`: of the choice. `out`: the file. `device`: where the lists of vectors by the distance l2 are made; those of other objects are made
/// by slots.
pub(crate) static WRITE_PERMUTATIONS: OperatorSpec = OperatorSpec {
    parameters: &[
        SPACE,
        Parameter::new(
            "pivots",
            ParameterType::Integer { minimum: 1, maximum: PIVOTS_MAX as i64 },
            Default::Integer(128),
            "pivots, chosen by chance",
        )
        .unit("objects"),
        Parameter::new(
            "length",
            ParameterType::Integer { minimum: 1, maximum: LENGTH_MAX as i64 },
            Default::Integer(32),
            "the nearest pivots that the list of an object has; at most all",
        )
        .unit("objects"),
        Parameter::new("seed", ParameterType::integer_from(0), Default::Integer(1), "the seed of the choice"),
        Parameter::new(
            "out",
            ParameterType::Path,
            Default::Required,
            "the file to write, by custom `NAME.permutations.arrow`",
        ),
        device_parameter("auto"),
    ],
    code_path: Some(|arguments, devices| code_path::of_device(arguments, devices, DEVICE_OBJECTS_MIN)),
    example: "file: {kind: write_permutations, space: space, out: photos.permutations.arrow}",
    ..OperatorSpec::new(
        "write_permutations",
        "Writes the nearest pivots of each object to a file.",
        Kind::Stateful,
        make,
    )
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let space = resources::space(bind)?;
    let objects = space.store().objects_count();
    let picked = bind.pick_devices("device", Some(objects), DEVICE_OBJECTS_MIN)?;
    let is_for_devices = PermutationMaker::is_for_devices(&*space);
    let is_named = !matches!(bind.device("device"), DeviceChoice::Auto | DeviceChoice::Cpu);
    let note = (is_named && !is_for_devices).then(|| {
        format!(
            "permutations by {} are made by slots: devices make those of vectors by the distance l2",
            space.measure()
        )
    });
    let wanted = Wanted {
        space,
        pivots: bind.count("pivots"),
        length: bind.count("length"),
        seed: bind.count("seed") as u64,
        out: bind.path("out"),
    };
    let task = AllLists::new(wanted, bind.slots(), note);
    let stage = DeviceStage::new(task, sizes(), picked.devices.filter(|_| is_for_devices));
    Ok(Box::new(WritePermutations { stage }))
}

struct WritePermutations {
    stage: DeviceStage<AllLists>,
}

impl Operator for WritePermutations {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let flow = self.stage.process(cx)?;
        if flow == Flow::Done && !cx.is_cancelled() {
            self.stage.task_mut().end(cx)?;
        }
        Ok(flow)
    }
}

#[cfg(test)]
mod tests;
