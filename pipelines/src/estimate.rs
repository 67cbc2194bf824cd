//! The part of `boxwork explain` that opens files: the estimated work of a scan and of a search by an index, by bound.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use boxwork_operators::cost_model::{self, Estimate, OnDevices, Search};
use boxwork_operators::{distance_options, open_store};
use boxwork_runtime::feeding::LazyDevices;
use boxwork_runtime::operator::ResourceSpec;
use boxwork_runtime::parameter::{Arguments, DeviceChoice, Value};
use boxwork_runtime::plan::Plan;
use boxwork_stores::object_store::Access;
use boxwork_stores::pivot_table::PivotTable;
use boxwork_stores::spaces;
use serde_json::{Value as Json, json};

/// The estimated work of a search, and its distance.
pub struct Estimated {
    /// The distance and the origin of its alpha, for users.
    pub distance: String,
    /// The work.
    pub estimate: Estimate,
}

/// Estimates the search of a plan, for its box that bounds distances; `None` if it has none, or their values are
/// unknown.
///
/// # Errors
/// A sentence: a file cannot be read, or the index does not fit this store and measure.
pub fn estimate(
    plan: &Plan,
    values: &BTreeMap<String, Value>,
    workers: usize,
    devices: &LazyDevices,
) -> Result<Option<Estimated>, String> {
    let Some(bounds) = plan.boxes.iter().find(|planned| planned.spec.name == "lower_bounds") else {
        return Ok(None);
    };
    let resource = |family: &str| {
        let is_of = |spec: &ResourceSpec| spec.name == family || spec.provides == Some(family);
        let found = plan.resources.iter().find(|resource| is_of(resource.spec));
        found.and_then(|resource| resource.arguments.as_ref())
    };
    let resources = ["store", "space", "pivot_table"].map(resource);
    let ([Some(store), Some(space), Some(pivots)], Some(bounds)) = (resources, bounds.arguments.as_ref())
    else {
        return Ok(None);
    };
    let (Some(path), Some(pivots)) = (text(store, "path"), text(pivots, "path")) else { return Ok(None) };
    let (column, name) = (text(store, "column"), text(store, "name").unwrap_or("name"));
    let store = open_store(Path::new(path), column, name, None, Access::Map, None).map_err(error_text)?;
    let space = spaces::open(&distance_options(space, None), store).map_err(error_text)?;
    let distance = spaces::in_words(&*space);
    let table = PivotTable::open(pivots, space).map_err(error_text)?;
    let queries = match values.get("queries") {
        Some(Value::List(queries)) => queries.len().max(1),
        _ => 1,
    };
    let k = match bounds.get("k") {
        Some(Value::Integer(k)) => usize::try_from(*k).ok(),
        _ => None,
    };
    let range = match bounds.get("range") {
        Some(Value::Number(range)) => Some(*range),
        _ => None,
    };
    let computing = plan.boxes.iter().find(|planned| ["distance", "sqfd"].contains(&&*planned.spec.name));
    let device = computing.and_then(|planned| text(planned.arguments.as_ref()?, "device"));
    let device: DeviceChoice = device.and_then(|text| text.parse().ok()).unwrap_or(DeviceChoice::Auto);
    let devices = OnDevices::picked(devices, &device, table.len());
    let search = Search { k, range, queries, workers, devices };
    let estimate = cost_model::estimate(&table, search).map_err(error_text)?;
    Ok(Some(Estimated { distance, estimate }))
}

fn text<'a>(arguments: &'a Arguments, name: &str) -> Option<&'a str> {
    match arguments.get(name) {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    }
}

