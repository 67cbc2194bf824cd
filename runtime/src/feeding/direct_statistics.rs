//! Counts of the commands of a thread that drives a device itself, and their times.

use std::fmt;

/// The commands of [`Direct`](super::Direct).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DirectStatistics {
    /// Kernels launched.
    pub launches: u64,
    /// Buffers mapped, so that the host may use them.
    pub maps: u64,
    /// Buffers unmapped.
    pub unmaps: u64,
    /// Time of the host in maps and unmaps, in nanoseconds.
    pub map_ns: u64,
    /// Bytes copied to the device and from it.
    pub copied_bytes: u64,
    /// Time from enqueuing a kernel to its submission to the device, of all together, in nanoseconds.
    pub queued_ns: u64,
    /// Time from submission to the start, in nanoseconds.
    pub submitted_ns: u64,
    /// Time of running, in nanoseconds.
    pub running_ns: u64,
}

impl DirectStatistics {
    /// Adds those of other commands.
    pub fn add(&mut self, more: &Self) {
        self.launches += more.launches;
        self.maps += more.maps;
        self.unmaps += more.unmaps;
        self.map_ns += more.map_ns;
        self.copied_bytes += more.copied_bytes;
        self.queued_ns += more.queued_ns;
        self.submitted_ns += more.submitted_ns;
        self.running_ns += more.running_ns;
    }
}

impl fmt::Display for DirectStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ns: u64| ns as f64 / 1e6;
        let Self { launches, maps, unmaps, copied_bytes, .. } = self;
        let (queued, submitted, running) = (ms(self.queued_ns), ms(self.submitted_ns), ms(self.running_ns));
        write!(
            f,
            "{launches} launches (queued {queued:.1} ms, submitted {submitted:.1} ms, running {running:.1} ms), "
        )?;
        write!(f, "{maps} maps and {unmaps} unmaps in {:.2} ms, {copied_bytes} bytes copied", ms(self.map_ns))
    }
}
