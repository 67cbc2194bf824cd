//! Pictures with all their pixels: decoding, noise and its removal, comparison, and files again.

mod row;
pub mod decode_picture;
pub(crate) mod add_noise;
pub mod denoise;
pub(crate) mod compare_pictures;
pub(crate) mod encode;
pub(crate) mod before_after;
pub(crate) mod write_files;

use boxwork_runtime::operator::OperatorSpec;

/// The operators of this folder, in the order in which data meets them.
pub(crate) static LIST: &[&OperatorSpec] = &[
    &decode_picture::DECODE_PICTURE,
    &add_noise::ADD_NOISE,
    &denoise::DENOISE,
    &compare_pictures::COMPARE_PICTURES,
    &encode::ENCODE,
    &before_after::BEFORE_AFTER,
    &write_files::WRITE_FILES,
];
