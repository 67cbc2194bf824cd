//! How devices are used, and what the environment says of it.

use std::path::PathBuf;
use std::time::Duration;

use super::binaries::cache_folder;

/// How devices are used.
#[derive(Clone, Debug)]
pub struct Options {
    /// Command queues for each device.
    pub end_points: usize,
    /// Whether each end point has a thread of its own, or all of a device share one.
    pub thread_per_end_point: bool,
    /// The most memory to use on each device, in bytes; nothing means most of what it has.
    pub memory_bytes: Option<u64>,
    /// The most host memory to pin for what does not fit on the devices, in bytes, all of them together; nothing means half
    /// of what is available, and none for devices that compute in the host's own memory.
    pub pinned_bytes: Option<u64>,
    /// The folder where compiled programs are kept; nothing means that each run compiles anew.
    pub cache: Option<PathBuf>,
    /// Compiled programs that each device keeps, and kernels that each end point does: those that were used last.
    pub programs_max: usize,
    /// Threads that gather what one block sends, at most, its feeding thread included: see
    /// [`Feed::write_in_parts`](super::Feed::write_in_parts).
    pub gatherers: usize,
    /// How long a block's commands may take, from when they are enqueued or the block before it came back. A device
    /// that takes longer is held to be hung, and gets no more blocks.
    pub limit: Duration,
}

/// More than any block takes on a device that works, a slow one that others use too included.
const LIMIT: Duration = Duration::from_secs(120);

/// A pipeline uses a handful.
const PROGRAMS_MAX: usize = 64;

/// The limit in seconds, of the devices of the process.
const LIMIT_NAME: &str = "BOXWORK_DEVICE_SECONDS";

/// The most memory to use on each of them, and to pin for them, in megabytes.
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
    /// Those of the devices of the process, by what its environment says, and what is wrong with that.
    pub(super) fn of_environment(of: impl Fn(&str) -> Option<String>) -> (Self, Vec<String>) {
        let (limit, warning) = limit_of(of(LIMIT_NAME).as_deref());
        let mut warnings = Vec::from_iter(warning);
        let mut bytes = |name: &str| {
            let given = of(name)?;
            let bytes = given.parse::<u64>().ok().and_then(|mega| mega.checked_mul(1_000_000));
            if bytes.is_none() {
                warnings.push(format!("{name}={given} is no number of megabytes; it is taken as not set"));
            }
            bytes
        };
        let (memory_bytes, pinned_bytes) = (bytes(MEMORY_NAME), bytes(PINNED_NAME));
        debug_assert!(!limit.is_zero(), "a device would be held to be hung at once");
        (Self { limit, memory_bytes, pinned_bytes, ..Self::default() }, warnings)
    }
}

/// Threads that gather for one block on a machine of so many cores: half of them, and eight at most. Two feeding threads are
/// rarely at it at once; where they are, the scheduler lends no more slots than there are.
fn gatherers_of(cores: usize) -> usize {
    (cores / 2).clamp(1, 8)
}

/// The limit that a person has set, or the usual one and what is wrong with the one that is set.
fn limit_of(given: Option<&str>) -> (Duration, Option<String>) {
    let Some(given) = given else { return (LIMIT, None) };
    let limit = given.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match limit.filter(|limit| !limit.is_zero()) {
        Some(limit) => (limit, None),
        None => {
            let usual = LIMIT.as_secs();
            (LIMIT, Some(format!("{LIMIT_NAME}={given} is no number of seconds above 0; {usual} are taken")))
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
