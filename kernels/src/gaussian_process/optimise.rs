//! The parameters of the greatest likelihood: projected L-BFGS over their logarithms, within their bounds.
//!
//! Byrd, Lu, Nocedal and Zhu (1995) describe the problem; here variables at a bound against which the gradient pushes rest, the others
//! take the L-BFGS direction (Nocedal and Wright 2006, algorithm 7.4), and a line search finds a step of the strong Wolfe conditions
//! (their algorithms 3.5 and 3.6) up to the first bound.

use super::device::Stopped;
use super::fitting::{Prior, Threads, condition};
use super::precision::{Precision, error_of_single};
use super::regression::{FitError, Jitter, Settings, refined, scaled, scaling, with_jitter};
use crate::chance::Random;
use crate::covariance::{Expression, Points};

/// Corrections that are kept.
const PAIRS: usize = 10;
/// Steps at most, from one start.
const STEPS_MAX: usize = 100;
/// The largest part of the projected gradient at the end.
const GRADIENT_MIN: f64 = 1e-5;
/// The part of a gain in likelihood that the error of a factor in f32 may be.
const IMPRECISE: f64 = 1e-3;
/// The constants of the Wolfe conditions: of the decrease, and of the slope.
const WOLFE: (f64, f64) = (1e-4, 0.9);
/// Evaluations of one line search at most.
const SEARCH_MAX: usize = 25;
/// Starts beside the given one at most.
pub const RESTARTS_MAX: usize = 1000;

/// The parameters that were found.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimised {
    /// The covariance with these parameters.
    pub expression: Expression,
    /// The logarithm of their likelihood.
    pub log_likelihood: f64,
    /// Evaluations of the likelihood with its gradient.
    pub evaluations: usize,
    /// Whether the gradient vanished; else the steps ran out, or no step improved it any more.
    pub converged: bool,
    /// Parameters that ended at a bound: their places in the expression.
    pub at_bounds: Vec<usize>,
}

/// The likelihood as a function of the logarithms of the free parameters.
struct Objective<'a> {
    points: &'a Points,
    targets: Vec<f64>,
    settings: &'a Settings,
    threads: &'a mut dyn Threads,
    /// The places of the free parameters.
    free: Vec<usize>,
    evaluations: usize,
}

/// A value to be made small, with its gradient.
type Point = (f64, Vec<f64>);

impl Objective<'_> {
    fn expression(&self, logs: &[f64]) -> Expression {
        let mut values: Vec<f64> =
            self.settings.expression.parameters().iter().map(|parameter| parameter.value).collect();
        for (place, log) in self.free.iter().zip(logs) {
            let (low, high) = self.settings.expression.parameters()[*place].bounds;
            values[*place] = log.exp().clamp(low, high);
        }
        self.settings.expression.with_values(&values)
    }

    /// Minus the likelihood, and its gradient; nothing where the matrix is not positive definite.
    fn at(&mut self, logs: &[f64]) -> Result<Option<Point>, FitError> {
        self.evaluations += 1;
        let expression = self.expression(logs);
        let prior = Prior { expression: &expression, points: self.points, added: self.settings.noise };
        // Without a jitter the likelihood has no jumps.
        let jitter = match self.settings.jitter {
            Jitter::Number(number) => number,
            Jitter::None | Jitter::Auto => 0.0,
        };
        let prior = Prior { added: prior.added + jitter, ..prior };
        let Some((value, gradient)) = self.likelihood(&prior)? else { return Ok(None) };
        let of_free = self.free.iter().map(|place| -gradient[*place]).collect();
        Ok(value.is_finite().then_some((-value, of_free)))
    }

    /// The likelihood and its gradient in the precision of the settings; nothing where there is no such factor.
    fn likelihood(&mut self, prior: &Prior<'_>) -> Result<Option<Point>, FitError> {
        let (targets, threads) = (&self.targets[..], &mut *self.threads);
        match self.settings.precision {
            Precision::F64 => of_definite(prior.with_slopes::<f64>(targets, threads)),
            Precision::F32 => of_definite(prior.with_slopes::<f32>(targets, threads)),
            Precision::Mixed => match refined(prior, targets, threads)? {
                Ok((fit, _)) => {
                    let slopes = prior.slopes_of(&fit, targets, threads);
                    of_definite(slopes.map(|slopes| (fit.log_likelihood, slopes)))
                }
                Err(_) => Ok(None),
            },
        }
    }

    /// The largest part of the projected gradient at the end: in f32 a larger one is rounding.
    fn gradient_min(&self) -> f64 {
        match self.settings.precision {
            Precision::F64 => GRADIENT_MIN,
            _ => GRADIENT_MIN.max(self.points.len() as f64 * 16.0 * f64::from(f32::EPSILON)),
        }
    }

    /// Fails if the likelihoods are those of a factor in f32 whose error is not small beside what was gained.
    fn must_be_precise(&mut self, found: &Found) -> Result<(), FitError> {
        if self.settings.precision == Precision::F64 || found.value == found.start {
            return Ok(());
        }
        let expression = self.expression(&found.logs);
        let jitter = if let Jitter::Number(number) = self.settings.jitter { number } else { 0.0 };
        let prior =
            Prior { expression: &expression, points: self.points, added: self.settings.noise + jitter };
        let fit = prior.likelihood::<f32>(&self.targets, self.threads);
        let condition = fit.and_then(|fit| condition(&prior, &|b| fit.solve(b), self.threads));
        let condition = condition.map_err(|_| FitError::Interrupted)?;
        let (error, gained) =
            (error_of_single(self.points.len(), condition), (found.start - found.value).abs());
        if error > IMPRECISE * gained { Err(FitError::Imprecise { error, gained }) } else { Ok(()) }
    }
}

