//! Files of every format read back as they were written; damaged ones are refused with file and place, and never panic.

use std::fs;

use boxwork_kernels::chance::Random;
use boxwork_kernels::vector::VectorRef;
use half::f16;

use super::*;

/// Files of 5 vectors of 3 dimensions in every format.
fn files() -> Vec<(&'static str, Vec<u8>, Vec<f32>)> {
    let numbers: Vec<u8> = (0..15).map(|i| (i * 37 % 101) as u8).collect();
    let wide: Vec<f32> = numbers.iter().map(|number| f32::from(*number)).collect();
    let bytes =
        |of: &dyn Fn(u8) -> Vec<u8>| numbers.iter().flat_map(|number| of(*number)).collect::<Vec<u8>>();
    let f32s = bytes(&|number| f32::from(number).to_le_bytes().to_vec());
    let f16s = bytes(&|number| f16::from_f32(number.into()).to_le_bytes().to_vec());
    let i32s = bytes(&|number| i32::from(number).to_le_bytes().to_vec());
    let f64s = bytes(&|number| f64::from(number).to_le_bytes().to_vec());
    let i64s = bytes(&|number| i64::from(number).to_le_bytes().to_vec());
    let vecs = |content: &[u8]| {
        let rows = content.chunks(content.len() / 5);
        rows.flat_map(|row| [&3_i32.to_le_bytes()[..], row].concat()).collect::<Vec<u8>>()
    };
    let bin = |content: &[u8]| [&5_u32.to_le_bytes()[..], &3_u32.to_le_bytes(), content].concat();
    let npy = |descr: &str, content: &[u8]| {
        let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (5, 3), }}\n");
        let length = (text.len() as u16).to_le_bytes();
        [&b"\x93NUMPY\x01\x00"[..], &length, text.as_bytes(), content].concat()
    };
    // Later versions have a length of four bytes, and the last one a head in UTF-8.
    let later = |version: u8, content: &[u8]| {
        let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (5, 3), }\n";
        let length = (text.len() as u32).to_le_bytes();
        [&b"\x93NUMPY"[..], &[version, 0], &length, text.as_bytes(), content].concat()
    };
    let all = [
        ("a.fvecs", vecs(&f32s)),
        ("a.bvecs", vecs(&numbers)),
        ("a.ivecs", vecs(&i32s)),
        ("a.fbin", bin(&f32s)),
        ("a.f16bin", bin(&f16s)),
        ("a.u8bin", bin(&numbers)),
        ("a.i8bin", bin(&numbers)),
        ("a.ibin", bin(&i32s)),
        ("f4.npy", npy("<f4", &f32s)),
        ("f2.npy", npy("<f2", &f16s)),
        ("f8.npy", npy("<f8", &f64s)),
        ("i8_of_numpy.npy", npy("<i8", &i64s)),
        ("named_5x3.i32", i32s.clone()),
        ("u1.npy", npy("|u1", &numbers)),
        ("i1.npy", npy("|i1", &numbers)),
        ("second.npy", later(2, &f32s)),
        ("third.npy", later(3, &f32s)),
        ("a.u8", numbers.clone()),
        ("named_5x3.u8", numbers.clone()),
        ("5x3.f32", f32s.clone()),
    ];
    all.into_iter().map(|(name, content)| (name, content, wide.clone())).collect()
}

fn bare(name: &str) -> Option<Bare> {
    (name == "a.u8").then_some(Bare { numbers: NumberType::U8, dimensions: 3 })
}

#[test]
fn every_format_reads_back_as_it_was_written_in_blocks_of_any_size() {
    let folder = tempfile::tempdir().unwrap();
    for (name, content, wide) in files() {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        let mut file = VectorFile::open(&path, bare(name)).unwrap();
        assert_eq!((file.len(), file.dimensions()), (5, 3), "{name}");
        for (first, count) in [(0, 5), (1, 3), (4, 1)] {
            let rows = file.read(first, count).unwrap();
            assert_eq!(rows.all().widened(), wide[first as usize * 3..][..count * 3], "{name}");
            assert_eq!((rows.len(), rows.row(0).number_type()), (count, file.number_type()));
        }
    }
}

