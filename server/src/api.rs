//! The handlers, by subject; each takes a request apart, asks the backend, and puts the answer together.

pub mod shapes;
pub mod stores;
pub mod query;
pub mod search;
pub mod question;
pub mod steps;
pub mod replay;
pub mod sessions;
pub mod health;
pub mod plain;
