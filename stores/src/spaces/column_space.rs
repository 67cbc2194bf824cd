//! A distance over a store of vectors, texts, sets or another kind, computed in f64 pair by pair. Its fast distances
//! are its exact distances.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use boxwork_kernels::distance::{DistanceError, Long, Properties, Slack};
use boxwork_kernels::interrupt::{Interrupt, Interrupted, ask};

use super::{Constants, Distance, DistanceOptions};
use crate::any_kind::KINDS;
use crate::kinds::Kind;
use crate::new_number;
use crate::object_store::{ObjectStore, Objects};
use crate::space::one_by_one::{Failure, fill};
use crate::space::{ObjectDistance, PairDistance, Prepared, PreparedMany, Scratch, Space, SpaceError};
use crate::store::Store;
use crate::store_error::StoreError;

/// A distance of two objects of one kind.
pub trait ColumnDistance: Debug + Send + Sync + 'static {
    /// The objects' kind.
    type Kind: Kind;
    /// An object prepared for comparison with many.
    type Query: Debug + Send + Sync;

    /// The inequalities that it obeys.
    fn properties(&self) -> Properties;

    /// The largest error of a computed distance, among objects of this many numbers.
    fn slack(&self, dimensions: usize) -> Slack;

    /// Prepares an object.
    ///
    /// # Errors
    /// When the object has no distances.
    fn query(&self, object: <Self::Kind as Kind>::Item<'_>) -> Result<Self::Query, DistanceError>;

    /// The distance of an object from a query.
    fn to(&self, query: &Self::Query, object: <Self::Kind as Kind>::Item<'_>) -> f64;

    /// The distances of some rows of a batch from a query, with the bits of [`ColumnDistance::to`].
    ///
    /// # Errors
    /// When the caller interrupts.
    ///
    /// # Panics
    /// When `rows` and `out` differ in length.
    fn to_rows(
        &self,
        query: &Self::Query,
        batch: &<Self::Kind as Kind>::Batch,
        rows: &[usize],
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), Interrupted> {
        fill(rows, out, |row| {
            ask(interrupt)?;
            Ok(self.to(query, Self::Kind::item(batch, row)))
        })
    }

    /// Whether [`ColumnDistance::to_each`] computes distances of objects of several batches.
    const HAS_EACH: bool = false;

    /// The distances of some objects, which may lie in several batches, with the bits of [`ColumnDistance::to`]; or returns false,
    /// and they are computed batch by batch.
    ///
    /// # Panics
    /// When `objects` and `out` differ in length.
    fn to_each(
        &self,
        query: &Self::Query,
        objects: &[<Self::Kind as Kind>::Item<'_>],
        out: &mut [f64],
    ) -> bool {
        let _ = (query, objects, out);
        false
    }

    /// The distances of consecutive rows of a batch from several queries, with the bits of [`ColumnDistance::to`]: all
    /// rows for the first query, then all for the second.
    ///
    /// # Errors
    /// When the caller interrupts.
    ///
    /// # Panics
    /// When `out` has not a number for each query and row.
    fn to_many(
        &self,
        queries: &[&Self::Query],
        batch: &<Self::Kind as Kind>::Batch,
        rows: Range<usize>,
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), Interrupted> {
        let rows: Vec<usize> = rows.collect();
        assert_eq!(out.len(), queries.len() * rows.len(), "a number for each query and row");
        for (query, out) in queries.iter().zip(out.chunks_exact_mut(rows.len().max(1))) {
            self.to_rows(query, batch, &rows, out, interrupt)?;
        }
        Ok(())
    }

    /// Whether several slots are to share the distance of an object from a query; without an object, whether there may be such objects.
    fn is_long(&self, query: &Self::Query, object: Option<<Self::Kind as Kind>::Item<'_>>) -> bool {
        let _ = (query, object);
        false
    }

    /// The distance of such an object in tiles.
    fn long(&self, query: &Self::Query, object: <Self::Kind as Kind>::Item<'_>) -> Option<Long> {
        let _ = (query, object);
        None
    }

    /// The distance of two objects, with the bits of [`ColumnDistance::to`], in either order.
    fn between(&self, a: <Self::Kind as Kind>::Item<'_>, b: <Self::Kind as Kind>::Item<'_>) -> f64;
}

/// A named distance.
#[derive(Debug)]
pub struct ColumnDistanceSpec<D> {
    /// The name.
    pub name: &'static str,
    /// Its constants.
    pub constants: Constants,
    /// Makes the distance from its constants.
    pub make: fn(&DistanceOptions) -> Result<D, String>,
}

impl<D: ColumnDistance> Distance for ColumnDistanceSpec<D> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn of(&self) -> &'static str {
        D::Kind::NAME
    }

    fn constants(&self) -> Constants {
        self.constants
    }

    fn properties(&self, options: &DistanceOptions) -> Result<Properties, String> {
        Ok((self.make)(options)?.properties())
    }

    fn open(
        &self,
        options: &DistanceOptions,
        measure: String,
        store: Arc<dyn Store>,
    ) -> Result<Arc<dyn Space>, SpaceError> {
        let distance = (self.make)(options).map_err(SpaceError::Query)?;
        Ok(Arc::new(ColumnSpace::new(distance, measure, store)?))
    }
}

