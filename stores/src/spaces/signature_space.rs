//! A distance over a store of signatures computed pair by pair, in f64.

use std::fmt::Debug;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, ListArray};
use boxwork_kernels::distance::{self, Lp, Properties, Slack};
use boxwork_kernels::interrupt::{Interrupt, ask};
use boxwork_kernels::sqfd::SignatureRef;

use super::{Constants, Distance, DistanceOptions};
use crate::new_number;
use crate::signature::{SignatureColumns, coordinate_names};
use crate::signature_store::{Objects, SignatureStore, StoreError};
use crate::space::one_by_one::{Failure, fill};
use crate::space::{ObjectDistance, PairDistance, Prepared, Scratch, Space, SpaceError};
use crate::store::Store;

/// A distance of two signatures.
pub trait SignatureDistance:
    for<'a> distance::Distance<Object<'a> = SignatureRef<'a>> + Debug + Send + Sync + 'static
{
}

impl<D> SignatureDistance for D where
    D: for<'a> distance::Distance<Object<'a> = SignatureRef<'a>> + Debug + Send + Sync + 'static
{
}

/// A named distance of signatures over a ground distance of their centroids.
#[derive(Debug)]
pub struct SignatureDistanceSpec<D> {
    /// The name.
    pub name: &'static str,
    /// Makes the distance from a ground distance.
    pub make: fn(Lp) -> D,
}

impl<D: SignatureDistance> Distance for SignatureDistanceSpec<D> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn of(&self) -> &'static str {
        "signatures"
    }

    fn constants(&self) -> Constants {
        Constants::Ground
    }

    fn properties(&self, options: &DistanceOptions) -> Result<Properties, String> {
        Ok((self.make)(options.metric_ground()?).properties())
    }

    fn open(
        &self,
        options: &DistanceOptions,
        measure: String,
        store: Arc<dyn Store>,
    ) -> Result<Arc<dyn Space>, SpaceError> {
        let ground = options.metric_ground().map_err(SpaceError::Query)?;
        let signatures = signatures(self.name, &store)?;
        Ok(Arc::new(SignatureSpace::new((self.make)(ground), ground, measure, signatures)?))
    }
}

/// The store as a store of signatures.
///
/// # Errors
/// When it holds other objects.
pub(super) fn signatures(distance: &str, store: &Arc<dyn Store>) -> Result<Arc<SignatureStore>, SpaceError> {
    Arc::clone(store).as_signatures().ok_or_else(|| {
        let path = store.path().display();
        SpaceError::Query(format!("{distance} is a distance of signatures, and `{path}` holds none"))
    })
}

/// The smallest and largest value of each coordinate.
type BoundingBox = Vec<(f32, f32)>;

/// A distance over a store of signatures.
#[derive(Debug)]
pub struct SignatureSpace<D> {
    distance: D,
    ground: Lp,
    measure: String,
    signatures: Arc<SignatureStore>,
    /// `objects` as a shared `Store`.
    store: Arc<dyn Store>,
    /// Contains all centroids.
    bounding_box: BoundingBox,
    number: u64,
}

impl<D: SignatureDistance> SignatureSpace<D> {
    /// The space of a distance over a store; reads all of its signatures once. Blocks on the disk.
    ///
    /// # Errors
    /// When the store cannot be read, or the distance is undefined for one of its signatures.
    pub fn new(
        distance: D,
        ground: Lp,
        measure: String,
        signatures: Arc<SignatureStore>,
    ) -> Result<Self, SpaceError> {
        let mut bounding_box = vec![(f32::INFINITY, f32::NEG_INFINITY); signatures.dimensions()];
        signatures.read::<_, SpaceError>(|objects| {
            for idx in 0..signatures.batches() {
                let (first, batch) = (signatures.ids(idx).start, objects.batch(idx)?);
                for (side, of_batch) in bounding_box.iter_mut().zip(batch.extents()) {
                    *side = (side.0.min(of_batch.0), side.1.max(of_batch.1));
                }
                for id in signatures.among(signatures.ids(idx)) {
                    let signature = batch.columns().signature((id - first) as usize);
                    distance.check(signature).map_err(|error| {
                        SpaceError::Object(format!(
                            "object {id} of `{}`: {error}",
                            signatures.path().display()
                        ))
                    })?;
                }
            }
            Ok(())
        })?;
        let store: Arc<dyn Store> = Arc::<SignatureStore>::clone(&signatures);
        Ok(Self { distance, ground, measure, signatures, store, bounding_box, number: new_number() })
    }

    fn slack_within(&self, bounding_box: &[(f32, f32)]) -> Slack {
        let (least, most): (Vec<f32>, Vec<f32>) = bounding_box.iter().copied().unzip();
        self.distance.slack(least.len(), distance::Distance::distance(&self.ground, &least, &most))
    }

