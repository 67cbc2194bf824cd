//! Stores whose files are read, not mapped.

use super::*;
use crate::store::Store;

#[test]
fn a_store_that_is_read_answers_as_one_that_is_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    write(&path, 300);
    let [mapped, read] =
        [Access::Map, Access::Read].map(|access| SignatureStore::open_by(&path, access).unwrap());
    assert_eq!((read.fingerprint(), read.len()), (mapped.fingerprint(), mapped.len()));
    assert_eq!(read.find("object 7").unwrap(), mapped.find("object 7").unwrap());
    assert!(!read.is_checked(0), "a name is found without the numbers");
    for id in 0..read.len() {
        let content = |store: &SignatureStore| {
            store.read(|objects| {
                let signature = objects.signature(id)?;
                let numbers = [signature.coordinate(0), signature.coordinate(1), signature.weights()];
                Ok::<_, StoreError>((objects.name(id)?.to_owned(), numbers.map(<[f32]>::to_vec)))
            })
        };
        assert_eq!(content(&read).unwrap(), content(&mapped).unwrap());
    }
}

#[test]
fn a_file_that_is_cut_or_changed_under_a_store_that_is_read_fails_its_reads_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let changed = |error: StoreError| assert!(matches!(error, StoreError::Changed { .. }), "{error}");
    for is_used in [true, false] {
        write(&path, 300);
        let whole = fs::read(&path).unwrap();
        let store = SignatureStore::open_by(&path, Access::Read).unwrap();
        if is_used {
            store.verify().unwrap();
        }
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(whole.len() as u64 / 2).unwrap();
        changed(store.verify().unwrap_err());
        // Whatever happens to the file afterwards.
        fs::write(&path, &whole).unwrap();
        changed(store.verify().unwrap_err());
        assert!(!store.is_whole());
    }
    // A flipped byte is found by its checksum, as in a map.
    let mut flipped = fs::read(&path).unwrap();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    fs::write(&path, &flipped).unwrap();
    let error = SignatureStore::open_by(&path, Access::Read).and_then(|store| store.verify()).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

#[test]
fn batches_that_are_read_ahead_or_let_go_have_their_objects() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    write(&path, 9000);
    let of = |store: &SignatureStore, id: u64| Store::objects(store, &[id]).unwrap();
    let expected = SignatureStore::open_by(&path, Access::Read).unwrap();
    let store = SignatureStore::open_by(&path, Access::Map).unwrap();
    // Only a mapped file is read by the system.
    assert!(store.read_ahead(0..9000) && !expected.read_ahead(0..9000));
    for ids in [0..4096, 4000..4200, 8999..20_000, 9000..9001, 0..u64::MAX] {
        store.read_ahead(ids.clone());
        store.bring_in([0, 4096, 8999]).unwrap();
        store.let_go(ids.clone());
        expected.let_go(ids);
        assert!(store.is_in([0, 4096, 8999]), "a check counts once");
        for id in [0, 4095, 4096, 8999] {
            assert_eq!(&of(&store, id), &of(&expected, id));
        }
    }
}