fn error_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The estimate for users.
pub fn text_of(estimated: &Estimated) -> String {
    let Estimated { distance, estimate } = estimated;
    let Search { k, range, queries, workers, devices } = estimate.search;
    let wanted = match (k, range) {
        (Some(k), Some(range)) => format!("the {k} nearest within {range}"),
        (Some(k), None) => format!("the {k} nearest"),
        (None, range) => format!("all within {}", range.unwrap_or(f64::INFINITY)),
    };
    let mut page = format!(
        "estimate: {wanted} of {} objects, for {queries} quer{} on {workers} worker{}\n",
        estimate.objects,
        if queries == 1 { "y" } else { "ies" },
        if workers == 1 { "" } else { "s" },
    );
    let _ = writeln!(page, "  distance: {distance}");
    let rates = &estimate.rates;
    // An answer of all objects has no estimated end.
    let farthest = match estimate.farthest {
        farthest if farthest.is_finite() => {
            format!("; the farthest of an answer is about {farthest:.3} away")
        }
        _ => String::new(),
    };
    let _ = writeln!(
        page,
        "  by {} bounds of sampled objects; a distance takes {} in a scan, {} picked out, {} in f64 ({} pivots){}",
        estimate.sampled,
        time(rates.scan_ns * 1e-9),
        time(rates.picked_ns * 1e-9),
        time(rates.exact_ns * 1e-9),
        rates.pivots,
        farthest,
    );
    if let Some(OnDevices { count, rate, is_measured }) = devices {
        let (gpus, known) =
            (if count == 1 { "GPU" } else { "GPUs" }, if is_measured { "measured" } else { "assumed" });
        let _ =
            writeln!(page, "  distances are computed on {count} {gpus}, {rate:.1e} in a second ({known})");
    }
    page.push('\n');
    let head = ["strategy", "bound", "a bound", "left", "distances a query", "computing"].map(str::to_owned);
    let mut rows = vec![head];
    let choice = estimate.choice();
    for way in &estimate.ways {
        rows.push([
            way.strategy.to_owned(),
            way.bound.map_or("none".to_owned(), |bound| bound.to_string()),
            if way.bound.is_some() { format!("{:.1} ns", way.bound_ns) } else { String::new() },
            format!("{:.0}", way.candidates),
            format!("{:.0}", way.distances),
            time(way.seconds) + if *way == choice.way { "  <- auto" } else { "" },
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..6).map(width).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
            0 | 1 | 5 => format!("{cell:width$}"),
            _ => format!("{cell:>width$}"),
        });
        let _ = writeln!(page, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    let bound = choice.way.bound.map_or("no bounds".to_owned(), |bound| format!("{bound} bounds"));
    let _ = writeln!(page, "\nauto takes {} with {bound}: {}", choice.way.strategy, choice.reason);
    page
}

/// The estimate for programs.
pub fn json_of(estimated: &Estimated) -> Json {
    let Estimated { distance, estimate } = estimated;
    let Search { k, range, queries, workers, devices } = estimate.search;
    let devices = devices.map(
        |devices| json!({"count": devices.count, "rate": devices.rate, "is_measured": devices.is_measured}),
    );
    let way = |way: &cost_model::Way| {
        json!({
            "strategy": way.strategy, "bound": way.bound.map(|bound| bound.to_string()), "bound_ns": way.bound_ns,
            "candidates": way.candidates, "distances": way.distances, "seconds": way.seconds,
        })
    };
    let choice = estimate.choice();
    json!({
        "distance": distance, "objects": estimate.objects, "k": k, "range": range, "queries": queries, "workers": workers,
        "devices": devices,
        "sampled": estimate.sampled, "farthest": estimate.farthest,
        "scan_ns": estimate.rates.scan_ns, "picked_ns": estimate.rates.picked_ns,
        "exact_ns": estimate.rates.exact_ns, "pivots": estimate.rates.pivots,
        "ways": estimate.ways.iter().map(way).collect::<Vec<_>>(),
        "auto": way(&choice.way), "reason": choice.reason,
    })
}

/// A time with a suitable unit.
fn time(seconds: f64) -> String {
    match seconds {
        _ if seconds >= 1.0 => format!("{seconds:.2} s"),
        _ if seconds >= 1e-3 => format!("{:.2} ms", seconds * 1e3),
        _ if seconds >= 1e-6 => format!("{:.2} us", seconds * 1e6),
        _ => format!("{:.0} ns", seconds * 1e9),
    }
}
