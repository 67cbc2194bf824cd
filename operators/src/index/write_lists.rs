//! `write_lists`: writes the lists of a store to disk, at the end of `boxwork lists`.
//!
//! Invariant: the file appears under its name when all objects have come, or not at all.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use boxwork_kernels::memory::more;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::lists::{Assigned, write};
use boxwork_stores::space::Space;

use super::assign_lists::{QUANTIZERS, quantizers};
use crate::columns;
use crate::resources::{self, SPACE};

const ASSIGNED: In =
    In::stream(0, "assigned", columns::assigned, "the lists and codes of all objects, in order");

/// Writes the lists of all objects of a store.
///
/// # Inputs
/// `assigned`: all objects, in the order of the store. `quantizers` (side): by which they were assigned.
///
/// # Outputs
/// None.
///
/// # Parameters
/// `space`: vectors, and the distance l2, ip or cosine. `out`: the file to write.
pub static WRITE_LISTS: OperatorSpec = OperatorSpec {
    parameters: &[
        SPACE,
        Parameter::new(
            "out",
            ParameterType::Path,
            Default::Required,
            "the file to write, by custom `NAME.lists.arrow`",
        ),
    ],
    inputs: &[ASSIGNED, QUANTIZERS],
    example: "file: {kind: write_lists, space: space, out: vectors.lists.arrow}",
    ..OperatorSpec::new("write_lists", "Writes the lists of a store to a file.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let (space, out) = (resources::space(bind)?, bind.path("out"));
    Ok(Box::new(WriteLists { space, out, assigned: Assigned::default() }))
}

struct WriteLists {
    space: Arc<dyn Space>,
    out: PathBuf,
    assigned: Assigned,
}

impl Operator for WriteLists {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let objects = self.space.store().objects_count();
        while let Some(envelope) = cx.take(ASSIGNED) {
            self.take(&envelope)?;
            cx.progress((self.assigned.ids.len() as u64).min(objects), objects);
        }
        if !cx.is_ended(ASSIGNED) {
            return Ok(Flow::Wait);
        }
        if !cx.is_cancelled() {
            let (quantizers, cancelled) = (quantizers(cx)?, cx.cancelled());
            for (what, number) in sizes(&self.assigned, quantizers.lists()) {
                cx.figure(what, number);
            }
            cx.detached("disk", || write(&self.out, &self.space, &quantizers, &self.assigned, &cancelled))??;
        }
        Ok(Flow::Done)
    }
}

/// The number of lists, and how many vectors they hold.
fn sizes(assigned: &Assigned, lists: usize) -> [(&'static str, f64); 4] {
    let mut sizes = vec![0_u64; lists];
    assigned.lists.iter().for_each(|list| sizes[*list as usize] += 1);
    let of = |size: Option<u64>| size.unwrap_or(0) as f64;
    [
        ("lists", lists as f64),
        ("smallest list", of(sizes.iter().copied().min())),
        ("mean list", assigned.lists.len() as f64 / lists.max(1) as f64),
        ("largest list", of(sizes.iter().copied().max())),
    ]
}

impl WriteLists {
    fn take(&mut self, envelope: &Envelope) -> Result<(), BoxError> {
        let what = || "the lists of all objects".to_owned();
        let (rows, advice) = (envelope.rows(), "free memory");
        let codes = envelope.column("code")?.as_binary::<i32>();
        let codes = (0..rows).flat_map(|row| codes.value(row)).copied();
        more(&mut self.assigned.ids, rows, what, advice)?;
        more(&mut self.assigned.lists, rows, what, advice)?;
        self.assigned.ids.extend_from_slice(envelope.u64s("id")?);
        self.assigned.lists.extend_from_slice(envelope.u32s("list")?);
        self.assigned.codes.extend(codes);
        Ok(())
    }
}
