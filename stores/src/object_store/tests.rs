//! Stores written, opened, searched and damaged.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow_array::Array;
use arrow_ipc::Block;
use arrow_ipc::reader::FileReader;
use proptest::prelude::*;

use super::layout::BatchEntry;
use super::manifest::Manifest;
use super::part::lay_out;
use super::*;
use crate::kinds::Signatures;
use crate::signature::SignatureBuilder;
use crate::signature::SignatureColumns;
use crate::signature_store::{SignatureStore, StoreChange, StoreWriter};

mod access;
mod interruption;

const COORDINATES: [&str; 2] = ["x", "y"];

/// A store of objects with 1 to 3 centroids; their numbers depend on the object's place.
fn write(path: &Path, objects: usize) -> u64 {
    let info = StoreInfo {
        parameters: Some("{\"seed\":1}".into()),
        alpha: Some(1.28),
        source: Some("/pictures".into()),
    };
    let mut writer = StoreWriter::create(path, &COORDINATES, &info).unwrap();
    for object in 0..objects {
        let n = object % 3 + 1;
        let x: Vec<f32> = (0..n).map(|i| object as f32 + i as f32 / 8.0).collect();
        let y: Vec<f32> = x.iter().map(|x| -x).collect();
        let mut builder = SignatureBuilder::new(&COORDINATES).unwrap();
        builder.push(&[&x, &y], &vec![1.0; n]).unwrap();
        let array = builder.finish();
        let columns = SignatureColumns::new(&array).unwrap();
        writer.push(&format!("object {object}"), columns.signature(0), object as u32, 7).unwrap();
    }
    writer.finish().unwrap()
}

fn check(store: &SignatureStore, objects: usize) {
    assert_eq!((store.len(), store.dimensions()), (objects as u64, 2));
    assert_eq!(store.coordinates(), COORDINATES);
    assert_eq!(store.parameters(), Some("{\"seed\":1}"));
    assert_eq!(store.alpha(), Some(1.28));
    assert_eq!(store.source(), Some(Path::new("/pictures")));
    for object in 0..objects {
        let id = object as u64;
        store
            .read(|objects| {
                let signature = objects.signature(id)?;
                assert_eq!(signature.len(), object % 3 + 1);
                assert_eq!(signature.coordinate(0)[0], object as f32);
                assert_eq!(signature.coordinate(1)[0], -(object as f32));
                assert_eq!(objects.size(id)?, (object as u32, 7));
                Ok::<_, StoreError>(())
            })
            .unwrap();
        assert_eq!(store.name(id).unwrap(), format!("object {object}"));
        assert_eq!(store.find(&format!("object {object}")).unwrap(), Some(id));
    }
    assert_eq!(store.find("nobody").unwrap(), None);
    assert!(matches!(use_signature(store, objects as u64), Err(StoreError::NoObject { .. })));
}

fn use_signature(store: &SignatureStore, id: u64) -> Result<(), StoreError> {
    store.read(|objects| objects.signature(id).map(drop))
}

/// Performs every kind of read on a file, until the first error.
fn read_all(path: &Path) -> Result<(), StoreError> {
    let store = SignatureStore::open(path)?;
    for id in 0..store.len() {
        store.name(id)?;
        use_signature(&store, id)?;
        store.read(|objects| objects.size(id))?;
    }
    store.find("object 1").map(drop)
}

