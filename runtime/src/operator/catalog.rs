//! The operators and kinds of resource that the pipelines of a program can name.

use std::sync::Arc;

use super::{OperatorEntry, OperatorSpec, ResourceSpec};

/// The operators and resources that pipelines can name.
#[derive(Clone, Default)]
pub struct Catalog {
    operators: Vec<Arc<OperatorEntry>>,
    resources: Vec<&'static ResourceSpec>,
    renamed: Vec<(&'static str, &'static str)>,
}

impl Catalog {
    /// A catalogue of these.
    ///
    /// # Panics
    /// When two operators or two resources have one name, or [`Catalog::with`] refuses a table.
    pub fn new(
        operators: impl IntoIterator<Item = &'static OperatorSpec>,
        resources: impl IntoIterator<Item = &'static ResourceSpec>,
    ) -> Self {
        let mut catalog = Self::default();
        for spec in operators {
            catalog = catalog.with(spec);
        }
        for spec in resources {
            catalog = catalog.with_resource(spec);
        }
        catalog
    }

    /// Adds an operator: a static [`OperatorSpec`], or an [`OperatorEntry`] made at run time.
    ///
    /// # Panics
    /// When the catalogue has an operator of that name, or a port is at another place of its table than its handle
    /// says.
    #[must_use]
    pub fn with(mut self, operator: impl Into<Arc<OperatorEntry>>) -> Self {
        let operator = operator.into();
        assert!(self.operator(&operator.name).is_none(), "two operators are named `{}`", operator.name);
        self.operators.push(operator);
        self
    }

    /// Adds a kind of resource.
    ///
    /// # Panics
    /// When the catalogue has a kind of that name.
    #[must_use]
    pub fn with_resource(mut self, spec: &'static ResourceSpec) -> Self {
        assert!(self.resource(spec.name).is_none(), "two kinds of resource are named `{}`", spec.name);
        self.resources.push(spec);
        self
    }

    /// Adds old names with their new names: a pipeline that uses an old name gets a fault that gives the new one.
    #[must_use]
    pub fn with_renamed(mut self, renamed: &[(&'static str, &'static str)]) -> Self {
        self.renamed.extend_from_slice(renamed);
        self
    }

    /// The new name of an operator or kind of resource, for an old one.
    pub fn new_name(&self, old: &str) -> Option<&'static str> {
        self.renamed.iter().find(|(known, _)| *known == old).map(|(_, new)| *new)
    }

    /// All operators, in the order they were added.
    pub fn operators(&self) -> &[Arc<OperatorEntry>] {
        &self.operators
    }

    /// All kinds of resource, in the order they were added.
    pub fn resources(&self) -> &[&'static ResourceSpec] {
        &self.resources
    }

    /// The operator of a name.
    pub fn operator(&self, name: &str) -> Option<&Arc<OperatorEntry>> {
        self.operators.iter().find(|operator| operator.name == name)
    }

    /// The kind of resource of a name.
    pub fn resource(&self, name: &str) -> Option<&'static ResourceSpec> {
        self.resources.iter().copied().find(|spec| spec.name == name)
    }
}
