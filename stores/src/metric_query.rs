//! The queries of a request among objects of any kind, as they travel and as distances take them.

use std::sync::Arc;

use arrow_array::builder::{Float32Builder, ListBuilder, StringBuilder, UInt32Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, UInt32Type};
use arrow_array::{Array, ArrayRef, StringArray, UInt32Array};
use arrow_schema::{DataType, Field};
use boxwork_kernels::distance::{Distance, Levenshtein, Lp, Pattern};
use boxwork_kernels::sqfd::{Columns, SignatureRef};
use boxwork_runtime::descriptor::Family;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::BoxError;

use super::metric_space::MetricSpace;
use super::object_column::{Item, ObjectKind, OwnedItem};
use super::signature::{SignatureBuilder, SignatureColumns, coordinate_names};

/// Any object that a distance is of.
pub static OBJECT: Family = Family {
    name: "Object",
    about: "List<Float32> (a vector), Utf8 (a text), List<UInt32> (a set) or a Signature",
    accepts: |kind| match kind {
        DataType::Utf8 => true,
        DataType::List(item) if matches!(item.data_type(), DataType::Float32 | DataType::UInt32) => true,
        other => coordinate_names(other).is_some(),
    },
};

/// One query.
#[derive(Clone, Debug)]
pub struct MetricQuery {
    /// Its number within the request.
    pub number: u32,
    pub(super) object: QueryObject,
}

#[derive(Clone, Debug)]
pub(super) enum QueryObject {
    /// And for texts what many are compared with.
    Item(OwnedItem, Option<Box<Pattern>>),
    Signature(OwnedSignature),
}

/// A signature that stands alone.
#[derive(Clone, Debug)]
pub(super) struct OwnedSignature {
    coordinates: Vec<Vec<f32>>,
    weights: Vec<f32>,
}

impl OwnedSignature {
    fn of(signature: SignatureRef<'_>) -> Self {
        let coordinates = (0..signature.dimensions()).map(|d| signature.coordinate(d).to_vec()).collect();
        Self { coordinates, weights: signature.weights().to_vec() }
    }

    pub(super) fn with<R>(&self, f: impl FnOnce(SignatureRef<'_>) -> R) -> R {
        let columns: Vec<&[f32]> = self.coordinates.iter().map(Vec::as_slice).collect();
        f(Columns::new(&columns, &self.weights).signature(0, self.weights.len()))
    }
}

/// The queries of a side input, by number.
///
/// # Errors
/// When one is of another kind than the objects of the space, or has no distances.
pub fn queries(envelopes: &[Envelope], space: &MetricSpace) -> Result<Vec<MetricQuery>, BoxError> {
    let mut queries = Vec::new();
    for envelope in envelopes {
        let objects = envelope.column("object")?;
        for (row, &number) in envelope.u32s("query")?.iter().enumerate() {
            let wrong = |reason: String| BoxError::new(format!("query {number}: {reason}"));
            let object = match space.store() {
                Some(store) => {
                    store.check_coordinates(&coordinate_names(objects.data_type()).unwrap_or_default())?;
                    let columns = SignatureColumns::new(envelope.lists("object")?)?;
                    let signature = columns.signature(row);
                    let checked = space.measure().check_signature(signature);
                    checked.map_err(|error| wrong(error.to_string()))?;
                    QueryObject::Signature(OwnedSignature::of(signature))
                }
                None => {
                    let item = item(objects, row).ok_or_else(|| {
                        wrong(format!("it is {}, which is no object of a column", objects.data_type()))
                    })?;
                    check(&item, space).map_err(wrong)?;
                    let pattern = match &item {
                        OwnedItem::Text(text) => Some(Box::new(Pattern::new(text))),
                        _ => None,
                    };
                    QueryObject::Item(item, pattern)
                }
            };
            queries.push(MetricQuery { number, object });
        }
    }
    queries.sort_by_key(|query| query.number);
    Ok(queries)
}

/// The place of a query among those, by its number.
///
/// # Errors
/// When it is not among them.
pub fn place(queries: &[MetricQuery], number: u32) -> Result<usize, BoxError> {
    queries.binary_search_by_key(&number, |query| query.number).map_err(|_| {
        BoxError::new(format!("a row belongs to query {number}, which is not among the queries"))
    })
}

fn item(objects: &ArrayRef, row: usize) -> Option<OwnedItem> {
    if *objects.data_type() == DataType::Utf8 {
        return Some(OwnedItem::Text(objects.as_string::<i32>().value(row).chars().collect()));
    }
    let list = objects.as_list_opt::<i32>()?.value(row);
    match list.data_type() {
        DataType::Float32 => Some(OwnedItem::Vector(list.as_primitive::<Float32Type>().values().to_vec())),
        DataType::UInt32 => Some(OwnedItem::Set(list.as_primitive::<UInt32Type>().values().to_vec())),
        _ => None,
    }
}

/// Whether an object that is not of the column has distances to those that are.
pub fn check(item: &OwnedItem, space: &MetricSpace) -> Result<(), String> {
    let Some(column) = space.column() else { return Ok(()) };
    if let OwnedItem::Vector(vector) = item {
        if vector.len() != column.dimensions() {
            return Err(format!(
                "it has {} numbers, and the objects of `{}` have {}",
                vector.len(),
                column.path().display(),
                column.dimensions()
            ));
        }
        Lp::L2.check(vector).map_err(|error| error.to_string())?;
    }
    if let OwnedItem::Text(text) = item {
        Levenshtein.check(text).map_err(|error| error.to_string())?;
    }
    match item.kind() == column.kind() {
        true => Ok(()),
        false => Err(format!("the objects of `{}` are {}", column.path().display(), column.kind().name())),
    }
}

fn owned(item: Item<'_>) -> OwnedItem {
    match item {
        Item::Vector(vector) => OwnedItem::Vector(vector.to_vec()),
        Item::Text(text) => OwnedItem::Text(text.to_vec()),
        Item::Set(set) => OwnedItem::Set(set.to_vec()),
    }
}

/// Makes the envelope of some queries.
pub struct QueryBuilder {
    names: StringBuilder,
    objects: Builder,
    count: u32,
}

enum Builder {
    Vectors(ListBuilder<Float32Builder>),
    Texts(StringBuilder),
    Sets(ListBuilder<UInt32Builder>),
    Signatures(SignatureBuilder),
}

impl QueryBuilder {
    /// A builder of queries for a space.
    ///
    /// # Errors
    /// When the coordinates of a store are none.
    pub fn new(space: &MetricSpace) -> Result<Self, BoxError> {
        let of = |kind: DataType| Arc::new(Field::new("item", kind, false));
        let objects = match (space.store(), space.column()) {
            (Some(store), _) => Builder::Signatures(SignatureBuilder::new(store.coordinates())?),
            (None, Some(column)) if column.kind() == ObjectKind::Texts => {
                Builder::Texts(StringBuilder::new())
            }
            (None, Some(column)) if column.kind() == ObjectKind::Sets => {
                Builder::Sets(ListBuilder::new(UInt32Builder::new()).with_field(of(DataType::UInt32)))
            }
            _ => Builder::Vectors(ListBuilder::new(Float32Builder::new()).with_field(of(DataType::Float32))),
        };
        Ok(Self { names: StringBuilder::new(), objects, count: 0 })
    }

