//! An object of the driver with an owner: released once, when it is dropped.

use std::sync::Arc;

use super::driver::{Driver, DriverResult, Handle, Kind};

/// An object of the driver.
pub(crate) struct Object {
    driver: Arc<dyn Driver>,
    kind: Kind,
    handle: Handle,
}

impl Object {
    /// Makes an object by a call, and owns it.
    pub(crate) fn own(
        driver: &Arc<dyn Driver>,
        kind: Kind,
        make: impl FnOnce(&dyn Driver) -> DriverResult<Handle>,
    ) -> DriverResult<Self> {
        let handle = make(&**driver)?;
        Ok(Self { driver: Arc::clone(driver), kind, handle })
    }

    /// The handle for calls; valid as long as this is borrowed.
    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    pub(crate) fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // If a driver refuses the release, nothing else can be done.
        let _ = self.driver.release(self.kind, self.handle);
    }
}
