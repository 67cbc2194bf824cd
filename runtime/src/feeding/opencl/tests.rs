//! Kernels on PoCL, several at once.

use super::super::faults::has_device;
use super::*;

const SOURCE: &str =
    "__kernel __attribute__((reqd_work_group_size(8, 1, 1))) void number(__global uint *to) {
    uint x = 0;
    for (uint i = 0; i < 20000; ++i) { x = x * 3 + i + get_global_id(0); }
    to[get_global_id(0)] = get_global_id(0) + (x == 7 ? 1 : 0);
}";

/// Compiles the program, and asks for its binaries.
fn compile() -> DriverResult<()> {
    let driver = OpenCl;
    let device = driver.devices(driver.platforms()?[0])?[0];
    let context = driver.context(device)?;
    let program = driver.program_of_source(context, SOURCE)?;
    driver.build(program, device, "")?;
    assert!(!driver.binary(program)?.is_empty());
    driver.release(Kind::Program, program)?;
    driver.release(Kind::Context, context)
}

/// Runs a kernel on grids of these numbers of groups of eight, each in a queue of its own.
fn run(groups: &[usize]) -> DriverResult<()> {
    let driver = OpenCl;
    let platform = driver.platforms()?[0];
    let device = driver.devices(platform)?[0];
    let context = driver.context(device)?;
    let queue = driver.queue(context, device)?;
    let program = driver.program_of_source(context, SOURCE)?;
    driver.build(program, device, "")?;
    let kernel = driver.kernel(program, "number")?;
    for groups in groups {
        let mut found = vec![0u32; groups * 8];
        let bytes = size_of_val(found.as_slice());
        let buffer = driver.buffer(context, bytes, Use::Device)?;
        driver.set(kernel, 0, Set::Buffer(buffer))?;
        let ran = driver.launch(queue, kernel, &Grid::of([*groups], [8]), &[])?;
        // SAFETY: the numbers outlive the command, for which `finish` waits.
        let read = unsafe { driver.read(queue, (buffer, 0), found.as_mut_ptr().cast(), bytes, &[ran])? };
        driver.finish(queue)?;
        assert!(found.iter().copied().eq(0..*groups as u32 * 8));
        for (kind, handle) in [(Kind::Event, ran), (Kind::Event, read), (Kind::Buffer, buffer)] {
            driver.release(kind, handle)?;
        }
    }
    driver.release(Kind::Kernel, kernel)?;
    driver.release(Kind::Program, program)?;
    driver.release(Kind::Queue, queue)?;
    driver.release(Kind::Context, context)
}

#[test]
fn one_kernel_runs_on_grids_of_many_sizes_at_once() {
    if !has_device("one_kernel_runs_on_grids_of_many_sizes_at_once") {
        return;
    }
    // Sizes grow: PoCL compiles a kernel again for a larger grid.
    std::thread::scope(|scope| {
        for thread in 1..=4 {
            scope.spawn(move || {
                let groups: Vec<usize> = (0..40).map(|nth| nth * 4 + thread).collect();
                run(&groups).unwrap();
            });
        }
    });
}

#[test]
fn binaries_are_asked_for_while_a_kernel_runs() {
    if !has_device("binaries_are_asked_for_while_a_kernel_runs") {
        return;
    }
    std::thread::scope(|scope| {
        for thread in 1..=2 {
            scope.spawn(move || run(&(0..60).map(|nth| nth * 8 + thread).collect::<Vec<_>>()).unwrap());
            scope.spawn(|| (0..10).for_each(|_| compile().unwrap()));
        }
    });
}
