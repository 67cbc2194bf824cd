//! The cost of lists, codes, k-means and the graph of neighbours on one core, beside Faiss.
//!
//! Vectors of `dimensions` numbers around random places; the same centroids, codebooks and queries on both sides. Each line has
//! the seconds of processor time of both sides, in turns, the median of `turns`, their ratio (Faiss by ours: above 1 ours is
//! faster), and the recall of both: the share of the true k nearest among the k found. For k-means the last figures are the
//! objectives.
//!
//! `cargo bench --bench lists -- what=kmeans,assign,encode,ivf,product,fast,graph rows=100000 lists=1024 peer=faiss`
//!
//! The peer is a Python with Faiss and NumPy (`pip install faiss-cpu`), named by BOXWORK_PYTHON.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use boxwork_kernels::CodePath;
use boxwork_kernels::chance::Random;
use boxwork_kernels::distance::squared_l2;
use boxwork_kernels::kmeans::{Assigner, Options, k_means, start};
use boxwork_kernels::neighbours::graph;
use boxwork_kernels::panels::{Panels, Shortlist};
use boxwork_kernels::pieces::one_by_one;
use boxwork_kernels::product::{Bits, Codebook, Codes, pack, scan};
use support::clock::thread_seconds;
use support::{Arguments, print_machine};

/// Part of the binary, so that it can be copied to another machine alone.
const FAISS: &str = include_str!("peers/faiss_lists.py");

fn main() {
    let names =
        ["what", "rows", "queries", "dimensions", "lists", "iterations", "k", "turns", "peer", "folder"];
    let arguments = Arguments::read(&names);
    let what = arguments.text("what").unwrap_or("kmeans,assign,encode,ivf,product,fast,graph").to_owned();
    let dimensions = arguments.get("dimensions", 128);
    let mut random = Random::mixed(1);
    let places: Vec<f32> = (0..1000 * dimensions).map(|_| random.normal_f32()).collect();
    let mut made = |count: usize| -> Vec<f32> {
        let mut rows = Vec::with_capacity(count * dimensions);
        for _ in 0..count {
            let place = random.idx(1000);
            rows.extend(places[place * dimensions..][..dimensions].iter().map(|x| x + random.normal_f32()));
        }
        rows
    };
    let rows = made(arguments.get("rows", 100_000));
    let queries = made(arguments.get("queries", 1000));
    print_machine();
    println!("code path   {}", CodePath::detect());
    let folder = arguments.text("folder").map_or_else(std::env::temp_dir, Into::into).join("boxwork-lists");
    let mut bench = Bench {
        rows,
        queries,
        dimensions,
        k: arguments.get("k", 10),
        lists: arguments.get("lists", 1024),
        iterations: arguments.get("iterations", 10),
        turns: arguments.get("turns", 7),
        truth: Vec::new(),
        centroids: Vec::new(),
        peer: None,
    };
    bench.prepare(&folder);
    if arguments.text("peer") == Some("faiss") {
        bench.peer = Peer::start(&folder, dimensions, bench.k);
    }
    for what in what.split(',') {
        bench.run(what, &folder);
    }
    let _ = fs::remove_dir_all(&folder);
}

struct Bench {
    rows: Vec<f32>,
    queries: Vec<f32>,
    dimensions: usize,
    k: usize,
    lists: usize,
    iterations: usize,
    turns: usize,
    truth: Vec<Vec<u32>>,
    centroids: Vec<f32>,
    peer: Option<Peer>,
}

impl Bench {
    /// Computes the true neighbours and the centroids, and writes what the peer reads.
    fn prepare(&mut self, folder: &Path) {
        fs::create_dir_all(folder).expect("a folder for the peer's data");
        let (path, dimensions) = (CodePath::detect(), self.dimensions);
        let panels = Panels::new(&self.rows, dimensions, None);
        let panels = panels.borrow();
        let mut lists: Vec<Shortlist> =
            self.queries.chunks_exact(dimensions).map(|query| panels.shortlist(query, self.k)).collect();
        panels.scan(path, &self.queries, &mut lists, 0);
        self.truth = self.ranked(lists, &|row| row);
        write_f32(&folder.join("rows.f32"), &self.rows);
        write_f32(&folder.join("queries.f32"), &self.queries);
        let truth: Vec<u8> = self.truth.iter().flatten().flat_map(|row| row.to_le_bytes()).collect();
        fs::write(folder.join("truth.u32"), truth).expect("the true neighbours");
        let first = self.start();
        write_f32(&folder.join("start.f32"), &first);
        let options = Options { iterations: self.iterations, seed: 1, spherical: false };
        let found = k_means(&self.rows, dimensions, first, options, path, &mut one_by_one());
        self.centroids = found.expect("memory").expect("a result").centroids;
        write_f32(&folder.join("centroids.f32"), &self.centroids);
    }

