//! How fast is a Cholesky factorisation by tiles, as a graph of tasks inside a box, beside LAPACK and `faer`?
//!
//! Units: GFLOP/s, n^3 / 3 FLOP a factorisation, by processor time on one thread and by wall time on several. Our side is the graph of
//! docs/decisions/115 on the slots of a runtime, with the tile operations of docs/decisions/136. Beside it are the same tasks in turn on one
//! thread without a graph, which shows what the graph costs; OpenBLAS through SciPy and MKL through PyTorch, each in a process of its
//! own; and with the feature `faer-threads` the library `faer`. `peers=starpu` compares schedulers alone: our graph and the tasks of
//! StarPU run the same operations of one OpenBLAS (`blas=libopenblas.so.0`) on the same tiles. The program (`starpu=PATH`) is
//! `peers/cpp/starpu_cholesky.cpp`, whose head says how to build it. The limit is two vector multiply-adds a cycle and core, at the clock
//! that the bench measures.
//!
//! The factors are compared before anything is timed, by their products with one vector. The bars are those of the specification.
//!
//! `cargo bench --bench cholesky -- n=2048,4096 tile=256 threads=1 precision=f64,f32 rounds=5 results=FILE`
//!
//! With more threads than free cores neither the rates nor the ratios say anything.

mod support;

#[path = "cholesky/own.rs"]
mod own;
#[path = "cholesky/matrix.rs"]
mod matrix;
#[path = "cholesky/blas.rs"]
mod blas;
#[cfg(feature = "faer-threads")]
#[path = "cholesky/library.rs"]
mod library;

use blas::Library;
use boxwork_kernels::CodePath;
#[cfg(not(feature = "faer-threads"))]
use boxwork_kernels::cholesky::Number as OfLibrary;
use boxwork_kernels::cholesky::{Blocked, Number, TileKernels};
use boxwork_lab::processor;
use serde_json::{Value, json};

#[cfg(feature = "faer-threads")]
use library::OfLibrary;
use matrix::{Factor as _, numbers, weights};
use own::{Graph, in_turn};
use support::clock::gigahertz;
use support::peer::Peer;
use support::{Arguments, Side, Spread, print_machine, record, run_rounds};

/// The largest difference of two products of a factor and a vector, by the precision of a number and the largest of the products.
const ROUNDINGS: f64 = 200.0;

/// A precision of the factorisation.
trait Precision: Number + OfLibrary {
    const NAME: &'static str;
    /// The letter of them in the names of LAPACK.
    const LETTER: char;
    /// How many of them a vector holds, as a multiple of f64.
    const LANES: f64;
    /// The bars of n = 4096 on one thread: of faer's own, of OpenBLAS, and of the limit.
    const BARS: [f64; 3];
}

impl Precision for f64 {
    const NAME: &'static str = "f64";
    const LETTER: char = 'd';
    const LANES: f64 = 1.0;
    const BARS: [f64; 3] = [1.3, 1.0, 0.7];
}

impl Precision for f32 {
    const NAME: &'static str = "f32";
    const LETTER: char = 's';
    const LANES: f64 = 2.0;
    const BARS: [f64; 3] = [1.6, 1.2, 0.8];
}

/// Rows up to which one thread also runs the tasks in turn: of more, it would take a minute a round.
const IN_TURN_ROWS: usize = 8192;

/// The sizes of one comparison.
#[derive(Clone, Copy, Debug)]
struct Case {
    n: usize,
    tile: usize,
    threads: usize,
    rounds: usize,
}

/// Compares a factor with ours by their products with one vector.
fn check(name: &str, own: &[f64], theirs: &[f64], epsilon: f64) {
    assert_eq!(own.len(), theirs.len(), "{name}");
    let largest = own.iter().fold(0.0_f64, |largest, x| largest.max(x.abs()));
    let apart = own.iter().zip(theirs).map(|(a, b)| (a - b).abs() / largest).fold(0.0, f64::max);
    assert!(apart <= ROUNDINGS * epsilon, "{name}: {apart:e} of the largest number apart");
    println!("checked     {name}: at most {apart:.1e} of the largest number apart");
}

