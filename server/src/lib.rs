//! HTTP for Boxwork: search, sessions of feedback, thumbnails and a page.
//!
//! The crate knows HTTP, sessions and limits. It knows no distance, no store and no pipeline: what computes implements
//! [`Backend`]. Modules are in reading order and import only modules above them.

pub mod problem;
pub mod limits;
pub mod log;
pub mod backend;
pub mod figures;
pub mod gate;
pub mod body;
mod pictures;
pub mod session;
pub mod sessions;
pub mod app;
pub mod guard;
mod answer;
mod segments;
pub mod page;
pub mod api;
pub mod openapi;
mod connection;
pub mod server;

pub use app::Config;
pub use backend::{Answer, Backend, Refusal, Snapshot};
pub use limits::Limits;
pub use log::Log;
pub use server::{Bound, Server};
