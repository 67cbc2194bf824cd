//! Rounds of feedback, the ranking and its reasons: questions of a session as requests of the pipelines `feedback`,
//! `feedback_ranking` and `feedback_why`.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use boxwork_runtime::parameter::Value;
use boxwork_server::Refusal;
use boxwork_server::backend::{Chosen, Mark, Question, Ranked, Reasons, Subject};
use boxwork_stores::store::{Store, concatenated};

use super::ask::Ready;
use super::objects::{self, ids, internal, numbers};
use crate::engine::Engine;

/// Marks that reasons name.
const REASONS: usize = 5;
/// An object of more relevance is liked.
const LIKED: f64 = 0.5;
/// No mark.
const NOBODY: u64 = u64::MAX;

/// The marks of pictures, which are not in the store, as envelopes; nothing if there are none.
pub(super) fn given(question: &Question, store: &dyn Store) -> Result<Option<Vec<RecordBatch>>, Refusal> {
    let (mut names, mut arrays, mut relevances) = (Vec::new(), Vec::new(), Vec::new());
    for mark in &question.marks {
        if let Subject::Picture(picture) = &mark.subject {
            names.push(format!("picture {}", names.len() + 1));
            arrays.push(objects::array_of(picture, store).map_err(Refusal::Invalid)?);
            relevances.push(mark.relevance);
        }
    }
    if names.is_empty() {
        return Ok(None);
    }
    let columns: [(&str, ArrayRef); 3] = [
        ("name", Arc::new(StringArray::from(names))),
        ("object", concatenated(&arrays).map_err(internal)?),
        ("relevance", Arc::new(Float64Array::from(relevances))),
    ];
    let batch = RecordBatch::try_from_iter(columns).map_err(internal)?;
    Ok(Some(vec![batch]))
}

/// The values of a question's marks and of what was shown, for all three pipelines.
pub(super) fn values(question: &Question) -> BTreeMap<String, Value> {
    let mark = |mark: &Mark| match mark.subject {
        Subject::Object(id) => Some(Value::Text(format!("#{id}={}", mark.relevance))),
        Subject::Picture(_) => None,
    };
    let marks = question.marks.iter().filter_map(mark).collect();
    let seen = question.seen.iter().map(|id| Value::Text(format!("#{id}"))).collect();
    let unmarked = if question.weak { "weak" } else { "ignore" };
    BTreeMap::from([
        ("marks".to_owned(), Value::List(marks)),
        ("seen".to_owned(), Value::List(seen)),
        ("unmarked".to_owned(), Value::Text(unmarked.to_owned())),
    ])
}

/// A round.
pub(super) async fn round(
    ready: &Ready,
    engine: &Engine,
    question: &Question,
    given: Option<Vec<RecordBatch>>,
) -> Result<Vec<Chosen>, Refusal> {
    let mut values = values(question);
    values.insert("batch".to_owned(), Value::Integer(question.batch as i64));
    values.insert("explore".to_owned(), Value::Number(question.explore));
    values.insert("seed".to_owned(), Value::Integer(i64::try_from(question.seed).unwrap_or(i64::MAX)));
    if let Some(class) = &question.class {
        values.insert("class".to_owned(), Value::Text(class.clone()));
    }
    let (batches, _) = ready.ask(engine, values, given, None).await?;
    Ok(batches.iter().flat_map(chosen).collect())
}

/// The objects of a batch of a round.
fn chosen(batch: &RecordBatch) -> Vec<Chosen> {
    let share = |id: u64, share: f64| (id != NOBODY).then_some((id, share));
    let (id, mean, deviation) = (ids(batch, "id"), numbers(batch, "mean"), numbers(batch, "deviation"));
    let (upper, liked, disliked) = (numbers(batch, "upper"), ids(batch, "liked"), ids(batch, "disliked"));
    let (liked_share, disliked_share) = (numbers(batch, "liked_share"), numbers(batch, "disliked_share"));
    let row = |row: usize| Chosen {
        id: id[row],
        mean: mean[row],
        deviation: deviation[row],
        upper: upper[row],
        liked: share(liked[row], liked_share[row]),
        disliked: share(disliked[row], disliked_share[row]),
    };
    (0..batch.num_rows()).map(row).collect()
}

/// All objects by mean, the largest first: at most `limit`.
pub(super) async fn ranking(
    ready: &Ready,
    engine: &Engine,
    question: &Question,
    given: Option<Vec<RecordBatch>>,
    limit: usize,
) -> Result<Vec<Ranked>, Refusal> {
    let mut values = values(question);
    values.insert("limit".to_owned(), Value::Integer(limit as i64));
    if let Some(class) = &question.class {
        values.insert("class".to_owned(), Value::Text(class.clone()));
    }
    let (batches, _) = ready.ask(engine, values, given, None).await?;
    let ranked = |chosen: Chosen| Ranked { id: chosen.id, mean: chosen.mean, deviation: chosen.deviation };
    Ok(batches.iter().flat_map(chosen).map(ranked).collect())
}

/// Why an object is where it is.
pub(super) async fn why(
    ready: &Ready,
    engine: &Engine,
    question: &Question,
    given: Option<Vec<RecordBatch>>,
    id: u64,
) -> Result<Reasons, Refusal> {
    let mut values = values(question);
    values.insert("object".to_owned(), Value::Text(format!("#{id}")));
    let (batches, _) = ready.ask(engine, values, given, None).await?;
    let mut rows = Vec::new();
    let mut reasons = Reasons::default();
    for batch in batches.iter().filter(|batch| batch.num_rows() > 0) {
        (reasons.mean, reasons.deviation) = (numbers(batch, "mean")[0], numbers(batch, "deviation")[0]);
        let (marks, shares) = (ids(batch, "mark"), numbers(batch, "share"));
        let (relevances, distances) = (numbers(batch, "relevance"), numbers(batch, "distance"));
        let row = |row: usize| Reason {
            mark: marks[row],
            share: shares[row],
            relevance: relevances[row],
            distance: distances[row],
        };
        rows.extend((0..batch.num_rows()).map(row).filter(|reason| reason.mark != NOBODY));
    }
    rows.sort_by(|a, b| b.share.abs().total_cmp(&a.share.abs()).then(a.mark.cmp(&b.mark)));
    reasons.marks = rows.iter().take(REASONS).map(|reason| (reason.mark, reason.share)).collect();
    rows.retain(|reason| reason.relevance > LIKED);
    rows.sort_by(|a, b| a.distance.total_cmp(&b.distance).then(a.mark.cmp(&b.mark)));
    reasons.nearest_liked = rows.iter().take(REASONS).map(|reason| (reason.mark, reason.distance)).collect();
    Ok(reasons)
}

/// A mark's part in an object's mean.
struct Reason {
    mark: u64,
    share: f64,
    relevance: f64,
    distance: f64,
}
