//! B11, factor: a Cholesky factorisation by tiles, as a chain of boxes and as a graph of tasks within one box.
//!
//! Both fill the same matrix of covariances and factorise it by the same operations on tiles. In the chain each column of tiles is a stage
//! of two boxes and each tile an envelope; in the graph each operation on a tile is a task. A round runs both in turns. The chain's factor
//! must have the bits of the graph's, and the graph's L L^T the entries of the matrix.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use boxwork_lab::bench::{Case, Error, Figures, Measured, Setup, Workload, figures};
use boxwork_operators::cholesky::default_entries;
use boxwork_operators::{catalog, columns};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{BoxError, Catalog, Context, Flow, In, Kind, Mode, Operator, OperatorEntry};
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;
use boxwork_runtime::{Config, Runtime};

use crate::pipeline::load_text;

/// Stages of a chain at most: a plan has a few thousand boxes without trouble.
const COLUMNS_MAX: usize = 1024;
/// Entries of L L^T that are compared with the matrix.
const ENTRIES: usize = 512;

pub(super) static FACTOR: Workload = Workload {
    id: "B11",
    name: "factor",
    question: "What do envelopes cost against tasks, in a Cholesky factorisation by tiles?",
    rounds_max: 11,
    cases: |is_quick| {
        let sizes: &[(usize, usize)] = if is_quick { &[(512, 64)] } else { &[(1024, 32), (4096, 128)] };
        sizes.iter().map(|(rows, tile)| Case::new(&[("rows", rows), ("tile", tile)])).collect()
    },
    open,
};

const TILES: In = In::nth(0);

/// The tiles of a factor, by row and column.
type Factor = BTreeMap<(u32, u32), Envelope>;

/// Takes the tiles of the factor.
struct Collects {
    tiles: Factor,
    into: Arc<Mutex<Factor>>,
}

impl Operator for Collects {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take(TILES) {
            let place = (envelope.u32s("i")?[0], envelope.u32s("j")?[0]);
            self.tiles.insert(place, envelope);
        }
        if !cx.is_ended(TILES) {
            return Ok(Flow::Wait);
        }
        *self.into.lock().unwrap_or_else(PoisonError::into_inner) = std::mem::take(&mut self.tiles);
        Ok(Flow::Done)
    }
}

/// The text of a chain with a stage for each column.
fn chain(rows: usize, tile: usize) -> String {
    let columns = rows.div_ceil(tile);
    let mut boxes = format!("  tiles: {{kind: covariance_tiles, rows: {rows}, tile: {tile}}}\n");
    let mut edges = String::new();
    let mut before = "tiles".to_owned();
    for column in 0..columns {
        _ = writeln!(boxes, "  panel{column}: {{kind: cholesky_panel, column: {column}}}");
        _ = writeln!(boxes, "  update{column}: {{kind: cholesky_update, column: {column}, copies: auto}}");
        _ = writeln!(edges, "  - {{from: {before}, to: panel{column}, envelopes: 2}}");
        // It holds the column while its panel is made.
        let envelopes = columns - column + 2;
        _ = writeln!(edges, "  - {{from: {before}, to: update{column}.tiles, envelopes: {envelopes}}}");
        _ = writeln!(edges, "  - panel{column} -> update{column}.panel");
        _ = writeln!(edges, "  - panel{column} -> collect.factor");
        before = format!("update{column}");
    }
    _ = writeln!(edges, "  - {before} -> collect.factor");
    format!("boxwork: 1\nboxes:\n{boxes}  collect: {{kind: collect}}\nedges:\n{edges}")
}

/// The text of the graph.
fn graph(rows: usize, tile: usize) -> String {
    format!(
        "boxwork: 1\nboxes:\n  factor: {{kind: cholesky_graph, rows: {rows}, tile: {tile}}}\n  collect: {{kind: collect}}\n\
         edges:\n  - factor -> collect.factor\n"
    )
}

/// A runtime with both pipelines.
struct Both {
    runtime: Runtime,
    chain: Arc<Prepared>,
    graph: Arc<Prepared>,
    collected: Arc<Mutex<Factor>>,
    rows: usize,
    tile: usize,
    rounds: usize,
}

