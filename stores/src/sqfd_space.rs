//! The space of an SQFD search: a measure over a store, and every object's similarity to itself.
//!
//! The self-similarities are f64, computed on demand and kept; once all are known, a sidecar file keeps them between
//! runs. [`SqfdSpace::exact`] returns the distance that every result reports.

mod query;

pub use query::SqfdQuery;

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use boxwork_kernels::interrupt::{Interrupt, ask, never};
use boxwork_kernels::similarity::Measure;
use boxwork_kernels::sqfd::{Arithmetic, Evaluator, PreparedQuery, SignatureRef, reference};

use super::chunks::Chunks;
use super::new_number;
use super::signature::CENTROIDS_MAX;
use super::signature_store::{Objects, SignatureStore, StoreError, TemporaryFile};
use super::store::Store;

/// A measure over the objects of a store.
#[derive(Debug)]
pub struct SqfdSpace {
    store: Arc<SignatureStore>,
    /// `store` as a shared `Store`.
    shared: Arc<dyn Store>,
    measure: Measure,
    // The bits of each object's sigma(S, S), or UNKNOWN. All threads compute equal bits, and the value publishes no
    // other data: relaxed order suffices.
    sigma_self: Vec<AtomicU64>,
    /// Whether [`SqfdSpace::is_complete`] has found every similarity: none is forgotten.
    is_all_known: AtomicBool,
    is_kept: AtomicBool,
    number: u64,
    chunks: OnceLock<Chunks>,
    centroids_max: OnceLock<usize>,
    arithmetic: Arc<OnceLock<Arithmetic>>,
}

/// The first bytes of a sidecar, before the fingerprints of the store and the measure.
const SIDECAR: &str = "boxwork sigma 2 ";
/// A NaN, which no sigma is; in a sidecar it marks a removed object.
const UNKNOWN: u64 = u64::MAX;

impl SqfdSpace {
    /// The space of a measure over a store; reads the self-similarities from a fresh sidecar.
    pub fn new(store: Arc<SignatureStore>, measure: Measure) -> Self {
        let mut space = Self {
            shared: Arc::<SignatureStore>::clone(&store),
            store,
            measure,
            sigma_self: Vec::new(),
            is_kept: AtomicBool::new(false),
            is_all_known: AtomicBool::new(false),
            number: new_number(),
            chunks: OnceLock::new(),
            centroids_max: OnceLock::new(),
            arithmetic: Arc::default(),
        };
        // An absent, stale or damaged sidecar only costs time.
        let kept = fs::read(space.sidecar_path()).ok().and_then(|bytes| space.read_sidecar(&bytes));
        space.sigma_self = kept.unwrap_or_default();
        let ids = space.store.len() as usize;
        space.is_kept = AtomicBool::new(space.sigma_self.len() == ids);
        space.sigma_self.resize_with(ids, || AtomicU64::new(UNKNOWN));
        space
    }

    /// The store.
    pub fn store(&self) -> &Arc<SignatureStore> {
        &self.store
    }

    /// The store, as spaces of any kind give it.
    pub(crate) fn shared(&self) -> &Arc<dyn Store> {
        &self.shared
    }

    /// The measure.
    pub fn measure(&self) -> Measure {
        self.measure
    }

    /// Unique in this process, also over time.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The least exact arithmetic that has computed distances in this space so far; unset for the usual one. A caller
    /// sets it before it computes.
    pub fn arithmetic(&self) -> &Arc<OnceLock<Arithmetic>> {
        &self.arithmetic
    }

    /// The most centroids of an object. The first call reads the whole store; if that fails, it returns the limit for
    /// any store.
    pub(crate) fn centroids_max(&self) -> usize {
        *self.centroids_max.get_or_init(|| {
            let longest = self.store.read::<_, StoreError>(|objects| {
                (0..self.store.batches()).try_fold(0, |longest, batch| {
                    let columns = objects.batch(batch)?.columns();
                    Ok((0..columns.rows()).map(|row| columns.range(row).1).fold(longest, usize::max))
                })
            });
            longest.unwrap_or(CENTROIDS_MAX)
        })
    }

    /// The cut of the store for devices.
    pub fn chunks(&self) -> &Chunks {
        self.chunks.get_or_init(|| Chunks::new(&self.store))
    }

    /// A text unique to this space, by which an index recognises it.
    pub fn fingerprint(&self) -> String {
        format!("{} {}", self.store.fingerprint(), self.measure_text())
    }

    /// Prepares a query for the fast paths.
    ///
    /// # Panics
    /// When the signature has another number of coordinates than the store; callers check that before.
    pub fn prepare(&self, query: SignatureRef<'_>) -> PreparedQuery {
        assert_eq!(query.dimensions(), self.store.dimensions(), "a query of the store's coordinates");
        PreparedQuery::new(self.measure, query)
    }

