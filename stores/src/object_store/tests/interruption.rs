//! Work on a whole store that its caller interrupts.

use std::cell::Cell;

use boxwork_kernels::interrupt::Interrupted;

use super::super::writer::BATCH_ROWS;
use super::*;

#[test]
fn batches_and_names_that_are_read_stop_when_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let objects = 2 * BATCH_ROWS + 1;
    write(&path, objects);
    let asked = Cell::new(0);
    let asks = |limit: usize| {
        asked.set(asked.get() + 1);
        asked.get() > limit
    };
    // Each of the three batches is asked for.
    let all = || 0..objects as u64;
    for limit in 0..3 {
        let store = SignatureStore::open(&path).unwrap();
        asked.set(0);
        let stopped = store.bring_in_until(all(), &|| asks(limit));
        assert!(matches!(stopped, Err(StoreError::Interrupted(Interrupted))), "{stopped:?}");
        assert_eq!((0..3).filter(|batch| store.is_checked(*batch)).count(), limit);
        asked.set(0);
        let stopped = store.find_until("object 7", &|| asks(limit));
        assert!(matches!(stopped, Err(StoreError::Interrupted(Interrupted))), "{stopped:?}");
    }
    let store = SignatureStore::open(&path).unwrap();
    asked.set(0);
    store.bring_in_until(all(), &|| asks(3)).unwrap();
    // What is there needs no question.
    store.bring_in_until(all(), &|| panic!("all objects are there")).unwrap();
    // The names of three batches, and a question for each bucket of names.
    asked.set(0);
    assert_eq!(store.find_until("object 8000", &|| asks(5)).unwrap(), Some(8000));
    assert_eq!(asked.get(), 5);
    assert_eq!(store.find_until("object 1", &|| panic!("the names are there")).unwrap(), Some(1));
}
