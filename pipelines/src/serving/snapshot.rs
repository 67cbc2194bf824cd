//! One state of a store, with its pipelines prepared: what the server asks.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use boxwork_operators::{beneath, decode};
use boxwork_runtime::parameter::Value;
use boxwork_server::Snapshot;
use boxwork_server::backend::{
    Answer, Chosen, Content, Filter, Found, Listing, Object, Picture, Question, Ranked, Reasons, Refusal,
    Search, Subject, Summary,
};
use boxwork_stores::signature_store::SignatureStore;
use boxwork_stores::store::Store;
use bytes::Bytes;

use super::ask::Ready;
use super::names::Names;
use super::objects::{self, internal};
use super::of_vectors::OfVectors;
use super::pictures::Thumbnails;
use super::rounds;
use crate::engine::Engine;

/// One state of a store.
pub(super) struct Open {
    pub(super) engine: Arc<Engine>,
    pub(super) name: String,
    pub(super) store: Arc<dyn Store>,
    pub(super) signatures: Option<Arc<SignatureStore>>,
    pub(super) names: Names,
    pub(super) measure: String,
    /// Whether distances may be negative.
    pub(super) is_signed: bool,
    /// Whether rounds bound objects by `exact` distances or by a `sketch`.
    pub(super) mode: &'static str,
    pub(super) family: String,
    pub(super) search: Ready,
    /// Present if the store holds vectors by a distance that has searches of its own.
    pub(super) vectors: Option<OfVectors>,
    /// Present if the distance has a covariance; otherwise the reason.
    pub(super) rounds: Result<Rounds, String>,
    /// Present if the store's objects were extracted from pictures.
    pub(super) picture: Option<Ready>,
    pub(super) thumbnails: Option<Thumbnails>,
    pub(super) images: Option<PathBuf>,
    /// The longest file that is given as it is.
    pub(super) image_bytes: u64,
}

/// The pipelines of feedback.
pub(super) struct Rounds {
    pub(super) round: Ready,
    pub(super) ranking: Ready,
    pub(super) why: Ready,
}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Open").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The objects that a search may find.
struct Among<'a> {
    names: &'a Names,
    class: Option<&'a str>,
    subset: Option<HashSet<u64>>,
    /// There are not more of them.
    most: usize,
}

impl<'a> Among<'a> {
    fn new(search: &'a Search, names: &'a Names) -> Self {
        let class = search.class.as_deref();
        let subset: Option<HashSet<u64>> =
            search.subset.as_ref().map(|subset| subset.iter().copied().collect());
        let of_class = class.map_or(usize::MAX, |class| names.objects_of(class) as usize);
        let most = subset.as_ref().map_or(of_class, |subset| subset.len().min(of_class));
        Self { names, class, subset, most }
    }

    fn has(&self, id: u64) -> bool {
        self.class.is_none_or(|class| self.names.class(id) == Some(class))
            && self.subset.as_ref().is_none_or(|subset| subset.contains(&id))
    }
}

/// Work that may wait for the disk, on a thread for that.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(internal)?
}

impl Open {
    /// The nearest objects by a pipeline, which may take further values.
    async fn nearest(
        &self,
        pipeline: &Ready,
        query: &arrow_array::RecordBatch,
        (k, range): (usize, Option<f64>),
        more: BTreeMap<String, Value>,
    ) -> Result<Vec<Found>, Refusal> {
        let mut values = more;
        values.insert("k".to_owned(), Value::Integer(k as i64));
        values.extend(range.map(|range| ("range".to_owned(), Value::Number(range))));
        let (batches, _) = pipeline.ask(&self.engine, values, Some(vec![query.clone()]), None).await?;
        let mut found = Vec::new();
        for batch in &batches {
            let rows = objects::ids(batch, "id").iter().zip(objects::numbers(batch, "distance"));
            found.extend(rows.map(|(id, distance)| Found { id: *id, distance: *distance }));
        }
        found.sort_by(|a, b| a.distance.total_cmp(&b.distance).then(a.id.cmp(&b.id)));
        Ok(found)
    }

