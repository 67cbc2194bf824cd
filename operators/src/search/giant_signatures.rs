//! A sum over giant signatures takes minutes in one firing: a cancelled request ends each box that computes one.

use std::path::Path;
use std::sync::Arc;

use boxwork_kernels::sqfd::Columns;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::harness::Harness;
use boxwork_runtime::operator::{Mode, OperatorSpec, Resource};
use boxwork_runtime::parameter::Value;
use boxwork_stores::signature_store::{SignatureStore, StoreInfo, StoreWriter};
use boxwork_stores::space::{Scratch, Space};
use boxwork_stores::sqfd_space::SqfdSpace;
use boxwork_stores::testing;

/// A sum over two signatures of this size checks several times whether to stop.
const CENTROIDS: usize = 2500;

fn giant_store(path: &Path) -> Arc<SignatureStore> {
    let mut writer = StoreWriter::create(path, &testing::COORDINATES, &StoreInfo::default()).unwrap();
    for object in 0..3 {
        let x: Vec<f32> = (0..CENTROIDS).map(|idx| (idx * (object + 2) % 97) as f32 / 20.0).collect();
        let weights = vec![1.0 / CENTROIDS as f32; CENTROIDS];
        let columns: [&[f32]; 2] = [&x, &x];
        let columns = Columns::new(&columns, &weights);
        writer.push(&object.to_string(), columns.signature(0, CENTROIDS), 0, 0).unwrap();
    }
    writer.finish().unwrap();
    Arc::new(SignatureStore::open(path).unwrap())
}

fn space(folder: &Path) -> Arc<SqfdSpace> {
    testing::space(giant_store(&folder.join("giant")))
}

/// Fires a box of a cancelled request once.
fn fire(space: &Arc<SqfdSpace>, spec: &'static OperatorSpec, rows: Envelope) -> String {
    // In memory, so that the box needs not detach, which a cancelled request refuses.
    Space::store(&**space).bring_in(&[0, 1, 2]).unwrap();
    let resource: Resource = testing::shared_space(space);
    let mut given = vec![("space", Value::Text("s".into()))];
    given.extend((spec.name == "top_k").then_some(("k", Value::Integer(2))));
    given.extend((spec.name == "filter_range").then_some(("range", Value::Number(9.0))));
    let mut harness = Harness::with_resources(spec, given, [("s", resource)]).unwrap();
    // A small query, which is prepared at once.
    let input = |mode| *spec.inputs.iter().find(|port| port.mode == mode).unwrap();
    harness.give(input(Mode::Side), testing::queries(&[("a", 7)]));
    harness.give(input(Mode::Stream), rows);
    harness.end(input(Mode::Stream));
    harness.cancel();
    harness.run().err().map_or_else(|| "the firing passed".to_owned(), |error| error.to_string())
}

#[test]
fn a_box_that_computes_distances_of_giant_signatures_ends_with_its_request() {
    let folder = tempfile::tempdir().unwrap();
    let candidates = || testing::candidates(&[(0, 0), (0, 1), (0, 2)]);
    let distances = || testing::distances(&[(0, 0, 0.0), (0, 1, 0.0), (0, 2, 0.0)]);
    for (spec, rows) in [
        (&super::distance::DISTANCE, candidates()),
        (&super::exact_distance::EXACT_DISTANCE, candidates()),
        (&super::top_k::TOP_K, distances()),
    ] {
        let error = fire(&space(folder.path()), spec, rows);
        assert!(error.contains("interrupted"), "{}: {error}", spec.name);
    }
}

#[test]
fn every_computation_over_giant_signatures_stops_when_its_caller_says_so() {
    let folder = tempfile::tempdir().unwrap();
    // A new space each time, since a space keeps the objects' similarities to themselves.
    let fresh = || space(folder.path());
    let objects = Space::store(&*fresh()).objects(&[0]).unwrap();
    let stop = || true;
    let query = || fresh().prepare(&objects, 0).unwrap();
    let mut out = [0.0; 2];
    let refused = [
        fresh().prepare_until(&objects, 0, &stop).map(drop),
        query().fast_until(&mut Scratch::default(), &[1, 2], &mut out, &stop),
        query().exact_until(&[1, 2], &mut out, &stop),
        query().lend(&stop, &mut |distance| assert!(distance(1).is_nan())),
        Space::between_until(&*fresh(), &[[0, 1], [1, 2]], &mut out, &stop),
        Space::lend(&*fresh(), &stop, &mut |distance| assert!(distance(0, 1).is_nan())),
        Space::extent_until(&*fresh(), 1, &stop).map(drop),
    ];
    for (idx, found) in refused.into_iter().enumerate() {
        let error = found.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("interrupted"), "computation {idx}: {error}");
    }
    // A caller that never stops a computation gets the full distances.
    let (prepared, mut again) = (query(), [0.0; 2]);
    prepared.exact_until(&[1, 2], &mut out, &|| false).unwrap();
    prepared.exact(&[1, 2], &mut again).unwrap();
    assert_eq!(out, again);
}
