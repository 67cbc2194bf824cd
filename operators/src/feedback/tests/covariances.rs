//! Covariances of stores that are hard on them.

use boxwork_kernels::gaussian_process::{Covariance, Form, Model};
use boxwork_stores::signature_store::StoreInfo;
use boxwork_stores::testing;

#[test]
fn covariances_of_adversarial_stores_are_positive_semidefinite() {
    let folder = tempfile::tempdir().unwrap();
    // Seeds repeat, so that objects are equal; many signatures have one centroid.
    let names: Vec<String> = (0..160).map(|idx| format!("a/{idx}")).collect();
    let objects: Vec<(&str, u64)> =
        names.iter().enumerate().map(|(idx, name)| (name.as_str(), (idx * idx % 61) as u64)).collect();
    let store = testing::store_of(folder.path(), &objects, &StoreInfo::default());
    let space = testing::any_space(&testing::space(store));
    for form in Form::ALL {
        for length in [1e-3, 0.4, 50.0] {
            let covariance = Covariance::new(form, length);
            let row = |a: u64| -> Vec<f64> {
                let pairs: Vec<[u64; 2]> = (0..a).map(|b| [a, b]).collect();
                let mut distances = vec![0.0; pairs.len()];
                space.between(&pairs, &mut distances).unwrap();
                distances.into_iter().map(|distance| covariance.of(distance)).collect()
            };
            // A factor exists only if no eigenvalue is below minus the noise.
            let rows: Vec<Vec<f64>> = (0..160).map(row).collect();
            let model = Model::fit(&rows, &[0.5; 160], &[1e-6; 160]);
            assert!(model.weights().iter().all(|weight| weight.is_finite()));
        }
    }
}