/// Nothing where there is no factor.
fn of_definite(found: Result<Point, Stopped>) -> Result<Option<Point>, FitError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Stopped::NotPositiveDefinite { .. }) => Ok(None),
        Err(Stopped::Interrupted) => Err(FitError::Interrupted),
    }
}

/// The logarithm of the likelihood of samples under the covariance of the settings, in f64, and its derivatives by the logarithms of all
/// parameters. It takes two matrices of n (n + 128) / 2 numbers for n samples.
///
/// # Errors
/// When the targets cannot be scaled, the covariances are not positive definite, or the caller cancels.
///
/// # Panics
/// As [`Regression::fit`](super::Regression::fit).
pub fn likelihood(
    points: &Points,
    targets: &[f64],
    settings: &Settings,
    threads: &mut dyn Threads,
) -> Result<(f64, Vec<f64>), FitError> {
    assert_eq!(points.len(), targets.len(), "a target for each point");
    let targets = scaled(targets, scaling(targets, settings.normalize)?);
    let prior = Prior { expression: &settings.expression, points, added: settings.noise };
    let first = if let Jitter::Number(number) = settings.jitter { number } else { 0.0 };
    let found = Prior { added: settings.noise + first, ..prior }.with_slopes::<f64>(&targets, threads);
    if let Some(found) = of_definite(found)? {
        return Ok(found);
    }
    // A larger jitter, or the name of the sample that has no pivot.
    let (fit, jitter) = with_jitter::<f64>(prior, settings.jitter, &targets, threads)?;
    let prior = Prior { added: settings.noise + jitter, ..prior };
    let slopes = prior.slopes_of(&fit, &targets, threads).map_err(|_| FitError::Interrupted)?;
    Ok((fit.log_likelihood, slopes))
}

