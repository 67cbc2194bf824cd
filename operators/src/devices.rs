//! What boxes that compute on devices share.

pub(crate) mod code_path;
pub mod device_kernels;
pub mod factor;
pub mod pass_block;
pub(crate) mod reading;
pub(crate) mod stage;
