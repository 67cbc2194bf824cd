//! Both sides of a measurement in turns, the limit beside them, and the record of all of it.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use boxwork_kernels::CodePath;
use boxwork_kernels::gaussian_process::pass::multiply_adds;
use boxwork_lab::processor;
use serde_json::{Value, json};

use super::support::clock::thread_seconds;
use super::support::peer::Peer;
use super::support::record;
use super::support::{Arguments, Spread};
use super::world::World;

/// Steps of each chain in a measurement of multiply-adds: some milliseconds.
const PEAK_STEPS: usize = 100_000;
/// Numbers that are read in a measurement of reading: beyond every cache.
const READ_NUMBERS: usize = 1 << 26;

/// A rate that no program on this machine can beat.
#[derive(Clone, Copy)]
pub(super) enum Limit {
    /// So many multiply-adds of f32, at the rate that registers have.
    MultiplyAdds(f64),
    /// So many products of bytes, by [`byte_products`].
    ByteProducts(f64),
    /// So many bytes read.
    Bytes(f64),
}

/// Work to be measured.
pub(super) struct Work {
    /// Its number in the table of bars.
    pub(super) row: &'static str,
    pub(super) name: String,
    pub(super) limit: Limit,
    /// More that was found, such as recalls.
    pub(super) note: String,
}

/// A peer's way to do it.
pub(super) struct Other {
    pub(super) name: &'static str,
    pub(super) question: String,
    /// How many times as fast we mean to be.
    pub(super) bar: f64,
}

/// The data, both sides and what they measured.
pub(super) struct Bench {
    pub(super) world: World,
    pub(super) path: CodePath,
    pub(super) threads: usize,
    pub(super) folder: PathBuf,
    pub(super) rounds: usize,
    peer: Option<Mutex<Peer>>,
    is_own_folder: bool,
    record: Mutex<Vec<Value>>,
    numbers: Vec<f32>,
}

impl Bench {
    pub(super) fn new(arguments: &Arguments) -> Self {
        let (world, threads) = (World::new(arguments), arguments.get("threads", 1));
        let (path, level) = code_path(arguments);
        let folder = arguments.text("folder").map_or_else(std::env::temp_dir, Into::into);
        let folder = folder.join(format!("boxwork-vector-{}", std::process::id()));
        let is_own_folder = !folder.exists();
        fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut peer = None;
        if arguments.text("peer") == Some("faiss") {
            write_f32(&folder.join("rows.f32"), &world.rows);
            write_f32(&folder.join("queries.f32"), &world.queries);
            fs::write(folder.join("rows.u8"), &world.bytes).expect("data for the peer");
            let (dimensions, threads) = (world.dimensions.to_string(), threads.to_string());
            let folder = folder.to_str().expect("a folder in UTF-8");
            peer = Peer::faiss(&[folder, &dimensions, &threads, level], &threads).map(Mutex::new);
        }
        println!("code path   {path}, {threads} threads");
        Self {
            world,
            path,
            threads,
            folder,
            rounds: arguments.get("rounds", 7),
            peer,
            is_own_folder,
            record: Mutex::default(),
            numbers: vec![1.0; READ_NUMBERS],
        }
    }

    /// Whether there is a peer.
    pub(super) fn has_peer(&self) -> bool {
        self.peer.is_some()
    }

    /// The peer's answer; `None` without a peer, or if it cannot do it.
    pub(super) fn ask(&self, question: &str) -> Option<Value> {
        let answer = self.peer.as_ref()?.lock().expect("one thread asks").ask(question);
        match answer["error"].as_str() {
            Some(error) => {
                println!("peer        cannot do `{question}`: {error}");
                None
            }
            None => Some(answer),
        }
    }

    /// The rows that the peer finds, and their values, `k` for each query.
    pub(super) fn found(&self, question: &str, k: usize) -> Option<Vec<Vec<i64>>> {
        self.ask(question)?;
        self.ask("answers")?;
        let bytes = fs::read(self.folder.join("ids.i64")).expect("the peer's answers");
        let numbers: Vec<i64> = bytes.as_chunks::<8>().0.iter().map(|id| i64::from_le_bytes(*id)).collect();
        Some(numbers.chunks_exact(k).map(<[i64]>::to_vec).collect())
    }

