//! OpenCL itself, through `opencl3`. Apart from the error codes, only this file names that crate.
//!
//! The library is loaded at the first call; a machine without one answers that call with an error and nothing else.
//! Every call here is one of OpenCL's C functions on handles that [`Object`](super::object::Object) keeps alive.
#![expect(unsafe_code, reason = "the functions of a C library")]

use std::ffi::{CString, c_void};
use std::ptr;

use parking_lot::{Mutex, MutexGuard};

use opencl3::types::{cl_event, cl_int, cl_mem};
use opencl3::{
    command_queue as queues, context::context as contexts, device as devices, error_codes, event as events,
};
use opencl3::{kernel as kernels, memory, platform::platform as platforms, program as programs};

use super::driver::{
    ArgumentInfo, DeviceClass, DeviceInfo, Driver, DriverError, DriverResult, Handle, Kind, OnComplete,
    PlatformInfo, Set, Space, Use,
};
use super::launch::Grid;

/// The calls of the system's library.
pub(crate) struct OpenCl;

/// A driver initialises itself at the first request for devices, and some (PoCL 3.1) do not let two threads do that at
/// once.
static SETTING_UP: Mutex<()> = Mutex::new(());

/// PoCL (3.1 to 5.0) counts the uses of a compiled kernel, and finds the count by the kernel and the size of a group, though
/// there is one for each size of the grid. Two commands of one kernel on different grids make it lower the wrong count, and
/// end the process. Its commands run one at a time therefore, which costs little where the cores compute. A request for a
/// program's binaries compiles its kernels into the same list, so it waits for the command under way.
static RUNNING_ON_POCL: Mutex<()> = Mutex::new(());

fn named<T>(call: &'static str, result: Result<T, cl_int>) -> DriverResult<T> {
    result.map_err(|code| DriverError { call, code })
}

fn handle<T>(pointer: *mut T) -> Handle {
    Handle(pointer.expose_provenance())
}

fn pointer(handle: Handle) -> *mut c_void {
    ptr::with_exposed_provenance_mut(handle.0)
}

/// Text from OpenCL, without the zero at its end and spaces around it.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).trim_matches(['\0', ' ', '\n']).to_owned()
}

/// A whole number of any width.
fn number(bytes: &[u8]) -> u64 {
    let mut wide = [0; 8];
    let used = bytes.len().min(8);
    wide[..used].copy_from_slice(&bytes[..used]);
    u64::from_le_bytes(wide)
}

fn c_text(call: &'static str, text: &str) -> DriverResult<CString> {
    CString::new(text).map_err(|_| DriverError { call, code: error_codes::CL_INVALID_VALUE })
}

/// Events to wait for, as OpenCL takes them.
struct Events(Vec<cl_event>);

impl Events {
    fn of(handles: &[Handle]) -> Self {
        Self(handles.iter().map(|event| pointer(*event).cast()).collect())
    }

    /// Their number and address; OpenCL demands a null address if there are none.
    fn list(&self) -> (u32, *const cl_event) {
        (self.0.len() as u32, if self.0.is_empty() { ptr::null() } else { self.0.as_ptr() })
    }
}

/// Waits until nothing else uses PoCL's list of compiled kernels, if that is the device's platform.
fn alone_on_pocl(device: Result<usize, cl_int>) -> Option<MutexGuard<'static, ()>> {
    let object = |address: usize| ptr::with_exposed_provenance_mut(address);
    device
        .and_then(|device| devices::get_device_data(object(device), devices::CL_DEVICE_PLATFORM))
        .map(|platform| number(&platform) as usize)
        .and_then(|platform| platforms::get_platform_data(object(platform), platforms::CL_PLATFORM_NAME))
        .is_ok_and(|name| text(name) == "Portable Computing Language")
        .then(|| RUNNING_ON_POCL.lock())
}

/// Address of a queue's device.
fn device_of_queue(queue: Handle) -> Result<usize, cl_int> {
    queues::get_command_queue_data(pointer(queue).cast(), queues::CL_QUEUE_DEVICE)
        .map(|device| number(&device) as usize)
}

