//! `select_pivots`: chooses a store's pivots, the objects from which an index measures all others.
//!
//! Invariants: equal stores, spaces and seeds give equal pivots, for any number of workers; no two pivots are so close
//! that rounding alone could make their distance.

use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, StringArray, UInt32Array, UInt64Array};
use boxwork_kernels::chance::Random;
use boxwork_kernels::lower_bound::PIVOTS_MAX;
use boxwork_kernels::memory::filled;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec, Out};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use crate::columns;
use crate::resources::{self, SPACE};
use boxwork_stores::pivot_table::IndexError;
use boxwork_stores::signature_store::StoreError;
use boxwork_stores::space::Space;

/// Pairs of objects whose lower bounds `incremental` raises.
const PAIRS: usize = 256;
/// Distances that one closure computes: some milliseconds.
const DISTANCES_PER_CHUNK: usize = 64;
/// Distances that one closure computes if a task has few: a tenth of a millisecond.
const FEW_PER_CHUNK: usize = 8;

const QUERIES: Out = Out::new(0, "queries", columns::queries, "the pivots with their signatures");
const PIVOTS: Out = Out::new(1, "pivots", columns::pivots, "the pivots' ids");

/// Chooses pivots among the objects of a store.
///
/// `random` takes objects in an order that the seed shuffles. `maxmin` takes the object of a sample that is farthest
/// from all pivots so far. `incremental` takes the object of a sample that most raises the mean triangular bound of
/// some pairs of objects (section 4.2.2 of the source). Objects at distance 0 from a pivot are skipped, so a store with
/// fewer different objects gives fewer pivots.
///
/// # Inputs
/// None.
///
/// # Outputs
/// `queries`: the pivots' signatures, numbered from 0. `pivots`: their ids.
///
/// # Parameters
/// `space`: the store and the measure. `count`, `select`, `seed`: the number of pivots, the method, and the seed of all
/// random choices. `sample`: the number of objects from which `maxmin` and `incremental` choose.
pub static SELECT_PIVOTS: OperatorSpec = OperatorSpec {
    parameters: &[
        SPACE,
        Parameter::new(
            "count",
            ParameterType::Integer { minimum: 1, maximum: PIVOTS_MAX as i64 },
            Default::Integer(32),
            "the number of pivots",
        )
        .unit("objects"),
        Parameter::new(
            "select",
            ParameterType::Choice(&["random", "maxmin", "incremental"]),
            Default::Text("random"),
            "the method",
        ),
        Parameter::new(
            "seed",
            ParameterType::integer_from(0),
            Default::Integer(1),
            "the seed of all random choices",
        ),
        Parameter::new(
            "sample",
            ParameterType::Integer { minimum: 1, maximum: 1 << 20 },
            Default::Integer(512),
            "objects from which maxmin and incremental choose",
        )
        .unit("objects"),
    ],
    outputs: &[QUERIES, PIVOTS],
    example: "pivots: {kind: select_pivots, space: space, count: 32, select: maxmin}",
    check: Some(resources::check_index),
    ..OperatorSpec::new("select_pivots", "Chooses the pivots of an index.", Kind::Stateful, make)
};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Select {
    Random,
    MaxMin,
    Incremental,
}

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let space = resources::index_space(bind)?;
    let count = bind.count("count");
    let objects = space.store().objects_count();
    if count as u64 > objects {
        let store = space.store().path().to_owned();
        return Err(IndexError::TooManyPivots { store, pivots: count, objects }.into());
    }
    let select = match bind.text("select") {
        "maxmin" => Select::MaxMin,
        "incremental" => Select::Incremental,
        _ => Select::Random,
    };
    let mut random = Random::mixed(bind.count("seed") as u64);
    let sample = match select {
        // A few more than needed, to replace objects that are equal.
        Select::Random => 4 * count + 64,
        _ => bind.count("sample").max(4 * count),
    };
    let nth = |place| space.store().nth(place);
    let sample: Vec<u64> = random.distinct(objects, sample).into_iter().map(nth).collect();
    let pairs = (0..PAIRS).map(|_| [random.below(objects), random.below(objects)].map(nth)).collect();
    let nearest = vec![f64::INFINITY; sample.len()];
    Ok(Box::new(SelectPivots {
        space,
        count,
        select,
        sample,
        nearest,
        chosen: Vec::new(),
        pairs,
        raised: None,
    }))
}

struct SelectPivots {
    space: Arc<dyn Space>,
    count: usize,
    select: Select,
    /// The candidates, in random order.
    sample: Vec<u64>,
    /// The distance of each object of the sample to its nearest pivot; minus infinity if it is too near. For `random`,
    /// infinity until the object's turn: most of the sample is never examined.
    nearest: Vec<f64>,
    /// Places in the sample.
    chosen: Vec<usize>,
    pairs: Vec<[u64; 2]>,
    /// For `incremental`: the current bounds of the pairs, and each candidate's bound of each pair, a row per
    /// candidate.
    raised: Option<(Vec<f64>, Vec<f64>)>,
}

