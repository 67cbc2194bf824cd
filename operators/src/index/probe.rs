//! `probe`: the lists nearest to each query.
//!
//! Devices compare many queries with all centroids, and slots rank what these leave; for few queries slots do all of it.
//!
//! Invariant: the lists and distances are those that slots find, whatever devices do.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, UInt32Array};
use boxwork_kernels::interrupt::ask;
use boxwork_kernels::vector::device::{K_MAX, Plan};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::Picked;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Default, DeviceChoice, Parameter, ParameterType};
use boxwork_stores::lists::Lists;

use super::nearest_vectors::Shared;
use super::nearest_vectors::candidates::{Candidates, Parted};
use super::nearest_vectors::numbers::Numbers;
use super::nearest_vectors::on_device::{Scan, Sized};
use crate::columns;
use crate::devices::code_path;
use crate::envelopes::Envelopes;
use crate::resources::device_parameter;
use crate::search::answers::ByQuery;
use crate::search::scan_lists::{DEVICE_OBJECTS_MIN, LISTS, query_vectors};

/// Queries that a slot compares with the centroids, or ranks, at a time.
const QUERIES_AT_ONCE: usize = 64;

/// The most rows of an envelope: slots make several at a time.
const ENVELOPE_ROWS: usize = 1 << 13;

/// Fewer pairs of a query and a centroid are left to slots, unless the user asks for the devices.
const PAIRS_MIN: usize = 1 << 20;

const QUERIES: In = In::stream(0, "queries", columns::queries, "the queries");
const PROBES: Out = Out::new(0, "probes", columns::probes, "the lists to look into for each query");

/// Finds the lists whose centroids are nearest to each query.
///
/// # Inputs
/// `queries`: vectors.
///
/// # Outputs
/// `probes`: the lists of each query, the nearest first.
///
/// # Parameters
/// `lists`: the lists. `probes`: how many a query gets; more find more of the answer. `device`: where to compare queries with centroids;
/// the lists are the same everywhere. `auto` leaves few queries to slots, and devices find 2,048 lists of a query at most.
pub static PROBE: OperatorSpec = OperatorSpec {
    parameters: &[
        LISTS,
        Parameter::new(
            "probes",
            ParameterType::integer_from(1),
            Default::Integer(8),
            "lists that a query gets",
        )
        .unit("lists"),
        device_parameter("auto"),
    ],
    inputs: &[QUERIES],
    outputs: &[PROBES],
    code_path: Some(|arguments, devices| {
        let place = code_path::of_device(arguments, devices, DEVICE_OBJECTS_MIN);
        format!("{place}; few queries on slots")
    }),
    share: Some(|bind| {
        let space = bind.resource::<Lists>("lists")?.centroid_space()?;
        Ok(Arc::new(Shared::of_space(&space, None, &|| false)?))
    }),
    example: "probe: {kind: probe, lists: lists, probes: 8}",
    ..OperatorSpec::new("probe", "Finds the lists nearest to each query.", Kind::Stateless, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let (lists, probes) = (bind.resource::<Lists>("lists")?, bind.count("probes"));
    let picked = bind.pick_devices("device", Some(lists.objects()), DEVICE_OBJECTS_MIN)?;
    Ok(Box::new(Probe {
        probes: probes.min(lists.count()),
        lists,
        centroids: bind.shared(),
        picked,
        is_asked: bind.device("device") != DeviceChoice::Auto,
        sized: None,
        slots: bind.slots() as u64,
        scan: None,
        found: None,
    }))
}

struct Probe {
    lists: Arc<Lists>,
    centroids: Arc<Shared>,
    probes: usize,
    /// The devices that may compare queries with centroids.
    picked: Picked,
    /// Whether the user asks for these devices: they then compare however few there are.
    is_asked: bool,
    /// Sizes other than the usual ones, in tests.
    sized: Option<Sized>,
    slots: u64,
    scan: Option<OnDevices>,
    /// The lists of the last envelopes' queries, while some are not given yet.
    found: Option<(ByQuery<u32>, Envelopes)>,
}

/// Queries that devices compare with the centroids.
struct OnDevices {
    numbers: Vec<u32>,
    vectors: Arc<Vec<f32>>,
    scan: Scan,
}

impl Operator for Probe {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.found.is_none() && self.scan.is_none() {
            let envelopes: Vec<Envelope> = std::iter::from_fn(|| cx.take(QUERIES)).collect();
            if envelopes.is_empty() {
                return Ok(if cx.is_ended(QUERIES) { Flow::Done } else { Flow::Wait });
            }
            self.begin(cx, &envelopes)?;
        }
        if let Some(on_devices) = &mut self.scan {
            match on_devices.scan.process(cx)? {
                Flow::Done => {}
                flow => return Ok(flow),
            }
            ask(&|| cx.is_cancelled())?;
            if let Some(on_devices) = self.scan.take() {
                self.found = Some((self.ranked(cx, on_devices)?, Envelopes::default()));
            }
        }
        self.give(cx)
    }
}