    /// The nearest of some objects: more and more objects, until enough are of these. The order is that of all
    /// distances, so the first of these are the nearest.
    async fn nearest_among(
        &self,
        query: &arrow_array::RecordBatch,
        search: &Search,
    ) -> Result<Vec<Found>, Refusal> {
        let among = Among::new(search, &self.names);
        let all = self.store.objects_count() as usize;
        let wanted = search.k.min(among.most);
        if wanted == 0 {
            return Ok(Vec::new());
        }
        let mut k = (2 * wanted).saturating_mul(all / among.most.max(1)).clamp(wanted, all);
        loop {
            let mut found = self.nearest(&self.search, query, (k, search.range), BTreeMap::new()).await?;
            let is_all = found.len() < k || k == all;
            found.retain(|found| among.has(found.id));
            if found.len() >= wanted || is_all {
                found.truncate(wanted);
                return Ok(found);
            }
            k = k.saturating_mul(4).min(all);
        }
    }

    async fn searched(self: Arc<Self>, search: Search) -> Result<Vec<Found>, Refusal> {
        let (open, subject) = (Arc::clone(&self), search.subject.clone());
        let query = blocking(move || objects::query(objects::object(&subject, &*open.store)?)).await?;
        let limits = (search.k.min(self.store.objects_count() as usize), search.range);
        let is_among = search.class.is_some() || search.subset.is_some();
        match &self.vectors {
            None if !is_among => self.nearest(&self.search, &query, limits, BTreeMap::new()).await,
            Some(vectors) if !is_among && !vectors.has_codes && search.probes.is_none() => {
                self.nearest(&self.search, &query, limits, BTreeMap::new()).await
            }
            None => self.nearest_among(&query, &search).await,
            Some(vectors) => {
                let mut values = BTreeMap::new();
                let (mut pipeline, mut number) = (&vectors.nearest, |name: &str, value: usize| {
                    values.insert(name.to_owned(), Value::Integer(value as i64));
                });
                if let Some(probes) = search.probes {
                    let none = || Refusal::Invalid("the server has no lists of this store".to_owned());
                    pipeline = vectors.lists.as_ref().ok_or_else(none)?;
                    number("probes", probes.lists);
                    number("refine", probes.refine);
                }
                values.extend(search.class.map(|class| ("class".to_owned(), Value::Text(class))));
                let ids = |ids: Vec<u64>| ids.into_iter().map(|id| Value::Integer(id as i64)).collect();
                values.extend(search.subset.map(|subset| ("ids".to_owned(), Value::List(ids(subset)))));
                self.nearest(pipeline, &query, limits, values).await
            }
        }
    }

    async fn extracted(self: Arc<Self>, file: Bytes, pixels_max: u64) -> Result<Picture, Refusal> {
        let Some(ready) = &self.picture else {
            let detail =
                "the store's objects were not extracted from pictures: search with the name of an object";
            return Err(Refusal::Unsupported(detail.to_owned()));
        };
        if let Some((width, height)) = decode::size(&file)
            && u64::from(width) * u64::from(height) > pixels_max
        {
            return Err(Refusal::Undecodable(format!(
                "the image is {width} x {height} pixels, and {pixels_max} pixels are the most: scale it down"
            )));
        }
        let given = objects::file(&file)?;
        let (batches, outcome) = ready.ask(&self.engine, BTreeMap::new(), Some(vec![given]), None).await?;
        if let Some(picture) = objects::picture(&batches)? {
            return Ok(picture);
        }
        let reason =
            outcome.problems.first().map_or("it has no signature", |problem| problem.message.as_str());
        let is_picture = decode::media_type(&file).is_some();
        Err(if is_picture {
            Refusal::Undecodable(reason.to_owned())
        } else {
            Refusal::Unsupported(reason.to_owned())
        })
    }

    /// The pipelines of feedback.
    fn rounds(&self) -> Result<&Rounds, Refusal> {
        self.rounds.as_ref().map_err(|reason| Refusal::Invalid(reason.clone()))
    }

    fn size(&self, id: u64) -> (u32, u32) {
        let Some(signatures) = &self.signatures else { return (0, 0) };
        signatures.read(|objects| objects.size(id)).unwrap_or((0, 0))
    }
}

impl Snapshot for Open {
    fn summary(&self) -> Summary {
        Summary {
            name: self.name.clone(),
            kind: self.store.kind().to_owned(),
            objects: self.store.objects_count(),
            fingerprint: self.store.fingerprint().to_owned(),
            measure: self.measure.clone(),
            alpha: self.store.alpha(),
            mode: self.mode.to_owned(),
            images: self.images.is_some(),
            originals: self.images.is_some(),
            classes: self.names.classes(),
        }
    }

