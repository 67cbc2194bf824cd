//! From a folder of images to signatures or vectors.

pub mod beneath;
pub(crate) mod list_files;
pub(crate) mod skip_present;
pub(crate) mod skip_kept;
pub(crate) mod read_files;
pub mod extract;
pub mod decode;
mod embed;
pub(crate) mod thumbnail;

use boxwork_runtime::operator::OperatorSpec;

/// The operators of this folder, in the order in which data meets them.
pub(crate) static LIST: &[&OperatorSpec] = &[
    &list_files::LIST_FILES,
    &skip_present::SKIP_PRESENT,
    &skip_kept::STAT_FILES,
    &skip_kept::SKIP_KEPT,
    &read_files::READ_FILES,
    &decode::DECODE,
    &extract::EXTRACT,
    &embed::EMBED,
    &thumbnail::THUMBNAIL,
];
