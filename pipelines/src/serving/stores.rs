//! The stores of a server, each with its present state, and their reloading.
//!
//! Invariants: a state is replaced whole, by one that was prepared beside it; a file that cannot be opened leaves the state
//! before it in place, and the server says that it is stale.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use boxwork_operators::feedback_mode;
use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_server::backend::Readiness;
use boxwork_server::{Answer, Backend, Log, Refusal, Snapshot};
use boxwork_stores::store::{SharedStore, Store};
use parking_lot::{Mutex, RwLock};

use super::ask::Ready;
use super::loaded::Resources;
use super::names::Names;
use super::of_vectors::OfVectors;
use super::pictures::Thumbnails;
use super::pipelines::{InMemory, Pipelines, declared};
use super::snapshot::{Open, Rounds};
use crate::engine::Engine;
use crate::metrics::exposition;

/// How often the files are looked at.
const WATCH: Duration = Duration::from_secs(1);
/// How often a store is opened anew that changes while it is opened.
const TRIES: usize = 3;

/// What a server opens of one store.
#[derive(Clone, Debug)]
pub struct Opening {
    /// Its name in addresses.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// Its index.
    pub pivots: Option<PathBuf>,
    /// Its sketches.
    pub sketch: Option<PathBuf>,
    /// Its codes, if it holds vectors.
    pub codes: Option<PathBuf>,
    /// Its lists, if it holds vectors.
    pub lists: Option<PathBuf>,
    /// The folder in which the names are paths.
    pub images: Option<PathBuf>,
    /// The folder that keeps thumbnails.
    pub cache: Option<PathBuf>,
    /// The most bytes of that folder.
    pub cache_bytes: u64,
    /// The steepness of the similarity, if it is not the store's.
    pub alpha: Option<f64>,
    /// Where to compute.
    pub device: Option<String>,
    /// The longest picture that is given as it is, in bytes.
    pub image_bytes: u64,
}

/// What tells that a file may have changed.
type Stamp = Option<(u64, SystemTime, u64)>;

fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let inode = 0;
    Some((metadata.len(), metadata.modified().ok()?, inode))
}

struct Entry {
    opening: Opening,
    current: RwLock<Arc<Open>>,
    /// Why the present state is not that of the file.
    stale: Mutex<Option<String>>,
    seen: Mutex<Stamp>,
    /// Held while the store is loaded anew.
    loading: Mutex<()>,
}

struct Shared {
    engine: Arc<Engine>,
    catalog: Catalog,
    pipelines: Pipelines,
    entries: Vec<Entry>,
    log: Log,
    reloads: AtomicU64,
    failed_reloads: AtomicU64,
}

/// The stores of a server. A thread of it watches their files until it is dropped.
pub struct Stores {
    shared: Arc<Shared>,
    ending: Option<Sender<()>>,
    watching: Option<JoinHandle<()>>,
}

impl Stores {
    /// Opens stores and prepares their pipelines. Blocks on the disk.
    ///
    /// # Errors
    /// When a store or its index cannot be opened, or do not fit.
    pub fn open(
        engine: Arc<Engine>,
        catalog: &Catalog,
        pipelines: Pipelines,
        openings: Vec<Opening>,
        log: Log,
    ) -> Result<Self, String> {
        let mut entries = Vec::new();
        for opening in openings {
            let seen = stamp(&opening.path);
            let open = load(&engine, catalog, &pipelines, &opening)?;
            entries.push(Entry {
                opening,
                current: RwLock::new(Arc::new(open)),
                stale: Mutex::new(None),
                seen: Mutex::new(seen),
                loading: Mutex::new(()),
            });
        }
        let shared = Shared {
            engine,
            catalog: catalog.clone(),
            pipelines,
            entries,
            log,
            reloads: AtomicU64::new(0),
            failed_reloads: AtomicU64::new(0),
        };
        let shared = Arc::new(shared);
        let (ending, ended) = mpsc::channel();
        let weak = Arc::downgrade(&shared);
        let watching = std::thread::Builder::new()
            .name("boxwork-stores".to_owned())
            .spawn(move || watch(&weak, &ended))
            .map_err(|error| format!("the system refused a thread: {error}"))?;
        Ok(Self { shared, ending: Some(ending), watching: Some(watching) })
    }
}

impl Drop for Stores {
    fn drop(&mut self) {
        drop(self.ending.take());
        if let Some(watching) = self.watching.take() {
            // A panic of the thread was printed when it happened.
            let _ = watching.join();
        }
    }
}

fn watch(shared: &Weak<Shared>, ended: &mpsc::Receiver<()>) {
    while ended.recv_timeout(WATCH) == Err(RecvTimeoutError::Timeout) {
        let Some(shared) = shared.upgrade() else { return };
        for entry in &shared.entries {
            let now = stamp(&entry.opening.path);
            if now != *entry.seen.lock() {
                // The log and `/readyz` have the reason of a failure.
                let _ = shared.reload(entry);
            }
        }
    }
}

