//! OpenCL's error codes, and their names.

use opencl3::error_codes;

/// A device, or the host, had no memory left.
pub(super) const OUT_OF_MEMORY: [i32; 3] = [
    error_codes::CL_MEM_OBJECT_ALLOCATION_FAILURE,
    error_codes::CL_OUT_OF_RESOURCES,
    error_codes::CL_OUT_OF_HOST_MEMORY,
];
/// There is no library to load.
pub(super) const NO_LOADER: i32 = error_codes::DLOPEN_RUNTIME_LOAD_FAILED;
/// The library knows no driver: the loader's own code, which the bindings have no name for.
pub(super) const NO_DRIVER: i32 = -1001;
/// A platform has no device.
pub(super) const NO_DEVICE: i32 = error_codes::CL_DEVICE_NOT_FOUND;

/// OpenCL's name for a code.
pub(super) fn code_name(code: i32) -> &'static str {
    match code {
        NO_DRIVER => "CL_PLATFORM_NOT_FOUND_KHR",
        _ => error_codes::error_text(code),
    }
}