/// Address of the first of a program's devices.
fn device_of_program(program: Handle) -> Result<usize, cl_int> {
    programs::get_program_data(pointer(program).cast(), programs::CL_PROGRAM_DEVICES)
        .map(|devices| number(&devices) as usize)
}

impl Driver for OpenCl {
    fn platforms(&self) -> DriverResult<Vec<Handle>> {
        let _alone = SETTING_UP.lock();
        let found = named("clGetPlatformIDs", platforms::get_platform_ids())?;
        Ok(found.into_iter().map(handle).collect())
    }

    fn platform_info(&self, platform: Handle) -> DriverResult<PlatformInfo> {
        let ask = |what| {
            named("clGetPlatformInfo", platforms::get_platform_data(pointer(platform).cast(), what)).map(text)
        };
        Ok(PlatformInfo {
            name: ask(platforms::CL_PLATFORM_NAME)?,
            version: ask(platforms::CL_PLATFORM_VERSION)?,
        })
    }

    fn devices(&self, platform: Handle) -> DriverResult<Vec<Handle>> {
        let _alone = SETTING_UP.lock();
        let found = devices::get_device_ids(pointer(platform).cast(), devices::CL_DEVICE_TYPE_ALL);
        Ok(named("clGetDeviceIDs", found)?.into_iter().map(handle).collect())
    }

    fn device_info(&self, device: Handle) -> DriverResult<DeviceInfo> {
        let ask = |what| named("clGetDeviceInfo", devices::get_device_data(pointer(device).cast(), what));
        let count = |what| ask(what).map(|bytes| number(&bytes));
        let computes_elsewhere = devices::CL_DEVICE_TYPE_GPU | devices::CL_DEVICE_TYPE_ACCELERATOR;
        let is_gpu = count(devices::CL_DEVICE_TYPE)? & computes_elsewhere != 0;
        Ok(DeviceInfo {
            name: ask(devices::CL_DEVICE_NAME).map(text)?,
            vendor: ask(devices::CL_DEVICE_VENDOR).map(text)?,
            driver: ask(devices::CL_DRIVER_VERSION).map(text)?,
            version: ask(devices::CL_DEVICE_VERSION).map(text)?,
            class: if is_gpu { DeviceClass::Gpu } else { DeviceClass::Cpu },
            compute_units: count(devices::CL_DEVICE_MAX_COMPUTE_UNITS)? as u32,
            clock_mhz: count(devices::CL_DEVICE_MAX_CLOCK_FREQUENCY)? as u32,
            memory_bytes: count(devices::CL_DEVICE_GLOBAL_MEM_SIZE)?,
            buffer_bytes_max: count(devices::CL_DEVICE_MAX_MEM_ALLOC_SIZE)?,
            local_bytes: count(devices::CL_DEVICE_LOCAL_MEM_SIZE)?,
            group_items_max: count(devices::CL_DEVICE_MAX_WORK_GROUP_SIZE)? as usize,
            // Older drivers without them return an error.
            has_doubles: count(devices::CL_DEVICE_DOUBLE_FP_CONFIG).is_ok_and(|config| config != 0),
            has_wide_atomics: ask(devices::CL_DEVICE_EXTENSIONS)
                .map(text)?
                .split_whitespace()
                .any(|extension| extension == "cl_khr_int64_base_atomics"),
            // Deprecated since OpenCL 2.0: drivers still answer, and one that does not gets copies.
            shares_memory: count(devices::CL_DEVICE_HOST_UNIFIED_MEMORY).is_ok_and(|shares| shares != 0),
            // From an extension (cl_nv_device_attribute_query): other drivers return an error.
            compute_capability: count(devices::CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV)
                .and_then(|major| {
                    Ok((major as u32, count(devices::CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV)? as u32))
                })
                .ok(),
        })
    }

    fn context(&self, device: Handle) -> DriverResult<Handle> {
        let _alone = SETTING_UP.lock();
        let devices = [pointer(device).cast()];
        let made = contexts::create_context(&devices, ptr::null(), None, ptr::null_mut());
        named("clCreateContext", made).map(handle)
    }

    fn queue(&self, context: Handle, device: Handle) -> DriverResult<Handle> {
        // SAFETY: both are live, and the device is of the context.
        let made = unsafe {
            let (context, device) = (pointer(context).cast(), pointer(device).cast());
            queues::create_command_queue(context, device, queues::CL_QUEUE_PROFILING_ENABLE)
        };
        named("clCreateCommandQueue", made).map(handle)
    }