    fn to(
        &self,
        objects: Objects<'_>,
        query: SignatureRef<'_>,
        id: u64,
        interrupt: Interrupt<'_>,
    ) -> Result<f64, StoreError> {
        ask(interrupt)?;
        Ok(self.distance.distance(query, objects.signature(id)?))
    }

    fn between(
        &self,
        objects: Objects<'_>,
        [a, b]: [u64; 2],
        interrupt: Interrupt<'_>,
    ) -> Result<f64, StoreError> {
        self.to(objects, objects.signature(a)?, b, interrupt)
    }
}

impl<D: SignatureDistance> Space for SignatureSpace<D> {
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
        self.slack_within(&self.bounding_box)
    }

    fn prepare_until(
        self: Arc<Self>,
        objects: &ArrayRef,
        row: usize,
        _interrupt: Interrupt<'_>,
    ) -> Result<Arc<dyn Prepared>, SpaceError> {
        let coordinates = coordinate_names(objects.data_type()).unwrap_or_default();
        self.signatures.check_coordinates(&coordinates)?;
        let refused = |error: String| SpaceError::Query(error);
        let signatures = objects.as_list::<i32>().clone();
        let columns = SignatureColumns::new(&signatures).map_err(|error| refused(error.to_string()))?;
        let signature = columns.signature(row);
        self.distance.check(signature).map_err(|error| refused(error.to_string()))?;
        let mut bounding_box = self.bounding_box.clone();
        for (d, side) in bounding_box.iter_mut().enumerate() {
            for x in signature.coordinate(d) {
                *side = (side.0.min(*x), side.1.max(*x));
            }
        }
        let slack = self.slack_within(&bounding_box);
        Ok(Arc::new(SignatureQuery { space: self, signatures, row, slack }))
    }

    fn between_until(
        &self,
        pairs: &[[u64; 2]],
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), SpaceError> {
        self.signatures.read(|objects| Ok(fill(pairs, out, |pair| self.between(objects, pair, interrupt))?))
    }

    fn lend(&self, interrupt: Interrupt<'_>, f: &mut dyn FnMut(&PairDistance<'_>)) -> Result<(), SpaceError> {
        self.signatures.read(|objects| {
            Ok(Failure::lend(|failure| {
                f(&|a, b| failure.number(self.between(objects, [a, b], interrupt)));
            })?)
        })
    }
}

/// A signature prepared for comparison with many of a store.
#[derive(Debug)]
struct SignatureQuery<D> {
    space: Arc<SignatureSpace<D>>,
    signatures: ListArray,
    row: usize,
    slack: Slack,
}

impl<D: SignatureDistance> SignatureQuery<D> {
    /// Lends the query and the objects to a closure.
    fn read<R>(
        &self,
        f: impl FnOnce(Objects<'_>, SignatureRef<'_>) -> Result<R, StoreError>,
    ) -> Result<R, SpaceError> {
        let columns = SignatureColumns::new(&self.signatures);
        let columns = columns.map_err(|error| SpaceError::Query(error.to_string()))?;
        let signature = columns.signature(self.row);
        Ok(self.space.signatures.read::<_, StoreError>(|objects| f(objects, signature))?)
    }
}

impl<D: SignatureDistance> Prepared for SignatureQuery<D> {
    fn fast_until(
        &self,
        _scratch: &mut Scratch,
        ids: &[u64],
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), SpaceError> {
        self.exact_until(ids, out, interrupt)
    }

    fn exact_until(&self, ids: &[u64], out: &mut [f64], interrupt: Interrupt<'_>) -> Result<(), SpaceError> {
        self.read(|objects, signature| fill(ids, out, |id| self.space.to(objects, signature, id, interrupt)))
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn lend(
        &self,
        interrupt: Interrupt<'_>,
        f: &mut dyn FnMut(&mut ObjectDistance<'_>),
    ) -> Result<(), SpaceError> {
        self.read(|objects, signature| {
            Failure::lend(|failure| {
                f(&mut |id| failure.number(self.space.to(objects, signature, id, interrupt)));
            })
        })
    }

    fn to_object(&self, objects: &ArrayRef, row: usize, interrupt: Interrupt<'_>) -> Result<f64, SpaceError> {
        ask(interrupt).map_err(StoreError::from)?;
        let refused = |error: String| SpaceError::Query(error);
        let coordinates = coordinate_names(objects.data_type()).unwrap_or_default();
        self.space.signatures.check_coordinates(&coordinates)?;
        let others = SignatureColumns::new(objects.as_list::<i32>());
        let others = others.map_err(|error| refused(error.to_string()))?;
        let other = others.signature(row);
        self.space.distance.check(other).map_err(|error| refused(error.to_string()))?;
        let columns = SignatureColumns::new(&self.signatures);
        let columns = columns.map_err(|error| refused(error.to_string()))?;
        let signature = columns.signature(self.row);
        Ok(self.space.distance.distance(signature, other))
    }

    fn slack(&self) -> Slack {
        self.slack
    }
}
