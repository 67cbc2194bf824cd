//! The descriptors of whole pictures and of what is measured of them.

use arrow_schema::DataType;
use boxwork_runtime::descriptor::{Column, Descriptor};
use boxwork_runtime::parameter::Arguments;

/// A picture with all its pixels, as its file holds them.
pub fn whole_pictures(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("name", DataType::Utf8, "the picture's name: the path below the folder that was listed"),
        Column::new("width", DataType::UInt32, "pixels of a row"),
        Column::new("height", DataType::UInt32, "rows"),
        Column::new("channels", DataType::UInt32, "1 grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha"),
        Column::new(
            "bits",
            DataType::UInt32,
            "of a sample: 8, 16, or 32 for floats in grey levels of 0 to 255",
        ),
        Column::new("samples", DataType::Binary, "row by row from the top, little-endian"),
        Column::new("sigma", DataType::Float64, "the deviation of the noise in grey levels, 0 if unknown"),
    ])
}

/// A file to be written.
pub fn named_bytes(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("name", DataType::Utf8, "the path below the folder that is written"),
        Column::new("bytes", DataType::Binary, "the file's content"),
    ])
}

/// How near pictures without noise are to the clean ones.
pub fn comparisons(_: &Arguments) -> Descriptor {
    Descriptor::new([
        Column::new("name", DataType::Utf8, "the picture's name"),
        Column::new("sigma", DataType::Float64, "the deviation of the noise that was added, in grey levels"),
        Column::new("noisy_psnr", DataType::Float64, "of the noisy picture, in decibels"),
        Column::new("psnr", DataType::Float64, "of the denoised picture, in decibels"),
        Column::new("noisy_ssim", DataType::Float64, "structural similarity of the noisy picture"),
        Column::new("ssim", DataType::Float64, "structural similarity of the denoised picture"),
    ])
}