    fn program_of_source(&self, context: Handle, source: &str) -> DriverResult<Handle> {
        let made = programs::create_program_with_source(pointer(context).cast(), &[source]);
        named("clCreateProgramWithSource", made).map(handle)
    }

    fn program_of_binary(&self, context: Handle, device: Handle, binary: &[u8]) -> DriverResult<Handle> {
        // SAFETY: both are live; the driver judges the bytes.
        let made = unsafe {
            let (context, device) = (pointer(context).cast(), pointer(device).cast());
            programs::create_program_with_binary(context, &[device], &[binary])
        };
        named("clCreateProgramWithBinary", made).map(handle)
    }

    fn build(&self, program: Handle, device: Handle, options: &str) -> DriverResult<()> {
        const CALL: &str = "clBuildProgram";
        let options = c_text(CALL, options)?;
        let devices = [pointer(device).cast()];
        named(
            CALL,
            programs::build_program(pointer(program).cast(), &devices, &options, None, ptr::null_mut()),
        )
    }

    fn build_log(&self, program: Handle, device: Handle) -> DriverResult<String> {
        let (program, device) = (pointer(program).cast(), pointer(device).cast());
        let log = programs::get_program_build_data(program, device, programs::CL_PROGRAM_BUILD_LOG);
        named("clGetProgramBuildInfo", log).map(text)
    }

    fn binary(&self, program: Handle) -> DriverResult<Vec<u8>> {
        let _alone = alone_on_pocl(device_of_program(program));
        let found = programs::get_program_info(pointer(program).cast(), programs::CL_PROGRAM_BINARIES);
        let of_devices = Vec::<Vec<u8>>::from(named("clGetProgramInfo", found)?);
        Ok(of_devices.into_iter().next().unwrap_or_default())
    }

    fn kernel(&self, program: Handle, name: &str) -> DriverResult<Handle> {
        const CALL: &str = "clCreateKernel";
        named(CALL, kernels::create_kernel(pointer(program).cast(), &c_text(CALL, name)?)).map(handle)
    }

    fn arguments(&self, kernel: Handle) -> DriverResult<Vec<ArgumentInfo>> {
        let kernel = pointer(kernel).cast();
        let count = kernels::get_kernel_data(kernel, kernels::CL_KERNEL_NUM_ARGS);
        let count = number(&named("clGetKernelInfo", count)?) as u32;
        let ask = |idx, what| named("clGetKernelArgInfo", kernels::get_kernel_arg_data(kernel, idx, what));
        let argument = |idx| {
            let space = number(&ask(idx, kernels::CL_KERNEL_ARG_ADDRESS_QUALIFIER)?) as u32;
            Ok(ArgumentInfo {
                name: text(ask(idx, kernels::CL_KERNEL_ARG_NAME)?),
                type_name: text(ask(idx, kernels::CL_KERNEL_ARG_TYPE_NAME)?),
                space: match space {
                    kernels::CL_KERNEL_ARG_ADDRESS_LOCAL => Space::Local,
                    kernels::CL_KERNEL_ARG_ADDRESS_PRIVATE => Space::Private,
                    _ => Space::Global,
                },
            })
        };
        (0..count).map(argument).collect()
    }

    fn group_items_max(&self, kernel: Handle, device: Handle) -> DriverResult<usize> {
        let (kernel, device) = (pointer(kernel).cast(), pointer(device).cast());
        let found = kernels::get_kernel_work_group_data(kernel, device, kernels::CL_KERNEL_WORK_GROUP_SIZE);
        Ok(number(&named("clGetKernelWorkGroupInfo", found)?) as usize)
    }

    fn set(&self, kernel: Handle, idx: u32, value: Set<'_>) -> DriverResult<()> {
        let buffer: cl_mem;
        let (bytes, at): (usize, *const c_void) = match value {
            Set::Buffer(handle) => {
                buffer = pointer(handle).cast();
                (size_of::<cl_mem>(), ptr::from_ref(&buffer).cast())
            }
            Set::Value(bytes) => (bytes.len(), bytes.as_ptr().cast()),
            Set::Local(bytes) => (bytes, ptr::null()),
        };
        // SAFETY: the value is copied within the call, and is as long as it says.
        named("clSetKernelArg", unsafe { kernels::set_kernel_arg(pointer(kernel).cast(), idx, bytes, at) })
    }