    fn start(&self) -> Vec<f32> {
        let numbers = start((self.rows.len() / self.dimensions) as u64, self.lists, 1).into_iter();
        numbers.flat_map(|row| self.row(row as u32).to_vec()).collect()
    }

    fn row(&self, row: u32) -> &[f32] {
        &self.rows[row as usize * self.dimensions..][..self.dimensions]
    }

    /// The k nearest of each query's shortlist, by f64 distances; `row_at` gives the row of a number in the shortlists.
    fn ranked(&self, lists: Vec<Shortlist>, row_at: &dyn Fn(u32) -> u32) -> Vec<Vec<u32>> {
        let each = self.queries.chunks_exact(self.dimensions).zip(lists);
        each.map(|(query, list)| {
            let ranked = list.ranked(|place| squared_l2(query, self.row(row_at(place))));
            ranked.into_iter().map(|(_, place)| row_at(place)).collect()
        })
        .collect()
    }

    fn recall(&self, found: &[Vec<u32>]) -> f64 {
        let hits = self
            .truth
            .iter()
            .zip(found)
            .map(|(truth, found)| found.iter().take(self.k).filter(|row| truth.contains(row)).count());
        hits.sum::<usize>() as f64 / (self.k * self.truth.len()) as f64
    }

    /// Times our side and the peer's in turns.
    fn compare(&mut self, name: &str, question: &str, ours: &mut dyn FnMut(&Self) -> f64) {
        let (mut mine, mut theirs, mut figures) = (Vec::new(), Vec::new(), (0.0, 0.0));
        for _ in 0..self.turns {
            mine.push(thread_seconds(|| figures.0 = ours(self)));
            if let Some((seconds, figure)) = self.peer.as_mut().and_then(|peer| peer.ask(question)) {
                theirs.push(seconds);
                figures.1 = figure;
            }
        }
        let (mine, has_peer) = (median(&mut mine), !theirs.is_empty());
        print!("{name:28} ours {mine:9.4} s  figure {:<12.6}", figures.0);
        if has_peer {
            let theirs = median(&mut theirs);
            print!("  faiss {theirs:9.4} s  figure {:<12.6}  ratio {:.2}", figures.1, theirs / mine);
        }
        println!();
    }

    fn run(&mut self, what: &str, folder: &Path) {
        let (path, dimensions, k) = (CodePath::detect(), self.dimensions, self.k);
        match what {
            "kmeans" => {
                let options = Options { iterations: self.iterations, seed: 1, spherical: false };
                let first = self.start();
                self.compare("k-means", &format!("kmeans {}", self.iterations), &mut |bench| {
                    let first = first.clone();
                    let found = k_means(&bench.rows, dimensions, first, options, path, &mut one_by_one());
                    let centroids = found.expect("memory").expect("a result").centroids;
                    Assigner::new(&centroids, dimensions, None)
                        .assign(path, &bench.rows)
                        .iter()
                        .map(|row| row.1)
                        .sum()
                });
            }
            "assign" => self.compare("assign", "assign", &mut |bench| {
                let assigner = Assigner::new(&bench.centroids, dimensions, None);
                assigner.assign(path, &bench.rows).len() as f64
            }),
            "graph" => self.compare("graph", "graph", &mut |bench| {
                let found = graph(&bench.rows, dimensions, k, path, &mut one_by_one());
                found.expect("memory").expect("a result").rows() as f64
            }),
            "ivf" => self.lists(),
            "encode" | "product" => {
                [16, 32].into_iter().for_each(|parts| self.codes(what, parts, Bits::Eight, folder))
            }
            "fast" => self.codes(what, 32, Bits::Four, folder),
            other => println!("there is no measurement called {other}"),
        }
    }

