//! `stat_files` and `skip_kept`: the files that an interrupted extraction has left to do.
//!
//! Invariants: rows keep their order. `skip_kept` takes all files before it gives the first, so that a box which waits for
//! the whole list cannot stop it.

use std::collections::VecDeque;
use std::fs;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use arrow_array::{ArrayRef, UInt64Array};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use super::skip_present::rest_of;
use crate::columns;
use crate::resources::partial::SharedPartial;

const FILES: In = In::stream(0, "files", columns::files, "the files that were listed");
const LISTED: Out = Out::new(0, "listed", columns::listed, "the files with their sizes and times");
const LISTED_IN: In = In::stream(0, "listed", columns::listed, "all files");
const REST: Out = Out::new(0, "files", columns::files, "those that are not done");

/// The parameter of boxes that share a partial file.
pub(crate) const PARTIAL: Parameter = Parameter::new(
    "partial",
    ParameterType::Resource("partial"),
    Default::Required,
    "what an interrupted run has done",
);

/// Looks up the size and the time of each file.
///
/// A file that cannot be looked at gets zeros: the box that reads it reports the reason.
///
/// # Inputs
/// `files`: paths and names.
///
/// # Outputs
/// `listed`: the files with their bytes, and the time of their last change in nanoseconds since 1970.
///
/// # Parameters
/// None.
pub static STAT_FILES: OperatorSpec = OperatorSpec {
    inputs: &[FILES],
    outputs: &[LISTED],
    example: "listed: {kind: stat_files}",
    ..OperatorSpec::new("stat_files", "Looks up sizes and times of files.", Kind::Stateful, |_| {
        Ok(Box::new(StatFiles))
    })
};

struct StatFiles;

impl Operator for StatFiles {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(LISTED) {
            let Some(files) = cx.take(FILES) else {
                return Ok(if cx.is_ended(FILES) { Flow::Done } else { Flow::Wait });
            };
            let paths = files.texts("path")?;
            let stats: Vec<(u64, u64)> =
                cx.detached("disk", || paths.iter().flatten().map(stat).collect())?;
            let column = |of: fn(&(u64, u64)) -> u64| -> ArrayRef {
                Arc::new(UInt64Array::from_iter_values(stats.iter().map(of)))
            };
            let listed = Envelope::from_columns([
                ("path", Arc::clone(files.column("path")?)),
                ("name", Arc::clone(files.column("name")?)),
                ("bytes", column(|stat| stat.0)),
                ("modified", column(|stat| stat.1)),
            ])?;
            if cx.push(LISTED, listed)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Wait)
    }
}

fn stat(path: &str) -> (u64, u64) {
    let Ok(found) = fs::metadata(path) else { return (0, 0) };
    let since = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    (found.len(), since.map_or(0, |since| since.as_nanos() as u64))
}

/// Leaves out files whose objects an interrupted run has made.
///
/// An object counts if its file has the name, the size and the time of that run. A note says how many there are.
///
/// # Inputs
/// `listed`: the files with their sizes and times.
///
/// # Outputs
/// `files`: those that are left to do.
///
/// # Parameters
/// `partial`: what the interrupted run has done.
pub static SKIP_KEPT: OperatorSpec = OperatorSpec {
    parameters: &[PARTIAL],
    inputs: &[LISTED_IN],
    outputs: &[REST],
    example: "left: {kind: skip_kept, partial: partial}",
    ..OperatorSpec::new(
        "skip_kept",
        "Leaves out files that an interrupted run has done.",
        Kind::Stateful,
        make,
    )
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let partial = bind.resource("partial")?;
    Ok(Box::new(SkipKept { partial, rest: VecDeque::new(), kept: 0, listed: 0, has_told: false }))
}

struct SkipKept {
    partial: Arc<SharedPartial>,
    rest: VecDeque<Envelope>,
    kept: usize,
    listed: usize,
    has_told: bool,
}

impl Operator for SkipKept {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let cancelled = cx.cancelled();
        let shared = Arc::clone(&self.partial);
        let partial = cx.detached("disk", || shared.get(&cancelled))??;
        while let Some(listed) = cx.take(LISTED_IN) {
            let (bytes, modified) = (listed.u64s("bytes")?, listed.u64s("modified")?);
            let mut row = 0;
            let rest = rest_of(&listed, |name| {
                row += 1;
                Ok(partial.kept(name, bytes[row - 1], modified[row - 1]).is_some())
            })?;
            self.listed += listed.rows();
            self.kept += listed.rows() - rest.rows();
            self.rest.extend((rest.rows() > 0).then_some(rest));
        }
        if !cx.is_ended(LISTED_IN) {
            return Ok(Flow::Wait);
        }
        if !std::mem::replace(&mut self.has_told, true) {
            self.tell(cx, partial.was_damaged);
        }
        while cx.has_room(REST) {
            let Some(rest) = self.rest.pop_front() else { return Ok(Flow::Done) };
            if cx.push(REST, rest)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Wait)
    }
}

impl SkipKept {
    /// Says what is there.
    fn tell(&self, cx: &mut Context<'_>, was_damaged: bool) {
        if was_damaged {
            cx.note("the end of what an interrupted run has done is damaged, and is done again");
        }
        if self.kept > 0 {
            cx.note(format!("continues: {} of {} images were there", self.kept, self.listed));
        }
    }
}
