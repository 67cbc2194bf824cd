//! Random stores for tests: reproducible, odd shapes, no dependence on other modules' code.

use super::columns::{Columns, StoreColumns};
use crate::chance::Random;
use crate::similarity::{Ground, Measure, Similarity};

/// Owned columns of a batch of signatures.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub coordinates: Vec<Vec<f32>>,
    pub weights: Vec<f32>,
    pub offsets: Vec<i32>,
}

impl Store {
    /// Signatures of these sizes, coordinates within `spread` of 0, weights normalised to sum 1 each.
    pub(crate) fn random(seed: u64, dimensions: usize, sizes: &[usize], spread: f64) -> Self {
        let mut random = Random::new(seed);
        let mut store =
            Self { coordinates: vec![Vec::new(); dimensions], weights: Vec::new(), offsets: vec![0] };
        for &size in sizes {
            let raw: Vec<f64> = (0..size).map(|_| 0.05 + random.unit()).collect();
            let sum: f64 = raw.iter().sum();
            store.weights.extend(raw.iter().map(|w| (w / sum) as f32));
            for column in &mut store.coordinates {
                column.extend((0..size).map(|_| ((2.0 * random.unit() - 1.0) * spread) as f32));
            }
            store.offsets.push(store.weights.len() as i32);
        }
        store
    }

    pub(crate) fn with<R>(&self, f: impl FnOnce(&StoreColumns<'_>) -> R) -> R {
        let coordinates: Vec<&[f32]> = self.coordinates.iter().map(Vec::as_slice).collect();
        f(&StoreColumns::new(Columns::new(&coordinates, &self.weights), &self.offsets))
    }
}

/// Every measure that exists, at this alpha.
pub(crate) fn every_measure(alpha: f64) -> Vec<Measure> {
    let mut measures = Vec::new();
    for similarity in [Similarity::Gaussian, Similarity::Heuristic, Similarity::Minus] {
        for ground in [Ground::L1, Ground::L2, Ground::Linf, Ground::SquaredL2] {
            measures.extend(Measure::new(similarity, ground, alpha));
        }
    }
    assert_eq!(measures.len(), 7);
    measures
}