/// A distance over a store of one kind.
#[derive(Debug)]
pub struct ColumnSpace<D: ColumnDistance> {
    distance: D,
    measure: String,
    objects: Arc<ObjectStore<D::Kind>>,
    /// `objects` as a shared `Store`.
    store: Arc<dyn Store>,
    number: u64,
}

impl<D: ColumnDistance> ColumnSpace<D> {
    /// The space of a distance over a store; `measure` names the distance and its constants.
    ///
    /// # Errors
    /// When the store holds objects of another kind.
    pub fn new(distance: D, measure: String, store: Arc<dyn Store>) -> Result<Self, SpaceError> {
        let objects = ObjectStore::of(&store).ok_or_else(|| {
            let (name, wanted, found) = (distance.properties().name, D::Kind::NAME, store.kind());
            let path = store.path().display();
            SpaceError::Query(format!(
                "{name} is a distance of {wanted}, and `{path}` holds {found}: if both have one form in that \
                 file, write `holds: {wanted}` in the store"
            ))
        })?;
        Ok(Self { distance, measure, objects, store, number: new_number() })
    }

    fn between(
        &self,
        objects: Objects<'_, D::Kind>,
        [a, b]: [u64; 2],
        interrupt: Interrupt<'_>,
    ) -> Result<f64, StoreError> {
        ask(interrupt)?;
        Ok(self.distance.between(objects.item(a)?, objects.item(b)?))
    }

    /// The objects of an array, if they have distances to the store's objects. An error speaks of one object.
    fn of_array(&self, objects: &ArrayRef) -> Result<<D::Kind as Kind>::Batch, SpaceError> {
        let path = self.objects.path().display();
        let kind = D::Kind::of_array(objects).ok_or_else(|| {
            SpaceError::Query(match KINDS.iter().any(|kind| kind.rows_of_array(objects).is_some()) {
                true => format!("the objects of `{path}` are {}", D::Kind::NAME),
                false => format!("it is {}, which is no object of a store", objects.data_type()),
            })
        })?;
        let wanted = self.objects.kind();
        if !wanted.compares(&kind) {
            let (found, wanted) = (kind.shape(), wanted.shape());
            return Err(SpaceError::Query(format!(
                "it has {found}, and the objects of `{path}` have {wanted}"
            )));
        }
        kind.batch(std::slice::from_ref(objects)).map_err(SpaceError::Query)
    }
}

impl<D: ColumnDistance> Space for ColumnSpace<D> {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn measure(&self) -> String {
        self.measure.clone()
    }

    fn properties(&self) -> Properties {
        self.distance.properties()
    }

    fn slack(&self) -> Slack {
        self.distance.slack(self.objects.kind().dimensions())
    }

    fn prepare_until(
        self: Arc<Self>,
        objects: &ArrayRef,
        row: usize,
        _interrupt: Interrupt<'_>,
    ) -> Result<Arc<dyn Prepared>, SpaceError> {
        let batch = self.of_array(&objects.slice(row, 1))?;
        let query = self.distance.query(D::Kind::item(&batch, 0));
        let query = query.map_err(|error| SpaceError::Query(error.to_string()))?;
        Ok(Arc::new(ColumnQuery { space: self, query }))
    }