    fn fingerprint(&self) -> &str {
        self.store.fingerprint()
    }

    fn family(&self) -> &str {
        &self.family
    }

    fn object(&self, id: u64) -> Option<Object> {
        if !self.store.has(id) {
            return None;
        }
        let (width, height) = self.size(id);
        let class = self.names.class(id).map(str::to_owned);
        Some(Object { id, name: self.names.name(id).to_owned(), class, width, height })
    }

    fn find(&self, name: &str) -> Option<u64> {
        self.names.find(name)
    }

    fn has_images(&self) -> bool {
        self.images.is_some()
    }

    fn similar(&self, name: &str) -> Option<String> {
        self.names.similar(name)
    }

    fn has_class(&self, class: &str) -> bool {
        self.names.objects_of(class) > 0
    }

    fn list(&self, filter: &Filter, after: Option<u64>, limit: usize) -> Listing {
        let mut ids = self.names.filtered(filter, after).filter(|id| self.store.has(*id));
        let objects: Vec<Object> = ids.by_ref().take(limit).filter_map(|id| self.object(id)).collect();
        let next = ids.next().and_then(|_| objects.last().map(|last| last.id));
        Listing { objects, next }
    }

    fn centroids(self: Arc<Self>, id: u64) -> Answer<u64> {
        Box::pin(blocking(move || {
            let object = objects::object(&Subject::Object(id), &*self.store)?;
            Ok(objects::length(&object))
        }))
    }

    fn extract(self: Arc<Self>, file: Bytes, pixels_max: u64) -> Answer<Picture> {
        Box::pin(self.extracted(file, pixels_max))
    }

    fn check(&self, picture: &Picture) -> Result<(), String> {
        objects::array_of(picture, &*self.store).map(drop)
    }

    fn has_lists(&self) -> bool {
        self.vectors.as_ref().is_some_and(|vectors| vectors.lists.is_some())
    }

    fn range_min(&self) -> f64 {
        if self.is_signed { f64::MIN } else { 0.0 }
    }

    fn search(self: Arc<Self>, search: Search) -> Answer<Vec<Found>> {
        Box::pin(self.searched(search))
    }

    fn round(self: Arc<Self>, question: Question) -> Answer<Vec<Chosen>> {
        Box::pin(async move {
            let given = rounds::given(&question, &*self.store)?;
            rounds::round(&self.rounds()?.round, &self.engine, &question, given).await
        })
    }

    fn ranking(self: Arc<Self>, question: Question, limit: usize) -> Answer<Vec<Ranked>> {
        Box::pin(async move {
            let given = rounds::given(&question, &*self.store)?;
            rounds::ranking(&self.rounds()?.ranking, &self.engine, &question, given, limit).await
        })
    }

    fn why(self: Arc<Self>, question: Question, id: u64) -> Answer<Reasons> {
        Box::pin(async move {
            let given = rounds::given(&question, &*self.store)?;
            rounds::why(&self.rounds()?.why, &self.engine, &question, given, id).await
        })
    }

    fn thumbnail(self: Arc<Self>, id: u64, size: u32) -> Answer<Bytes> {
        Box::pin(async move {
            let none =
                || Refusal::NotFound("the server has no pictures: start it with `--images`".to_owned());
            let thumbnails = self.thumbnails.as_ref().ok_or_else(none)?;
            thumbnails.get(&self.engine, id, self.names.name(id), size).await
        })
    }

    fn original(self: Arc<Self>, id: u64) -> Answer<Content> {
        Box::pin(blocking(move || {
            let none = |_| Refusal::NotFound("the object's picture is missing".to_owned());
            let images = self.images.as_ref().ok_or_else(|| {
                Refusal::NotFound("the server has no pictures: start it with `--images`".to_owned())
            })?;
            let content = beneath::read(images, self.names.name(id), self.image_bytes).map_err(none)?;
            // Only what a browser shows as a picture: never a page, never SVG.
            let media_type = decode::media_type(&content)
                .ok_or_else(|| Refusal::NotFound("the object's file is no picture".to_owned()))?;
            Ok(Content { media_type, bytes: content.into() })
        }))
    }
}
