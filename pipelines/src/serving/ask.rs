//! One request of the engine as a future.
//!
//! Invariant: a future that is dropped cancels its request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use boxwork_runtime::Request;
use boxwork_runtime::operator::{RequestInput, RequestOutput};
use boxwork_runtime::parameter::Value;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::{Outcome, RequestError, Submission};
use boxwork_server::Refusal;
use boxwork_stores::space::SharedSpace;
use boxwork_stores::spaces;
use tokio::sync::oneshot;

use crate::engine::Engine;

/// A prepared pipeline with the boxes that take and give envelopes.
#[derive(Clone)]
pub(super) struct Ready {
    /// The pipeline.
    pub(super) prepared: Arc<Prepared>,
    /// The box that takes envelopes.
    pub(super) input: String,
    /// The box that gives envelopes.
    pub(super) output: String,
}

/// A request that is cancelled when it is dropped.
struct Cancelled(Option<Request>);

impl Drop for Cancelled {
    fn drop(&mut self) {
        if let Some(request) = self.0.take() {
            request.cancel();
        }
    }
}

impl Ready {
    /// The distance of its space in words, and whether it may be negative.
    pub(super) fn measure(&self) -> Option<(String, bool)> {
        let resources = &self.prepared.plan().resources;
        let resources = resources.iter().filter_map(|resource| self.prepared.resource(&resource.name));
        resources
            .filter_map(|resource| resource.downcast_ref::<SharedSpace>())
            .map(|space| (spaces::in_words(&*space.0), space.0.properties().signed))
            .next()
    }

    /// Runs one request with these values and, if there are any, envelopes. Returns what came out, and the outcome.
    pub(super) async fn ask(
        &self,
        engine: &Engine,
        values: BTreeMap<String, Value>,
        given: Option<Vec<RecordBatch>>,
        deadline: Option<Instant>,
    ) -> Result<(Vec<RecordBatch>, Outcome), Refusal> {
        let (output, collected) = RequestOutput::collected();
        let given = given.map(|batches| (self.input.clone(), RequestInput::batches(batches)));
        let submission = Submission {
            values,
            deadline,
            inputs: given.into_iter().collect(),
            outputs: BTreeMap::from([(self.output.clone(), output)]),
            ..Submission::default()
        };
        let request = engine
            .submit(&self.prepared, &submission)
            .map_err(|error| Refusal::Internal(format!("a request cannot be made: {error}")))?;
        let (send, receive) = oneshot::channel();
        request.on_end(move |outcome| {
            // Without a receiver the client has gone.
            let _ = send.send(outcome);
        });
        let mut cancelled = Cancelled(Some(request));
        let outcome = receive.await;
        cancelled.0 = None;
        let outcome = outcome.map_err(|_| Refusal::Stopping)?;
        match &outcome.result {
            Ok(()) => Ok((collected.take(), outcome)),
            Err(RequestError::DeadlinePassed) => {
                Err(Refusal::TooSlow("the request was cancelled at its deadline".to_owned()))
            }
            Err(RequestError::Cancelled) => Err(Refusal::Stopping),
            Err(error) => Err(Refusal::Internal(error.to_string())),
        }
    }
}