    /// Rows in lists, and searches of them: each list is read once for all queries.
    fn lists(&mut self) {
        let (path, dimensions, k) = (CodePath::detect(), self.dimensions, self.k);
        let assigned = Assigner::new(&self.centroids, dimensions, None).assign(path, &self.rows);
        let mut of_list = vec![(Vec::new(), Vec::new()); self.lists];
        for (row, (list, _)) in assigned.into_iter().enumerate() {
            of_list[list as usize].0.push(row as u32);
            of_list[list as usize].1.extend_from_slice(self.row(row as u32));
        }
        // Rows by their places in the lists, and the place of each list's first.
        let (mut places, mut panels) = (Vec::new(), Vec::new());
        for (numbers, rows) in of_list {
            panels.push((places.len() as u32, Panels::new(&rows, dimensions, None)));
            places.extend(numbers);
        }
        let centroids = Panels::new(&self.centroids, dimensions, None);
        let all = Panels::new(&self.rows, dimensions, None);
        let count = self.lists;
        for probes in [1, 2, 4, 8, 16, 32, 64].into_iter().filter(|probes| *probes <= count) {
            self.compare(
                &format!("lists of rows, {probes} probes"),
                &format!("ivf 0 {probes}"),
                &mut |bench| {
                    let each = || bench.queries.chunks_exact(dimensions);
                    let mut nearest: Vec<_> =
                        each().map(|query| centroids.borrow().shortlist(query, probes)).collect();
                    centroids.borrow().scan(path, &bench.queries, &mut nearest, 0);
                    let mut pairs = Vec::new();
                    for (place, (query, list)) in each().zip(nearest).enumerate() {
                        let centroid =
                            |list: u32| &bench.centroids[list as usize * dimensions..][..dimensions];
                        let ranked = list.ranked(|list| squared_l2(query, centroid(list)));
                        pairs.extend(ranked.into_iter().map(|(_, list)| (list, place)));
                    }
                    pairs.sort_unstable();
                    let mut shortlists: Vec<Shortlist> =
                        each().map(|query| all.borrow().shortlist(query, k)).collect();
                    for group in pairs.chunk_by(|a, b| a.0 == b.0) {
                        let (first, panels) = &panels[group[0].0 as usize];
                        let mut queries = Vec::with_capacity(group.len() * dimensions);
                        let mut taken = Vec::with_capacity(group.len());
                        for (_, place) in group {
                            queries.extend_from_slice(&bench.queries[place * dimensions..][..dimensions]);
                            taken.push(std::mem::replace(&mut shortlists[*place], Shortlist::new(0, 0.0)));
                        }
                        panels.borrow().scan(path, &queries, &mut taken, *first);
                        for ((_, place), list) in group.iter().zip(taken) {
                            shortlists[*place] = list;
                        }
                    }
                    bench.recall(&bench.ranked(shortlists, &|place| places[place as usize]))
                },
            );
        }
    }

    /// Codes without lists: encoding all rows, or scanning all codes.
    fn codes(&mut self, what: &str, parts: usize, bits: Bits, folder: &Path) {
        let (path, dimensions, k) = (CodePath::detect(), self.dimensions, self.k);
        let sample = &self.rows[..self.rows.len().min(20_000 * dimensions)];
        let trained = Codebook::train(sample, dimensions, parts, bits, 1, path, &mut one_by_one());
        let codebook = trained.expect("memory").expect("a result");
        let size = if bits == Bits::Four { 4 } else { 8 };
        write_f32(&folder.join(format!("codebook{size}-{parts}.f32")), codebook.numbers());
        let name = format!("{what}, {parts} x {size} bits");
        if what == "encode" {
            self.compare(&name, &format!("encode {parts}"), &mut |bench| {
                codebook.encoder().encode(path, &bench.rows).len() as f64
            });
            return;
        }
        let rows = self.rows.len() / dimensions;
        let bytes = pack(&codebook.encoder().encode(path, &self.rows), parts, bits);
        let codes = Codes { parts, bits, rows, bytes: &bytes };
        self.compare(&name, &format!("{what} {parts}"), &mut |bench| {
            let mut tables = vec![0.0; codebook.tables_len()];
            let mut found = Vec::new();
            for query in bench.queries.chunks_exact(dimensions) {
                codebook.tables(path, query, &mut tables);
                let mut list = Shortlist::new(k, 0.0);
                scan(path, codes, &tables, 0.0, &mut list, 0);
                found.push(list.by_score().into_iter().map(|(_, row)| row).collect());
            }
            bench.recall(&found)
        });
    }
}

fn write_f32(path: &Path, numbers: &[f32]) {
    let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    fs::write(path, bytes).expect("data for the peer");
}

fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Faiss in a process of its own.
struct Peer {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    fn start(folder: &Path, dimensions: usize, k: usize) -> Option<Self> {
        let python = std::env::var("BOXWORK_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let mut command = Command::new(&python);
        command.arg("-c").arg(FAISS).arg(folder).args([dimensions.to_string(), k.to_string()]);
        command.env("OMP_NUM_THREADS", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child =
            command.spawn().inspect_err(|error| println!("peer        NOT MEASURED: {error}")).ok()?;
        let questions = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        let mut peer = Self { child, questions, answers };
        let name = peer.line();
        println!("peer        {}", name.trim());
        name.starts_with("name").then_some(peer)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the peer writes");
        line
    }

    /// Seconds and a figure, or nothing if the peer cannot do it.
    fn ask(&mut self, question: &str) -> Option<(f64, f64)> {
        let questions = self.questions.as_mut().expect("the pipe is open until the drop");
        writeln!(questions, "{question}").and_then(|()| questions.flush()).expect("the peer reads");
        let line = self.line();
        let numbers: Option<Vec<f64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[seconds, figure]) => Some((seconds, figure)),
            _ => {
                println!("peer        {}", line.trim());
                None
            }
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The peer ends when its input is closed.
        self.questions = None;
        let _ = self.child.wait();
    }
}
