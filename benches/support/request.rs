//! Requests of prepared pipelines, by the wall clock.

use std::sync::Arc;
use std::time::Instant;

use boxwork_runtime::Runtime;
use boxwork_runtime::prepare::Prepared;
use boxwork_runtime::request::Submission;

/// Runs a pipeline once; its seconds by the wall clock.
pub fn seconds_of(runtime: &Runtime, prepared: &Arc<Prepared>) -> f64 {
    let begun = Instant::now();
    let request = runtime.submit(prepared, &Submission::default());
    let request = request.unwrap_or_else(|error| panic!("{error}"));
    request.wait().result.unwrap_or_else(|error| panic!("{error}"));
    begun.elapsed().as_secs_f64()
}
