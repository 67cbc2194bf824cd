//! A backend whose distances are differences of ids, and whose answers may be held back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use boxwork_server::backend::*;
use boxwork_server::{Answer, Backend, Snapshot};
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;

/// The stores: one, called `s`.
#[derive(Debug)]
pub struct Fake {
    pub state: RwLock<Arc<State>>,
    pub readiness: Mutex<Readiness>,
    pub work: Arc<Work>,
}

/// What happens to work.
#[derive(Debug)]
pub struct Work {
    /// Permits for answers; a test takes them away to hold answers back.
    pub allowed: Semaphore,
    pub begun: AtomicUsize,
    pub ended: AtomicUsize,
    pub cancelled: AtomicUsize,
}

/// A state of the store: by id, a name or none.
#[derive(Debug)]
pub struct State {
    pub names: Vec<Option<String>>,
    pub fingerprint: String,
    pub family: String,
    pub work: Arc<Work>,
}

pub fn name(nth: usize) -> String {
    format!("{}/{nth:03}.jpg", ["cats", "dogs", "owls"][nth % 3])
}

impl Fake {
    pub fn new(objects: usize) -> Arc<Self> {
        let work = Arc::new(Work {
            allowed: Semaphore::new(Semaphore::MAX_PERMITS),
            begun: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            cancelled: AtomicUsize::new(0),
        });
        let state = State {
            names: (0..objects).map(|nth| Some(name(nth))).collect(),
            fingerprint: "first".to_owned(),
            family: "f".to_owned(),
            work: Arc::clone(&work),
        };
        let readiness = Mutex::new(Readiness { ready: true, notes: Vec::new() });
        Arc::new(Self { state: RwLock::new(Arc::new(state)), readiness, work })
    }

    /// Replaces the store's state.
    pub fn change(&self, fingerprint: &str, family: &str, names: Vec<Option<String>>) {
        let work = Arc::clone(&self.work);
        let state = State { names, fingerprint: fingerprint.to_owned(), family: family.to_owned(), work };
        *self.state.write() = Arc::new(state);
    }

    /// Holds all answers back from now on.
    pub fn hold(&self) {
        self.work.allowed.forget_permits(Semaphore::MAX_PERMITS);
    }

    /// Lets this many answers through.
    pub fn release(&self, count: usize) {
        self.work.allowed.add_permits(count);
    }
}

/// Counts work that is dropped before its end.
struct Under(Arc<Work>, bool);

impl Drop for Under {
    fn drop(&mut self) {
        let count = if self.1 { &self.0.ended } else { &self.0.cancelled };
        count.fetch_add(1, Ordering::SeqCst);
    }
}

impl State {
    fn work<T: Send + 'static>(
        self: &Arc<Self>,
        answer: impl FnOnce(&Self) -> Result<T, Refusal> + Send + 'static,
    ) -> Answer<T> {
        let state = Arc::clone(self);
        Box::pin(async move {
            state.work.begun.fetch_add(1, Ordering::SeqCst);
            let mut under = Under(Arc::clone(&state.work), false);
            state.work.allowed.acquire().await.unwrap().forget();
            under.1 = true;
            answer(&state)
        })
    }

    fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.names.len() as u64).filter(|id| self.names[*id as usize].is_some())
    }

    fn fits(&self, id: u64, class: &Option<String>) -> bool {
        let name = self.names[id as usize].as_deref().unwrap_or_default();
        class.as_ref().is_none_or(|class| name.split('/').next() == Some(class))
    }

    /// The mean: by the distance to the marks, the nearer the more.
    fn mean(&self, question: &Question, id: u64) -> f64 {
        let share = |mark: &Mark| {
            let distance = self.distance(&mark.subject, id);
            (2.0 * mark.relevance - 1.0) / (1.0 + distance)
        };
        question.marks.iter().map(share).sum()
    }

    fn distance(&self, subject: &Subject, id: u64) -> f64 {
        let at = match subject {
            Subject::Object(id) => *id as f64,
            Subject::Picture(picture) => f64::from(picture.signature[0][0]),
        };
        (at - id as f64).abs()
    }
}

impl Backend for Fake {
    fn stores(&self) -> Vec<String> {
        vec!["s".to_owned()]
    }

    fn snapshot(&self, store: &str) -> Option<Arc<dyn Snapshot>> {
        let state: Arc<dyn Snapshot> = Arc::clone(&*self.state.read()) as Arc<dyn Snapshot>;
        (store == "s").then_some(state)
    }

    fn reload(&self, _: &str) -> Answer<bool> {
        Box::pin(async { Ok(false) })
    }

    fn readiness(&self) -> Readiness {
        self.readiness.lock().clone()
    }

    fn figures(&self) -> String {
        "# TYPE fake gauge\nfake 1\n".to_owned()
    }
}

