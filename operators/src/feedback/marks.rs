//! The marks of a session, and the model fitted to them, as rows on edges.
//!
//! Invariant: a request has the marks of one session, query 0; their numbers ascend from 0 without a gap.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, ListArray, StringArray, UInt32Array, UInt64Array};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};
use boxwork_kernels::gaussian_process::{MARKS_MAX, Model};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::BoxError;
use boxwork_stores::store::concatenated;

/// Ids from here on, downwards, are those of marks whose objects are not in the store; [`NO_MARK`] is above.
const FOREIGN_FIRST: u64 = u64::MAX - 1;
/// The id that stands for no mark.
pub(crate) const NO_MARK: u64 = u64::MAX;

/// The key of the note with the shift and the scale of numbers that are no relevances.
pub(crate) const SCALING_NOTE: &str = "gp_scaling";
/// The least variance of a number's noise.
pub(crate) const TARGET_NOISE_MIN: f64 = 1e-6;

/// The id of the `nth` mark whose object is not in the store.
pub(crate) const fn foreign_id(nth: u64) -> u64 {
    FOREIGN_FIRST - nth
}

/// Whether the id of a mark is that of an object in the store.
pub(crate) const fn is_stored(id: u64) -> bool {
    id <= FOREIGN_FIRST - MARKS_MAX as u64
}

/// One judgement.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    /// The object's id, or [`foreign_id`].
    pub(crate) id: u64,
    pub(crate) name: String,
    /// An array of one object.
    pub(crate) object: ArrayRef,
    /// From 0, disliked, to 1, liked; or a number with mean 0 and deviation 1 over all marks.
    pub(crate) relevance: f64,
    /// The variance of the relevance's noise.
    pub(crate) noise: f64,
}

impl Mark {
    /// Whether the object is in the store.
    pub(crate) fn is_stored(&self) -> bool {
        is_stored(self.id)
    }
}

/// The marks of the envelopes of a side input.
pub(crate) fn of_envelopes(envelopes: &[Envelope]) -> Result<Vec<Mark>, BoxError> {
    let mut marks = Vec::new();
    for envelope in envelopes {
        let (queries, numbers, ids) = (envelope.u32s("query")?, envelope.u32s("mark")?, envelope.u64s("id")?);
        let (names, objects) = (envelope.texts("name")?, envelope.column("object")?);
        let (relevances, noises) = (envelope.f64s("relevance")?, envelope.f64s("noise")?);
        for row in 0..envelope.rows() {
            if queries[row] != 0 || numbers[row] as usize != marks.len() {
                return Err(BoxError::new(format!(
                    "mark {} of query {} came where mark {} of query 0 was expected: a request has the marks of one \
                     session, numbered from 0",
                    numbers[row],
                    queries[row],
                    marks.len()
                )));
            }
            let (relevance, noise) = (relevances[row], noises[row]);
            if !(relevance.is_finite() && noise >= TARGET_NOISE_MIN && noise.is_finite()) {
                return Err(BoxError::new(format!(
                    "mark {}: its relevance is {relevance} with a noise of {noise}; a relevance is finite, and a noise at least \
                     {TARGET_NOISE_MIN:e}",
                    numbers[row]
                )));
            }
            marks.push(Mark {
                id: ids[row],
                name: names.value(row).to_owned(),
                object: objects.slice(row, 1),
                relevance,
                noise,
            });
        }
    }
    if marks.len() > MARKS_MAX {
        return Err(BoxError::new(format!(
            "there are {} marks, and a model has {MARKS_MAX} at most",
            marks.len()
        )));
    }
    Ok(marks)
}