impl Probe {
    /// Gives what there is room for: a request of many queries with many lists each has more rows than an envelope.
    fn give(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some((found, envelopes)) = &mut self.found else { return Ok(Flow::More) };
        let sent = envelopes.send_rows(cx, PROBES, (found.len(), ENVELOPE_ROWS), |rows| {
            let rows = found.rows(rows);
            let columns: [(&str, ArrayRef); 3] = [
                ("query", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.0)))),
                ("list", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.1)))),
                ("distance", Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.2)))),
            ];
            Envelope::from_columns(columns)
        })?;
        Ok(match sent {
            None => Flow::Wait,
            Some(Pushed::Closed) => Flow::Done,
            Some(Pushed::Sent) => {
                self.found = None;
                Flow::More
            }
        })
    }

    /// Finds the lists of some queries on slots, or hands the queries over to devices.
    fn begin(&mut self, cx: &mut Context<'_>, envelopes: &[Envelope]) -> Result<(), BoxError> {
        let dimensions = self.lists.quantizers().dimensions();
        let (numbers, mut vectors) = query_vectors(cx, envelopes, dimensions)?;
        self.lists.prepare(&mut vectors);
        let are_many = self.is_asked || numbers.len().saturating_mul(self.lists.count()) >= PAIRS_MIN;
        let vectors = Arc::new(vectors);
        if are_many && self.probes <= K_MAX {
            let each = Numbers::new(dimensions, Arc::clone(&vectors));
            let sized = self.sized.unwrap_or_else(|| Sized::new(Plan::new(self.probes)));
            let scan = Scan::new(&self.centroids, each, (self.probes, self.slots, sized), &self.picked);
            if let Some(scan) = scan {
                self.scan = Some(OnDevices { numbers, vectors, scan });
                return Ok(());
            }
        }
        let (lists, probes) = (&*self.lists, self.probes);
        let pieces = vectors.chunks(QUERIES_AT_ONCE * dimensions);
        let mut pieces: Vec<(&[f32], Vec<_>)> = pieces.map(|vectors| (vectors, Vec::new())).collect();
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut pieces, 1, |_, pieces| {
                for (vectors, nearest) in pieces.iter_mut().filter(|_| !cancelled()) {
                    *nearest = lists.nearest(vectors, probes);
                }
            });
        });
        ask(&|| cx.is_cancelled())?;
        let nearest = pieces.into_iter().flat_map(|(_, nearest)| nearest);
        self.found = Some((by_query(&numbers, nearest), Envelopes::default()));
        Ok(())
    }

    /// Ranks what devices have left of the lists.
    fn ranked(&self, cx: &mut Context<'_>, on_devices: OnDevices) -> Result<ByQuery<u32>, BoxError> {
        let OnDevices { numbers, vectors, scan } = on_devices;
        let (lists, probes, dimensions) = (&*self.lists, self.probes, self.lists.quantizers().dimensions());
        let mut each: Vec<(Candidates, Vec<(f64, u32)>)> =
            scan.into_found().into_iter().map(|found| (found, Vec::new())).collect();
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut each, QUERIES_AT_ONCE, |first, each| {
                for (query, (found, nearest)) in (first..).zip(each).filter(|_| !cancelled()) {
                    let Parted { known, rest, .. } = found.take().into_parted();
                    let vector = &vectors[query * dimensions..][..dimensions];
                    *nearest = lists.nearest_among(vector, known, rest, probes);
                }
            });
        });
        ask(&|| cx.is_cancelled())?;
        cx.count("centroids compared on devices", (numbers.len() * lists.count()) as u64);
        Ok(by_query(&numbers, each.into_iter().map(|(_, nearest)| nearest)))
    }
}

/// The lists of each query.
fn by_query(numbers: &[u32], nearest: impl Iterator<Item = Vec<(f64, u32)>>) -> ByQuery<u32> {
    ByQuery::new(numbers.iter().copied().zip(nearest).collect())
}

#[cfg(test)]
mod tests;