/// The scheduler of StarPU, and the library whose operations on tiles it and our graph run.
struct StarPu {
    peer: Peer,
    library: Library,
}

impl StarPu {
    fn start(arguments: &Arguments, threads: usize, tile: usize) -> Option<Self> {
        let library = Library::open(arguments.text("blas").unwrap_or("libopenblas.so.0"))?;
        let program = arguments.text("starpu").unwrap_or("target/peers/starpu_cholesky");
        let peer = Peer::program(program, &[&threads.to_string(), &tile.to_string()])?;
        Some(Self { peer, library })
    }
}

/// Compares schedulers: both run the same operations of one library on the same tiles.
fn schedulers<T: Precision>(case: Case, limit: f64, starpu: &mut StarPu, rows: &mut Vec<Value>) {
    let Case { n, tile, threads, rounds } = case;
    let weights = weights(n);
    let functions = starpu.library.functions::<T>(T::LETTER).expect("a library with LAPACK");
    let graph = Graph::<T>::new(threads, functions);
    let (own, peer) = (graph.run(case).0.times(&weights), &mut starpu.peer);
    let answer = peer.ask(&format!("check {n} {}", T::NAME));
    check(&peer.name, &own, &numbers(&answer, "product"), T::EPSILON);
    let (name, question) = (peer.name.clone(), format!("factor {n} {}", T::NAME));
    let mut sides = vec![
        Side::new(format!("graph by OpenBLAS, {threads} slots"), || graph.run(case).1),
        Side::new(name, move || peer.seconds(&question)),
    ];
    run_rounds(rounds, &mut sides);
    let bar = if tile <= 128 { 1.2 } else { 1.0 };
    tell::<T>(case, limit, &sides, &[None, Some(bar)], rows);
}

fn contest<T: Precision>(case: Case, limit: f64, peers: &mut [Peer], rows: &mut Vec<Value>)
where
    Blocked: TileKernels<T>,
{
    let Case { n, tile, threads, rounds } = case;
    let (graph, weights) = (Graph::<T>::new(threads, Blocked), weights(n));
    let own = graph.run(case).0.times(&weights);
    for peer in &mut *peers {
        let answer = peer.ask(&format!("check {n} {}", T::NAME));
        check(&peer.name, &own, &numbers(&answer, "product"), T::EPSILON);
    }
    let question = format!("factor {n} {}", T::NAME);
    let mut sides = vec![Side::new(format!("graph, {threads} slots"), || graph.run(case).1)];
    let mut bars = vec![None];
    if n <= IN_TURN_ROWS {
        sides.push(Side::new("tasks in turn, 1 thread", || in_turn::<T>(case)));
        bars.push((threads == 1).then_some(if tile < 256 { 0.93 } else { 0.97 }));
    }
    let is_barred = n == 4096 && threads == 1;
    #[cfg(feature = "faer-threads")]
    {
        check("faer", &own, &library::factor::<T>(case).0.times(&weights), T::EPSILON);
        sides.push(Side::new(format!("faer's llt, {threads} threads"), || library::factor::<T>(case).1));
        bars.push(if threads == 1 { is_barred.then_some(T::BARS[0]) } else { Some(1.3) });
    }
    for peer in peers {
        let bar = if peer.name.starts_with("OpenBLAS") { T::BARS[1] } else { 1.0 };
        bars.push((is_barred || threads > 1).then_some(bar));
        let (name, question) = (peer.name.clone(), question.clone());
        sides.push(Side::new(name, move || peer.seconds(&question)));
    }
    run_rounds(rounds, &mut sides);
    if is_barred {
        bars[0] = Some(T::BARS[2]);
    }
    tell::<T>(case, limit, &sides, &bars, rows);
}