    /// Numbers that the peer wrote.
    pub(super) fn read_f32(&self, name: &str) -> Vec<f32> {
        let bytes = fs::read(self.folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        bytes.as_chunks::<4>().0.iter().map(|x| f32::from_le_bytes(*x)).collect()
    }

    /// Numbers for the peer.
    pub(super) fn write_f32(&self, name: &str, numbers: &[f32]) {
        write_f32(&self.folder.join(name), numbers);
    }

    /// Seconds that this takes, in the clock of both sides.
    pub(super) fn seconds(&self, mut work: impl FnMut()) -> f64 {
        if self.threads == 1 {
            return thread_seconds(work);
        }
        let begun = Instant::now();
        work();
        begun.elapsed().as_secs_f64()
    }

    /// Seconds that the limit allows, as this machine is now.
    fn limit(&self, limit: Limit) -> f64 {
        let all = match limit {
            Limit::MultiplyAdds(count) | Limit::ByteProducts(count) => {
                let mut done = 0;
                let seconds =
                    thread_seconds(|| done = std::hint::black_box(multiply_adds(self.path, PEAK_STEPS)).0);
                let faster = match limit {
                    Limit::ByteProducts(_) => byte_products(self.path),
                    _ => 1.0,
                };
                seconds / done as f64 * count / faster
            }
            Limit::Bytes(count) => {
                let seconds = thread_seconds(|| {
                    std::hint::black_box(total(std::hint::black_box(&self.numbers)));
                });
                seconds / size_of_val(&self.numbers[..]) as f64 * count
            }
        };
        all / self.threads as f64
    }

    /// Measures our side, the peer's and the limit in turns. The answers have been compared.
    pub(super) fn contest(&self, work: &Work, others: &[Other], ours: &mut dyn FnMut()) {
        let (mut own, mut limits) = (Vec::new(), Vec::new());
        let mut theirs: Vec<Vec<f64>> = vec![Vec::new(); others.len()];
        let mut cannot = BTreeSet::new();
        for _ in 0..self.rounds.max(1) {
            limits.push(self.limit(work.limit));
            own.push(self.seconds(&mut *ours));
            for (place, other) in others.iter().enumerate() {
                match if cannot.contains(&place) { None } else { self.ask(&other.question) } {
                    Some(answer) => theirs[place].push(answer["seconds"].as_f64().expect("seconds")),
                    None => _ = cannot.insert(place),
                }
            }
        }
        let seconds = Spread::of(own.iter().copied());
        let share = Spread::of(limits.iter().zip(&own).map(|(limit, own)| limit / own));
        let Work { row, name, note, limit } = work;
        let of = match limit {
            Limit::MultiplyAdds(_) => "of f32 multiply-adds",
            Limit::ByteProducts(_) => "of byte products",
            Limit::Bytes(_) => "of reading",
        };
        let limit = Spread::of(limits).median;
        println!("{row:>2} {name:34} ours  {seconds:>30.4} s, {share:.2} {of} ({limit:.4} s) {note}");
        let text = |spread: Spread, digits: usize| format!("{spread:.digits$}");
        let record = |peer: &str, times: String, theirs: String, bar: String, verdict: &str| {
            self.record.lock().expect("one thread records").push(json!({
                "row": row, "work": name, "peer": peer, "ours / peer": times, "bar": bar, "verdict": verdict,
                "ours, s": text(seconds, 4), "peer, s": theirs, "share of the limit": format!("{:.2} {of}", share.median),
                "note": note,
            }));
        };
        if !self.has_peer() {
            record("", String::new(), String::new(), String::new(), "");
        }
        for (other, theirs) in others.iter().zip(theirs).filter(|(_, theirs)| !theirs.is_empty()) {
            let times = Spread::of(theirs.iter().zip(&own).map(|(theirs, own)| theirs / own));
            let theirs = Spread::of(theirs);
            let word = if times.median >= other.bar { "reached" } else { "MISSED" };
            println!("   {:34} peer  {theirs:>30.4} s  {times:.2} x, bar {} {word}", other.name, other.bar);
            record(other.name, text(times, 2), text(theirs, 4), other.bar.to_string(), word);
        }
    }

    /// Removes what the peer read, and writes the record where `results=` says.
    pub(super) fn finish(self, arguments: &Arguments) {
        drop(self.peer);
        if self.is_own_folder {
            let _ = fs::remove_dir_all(&self.folder);
        }
        let Some(path) = arguments.text("results") else { return };
        let threads = self.threads;
        let call = record::call();
        let kind = if self.world.is_like_sample { "like a sample of SIFT" } else { "of a mixture" };
        let (count, dimensions) = (self.world.count(), self.world.dimensions);
        let head = json!({
            "title": format!("Search among vectors, on {threads} {}", if threads == 1 { "thread" } else { "threads" }),
            "question": format!(
                "How fast are search among {count} generated rows of {dimensions} numbers ({kind}) and its parts, beside Faiss? \
                 Answers are compared before they are timed; medians of {} rounds in turns, and the middle half.",
                self.rounds
            ),
            "command": [format!("cargo bench --bench vector -- {call}")],
            "machine": [format!("{}, code path {}", processor(), self.path)],
            "date": record::today(),
            "limit": "multiply-adds of f32 in registers (of bytes four times as many with VNNI, 2.7 times with AVX2), or reading of memory, on the same core in the same round",
            "rows": self.record.into_inner().expect("one thread records"),
        });
        record::write(path, &head);
    }
}

/// The code path that `path` names, or the fastest of this machine, and what Faiss calls it.
fn code_path(arguments: &Arguments) -> (CodePath, &'static str) {
    let levels = [
        (CodePath::Portable, "NONE"),
        (CodePath::Avx2, "AVX2"),
        (CodePath::AvxVnni, "AVX2"),
        (CodePath::Avx512, ""),
    ];
    let Some(name) = arguments.text("path") else {
        return (CodePath::detect(), "");
    };
    let found = levels.into_iter().find(|(path, _)| path.to_string().to_lowercase().replace('-', "") == name);
    let (path, level) = found.unwrap_or_else(|| panic!("path={name}: portable, avx2, avxvnni or avx512"));
    assert!(path.is_available(), "path={name}: this machine has no such instructions");
    (path, level)
}

/// Products of bytes in the time of a multiply-add of f32.
fn byte_products(path: CodePath) -> f64 {
    match path {
        _ if has_vnni(path) => 4.0,
        // Four products of 32 bytes take as many instructions, three sums of 16 bits, and two to widen and add these: nine, of which
        // three start in a cycle. Two multiply-adds of eight numbers do.
        CodePath::Avx2 => 128.0 / 3.0 / 16.0,
        _ => 1.0,
    }
}

/// Whether a path has products of bytes.
pub(super) fn has_vnni(path: CodePath) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        path == CodePath::AvxVnni || path == CodePath::Avx512 && is_x86_feature_detected!("avx512vnni")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = path;
        false
    }
}