    /// An object's similarity to itself. `objects` are the store's, here and below.
    ///
    /// # Errors
    /// When there is no such object, or its batch is damaged.
    pub fn sigma_self(&self, objects: Objects<'_>, id: u64) -> Result<f64, StoreError> {
        self.sigma_self_until(objects, id, &never)
    }

    /// As [`SqfdSpace::sigma_self`], but the caller may interrupt it.
    ///
    /// # Errors
    /// As [`SqfdSpace::sigma_self`], and when the caller interrupts.
    pub fn sigma_self_until(
        &self,
        objects: Objects<'_>,
        id: u64,
        interrupt: Interrupt<'_>,
    ) -> Result<f64, StoreError> {
        match self.sigma_self.get(id as usize).map(|sigma| sigma.load(Ordering::Relaxed)) {
            Some(bits) if bits != UNKNOWN => Ok(f64::from_bits(bits)),
            _ => {
                // A call computes thousands of these in a store that is new, and no sum of a usual size asks.
                ask(interrupt)?;
                let signature = objects.signature(id)?;
                let sigma = reference::sigma_until(&self.measure, signature, signature, interrupt)?;
                // Kept even if the file is being truncated now: callers read it within a `SignatureStore::read`, which
                // then fails for good, and `keep` checks before it writes.
                self.sigma_self[id as usize].store(sigma.to_bits(), Ordering::Relaxed);
                Ok(sigma)
            }
        }
    }

    /// The distance of an object from a query, with the bits that every result reports. `query_sigma` is
    /// [`PreparedQuery::sigma_self`].
    ///
    /// # Errors
    /// As [`SqfdSpace::sigma_self`].
    pub fn exact(
        &self,
        objects: Objects<'_>,
        query: SignatureRef<'_>,
        query_sigma: f64,
        id: u64,
    ) -> Result<f64, StoreError> {
        self.exact_until(objects, (query, query_sigma), id, &never)
    }

