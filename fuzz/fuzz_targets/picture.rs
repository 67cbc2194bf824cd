//! Bytes as an image file with all its pixels: a reason, or a picture whose noise can be removed.
#![no_main]

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, StringArray};
use boxwork_operators::decode_picture::DECODE_PICTURE;
use boxwork_operators::denoise::DENOISE;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::harness::Harness;
use boxwork_runtime::operator::{In, Out};
use boxwork_runtime::parameter::Value;
use libfuzzer_sys::fuzz_target;

/// The most pixels of a picture from which noise is removed here: more take too long.
const PIXELS_MAX: u32 = 32 * 32;

fuzz_target!(
    // A decoder's panic is caught in `decode_picture`, and the image reported: the fuzzer's own hook would end the process
    // before. A panic that is not caught ends it all the same.
    init: std::panic::set_hook(Box::new(|_| {})),
    |bytes: &[u8]| {
        let columns: [(&str, ArrayRef); 3] = [
            ("path", Arc::new(StringArray::from(vec!["/a"]))),
            ("name", Arc::new(StringArray::from(vec!["a"]))),
            ("bytes", Arc::new(BinaryArray::from_vec(vec![bytes]))),
        ];
        let files = Envelope::from_columns(columns).expect("columns of one length");
        let mut decode = Harness::new(&DECODE_PICTURE, []).expect("a box");
        decode.give(In::nth(0), files);
        decode.end(In::nth(0));
        decode.run().expect("no image ends the request");
        let pictures = decode.taken(Out::nth(0));
        let [picture] = pictures.as_slice() else {
            let [problem] = decode.problems() else { panic!("a picture, or the reason") };
            assert!(!problem.message.is_empty() && problem.subject == "/a");
            return;
        };
        assert!(decode.problems().is_empty());
        let side = |name| picture.u32s(name).expect("a column")[0];
        if side("width").saturating_mul(side("height")) > PIXELS_MAX {
            return;
        }
        let parameters = [("profile", Value::Text("fast".to_owned())), ("sigma", Value::Number(25.0))];
        let mut denoise = Harness::new(&DENOISE, parameters).expect("a box");
        denoise.give(In::nth(0), picture.clone());
        denoise.end(In::nth(0));
        denoise.run().expect("no picture ends the request");
        let found = denoise.taken(Out::nth(0)).len() + denoise.problems().len();
        assert_eq!(found, 1, "a picture, or the reason");
    }
);
