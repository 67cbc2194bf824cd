//! Bytes as an image file: a reason, or a signature that is sound.
#![no_main]

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, StringArray};
use boxwork_operators::decode::DECODE;
use boxwork_operators::extract::EXTRACT;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::harness::Harness;
use boxwork_runtime::operator::{In, Out};
use boxwork_runtime::parameter::Value;
use boxwork_stores::signature::{SignatureColumns, check};
use libfuzzer_sys::fuzz_target;

/// As in `decode`.
const SIDE_PIXELS_MAX: u32 = 32_768;
const SIZE: u32 = 16;

fuzz_target!(
    // A decoder's panic is caught in `decode`, and the image reported: the fuzzer's own hook would end the process
    // before. A panic that is not caught ends it all the same.
    init: std::panic::set_hook(Box::new(|_| {})),
    |bytes: &[u8]| {
        let columns: [(&str, ArrayRef); 3] = [
            ("path", Arc::new(StringArray::from(vec!["/a"]))),
            ("name", Arc::new(StringArray::from(vec!["a"]))),
            ("bytes", Arc::new(BinaryArray::from_vec(vec![bytes]))),
        ];
        let files = Envelope::from_columns(columns).expect("columns of one length");
        let exact = bytes.len().is_multiple_of(2);
        let parameters = [("size", Value::Integer(i64::from(SIZE))), ("exact", Value::Boolean(exact))];
        let mut decode = Harness::new(&DECODE, parameters).expect("a box");
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
        for side in ["width", "height"] {
            assert!((1..=SIDE_PIXELS_MAX).contains(&picture.u32s(side).expect("a column")[0]));
        }
        assert_eq!(picture.binaries("rgb").expect("a column").value(0).len(), (3 * SIZE * SIZE) as usize);

        let parameters = [("points", Value::Integer(100)), ("seeds", Value::Integer(20))];
        let mut extract = Harness::new(&EXTRACT, parameters).expect("a box");
        extract.give(In::nth(0), picture.clone());
        extract.end(In::nth(0));
        extract.run().expect("no picture ends the request");
        assert!(extract.problems().is_empty());
        let signatures = extract.taken(Out::nth(0));
        let lists = signatures[0].lists("signature").expect("a column");
        check(SignatureColumns::new(lists).expect("signatures").signature(0)).expect("a sound signature");
    }
);
