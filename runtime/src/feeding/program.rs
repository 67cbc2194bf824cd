//! Programs: compiled once for each device, their binaries kept on disk, the arguments of their kernels checked by name.
//!
//! A binary is reused if device, driver, options and source are identical. If the driver refuses a binary, the program
//! is compiled again.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use super::binaries;
use super::driver::{ArgumentInfo, Driver, DriverResult, Handle, Kind, Set, Space};
use super::error::DeviceError;
use super::launch::{Kind as Given, Value};
use super::object::Object;

/// A program in OpenCL C.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramSource {
    /// Its name in messages.
    pub name: &'static str,
    /// The text.
    pub text: &'static str,
    /// Constants that it is compiled with (`-D NAME=VALUE`); the code that sizes its blocks uses them too.
    pub constants: Vec<(&'static str, String)>,
    /// Its kernels.
    pub kernels: &'static [KernelSpec],
    /// Whether its arithmetic is exactly that of the text: the compiler fuses no products with additions, and keeps
    /// subnormal numbers.
    pub exact: bool,
}

/// A kernel and its arguments, in the order of the text.
#[derive(Debug, PartialEq, Eq)]
pub struct KernelSpec {
    /// The function.
    pub name: &'static str,
    /// Its arguments by name.
    pub arguments: &'static [(&'static str, Argument)],
}

/// The kind of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A buffer of that name.
    Buffer,
    /// Local memory, given by size.
    Local,
    /// A value of this many bytes: `size_of` the type on the host.
    Value(usize),
}

/// Arguments are bound by name, so the compiler must keep their names. No warnings: some drivers print to standard
/// error that there are warnings, and users cannot act on missed optimisations.
const OPTIONS: &str = "-cl-std=CL1.2 -cl-kernel-arg-info -w";

/// If arithmetic need not be exact, subnormal numbers may count as zero: the hardware's fast exponential needs that
/// mode.
const FAST_OPTIONS: &str = " -cl-denorms-are-zero -cl-mad-enable";

impl ProgramSource {
    /// The options for the compiler.
    pub fn options(&self) -> String {
        let mut options = OPTIONS.to_owned();
        if !self.exact {
            options += FAST_OPTIONS;
        }
        debug_assert!(
            self.constants.iter().all(|(name, value)| !name.contains(' ') && !value.contains(' ')),
            "a constant of a program would be taken for an option of the compiler"
        );
        for (name, value) in &self.constants {
            let _ = write!(options, " -D {name}={value}");
        }
        options
    }

    /// Whether the two are equal. Texts are compared only if they are at different addresses.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.name == other.name
            && self.exact == other.exact
            && (std::ptr::eq(self.text, other.text) || self.text == other.text)
            && self.constants == other.constants
    }

    /// A key that no other program of a device has.
    pub(super) fn key(&self) -> String {
        debug_assert!(!self.name.contains('\n'), "a program's name could be taken for its options");
        format!("{}\n{}\n{}", self.name, self.options(), self.text)
    }
}

/// A program for one device.
pub(crate) struct Program {
    object: Object,
    source: ProgramSource,
}

/// The target of a compilation.
pub(super) struct Target<'a> {
    pub(super) driver: &'a Arc<dyn Driver>,
    pub(super) context: Handle,
    pub(super) device: Handle,
    /// Device and driver as text, which changes when either does.
    pub(super) identity: &'a str,
    pub(super) name: &'a str,
    /// The folder of binaries, if there is one.
    pub(super) cache: Option<&'a Path>,
}

