//! The earth mover's distance of signatures.

use boxwork_kernels::distance::Emd;

use crate::spaces::signature_space::SignatureDistanceSpec;

/// The least work to move the weights of one signature to the places of the other.
pub(in crate::spaces) static EMD: SignatureDistanceSpec<Emd> =
    SignatureDistanceSpec { name: "emd", make: Emd::new };
