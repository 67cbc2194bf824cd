//! The pivot table of a space of any distance: what bounds distances that are not computed.
//!
//! The same blocks, kernels and slack as the pivot table of a store has ([`super::pivot_table`]), made in memory when
//! the pipeline is prepared. Distances are kept in parts of a power of two that is above all of them, so that f32 holds
//! them and their squares, whatever the unit of the objects is.

use std::ops::Range;
use std::sync::Arc;

use boxwork_kernels::CodePath;
use boxwork_kernels::distance::Unsound;
use boxwork_kernels::lower_bound::{
    Block, Bound, BoundError, BoundQuery, Bounds, Evaluator, PACKED_OBJECTS, PIVOTS_MAX, Simplex, TableErrors,
};
use boxwork_kernels::memory::{filled, room};
use boxwork_kernels::metric_index::{MetricIndexError, Objects};
use boxwork_runtime::operator::{Bind, BoxError, Cancellation, Resource, ResourceSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

use super::metric_query::MetricQuery;
use super::metric_space::MetricSpace;

/// A query this many times farther from a pivot than any object is bounded by nothing: f32 would not hold its squares.
const FAR: f64 = 1e6;
/// What helps where there is no memory.
const ADVICE: &str = "take fewer pivots, or free memory";

/// The distances of all objects of a space to a few of them.
#[derive(Debug)]
pub struct MetricPivots {
    space: Arc<MetricSpace>,
    pivots: Vec<u32>,
    /// The pivots' distances among themselves, in parts of `unit`.
    between: Vec<f64>,
    simplex: Simplex,
    unit: f64,
    /// In parts of `unit`.
    distance_max: f64,
    spread_max: f64,
    distances: Vec<f32>,
    /// Nothing where the simplex is not sound.
    apexes: Vec<f32>,
    computed: u64,
}

/// A query's side of a bound, and the unit of its numbers; nothing when the query is too far away.
pub struct MetricBound {
    query: Option<BoundQuery>,
    unit: f64,
}

impl MetricPivots {
    /// Chooses so many pivots, or fewer where there are fewer different objects, and computes all distances to them.
    ///
    /// # Errors
    /// When an object cannot be read, a distance is none, the system has no memory for them, or the work is cancelled.
    pub fn new(
        space: Arc<MetricSpace>,
        count: usize,
        seed: u64,
        cancellation: &Cancellation,
    ) -> Result<Self, BoxError> {
        let is_cancelled = || cancellation.is_cancelled();
        let objects = space.len() as usize;
        let what = |pivots: usize| format!("the pivot table of {objects} objects and {pivots} pivots");
        let (pivots, mut rows, computed) = space.between(|between| {
            let objects = Objects::new(objects, between)?.until(&is_cancelled);
            let pivots = objects.pivots(count.clamp(1, PIVOTS_MAX), seed)?;
            let mut rows = room(objects.count() * pivots.len(), || what(pivots.len()), ADVICE)?;
            for object in objects.all() {
                for &pivot in &pivots {
                    rows.push(if pivot == object { 0.0 } else { objects.distance(pivot, object)? });
                }
            }
            Ok::<_, MetricIndexError>((pivots, rows, objects.computed()))
        })??;
        let count = pivots.len();
        let largest = rows.iter().fold(0.0, |largest: f64, distance| largest.max(*distance));
        let unit = power_above(largest);
        rows.iter_mut().for_each(|distance| *distance /= unit);
        let between: Vec<f64> =
            pivots.iter().flat_map(|pivot| rows[*pivot as usize * count..][..count].to_vec()).collect();
        let noise = space.slack(None).noise_squared(largest) / (unit * unit);
        let is_hilbert = space.measure().properties().hilbert;
        // Where it is not sound it is not used.
        let simplex = Simplex::new(if is_hilbert { &between } else { &[0.0] }, noise)?;
        let blocks = objects.div_ceil(PACKED_OBJECTS);
        let zeros = |columns: usize| filled(blocks * columns * PACKED_OBJECTS, 0.0, || what(count), ADVICE);
        let mut made = Self {
            distances: zeros(count)?,
            apexes: zeros(if is_hilbert { simplex.dimensions() } else { 0 })?,
            space,
            pivots,
            between,
            simplex,
            unit,
            distance_max: largest / unit,
            spread_max: 0.0,
            computed,
        };
        for (object, row) in rows.chunks_exact(count).enumerate() {
            let place = |column: usize, width: usize| {
                (object / PACKED_OBJECTS * width + column) * PACKED_OBJECTS + object % PACKED_OBJECTS
            };
            for (column, distance) in row.iter().enumerate() {
                made.distances[place(column, count)] = *distance as f32;
            }
            if is_hilbert {
                cancellation.check()?;
                let apex = made.simplex.apex(row, noise)?;
                made.spread_max = made.spread_max.max(apex.spread);
                for (column, coordinate) in apex.coordinates.iter().enumerate() {
                    made.apexes[place(column, made.simplex.dimensions())] = *coordinate as f32;
                }
            }
        }
        Ok(made)
    }

    /// The objects and their distance.
    pub fn space(&self) -> &Arc<MetricSpace> {
        &self.space
    }

    /// The pivots, as objects of the space.
    pub fn pivots(&self) -> &[u32] {
        &self.pivots
    }

    /// How many distances were computed to make it.
    pub fn computed(&self) -> u64 {
        self.computed
    }

    /// Memory that it takes, in bytes.
    pub fn bytes(&self) -> usize {
        (self.distances.len() + self.apexes.len()) * size_of::<f32>()
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        (self.space.len() as usize).div_ceil(PACKED_OBJECTS)
    }

    /// The objects of a block.
    pub fn places(&self, block: usize) -> Range<u64> {
        let first = (block * PACKED_OBJECTS) as u64;
        first..self.space.len().min(first + PACKED_OBJECTS as u64)
    }

    /// Whether a bound is sound for the distance of the space.
    ///
    /// # Errors
    /// What the distance does not obey, and the bound to use instead.
    pub fn allow(&self, bound: Bound) -> Result<(), Unsound> {
        self.space.measure().properties().allow(bound)
    }

    /// A query at these distances from the pivots, made ready to be bounded.
    ///
    /// # Errors
    /// When the bound is not sound, or the distances are none.
    pub fn query(
        &self,
        bound: Bound,
        query: &MetricQuery,
        distances: &[f64],
    ) -> Result<MetricBound, BoxError> {
        self.allow(bound)?;
        let distances: Vec<f64> = distances.iter().map(|distance| distance / self.unit).collect();
        let largest = distances.iter().fold(self.distance_max, |largest, distance| largest.max(*distance));
        if largest > FAR {
            return Ok(MetricBound { query: None, unit: self.unit });
        }
        let slack = self.space.slack(Some(query));
        let noise_squared = slack.noise_squared(largest * self.unit) / (self.unit * self.unit);
        let errors =
            TableErrors { distance_max: self.distance_max, noise_squared, spread_max: self.spread_max };
        let made: Result<BoundQuery, BoundError> =
            BoundQuery::new(bound, &distances, &self.between, &self.simplex, &errors);
        Ok(MetricBound { query: Some(made?), unit: self.unit })
    }

    /// Bounds the distances of the objects of a block, from below and above.
    pub fn bounds(
        &self,
        evaluator: &Evaluator,
        bound: &MetricBound,
        block: usize,
        out: &mut Vec<(f64, f64)>,
    ) {
        let count = self.places(block).count();
        let Some(query) = &bound.query else {
            out.extend(std::iter::repeat_n((0.0, f64::INFINITY), count));
            return;
        };
        let of = |numbers: usize| block * numbers * PACKED_OBJECTS..(block + 1) * numbers * PACKED_OBJECTS;
        let apexes = if self.apexes.is_empty() { &[] } else { &self.apexes[of(self.simplex.dimensions())] };
        let columns = Block { distances: &self.distances[of(self.pivots.len())], apexes };
        let mut bounds = Bounds::default();
        evaluator.bounds(query, columns, &mut bounds);
        let pairs = bounds.lower.iter().zip(&bounds.upper).take(count);
        out.extend(pairs.map(|(low, up)| (f64::from(*low) * bound.unit, f64::from(*up) * bound.unit)));
    }
}

/// The evaluator of this machine.
pub fn evaluator() -> Evaluator {
    Evaluator::new(CodePath::detect())
}

/// The least power of two above a distance; 1 for 0. Dividing by it rounds nothing.
fn power_above(distance: f64) -> f64 {
    let exponent = distance.to_bits() >> 52;
    match exponent {
        // No normal number: all distances are 0, or as good as that.
        0 => 1.0,
        _ => f64::from_bits((exponent + 1).min(2045) << 52),
    }
}

/// Pivots of a space of any distance, shared by requests as [`MetricPivots`].
pub static METRIC_PIVOTS: ResourceSpec = ResourceSpec {
    name: "metric_pivots",
    about: "The distances of all objects of a metric space to a few of them, computed when the pipeline is prepared.",
    parameters: &[
        Parameter::new(
            "space",
            ParameterType::Resource("metric_space"),
            Default::Required,
            "objects and distance",
        ),
        Parameter::new(
            "count",
            ParameterType::Integer { minimum: 1, maximum: PIVOTS_MAX as i64 },
            Default::Integer(16),
            "how many pivots; fewer where there are fewer different objects",
        )
        .unit("objects"),
        Parameter::new(
            "seed",
            ParameterType::integer_from(0),
            Default::Integer(1),
            "the seed of their choice",
        ),
    ],
    example: "pivots: {kind: metric_pivots, space: space, count: 16}",
    check: None,
    load,
};

fn load(bind: &Bind<'_>) -> Result<Resource, BoxError> {
    let (count, seed) = (bind.count("count"), bind.count("seed") as u64);
    let pivots = MetricPivots::new(bind.resource("space")?, count, seed, bind.cancellation())?;
    Ok(Arc::new(pivots))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_powers_of_two_above_all() {
        for distance in [1e-300, 1e-30, 0.3, 1.0, 2.0, 1e38, 1e300] {
            let unit = power_above(distance);
            assert!(unit > distance && unit <= 2.0 * distance, "{distance:e}: {unit:e}");
            assert_eq!(unit.to_bits() & ((1 << 52) - 1), 0);
        }
        assert_eq!(power_above(0.0), 1.0);
    }
}
