//! The options for the use of devices, and their values in the environment.

use std::path::PathBuf;
use std::time::Duration;

use super::binaries::cache_folder;

/// The options for the use of devices.
#[derive(Clone, Debug)]
pub struct Options {
    /// Command queues for each device.
    pub end_points: usize,
    /// Whether each end point has a thread of its own; otherwise the end points of a device share one.
    pub thread_per_end_point: bool,
    /// The most memory to use on each device, in bytes; nothing means most of its memory.
    pub memory_bytes: Option<u64>,
    /// The most host memory to pin for parts that do not fit on the devices, in bytes, for all devices together;
    /// nothing means half of the available memory, and none for devices that compute in the host's own memory.
    pub pinned_bytes: Option<u64>,
    /// The folder of compiled programs; nothing means that each run compiles them.
    pub cache: Option<PathBuf>,
    /// The number of compiled programs that each device keeps, and of kernels that each end point keeps: the last used.
    pub programs_max: usize,
    /// The most threads that gather for one block, its feeding thread included: see
    /// [`Feed::write_in_parts`](super::Feed::write_in_parts).
    pub gatherers: usize,
    /// The most time that a block's commands may take, from their enqueueing or from the return of the block before. A
    /// device that takes longer counts as hung, and gets no more blocks.
    pub limit: Duration,
}

/// More than any block takes on a working device, even on a slow one that other programs use.
const LIMIT: Duration = Duration::from_secs(120);

/// Enough: a pipeline uses a handful.
const PROGRAMS_MAX: usize = 64;

/// The environment variable of the limit, in seconds.
const LIMIT_NAME: &str = "BOXWORK_DEVICE_SECONDS";

/// The environment variables of the most memory to use on each device, and to pin for all, in megabytes.
const MEMORY_NAME: &str = "BOXWORK_DEVICE_MB";
const PINNED_NAME: &str = "BOXWORK_PINNED_MB";

impl Default for Options {
    fn default() -> Self {
        Self {
            end_points: 2,
            thread_per_end_point: true,
            memory_bytes: None,
            pinned_bytes: None,
            cache: cache_folder(),
            programs_max: PROGRAMS_MAX,
            gatherers: gatherers_of(std::thread::available_parallelism().map_or(1, usize::from)),
            limit: LIMIT,
        }
    }
}

impl Options {
    /// The options of the environment, and warnings about wrong values.
    pub(super) fn of_environment(of: impl Fn(&str) -> Option<String>) -> (Self, Vec<String>) {
        let (limit, warning) = limit_of(of(LIMIT_NAME).as_deref());
        let mut warnings = Vec::from_iter(warning);
        let mut bytes = |name: &str| {
            let given = of(name)?;
            let bytes = given.parse::<u64>().ok().and_then(|mega| mega.checked_mul(1_000_000));
            if bytes.is_none() {
                warnings.push(format!("{name}={given} is not a number of megabytes; it is ignored"));
            }
            bytes
        };
        let (memory_bytes, pinned_bytes) = (bytes(MEMORY_NAME), bytes(PINNED_NAME));
        debug_assert!(!limit.is_zero(), "a device would count as hung at once");
        (Self { limit, memory_bytes, pinned_bytes, ..Self::default() }, warnings)
    }
}

/// Threads that gather for one block on a machine of this many cores: half of the cores, and eight at most. Two feeding
/// threads rarely gather at once; if they do, the scheduler lends no more slots than there are.
fn gatherers_of(cores: usize) -> usize {
    (cores / 2).clamp(1, 8)
}

/// The limit from the environment; or the default, with a warning if the given value is wrong.
fn limit_of(given: Option<&str>) -> (Duration, Option<String>) {
    let Some(given) = given else { return (LIMIT, None) };
    let limit = given.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match limit.filter(|limit| !limit.is_zero()) {
        Some(limit) => (limit, None),
        None => {
            let usual = LIMIT.as_secs();
            (
                LIMIT,
                Some(format!(
                    "{LIMIT_NAME}={given} is not a number of seconds above 0; the limit is {usual} seconds"
                )),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_a_number_of_megabytes() {
        let of = |name: &str| match name {
            MEMORY_NAME => Some("16".to_owned()),
            PINNED_NAME => Some("some".to_owned()),
            _ => None,
        };
        let (options, warnings) = Options::of_environment(of);
        assert_eq!((options.memory_bytes, options.pinned_bytes), (Some(16_000_000), None));
        assert!(matches!(&warnings[..], [one] if one.contains("BOXWORK_PINNED_MB=some")), "{warnings:?}");
    }

    #[test]
    fn a_limit_is_a_number_of_seconds() {
        assert_eq!(limit_of(None), (LIMIT, None));
        assert_eq!(limit_of(Some("2.5")), (Duration::from_millis(2500), None));
        for wrong in ["", "soon", "0", "-1", "NaN", "1e300"] {
            let (limit, warning) = limit_of(Some(wrong));
            assert_eq!(limit, LIMIT);
            assert!(warning.is_some_and(|warning| warning.contains("seconds above 0")), "{wrong}");
        }
    }
}