#[test]
#[cfg_attr(miri, ignore = "memory of nodes is mapped")]
fn a_store_copied_to_nodes_is_the_same_and_as_closely_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.arrow");
    write(&path, 9000);
    for machine in ["numa:1 core:1", "numa:2 core:1", "numa:3 core:2", "numa:5 core:1"] {
        let machine = Topology::synthetic(machine).unwrap();
        let store = SignatureStore::open(&path).unwrap().copied_to(machine.clone());
        let nodes: Vec<_> = (0..store.batches()).map(|batch| store.node(batch).unwrap()).collect();
        assert!(nodes.is_sorted() && nodes.iter().all(|node| *node < machine.nodes().len()), "{nodes:?}");
        for batch in 0..store.batches() {
            let (mapped, first) = (SignatureStore::open(&path).unwrap(), store.ids(batch).start);
            let copy = |store: &SignatureStore| store.read(|objects| objects.copied(batch, 0..1)).unwrap();
            assert_eq!(copy(&store), copy(&mapped));
            assert_eq!(store.name(first).unwrap(), mapped.name(first).unwrap());
        }
    }
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let middle = fs::metadata(&path).unwrap().len() / 2;
    file.write_all_at(b"damaged", middle).unwrap();
    let machine = Topology::synthetic("numa:2 core:1").unwrap();
    let store = SignatureStore::open(&path).unwrap().copied_to(machine);
    assert!(matches!(store.verify(), Err(StoreError::Damaged { .. })), "a damaged batch was copied unseen");
}

#[test]
fn reads_back_what_was_written_over_several_batches() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.signatures.arrow");
    assert_eq!(write(&path, 10_000), 10_000);
    let store = SignatureStore::open(&path).unwrap();
    assert_eq!(store.batches(), 3);
    assert_eq!(store.ids(1), 4096..8192);
    assert_eq!(store.locate(8192).unwrap(), (2, 0));
    check(&store, 10_000);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn checks_names_without_centroids_and_batches_at_their_first_use() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    write(&path, 5000);
    let store = SignatureStore::open(&path).unwrap();
    assert_eq!(store.find("object 4999").unwrap(), Some(4999));
    assert!(!store.is_checked(0) && !store.is_checked(1));
    store.bring_in([4999]).unwrap();
    assert!(!store.is_in([0, 4999]) && store.is_in([4999]));
}

#[test]
fn centroids_and_names_stay_in_the_map() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    write(&path, 100);
    let store = SignatureStore::open(&path).unwrap();
    let map = store.files.parts[0].map.slice(0..store.files.parts[0].map.len()).unwrap();
    let map = map.as_ptr_range();
    store
        .read(|objects| {
            let signature = objects.signature(42)?;
            for column in [signature.coordinate(0), signature.coordinate(1), signature.weights()] {
                assert!(map.contains(&column.as_ptr().cast()));
            }
            assert!(map.contains(&objects.name(42)?.as_ptr()));
            let copy = objects.copied(0, 40..43)?;
            let names = copy.column(0).to_data();
            assert!(names.buffers().iter().all(|buffer| !map.contains(&buffer.as_ptr())));
            assert_eq!(copy.num_rows(), 3);
            let centroids = (0..100).map(|id| Ok(objects.signature(id)?.weights().len()));
            let mean = centroids.sum::<Result<usize, StoreError>>()? as f64 / 100.0;
            let by_bytes = store.centroids_mean() as f64;
            assert!((mean.floor()..mean + 8.0).contains(&by_bytes), "{by_bytes}, not {mean}");
            Ok::<_, StoreError>(())
        })
        .unwrap();
}

#[test]
fn is_an_arrow_file_for_other_readers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    write(&path, 5000);
    let reader = FileReader::try_new(File::open(&path).unwrap(), None).unwrap();
    assert_eq!(reader.schema().metadata().get("boxwork.version").map(String::as_str), Some("1"));
    assert_eq!(reader.map(|table| table.unwrap().num_rows()).collect::<Vec<_>>(), [4096, 904]);
}

#[test]
fn the_same_objects_make_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    write(&a, 50);
    write(&b, 50);
    assert_eq!(fs::read(&a).unwrap(), fs::read(&b).unwrap());
    let fingerprints = [&a, &b].map(|path| SignatureStore::open(path).unwrap().fingerprint().to_owned());
    assert_eq!(fingerprints[0], fingerprints[1]);
    write(&b, 51);
    assert_ne!(SignatureStore::open(&b).unwrap().fingerprint(), fingerprints[0]);
}