    fn prepare_rows(
        self: Arc<Self>,
        objects: &ArrayRef,
        rows: Range<usize>,
        interrupt: Interrupt<'_>,
    ) -> Result<Vec<Arc<dyn Prepared>>, (usize, SpaceError)> {
        let one_by_one = |row: usize| {
            let prepared = Arc::clone(&self).prepare_until(objects, row, interrupt);
            prepared.map_err(|error| (row, error))
        };
        match self.of_array(&objects.slice(rows.start, rows.len())) {
            Ok(batch) => {
                let each = rows.clone().zip(0..).map(|(row, place)| {
                    let query = self.distance.query(D::Kind::item(&batch, place));
                    let query = query.map_err(|error| (row, SpaceError::Query(error.to_string())))?;
                    Ok(Arc::new(ColumnQuery { space: Arc::clone(&self), query }) as Arc<dyn Prepared>)
                });
                each.collect()
            }
            // One of them fails, and says why.
            Err(_) => rows.map(one_by_one).collect(),
        }
    }

    fn prepare_many(
        self: Arc<Self>,
        objects: &[(ArrayRef, usize)],
        _interrupt: Interrupt<'_>,
    ) -> Result<Arc<dyn PreparedMany>, (usize, SpaceError)> {
        let mut queries = Vec::with_capacity(objects.len());
        for (number, (object, row)) in objects.iter().enumerate() {
            let batch = self.of_array(&object.slice(*row, 1)).map_err(|error| (number, error))?;
            let query = self.distance.query(D::Kind::item(&batch, 0));
            queries.push(query.map_err(|error| (number, SpaceError::Query(error.to_string())))?);
        }
        Ok(Arc::new(ColumnQueries { space: self, queries }))
    }

    fn between_until(
        &self,
        pairs: &[[u64; 2]],
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), SpaceError> {
        self.objects.read(|objects| Ok(fill(pairs, out, |pair| self.between(objects, pair, interrupt))?))
    }

    fn lend(&self, interrupt: Interrupt<'_>, f: &mut dyn FnMut(&PairDistance<'_>)) -> Result<(), SpaceError> {
        self.objects.read(|objects| {
            Ok(Failure::lend(|failure| {
                f(&|a, b| failure.number(self.between(objects, [a, b], interrupt)));
            })?)
        })
    }
}

/// An object prepared for comparison with many of a store.
#[derive(Debug)]
struct ColumnQuery<D: ColumnDistance> {
    space: Arc<ColumnSpace<D>>,
    query: D::Query,
}

impl<D: ColumnDistance> ColumnQuery<D> {
    fn to(
        &self,
        objects: Objects<'_, D::Kind>,
        id: u64,
        interrupt: Interrupt<'_>,
    ) -> Result<f64, StoreError> {
        ask(interrupt)?;
        Ok(self.space.distance.to(&self.query, objects.item(id)?))
    }
}

/// Objects of several batches whose distances are computed at once.
const AT_ONCE: usize = 32;

