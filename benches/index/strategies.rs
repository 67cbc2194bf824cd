//! The strategies that `what=search` compares: all that are shipped, or those of `strategy=`.

use std::sync::Arc;

use boxwork::shipped;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;

use super::Setting;

impl Setting {
    /// The strategies that are compared; the first one is the scan.
    pub(super) fn strategies(&self) -> Vec<(String, Arc<Prepared>)> {
        let named = |(name, prepared): (&str, Arc<Prepared>)| (name.to_owned(), prepared);
        match &self.strategy {
            None => self.all_strategies().into_iter().map(named).collect(),
            Some(some) => {
                let scan = ("scan".to_owned(), self.prepare(shipped::SEARCH, &[]));
                [scan].into_iter().chain(some.split(',').flat_map(|name| self.strategy(name))).collect()
            }
        }
    }

    /// A strategy of the question `strategy=`.
    fn strategy(&self, name: &str) -> Vec<(String, Arc<Prepared>)> {
        let bound = |name: &str| ("bound", Value::Text(name.to_owned()));
        let block = |size: &str| {
            let objects = Value::Integer(size.parse().expect("sizes of blocks are numbers"));
            let given = [bound("triangular"), ("block", objects)];
            (format!("blocks of {size}"), self.prepare(shipped::FIXED_BLOCKS, &given))
        };
        match name {
            "blocks" => self.block.split(',').map(block).collect(),
            "estimate" => {
                vec![(name.to_owned(), self.prepare(shipped::ADAPTIVE_BLOCKS, &[bound("triangular")]))]
            }
            "simplex" => vec![(name.to_owned(), self.prepare(shipped::BEST_FIRST, &[bound("simplex")]))],
            other => panic!("strategy={other} is none of blocks, estimate and simplex"),
        }
    }

    fn all_strategies(&self) -> Vec<(&'static str, Arc<Prepared>)> {
        let simplex = [("bound", Value::Text("simplex".to_owned()))];
        let combined = [("bound", Value::Text("combined".to_owned()))];
        let triangular = [("bound", Value::Text("triangular".to_owned()))];
        vec![
            ("scan", self.prepare(shipped::SEARCH, &[])),
            ("auto", self.prepare(shipped::AUTO, &[])),
            ("best first, simplex", self.prepare(shipped::BEST_FIRST, &simplex)),
            ("estimated range, simplex", self.prepare(shipped::ESTIMATED_RANGE, &simplex)),
            ("adaptive blocks, simplex", self.prepare(shipped::ADAPTIVE_BLOCKS, &simplex)),
            ("fixed blocks, simplex", self.prepare(shipped::FIXED_BLOCKS, &simplex)),
            ("two phase, simplex", self.prepare(shipped::TWO_PHASE, &simplex)),
            ("best first, combined", self.prepare(shipped::BEST_FIRST, &combined)),
            ("best first, triangular", self.prepare(shipped::BEST_FIRST, &triangular)),
        ]
    }
}