#[test]
fn every_flipped_byte_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    write(&path, 4);
    let sound = fs::read(&path).unwrap();
    read_all(&path).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    for (place, byte) in sound.iter().enumerate() {
        // The second mask turns a hexadecimal digit into its capital.
        for mask in [1u8 << (place % 8), 0x20] {
            file.write_all_at(&[byte ^ mask], place as u64).unwrap();
            assert!(read_all(&path).is_err(), "byte {place} ^ {mask:#x} went unnoticed");
        }
        file.write_all_at(&[*byte], place as u64).unwrap();
    }
    read_all(&path).unwrap();
}

#[test]
fn every_truncation_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    write(&path, 4);
    let file = File::options().write(true).open(&path).unwrap();
    for length in (0..file.metadata().unwrap().len()).rev() {
        file.set_len(length).unwrap();
        assert!(read_all(&path).is_err(), "{length} bytes went unnoticed");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn damage_in_many_places_is_found(places in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..9)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        write(&path, 9);
        let sound = fs::read(&path).unwrap();
        let mut bytes = sound.clone();
        for (place, mask) in places {
            bytes[place.index(sound.len())] ^= mask;
        }
        fs::write(&path, &bytes).unwrap();
        prop_assert!(bytes == sound || read_all(&path).is_err());
    }
}

#[test]
fn the_place_of_the_damage_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    write(&path, 5000);
    let mut bytes = fs::read(&path).unwrap();
    let tail = bytes.len() - 4000;
    bytes[tail] ^= 4;
    fs::write(&path, &bytes).unwrap();
    let store = SignatureStore::open(&path).unwrap();
    use_signature(&store, 0).unwrap();
    assert_eq!(store.find("object 4999").unwrap(), Some(4999));
    let message = use_signature(&store, 4999).unwrap_err().to_string();
    assert!(message.contains("damaged in batch 2 of 2"), "{message}");
}

#[test]
fn what_is_no_store_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let refusal = |path: &Path| SignatureStore::open(path).unwrap_err().to_string();
    assert!(refusal(&path).contains("cannot open"));
    assert!(refusal(folder.path()).contains("no regular file"));
    for (bytes, reason) in [
        (b"".as_slice(), "does not begin as an Arrow file"),
        (b"PNG", "does not begin as an Arrow file"),
        (b"ARROW1", "cut short"),
    ] {
        fs::write(&path, bytes).unwrap();
        let message = refusal(&path);
        assert!(message.contains(reason), "{message}");
    }
    let schema = layout::schema(&Signatures::new(&COORDINATES).unwrap(), Default::default());
    arrow_ipc::writer::FileWriter::try_new(File::create(&path).unwrap(), &schema).unwrap().finish().unwrap();
    assert!(refusal(&path).contains("no checksum of Boxwork's"));
}

#[test]
fn a_writer_leaves_the_old_store_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let create = || StoreWriter::create(&path, &COORDINATES, &StoreInfo::default()).unwrap();
    assert!(matches!(create().finish(), Err(StoreError::Empty { .. })));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    write(&path, 3);
    drop(create());
    assert_eq!(SignatureStore::open(&path).unwrap().len(), 3);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    // An open store keeps the file that it opened.
    let store = SignatureStore::open(&path).unwrap();
    write(&path, 5);
    assert_eq!(store.name(2).unwrap(), "object 2");
    assert_eq!(store.len(), 3);
}

#[test]
fn the_writer_names_the_object_that_it_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let mut writer = StoreWriter::create(&path, &["x"], &StoreInfo::default()).unwrap();
    let columns: [&[f32]; 1] = [&[1.0, f32::NAN]];
    let columns = boxwork_kernels::sqfd::Columns::new(&columns, &[1.0, 1.0]);
    writer.push("good", columns.signature(0, 1), 0, 0).unwrap();
    let message = writer.push("bad", columns.signature(0, 2), 0, 0).unwrap_err().to_string();
    assert!(message.contains("`bad`") && message.contains("NaN"), "{message}");
    let message = writer.push("good", columns.signature(0, 1), 0, 0).unwrap_err().to_string();
    assert!(message.contains("two objects") && message.contains("`good`"), "{message}");
    assert!(StoreWriter::create::<&str>(&path, &[], &StoreInfo::default()).is_err());
    let marked = StoreInfo { parameters: Some(layout::MARKER.into()), ..StoreInfo::default() };
    assert!(StoreWriter::create(&path, &["x"], &marked).is_err());
    for alpha in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let info = StoreInfo { alpha: Some(alpha), ..StoreInfo::default() };
        let message = StoreWriter::create(&path, &["x"], &info).err().unwrap().to_string();
        assert!(message.contains(&format!("its alpha is {alpha}")), "{message}");
    }
}

