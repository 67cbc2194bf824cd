//! A distance over a column of vectors, texts or sets. Its fast distances are its exact ones.

use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::Arc;

use arrow_array::ArrayRef;
use boxwork_kernels::distance::{DistanceError, Properties, Slack};
use boxwork_kernels::interrupt::{Interrupt, Interrupted};

use super::{Constants, Distance, DistanceOptions};
use crate::kinds::Kind;
use crate::new_number;
use crate::object_column::{ObjectColumn, ObjectKind, OwnedItem};
use crate::object_store::StoreError;
use crate::space::{ObjectDistance, PairDistance, Prepared, Scratch, Space, SpaceError};
use crate::store::Store;

/// A distance of two objects of a column.
pub trait ColumnDistance: Debug + Send + Sync + 'static {
    /// What it compares.
    type Kind: Kind;
    /// An object that is made ready to be compared with many.
    type Query: Debug + Send + Sync;

    /// The inequalities that it obeys.
    fn properties(&self) -> Properties;

    /// How far a computed distance may be off, among objects of so many numbers.
    fn slack(&self, dimensions: usize) -> Slack;

    /// Makes an object ready.
    ///
    /// # Errors
    /// When the object has no distances.
    fn query(&self, object: <Self::Kind as Kind>::Item<'_>) -> Result<Self::Query, DistanceError>;

    /// The distance of an object from a query.
    fn to(&self, query: &Self::Query, object: <Self::Kind as Kind>::Item<'_>) -> f64;

    /// The distance of two objects: the same bits as [`ColumnDistance::to`] gives, in either order.
    fn between(&self, a: <Self::Kind as Kind>::Item<'_>, b: <Self::Kind as Kind>::Item<'_>) -> f64;
}

/// A named distance of columns.
#[derive(Debug)]
pub struct ColumnDistanceSpec<D> {
    /// The name.
    pub name: &'static str,
    /// The constants that it has.
    pub constants: Constants,
    /// Makes it of its constants.
    pub make: fn(&DistanceOptions) -> Result<D, String>,
}

impl<D: ColumnDistance> Distance for ColumnDistanceSpec<D> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn of(&self) -> &'static str {
        D::Kind::KIND.name()
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

/// A distance over a column.
#[derive(Debug)]
pub struct ColumnSpace<D> {
    distance: D,
    measure: String,
    column: Arc<ObjectColumn>,
    /// The same, as others see it.
    store: Arc<dyn Store>,
    number: u64,
}

impl<D: ColumnDistance> ColumnSpace<D> {
    /// The space of a distance over a store; `measure` names the distance and its constants.
    ///
    /// # Errors
    /// When the store holds objects of another kind.
    pub fn new(distance: D, measure: String, store: Arc<dyn Store>) -> Result<Self, SpaceError> {
        let (name, wanted) = (distance.properties().name, D::Kind::KIND);
        let refused = |found: &str| {
            let hint = if wanted == ObjectKind::Sets { ": say `holds: sets` of the column" } else { "" };
            SpaceError::Query(format!(
                "{name} is a distance of {}, and `{}` holds {found}{hint}",
                wanted.name(),
                store.path().display()
            ))
        };
        let column = ObjectColumn::of(&store).ok_or_else(|| refused("signatures"))?;
        if column.kind() != wanted {
            return Err(refused(column.kind().name()));
        }
        Ok(Self { distance, measure, column, store, number: new_number() })
    }

    fn item(&self, id: u64) -> Result<<D::Kind as Kind>::Item<'_>, StoreError> {
        self.column.locate(id)?;
        Ok(D::Kind::of(self.column.item(id)).expect("the kind was compared when the space was made"))
    }

    fn distance(&self, a: u64, b: u64) -> Result<f64, StoreError> {
        Ok(self.distance.between(self.item(a)?, self.item(b)?))
    }

    /// Whether an object that stands alone has distances to those of the column.
    fn check(&self, item: &OwnedItem) -> Result<(), SpaceError> {
        let path = self.column.path().display();
        if item.kind() != D::Kind::KIND {
            let kind = D::Kind::KIND.name();
            return Err(SpaceError::Query(format!("the objects of `{path}` are {kind}")));
        }
        match item {
            OwnedItem::Vector(vector) if vector.len() != self.column.dimensions() => {
                Err(SpaceError::Query(format!(
                    "it has {} numbers, and the objects of `{path}` have {}",
                    vector.len(),
                    self.column.dimensions()
                )))
            }
            _ => Ok(()),
        }
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
        self.distance.slack(self.column.dimensions())
    }

    fn prepare_until(
        self: Arc<Self>,
        objects: &ArrayRef,
        row: usize,
        _interrupt: Interrupt<'_>,
    ) -> Result<Arc<dyn Prepared>, SpaceError> {
        let item = OwnedItem::of_array(objects, row).ok_or_else(|| {
            SpaceError::Query(format!("it is {}, which is no object of a column", objects.data_type()))
        })?;
        self.check(&item)?;
        let object = D::Kind::of(item.item()).expect("the kind was just compared");
        let query = self.distance.query(object).map_err(|error| SpaceError::Query(error.to_string()))?;
        Ok(Arc::new(ColumnQuery { space: self, query }))
    }

    fn between_until(
        &self,
        pairs: &[[u64; 2]],
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), SpaceError> {
        assert_eq!(pairs.len(), out.len(), "a distance a pair");
        for ([a, b], out) in pairs.iter().zip(out) {
            ask(interrupt)?;
            *out = self.distance(*a, *b)?;
        }
        Ok(())
    }

    fn lend(&self, interrupt: Interrupt<'_>, f: &mut dyn FnMut(&PairDistance<'_>)) -> Result<(), SpaceError> {
        let failed = RefCell::new(None);
        f(&|a, b| {
            ask(interrupt).and_then(|()| self.distance(a, b)).unwrap_or_else(|error| {
                *failed.borrow_mut() = Some(error);
                f64::NAN
            })
        });
        failed.into_inner().map_or(Ok(()), |error| Err(error.into()))
    }
}

/// Asks the caller whether to stop.
fn ask(interrupt: Interrupt<'_>) -> Result<(), StoreError> {
    if interrupt() { Err(Interrupted.into()) } else { Ok(()) }
}

/// An object that is compared with many of a column.
#[derive(Debug)]
struct ColumnQuery<D: ColumnDistance> {
    space: Arc<ColumnSpace<D>>,
    query: D::Query,
}

impl<D: ColumnDistance> ColumnQuery<D> {
    fn to(&self, id: u64) -> Result<f64, StoreError> {
        Ok(self.space.distance.to(&self.query, self.space.item(id)?))
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
        self.exact_until(ids, out, interrupt)
    }

    fn exact_until(&self, ids: &[u64], out: &mut [f64], interrupt: Interrupt<'_>) -> Result<(), SpaceError> {
        assert_eq!(ids.len(), out.len(), "a distance an object");
        for (id, out) in ids.iter().zip(out) {
            ask(interrupt)?;
            *out = self.to(*id)?;
        }
        Ok(())
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn lend(
        &self,
        interrupt: Interrupt<'_>,
        f: &mut dyn FnMut(&mut ObjectDistance<'_>),
    ) -> Result<(), SpaceError> {
        let mut failed = None;
        f(&mut |id| {
            ask(interrupt).and_then(|()| self.to(id)).unwrap_or_else(|error| {
                failed = Some(error);
                f64::NAN
            })
        });
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    fn slack(&self) -> Slack {
        self.space.slack()
    }
}
