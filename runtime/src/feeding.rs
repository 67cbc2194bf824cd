//! Feeding devices: blocks of work that boxes hand over, and the threads that take them to the device and back.
//!
//! A box makes a [`Block`] and submits it ([`Blocks`]). A *feeding thread* takes it from the queue of the [`Devices`],
//! gathers its data into staging memory, enqueues transfers, kernels and the read-back on the command queue of an *end
//! point*, and continues with the next: two blocks are in flight per end point, so that the gather of one, the transfer
//! of another and the kernel of a third overlap. A driver's callback notifies the thread that a block has come back
//! (the thread also polls, because some callbacks are late). The thread then scatters the results, and the box is
//! planned again. No worker waits for a device.
//!
//! Invariants:
//! - host memory that a command reads or writes belongs to a lane of an end point, and is neither freed nor used again
//!   before that command has ended;
//! - a block comes back to its box exactly once, with its results or with an error; after an error of one device the
//!   other devices get it first;
//! - an error of a driver becomes an error here, never a panic; a device that fails repeatedly, or does not answer in
//!   time, gets no more blocks.
//!
//! Modules in reading order: `codes`, `plain`, `launch`, `driver` (the calls), `opencl` (makes them), `object`
//! (releases), `error`, `fill_once`, `recent`, `binaries` (programs on disk), `options`, `program`, `memory` (buffers),
//! `device`, `staging`, `pinned`, `gather`, `resident` (state between blocks), `end_point`, `share` (the choice of a
//! device for a block), `survey`, `pool`, `direct` (one
//! thread that drives a device itself), `residence` (parts of stores), `blocks`, `lazy` (devices of one owner),
//! `pick`, `self_check`, `faults`.

mod codes;
mod plain;
mod launch;
mod driver;
mod opencl;
mod object;
mod error;
mod fill_once;
mod recent;
mod binaries;
mod options;
mod program;
mod memory;
mod staging;
mod pinned;
mod device;
mod gather;
mod resident;
mod end_point;
mod share;
mod survey;
mod block;
mod direct_statistics;
mod pool;
mod direct;
mod residence;
mod blocks;
mod lazy;
mod pick;
mod self_check;
#[cfg(any(test, feature = "testing"))]
pub mod faults;

pub use self::block::Block;
pub use self::blocks::Blocks;
pub use self::device::Device;
pub use self::direct::{Direct, Part, Placed};
pub use self::direct_statistics::DirectStatistics;
pub use self::driver::{DeviceClass, DeviceInfo, DriverError, PlatformInfo};
pub use self::end_point::{Back, Feed};
pub use self::error::{DeviceError, NoDevices};
pub use self::launch::{Grid, Value};
pub use self::lazy::LazyDevices;
pub use self::memory::SharedKey;
pub use self::options::Options;
pub use self::pick::Picked;
pub use self::pinned::memory_available;
pub use self::plain::Plain;
pub use self::pool::{DeviceStatistics, Devices};
pub use self::program::{Argument, KernelSpec, ProgramSource};
pub use self::residence::Residence;
pub use self::resident::{Access, Resident};
