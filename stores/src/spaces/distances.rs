//! The named distances, one file each.

pub(super) mod canberra;
pub(super) mod dtw;
pub(super) mod edit;
pub(super) mod emd;
pub(super) mod hamming;
pub(super) mod hausdorff;
pub(super) mod inner_product;
pub(super) mod jaccard;
pub(super) mod levenshtein;
pub(super) mod lp;
pub(super) mod sqfd;