/// The sum of some numbers, in lanes that the compiler keeps in registers.
fn total(numbers: &[f32]) -> f32 {
    let mut sums = [0.0f32; 64];
    for numbers in numbers.as_chunks::<64>().0 {
        sums.iter_mut().zip(numbers).for_each(|(sum, x)| *sum += x);
    }
    sums.iter().sum()
}

fn write_f32(path: &Path, numbers: &[f32]) {
    let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    fs::write(path, bytes).expect("data for the peer");
}

/// All of `count` in parts, one for each thread; results in order.
pub(super) fn shared<T: Send>(
    threads: usize,
    count: usize,
    work: impl Fn(Range<usize>) -> Vec<T> + Sync,
) -> Vec<T> {
    if threads == 1 {
        return work(0..count);
    }
    let (work, per_part) = (&work, count.div_ceil(threads).max(1));
    std::thread::scope(|scope| {
        let parts: Vec<_> = (0..count)
            .step_by(per_part)
            .map(|first| scope.spawn(move || work(first..count.min(first + per_part))))
            .collect();
        parts.into_iter().flat_map(|part| part.join().expect("a part")).collect()
    })
}

/// Pieces of the kernels' work on so many threads.
pub(super) fn pieces(threads: usize) -> impl FnMut(usize, &(dyn Fn(usize) + Sync)) -> bool {
    move |count, work| {
        let next = AtomicUsize::new(0);
        let until_done = || {
            loop {
                let piece = next.fetch_add(1, Ordering::Relaxed);
                if piece >= count {
                    break;
                }
                work(piece);
            }
        };
        if threads == 1 {
            until_done();
        } else {
            std::thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(until_done)));
        }
        true
    }
}