impl Operator for SelectPivots {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let store = Arc::clone(self.space.store());
        let mut ids = self.sample.clone();
        if self.select == Select::Incremental {
            ids.extend(self.pairs.iter().flatten());
        }
        if !store.is_in(&ids) {
            resources::bring_in(cx, &*store, &ids)?;
            return Ok(Flow::More);
        }
        // One pivot per firing.
        match self.next(cx)? {
            Some(place) if !cx.is_cancelled() => {
                self.chosen.push(place);
                cx.progress(self.chosen.len() as u64, self.count as u64);
                if self.chosen.len() < self.count {
                    self.see(cx, place)?;
                    return Ok(Flow::More);
                }
                self.send(cx)
            }
            _ => self.send(cx),
        }
    }
}

impl SelectPivots {
    /// The place of the next pivot; `None` if all remaining objects are too near to one.
    fn next(&mut self, cx: &mut Context<'_>) -> Result<Option<usize>, BoxError> {
        let left = (0..self.sample.len()).filter(|place| self.nearest[*place] > 0.0);
        if self.select == Select::Incremental {
            if self.raised.is_none() {
                self.raised = Some((vec![0.0; self.pairs.len()], self.bounds_of_pairs(cx)?));
            }
            let Some((raised, all)) = &mut self.raised else { return Ok(None) };
            let pairs = raised.len();
            let gain = |place: usize| -> f64 {
                raised.iter().zip(&all[place * pairs..][..pairs]).map(|(old, new)| old.max(*new)).sum()
            };
            let best = left.map(|place| (gain(place), place)).reduce(|a, b| if b.0 > a.0 { b } else { a });
            if let Some((_, place)) = best {
                for (old, new) in raised.iter_mut().zip(&all[place * pairs..][..pairs]) {
                    *old = old.max(*new);
                }
            }
            return Ok(best.map(|(_, place)| place));
        }
        if self.select == Select::MaxMin {
            return Ok(left.reduce(|a, b| if self.nearest[b] > self.nearest[a] { b } else { a }));
        }
        let pivots: Vec<u64> = self.chosen.iter().map(|place| self.sample[*place]).collect();
        for place in left {
            let distances = self.distances(cx, self.sample[place], &pivots, FEW_PER_CHUNK)?;
            let mut is_apart = true;
            for (pivot, distance) in pivots.iter().zip(distances) {
                is_apart &= distance > self.tolerance(*pivot)?;
            }
            if is_apart {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// Updates the state for a new pivot.
    fn see(&mut self, cx: &mut Context<'_>, place: usize) -> Result<(), BoxError> {
        if self.select == Select::Random {
            // Objects before it were skipped, and stay skipped.
            self.nearest[..=place].fill(f64::NEG_INFINITY);
            return Ok(());
        }
        let pivot = self.sample[place];
        let distances = self.distances(cx, pivot, &self.sample, DISTANCES_PER_CHUNK)?;
        let tolerance = self.tolerance(pivot)?;
        for (nearest, distance) in self.nearest.iter_mut().zip(distances) {
            *nearest = nearest.min(if distance > tolerance { distance } else { f64::NEG_INFINITY });
        }
        Ok(())
    }

    /// The distances of objects from one object.
    fn distances(
        &self,
        cx: &mut Context<'_>,
        from: u64,
        ids: &[u64],
        chunk: usize,
    ) -> Result<Vec<f64>, BoxError> {
        let space = &self.space;
        let mut distances = vec![0.0; ids.len()];
        let pairs: Vec<[u64; 2]> = ids.iter().map(|id| [from, *id]).collect();
        let failed = OnceLock::new();
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut distances, chunk, |first, distances| {
                let pairs = &pairs[first..first + distances.len()];
                if let Err(error) = space.between_until(pairs, distances, &cancelled) {
                    // The first error is reported.
                    let _ = failed.set(error);
                }
            });
        });
        failed.into_inner().map_or(Ok(distances), |error| Err(error.into()))
    }

    /// The largest distance from a pivot that rounding alone can make.
    fn tolerance(&self, pivot: u64) -> Result<f64, BoxError> {
        Ok(self.space.noise_squared(self.space.extent(pivot)?, 0.0).sqrt())
    }

    /// The triangular bound of each pair by each candidate.
    fn bounds_of_pairs(&self, cx: &mut Context<'_>) -> Result<Vec<f64>, BoxError> {
        let (space, sample, pairs) = (&self.space, &self.sample, &self.pairs);
        let mut all = filled(
            sample.len() * pairs.len(),
            0.0,
            || format!("choosing among a sample of {} objects", sample.len()),
            "make `sample` smaller, or free memory",
        )?;
        let failed = OnceLock::new();
        cx.inside(|inside| {
            let cancelled = inside.cancelled();
            inside.for_each_chunk_of(&mut all, DISTANCES_PER_CHUNK, |first, bounds| {
                for (place, bound) in bounds.iter_mut().enumerate() {
                    let candidate = sample[(first + place) / pairs.len()];
                    let [a, b] = pairs[(first + place) % pairs.len()];
                    let mut to = [0.0; 2];
                    let pairs = [[candidate, a], [candidate, b]];
                    if let Err(error) = space.between_until(&pairs, &mut to, &cancelled) {
                        // The first error is reported.
                        let _ = failed.set(error);
                    }
                    *bound = (to[0] - to[1]).abs();
                }
            });
        });
        failed.into_inner().map_or(Ok(all), |error| Err(error.into()))
    }

