//! A piece of work for a device, as an operator writes it.

use super::end_point::{Back, Feed};
use super::error::DeviceError;
use super::resident::Access;

/// A piece of work for a device. Its methods run on feeding threads.
pub trait Block: Send + 'static {
    /// The amount of work, in a unit of the operator's own. Devices' speeds are measured in it.
    fn size(&self) -> u64;

    /// The kind of work. A device's speed is measured for each kind separately: a million bounds are not a million
    /// distances. It is read again when the block has come back: a block whose kind has changed, because it had to
    /// bring data first, does not count for its old kind.
    fn kind(&self) -> &'static str {
        ""
    }

    /// The residents that it uses: it goes to their device, after the blocks submitted before it that it depends on.
    fn residents(&self) -> Vec<Access> {
        Vec::new()
    }

    /// Gathers the data and enqueues the commands. Called again for another device when one has failed.
    ///
    /// # Errors
    /// Pass on those of the [`Feed`]; return [`DeviceError::Block`] if the data cannot be had.
    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError>;

    /// Takes the results, once all commands have ended.
    fn collect(&mut self, back: &Back<'_>);
}
