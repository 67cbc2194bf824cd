//! What requests share of sketches: those that are open, and the columns of covariances that rounds have computed, the least
//! recently used dropped first.
//!
//! Invariant: the kept columns of an engine are at most [`COLUMNS_MAX`], and take no more than [`BYTES_MAX`] bytes.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use boxwork_kernels::gaussian_process::{Covariance, Form};
use boxwork_kernels::sketch::COORDINATES;
use boxwork_stores::sketch::{Sketch, SketchError};
use boxwork_stores::space::Space;

/// Bytes of all columns together: those of 200 marks of a million objects fit.
const BYTES_MAX: usize = 384 << 20;

/// Columns of all sketches together: sixteen sessions of sixty marks. Those of a small store are computed anew in less time
/// than a user notices, so that they need no more memory.
const COLUMNS_MAX: usize = 1024;

/// New marks of a round of usual size.
const MISSING_FEW: usize = 32;

/// The covariances of one object with all others, in the form of the pass.
pub(crate) type KeptColumn = Arc<Box<[u16]>>;

/// The sketches that resources of an engine use now.
#[derive(Debug, Default)]
pub(crate) struct Sketches(Mutex<Vec<(String, Weak<Sketch>)>>);

impl Sketches {
    /// The sketches of a space: those of another resource, if that has opened the same file for the same store.
    pub(crate) fn open(&self, path: &Path, space: &Arc<dyn Space>) -> Result<Arc<Sketch>, SketchError> {
        let state = fs::metadata(path).and_then(|found| Ok((found.len(), found.modified()?))).ok();
        let key = format!("{} {state:?} {} {}", path.display(), space.store().fingerprint(), space.measure());
        // Held while one is read, so that it is read once.
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(_, sketch)| sketch.strong_count() > 0);
        let known = open.iter().find(|(known, _)| *known == key).and_then(|(_, sketch)| sketch.upgrade());
        if let Some(sketch) = known {
            return Ok(sketch);
        }
        let sketch = Arc::new(Sketch::open(path, space)?);
        open.push((key, Arc::downgrade(&sketch)));
        Ok(sketch)
    }
}

/// The sketches, the covariance, and the object by its own sketch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    number: u64,
    form: &'static str,
    length: u64,
    sketch: [u16; COORDINATES],
}

impl Key {
    fn new(number: u64, covariance: &Covariance, sketch: &[u16; COORDINATES]) -> Self {
        let form: Form = covariance.form();
        Self { number, form: form.name(), length: covariance.length().to_bits(), sketch: *sketch }
    }
}

/// Columns of all sketches of an engine.
#[derive(Debug, Default)]
pub(crate) struct KeptColumns(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// With the time of the last use.
    columns: HashMap<Key, (KeptColumn, u64)>,
    bytes: usize,
    time: u64,
}