    fn buffer(&self, context: Handle, bytes: usize, buffer_use: Use) -> DriverResult<Handle> {
        let flags = memory::CL_MEM_READ_WRITE
            | if buffer_use == Use::Staging { memory::CL_MEM_ALLOC_HOST_PTR } else { 0 };
        // SAFETY: the context is live, and the call gets no memory of the host.
        let made = unsafe { memory::create_buffer(pointer(context).cast(), flags, bytes, ptr::null_mut()) };
        named("clCreateBuffer", made).map(handle)
    }

    unsafe fn buffer_over(&self, context: Handle, at: *mut u8, bytes: usize) -> DriverResult<Handle> {
        let flags = memory::CL_MEM_READ_WRITE | memory::CL_MEM_USE_HOST_PTR;
        // SAFETY: the context is live; the caller vouches for the memory.
        let made = unsafe { memory::create_buffer(pointer(context).cast(), flags, bytes, at.cast()) };
        named("clCreateBuffer", made).map(handle)
    }

    fn map(&self, queue: Handle, buffer: Handle, bytes: usize) -> DriverResult<*mut u8> {
        let mut at: cl_mem = ptr::null_mut();
        let flags = memory::CL_MAP_READ | memory::CL_MAP_WRITE;
        // SAFETY: queue and buffer are live, and the call returns when the map is there.
        let mapped = unsafe {
            let (queue, buffer) = (pointer(queue).cast(), pointer(buffer).cast());
            queues::enqueue_map_buffer(queue, buffer, 1, flags, 0, bytes, &mut at, 0, ptr::null())
        };
        let event = named("clEnqueueMapBuffer", mapped)?;
        // SAFETY: the event is this function's own.
        let _ = unsafe { events::release_event(event) };
        Ok(at.cast())
    }

    fn unmap(&self, queue: Handle, buffer: Handle, at: *mut u8) -> DriverResult<()> {
        // SAFETY: the buffer is mapped there, and the caller uses the map no more.
        let unmapped = unsafe {
            let (queue, buffer) = (pointer(queue).cast(), pointer(buffer).cast());
            queues::enqueue_unmap_mem_object(queue, buffer, at.cast(), 0, ptr::null())
        };
        let event = named("clEnqueueUnmapMemObject", unmapped)?;
        // SAFETY: the event is this function's own.
        let _ = unsafe { events::release_event(event) };
        Ok(())
    }

    unsafe fn write(
        &self,
        queue: Handle,
        (buffer, at): (Handle, usize),
        from: *const u8,
        bytes: usize,
        after: &[Handle],
    ) -> DriverResult<Handle> {
        let after = Events::of(after);
        // SAFETY: queue, buffer and events are live; the caller vouches for the memory.
        let enqueued = unsafe {
            let (queue, buffer) = (pointer(queue).cast(), pointer(buffer).cast());
            let (count, first) = after.list();
            queues::enqueue_write_buffer(queue, buffer, 0, at, bytes, from.cast(), count, first)
        };
        named("clEnqueueWriteBuffer", enqueued).map(handle)
    }

    unsafe fn read(
        &self,
        queue: Handle,
        (buffer, at): (Handle, usize),
        to: *mut u8,
        bytes: usize,
        after: &[Handle],
    ) -> DriverResult<Handle> {
        let after = Events::of(after);
        // SAFETY: queue, buffer and events are live; the caller vouches for the memory.
        let enqueued = unsafe {
            let (queue, buffer) = (pointer(queue).cast(), pointer(buffer).cast());
            let (count, first) = after.list();
            queues::enqueue_read_buffer(queue, buffer, 0, at, bytes, to.cast(), count, first)
        };
        named("clEnqueueReadBuffer", enqueued).map(handle)
    }