impl<D: ColumnDistance> ColumnQuery<D> {
    /// Computes distances of objects that lie far apart: few of a batch, so that each would wait for its memory. Returns false
    /// if the distance computes objects batch by batch only.
    fn scattered(
        &self,
        objects: Objects<'_, D::Kind>,
        ids: &[u64],
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<bool, StoreError> {
        let mut items = Vec::with_capacity(AT_ONCE);
        for (ids, out) in ids.chunks(AT_ONCE).zip(out.chunks_mut(AT_ONCE)) {
            ask(interrupt)?;
            items.clear();
            for id in ids {
                items.push(objects.item(*id)?);
            }
            if !self.space.distance.to_each(&self.query, &items, out) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl<D: ColumnDistance> Prepared for ColumnQuery<D> {
    fn fast_until(
        &self,
        _scratch: &mut Scratch,
        ids: &[u64],
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), SpaceError> {
        // Without a look at the file: distances count once the store has confirmed that it is whole.
        let objects = Objects::new(&self.space.objects);
        assert_eq!(ids.len(), out.len(), "a distance an id");
        if D::HAS_EACH && self.scattered(objects, ids, out, interrupt)? {
            return Ok(());
        }
        let (mut places, mut rows) = (0..0, Vec::with_capacity(ids.len()));
        while places.end < ids.len() {
            let (batch, _) = self.space.objects.locate(ids[places.end])?;
            let of_batch = self.space.objects.ids(batch);
            rows.clear();
            let run = ids[places.end..].iter().take_while(|id| of_batch.contains(id));
            rows.extend(run.map(|id| (id - of_batch.start) as usize));
            places = places.end..places.end + rows.len();
            let (batch, out) = (objects.batch(batch)?, &mut out[places.clone()]);
            self.space
                .distance
                .to_rows(&self.query, batch, &rows, out, interrupt)
                .map_err(StoreError::from)?;
        }
        Ok(())
    }

    fn exact_until(&self, ids: &[u64], out: &mut [f64], interrupt: Interrupt<'_>) -> Result<(), SpaceError> {
        self.space.objects.read(|_| self.fast_until(&mut Scratch::default(), ids, out, interrupt))
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn lend(
        &self,
        interrupt: Interrupt<'_>,
        f: &mut dyn FnMut(&mut ObjectDistance<'_>),
    ) -> Result<(), SpaceError> {
        self.space.objects.read(|objects| {
            Ok(Failure::lend(|failure| f(&mut |id| failure.number(self.to(objects, id, interrupt))))?)
        })
    }

    fn to_object(&self, objects: &ArrayRef, row: usize, interrupt: Interrupt<'_>) -> Result<f64, SpaceError> {
        ask(interrupt)?;
        let batch = self.space.of_array(&objects.slice(row, 1))?;
        Ok(self.space.distance.to(&self.query, D::Kind::item(&batch, 0)))
    }

    fn slack(&self) -> Slack {
        self.space.slack()
    }
}

/// Several objects prepared for comparison with many of a store.
#[derive(Debug)]
struct ColumnQueries<D: ColumnDistance> {
    space: Arc<ColumnSpace<D>>,
    queries: Vec<D::Query>,
}

impl<D: ColumnDistance> PreparedMany for ColumnQueries<D> {
    fn len(&self) -> usize {
        self.queries.len()
    }

    /// Without its neighbours, which [`ColumnDistance::to_many`] may compute too.
    fn distance(&self, query: usize, id: u64, interrupt: Interrupt<'_>) -> Result<f64, SpaceError> {
        ask(interrupt)?;
        let object = Objects::new(&self.space.objects).item(id)?;
        Ok(self.space.distance.to(&self.queries[query], object))
    }

    fn has_long(&self, query: usize) -> bool {
        self.space.distance.is_long(&self.queries[query], None)
    }

    fn is_long(&self, query: usize, id: u64) -> Result<bool, SpaceError> {
        let object = Objects::new(&self.space.objects).item(id)?;
        Ok(self.space.distance.is_long(&self.queries[query], Some(object)))
    }

    fn long(&self, query: usize, id: u64) -> Result<Option<Long>, SpaceError> {
        let object = Objects::new(&self.space.objects).item(id)?;
        Ok(self.space.distance.long(&self.queries[query], object))
    }

    fn fast_until(
        &self,
        queries: Range<usize>,
        ids: Range<u64>,
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), SpaceError> {
        let (objects, count) = (Objects::new(&self.space.objects), (ids.end - ids.start) as usize);
        let queries: Vec<&D::Query> = self.queries[queries].iter().collect();
        assert_eq!(out.len(), queries.len() * count, "a number for each query and id");
        let (mut next, mut found) = (ids.start, Vec::new());
        while next < ids.end {
            let (batch, row) = self.space.objects.locate(next)?;
            let upto = self.space.objects.ids(batch).end.min(ids.end);
            let (rows, place) = (row..row + (upto - next) as usize, (next - ids.start) as usize);
            let batch = objects.batch(batch)?;
            if rows.len() == count {
                self.space
                    .distance
                    .to_many(&queries, batch, rows, out, interrupt)
                    .map_err(StoreError::from)?;
                return Ok(());
            }
            found.resize(queries.len() * rows.len(), 0.0);
            let length = rows.len();
            self.space
                .distance
                .to_many(&queries, batch, rows, &mut found, interrupt)
                .map_err(StoreError::from)?;
            for (found, out) in found.chunks_exact(length).zip(out.chunks_exact_mut(count)) {
                out[place..place + length].copy_from_slice(found);
            }
            next = upto;
        }
        Ok(())
    }
}