impl Program {
    /// Takes the kept binary, or compiles the text.
    pub(super) fn build(target: &Target<'_>, source: &ProgramSource) -> Result<Self, DeviceError> {
        let key = format!("{}\n{}", target.identity, source.key());
        let kept = target.cache.and_then(|folder| binaries::read(folder, source.name, &key));
        if let Some(object) = kept.and_then(|binary| Self::of_binary(target, source, &binary).ok()) {
            return Ok(Self { object, source: source.clone() });
        }
        let (driver, context, device) = (target.driver, target.context, target.device);
        let object =
            Object::own(driver, Kind::Program, |driver| driver.program_of_source(context, source.text))?;
        if let Err(error) = driver.build(object.handle(), device, &source.options()) {
            let log = driver.build_log(object.handle(), device).unwrap_or_default();
            if log.is_empty() {
                return Err(error.into());
            }
            return Err(DeviceError::Build { device: target.name.to_owned(), program: source.name, log });
        }
        for spec in source.kernels {
            let kernel =
                Object::own(driver, Kind::Kernel, |driver| driver.kernel(object.handle(), spec.name))?;
            let known = driver.arguments(kernel.handle())?;
            check(spec, &known).map_err(|reason| DeviceError::Arguments {
                program: source.name,
                kernel: spec.name,
                reason,
            })?;
        }
        if let Some(folder) = target.cache
            && let Ok(binary) = driver.binary(object.handle())
        {
            // A folder that cannot be written to costs the next run a compilation.
            let _ = binaries::write(folder, source.name, &key, &binary);
        }
        Ok(Self { object, source: source.clone() })
    }

    fn of_binary(target: &Target<'_>, source: &ProgramSource, binary: &[u8]) -> DriverResult<Object> {
        let (driver, context, device) = (target.driver, target.context, target.device);
        let object =
            Object::own(driver, Kind::Program, |driver| driver.program_of_binary(context, device, binary))?;
        driver.build(object.handle(), device, &source.options())?;
        Ok(object)
    }

    /// The kernel of a name, with its arguments in order.
    pub(super) fn kernel(&self, name: &str) -> Result<(Object, &'static KernelSpec), DeviceError> {
        let spec = self.source.kernels.iter().find(|spec| spec.name == name);
        let spec =
            spec.unwrap_or_else(|| panic!("the program `{}` has no kernel `{name}`", self.source.name));
        let program = self.object.handle();
        let kernel = Object::own(self.object.driver(), Kind::Kernel, |driver| driver.kernel(program, name))?;
        Ok((kernel, spec))
    }
}