    /// As [`SqfdSpace::exact`], of a query and its self-similarity, but the caller may interrupt it.
    pub(crate) fn exact_until(
        &self,
        objects: Objects<'_>,
        (query, query_sigma): (SignatureRef<'_>, f64),
        id: u64,
        interrupt: Interrupt<'_>,
    ) -> Result<f64, StoreError> {
        ask(interrupt)?;
        let cross = reference::sigma_until(&self.measure, query, objects.signature(id)?, interrupt)?;
        Ok(reference::distance(query_sigma, self.sigma_self_until(objects, id, interrupt)?, cross))
    }

    /// The distance of two objects of the store, equal in either order.
    ///
    /// # Errors
    /// As [`SqfdSpace::sigma_self`].
    pub fn between(&self, objects: Objects<'_>, a: u64, b: u64) -> Result<f64, StoreError> {
        self.between_until(objects, [a, b], &never)
    }

    /// As [`SqfdSpace::between`], but the caller may interrupt it.
    ///
    /// # Errors
    /// As [`SqfdSpace::sigma_self_until`].
    pub fn between_until(
        &self,
        objects: Objects<'_>,
        [a, b]: [u64; 2],
        interrupt: Interrupt<'_>,
    ) -> Result<f64, StoreError> {
        let (first, second) = (a.min(b), a.max(b));
        let query = (objects.signature(first)?, self.sigma_self_until(objects, first, interrupt)?);
        self.exact_until(objects, query, second, interrupt)
    }

    /// Fast distances of a query to rows of a batch, into `out`, with the error that the query declares.
    ///
    /// # Errors
    /// When the batch is damaged, and when the caller interrupts.
    ///
    /// # Panics
    /// When there is no such batch or row, or `rows` and `out` differ in length.
    pub fn fast(
        &self,
        objects: Objects<'_>,
        evaluator: &mut Evaluator,
        query: &PreparedQuery,
        (batch, rows): (usize, &[u32]),
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), StoreError> {
        evaluator.sigma_cross_until(query, &objects.batch(batch)?.columns(), rows, out, interrupt)?;
        let first = self.store.ids(batch).start;
        for (out, row) in out.iter_mut().zip(rows) {
            let sigma_self = self.sigma_self_until(objects, first + u64::from(*row), interrupt)?;
            *out = reference::distance(query.sigma_self(), sigma_self, *out);
        }
        Ok(())
    }

    /// The fast distance of an object from the cross sum that a device computed.
    ///
    /// # Errors
    /// As [`SqfdSpace::sigma_self_until`].
    pub fn of_cross(
        &self,
        objects: Objects<'_>,
        query: &PreparedQuery,
        (id, cross): (u64, f64),
        interrupt: Interrupt<'_>,
    ) -> Result<f64, StoreError> {
        query.distance(cross, self.sigma_self_until(objects, id, interrupt)?, || objects.signature(id))
    }

    /// Whether an object's similarity to itself is known, so that it is returned without reading the object.
    pub fn is_known(&self, id: u64) -> bool {
        self.sigma_self.get(id as usize).is_some_and(|sigma| sigma.load(Ordering::Relaxed) != UNKNOWN)
    }

    /// Whether every object's similarity to itself is known.
    pub fn is_complete(&self) -> bool {
        if self.is_all_known.load(Ordering::Relaxed) {
            return true;
        }
        let mut ids = self.store.among(0..self.store.len());
        let is_complete = ids.all(|id| self.sigma_self[id as usize].load(Ordering::Relaxed) != UNKNOWN);
        self.is_all_known.store(is_complete, Ordering::Relaxed);
        is_complete
    }

    /// Writes the sidecar if every similarity is known; returns whether a sidecar exists now.
    ///
    /// Blocks on the disk. A folder without write access only costs the next run time.
    pub fn keep(&self) -> bool {
        if !self.is_kept.load(Ordering::Relaxed) && self.is_complete() {
            self.is_kept.store(self.write_sidecar().is_ok(), Ordering::Relaxed);
        }
        self.is_kept.load(Ordering::Relaxed)
    }

    /// The sidecar's path: beside the store, with the measure in its name.
    pub fn sidecar_path(&self) -> PathBuf {
        let mut path = self.store.path().as_os_str().to_owned();
        let (similarity, ground) = (self.measure.similarity(), self.measure.ground());
        path.push(format!(".{similarity}-{ground}-{}.sigma", self.measure.alpha()));
        path.into()
    }

    fn measure_text(&self) -> String {
        let alpha = self.measure.alpha();
        format!("{} {} {alpha:?}", self.measure.similarity(), self.measure.ground())
    }

    fn sidecar_head(&self) -> Vec<u8> {
        format!("{SIDECAR}{}\n", self.fingerprint()).into_bytes()
    }

    fn write_sidecar(&self) -> io::Result<()> {
        let mut bytes = self.sidecar_head();
        for sigma in &self.sigma_self {
            bytes.extend_from_slice(&sigma.load(Ordering::Relaxed).to_le_bytes());
        }
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        // Results computed from a file that is being truncated must not outlive the run.
        self.store.read(|_| Ok::<_, StoreError>(())).map_err(io::Error::other)?;
        let mut file = TemporaryFile::create(&self.sidecar_path())?;
        file.write_all(&bytes)?;
        file.keep()
    }

    /// The similarities of the objects that the store had when the sidecar was written: of all, or of the first.
    fn read_sidecar(&self, bytes: &[u8]) -> Option<Vec<AtomicU64>> {
        let (content, checksum) = bytes.split_last_chunk::<4>()?;
        let head_end = content.iter().position(|byte| *byte == b'\n')?;
        let said = std::str::from_utf8(&content[..head_end]).ok()?.strip_prefix(SIDECAR)?;
        let (store, measure) = said.split_once(' ')?;
        let (sigmas, rest) = content[head_end + 1..].as_chunks::<8>();
        let fits = rest.is_empty()
            && measure == self.measure_text()
            && self.store.ids_at(store) == Some(sigmas.len() as u64)
            && crc32fast::hash(content) == u32::from_le_bytes(*checksum);
        fits.then(|| sigmas.iter().map(|sigma| AtomicU64::new(u64::from_le_bytes(*sigma))).collect())
    }
}

impl Drop for SqfdSpace {
    /// Keeps the similarities that a scan of the whole store has computed.
    fn drop(&mut self) {
        self.keep();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::Path;

    use boxwork_kernels::CodePath;
    use boxwork_kernels::similarity::{Ground, Similarity};
    use boxwork_kernels::sqfd::Columns;

    use super::*;
    use crate::signature_store::{StoreInfo, StoreWriter};

    /// Objects on a line, 0.25 apart.
    fn store(path: &Path, objects: usize) -> Arc<SignatureStore> {
        let mut writer = StoreWriter::create(path, &["x"], &StoreInfo::default()).unwrap();
        for object in 0..objects {
            let x = [object as f32 / 4.0, object as f32 / 4.0 + 1.0];
            let columns: [&[f32]; 1] = [&x];
            let columns = Columns::new(&columns, &[0.25, 0.75]);
            writer.push(&object.to_string(), columns.signature(0, 2), 0, 0).unwrap();
        }
        writer.finish().unwrap();
        Arc::new(SignatureStore::open(path).unwrap())
    }

    fn gaussian(alpha: f64) -> Measure {
        Measure::new(Similarity::Gaussian, Ground::L2, alpha).unwrap()
    }

    fn sigmas_of(space: &SqfdSpace) -> Vec<f64> {
        let ids = 0..space.store().len();
        space.store().read(|objects| ids.map(|id| space.sigma_self(objects, id)).collect()).unwrap()
    }

    #[test]
    fn exact_is_the_reference_and_fast_is_near_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder.path().join("s"), 20);
        let space = SqfdSpace::new(Arc::clone(&store), gaussian(0.2));
        let query =
            store.read(|objects| objects.signature(3).map(|signature| space.prepare(signature))).unwrap();
        let mut fast = [0.0; 20];
        let rows: Vec<u32> = (0..20).collect();
        let mut evaluator = Evaluator::new(CodePath::Portable);
        store
            .read(|objects| {
                let signature = objects.signature(3)?;
                space.fast(objects, &mut evaluator, &query, (0, &rows), &mut fast, &never)?;
                for id in 0..20 {
                    let exact = space.exact(objects, signature, query.sigma_self(), id)?;
                    let reference = reference::sqfd(&gaussian(0.2), signature, objects.signature(id)?);
                    assert_eq!(exact.to_bits(), reference.to_bits());
                    assert_eq!(space.between(objects, 3, id)?, space.between(objects, id, 3)?);
                    assert!((fast[id as usize] - exact).abs() <= query.distance_error(exact, 0.0) + 1e-12);
                }
                assert_eq!(space.between(objects, 3, 3)?, 0.0);
                assert!(space.exact(objects, signature, 1.0, 20).is_err());
                Ok::<_, StoreError>(())
            })
            .unwrap();
    }