impl KeptColumns {
    /// Whether a round goes by columns of this many bytes: if they fit together, and few are missing or there is room for
    /// those. A round whose columns have made room for others' bounds all objects by their sketches: it would take the room of
    /// others in turn, and no round would find its columns any more.
    pub(crate) fn is_worthwhile<'a>(
        &self,
        number: u64,
        covariance: &Covariance,
        sketches: impl ExactSizeIterator<Item = &'a [u16; COORDINATES]>,
        bytes: usize,
    ) -> bool {
        if sketches.len() > COLUMNS_MAX || sketches.len().saturating_mul(bytes) > BYTES_MAX {
            return false;
        }
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = sketches
            .filter(|sketch| !kept.columns.contains_key(&Key::new(number, covariance, sketch)))
            .count();
        let has_room =
            kept.bytes + missing * bytes <= BYTES_MAX && kept.columns.len() + missing <= COLUMNS_MAX;
        missing <= MISSING_FEW || has_room
    }

    /// The column of an object.
    pub(crate) fn get(
        &self,
        number: u64,
        covariance: &Covariance,
        sketch: &[u16; COORDINATES],
    ) -> Option<KeptColumn> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.time += 1;
        let time = kept.time;
        let (column, used) = kept.columns.get_mut(&Key::new(number, covariance, sketch))?;
        *used = time;
        Some(Arc::clone(column))
    }

    /// Keeps the column of an object.
    pub(crate) fn keep(
        &self,
        number: u64,
        covariance: &Covariance,
        sketch: &[u16; COORDINATES],
        column: &KeptColumn,
    ) {
        self.keep_within(BYTES_MAX, Key::new(number, covariance, sketch), column);
    }

    fn keep_within(&self, bytes_max: usize, key: Key, column: &KeptColumn) {
        let bytes = size_of_val(&***column);
        if bytes > bytes_max {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.time += 1;
        let entry = (Arc::clone(column), kept.time);
        if let Some((old, _)) = kept.columns.insert(key, entry) {
            kept.bytes -= size_of_val(&**old);
        }
        kept.bytes += bytes;
        while kept.bytes > bytes_max || kept.columns.len() > COLUMNS_MAX {
            let oldest = kept.columns.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone());
            let Some((old, _)) = oldest.and_then(|key| kept.columns.remove(&key)) else { return };
            kept.bytes -= size_of_val(&**old);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_column_goes_first() {
        let kept = KeptColumns::default();
        let covariance = Covariance::new(Form::Gaussian, 0.5);
        let key = |mark: u16| Key::new(1, &covariance, &[mark; COORDINATES]);
        let column = KeptColumn::new(vec![0; 100].into());
        let has = |mark: u16| kept.get(1, &covariance, &[mark; COORDINATES]).is_some();
        kept.keep_within(600, key(0), &column);
        kept.keep_within(600, key(1), &column);
        kept.keep_within(600, key(1), &column);
        kept.keep_within(600, key(2), &column);
        assert!(has(0) && has(1) && has(2) && !has(3));
        assert!(has(0));
        kept.keep_within(600, key(3), &column);
        assert!(has(0) && !has(1) && has(2) && has(3));
        assert!(kept.get(2, &covariance, &[0; COORDINATES]).is_none());
        let other = Covariance::new(Form::Gaussian, 0.6);
        assert!(kept.get(1, &other, &[0; COORDINATES]).is_none());
        let others = [[7; COORDINATES], [8; COORDINATES], [9; COORDINATES]];
        let sketches = |count: usize| others.iter().cycle().take(count).collect::<Vec<_>>().into_iter();
        let is_worthwhile =
            |count: usize, bytes: usize| kept.is_worthwhile(1, &covariance, sketches(count), bytes);
        assert!(is_worthwhile(MISSING_FEW, BYTES_MAX / MISSING_FEW), "few make room");
        assert!(!is_worthwhile(MISSING_FEW, BYTES_MAX / MISSING_FEW + 1), "they do not fit together");
        assert!(is_worthwhile(40, (BYTES_MAX - 600) / 40), "there is room");
        assert!(!is_worthwhile(40, BYTES_MAX / 40), "too many would take the room of others");
        kept.keep_within(100, key(4), &column);
        assert!(!has(4) && kept.0.lock().unwrap().bytes == 600);
    }
    #[test]
    fn columns_of_small_stores_are_bounded_by_their_number() {
        let kept = KeptColumns::default();
        let covariance = Covariance::new(Form::Gaussian, 0.5);
        let mark = |mark: usize| [mark as u16; COORDINATES];
        let column = KeptColumn::new(vec![0; 1].into());
        for number in 0..COLUMNS_MAX + 3 {
            kept.keep(1, &covariance, &mark(number), &column);
        }
        assert_eq!(kept.0.lock().unwrap().columns.len(), COLUMNS_MAX);
        let has = |number: usize| kept.get(1, &covariance, &mark(number)).is_some();
        assert!(!has(2) && has(3) && has(COLUMNS_MAX + 2));
        let missing: Vec<_> = (0..MISSING_FEW + 1).map(|number| mark(60_000 + number)).collect();
        assert!(
            !kept.is_worthwhile(1, &covariance, missing.iter(), 2),
            "too many would take the room of others"
        );
        assert!(kept.is_worthwhile(1, &covariance, missing[1..].iter(), 2), "few make room");
    }
}
