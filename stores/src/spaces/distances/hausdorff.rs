//! The Hausdorff distance of signatures.

use boxwork_kernels::distance::Hausdorff;

use crate::spaces::signature_space::SignatureDistanceSpec;

/// The largest distance of a centroid of either signature from the nearest one of the other.
pub(in crate::spaces) static HAUSDORFF: SignatureDistanceSpec<Hausdorff> =
    SignatureDistanceSpec { name: "hausdorff", make: Hausdorff::new };
