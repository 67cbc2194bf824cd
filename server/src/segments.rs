//! The parts of an address that a route leaves open.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::problem::{Kind, Problem};

/// The open parts of a route.
#[derive(Debug)]
pub struct Segments<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Segments<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(segments)) => Ok(Self(segments)),
            Err(error) => {
                let detail = format!("a part of the address is wrong: {}", error.body_text());
                Err(Problem::new(Kind::MALFORMED, detail))
            }
        }
    }
}
