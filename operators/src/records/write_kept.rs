//! `write_kept`: the end of an extraction that continues where an interrupted one was.
//!
//! Invariants: an object that came is in the partial file before the next one is taken; the store has the objects in the
//! order of the list, from whichever run they are, and appears whole or not at all; the partial file goes when it has.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use super::SOURCE;
use crate::columns;
use crate::images::extract::{PARAMETERS_NOTE, noted_alpha};
use crate::images::skip_kept::PARTIAL;
use crate::resources::partial::{Kept, Partial, SharedPartial};
use boxwork_stores::any_kind::{self, AnyKind, AnyWriter};
use boxwork_stores::signature_store::{StoreError, StoreInfo};

const OBJECTS: In = In::stream(0, "objects", columns::signatures, "the objects that this run has made");
const LISTED: In = In::side(1, "listed", columns::listed, "all files, in the order of the store");

/// Objects that one firing puts into the store.
const OBJECTS_PER_FIRING: usize = 4096;
/// Chunks that are kept in memory, as objects of two runs may alternate.
const CHUNKS_MAX: usize = 8;

/// Writes signatures to a partial file, and at the end to a store, together with those of an interrupted run.
///
/// # Inputs
/// `objects`: the objects that this run has made; no two of one name. `listed`: all files, in the order of the store.
///
/// # Outputs
/// None.
///
/// # Parameters
/// `out`: the file to write. `source`: the folder that the names are paths in. `alpha`: the alpha of searches that name
/// none; when not given, what came with the signatures. `partial`: what an interrupted run has done.
pub static WRITE_KEPT: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new("out", ParameterType::Path, Default::Required, "the file to write"),
        SOURCE,
        Parameter::new(
            "alpha",
            ParameterType::Positive,
            Default::Absent,
            "the alpha of searches that name none; when not given, what came with the signatures",
        ),
        PARTIAL,
    ],
    inputs: &[OBJECTS, LISTED],
    example: "store: {kind: write_kept, out: photos.signatures.arrow, partial: partial}",
    ..OperatorSpec::new("write_kept", "Writes objects of several runs to a store.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let source = bind.get_text("source").map(std::path::absolute).transpose()?;
    Ok(Box::new(WriteKept {
        out: bind.path("out"),
        info: StoreInfo { parameters: None, alpha: bind.get_number("alpha"), source },
        kind: any_kind::named("signatures").map_err(BoxError::new)?,
        shared: bind.resource("partial")?,
        listed: None,
        made: HashMap::new(),
        next: 0,
        chunks: VecDeque::new(),
        writer: None,
    }))
}

struct WriteKept {
    out: PathBuf,
    info: StoreInfo,
    kind: &'static dyn AnyKind,
    shared: Arc<SharedPartial>,
    /// Names, sizes and times of all files, and their places by name.
    listed: Option<Listed>,
    /// The objects of this run.
    made: HashMap<String, Kept>,
    /// The next file of the list whose object goes to the store.
    next: usize,
    chunks: VecDeque<(u64, RecordBatch)>,
    writer: Option<Box<dyn AnyWriter>>,
}

impl Operator for WriteKept {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.listed.is_none() {
            self.listed = Some(listed(cx.side(LISTED))?);
        }
        let cancelled = cx.cancelled();
        let shared = Arc::clone(&self.shared);
        let partial = cx.detached("disk", || shared.get(&cancelled))??;
        while let Some(envelope) = cx.take(OBJECTS) {
            cx.detached("disk", || self.keep(&partial, &envelope))??;
            cx.progress(self.made.len() as u64, 0);
        }
        if !cx.is_ended(OBJECTS) {
            return Ok(Flow::Wait);
        }
        let total = self.listed.as_ref().map_or(0, |listed| listed.0.len());
        if self.next < total {
            cx.detached("disk", || self.write(&partial))??;
            return Ok(Flow::More);
        }
        let writer = self.writer.take().ok_or_else(|| StoreError::Empty { path: self.out.clone() })?;
        let count = cx.detached("disk", || writer.finish())??;
        partial.is_over();
        cx.progress(count, count);
        Ok(Flow::Done)
    }
}

/// Names, sizes and times of files, and the places of the names.
type Listed = (Vec<(String, u64, u64)>, HashMap<String, usize>);

