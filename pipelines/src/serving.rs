//! What `boxwork serve` computes with: the server's backend over an engine.
//!
//! Invariants: each pipeline is prepared once for a state of a store, and requests are submitted with envelopes in memory;
//! no thread waits for a request; a state of a store that is replaced lives on for the requests that use it.

mod ask;
mod loaded;
mod names;
mod objects;
mod pictures;
mod pipelines;
mod of_vectors;
mod rounds;
mod snapshot;
mod stores;

pub use pipelines::Pipelines;
pub use stores::{Opening, Stores};
