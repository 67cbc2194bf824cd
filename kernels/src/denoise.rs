//! Removal of white Gaussian noise from pictures by BM3D: similar patches are stacked, a transform of the stack keeps what
//! they share, and overlapping estimates are averaged. A first phase shrinks by a threshold, a second one by Wiener's rule
//! with the first result as the model. Overlapping patches share noise, of which `variance.rs` computes the variance in each
//! coefficient.
//!
//! Source: Dabov, Foi, Katkovnik, Egiazarian, "Image denoising by sparse 3-D transform-domain collaborative filtering",
//! IEEE Transactions on Image Processing 16 (2007).
//!
//! Invariants: patches are compared in whole numbers, coefficients are computed with one rounding an operation, and
//! estimates are summed in whole numbers. So a picture has one result on every path, for any number of threads and for any
//! cut into strips. `reference.rs` defines it in f64.

mod parameters;
mod transform;
mod picture;
mod sigma;
mod extents;
mod aggregation;
mod matching;
mod prediction;
mod variance;
mod filter;
mod progress;
mod phases;
mod strip;
mod tiles;
mod video;
pub mod device;
mod reference;
mod comparison;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod video_tests;

pub use comparison::{psnr, ssim};
pub use extents::Extents;
pub use parameters::{Colour, Parameters, ParametersError, Phase, Profile, StackTransform, Transform};
pub use picture::{Picture, PictureError, Samples};
pub use reference::{reference, reference_video};
pub use sigma::estimate;
pub use strip::Denoiser;
pub use video::{FRAMES_MAX, Video};
