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
use super::nearest_vectors::on_device::{Scan, Sized};
use crate::columns;
use crate::devices::code_path;
use crate::resources::device_parameter;
use crate::search::scan_lists::{DEVICE_OBJECTS_MIN, LISTS, query_vectors};

/// Queries that a slot compares with the centroids, or ranks, at a time.
const QUERIES_AT_ONCE: usize = 64;

/// The most rows of an envelope.
const ENVELOPE_ROWS: usize = 1 << 14;

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
        found: Vec::new(),
        next: 0,
    }))
}

/// A query, and the distance of a list that it looks into.
type Found = (u32, f64, u32);

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
    /// Those of the last envelopes, and the first that is not given yet.
    found: Vec<Found>,
    next: usize,
}

/// Queries that devices compare with the centroids.
struct OnDevices {
    numbers: Vec<u32>,
    vectors: Vec<f32>,
    scan: Scan,
}

impl Operator for Probe {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.next == self.found.len() && self.scan.is_none() {
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
            let found = self.scan.take().map(|on_devices| self.ranked(cx, on_devices)).transpose()?;
            (self.found, self.next) = (found.unwrap_or_default(), 0);
        }
        self.give(cx)
    }
}

impl Probe {
    /// Gives what there is room for: a request of many queries with many lists each has more rows than an envelope.
    fn give(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while self.next < self.found.len() {
            if !cx.has_room(PROBES) {
                return Ok(Flow::Wait);
            }
            let rows = &self.found[self.next..self.found.len().min(self.next + ENVELOPE_ROWS)];
            self.next += rows.len();
            let columns: [(&str, ArrayRef); 3] = [
                ("query", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.0)))),
                ("list", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.2)))),
                ("distance", Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.1)))),
            ];
            if cx.push(PROBES, Envelope::from_columns(columns)?)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::More)
    }

    /// Finds the lists of some queries on slots, or hands the queries over to devices.
    fn begin(&mut self, cx: &mut Context<'_>, envelopes: &[Envelope]) -> Result<(), BoxError> {
        let dimensions = self.lists.quantizers().dimensions();
        let (numbers, mut vectors) = query_vectors(envelopes, dimensions)?;
        self.lists.prepare(&mut vectors);
        let are_many = self.is_asked || numbers.len().saturating_mul(self.lists.count()) >= PAIRS_MIN;
        if are_many && self.probes <= K_MAX {
            let each = vectors.chunks_exact(dimensions).map(<[f32]>::to_vec).collect();
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
        (self.found, self.next) = (rows(&numbers, pieces.into_iter().flat_map(|(_, nearest)| nearest)), 0);
        Ok(())
    }

    /// Ranks what devices have left of the lists.
    fn ranked(&self, cx: &mut Context<'_>, on_devices: OnDevices) -> Result<Vec<Found>, BoxError> {
        let OnDevices { numbers, vectors, scan } = on_devices;
        let (lists, probes, dimensions) = (&*self.lists, self.probes, self.lists.quantizers().dimensions());
        let mut each: Vec<(Candidates, Vec<(f64, u32)>)> =
            scan.into_found().into_iter().map(|found| (found, Vec::new())).collect();
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut each, QUERIES_AT_ONCE, |first, each| {
                for (query, (found, nearest)) in (first..).zip(each).filter(|_| !cancelled()) {
                    let Parted { known, rest } = found.take().into_parted();
                    let vector = &vectors[query * dimensions..][..dimensions];
                    *nearest = lists.nearest_among(vector, known, rest, probes);
                }
            });
        });
        ask(&|| cx.is_cancelled())?;
        cx.count("centroids compared on devices", (numbers.len() * lists.count()) as u64);
        Ok(rows(&numbers, each.into_iter().map(|(_, nearest)| nearest)))
    }
}

/// The rows to give.
fn rows(numbers: &[u32], nearest: impl Iterator<Item = Vec<(f64, u32)>>) -> Vec<Found> {
    let of_query = |(query, lists): (&u32, Vec<(f64, u32)>)| {
        let query = *query;
        lists.into_iter().map(move |(distance, list)| (query, distance, list))
    };
    numbers.iter().zip(nearest).flat_map(of_query).collect()
}

#[cfg(test)]
mod tests;