impl Snapshot for State {
    fn summary(&self) -> Summary {
        Summary {
            name: "s".to_owned(),
            kind: "numbers".to_owned(),
            objects: self.ids().count() as u64,
            fingerprint: self.fingerprint.clone(),
            measure: "difference of ids".to_owned(),
            alpha: None,
            mode: "exact".to_owned(),
            images: true,
            originals: true,
            classes: Vec::new(),
        }
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn family(&self) -> &str {
        &self.family
    }

    fn object(&self, id: u64) -> Option<Object> {
        let name = self.names.get(usize::try_from(id).ok()?)?.clone()?;
        let class = name.split_once('/').map(|(class, _)| class.to_owned());
        Some(Object { id, name, class, width: 4, height: 3 })
    }

    fn find(&self, name: &str) -> Option<u64> {
        self.ids().find(|id| self.names[*id as usize].as_deref() == Some(name))
    }

    fn has_images(&self) -> bool {
        true
    }

    fn similar(&self, name: &str) -> Option<String> {
        self.names.iter().flatten().find(|known| known.len() == name.len()).cloned()
    }

    fn has_class(&self, class: &str) -> bool {
        self.ids().any(|id| self.fits(id, &Some(class.to_owned())))
    }

    fn list(&self, filter: &Filter, after: Option<u64>, limit: usize) -> Listing {
        let prefix = filter.prefix.clone().unwrap_or_default();
        let mut ids = self.ids().filter(|id| after.is_none_or(|after| *id > after)).filter(|id| {
            self.fits(*id, &filter.class)
                && self.names[*id as usize].as_deref().is_some_and(|name| name.starts_with(&prefix))
        });
        let objects: Vec<Object> = ids.by_ref().take(limit).filter_map(|id| self.object(id)).collect();
        let next = ids.next().and_then(|_| objects.last().map(|last| last.id));
        Listing { objects, next }
    }

    fn centroids(self: Arc<Self>, _: u64) -> Answer<u64> {
        Box::pin(async { Ok(1) })
    }

    fn extract(self: Arc<Self>, file: Bytes, _: u64) -> Answer<Picture> {
        self.work(move |_| match file[0] {
            b'P' => Ok(Picture { width: 7, height: 5, signature: vec![vec![f32::from(file[1]), 1.0]] }),
            b'T' => Err(Refusal::Undecodable("the picture is cut short".to_owned())),
            _ => Err(Refusal::Unsupported("it is no picture".to_owned())),
        })
    }

    fn check(&self, picture: &Picture) -> Result<(), String> {
        let fits = picture.signature.iter().all(|row| row.len() == 2);
        if fits { Ok(()) } else { Err("a centroid has two numbers here".to_owned()) }
    }

    fn search(self: Arc<Self>, search: Search) -> Answer<Vec<Found>> {
        self.work(move |state| {
            let is_among = |id: &u64| search.subset.as_ref().is_none_or(|subset| subset.contains(id));
            let found = state.ids().filter(|id| state.fits(*id, &search.class) && is_among(id));
            let mut found: Vec<Found> =
                found.map(|id| Found { id, distance: state.distance(&search.subject, id) }).collect();
            found.retain(|found| search.range.is_none_or(|range| found.distance <= range));
            found.sort_by(|a, b| a.distance.total_cmp(&b.distance).then(a.id.cmp(&b.id)));
            found.truncate(search.k);
            Ok(found)
        })
    }

    fn round(self: Arc<Self>, question: Question) -> Answer<Vec<Chosen>> {
        self.work(move |state| {
            let left =
                state.ids().filter(|id| !question.seen.contains(id) && state.fits(*id, &question.class));
            let mut left: Vec<(u64, f64)> = left.map(|id| (id, state.mean(&question, id))).collect();
            left.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            let liked = question.marks.iter().find_map(|mark| match mark.subject {
                Subject::Object(id) if mark.relevance > 0.5 => Some((id, 0.5)),
                _ => None,
            });
            let chosen = |(id, mean): (u64, f64)| Chosen {
                id,
                mean,
                deviation: 0.5,
                upper: mean + question.explore * 0.5,
                liked,
                disliked: None,
            };
            Ok(left.into_iter().take(question.batch).map(chosen).collect())
        })
    }

    fn ranking(self: Arc<Self>, question: Question, limit: usize) -> Answer<Vec<Ranked>> {
        self.work(move |state| {
            let ranked = |id| Ranked { id, mean: state.mean(&question, id), deviation: 0.5 };
            let mut all: Vec<Ranked> = state.ids().map(ranked).collect();
            all.sort_by(|a, b| b.mean.total_cmp(&a.mean).then(a.id.cmp(&b.id)));
            all.truncate(limit);
            Ok(all)
        })
    }

    fn why(self: Arc<Self>, question: Question, id: u64) -> Answer<Reasons> {
        self.work(move |state| {
            let marks = question.marks.iter().filter_map(|mark| match mark.subject {
                Subject::Object(marked) => Some((marked, 0.25)),
                Subject::Picture(_) => None,
            });
            let marks: Vec<(u64, f64)> = marks.take(5).collect();
            let nearest_liked =
                marks.iter().map(|(marked, _)| (*marked, marked.abs_diff(id) as f64)).collect();
            Ok(Reasons { mean: state.mean(&question, id), deviation: 0.5, marks, nearest_liked })
        })
    }

    fn thumbnail(self: Arc<Self>, id: u64, size: u32) -> Answer<Bytes> {
        Box::pin(async move {
            if id == 13 {
                return Err(Refusal::NotFound("the object's picture is missing".to_owned()));
            }
            Ok(Bytes::from(format!("jpeg of {id} at {size}")))
        })
    }

    fn original(self: Arc<Self>, id: u64) -> Answer<Content> {
        Box::pin(async move { Ok(Content { media_type: "image/png", bytes: format!("png of {id}").into() }) })
    }
}