#[test]
fn threads_share_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    write(&path, 5000);
    let store = Arc::new(SignatureStore::open(&path).unwrap());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| check(&store, 5000));
        }
    });
}

/// Checks that a read of a changed store's file is refused with the reason.
fn is_refused(path: &Path, result: Result<(), StoreError>) {
    let message = result.unwrap_err().to_string();
    let name = path.display().to_string();
    for words in [name.as_str(), "cut short or overwritten while it was in use", "restore it"] {
        assert!(message.contains(words), "{message}");
    }
}

/// Every kind of read of a store.
fn ask_all(store: &SignatureStore) -> [Result<(), StoreError>; 5] {
    [
        store.verify(),
        store.name(3).map(drop),
        store.find("object 3").map(drop),
        use_signature(store, store.len() - 1),
        store.read(|objects| objects.copied(0, 0..5).map(drop)),
    ]
}

#[test]
fn a_file_cut_short_under_an_open_store_fails_its_reads_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("s"), folder.path().join("other"));
    write(&path, 10_000);
    write(&other, 10_000);
    let sound = fs::read(&path).unwrap();
    let length = sound.len() as u64;
    let other = SignatureStore::open(&other).unwrap();
    // Truncated to the middle of a page, to the end of one, to nothing; the last cut takes only the tail, already read.
    for (cut, is_used_before) in
        [(0, true), (0, false), (length / 2, true), (length / 2, false), (8192, true), (length - 1, true)]
    {
        fs::write(&path, &sound).unwrap();
        let store = SignatureStore::open(&path).unwrap();
        if is_used_before {
            check(&store, 10_000);
        }
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(cut).unwrap();
        ask_all(&store).into_iter().for_each(|result| is_refused(&path, result));
        // Restoring the bytes does not help: the contents read in between are unreliable.
        fs::write(&path, &sound).unwrap();
        ask_all(&store).into_iter().for_each(|result| is_refused(&path, result));
        check(&other, 10_000);
    }
    read_all(&path).unwrap();
}

#[test]
fn a_file_overwritten_in_place_is_noticed_though_its_length_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    write(&path, 4);
    let store = SignatureStore::open(&path).unwrap();
    check(&store, 4);
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(b"ARROW1", 0).unwrap();
    // The file's clock may be too coarse for the duration of this test.
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    is_refused(&path, store.verify());
}

#[test]
fn threads_that_share_a_store_are_all_refused_when_it_is_cut_short() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    write(&path, 10_000);
    let store = SignatureStore::open(&path).unwrap();
    use_signature(&store, 0).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(100).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| ask_all(&store).into_iter().for_each(|result| is_refused(&path, result)));
        }
    });
}

#[test]
fn more_objects_than_the_file_can_hold_are_refused() {
    let blocks = [Block::new(64, 192, 640)];
    let lay_out = |rows| {
        let entry = BatchEntry { rows, front_bytes: 192, front: 0, rest: 0 };
        lay_out(&blocks, &[entry], 64 + 192 + 640).map(|(_, _, len)| len)
    };
    assert_eq!(lay_out(80), Some(80));
    // Allocating memory for them all would abort the process.
    assert_eq!([lay_out(81), lay_out(usize::MAX), lay_out(0)], [None; 3]);
}

