//! A run's outputs beside its results: the figures during the run, the trace and the report at its end.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::net::SocketAddr;
use std::path::Path;

use boxwork_stores::signature_store::TemporaryFile;

use super::{Exit, Run, say};
use crate::pipeline::Loaded;
use crate::run_report::RunReport;
use crate::{metrics, trace};

/// Binds the address of the figures, and prints it.
pub(super) fn listen(address: SocketAddr) -> Result<metrics::Bound, Exit> {
    let bound = metrics::Bound::new(address).map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::AddrInUse => "; is another run there? choose another port, or 0 for any that is free",
            ErrorKind::PermissionDenied => "; ports from 1024 on are free to use",
            _ => "",
        };
        say(format_args!("error: the figures cannot be served at {address}: {error}{hint}"));
        Exit::Failed
    })?;
    say(format_args!("metrics: http://{}{}", bound.address(), metrics::PATH));
    if !bound.address().ip().is_loopback() {
        say(format_args!("metrics: anyone who reaches this machine at that port can read them"));
    }
    Ok(bound)
}

impl Run<'_> {
    /// Writes the requested files; the run fails if one cannot be written.
    pub(super) fn write_files(&self, loaded: &Loaded, mut exit: Exit) -> Exit {
        let mut told = |what: &str, path: &Path, written: io::Result<()>| {
            if let Err(error) = written {
                say(format_args!("error: the {what} {} cannot be written: {error}", path.display()));
                exit = Exit::Failed;
            }
        };
        if let Some(path) = &self.options.trace {
            told("trace", path, self.write_trace(path));
        }
        if let Some(path) = &self.options.report {
            told("report", path, self.write_report(path, loaded));
        }
        exit
    }

    fn write_trace(&self, path: &Path) -> io::Result<()> {
        // All requests have the edges of one plan.
        let edges = self.ended.outcomes.first().map_or(&[][..], |outcome| &outcome.edges);
        let edges: Vec<String> = edges.iter().map(|edge| format!("{} -> {}", edge.from, edge.to)).collect();
        let runtime = self.engine.runtime();
        let events = runtime.take_trace();
        let recorded = trace::Recorded { events: &events, topology: runtime.topology(), edges: &edges };
        write_whole(path, |out| trace::write(out, &recorded))
    }

    fn write_report(&self, path: &Path, loaded: &Loaded) -> io::Result<()> {
        let (scheduler, devices) = (self.engine.runtime().statistics(), self.options.devices.statistics());
        let report =
            RunReport::new(loaded.name(), &self.ended.outcomes, &scheduler, devices, self.ended.elapsed);
        write_whole(path, |out| {
            serde_json::to_writer_pretty(&mut *out, &report)?;
            writeln!(out)
        })
    }
}

/// Writes a file atomically; a device or a pipe is written directly.
fn write_whole(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
        let mut out = BufWriter::new(File::options().write(true).open(path)?);
        write(&mut out)?;
        return out.flush();
    }
    let mut out = BufWriter::new(TemporaryFile::create(path)?);
    write(&mut out)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.keep()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_whose_writer_fails_is_as_it_was_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        let half = |out: &mut dyn Write| {
            out.write_all(&[b'x'; 100_000])?;
            Err(ErrorKind::StorageFull.into())
        };
        assert!(write_whole(&path, half).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        write_whole(&path, |out| out.write_all(b"whole")).unwrap();
        assert!(write_whole(&path, half).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write_whole(folder.path(), |out| out.write_all(b"whole")).is_err());
        write_whole(Path::new("/dev/null"), |out| out.write_all(b"whole")).unwrap();
    }
}
