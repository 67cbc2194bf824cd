//! The owners of devices: two runtimes share devices only if both get one value, and dropping the owner leaves nothing
//! behind.

mod support;

use std::sync::Arc;

use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};
use boxwork_runtime::feeding::{Devices, LazyDevices, NoDevices, Options};
use boxwork_runtime::operator::*;
use boxwork_runtime::parameter::{Default, Parameter, ParameterType, Value};
use boxwork_runtime::request::{RequestError, Submission};
use boxwork_runtime::{Config, Runtime};
use support::*;

fn options() -> Options {
    let cache = Some(concat!(env!("CARGO_TARGET_TMPDIR"), "/programs").into());
    Options { cache, ..Options::default() }
}

/// Pushes the number of devices that it may compute on, after it has used each.
struct Counting {
    devices: Option<(Arc<Devices>, Arc<[usize]>)>,
}

impl Operator for Counting {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let count = match &self.devices {
            None => 0,
            Some((devices, allowed)) => {
                for device in allowed.iter() {
                    devices.self_check(*device).map_err(BoxError::new)?;
                }
                allowed.len()
            }
        };
        cx.push(OUT, envelope([count as u64]))?;
        Ok(Flow::Done)
    }
}

const OUT: Out = Out::new(0, "out", numbers, "how many devices there are");

static COUNTING: OperatorSpec = OperatorSpec {
    parameters: &[Parameter::new("device", ParameterType::Device, Default::Text("auto"), "where to compute")],
    outputs: &[OUT],
    ..OperatorSpec::new("counting", "counts devices", Kind::Stateful, |bind| {
        Ok(Box::new(Counting { devices: bind.pick_devices("device", None, 0)?.devices }))
    })
};

/// The devices that a box finds on a runtime for a `device:`.
fn found(runtime: &Runtime, choice: &str) -> Result<Vec<u64>, String> {
    let prepared = Graph::new()
        .add("d", "counting", &[("device", Value::Text(choice.to_owned()))])
        .add("c", "collect", &[])
        .chain("d -> c")
        .prepare_with(&catalog().with(&COUNTING));
    let submitted = runtime.submit(&prepared, &Submission::default()).map_err(|error| error.to_string())?;
    let result: Result<(), RequestError> = wait(&submitted).result;
    result.map_err(|error| error.to_string())?;
    Ok(sorted(&basket(&prepared)))
}

fn runtime(devices: LazyDevices) -> Runtime {
    Runtime::start(Config { devices: Arc::new(devices), ..Config::flat(2) }).unwrap()
}

#[test]
fn two_runtimes_have_devices_of_their_own_and_nothing_is_left_of_either() {
    if !has_device("two_runtimes_have_devices_of_their_own_and_nothing_is_left_of_either") {
        return;
    }
    let (one_driver, one) = Faulty::lazy_devices(Plan { appears_as: 1, ..Plan::default() }, options());
    let (two_driver, two) = Faulty::lazy_devices(Plan { appears_as: 2, ..Plan::default() }, options());
    let (one, two) = (runtime(one), runtime(two));
    assert_eq!((one_driver.calls(), two_driver.calls()), (0, 0), "no box has asked for a device yet");
    assert_eq!(found(&one, "cpu"), Ok(vec![0]));
    assert_eq!(one_driver.calls(), 0, "`cpu` wants none");
    for _ in 0..2 {
        assert_eq!(found(&one, "gpu"), Ok(vec![1]));
    }
    let of_one = one_driver.calls();
    assert_eq!((found(&two, "gpu"), found(&two, "gpu:1")), (Ok(vec![2]), Ok(vec![1])));
    assert_eq!(one_driver.calls(), of_one, "the other runtime's boxes have used them");
    let (of_one, of_two) = (one.devices().statistics(), two.devices().statistics());
    assert_eq!((of_one.len(), of_two.len()), (1, 2));
    assert_eq!(of_one[0].1.blocks, 2);
    drop(one);
    assert_eq!(one_driver.left(), []);
    assert_eq!(found(&two, "gpu"), Ok(vec![2]), "the other runtime continues");
    drop(two);
    assert_eq!(two_driver.left(), []);
}

#[test]
fn an_owner_that_found_no_device_looks_again() {
    if !has_device("an_owner_that_found_no_device_looks_again") {
        return;
    }
    // The first call of the driver fails, as if there were no driver.
    let plan = Plan { call: 1, appears_as: 1, ..Plan::default() };
    let (driver, devices) = Faulty::lazy_devices(plan, options());
    let runtime = runtime(devices);
    let refused = found(&runtime, "gpu").unwrap_err();
    assert!(refused.contains("the OpenCL driver does not work"), "{refused}");
    assert_eq!(found(&runtime, "gpu"), Ok(vec![1]), "it remembers that there was no device");
    drop(runtime);
    assert_eq!(driver.left(), []);
}

#[test]
fn warnings_belong_to_their_owners() {
    if !has_device("warnings_belong_to_their_owners") {
        return;
    }
    let refuses = Plan { appears_as: 1, compiles_not_on: Some(0), ..Plan::default() };
    let (_, bad) = Faulty::lazy_devices(refuses, Options { cache: None, ..options() });
    let (_, good) = Faulty::lazy_devices(Plan { appears_as: 1, ..Plan::default() }, options());
    let (bad, good) = (runtime(bad), runtime(good));
    assert!(found(&bad, "gpu").is_err());
    assert_eq!(found(&good, "gpu"), Ok(vec![1]));
    assert_eq!(good.devices().take_warnings(), [""; 0], "they are the other runtime's");
    assert_eq!(bad.devices().take_warnings().len(), 1);
    assert_eq!(bad.devices().take_warnings(), [""; 0], "each is given once");
}

#[test]
fn without_devices_boxes_compute_on_slots_or_are_refused() {
    let runtime = runtime(LazyDevices::none());
    assert_eq!(runtime.devices().open().err(), Some(NoDevices::NotHere));
    assert_eq!(found(&runtime, "auto"), Ok(vec![0]));
    let refused = found(&runtime, "gpu").unwrap_err();
    assert!(refused.contains("the runtime was given no devices"), "{refused}");
    assert!(runtime.devices().opened().is_none() && runtime.devices().statistics().is_empty());
}