impl Shared {
    fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.opening.name == name)
    }

    /// Loads a store anew if its content has changed. Returns whether it had.
    fn reload(&self, entry: &Entry) -> Result<bool, String> {
        let _loading = entry.loading.lock();
        let seen = stamp(&entry.opening.path);
        let is_same = seen == *entry.seen.lock() && entry.stale.lock().is_none();
        if is_same {
            return Ok(false);
        }
        *entry.seen.lock() = seen;
        let name = &entry.opening.name;
        match load(&self.engine, &self.catalog, &self.pipelines, &entry.opening) {
            Ok(open) => {
                *entry.stale.lock() = None;
                let mut current = entry.current.write();
                if current.store.fingerprint() == open.store.fingerprint() {
                    return Ok(false);
                }
                let objects = open.store.objects_count();
                *current = Arc::new(open);
                drop(current);
                self.reloads.fetch_add(1, Ordering::Relaxed);
                self.log.say(format_args!("store {name}: loaded anew, {objects} objects"));
                Ok(true)
            }
            Err(reason) => {
                self.failed_reloads.fetch_add(1, Ordering::Relaxed);
                self.log.say(format_args!("store {name}: it has changed and cannot be loaded, so the state before is served: {reason}"));
                *entry.stale.lock() = Some(format!(
                    "store {name}: its file has changed and cannot be loaded; the state before is served"
                ));
                Err(reason)
            }
        }
    }
}

impl Backend for Stores {
    fn stores(&self) -> Vec<String> {
        self.shared.entries.iter().map(|entry| entry.opening.name.clone()).collect()
    }

    fn snapshot(&self, store: &str) -> Option<Arc<dyn Snapshot>> {
        let current = Arc::clone(&self.shared.entry(store)?.current.read());
        Some(current)
    }

    fn reload(&self, store: &str) -> Answer<bool> {
        let (shared, store) = (Arc::clone(&self.shared), store.to_owned());
        Box::pin(async move {
            let work = move || {
                let entry = shared.entry(&store).ok_or_else(|| "there is no such store".to_owned())?;
                // A change within the clock's resolution leaves the stamp as it is.
                *entry.seen.lock() = None;
                shared.reload(entry)
            };
            let loaded = tokio::task::spawn_blocking(work).await;
            let loaded = loaded.map_err(|error| Refusal::Internal(error.to_string()))?;
            loaded.map_err(|_| {
                Refusal::Stale(
                    "the store cannot be loaded: the server's log says why; the state before is served"
                        .to_owned(),
                )
            })
        })
    }

    fn readiness(&self) -> Readiness {
        let notes = self.shared.entries.iter().filter_map(|entry| entry.stale.lock().clone());
        Readiness { ready: !self.shared.engine.is_cancelled(), notes: notes.collect() }
    }

    fn figures(&self) -> String {
        let mut page = String::new();
        let of = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let (mut bytes, mut hits, mut misses) = (0, 0, 0);
        for entry in &self.shared.entries {
            if let Some(thumbnails) = &entry.current.read().thumbnails {
                bytes += thumbnails.bytes() as u64;
                hits += of(&thumbnails.hits);
                misses += of(&thumbnails.misses);
            }
        }
        for (name, kind, help, value) in [
            ("boxwork_reloads_total", "counter", "Stores that were loaded anew.", of(&self.shared.reloads)),
            (
                "boxwork_failed_reloads_total",
                "counter",
                "Changed stores that could not be loaded.",
                of(&self.shared.failed_reloads),
            ),
            ("boxwork_thumbnail_bytes", "gauge", "Bytes of thumbnails in memory.", bytes),
            (
                "boxwork_thumbnail_hits",
                "gauge",
                "Thumbnails that were in memory, since the store was loaded.",
                hits,
            ),
            ("boxwork_thumbnail_misses", "gauge", "Thumbnails that were not.", misses),
        ] {
            let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        }
        page.push_str(&exposition::page(&exposition::snapshot(self.shared.engine.runtime())));
        page
    }
}

/// Opens a store and prepares its pipelines, all of one content: what they have in common is loaded once.
fn load(
    engine: &Arc<Engine>,
    catalog: &Catalog,
    pipelines: &Pipelines,
    opening: &Opening,
) -> Result<Open, String> {
    for _ in 0..TRIES {
        if let Some(open) = load_once(engine, catalog, pipelines, opening)? {
            return Ok(open);
        }
    }
    Err(format!("`{}` changes again and again while it is opened", opening.path.display()))
}

fn text(path: &Path) -> Value {
    Value::Text(path.to_string_lossy().into_owned())
}

/// The values of pipelines over a store.
fn values(opening: &Opening) -> Vec<(&'static str, Value)> {
    let mut values = vec![("store", text(&opening.path)), ("queries", Value::List(Vec::new()))];
    values.extend(opening.pivots.as_ref().map(|pivots| ("pivots", text(pivots))));
    values.extend(opening.sketch.as_ref().map(|sketch| ("sketch", text(sketch))));
    values.extend(opening.codes.as_ref().map(|codes| ("codes", text(codes))));
    values.extend(opening.lists.as_ref().map(|lists| ("lists", text(lists))));
    values.extend(opening.alpha.map(|alpha| ("alpha", Value::Number(alpha))));
    values.extend(opening.device.as_ref().map(|device| ("device", Value::Text(device.clone()))));
    values
}

