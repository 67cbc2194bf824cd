//! The order `permutation`: objects with the most similar permutations leave before all others.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use boxwork_kernels::permutation::Measure;
use boxwork_runtime::operator::{Bind, BoxError, Context, In};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::permutations::Permutations;

use super::{SORTED, Waiting};
use crate::columns;
use crate::search::permutation_candidates::{SHARE, find};

pub(super) const QUERIES: In =
    In::side(1, "queries", columns::queries, "the queries, for the order `permutation`").optional();

pub(super) const PERMUTATIONS: Parameter = Parameter::new(
    "permutations",
    ParameterType::Resource("permutation_table"),
    Default::Absent,
    "the permutations of the store, for the order `permutation`",
);

/// The objects with the most similar permutations.
pub(super) struct Permuted {
    permutations: Arc<Permutations>,
    /// So many for each query.
    count: usize,
    /// By query, the most similar first; those of queries that have not begun. Set by the first firing.
    found: Option<BTreeMap<u32, Vec<u64>>>,
}

impl Permuted {
    /// The order of a box; nothing for other orders.
    pub(super) fn of(bind: &Bind<'_>) -> Result<Option<Self>, BoxError> {
        let permutations = bind.get_resource::<Permutations>("permutations")?;
        match (bind.text("order") == "permutation", permutations) {
            (true, Some(permutations)) => {
                let objects = permutations.maker().space().store().objects_count();
                let count =
                    ((objects / SHARE) as usize).clamp(bind.count("first"), SORTED.max(bind.count("first")));
                Ok(Some(Self { permutations, count, found: None }))
            }
            (true, None) => Err(BoxError::new(
                "the order `permutation` needs permutations: give `permutations`, a resource of the kind `permutation_table`",
            )),
            (false, Some(_)) => Err(BoxError::new(
                "`permutations` are for the order `permutation`: write `order: permutation`, or leave `permutations` out",
            )),
            (false, None) => Ok(None),
        }
    }

    /// Finds the objects for all queries, once.
    pub(super) fn find(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        if self.found.is_none() {
            if cx.side(QUERIES).is_empty() {
                return Err(BoxError::new(
                    "the order `permutation` needs the queries: connect `queries`, as `query -> nearest.queries`",
                ));
            }
            let found = find(cx, QUERIES, &self.permutations, Measure::Footrule.into(), self.count)?;
            self.found = Some(found.into_iter().collect());
        }
        Ok(())
    }

    /// The objects of a query, at the first call for it.
    pub(super) fn take(&mut self, query: u32) -> Option<Vec<u64>> {
        self.found.as_mut().and_then(|found| found.remove(&query))
    }
}

impl Waiting {
    /// Lets these candidates leave before all others, in this order, if they wait.
    pub(super) fn promise(&mut self, ids: &[u64]) -> Result<(), BoxError> {
        let places: HashMap<u64, usize> = ids.iter().copied().zip(0..).collect();
        let mut found = vec![None; ids.len()];
        for held in &self.held {
            for (lower, id) in held.lowers()?.iter().zip(held.ids()?) {
                if held.waits(*lower)
                    && let Some(place) = places.get(id)
                {
                    found[*place] = Some((*lower, *id));
                }
            }
        }
        self.promising = found.into_iter().rev().flatten().collect();
        self.promised = self.promising.iter().map(|candidate| candidate.1).collect();
        Ok(())
    }
}
