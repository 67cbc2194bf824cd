//! Columns are within their declared error on devices that work and on devices that fail.

use boxwork_kernels::gaussian_process::{Covariance, Form, MARK_NOISE, Model};
use boxwork_kernels::interrupt::never;
use boxwork_runtime::feeding::Options;
use boxwork_runtime::feeding::faults::{Faulty, Plan, has_device};
use boxwork_runtime::harness::Harness;
use boxwork_runtime::operator::{Flow, Operator};
use boxwork_stores::testing;

use super::*;
use crate::devices::stage::DeviceStage;
use crate::feedback::gp_scan::GP_SCAN;
use crate::feedback::marks::{self, foreign_id};

/// Makes columns, and shows them to the test.
struct Columns {
    stage: Option<DeviceStage<DeviceColumns>>,
    made: Arc<Mutex<Vec<Arc<Column>>>>,
}

impl Operator for Columns {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let flow = self.stage.as_mut().expect("the box is not done").process(cx)?;
        if flow == Flow::Done {
            let task = self.stage.take().expect("the box is not done").into_task();
            *self.made.lock().unwrap() = task.into_columns(cx)?;
        }
        Ok(flow)
    }
}

/// A model with marks of these objects, whose ids are their seeds; one is not in the store.
fn model(ids: &[u64], foreign: Option<u64>) -> Fitted {
    let mark = |id: u64, seed: u64| Mark {
        id,
        name: seed.to_string(),
        object: Arc::clone(testing::queries(&[("a", seed)]).column("object").unwrap()),
        relevance: 1.0,
        noise: MARK_NOISE,
    };
    let marks = ids.iter().map(|id| mark(*id, *id));
    let marks: Vec<Mark> = marks.chain(foreign.map(|seed| mark(foreign_id(0), seed))).collect();
    let rows: Vec<Vec<f64>> = (0..marks.len()).map(|nth| vec![0.0; nth]).collect();
    let numbers = |number: f64| vec![number; marks.len()];
    let fitted = Model::fit(&rows, &numbers(1.0), &numbers(MARK_NOISE));
    let envelope = marks::envelope(&marks).unwrap().unwrap();
    Fitted::of_envelopes(&[Fitted::envelope(&[envelope], &fitted).unwrap().unwrap()]).unwrap()
}

fn columns(
    kernel: &Arc<GpKernel>,
    space: &Arc<SqfdSpace>,
    model: &Fitted,
    devices: &Arc<Devices>,
) -> Vec<Arc<Column>> {
    let allowed: Arc<[usize]> = (0..devices.list().len()).collect();
    let task = DeviceColumns::new((kernel, Arc::clone(space)), model, (devices, &allowed), &never).unwrap();
    let stage = DeviceStage::new(task, SIZES, Some((Arc::clone(devices), allowed)));
    let made = Arc::default();
    let operator = Columns { stage: Some(stage), made: Arc::clone(&made) };
    let mut harness = Harness::of(&GP_SCAN, Box::new(operator));
    while !harness.is_done() {
        harness.run().unwrap();
    }
    std::mem::take(&mut made.lock().unwrap())
}

fn check(kernel: &GpKernel, model: &Fitted, columns: &[Arc<Column>]) {
    assert_eq!(columns.len(), model.marks.len());
    let ids: Vec<u64> = kernel.space.store().among(0..kernel.space.store().ids_count()).collect();
    for (mark, column) in model.marks.iter().zip(columns) {
        let prepared = Arc::clone(&kernel.space).prepare_until(&mark.object, 0, &never).unwrap();
        let mut exact = vec![0.0; ids.len()];
        prepared.exact_until(&ids, &mut exact, &never).unwrap();
        let Column::Fast { distances, change, change_squared } = &**column else {
            panic!("devices compute fast distances")
        };
        assert!(*change < 0.01, "the error is small: {change}");
        for (id, exact) in ids.iter().zip(exact) {
            let found = f64::from(distances[*id as usize]);
            assert!((found - exact).abs() <= *change, "{id}: {found} {exact}, {change:e}");
            assert!((found * found - exact * exact).abs() <= *change_squared, "{id}: {found} {exact}");
        }
    }
}

/// A kernel over so many signatures without a tenth of them.
fn kernel(space: &Arc<SqfdSpace>) -> Arc<GpKernel> {
    let covariance = Covariance::new(Form::InverseMultiquadric, 0.4);
    Arc::new(GpKernel::new(testing::any_space(space), covariance, Arc::default()))
}

fn devices(plan: Plan) -> (Arc<Faulty>, Arc<Devices>) {
    let cache = Some(std::env::temp_dir().join("boxwork-test-programs"));
    let (driver, devices) = Faulty::devices(plan, Options { cache, ..Options::default() });
    (driver, devices.unwrap())
}

#[test]
fn columns_of_devices_are_within_their_error_and_are_kept() {
    if !has_device("columns_of_devices_are_within_their_error_and_are_kept") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = testing::store(folder.path(), 9000);
    let space = testing::space(testing::without(&store, (0..9000).step_by(10)));
    for appears_as in [1, 2] {
        let (driver, devices) = devices(Plan { appears_as, ..Plan::default() });
        let kernel = kernel(&space);
        let first = model(&[7, 8999], None);
        let made = columns(&kernel, &space, &first, &devices);
        check(&kernel, &first, &made);
        let second = model(&[8999, 3, 7], Some(9001));
        let again = columns(&kernel, &space, &second, &devices);
        check(&kernel, &second, &again);
        assert!(Arc::ptr_eq(&again[0], &made[1]) && Arc::ptr_eq(&again[2], &made[0]), "they are kept");
        let blocks: u64 = devices.statistics().iter().map(|of_device| of_device.blocks).sum();
        assert!(blocks > 0, "a device computed");
        let third = columns(&kernel, &space, &second, &devices);
        assert!(third.iter().zip(&again).all(|(third, again)| Arc::ptr_eq(third, again)));
        assert_eq!(devices.statistics().iter().map(|of_device| of_device.blocks).sum::<u64>(), blocks);
        assert_eq!(devices.take_warnings(), [""; 0]);
        drop(devices);
        assert_eq!(driver.left(), []);
    }
}

#[test]
fn columns_that_devices_fail_at_are_computed_here() {
    if !has_device("columns_that_devices_fail_at_are_computed_here") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let space = testing::space(testing::store(folder.path(), 300));
    let model = model(&[7, 5], Some(400));
    for call in (6..60).step_by(3) {
        for (for_good, appears_as) in [(false, 1), (true, 1), (true, 2)] {
            let (_, devices) = devices(Plan { call, for_good, appears_as, ..Plan::default() });
            let kernel = kernel(&space);
            check(&kernel, &model, &columns(&kernel, &space, &model, &devices));
            assert!(devices.take_warnings().len() <= 2 * appears_as, "told more than once");
        }
    }
}