fn ready(
    resources: &mut Resources,
    engine: &Engine,
    catalog: &Catalog,
    pipeline: &InMemory,
    values: BTreeMap<String, Value>,
) -> Result<Ready, String> {
    let prepared = resources.prepare(engine, &pipeline.loaded, catalog, &values)?;
    Ok(Ready { prepared, input: pipeline.input.clone(), output: pipeline.output.clone() })
}

/// The store that a prepared pipeline has opened.
fn store_of(prepared: &Prepared) -> Option<Arc<dyn Store>> {
    let resources = prepared.plan().resources.iter().filter_map(|resource| prepared.resource(&resource.name));
    resources
        .filter_map(|resource| resource.downcast_ref::<SharedStore>())
        .map(|store| Arc::clone(&store.0))
        .next()
}

/// Where a prepared pipeline of rounds takes the bounds of objects from.
fn mode_of(prepared: &Prepared) -> Option<&'static str> {
    let resources = &prepared.plan().resources;
    resources.iter().filter_map(|resource| prepared.resource(&resource.name)).find_map(feedback_mode)
}

/// The pipelines of feedback, or the reason that there are none: not every distance has a covariance.
fn rounds(
    resources: &mut Resources,
    engine: &Engine,
    catalog: &Catalog,
    pipelines: &Pipelines,
    given: &[(&'static str, Value)],
) -> Result<Rounds, String> {
    let mut ready = |pipeline: &InMemory| {
        let mut values = declared(&pipeline.loaded, given.to_vec());
        // The object of a request; any text will do until then.
        if pipeline.loaded.declaration.parameters.iter().any(|declared| declared.name == "object") {
            values.insert("object".to_owned(), Value::Text("#0".to_owned()));
        }
        ready(resources, engine, catalog, pipeline, values)
    };
    Ok(Rounds {
        round: ready(&pipelines.round)?,
        ranking: ready(&pipelines.ranking)?,
        why: ready(&pipelines.why)?,
    })
}

fn load_once(
    engine: &Arc<Engine>,
    catalog: &Catalog,
    pipelines: &Pipelines,
    opening: &Opening,
) -> Result<Option<Open>, String> {
    let (given, mut resources) = (values(opening), Resources::default());
    let resources = &mut resources;
    let mut prepare = |pipeline: &InMemory| {
        ready(resources, engine, catalog, pipeline, declared(&pipeline.loaded, given.clone()))
    };
    let search = prepare(&pipelines.search)?;
    let lacks = || "the pipeline of the search has no store or no space".to_owned();
    let store = store_of(&search.prepared).ok_or_else(lacks)?;
    let (measure, is_signed) = search.measure().ok_or_else(lacks)?;
    let is_same = |ready: &Ready| {
        store_of(&ready.prepared).is_none_or(|other| other.fingerprint() == store.fingerprint())
    };
    let vectors =
        OfVectors::of(&mut prepare, pipelines, (&opening.codes, &opening.lists), &*store, &measure)?;
    let signatures = Arc::clone(&store).as_signatures();
    let picture = match (&signatures, store.parameters()) {
        (Some(_), Some(_)) => Some(prepare(&pipelines.picture)?),
        _ => None,
    };
    let rounds = rounds(resources, engine, catalog, pipelines, &given);
    if let (Some(_), Err(reason)) = (&opening.sketch, &rounds) {
        return Err(reason.clone());
    }
    let mode = rounds.as_ref().ok().and_then(|rounds| mode_of(&rounds.round.prepared));
    let of_rounds = rounds.iter().flat_map(|rounds| [&rounds.round, &rounds.ranking, &rounds.why]);
    let of_vectors = vectors.iter().flat_map(OfVectors::pipelines);
    if !picture.iter().chain(of_vectors).chain(of_rounds).all(is_same) {
        return Ok(None);
    }
    let thumbnails = match &opening.images {
        None => None,
        Some(images) => {
            let mut given = vec![("images", text(images))];
            given.extend(opening.cache.as_ref().map(|cache| ("cache", text(cache))));
            given.push(("cache_bytes", Value::Integer(opening.cache_bytes.min(1 << 50) as i64)));
            let loaded = &pipelines.thumbnail.loaded;
            Some(Thumbnails::new(ready(
                resources,
                engine,
                catalog,
                &pipelines.thumbnail,
                declared(loaded, given),
            )?))
        }
    };
    let names = Names::new(&*store).map_err(|error| error.to_string())?;
    let family = format!("{}; {measure}", store.parameters().unwrap_or(store.kind()));
    Ok(Some(Open {
        engine: Arc::clone(engine),
        name: opening.name.clone(),
        signatures,
        names,
        measure,
        is_signed,
        mode: mode.unwrap_or("exact"),
        family,
        search,
        vectors,
        rounds,
        picture,
        thumbnails,
        images: opening.images.clone(),
        image_bytes: opening.image_bytes,
        store,
    }))
}
