//! The errors of devices.

use super::driver::DriverError;

/// The error of a block that came back without results.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// A call of the driver failed.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// A program does not compile.
    #[error("the program `{program}` does not compile for {device}: {log}")]
    Build {
        /// The device.
        device: String,
        /// The program.
        program: &'static str,
        /// The compiler's message.
        log: String,
    },
    /// A kernel's arguments differ from those that its table names: a bug in one of the two.
    #[error("kernel `{kernel}` of `{program}`: {reason}")]
    Arguments {
        /// The program.
        program: &'static str,
        /// The kernel.
        kernel: &'static str,
        /// The difference.
        reason: String,
    },
    /// The block needs more memory than the device has to give.
    #[error("{wanted_bytes} bytes do not fit: {used_bytes} of {budget_bytes} are in use")]
    Memory {
        /// The bytes asked for.
        wanted_bytes: u64,
        /// The bytes that cannot be freed.
        used_bytes: u64,
        /// The most bytes that may be used.
        budget_bytes: u64,
    },
    /// The block could not be fed, with the block's own message.
    #[error("{0}")]
    Block(String),
    /// The block's code panicked on a feeding thread.
    #[error("a block panicked: {0}; this is a bug in its operator")]
    Panicked(String),
    /// The device has not finished the block in time.
    #[error("a block did not come back within {seconds} s")]
    Hung {
        /// The limit.
        seconds: f64,
    },
    /// Another block is bringing a part to the device that this one needs: it is fed again when the part is there. A
    /// block passes this on; no box sees it.
    #[error("another block brings what this one needs")]
    HeldBack,
    /// The block uses a resident whose content is lost: the device has failed, or a block failed to write it.
    #[error("the state that the block uses is lost: an earlier block, or the device, has failed")]
    Lost,
    /// Every device that the block may use has failed, or there is none.
    #[error("no device is left")]
    NoneLeft,
}

impl DeviceError {
    /// Whether the device is at fault, or missing, so that another device or the slots can compute the block. Otherwise
    /// the block is at fault.
    pub fn is_of_device(&self) -> bool {
        matches!(
            self,
            Self::Driver(_)
                | Self::Build { .. }
                | Self::Memory { .. }
                | Self::Hung { .. }
                | Self::Lost
                | Self::NoneLeft
        )
    }
}

/// The reason that there are no devices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoDevices {
    /// The system has no OpenCL library.
    #[error("no loader: the system has no OpenCL library (on Debian: apt install ocl-icd-libopencl1)")]
    Loader,
    /// The library knows no driver.
    #[error("no driver: the OpenCL loader is there, and knows no driver (a GPU's own, or pocl-opencl-icd)")]
    Driver,
    /// The drivers have no device.
    #[error("no device: an OpenCL driver is there, and has no device")]
    Device,
    /// The runtime has no devices.
    #[error("the runtime was given no devices")]
    NotHere,
    /// A driver answered with an error.
    #[error("the OpenCL driver does not work: {0}")]
    Failed(DriverError),
}