#[test]
fn numbers_that_are_cut_or_lie_askew_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    write(&path, 4);
    let store = SignatureStore::open(&path).unwrap();
    let (block, batch) = (store.files.parts[0].block(0).unwrap(), &store.files.parts[0].batches[0]);
    let header_bytes = batch.block.metaDataLength() as usize;
    let numbers_of = layout::numbers(&store.files.parts[0].schema).unwrap();
    assert_eq!(
        layout::front_bytes(&numbers_of, &block[..header_bytes], block.len() - header_bytes),
        Some(batch.entry.front_bytes)
    );

    let message = arrow_ipc::root_as_message(&block[8..header_bytes]).unwrap();
    let record = message.header_as_record_batch().unwrap();
    let (nodes, buffers) = (record.nodes().unwrap(), record.buffers().unwrap());
    // A header with another number at this place.
    let with = |part: &[u8], number_idx: usize, number: i64| {
        let at = part.as_ptr().addr() - block.as_ptr().addr() + 8 * number_idx;
        let mut bytes = block.to_vec();
        bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        layout::front_bytes(&numbers_of, &bytes[..header_bytes], bytes.len() - header_bytes)
    };
    // A buffer has an offset and a length, a node a length and a number of nulls.
    for numbers in [1, 3, 6, 9, 11, 13, 15, 17] {
        let length = buffers.get(numbers).length();
        assert_eq!(with(buffers.bytes(), 2 * numbers + 1, length - 1), None, "buffer {numbers} cut");
        let number_bytes = numbers_of[numbers] as i64;
        assert!(with(buffers.bytes(), 2 * numbers + 1, length - number_bytes).is_some());
    }
    for buffer in 0..buffers.len() {
        let offset = buffers.get(buffer).offset();
        assert_eq!(with(buffers.bytes(), 2 * buffer, offset - 4), None, "buffer {buffer} askew");
    }
    // The ids, the names' offsets and letters, and the objects' offsets lie before the objects.
    for buffer in [1, 3, 4, 6] {
        let objects = buffers.get(7).offset();
        assert_eq!(with(buffers.bytes(), 2 * buffer, objects), None, "buffer {buffer} behind its place");
    }
    for node in 0..nodes.len() {
        for (number_idx, number) in [(2 * node, -1), (2 * node, i64::MAX), (2 * node + 1, 1)] {
            assert_eq!(with(nodes.bytes(), number_idx, number), None, "node {node}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "stores are mapped")]
fn a_store_of_many_large_additions_takes_as_many_as_promised() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.arrow");
    write(&path, 1);
    // Above the limit below which files are read, in one object.
    let centroids = vec![1.0; 400_000];
    let columns: [&[f32]; 2] = [&centroids, &centroids];
    let add = |name: &str, count: usize| {
        let mut change = StoreChange::begin(&path)?;
        let columns = boxwork_kernels::sqfd::Columns::new(&columns, &centroids);
        change.push(name, columns.signature(0, count), 0, 0)?;
        change.write()?.commit()
    };
    add("large", centroids.len()).unwrap();
    // One file, named a thousand times, instead of a thousand large files.
    let file = File::open(&path).unwrap();
    let mut manifest = Manifest::of_file(&path, &file).unwrap().unwrap();
    let large = manifest.lines()[1].clone();
    assert!(fs::metadata(folder.path().join(&large.file)).unwrap().len() > MAPPED_BYTES_MIN);
    (2..manifest::CHANGES_MAX).for_each(|_| manifest.push(large.clone()));
    fs::write(&path, manifest.text()).unwrap();

    let store = SignatureStore::open(&path).unwrap();
    assert_eq!(store.files.parts.len(), manifest::CHANGES_MAX);
    add("the last", 1).unwrap();
    drop(store);
    assert_eq!(SignatureStore::open(&path).unwrap().len(), manifest::CHANGES_MAX as u64 + 1);
    let error = add("too many", 1).unwrap_err().to_string();
    assert!(error.contains("changed 1000 times") && error.contains("run `boxwork compact"), "{error}");
}
