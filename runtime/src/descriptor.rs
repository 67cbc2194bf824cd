//! The descriptor: the names and types of the columns that a port takes or gives.
//!
//! Invariant: two ports connect only when every column agrees in order, name and type. A type may be a family
//! (any signature, whatever its dimension), so that a plan is checked before any file is opened.

use std::fmt;

use arrow_schema::{DataType, Schema};

/// A set of Arrow types that a port treats alike, with a name for messages.
#[derive(Debug)]
pub struct Family {
    /// The name in messages, such as `Signature`.
    pub name: &'static str,
    /// One line on its members.
    pub about: &'static str,
    /// Whether a concrete type belongs to it.
    pub accepts: fn(&DataType) -> bool,
}

/// The type of a column.
#[derive(Clone, Debug)]
pub enum ColumnType {
    /// Exactly this Arrow type.
    Exact(DataType),
    /// Any type of the family.
    Family(&'static Family),
}

impl ColumnType {
    fn agrees_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(a), Self::Exact(b)) => a.equals_datatype(b),
            (Self::Family(a), Self::Family(b)) => a.name == b.name,
            (Self::Family(family), Self::Exact(exact)) | (Self::Exact(exact), Self::Family(family)) => {
                (family.accepts)(exact)
            }
        }
    }

    fn admits(&self, found: &DataType) -> bool {
        match self {
            Self::Exact(exact) => exact.equals_datatype(found),
            Self::Family(family) => (family.accepts)(found),
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(exact) => write!(f, "{exact}"),
            Self::Family(family) => f.write_str(family.name),
        }
    }
}

/// One column of a descriptor.
#[derive(Clone, Debug)]
pub struct Column {
    /// The name.
    pub name: &'static str,
    /// The type.
    pub kind: ColumnType,
    /// One line on what it means, with its unit.
    pub about: &'static str,
}

impl Column {
    /// A column of exactly one Arrow type.
    pub fn new(name: &'static str, kind: DataType, about: &'static str) -> Self {
        Self { name, kind: ColumnType::Exact(kind), about }
    }

    /// A column of any type of a family.
    pub fn family(name: &'static str, family: &'static Family, about: &'static str) -> Self {
        Self { name, kind: ColumnType::Family(family), about }
    }
}

/// The names and types of the columns that a port takes or gives.
#[derive(Clone, Debug, Default)]
pub struct Descriptor {
    columns: Vec<Column>,
}

impl Descriptor {
    /// A descriptor of these columns, in this order.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        let columns: Vec<Column> = columns.into_iter().collect();
        debug_assert!(
            columns
                .iter()
                .enumerate()
                .all(|(place, column)| { columns[..place].iter().all(|before| before.name != column.name) }),
            "two columns of a descriptor have one name: only the first could be read"
        );
        debug_assert!(
            columns.iter().all(|column| !column.name.is_empty()),
            "a column of a descriptor has no name: no box could ask for it"
        );
        Self { columns }
    }

    /// The columns in order.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Whether an output of this descriptor may feed an input of the other.
    pub fn agrees_with(&self, other: &Self) -> bool {
        self.columns.len() == other.columns.len()
            && self
                .columns
                .iter()
                .zip(&other.columns)
                .all(|(a, b)| a.name == b.name && a.kind.agrees_with(&b.kind))
    }

    /// Whether a concrete table fits; the error names the column that does not.
    ///
    /// # Errors
    /// A sentence on the first column that differs.
    pub fn admits(&self, schema: &Schema) -> Result<(), String> {
        let fields = schema.fields();
        if fields.len() != self.columns.len() {
            return Err(format!("it has {} columns, not the {} of {self}", fields.len(), self.columns.len()));
        }
        for (column, field) in self.columns.iter().zip(fields) {
            if column.name != field.name() || !column.kind.admits(field.data_type()) {
                return Err(format!(
                    "its column `{}: {}` stands where `{}: {}` should",
                    field.name(),
                    field.data_type(),
                    column.name,
                    column.kind
                ));
            }
        }
        Ok(())
    }
}

impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (idx, column) in self.columns.iter().enumerate() {
            let comma = if idx == 0 { "" } else { ", " };
            write!(f, "{comma}{}: {}", column.name, column.kind)?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static TEXTS: Family = Family {
        name: "AnyText",
        about: "either width of text",
        accepts: |kind| matches!(kind, DataType::Utf8 | DataType::LargeUtf8),
    };

    #[test]
    fn families_agree_with_their_members_only() {
        let any = Descriptor::new([Column::family("name", &TEXTS, "")]);
        let narrow = Descriptor::new([Column::new("name", DataType::Utf8, "")]);
        let number = Descriptor::new([Column::new("name", DataType::UInt32, "")]);
        assert!(any.agrees_with(&narrow) && narrow.agrees_with(&any) && any.agrees_with(&any));
        assert!(!any.agrees_with(&number) && !narrow.agrees_with(&number));
        assert_eq!(any.to_string(), "(name: AnyText)");
    }

    #[test]
    fn order_and_names_matter() {
        let ab =
            Descriptor::new([Column::new("a", DataType::UInt32, ""), Column::new("b", DataType::UInt32, "")]);
        let ba =
            Descriptor::new([Column::new("b", DataType::UInt32, ""), Column::new("a", DataType::UInt32, "")]);
        assert!(ab.agrees_with(&ab) && !ab.agrees_with(&ba));
    }
}