fn open(setup: &Setup, case: &Case) -> Result<Box<dyn Measured<Error>>, Error> {
    let (rows, tile) = (case.count("rows")?, case.count("tile")?);
    if rows.div_ceil(tile) > COLUMNS_MAX {
        let wanted = "larger tiles, at most 1024 columns of them,";
        return Err(Error::Setting { name: "tile", value: tile.to_string(), wanted });
    }
    let config = Config { pin: setup.pin, ..Config::new(setup.topology.clone()) };
    let runtime = Runtime::start(config).map_err(Error::Threads)?;
    let collected = Arc::new(Mutex::new(Factor::new()));
    let into = Arc::clone(&collected);
    let collect = OperatorEntry::new("collect", "Takes the tiles of a factor.", Kind::Stateful, move |_| {
        Ok(Box::new(Collects { tiles: Factor::new(), into: Arc::clone(&into) }))
    })
    .input("factor", Mode::Merge, columns::tiles, "the tiles of the factor");
    let catalog: Catalog = catalog().with(collect);
    let environment = runtime.environment();
    let prepared = |text: String| -> Result<Arc<Prepared>, Error> {
        let loaded = load_text("factor", &text).unwrap_or_else(|flaws| panic!("{text}: {flaws:?}"));
        Ok(Arc::new(Prepared::new(&loaded.declaration, &catalog, &BTreeMap::new(), &environment)?))
    };
    let (chain, graph) = (prepared(chain(rows, tile))?, prepared(graph(rows, tile))?);
    Ok(Box::new(Both { runtime, chain, graph, collected, rows, tile, rounds: 0 }))
}

impl Both {
    /// The factor of a pipeline, and the seconds that it took.
    fn run(&self, prepared: &Arc<Prepared>) -> Result<(Factor, f64), Error> {
        let outcome = self.runtime.submit(prepared, &Submission::default())?.wait();
        outcome.result.clone()?;
        let factor = std::mem::take(&mut *self.collected.lock().unwrap_or_else(PoisonError::into_inner));
        Ok((factor, outcome.duration.as_secs_f64()))
    }

    /// The bits of a factor's lower half, mixed.
    fn mixed(&self, factor: &Factor) -> u64 {
        let mut mixed = 0xcbf2_9ce4_8422_2325_u64;
        for ((i, j), envelope) in factor {
            for (place, number) in numbers(envelope).iter().enumerate() {
                // The upper half of a diagonal tile is not defined.
                if i != j || place / self.tile <= place % self.tile {
                    mixed = (mixed ^ number.to_bits()).wrapping_mul(0x0100_0000_01b3).rotate_left(29);
                }
            }
        }
        mixed
    }

    /// The number of compared entries of L L^T that are those of the matrix.
    fn right(&self, factor: &Factor) -> u64 {
        let lower: BTreeMap<(u32, u32), Vec<f64>> =
            factor.iter().map(|(place, envelope)| (*place, numbers(envelope))).collect();
        let at = |row: usize, column: usize| {
            let place = ((row / self.tile) as u32, (column / self.tile) as u32);
            lower[&place][column % self.tile * self.tile + row % self.tile]
        };
        let entry = default_entries(self.rows);
        let mut right = 0;
        for nth in 0..ENTRIES {
            let row = nth * 7919 % self.rows;
            let column = nth * 104_729 % (row + 1);
            let product: f64 = (0..=column).map(|p| at(row, p) * at(column, p)).sum();
            // The largest entry of the matrix is below 2.
            let bound = 4.0 * self.rows as f64 * f64::EPSILON;
            right += u64::from((product - entry(row, column)).abs() <= bound);
        }
        right
    }
}

/// The numbers of a tile.
fn numbers(envelope: &Envelope) -> Vec<f64> {
    let list = envelope.lists("numbers").expect("a tile has numbers").value(0);
    list.as_primitive::<Float64Type>().values().to_vec()
}

impl Measured<Error> for Both {
    fn round(&mut self) -> Result<Figures, Error> {
        // They take turns in being the first.
        let chain_is_first = self.rounds.is_multiple_of(2);
        self.rounds += 1;
        let first = self.run(if chain_is_first { &self.chain } else { &self.graph })?;
        let second = self.run(if chain_is_first { &self.graph } else { &self.chain })?;
        let ((chain, of_chain), (graph, of_graph)) =
            if chain_is_first { (first, second) } else { (second, first) };
        let columns = self.rows.div_ceil(self.tile) as u64;
        Error::unless_equal("the tiles of the chain", chain.len() as u64, columns * (columns + 1) / 2)?;
        Error::unless_equal("the bits of the chain's factor", self.mixed(&chain), self.mixed(&graph))?;
        let right = self.right(&graph);
        Error::unless_equal("entries of L L^T that are those of the matrix", right, ENTRIES as u64)?;
        let gigaflop = (self.rows as f64).powi(3) / 3.0 / 1e9;
        Ok(figures([
            ("chain_of_graph", of_graph / of_chain),
            ("chain_ms", of_chain * 1e3),
            ("graph_ms", of_graph * 1e3),
            ("chain_gflop_per_s", gigaflop / of_chain),
            ("graph_gflop_per_s", gigaflop / of_graph),
        ]))
    }
}
