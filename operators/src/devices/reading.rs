//! Stores as blocks read them: an error of the store is one of the block.

use boxwork_runtime::feeding::DeviceError;
use boxwork_stores::signature_store::{Objects, SignatureStore, StoreError};

/// The error of a block whose objects cannot be read.
pub(crate) fn block_error(error: StoreError) -> DeviceError {
    DeviceError::Block(error.to_string())
}

/// Lends the objects of a store to a block that is fed. They count only if the file is whole afterwards.
pub(crate) fn feed_of(
    store: &SignatureStore,
    feed: impl FnOnce(Objects<'_>) -> Result<(), DeviceError>,
) -> Result<(), DeviceError> {
    let mut fed = Ok(());
    let read = store.read::<_, StoreError>(|objects| {
        fed = feed(objects);
        Ok(())
    });
    read.map_err(block_error).and(fed)
}