/// Gives a kernel its arguments: `values` are those other than buffers, `buffer` finds a buffer by its name.
pub(super) fn set_arguments(
    driver: &dyn Driver,
    program: &'static str,
    (kernel, spec): (Handle, &'static KernelSpec),
    values: &[(&str, Value)],
    mut buffer: impl FnMut(&str) -> Option<Handle>,
) -> Result<(), DeviceError> {
    debug_assert!(
        values.iter().all(|(given, _)| spec.arguments.iter().any(|(name, _)| name == given)),
        "a value is given for an argument that the kernel does not have"
    );
    for (idx, (name, argument)) in spec.arguments.iter().enumerate() {
        let missing = || DeviceError::Arguments {
            program,
            kernel: spec.name,
            reason: format!("nothing of its kind is given for `{name}`"),
        };
        let value = values.iter().find(|(given, _)| given == name).map(|(_, value)| &value.0);
        let set = match (argument, value) {
            (Argument::Buffer, None) => Set::Buffer(buffer(name).ok_or_else(missing)?),
            (Argument::Value(bytes), Some(Given::Plain(value, len))) if bytes == len => {
                Set::Value(&value[..*len])
            }
            (Argument::Local, Some(Given::Local(bytes))) => Set::Local(*bytes),
            _ => return Err(missing()),
        };
        driver.set(kernel, idx as u32, set)?;
    }
    Ok(())
}

/// Compares a kernel's table with the compiler's description.
fn check(spec: &KernelSpec, known: &[ArgumentInfo]) -> Result<(), String> {
    debug_assert!(
        spec.arguments
            .iter()
            .enumerate()
            .all(|(place, (name, _))| { spec.arguments[..place].iter().all(|(before, _)| before != name) }),
        "two arguments of a kernel have one name: both would be bound to one buffer"
    );
    let names = |names: &mut dyn Iterator<Item = &str>| names.collect::<Vec<_>>().join(", ");
    let (table, text) = (
        names(&mut spec.arguments.iter().map(|(name, _)| *name)),
        names(&mut known.iter().map(|argument| argument.name.as_str())),
    );
    if table != text {
        return Err(format!("its table names the arguments {table}, its text {text}"));
    }
    for ((name, argument), known) in spec.arguments.iter().zip(known) {
        let fits = match (argument, known.space) {
            (Argument::Buffer, Space::Global) | (Argument::Local, Space::Local) => true,
            (Argument::Value(bytes), Space::Private) => {
                // The compiler gives no size of a struct; the driver compares it when the argument is set.
                value_bytes(&known.type_name).is_none_or(|known| known == *bytes)
            }
            _ => false,
        };
        if !fits {
            let is = &known.type_name;
            return Err(format!(
                "`{name}` is of type `{is}` in {:?} memory, its table says {argument:?}",
                known.space
            ));
        }
    }
    Ok(())
}

/// The size of a number or vector of OpenCL C; nothing for a struct.
fn value_bytes(type_name: &str) -> Option<usize> {
    let lanes_at = type_name.find(|letter: char| letter.is_ascii_digit()).unwrap_or(type_name.len());
    let (number, lanes) = type_name.split_at(lanes_at);
    let bytes = match number {
        "char" | "uchar" => 1,
        "short" | "ushort" | "half" => 2,
        "int" | "uint" | "float" => 4,
        "long" | "ulong" | "double" => 8,
        _ => return None,
    };
    // A vector of three takes the space of four.
    match lanes {
        "" => Some(bytes),
        lanes => lanes.parse::<usize>().ok().map(|lanes| bytes * lanes.next_power_of_two()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argument(name: &str, type_name: &str, space: Space) -> ArgumentInfo {
        ArgumentInfo { name: name.to_owned(), type_name: type_name.to_owned(), space }
    }

    const SPEC: KernelSpec = KernelSpec {
        name: "scale",
        arguments: &[("values", Argument::Buffer), ("count", Argument::Value(4)), ("sums", Argument::Local)],
    };

    #[test]
    fn a_table_must_name_the_arguments_of_the_text() {
        let values = || argument("values", "float*", Space::Global);
        let (count, sums) =
            (argument("count", "uint", Space::Private), argument("sums", "float*", Space::Local));
        assert_eq!(check(&SPEC, &[values(), count.clone(), sums.clone()]), Ok(()));
        let reason = check(&SPEC, &[values(), sums.clone()]).unwrap_err();
        assert!(reason.contains("values, count, sums") && reason.contains("values, sums"), "{reason}");
        let wide = argument("count", "ulong", Space::Private);
        let reason = check(&SPEC, &[values(), wide, sums.clone()]).unwrap_err();
        assert!(reason.contains("`count`") && reason.contains("ulong"), "{reason}");
        let [pair, shape] = ["uint2", "struct shape"].map(|name| argument("count", name, Space::Private));
        let reason = check(&SPEC, &[values(), pair, sums.clone()]).unwrap_err();
        assert!(reason.contains("uint2"), "{reason}");
        assert_eq!(check(&SPEC, &[values(), shape, sums]), Ok(()), "its size is not known here");
        let global = argument("sums", "float*", Space::Global);
        assert!(check(&SPEC, &[values(), count, global]).unwrap_err().contains("Local"));
    }

    #[test]
    fn sizes_of_values_are_those_of_opencl() {
        let sizes = [("uchar", 1), ("half", 2), ("float", 4), ("double", 8), ("float4", 16), ("double3", 32)];
        assert!(sizes.iter().all(|(name, bytes)| value_bytes(name) == Some(*bytes)));
        assert_eq!(value_bytes("struct shape"), None);
    }
}