    #[test]
    fn many_small_sums_stop_when_asked_to() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder.path().join("s"), 50);
        let rows: Vec<u32> = (0..50).collect();
        let ids: Vec<u64> = (0..50).collect();
        let asked = Cell::new(0);
        let asks = |limit: usize| {
            asked.set(asked.get() + 1);
            asked.get() > limit
        };
        let fresh = || SqfdSpace::new(Arc::clone(&store), gaussian(0.2));
        for limit in [0, 1, 20, 49] {
            let space = fresh();
            let known = || ids.iter().filter(|id| space.is_known(**id)).count();
            store
                .read(|objects| {
                    let signature = objects.signature(3)?;
                    let (query, mut evaluator) =
                        (space.prepare(signature), Evaluator::new(CodePath::Portable));
                    let mut fast = [0.0; 50];
                    // A new store lacks each object's similarity to itself.
                    asked.set(0);
                    let stopped =
                        space.fast(objects, &mut evaluator, &query, (0, &rows), &mut fast, &|| asks(limit));
                    assert!(matches!(stopped, Err(StoreError::Interrupted(_))), "{stopped:?}");
                    assert_eq!(known(), limit);
                    // An exact distance asks for itself.
                    asked.set(0);
                    let mut pairs = 0;
                    let stopped = (0..50).try_for_each(|id| {
                        space.between_until(objects, [0, id], &|| asks(limit)).map(|_| pairs += 1)
                    });
                    assert!(matches!(stopped, Err(StoreError::Interrupted(_))), "{stopped:?}");
                    assert!(pairs <= limit);
                    Ok::<_, StoreError>(())
                })
                .unwrap();
        }
    }

    #[test]
    fn the_sidecar_is_read_when_fresh_and_passed_over_when_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let space = SqfdSpace::new(store(&path, 20), gaussian(0.2));
        assert!(!space.is_complete() && !space.keep());
        let sigmas = sigmas_of(&space);
        assert!(space.keep());
        let again = SqfdSpace::new(Arc::clone(space.store()), gaussian(0.2));
        assert!(again.is_complete());
        assert_eq!(sigmas_of(&again), sigmas);
        assert!(!SqfdSpace::new(Arc::clone(space.store()), gaussian(0.3)).is_complete());
        let sound = fs::read(space.sidecar_path()).unwrap();
        for place in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[place] ^= 1 << (place % 8);
            assert!(space.read_sidecar(&bytes).is_none(), "byte {place} went unnoticed");
        }
        assert!((0..sound.len()).all(|length| space.read_sidecar(&sound[..length]).is_none()));
        fs::remove_file(space.sidecar_path()).unwrap();
        drop(again);
        assert!(!space.sidecar_path().exists());
        let dropped = SqfdSpace::new(Arc::clone(space.store()), gaussian(0.2));
        sigmas_of(&dropped);
        drop(dropped);
        assert_eq!(fs::read(space.sidecar_path()).unwrap(), sound);
        // Another store with this name is another store.
        assert!(!SqfdSpace::new(store(&path, 21), gaussian(0.2)).is_complete());
    }
}