/// The envelope of marks; nothing if there are none.
pub(crate) fn envelope(marks: &[Mark]) -> Result<Option<Envelope>, BoxError> {
    if marks.is_empty() {
        return Ok(None);
    }
    let objects: Vec<ArrayRef> = marks.iter().map(|mark| Arc::clone(&mark.object)).collect();
    let numbers = 0..marks.len() as u32;
    let columns: [(&str, ArrayRef); 7] = [
        ("query", Arc::new(UInt32Array::from(vec![0; marks.len()]))),
        ("mark", Arc::new(UInt32Array::from_iter_values(numbers))),
        ("id", Arc::new(UInt64Array::from_iter_values(marks.iter().map(|mark| mark.id)))),
        ("name", Arc::new(StringArray::from_iter_values(marks.iter().map(|mark| &mark.name)))),
        ("object", concatenated(&objects)?),
        ("relevance", Arc::new(Float64Array::from_iter_values(marks.iter().map(|mark| mark.relevance)))),
        ("noise", Arc::new(Float64Array::from_iter_values(marks.iter().map(|mark| mark.noise)))),
    ];
    Ok(Some(Envelope::from_columns(columns)?))
}

/// The marks of a session with the model fitted to them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fitted {
    pub(crate) marks: Vec<Mark>,
    /// The weight of each mark: see [`Model::weights`].
    pub(crate) weights: Vec<f64>,
    /// Rows of the factor, packed: row i has i + 1 numbers.
    factor: Vec<f64>,
}

impl Fitted {
    /// The model of the envelopes of a side input.
    pub(crate) fn of_envelopes(envelopes: &[Envelope]) -> Result<Self, BoxError> {
        let marks = of_envelopes(envelopes)?;
        let (mut weights, mut factor) = (Vec::with_capacity(marks.len()), Vec::new());
        for envelope in envelopes {
            weights.extend_from_slice(envelope.f64s("alpha")?);
            let rows = envelope.lists("row")?;
            for row in 0..rows.len() {
                let numbers = rows.value(row);
                let numbers = numbers.as_any().downcast_ref::<Float64Array>();
                let numbers = numbers.filter(|numbers| numbers.len() == weights_before(&factor) + 1);
                let wrong = || BoxError::new(format!("row {row} of the factor has not {} numbers", row + 1));
                factor.extend_from_slice(numbers.ok_or_else(wrong)?.values());
            }
        }
        Ok(Self { marks, weights, factor })
    }

    /// The envelope of marks and a model fitted to them; nothing if there are none.
    pub(crate) fn envelope(marks: &[Envelope], model: &Model) -> Result<Option<Envelope>, BoxError> {
        let Some(envelope) = envelope(&of_envelopes(marks)?)? else { return Ok(None) };
        let rows: Vec<&[f64]> = (0..model.len()).map(|mark| model.factor_row(mark)).collect();
        let offsets = OffsetBuffer::<i32>::from_lengths(rows.iter().map(|row| row.len()));
        let values = Float64Array::new(ScalarBuffer::from(rows.concat()), None);
        let item = Arc::new(Field::new("item", DataType::Float64, false));
        let columns: [(&str, ArrayRef); 2] = [
            ("alpha", Arc::new(Float64Array::from(model.weights()))),
            ("row", Arc::new(ListArray::new(item, offsets, Arc::new(values), None))),
        ];
        let batch = envelope.batch();
        let fields = batch.schema();
        let known = fields.fields().iter().map(|field| field.name().as_str());
        let known = known.zip(batch.columns().iter().map(Arc::clone));
        let fitted = Envelope::from_columns(known.chain(columns).collect::<Vec<_>>())?;
        let scaling = marks.first().and_then(|first| first.note(SCALING_NOTE));
        Ok(Some(match scaling {
            Some(scaling) => fitted.with_note(SCALING_NOTE, scaling),
            None => fitted,
        }))
    }

    /// Row `mark` of the factor up to its pivot.
    pub(crate) fn factor_row(&self, mark: usize) -> &[f64] {
        let start = mark * (mark + 1) / 2;
        &self.factor[start..=start + mark]
    }

    /// The weight of the deviation in the choice. If all scores are 0, means say nothing, and the deviation alone orders.
    pub(crate) fn explore(&self, explore: f64) -> f64 {
        if self.marks.iter().all(|mark| mark.relevance == 0.0) { 1.0 } else { explore }
    }
}

/// The rows that a packed triangle of this many numbers has.
fn weights_before(factor: &[f64]) -> usize {
    ((8 * factor.len() + 1).isqrt() - 1) / 2
}