/// Finds the parameters of the greatest likelihood, from those of the settings and from `restarts` random starts within the bounds,
/// log-uniform from `seed`. The best likelihood wins, of equal ones the first start.
///
/// # Errors
/// When the targets cannot be scaled, no start has a positive definite matrix, or the caller cancels.
///
/// # Panics
/// As [`Regression::fit`](super::Regression::fit).
pub fn optimise(
    points: &Points,
    targets: &[f64],
    settings: &Settings,
    (restarts, seed): (usize, u64),
    threads: &mut dyn Threads,
) -> Result<Optimised, FitError> {
    assert_eq!(points.len(), targets.len(), "a target for each point");
    let scaled = scaled(targets, scaling(targets, settings.normalize)?);
    let parameters = settings.expression.parameters();
    let free: Vec<usize> = (0..parameters.len()).filter(|at| !parameters[*at].fixed).collect();
    let bounds: Vec<(f64, f64)> =
        free.iter().map(|at| (parameters[*at].bounds.0.ln(), parameters[*at].bounds.1.ln())).collect();
    let mut random = Random::mixed(seed);
    let mut starts = vec![free.iter().map(|at| parameters[*at].value.ln()).collect::<Vec<f64>>()];
    for _ in 0..restarts.min(RESTARTS_MAX) {
        starts.push(bounds.iter().map(|(low, high)| low + (high - low) * random.unit()).collect());
    }
    let mut objective = Objective { points, targets: scaled, settings, threads, free, evaluations: 0 };
    let mut best: Option<Found> = None;
    for start in starts {
        let Some(found) = descend(&mut objective, start, &bounds)? else { continue };
        if best.as_ref().is_none_or(|best| found.value < best.value) {
            best = Some(found);
        }
    }
    let Some(best) = best else { return Err(refused(&mut objective)) };
    objective.must_be_precise(&best)?;
    let at_bounds = objective.free.iter().zip(best.logs.iter().zip(&bounds));
    let at_bounds = at_bounds.filter(|(_, (log, (low, high)))| *log == low || *log == high);
    Ok(Optimised {
        at_bounds: at_bounds.map(|(place, _)| *place).collect(),
        expression: objective.expression(&best.logs),
        log_likelihood: -best.value,
        evaluations: objective.evaluations,
        converged: best.converged,
    })
}

/// The error of a covariance for which no start is positive definite.
fn refused(objective: &mut Objective<'_>) -> FitError {
    let settings = objective.settings;
    let prior = Prior { expression: &settings.expression, points: objective.points, added: settings.noise };
    match with_jitter::<f64>(prior, Jitter::None, &objective.targets, objective.threads) {
        Err(error) => error,
        // In f64 there is a factor, in f32 there is none.
        Ok(_) => FitError::Imprecise { error: f64::INFINITY, gained: 0.0 },
    }
}

struct Found {
    logs: Vec<f64>,
    value: f64,
    /// The value at the start.
    start: f64,
    converged: bool,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Descends from a start; nothing if the matrix is not positive definite there.
fn descend(
    objective: &mut Objective<'_>,
    mut logs: Vec<f64>,
    bounds: &[(f64, f64)],
) -> Result<Option<Found>, FitError> {
    let Some((mut value, mut gradient)) = objective.at(&logs)? else { return Ok(None) };
    let (begun, least) = (value, objective.gradient_min());
    let mut pairs: Vec<(Vec<f64>, Vec<f64>)> = Vec::new();
    for _ in 0..STEPS_MAX {
        let rests = |at: usize| {
            let (low, high) = bounds[at];
            logs[at] <= low && gradient[at] > 0.0 || logs[at] >= high && gradient[at] < 0.0
        };
        let resting: Vec<bool> = (0..logs.len()).map(rests).collect();
        let projected: Vec<f64> =
            gradient.iter().zip(&resting).map(|(g, rests)| if *rests { 0.0 } else { *g }).collect();
        if projected.iter().all(|g| g.abs() <= least) {
            return Ok(Some(Found { logs, value, start: begun, converged: true }));
        }
        let mut direction = downwards(&projected, &pairs);
        direction.iter_mut().zip(&resting).filter(|(_, rests)| **rests).for_each(|(d, _)| *d = 0.0);
        if dot(&direction, &projected) >= 0.0 {
            pairs.clear();
            direction = projected.iter().map(|g| -g).collect();
        }
        let first = if pairs.is_empty() { 1.0 / dot(&projected, &projected).sqrt().max(1.0) } else { 1.0 };
        let start =
            Line { logs: &logs, direction: &direction, bounds, value, slope: dot(&gradient, &direction) };
        let Some((to, found)) = search(objective, &start, first)? else {
            if pairs.is_empty() {
                break;
            }
            // Old corrections may mislead: once more down the gradient.
            pairs.clear();
            continue;
        };
        let step: Vec<f64> = to.iter().zip(&logs).map(|(a, b)| a - b).collect();
        let change: Vec<f64> = found.1.iter().zip(&gradient).map(|(a, b)| a - b).collect();
        if dot(&step, &change) > f64::EPSILON * dot(&change, &change) {
            if pairs.len() == PAIRS {
                pairs.remove(0);
            }
            pairs.push((step, change));
        }
        logs = to;
        (value, gradient) = found;
    }
    Ok(Some(Found { logs, value, start: begun, converged: false }))
}

/// The direction of L-BFGS.
fn downwards(gradient: &[f64], pairs: &[(Vec<f64>, Vec<f64>)]) -> Vec<f64> {
    let mut direction: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut parts = Vec::with_capacity(pairs.len());
    for (step, change) in pairs.iter().rev() {
        let part = dot(step, &direction) / dot(step, change);
        direction.iter_mut().zip(change).for_each(|(d, y)| *d -= part * y);
        parts.push(part);
    }
    if let Some((step, change)) = pairs.last() {
        let scale = dot(step, change) / dot(change, change);
        direction.iter_mut().for_each(|d| *d *= scale);
    }
    for ((step, change), part) in pairs.iter().zip(parts.into_iter().rev()) {
        let other = dot(change, &direction) / dot(step, change);
        direction.iter_mut().zip(step).for_each(|(d, s)| *d += (part - other) * s);
    }
    direction
}

/// A point with a direction, along which the value falls.
struct Line<'a> {
    logs: &'a [f64],
    direction: &'a [f64],
    bounds: &'a [(f64, f64)],
    value: f64,
    slope: f64,
}