    fn send(&self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let ids: Vec<u64> = self.chosen.iter().map(|place| self.sample[*place]).collect();
        let store = self.space.store();
        let (objects, names) = cx.detached("disk", || {
            let names = ids.iter().map(|id| store.name(*id)).collect::<Result<Vec<String>, _>>();
            Ok::<_, StoreError>((store.objects(&ids)?, names?))
        })??;
        let numbers: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..ids.len() as u32));
        cx.push(
            QUERIES,
            Envelope::from_columns([
                ("query", Arc::clone(&numbers)),
                ("name", Arc::new(StringArray::from(names)) as ArrayRef),
                ("object", objects),
            ])?,
        )?;
        let columns = [("query", numbers), ("id", Arc::new(UInt64Array::from(ids)) as ArrayRef)];
        cx.push(PIVOTS, Envelope::from_columns(columns)?)?;
        Ok(Flow::Done)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_runtime::parameter::Value;

    use super::*;
    use boxwork_stores::signature_store::StoreInfo;
    use boxwork_stores::sqfd_space::SqfdSpace;
    use boxwork_stores::testing;

    fn chosen(space: &Arc<SqfdSpace>, count: i64, select: &str, seed: i64) -> Vec<u64> {
        let resource: Resource = testing::shared_space(space);
        let given = [
            ("space", Value::Text("s".into())),
            ("count", Value::Integer(count)),
            ("select", Value::Text(select.into())),
            ("seed", Value::Integer(seed)),
            ("sample", Value::Integer(64)),
        ];
        let mut harness = Harness::with_resources(&SELECT_PIVOTS, given, [("s", resource)]).unwrap();
        harness.run().unwrap();
        assert!(harness.is_done());
        let (queries, pivots) = (harness.taken(QUERIES), harness.taken(PIVOTS));
        let ids = pivots[0].u64s("id").unwrap().to_vec();
        assert_eq!(queries[0].u32s("query").unwrap(), pivots[0].u32s("query").unwrap());
        for (name, id) in queries[0].texts("name").unwrap().iter().zip(&ids) {
            assert_eq!(name.unwrap(), space.store().name(*id).unwrap());
        }
        ids
    }

    fn space(folder: &Path, objects: usize) -> Arc<SqfdSpace> {
        testing::space(testing::store(folder, objects))
    }

    #[test]
    fn chooses_different_objects_and_the_same_ones_again() {
        let folder = tempfile::tempdir().unwrap();
        let space = space(folder.path(), 300);
        for select in ["random", "maxmin", "incremental"] {
            let ids = chosen(&space, 8, select, 3);
            let different: std::collections::BTreeSet<u64> = ids.iter().copied().collect();
            assert_eq!((ids.len(), different.len()), (8, 8), "{select}: {ids:?}");
            assert_eq!(chosen(&space, 8, select, 3), ids);
            assert_ne!(chosen(&space, 8, select, 4), ids);
        }
    }

    #[test]
    fn maxmin_takes_the_farthest_of_all() {
        let folder = tempfile::tempdir().unwrap();
        let space = space(folder.path(), 40);
        let ids = chosen(&space, 4, "maxmin", 1);
        let between = |a, b| space.store().read(|objects| space.between(objects, a, b)).unwrap();
        for count in 1..4 {
            let nearest = |id: u64| ids[..count].iter().map(|pivot| between(*pivot, id)).fold(9.0, f64::min);
            let farthest = (0..40).map(nearest).fold(0.0, f64::max);
            assert_eq!(nearest(ids[count]), farthest);
        }
    }

    #[test]
    fn objects_that_are_alike_are_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..50).map(|idx| idx.to_string()).collect();
        let objects: Vec<(&str, u64)> =
            names.iter().enumerate().map(|(idx, name)| (name.as_str(), idx as u64 % 3)).collect();
        let space = testing::space(testing::store_of(folder.path(), &objects, &StoreInfo::default()));
        for select in ["random", "maxmin", "incremental"] {
            let ids = chosen(&space, 10, select, 1);
            assert_eq!(ids.len(), 3, "{select}: {ids:?}");
        }
    }

    #[test]
    fn more_pivots_than_objects_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let space: Resource = testing::shared_space(&space(folder.path(), 5));
        let given = [("space", Value::Text("s".into())), ("count", Value::Integer(6))];
        let error = Harness::with_resources(&SELECT_PIVOTS, given, [("s", space)]).err().unwrap().to_string();
        assert!(error.contains("6 pivots") && error.contains("ask for at most 5"), "{error}");
    }
}