    fn launch(&self, queue: Handle, kernel: Handle, grid: &Grid, after: &[Handle]) -> DriverResult<Handle> {
        let (after, dimensions) = (Events::of(after), grid.dimensions() as u32);
        let (items, group) = (grid.items(), grid.group());
        let alone = alone_on_pocl(device_of_queue(queue));
        // SAFETY: all handles are live, the kernel's arguments are set and kept until the command has ended, and `items` and
        // `group` have a number for each dimension.
        let enqueued = unsafe {
            let (queue, kernel) = (pointer(queue).cast(), pointer(kernel).cast());
            let (count, first) = after.list();
            queues::enqueue_nd_range_kernel(
                queue,
                kernel,
                dimensions,
                ptr::null(),
                items.as_ptr(),
                group.as_ptr(),
                count,
                first,
            )
        };
        let event = named("clEnqueueNDRangeKernel", enqueued)?;
        if alone.is_some() {
            // A command that fails says so by its event's status, which the caller asks for.
            let _ = events::wait_for_events(&[event]);
        }
        Ok(handle(event))
    }

    fn flush(&self, queue: Handle) -> DriverResult<()> {
        named("clFlush", queues::flush(pointer(queue).cast()))
    }

    fn finish(&self, queue: Handle) -> DriverResult<()> {
        named("clFinish", queues::finish(pointer(queue).cast()))
    }

    fn on_complete(&self, event: Handle, f: OnComplete) -> DriverResult<()> {
        let boxed = Box::into_raw(Box::new(f));
        let asked = events::set_event_callback(
            pointer(event).cast(),
            events::CL_COMPLETE,
            call_back,
            boxed.cast::<c_void>(),
        );
        if asked.is_err() {
            // SAFETY: the driver has refused it, so only this function owns it.
            drop(unsafe { Box::from_raw(boxed) });
        }
        named("clSetEventCallback", asked)
    }

    fn status(&self, event: Handle) -> DriverResult<Option<i32>> {
        let found = events::get_event_data(pointer(event).cast(), events::CL_EVENT_COMMAND_EXECUTION_STATUS);
        let status = named("clGetEventInfo", found)?;
        let status = status.first_chunk().map_or(0, |bytes| i32::from_le_bytes(*bytes));
        Ok((status <= events::CL_COMPLETE).then_some(status))
    }

    fn times(&self, event: Handle) -> DriverResult<(u64, u64)> {
        let ask = |what| {
            let found = events::get_event_profiling_data(pointer(event).cast(), what);
            named("clGetEventProfilingInfo", found).map(|bytes| number(&bytes))
        };
        Ok((ask(events::CL_PROFILING_COMMAND_START)?, ask(events::CL_PROFILING_COMMAND_END)?))
    }

    fn sent(&self, event: Handle) -> DriverResult<(u64, u64)> {
        let ask = |what| {
            let found = events::get_event_profiling_data(pointer(event).cast(), what);
            named("clGetEventProfilingInfo", found).map(|bytes| number(&bytes))
        };
        Ok((ask(events::CL_PROFILING_COMMAND_QUEUED)?, ask(events::CL_PROFILING_COMMAND_SUBMIT)?))
    }

    fn release(&self, kind: Kind, handle: Handle) -> DriverResult<()> {
        let pointer = pointer(handle);
        // SAFETY: `Object` calls this once, after the last use.
        unsafe {
            match kind {
                Kind::Context => named("clReleaseContext", contexts::release_context(pointer.cast())),
                Kind::Queue => named("clReleaseCommandQueue", queues::release_command_queue(pointer.cast())),
                Kind::Buffer => named("clReleaseMemObject", memory::release_mem_object(pointer.cast())),
                Kind::Program => named("clReleaseProgram", programs::release_program(pointer.cast())),
                Kind::Kernel => named("clReleaseKernel", kernels::release_kernel(pointer.cast())),
                Kind::Event => named("clReleaseEvent", events::release_event(pointer.cast())),
            }
        }
    }
}

/// The callback that the driver calls from a thread of its own.
extern "C" fn call_back(_: cl_event, status: cl_int, user_data: *mut c_void) {
    // SAFETY: `on_complete` has made it for this call, and the driver calls once.
    let f = unsafe { Box::from_raw(user_data.cast::<OnComplete>()) };
    f(status);
}

#[cfg(test)]
mod tests;
