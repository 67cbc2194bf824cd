//! A piece of work for a device, as an operator writes it.

use super::end_point::{Back, Feed};
use super::error::DeviceError;
use super::resident::Access;

/// A piece of work for a device. Its methods run on feeding threads.
pub trait Block: Send + 'static {
    /// The amount of work, in a unit of the operator's own. Devices' speeds are measured in it.
    fn size(&self) -> u64;

    /// What kind of work it is. A device's speed is measured for each kind apart: a million bounds are not a million
    /// distances. Asked again when the block has come back, so that one which turned out to be of another kind, as it
    /// had to bring data first, does not count.
    fn kind(&self) -> &'static str {
        ""
    }

    /// The residents that it uses: it goes to their device, after the blocks submitted before it that it depends on.
    fn residents(&self) -> Vec<Access> {
        Vec::new()
    }

    /// Gathers the data and enqueues what is to be done. Called again, for another device, when one has failed.
    ///
    /// # Errors
    /// Those of the [`Feed`], to hand on; [`DeviceError::Block`] where the data cannot be had.
    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError>;

    /// Takes the results, once all commands have ended.
    fn collect(&mut self, back: &Back<'_>);
}