    /// Appends an object of the space.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn push_object(&mut self, space: &MetricSpace, id: u64) -> Result<(), BoxError> {
        match (&mut self.objects, space.store(), space.column()) {
            (Builder::Signatures(builder), Some(store), _) => {
                let name = store.read::<_, BoxError>(|objects| {
                    builder.push_signature(objects.signature(id)?)?;
                    Ok(objects.name(id)?.to_owned())
                })?;
                self.names.append_value(name);
                self.count += 1;
                Ok(())
            }
            (_, _, Some(column)) => {
                let item = owned(column.item(id));
                self.push_item(&space.name(id)?, &item)
            }
            _ => Err(BoxError::new("a space has a store or a column")),
        }
    }

    /// Appends an object that stands alone, and what it is called.
    ///
    /// # Errors
    /// When it is of another kind.
    pub fn push_item(&mut self, name: &str, item: &OwnedItem) -> Result<(), BoxError> {
        match (&mut self.objects, item) {
            (Builder::Vectors(builder), OwnedItem::Vector(vector)) => {
                builder.values().append_slice(vector);
                builder.append(true);
            }
            (Builder::Texts(builder), OwnedItem::Text(text)) => {
                builder.append_value(text.iter().collect::<String>());
            }
            (Builder::Sets(builder), OwnedItem::Set(set)) => {
                builder.values().append_slice(set);
                builder.append(true);
            }
            _ => return Err(BoxError::new(format!("`{name}` is of another kind than the objects"))),
        }
        self.names.append_value(name);
        self.count += 1;
        Ok(())
    }

    /// How many queries were appended.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The envelope, numbered from 0.
    ///
    /// # Errors
    /// When the columns do not form a table.
    pub fn finish(mut self) -> Result<Envelope, BoxError> {
        let names: StringArray = self.names.finish();
        let objects: ArrayRef = match self.objects {
            Builder::Vectors(mut builder) => Arc::new(builder.finish()),
            Builder::Texts(mut builder) => Arc::new(builder.finish()),
            Builder::Sets(mut builder) => Arc::new(builder.finish()),
            Builder::Signatures(mut builder) => Arc::new(builder.finish()),
        };
        let columns: [(&str, ArrayRef); 3] = [
            ("query", Arc::new(UInt32Array::from_iter_values(0..self.count))),
            ("name", Arc::new(names)),
            ("object", objects),
        ];
        Ok(Envelope::from_columns(columns)?)
    }
}
