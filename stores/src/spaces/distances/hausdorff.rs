//! The Hausdorff distance of signatures.

use boxwork_kernels::distance::Hausdorff;

use crate::spaces::signature_space::SignatureDistanceSpec;

/// The farthest that a centroid of either signature lies from the nearest one of the other.
pub(in crate::spaces) static HAUSDORFF: SignatureDistanceSpec<Hausdorff> =
    SignatureDistanceSpec { name: "hausdorff", make: Hausdorff::new };