/// Prints all sides: the first with its share of the limit, the others with how many times as fast the first is, and the bars of these.
fn tell<T: Precision>(
    case: Case,
    limit: f64,
    sides: &[Side<'_>],
    bars: &[Option<f64>],
    rows: &mut Vec<Value>,
) {
    let Case { n, tile, threads, .. } = case;
    let gigaflop = (n as f64).powi(3) / 3.0 / 1e9;
    for (side, bar) in sides.iter().zip(bars) {
        let rate = Spread::of(side.seconds.iter().map(|seconds| gigaflop / seconds));
        let share = rate.median / limit;
        // The ratio to the tasks in turn on one thread says how many times as fast several slots are.
        let ratio = sides[0].faster_than(side).median;
        let figure = if side.name == sides[0].name { share } else { ratio };
        let verdict = bar.map_or("", |bar| if figure >= bar { "reached" } else { "MISSED" });
        let bar = bar.map_or(String::new(), |bar| bar.to_string());
        println!(
            "{:<34} {rate} GFLOP/s, {share:.2} of the limit of {limit:.0}; the graph is {ratio:.2} times as fast {}",
            side.name,
            if bar.is_empty() { String::new() } else { format!("(bar {bar} {verdict})") }
        );
        rows.push(json!({
            "n": n, "tile": tile, "precision": T::NAME, "threads": threads, "side": side.name,
            "GFLOP/s": format!("{rate}"), "of the limit": format!("{share:.2}"),
            "graph, times as fast": format!("{ratio:.2}"), "bar": bar, "verdict": verdict,
        }));
    }
}

/// Compares with LAPACK and libraries, and schedulers if StarPU is there.
fn all<T: Precision>(
    case: Case,
    limit: f64,
    (peers, starpu): (&mut [Peer], Option<&mut StarPu>),
    rows: &mut Vec<Value>,
) where
    Blocked: TileKernels<T>,
{
    let limit = limit * T::LANES;
    contest::<T>(case, limit, peers, rows);
    if let Some(starpu) = starpu {
        schedulers::<T>(case, limit, starpu, rows);
    }
}

fn main() {
    let arguments = Arguments::read(&[
        "n",
        "tile",
        "threads",
        "precision",
        "rounds",
        "peers",
        "starpu",
        "blas",
        "results",
    ]);
    let (tile, threads) = (arguments.get("tile", 256_usize), arguments.get("threads", 1_usize));
    let rounds = arguments.get("rounds", 5);
    println!("question    how fast is a Cholesky factorisation by tiles, as a graph of tasks inside a box?");
    print_machine();
    let flop_per_cycle = if std::arch::is_x86_feature_detected!("avx512f") { 32.0 } else { 16.0 };
    let limit = threads as f64 * gigahertz() * flop_per_cycle;
    let wanted = arguments.text("peers").unwrap_or("openblas,mkl");
    let of_lapack = wanted.split(',').filter(|name| *name != "starpu");
    let mut peers: Vec<Peer> =
        of_lapack.filter_map(|library| Peer::lapack(library, &threads.to_string())).collect();
    let is_wanted = wanted.split(',').any(|name| name == "starpu");
    let mut starpu = is_wanted.then(|| StarPu::start(&arguments, threads, tile)).flatten();
    let mut rows = Vec::new();
    for n in arguments.text("n").unwrap_or("4096").split(',') {
        let n = n.parse().unwrap_or_else(|_| panic!("n={n} is no number of rows"));
        let case = Case { n, tile, threads, rounds };
        for precision in arguments.text("precision").unwrap_or("f64,f32").split(',') {
            println!("\nmatrix      {n} rows of {precision}, tiles of {tile}");
            match precision {
                "f64" => all::<f64>(case, limit, (&mut peers, starpu.as_mut()), &mut rows),
                "f32" => all::<f32>(case, limit, (&mut peers, starpu.as_mut()), &mut rows),
                other => panic!("precision={other}: give f64, f32 or both"),
            }
        }
    }
    let Some(path) = arguments.text("results") else { return };
    let head = json!({
        "title": format!("Cholesky factorisation, {threads} threads"),
        "question": format!(
            "How fast is a Cholesky factorisation by tiles, as a graph of tasks inside a box, beside LAPACK? Factors are compared \
             before they are timed; medians of {rounds} rounds in turns, and the middle half."
        ),
        "command": [format!("cargo bench --bench cholesky -- {}", record::call())],
        "machine": [format!("{}, code path {}", processor(), CodePath::detect())],
        "date": record::today(),
        "limit": "two vector multiply-adds a cycle and core at the clock measured by this bench",
        "rows": rows,
    });
    record::write(path, &head);
}