fn listed(envelopes: &[Envelope]) -> Result<Listed, BoxError> {
    let mut list = Vec::new();
    for envelope in envelopes {
        let (names, bytes) = (envelope.texts("name")?, envelope.u64s("bytes")?);
        for (row, modified) in envelope.u64s("modified")?.iter().enumerate() {
            list.push((names.value(row).to_owned(), bytes[row], *modified));
        }
    }
    let places = list.iter().enumerate().map(|(place, file)| (file.0.clone(), place)).collect();
    Ok((list, places))
}

impl WriteKept {
    /// Puts the objects of an envelope into the partial file.
    fn keep(&mut self, partial: &Partial, envelope: &Envelope) -> Result<(), BoxError> {
        if envelope.rows() == 0 {
            return Ok(());
        }
        let Some((list, places)) = &self.listed else { return Ok(()) };
        let names = envelope.texts("name")?;
        let of = |name: &str| places.get(name).map_or((0, 0), |place| (list[*place].1, list[*place].2));
        let stats: Vec<(u64, u64)> = names.iter().map(|name| of(name.unwrap_or_default())).collect();
        let mut fields: Vec<_> = envelope.schema().fields().iter().cloned().collect();
        let mut columns = envelope.batch().columns().to_vec();
        for (name, values) in [
            ("bytes", UInt64Array::from_iter_values(stats.iter().map(|stat| stat.0))),
            ("modified", UInt64Array::from_iter_values(stats.iter().map(|stat| stat.1))),
        ] {
            fields.push(Arc::new(Field::new(name, DataType::UInt64, false)));
            columns.push(Arc::new(values) as ArrayRef);
        }
        let schema = Schema::new_with_metadata(fields, envelope.schema().metadata().clone());
        let chunk = partial.push(&RecordBatch::try_new(Arc::new(schema), columns)?)?;
        for (row, name) in names.iter().flatten().enumerate() {
            let (bytes, modified) = stats[row];
            if self.made.insert(name.to_owned(), Kept { bytes, modified, chunk, row }).is_some() {
                let (path, name) = (self.out.clone(), name.to_owned());
                return Err(StoreError::DuplicateName { path, name }.into());
            }
        }
        Ok(())
    }

    /// Puts objects into the store: the next ones of the list.
    fn write(&mut self, partial: &Partial) -> Result<(), BoxError> {
        let Some((list, _)) = self.listed.take() else { return Ok(()) };
        let upto = list.len().min(self.next + OBJECTS_PER_FIRING);
        // Neighbours of one chunk go together.
        let mut run: Option<(u64, usize, usize)> = None;
        for (name, bytes, modified) in &list[self.next..upto] {
            // A picture without an object could not be read.
            let kept = self.made.get(name).copied().or_else(|| partial.kept(name, *bytes, *modified));
            let Some(Kept { chunk, row, .. }) = kept else { continue };
            match &mut run {
                Some((of, _, end)) if (*of, *end) == (chunk, row) => *end += 1,
                _ => {
                    self.push(partial, run.replace((chunk, row, row + 1)))?;
                }
            }
        }
        self.push(partial, run)?;
        self.next = upto;
        self.listed = Some((list, HashMap::new()));
        Ok(())
    }

    fn push(&mut self, partial: &Partial, run: Option<(u64, usize, usize)>) -> Result<(), BoxError> {
        let Some((chunk, first, end)) = run else { return Ok(()) };
        if !self.chunks.iter().any(|(place, _)| *place == chunk) {
            self.chunks.truncate(CHUNKS_MAX - 1);
            self.chunks.push_front((chunk, partial.objects(chunk)?));
        }
        let Some((_, batch)) = self.chunks.iter().find(|(place, _)| *place == chunk) else { return Ok(()) };
        let column = |name: &&str| {
            let column = batch.column_by_name(name).map(|column| column.slice(first, end - first));
            column.ok_or_else(|| {
                BoxError::new(format!("the objects of an earlier run have no column `{name}`"))
            })
        };
        let names = column(&"name")?;
        let names = names
            .as_any()
            .downcast_ref::<StringArray>()
            .ok_or_else(|| BoxError::new("names are no texts"))?;
        let columns = self.kind.column_names().iter().map(column).collect::<Result<Vec<_>, _>>()?;
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                self.info.parameters = batch.schema_ref().metadata().get(PARAMETERS_NOTE).cloned();
                self.info.alpha = self.info.alpha.or_else(|| noted_alpha(batch.schema_ref()));
                let writer = self.kind.create(&self.out, &columns, &self.info);
                self.writer
                    .insert(writer.ok_or_else(|| BoxError::new("the objects that came are no signatures"))??)
            }
        };
        Ok(writer.push_rows(names, &columns)?)
    }
}
