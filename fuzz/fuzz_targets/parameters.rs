//! A text as a store's note of the extraction's parameters: refused, or read back the same, and fit to extract with.
#![no_main]

use boxwork_kernels::extract::{Extractor, ImageRef};
use boxwork_kernels::sqfd::Columns;
use boxwork_operators::extract::{parameters_from_json, parameters_json};
use boxwork_stores::signature::check;
use libfuzzer_sys::fuzz_target;

const SIDE: usize = 24;

fuzz_target!(|text: &str| {
    let parameters = match parameters_from_json(text) {
        Ok(parameters) => parameters,
        Err(message) => {
            assert!(!message.is_empty());
            return;
        }
    };
    assert_eq!(parameters_from_json(&parameters_json(&parameters)), Ok(parameters.clone()));

    // Time grows with these parameters: allowed values may take longer than this fuzzer waits.
    if parameters.points_count > 300 || parameters.iterations_count > 20 {
        return;
    }
    let rgb: Vec<u8> =
        (0..3 * SIDE * SIDE).map(|at| ((at as u32).wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let image = ImageRef::new(SIDE, SIDE, &rgb).expect("an image");
    let signature = Extractor::new(parameters).expect("parameters that were accepted").extract(image);
    let columns: Vec<&[f32]> = signature.centroids.iter().map(Vec::as_slice).collect();
    let weights = &signature.weights;
    check(Columns::new(&columns, weights).signature(0, weights.len())).expect("a sound signature");
});
