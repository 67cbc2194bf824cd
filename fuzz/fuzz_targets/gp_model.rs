//! A text as a covariance: refused with its place, or written and read again as equal. A sound model of a Gaussian process, damaged:
//! refused, or read as it was; with the checksums put right, refused or read without a panic.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use arbitrary::Arbitrary;
use boxwork_fuzz::damage::Damage;
use boxwork_fuzz::{folder, seal};
use boxwork_kernels::covariance::{Expression, Points};
use boxwork_kernels::gaussian_process::{Jitter, Precision, Regression, Settings, ThisThread};
use boxwork_stores::gp_model::SavedModel;
use libfuzzer_sys::fuzz_target;

struct Sound {
    path: PathBuf,
    file: Vec<u8>,
    model: SavedModel,
}

static SOUND: LazyLock<Sound> = LazyLock::new(|| {
    let path = folder().join("m.gp.arrow");
    let settings = Settings {
        expression: "rbf(l=[1, 2]) + white(0.1)".parse().expect("a covariance"),
        noise: 0.0,
        jitter: Jitter::None,
        normalize: false,
        precision: Precision::F64,
    };
    let points = Points::of_rows(2, &[0.0, 1.0, 2.0, 3.0, 4.0, 4.0]);
    let fitted = Regression::fit(points, vec![1.0, 2.0, 3.0], &settings, &mut ThisThread);
    let model = SavedModel {
        regression: fitted.expect("a fit"),
        names: ["a", "b", "c"].map(str::to_owned).to_vec(),
        inputs: ["left", "right"].map(str::to_owned).to_vec(),
        target: "height".to_owned(),
    };
    model.write(&path, true).expect("a folder that can be written to");
    Sound { file: fs::read(&path).expect("a file just written"), path, model }
});

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    covariance: &'a str,
    damages: Vec<Damage<'a>>,
}

fuzz_target!(
    // Panics in Arrow's reader are caught and answered, so they end nothing.
    init: std::panic::set_hook(Box::new(|_| {})),
    |input: Input<'_>| {
        match input.covariance.parse::<Expression>() {
            Ok(read) => assert!(read.to_string().parse::<Expression>().as_ref() == Ok(&read), "{read}"),
            Err(error) => assert!(error.at >= 1 && !error.reason.is_empty()),
        }
        let sound = &*SOUND;
        let mut file = sound.file.clone();
        input.damages.iter().for_each(|damage| damage.apply(&mut file));
        fs::write(&sound.path, &file).expect("a folder that can be written to");
        match SavedModel::open(&sound.path) {
            Err(error) => assert!(file != sound.file, "{error}"),
            // A fuzzer that sees comparisons writes right checksums too; damage does not.
            Ok(_) if seal::tail_digits(&file) != seal::tail_digits(&sound.file) => {}
            Ok(model) => assert!(model == sound.model, "damage went unnoticed"),
        }
        if seal::seal(&mut file).is_some() {
            fs::write(&sound.path, &file).expect("a folder that can be written to");
            let _ = SavedModel::open(&sound.path);
        }
    }
);
