//! Regression by Gaussian processes: samples, the model fitted to them, predictions.
//!
//! `read_samples` reads points and targets, `gp_fit_samples` fits a model or `gp_append` extends one, `write_gp_model` writes it;
//! `gp_predict` computes means and deviations, which `gp_score` compares with targets and `write_predictions` writes.
//!
//! Modules in reading order: `samples`, the rows on the edges; `on_device` and `on_slots`, what computes a fit; then the operators, with
//! `predict_block`, what devices predict.

pub(crate) mod samples;
mod on_device;
mod on_slots;
mod read_samples;
mod gp_fit_samples;
mod gp_append;
mod write_gp_model;
mod predict_block;
mod gp_predict;
mod gp_score;
mod page;
mod write_predictions;
#[cfg(test)]
mod tests;

use boxwork_runtime::operator::OperatorSpec;

/// The operators of this folder, in the order in which data meets them.
pub(crate) static LIST: &[&OperatorSpec] = &[
    &read_samples::READ_SAMPLES,
    &gp_fit_samples::GP_FIT_SAMPLES,
    &gp_append::GP_APPEND,
    &write_gp_model::WRITE_GP_MODEL,
    &gp_predict::GP_PREDICT,
    &gp_score::GP_SCORE,
    &write_predictions::WRITE_PREDICTIONS,
];