#[test]
fn damage_is_refused_with_the_file_and_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        let error = VectorFile::open(&path, bare(name)).and_then(|mut file| {
            let count = file.len() as usize;
            file.read(0, count)
        });
        let error = error.expect_err(name).to_string();
        assert!(error.contains(name), "{error}");
        error
    };
    let of = |name: &str| files().into_iter().find(|file| file.0 == name).unwrap().1;
    let fvecs = of("a.fvecs");
    assert!(
        refused("a.fvecs", &fvecs[..70]).contains("byte 64: the file ends 6 bytes into a row of 16 bytes")
    );
    let mut other = fvecs.clone();
    other[32] = 2;
    assert!(refused("a.fvecs", &other).contains("row 2 (byte 32): it has 2 dimensions"));
    let mut nan = fvecs.clone();
    nan[52..56].copy_from_slice(&f32::NAN.to_le_bytes());
    assert!(refused("a.fvecs", &nan).contains("row 3 (byte 48): number 0 is NaN"));
    assert!(refused("a.fvecs", &[0; 16]).contains("vectors of 0 dimensions"));
    assert!(refused("a.fvecs", &[0xff; 16]).contains("vectors of -1 dimensions"));
    assert!(refused("a.fvecs", &[3, 0]).contains("byte 2: the file ends within its head"));
    let mut fbin = of("a.fbin");
    fbin[0] = 6;
    assert!(refused("a.fbin", &fbin).contains("5 whole vectors are there"));
    fbin[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(refused("a.fbin", &fbin).contains("4294967295 vectors"));
    fbin[..4].copy_from_slice(&[0; 4]);
    assert!(refused("a.fbin", &fbin).contains("holds no vectors"));
    fbin[4..8].copy_from_slice(&[0xff; 4]);
    assert!(refused("a.fbin", &fbin).contains("4294967295 dimensions"));
    let mut ibin = of("a.ibin");
    ibin[8..12].copy_from_slice(&((1 << 24) + 1_i32).to_le_bytes());
    assert!(refused("a.ibin", &ibin).contains("number 0 is 16777217"));
    let mut halves = of("a.f16bin");
    halves[8..10].copy_from_slice(&f16::INFINITY.to_le_bytes());
    assert!(refused("a.f16bin", &halves).contains("row 0 (byte 8): number 0 is inf"));
    assert!(refused("f4.npy", &of("f4.npy")[..40]).contains("longer than the file"));
    assert!(refused("a.u8", &[1; 16]).contains("end at byte 15, and the file at byte 16"));
    let path = folder.path().join("a.u8");
    assert!(VectorFile::open(&path, None).unwrap_err().to_string().contains("--type u8 --dimensions 128"));
    assert!(refused("a_6x3.u8", &[1; 15]).contains("6 vectors of 3 numbers of 1 bytes end at byte 18"));
    assert!(refused("a_5x0.u8", &[1; 15]).contains("vectors of 0 dimensions"));
    assert!(refused("x3.u8", &[1; 15]).contains("base_1000x128.u8"));
    let path = folder.path().join("a.fbin");
    let given = Bare { numbers: NumberType::F32, dimensions: 3 };
    assert!(VectorFile::open(&path, Some(given)).unwrap_err().to_string().contains("leave them out"));
}

#[test]
fn a_damaged_file_is_refused_or_holds_finite_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::mixed(94);
    for (name, content, _) in files() {
        let path = folder.path().join(name);
        for _ in 0..300 {
            let mut content = content.clone();
            for _ in 0..=random.idx(3) {
                let place = random.idx(content.len().min(64));
                match random.below(4) {
                    0 => content[place] = random.bits() as u8,
                    1 => content[place] ^= 1 << random.below(8),
                    2 => content.truncate(random.idx(content.len()) + 1),
                    _ => content.insert(place, random.bits() as u8),
                }
            }
            fs::write(&path, &content).unwrap();
            let read = VectorFile::open(&path, bare(name)).and_then(|mut file| {
                let count = file.len() as usize;
                assert!(count * file.dimensions() <= content.len());
                file.read(0, count)
            });
            match read {
                Ok(rows) => assert!((0..rows.len()).all(|row| {
                    let row: VectorRef<'_> = rows.row(row);
                    row.not_finite().is_none()
                })),
                Err(error) => assert!(error.to_string().contains(name), "{error}"),
            }
        }
    }
}

#[test]
fn ids_of_neighbours_are_whole_numbers_from_0() {
    let folder = tempfile::tempdir().unwrap();
    let ids = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        VectorFile::open(&path, None).unwrap().ids(1).map_err(|error| error.to_string())
    };
    let large: i32 = (1 << 24) + 1;
    let i32s = |last: i32| {
        [1, 2, 3, large, last, 5].iter().flat_map(|id: &i32| id.to_le_bytes()).collect::<Vec<_>>()
    };
    // An id that no f32 holds stays as it is; -1 ends a row.
    assert_eq!(ids("a_2x3.i32", &i32s(4)), Ok(vec![large as u64, 4, 5]));
    assert_eq!(ids("a_2x3.i32", &i32s(-1)), Ok(vec![large as u64]));
    let refused = ids("a_2x3.i32", &i32s(-2)).unwrap_err();
    assert!(refused.contains("a_2x3.i32`, row 1 (byte 12): number 1 is -2, which is no id"), "{refused}");
    let i64s: Vec<u8> = [0, 1, 1_i64 << 40, 2].iter().flat_map(|id| id.to_le_bytes()).collect();
    let head = "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 2), }\n";
    let npy =
        [&b"\x93NUMPY\x01\x00"[..], &(head.len() as u16).to_le_bytes(), head.as_bytes(), &i64s].concat();
    assert_eq!(ids("a.npy", &npy), Ok(vec![1 << 40, 2]));
    let floats = ids("a_2x3.f32", &[0; 24]).unwrap_err();
    assert!(floats.contains("its numbers are f32, and ids are whole numbers"), "{floats}");
}