impl Line<'_> {
    /// The step to the first bound.
    fn longest(&self) -> f64 {
        let steps = self.logs.iter().zip(self.direction).zip(self.bounds).map(|((log, d), (low, high))| {
            if *d > 0.0 {
                (high - log) / d
            } else if *d < 0.0 {
                (low - log) / d
            } else {
                f64::INFINITY
            }
        });
        steps.fold(f64::INFINITY, f64::min)
    }

    fn to(&self, step: f64) -> Vec<f64> {
        let moved = self.logs.iter().zip(self.direction).zip(self.bounds);
        // A variable whose bound is reached lies on it to the bit.
        let near = |x: f64, bound: f64| (x - bound).abs() <= 1e-12 * bound.abs().max(1.0);
        moved
            .map(|((log, d), (low, high))| match (log + step * d).clamp(*low, *high) {
                x if near(x, *low) && *d < 0.0 => *low,
                x if near(x, *high) && *d > 0.0 => *high,
                x => x,
            })
            .collect()
    }
}

/// A step along a line by the strong Wolfe conditions, or the longest one if the value falls that far.
fn search(
    objective: &mut Objective<'_>,
    line: &Line<'_>,
    first: f64,
) -> Result<Option<(Vec<f64>, Point)>, FitError> {
    let longest = line.longest();
    let (mut low, mut high): ((f64, f64, f64), Option<f64>) = ((0.0, line.value, line.slope), None);
    let mut best: Option<(Vec<f64>, Point)> = None;
    let mut step = first.min(longest);
    for _ in 0..SEARCH_MAX {
        let to = line.to(step);
        let Some(found) = objective.at(&to)? else {
            // Not positive definite: nearer.
            high = Some(step);
            step = 0.5 * (low.0 + step);
            continue;
        };
        let slope = dot(&found.1, line.direction);
        let falls = found.0 <= line.value + WOLFE.0 * step * line.slope && found.0 < low.1;
        if !falls {
            high = Some(step);
            // The least of the parabola through the lower end with its slope, kept within the interval.
            let width = step - low.0;
            let part = -low.2 * width / (2.0 * (found.0 - low.1 - low.2 * width));
            step = low.0 + width * if part.is_finite() { part.clamp(0.1, 0.5) } else { 0.5 };
        } else {
            let flat = slope.abs() <= -WOLFE.1 * line.slope;
            best = Some((to, found.clone()));
            if flat || step >= longest && slope < 0.0 {
                return Ok(best);
            }
            if slope >= 0.0 {
                // The least lies behind.
                high = Some(low.0);
            }
            let before = low.0;
            low = (step, found.0, slope);
            step = match high {
                Some(high) => 0.5 * (low.0 + high),
                None => (step + 2.0 * (step - before).max(step)).min(longest),
            };
        }
        if high.is_some_and(|high| (high - low.0).abs() <= 1e-14 * low.0.abs().max(1e-3)) {
            break;
        }
    }
    Ok(best)
}
