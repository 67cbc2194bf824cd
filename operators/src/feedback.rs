//! Search by feedback: marks, the model that they make, and the objects to show next.
//!
//! A round is a pure function of a snapshot of the store, the parameters and the marks. `read_marks` gets the marks' objects,
//! `gp_fit` fits a Gaussian process to them, `gp_scan` bounds every object, `gp_shortlist` orders what may be shown, and
//! `gp_select` chooses a batch. `read_targets` gets other numbers of objects in place of marks, and `gp_objects` predicts them for all.
//!
//! Modules in reading order: `marks`, the rows on the edges and the model as boxes read it; `distances`, exact distances
//! between marks and objects; then the operators.

pub(crate) mod marks;
pub(crate) mod distances;
pub(crate) mod read_marks;
mod read_targets;
pub(crate) mod gp_fit;
pub(crate) mod gp_scan;
pub(crate) mod gp_shortlist;
pub(crate) mod gp_select;
pub(crate) mod gp_rank;
pub(crate) mod gp_explain;
mod gp_objects;
pub(crate) mod to_caller;
pub(crate) mod write_round;
pub(crate) mod write_reasons;
pub(crate) mod play_sessions;
pub(crate) mod session_report;
#[cfg(test)]
mod tests;

use boxwork_runtime::operator::OperatorSpec;

/// The operators of this folder, in the order in which data meets them.
pub(crate) static LIST: &[&OperatorSpec] = &[
    &read_marks::READ_MARKS,
    &read_targets::READ_TARGETS,
    &gp_fit::GP_FIT,
    &gp_scan::GP_SCAN,
    &gp_shortlist::GP_SHORTLIST,
    &gp_select::GP_SELECT,
    &gp_rank::GP_RANK,
    &gp_explain::GP_EXPLAIN,
    &gp_objects::GP_OBJECTS,
    &write_round::WRITE_ROUND,
    &write_reasons::WRITE_REASONS,
    &play_sessions::PLAY_SESSIONS,
    &session_report::SESSION_REPORT,
];
